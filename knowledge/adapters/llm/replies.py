"""Responses of the OpenAI protocol: vectors in the order of the texts, and the meaning of errors."""

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

from hardwon.errors import HardwonError
from knowledge.adapters.embedding_space import unit
from knowledge.models import Vector

if TYPE_CHECKING:
    import openai

_REASON_LENGTH = 200
_MIN_KEY_LENGTH = 8
MAX_PAUSE_SECONDS = 3600.0
"""The longest pause an endpoint may ask for, ours: with a wrong clock, a timestamp or milliseconds sent as seconds it
would not be called for years."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointKind:
    """The purpose of an endpoint, for messages and errors: `name` is the adjective, `closed` the part it is.

    `variable` begins its settings, all of which `settings` names; `parameters` are those of a request that they decide.
    `max_bytes` is the limit of a response.
    """

    name: str
    closed: str
    answers: str
    variable: str
    settings: str
    parameters: frozenset[str]
    max_bytes: int
    unavailable: MakesUnavailable
    rejected: type[HardwonError]


class TransientError(Exception):
    """An attempt failed and may be repeated; `for_all` delays every caller, `retry_delay` is the requested delay."""

    def __init__(self, reason: str, *, retry_after_seconds: float | None = None, for_all: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds
        self.for_all = for_all


class RefusedError(Exception):
    """The endpoint refuses these texts; `about_size` if it says that fewer or shorter ones would do.

    `param` is the parameter it blames, if any.
    """

    def __init__(self, reason: str, *, about_size: bool, param: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.about_size = about_size
        self.param = param


@dataclass(frozen=True, slots=True)
class Answer:
    """One vector of length 1 per text, in order, and the tokens the endpoint counted (0 if it reports none)."""

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
    """Return the tokens in the `usage` of a reply, 0 if there are none."""
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


def interpret_error(
    error: openai.APIStatusError, *, kind: EndpointKind, endpoint: str, model: str, key: str
) -> Exception:
    """Convert an error status: to the kind's `rejected` (any text), RefusedError (these texts) or PassingError."""
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
        delay = retry_delay(error.response.headers)
        return TransientError(
            f"answers {status}", retry_after_seconds=delay, for_all=status == 429 or delay is not None
        )
    return kind.rejected(f"{endpoint} answers {status} ({reason}): correct {kind.variable}_BASE_URL.")


def _text(value: object) -> str | None:
    """Return a field of an error if it is a text: JSON may hold anything there."""
    return value if isinstance(value, str) else None


def _reason(error: openai.APIStatusError, key: str) -> str:
    """Return the endpoint's message in one short line of printable characters, without the key."""
    body = error.body
    message = body.get("message") or _text(body.get("detail")) if isinstance(body, dict) else body
    if (elsewhere := error.response.headers.get("location")) and 300 <= error.status_code < 400:
        message = f"it sends requests on to {elsewhere}, and none goes there"
    text = str(message or f"status {error.status_code}")
    if len(key) >= _MIN_KEY_LENGTH:  # a shorter one is a word, which is in many others
        text = text.replace(key, "***")
    # it is stored, where NUL and lone surrogates are not allowed, and shown on terminals
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line[:_REASON_LENGTH].rstrip(".")


def retry_delay(headers: Mapping[str, str]) -> float | None:
    """Return the delay that an endpoint asks for: retry-after-ms, else Retry-After in seconds or as a date.

    At most `MAX_PAUSE_SECONDS`. None if it asks for none, or it cannot be parsed.
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        if math.isfinite(seconds):
            return min(max(seconds, 0.0), MAX_PAUSE_SECONDS)
    try:  # by the endpoint's own clock, which may differ from ours
        then, sent = (parsedate_to_datetime(headers.get(name, "")) for name in ("retry-after", "date"))
        return min(max((then - sent).total_seconds(), 0.0), MAX_PAUSE_SECONDS)
    except (ValueError, TypeError, OverflowError):
        return None
