"""Failures of the OpenAI protocol: their meaning, and the endpoint's own words in any of the forms they take.

A status does not tell if a failure is of one request or of the endpoint: only a harmless request does.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from hardwon.errors import HardwonError

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
_ABOUT_CONTEXT = re.compile(
    r"context (length|window|size)|sequence length|(input|prompt|text)s? (is|are) too (long|large)"
    r"|(maximum|max|exceed|limit)\w*\b.{0,40}\btokens?\b",
    re.IGNORECASE,
)
"""What a failure that may be of the load says of a text that is too long; a queue has a size, too."""
_REQUEST_TOO_LARGE = re.compile(r"request (is |was )?too large", re.IGNORECASE)
"""What a 429 says of a request that is above the tokens of a minute alone: no pause makes room for it."""
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_HIDDEN = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_WORDS = ("message", "detail", "msg", "error_description", "error_message", "reason", "title")
_NESTED = ("error", "errors", "detail", "metadata", "details")


class MakesUnavailable(Protocol):
    """The class of an error that says an endpoint does not answer."""

    def __call__(self, message: str, *, retry_after_seconds: float | None = None) -> HardwonError:
        """Make the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointKind:
    """The purpose of an endpoint, for messages and errors: `name` is the adjective, `closed` the part it is.

    `variable` begins its settings, all of which `settings` names. `max_bytes` is the limit of a response. `path` is the
    end of the address that requests go to.
    """

    name: str
    closed: str
    answers: str
    variable: str
    settings: str
    path: str
    max_bytes: int
    unavailable: MakesUnavailable
    rejected: type[HardwonError]


class TransientError(Exception):
    """An attempt failed and may be repeated; `retry_after_seconds` is the requested delay.

    `for_all`: the delay is every caller's. `of_request`: the request itself may be the reason. `has_reply`: the
    endpoint answered; `is_protocol`: in the protocol, so the address is right. `error`: no retry mends it, and this is
    what it means if other requests fail likewise.
    """

    def __init__(
        self,
        reason: str,
        *,
        retry_after_seconds: float | None = None,
        for_all: bool = False,
        of_request: bool = True,
        is_protocol: bool = False,
        about_size: bool = False,
        has_reply: bool = False,
        error: HardwonError | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds
        self.for_all = for_all
        self.of_request = of_request
        self.is_protocol = is_protocol
        self.about_size = about_size
        self.has_reply = has_reply
        self.error = error


class RefusedError(Exception):
    """The endpoint refuses this request; `about_size` if it says that fewer or shorter texts would do.

    `param` is the parameter it blames, if any.
    """

    def __init__(self, reason: str, *, about_size: bool, param: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.about_size = about_size
        self.param = param


class UnansweredError(Exception):
    """No attempt at a request was answered. `error` is what its caller is told, unless the request is the reason.

    That it may be is `of_request`; `about_size` as in RefusedError. `may_pass`: another try may succeed. `has_reply`:
    the endpoint answered, if not with what was asked for.
    """

    param = None

    def __init__(
        self,
        error: HardwonError,
        reason: str,
        *,
        of_request: bool,
        about_size: bool = False,
        may_pass: bool = True,
        has_reply: bool = False,
    ) -> None:
        super().__init__(reason)
        self.error = error
        self.reason = reason
        self.of_request = of_request
        self.about_size = about_size
        self.may_pass = may_pass
        self.has_reply = has_reply


class UnusableReplyError(ValueError):
    """A reply in the protocol that holds no answer; its text is what the endpoint does, such as "answers with ..."."""


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """The content of the body of an error. `is_protocol`: it is JSON, as the protocol has it."""

    words: str
    code: str | None = None
    kind: str | None = None
    param: str | None = None
    is_protocol: bool = False


def read_error(content: bytes) -> ErrorBody:
    """Return the content of the body of an error: JSON of any shape, a web page, plain text."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return ErrorBody(_page_text(content.decode(errors="replace")))
    if isinstance(body, str):
        return ErrorBody(body)
    if isinstance(body, list) and body and isinstance(body[0], dict):  # Gemini's
        body = body[0]
    if not isinstance(body, dict):
        return ErrorBody(json.dumps(body))
    inner = body["error"] if isinstance(body.get("error"), dict) else body
    words = "; ".join(dict.fromkeys(_words(body))) or json.dumps(inner, ensure_ascii=False)
    code = inner.get("code")
    return ErrorBody(
        words,
        code=str(code) if isinstance(code, int) else _text(code),
        kind=_text(inner.get("type")),
        param=_text(inner.get("param")) or _location(body.get("detail")),
        is_protocol=True,
    )


def _words(body: object, depth: int = 0) -> Iterator[str]:
    """Yield the sentences of an error: frameworks and proxies nest them."""
    if isinstance(body, str):
        yield body
    elif isinstance(body, list) and depth < 4:
        for each in body[:5]:
            yield from _words(each, depth + 1)
    elif isinstance(body, dict) and depth < 4:
        where = _location([body])
        for name in _WORDS:
            if isinstance(words := body.get(name), str) and words.strip():
                yield f"{where}: {words}" if where else words
                break
        for name in _NESTED:
            nested = body.get(name)
            if isinstance(nested, dict | list) or (name in {"error", "errors"} and isinstance(nested, str)):
                yield from _words(nested, depth + 1)
        if isinstance(raw := body.get("raw"), str):  # OpenRouter's words of the provider
            yield raw


def _location(detail: object) -> str | None:
    """Return the parameter that a list of validation errors, as of FastAPI, blames first."""
    first = detail[0] if isinstance(detail, list) and detail else None
    where = first.get("loc") if isinstance(first, dict) else None
    names = [each for each in where if isinstance(each, str) and each != "body"] if isinstance(where, list) else []
    return names[-1] if names else None


def _page_text(text: str) -> str:
    title = _TITLE.search(text)
    if title or "<html" in text.lower():
        shown = _HIDDEN.sub(" ", title.group(1) if title and title.group(1).strip() else text)
        return f"a web page: {' '.join(shown.split())}"
    return text


def _text(value: object) -> str | None:
    """Return a field of an error if it is a text: JSON may hold anything there."""
    return value if isinstance(value, str) else None


def interpret_status(
    status: int,
    content: bytes,
    headers: Mapping[str, str],
    *,
    kind: EndpointKind,
    endpoint: str,
    model: str,
    key: str,
) -> Exception:
    """Convert an error status: to the kind's `rejected` (any text), RefusedError (this request) or TransientError."""
    body = read_error(content)
    reason = one_line(_redirect(status, headers) or body.words, key)
    told = f"answers {status}" + (f" ({reason})" if reason else "")
    reason = reason or f"status {status}"
    refused_key = kind.rejected(f"{endpoint} refuses the key ({status}): set {kind.variable}_API_KEY to a valid one.")
    if status == 401:
        return refused_key
    if status == 402 or {body.code, body.kind} & _OUT_OF_QUOTA:
        return kind.rejected(
            f"{endpoint} says the quota of the key is spent ({status}): raise it, or set {kind.variable}_API_KEY to "
            "another key."
        )
    not_offered = kind.rejected(
        f"{endpoint} does not offer {model} as asked ({status}, {reason}): correct {kind.settings}."
    )
    if body.code == "model_not_found" or body.param == "model":
        return not_offered
    if status in {400, 413, 422}:
        about_size = status == 413 or bool(_ABOUT_SIZE.search(reason))
        return RefusedError(reason, about_size=about_size, param=body.param)
    # a firewall may answer 403 to a text, and a key without rights, a wrong address or a wrong path to every text
    errors = {403: refused_key, 404: not_offered, 405: not_offered}
    error: HardwonError | None = errors.get(status)
    if status == 429 and _REQUEST_TOO_LARGE.search(reason):
        error = kind.unavailable(f"{endpoint} {told}.")
    elif status in {408, 409, 425, 429} or status >= 500:
        return _interpret_transient(status, told, headers, is_protocol=body.is_protocol)
    elif error is None:
        error = kind.rejected(f"{endpoint} {told}: correct {kind.variable}_BASE_URL.")
    return TransientError(
        told,
        of_request=status >= 400,  # a redirect is of the address
        has_reply=True,
        is_protocol=body.is_protocol,
        about_size=status == 429,
        error=error,
    )


def _interpret_transient(status: int, told: str, headers: Mapping[str, str], *, is_protocol: bool) -> TransientError:
    delay = retry_delay(headers)
    for_all = status == 429 or delay is not None
    return TransientError(
        told,
        retry_after_seconds=delay,
        for_all=for_all,
        of_request=not for_all,
        has_reply=True,
        is_protocol=is_protocol,
        about_size=bool(_ABOUT_CONTEXT.search(told)),
    )


def interpret_reply(content: bytes) -> int | None:
    """Return the status that a reply of status 200 stands for, None unless it tells an error."""
    body: Any = None
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict) or not body.get("error"):
        return None
    for code in (read_error(content).code, body.get("status"), body.get("code")):
        if str(code).isdecimal() and 400 <= int(str(code)) <= 599:
            return int(str(code))
    return 500


def _redirect(status: int, headers: Mapping[str, str]) -> str | None:
    if 300 <= status < 400 and (elsewhere := headers.get("location")):
        return f"it sends requests on to {elsewhere}, and none goes there"
    return None


def one_line(text: str, key: str = "") -> str:
    """Return a text as one short line of printable characters, without the key."""
    if len(key) >= _MIN_KEY_LENGTH:  # a shorter one is a word, which is in many others
        text = text.replace(key, "***")
    # it is stored, where NUL and lone surrogates are not allowed, and shown on terminals
    line = " ".join("".join(each if each.isprintable() else " " for each in text[: 50 * _REASON_LENGTH]).split())
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
