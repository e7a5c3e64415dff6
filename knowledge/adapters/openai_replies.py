"""What an endpoint of the OpenAI protocol says: vectors in the order of the texts, or what its refusal means."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict

from knowledge.adapters.embedding_space import unit
from knowledge.errors import HardwonError
from knowledge.models import Vector

if TYPE_CHECKING:
    import openai

_REASON_LENGTH = 200
_LEAST_OF_A_KEY = 8
LONGEST_PAUSE_SECONDS = 3600.0
"""What an endpoint may ask for at most, ours: a date of a wrong clock, a moment or milliseconds sent as seconds would
keep it from being asked for years."""
_OUT_OF_QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_ABOUT_SIZE = re.compile(
    r"too (long|large|many)|context length|batch size|(less|more) than \d+|at most \d+"
    r"|(maximum|exceed).*(length|limit|size|tokens|inputs)",
    re.IGNORECASE,
)


class MakesUnavailable(Protocol):
    """The class of an error that says an endpoint does not answer."""

    def __call__(self, message: str, *, retry_after_seconds: float | None = None) -> HardwonError:
        """Make the error."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointKind:
    """What an endpoint is for, in the words and errors of hardwon: `name` is the adjective, `closed` the part it is.

    `variable` begins its settings, all of which `settings` names; `parameters` are those of a request that they decide.
    `most_bytes` is what an answer may have.
    """

    name: str
    closed: str
    answers: str
    variable: str
    settings: str
    parameters: frozenset[str]
    most_bytes: int
    unavailable: MakesUnavailable
    rejected: type[HardwonError]


class PassingError(Exception):
    """A try failed in a way that another may not; `for_all` holds back every caller, `told_seconds` says how long."""

    def __init__(self, reason: str, *, told_seconds: float | None = None, for_all: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.told_seconds = told_seconds
        self.for_all = for_all


class RefusedError(Exception):
    """The endpoint will not take these texts; `about_size` where it says that less would do.

    `param` is the parameter it blames, if any.
    """

    def __init__(self, reason: str, *, about_size: bool, param: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.about_size = about_size
        self.param = param


@dataclass(frozen=True, slots=True)
class Answer:
    """One vector of length 1 per text, in order, and the tokens the endpoint counted (0 where it tells none)."""

    rows: Vector
    tokens: int


class _Row(BaseModel):
    model_config = ConfigDict(strict=True)
    index: int
    embedding: str | list[float]


class _Reply(BaseModel):
    data: list[_Row]
    usage: Any = None


def read_reply(content: bytes, texts: int) -> Answer:
    """Return the vectors of a reply in the order of the texts, whatever order it has them in.

    Raises ValueError for anything but exactly one usable vector for each text, all of one size.
    """
    reply = _Reply.model_validate_json(content)
    by_index = {row.index: _numbers(row.embedding) for row in reply.data}
    if len(reply.data) != texts or by_index.keys() != set(range(texts)):
        raise ValueError("the reply has not one vector for each text")
    rows = np.stack([by_index[index] for index in range(texts)])
    if not rows.shape[1]:
        raise ValueError("the vectors are empty")
    return Answer(unit(rows), tokens_used(reply.usage))


def tokens_used(usage: Any) -> int:
    """Return the tokens that the `usage` of a reply tells of, 0 where it tells of none."""
    used = usage.get("total_tokens") if isinstance(usage, dict) else None
    return max(0, used) if isinstance(used, int) else 0


def _numbers(embedding: str | list[float]) -> Vector:
    if isinstance(embedding, list):  # some servers know no base64
        with np.errstate(over="ignore"):
            return np.asarray(embedding, dtype=np.float32)
    try:
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float32)
    except binascii.Error as exc:
        raise ValueError("a vector is not base64") from exc


def judged(error: openai.APIStatusError, *, kind: EndpointKind, endpoint: str, model: str, key: str) -> Exception:
    """Return what an error status means: the kind's `rejected` (any text), RefusedError (these) or PassingError."""
    status = error.status_code
    code, blamed = _text(error.code), _text(error.param)
    if status in {401, 403}:
        return kind.rejected(f"{endpoint} refuses the key ({status}): set {kind.variable}_API_KEY to a valid one.")
    if status == 402 or {code, _text(error.type)} & _OUT_OF_QUOTA:
        return kind.rejected(
            f"{endpoint} says the quota of the key is spent ({status}): raise it, or set {kind.variable}_API_KEY to "
            "another key."
        )
    reason = _reason(error, key)
    if status in {404, 405} or code == "model_not_found" or blamed in kind.parameters:
        return kind.rejected(
            f"{endpoint} does not offer {model} as asked ({status}, {reason}): correct {kind.settings}."
        )
    if status in {400, 413, 422}:
        about_size = status == 413 or bool(_ABOUT_SIZE.search(reason))
        return RefusedError(reason, about_size=about_size, param=blamed)
    if status in {408, 409, 425, 429} or status >= 500:
        told = told_seconds(error.response.headers)
        return PassingError(f"answers {status}", told_seconds=told, for_all=status == 429 or told is not None)
    return kind.rejected(f"{endpoint} answers {status} ({reason}): correct {kind.variable}_BASE_URL.")


def _text(told: object) -> str | None:
    """Return a field of an error where it is the text that it is to be: whatever JSON holds may stand there."""
    return told if isinstance(told, str) else None


def _reason(error: openai.APIStatusError, key: str) -> str:
    """Return what the endpoint said, in one line, short and without the key; of characters those that show."""
    body = error.body
    said = body.get("message") or _text(body.get("detail")) if isinstance(body, dict) else body
    if (elsewhere := error.response.headers.get("location")) and 300 <= error.status_code < 400:
        said = f"it sends requests on to {elsewhere}, and none goes there"
    told = str(said or f"status {error.status_code}")
    if len(key) >= _LEAST_OF_A_KEY:  # a shorter one is a word, which stands in many others
        told = told.replace(key, "***")
    # it is stored, where no NUL or half a character can be, and shown on terminals
    line = " ".join("".join(each if each.isprintable() else " " for each in told).split())
    return line[:_REASON_LENGTH].rstrip(".")


def told_seconds(headers: Mapping[str, str]) -> float | None:
    """Return how long an endpoint asks to be left alone: retry-after-ms, else Retry-After in seconds or as a date.

    `LONGEST_PAUSE_SECONDS` at most. None where it does not ask, or nothing can be made of it.
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            told = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        if math.isfinite(told):
            return min(max(told, 0.0), LONGEST_PAUSE_SECONDS)
    try:  # by the endpoint's own clock, which ours may differ from
        then, sent = (parsedate_to_datetime(headers.get(name, "")) for name in ("retry-after", "date"))
        return min(max((then - sent).total_seconds(), 0.0), LONGEST_PAUSE_SECONDS)
    except (ValueError, TypeError, OverflowError):
        return None
