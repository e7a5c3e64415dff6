"""Pages of GitHub's REST API about pull requests, as `gh api` prints them: concatenated, in any order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from hardwon.errors import InvalidInput
from hardwon.validation import kind_of

MAX_BYTES = 64 * 1024 * 1024
_PULL = re.compile(r"/repos/[^/]+/([^/]+)/pulls/(\d+)$")
_WORD = re.compile(r"\S")
_BOT = re.compile(
    r"\[bot\]$|(?:^|[-_])(?:ro)?bot$|^(?:dependabot|renovate|mergify|codecov(?:-io|-commenter)?|coderabbitai|copilot)$",
    re.IGNORECASE,
)
_SUGGESTION = re.compile(r"^[ \t]*```suggestion[^\n]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)


class _Page(BaseModel):
    """An object of a page; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)


class User(_Page):
    """The author; the login is compared and never stored."""

    login: str = ""
    type: str = "User"

    @property
    def is_bot(self) -> bool:
        """True for a program; some run under a user's account."""
        return self.type == "Bot" or _BOT.search(self.login) is not None


class _PullRequestPart(_Page):
    id: int
    pull_request_url: str
    user: User = User()
    body: str = ""

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, row: object) -> object:
        """Treat null as missing: a deleted user, a review without a text."""
        return {name: value for name, value in row.items() if value is not None} if isinstance(row, dict) else row

    @property
    def pull_request(self) -> tuple[str, int]:
        """The repository's name and the number of the pull request."""
        return _pull_request_of(self.pull_request_url)


class Review(_PullRequestPart):
    """A review: the decision and its text."""

    state: str
    submitted_at: str | None = None
    commit_id: str | None = None

    @field_validator("state")
    @classmethod
    def _capitalise(cls, state: str) -> str:
        """Return the state as the REST API writes it; events of webhooks have it in lower case."""
        return state.upper()


class Comment(_PullRequestPart):
    """A comment on a line of the changes, or the reply to one."""

    review_id: int | None = Field(None, alias="pull_request_review_id")
    reply_to: int | None = Field(None, alias="in_reply_to_id")
    path: str = ""
    line: int | None = None
    original_line: int | None = None
    position: int | None = None
    original_position: int | None = None
    diff_hunk: str = ""
    created_at: str = ""

    @property
    def place(self) -> str:
        """The file and line that it comments on."""
        line = self.line or self.original_line
        return f"{self.path}:{line}" if line else self.path

    @property
    def is_outdated(self) -> bool:
        """True where a later push changed the line: GitHub then drops its number and keeps the original one."""
        has_place = self.line is not None or self.position is not None
        return not has_place and (self.original_line is not None or self.original_position is not None)


class PullRequest(_Page):
    """The proposal."""

    url: str
    number: int
    title: str
    body: str | None = None
    user: User | None = None
    state: str = ""
    merged: bool | None = None
    merged_at: str | None = None

    @property
    def is_closed_without_merge(self) -> bool:
        """True where the object says so; one without the time of its merge does not."""
        if self.state.lower() != "closed" or self.merged or self.merged_at:
            return False
        return self.merged is False or "merged_at" in self.model_fields_set

    @property
    def pull_request(self) -> tuple[str, int]:
        """The repository's name and the number."""
        return _pull_request_of(self.url)

    @property
    def words(self) -> str:
        """The title and the description."""
        return f"{self.title}\n\n{self.body or ''}".strip()


@dataclass(slots=True, kw_only=True)
class ReviewData:
    """The contents of a file, without duplicates."""

    pulls: list[PullRequest] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)


def suggestions(body: str) -> list[str]:
    """Return the suggested changes in a comment."""
    return [text.rstrip() for text in _SUGGESTION.findall(body.replace("\r\n", "\n")) if text.strip()]


def read_pages(file: Path) -> ReviewData:
    """Return the contents of a file. Raises InvalidInput for `file`, saying what is wrong with it."""
    data = ReviewData()
    keys: set[tuple[type[_Page], int | str]] = set()
    for number, row in enumerate(_iter_objects(file), start=1):
        try:
            each = _parse_object(row)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field_path = ".".join(map(str, first["loc"]))
            raise InvalidInput("file", f"{file}: object {number}: {field_path}: {first['msg']}") from error
        except ValueError as error:
            raise InvalidInput("file", f"{file}: object {number} {error}") from error
        key = (type(each), each.url if isinstance(each, PullRequest) else each.id)
        if key in keys:
            continue
        keys.add(key)
        match each:
            case PullRequest():
                data.pulls.append(each)
            case Review():
                data.reviews.append(each)
            case Comment():
                data.comments.append(each)
    return data


def _parse_object(row: dict[str, Any]) -> PullRequest | Review | Comment:
    each: PullRequest | Review | Comment
    if "diff_hunk" in row:
        each = Comment.model_validate(row)
    elif "pull_request_url" in row and "state" in row:
        each = Review.model_validate(row)
    elif "title" in row and "/pulls/" in str(row.get("url")):
        each = PullRequest.model_validate(row)
    else:
        raise ValueError("is not a pull request, review or review comment of GitHub's REST API")
    _ = each.pull_request
    return each


def _pull_request_of(address: str) -> tuple[str, int]:
    match = _PULL.search(address)
    if match is None:
        raise ValueError(f"is not at the address of a pull request: {address[:200]!r}")
    return match[1], int(match[2])


def _iter_objects(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file: one document or many, each an object, a page of them, or a list of pages."""
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput("file", f"{file} cannot be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise InvalidInput("file", f"{file} has more than the {MAX_BYTES:,} bytes allowed")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput("file", f"{file} is not UTF-8") from error
    decoder, at = json.JSONDecoder(), 0
    while (begins := _WORD.search(text, at)) is not None:
        try:
            document, at = decoder.raw_decode(text, begins.start())
        except (JSONDecodeError, RecursionError) as error:
            raise InvalidInput("file", f"{file} is not JSON: {error}") from error
        yield from _flatten(file, document)


def _flatten(file: Path, document: object) -> Iterator[dict[str, Any]]:
    pages = document if isinstance(document, list) else [document]
    for page in pages:
        for each in page if isinstance(page, list) else [page]:
            if not isinstance(each, dict):
                raise InvalidInput("file", f"{file} contains {kind_of(each)} where an object is expected")
            yield each
