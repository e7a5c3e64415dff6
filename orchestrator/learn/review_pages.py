"""Pages of GitHub's REST API about pull requests, as `gh api` prints them: one after the other, in any order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from knowledge.errors import InvalidInput

MAX_BYTES = 64 * 1024 * 1024
_PULL = re.compile(r"/repos/[^/]+/([^/]+)/pulls/(\d+)$")
_WORD = re.compile(r"\S")
_SUGGESTION = re.compile(r"^[ \t]*```suggestion[^\n]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)


class _Page(BaseModel):
    """An object of a page; what is not read is passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)


class User(_Page):
    """Who wrote it; a name is compared and never kept."""

    login: str = ""
    type: str = "User"


class _OfPull(_Page):
    id: int
    pull_request_url: str
    user: User = User()
    body: str = ""

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, told: object) -> object:
        """Take what is null as left out: a user who left, a review without words."""
        return {name: value for name, value in told.items() if value is not None} if isinstance(told, dict) else told

    @property
    def of(self) -> tuple[str, int]:
        """The repository's name and the number of the pull request."""
        return _of(self.pull_request_url)


class Review(_OfPull):
    """A review: what was decided, and in which words."""

    state: str
    submitted_at: str | None = None


class Comment(_OfPull):
    """A comment on a place in the changes, or the answer to one."""

    review_id: int | None = Field(None, alias="pull_request_review_id")
    answers: int | None = Field(None, alias="in_reply_to_id")
    path: str = ""
    line: int | None = None
    original_line: int | None = None
    diff_hunk: str = ""
    created_at: str = ""

    @property
    def place(self) -> str:
        """Where in the changes it stands."""
        line = self.line or self.original_line
        return f"{self.path}:{line}" if line else self.path


class PullRequest(_Page):
    """What was proposed."""

    url: str
    number: int
    title: str
    body: str | None = None

    @property
    def of(self) -> tuple[str, int]:
        """The repository's name and the number."""
        return _of(self.url)

    @property
    def words(self) -> str:
        """The title and the description."""
        return f"{self.title}\n\n{self.body or ''}".strip()


@dataclass(slots=True, kw_only=True)
class Found:
    """What a file holds, each once."""

    pulls: list[PullRequest] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)


def suggestions(body: str) -> list[str]:
    """Return the changes that a comment suggests to commit."""
    return [text.rstrip() for text in _SUGGESTION.findall(body.replace("\r\n", "\n")) if text.strip()]


def read_pages(file: Path) -> Found:
    """Return what a file holds. Raises InvalidInput for `file`, saying what is wrong with it."""
    found = Found()
    seen: set[tuple[type[_Page], int | str]] = set()
    for number, told in enumerate(_objects(file), start=1):
        try:
            each = _read(told)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise InvalidInput("file", f"{file}: object {number}: {place}: {first['msg']}") from error
        except ValueError as error:
            raise InvalidInput("file", f"{file}: object {number} {error}") from error
        name = (type(each), each.url if isinstance(each, PullRequest) else each.id)
        if name in seen:
            continue
        seen.add(name)
        match each:
            case PullRequest():
                found.pulls.append(each)
            case Review():
                found.reviews.append(each)
            case Comment():
                found.comments.append(each)
    return found


def _read(told: dict[str, Any]) -> PullRequest | Review | Comment:
    each: PullRequest | Review | Comment
    if "diff_hunk" in told:
        each = Comment.model_validate(told)
    elif "pull_request_url" in told and "state" in told:
        each = Review.model_validate(told)
    elif "title" in told and "/pulls/" in str(told.get("url")):
        each = PullRequest.model_validate(told)
    else:
        raise ValueError("is no pull request, review or review comment of GitHub's REST API")
    _ = each.of
    return each


def _of(address: str) -> tuple[str, int]:
    found = _PULL.search(address)
    if found is None:
        raise ValueError(f"names no pull request: {address[:200]!r}")
    return found[1], int(found[2])


def _objects(file: Path) -> Iterator[dict[str, Any]]:
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
        raise InvalidInput("file", f"{file} is no UTF-8") from error
    decoder, at = json.JSONDecoder(), 0
    while (begins := _WORD.search(text, at)) is not None:
        try:
            document, at = decoder.raw_decode(text, begins.start())
        except (JSONDecodeError, RecursionError) as error:
            raise InvalidInput("file", f"{file} is no JSON: {error}") from error
        yield from _flat(file, document)


def _flat(file: Path, document: object) -> Iterator[dict[str, Any]]:
    pages = document if isinstance(document, list) else [document]
    for page in pages:
        for each in page if isinstance(page, list) else [page]:
            if not isinstance(each, dict):
                raise InvalidInput("file", f"{file} holds a {type(each).__name__} where an object is expected")
            yield each
