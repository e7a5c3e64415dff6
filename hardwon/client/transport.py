"""Requests to a hardwon server, and its problem details as the original errors."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

import httpx
from pydantic import TypeAdapter, ValidationError

from hardwon import errors
from hardwon.errors import HardwonError, InvalidInput, NotFound, OwnerUnavailable, Unavailable
from hardwon.validation import check_unicode, kind_of

if TYPE_CHECKING:
    from hardwon.models.reports import Progress

WORKSPACE_HEADER = "Hardwon-Workspace"
"""Its value is percent-encoded where it is not plain ASCII."""
REPORTER_HEADER = "Hardwon-Reporter"
"""Names the agent whose word a request passes on: it is then treated as that agent's, whoever sends it."""
KEY_HEADER = "Hardwon-Key"
UNUSED_KEY = "unused"
"""The value of `KEY_HEADER` in responses of a server without keys to requests that have one."""
LEAVING_HEADER = "Hardwon-Leaving"
"""Marks the response to a request that a stopping server cancelled: the request may be repeated elsewhere."""
DEADLINE_HEADER = "Hardwon-Deadline-Ms"
"""Milliseconds after which the caller of a context goes on without it."""
QUICK_SECONDS = 60.0
"""Timeout of requests without long work."""
_SLOW_SECONDS = 5.0
"""Longest 503 that is retried, ours: a store that was silent for so long would only be waited for again."""
MAX_BODY_BYTES = 256 * 1024
"""Largest body of a request, except those below."""
MAX_TEXTS_BYTES = 2 * 1024 * 1024
"""Largest body with an entry, an event, a question or a task: five texts of 64 KiB, which JSON may expand six times,
and small fields. So what is valid in process is never rejected over HTTP."""
MCP_PATH = "/mcp"
MAX_MCP_BYTES = MAX_TEXTS_BYTES + MAX_BODY_BYTES
"""Largest body of an MCP request: the body of a request to the API, in its frame."""
BATCH_PATH = "/v1/entries:batch"
MAX_BATCH_BYTES = 16 * 1024 * 1024
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
"""A little more than the largest document, so that a larger one gets the error of documents."""
SPANS_PATH = "/v1/traces"
MAX_SPANS_BYTES = 4 * 1024 * 1024
"""Largest body with spans, with gzip and without: what gRPC takes by default, so that collectors keep to it."""
ARCHIVE_PATH = "/v1/archive"
ARCHIVE_TYPE = "application/gzip"
ENTRIES_PATH = "/v1/archive/entries"
ENTRIES_TYPE = "application/jsonl"
FILE_TYPE = "application/octet-stream"
KEYS_PATH = "/v1/keys"
REJECTION = "/reject"
"""The end of the paths by which a person deletes an entry in review."""
PROBLEM = "application/problem+json"
MAX_CONCURRENT_REQUESTS = 100
"""Largest number of concurrent requests of a client, except long work; others wait."""
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20)
"""A task that is cancelled just as it gets a connection of httpx's pool leaks it, unopened and counted: after a
hundred, no request is ever sent. So the pool has no limit, and tasks wait for `Api.slots` instead."""
WATCH_SECONDS = 0.5
"""Interval at which a client polls the progress of long work."""
_INVALID_SEGMENTS = frozenset({"", ".", ".."})
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkProgress:
    """The progress of long work; a total of None is unknown."""

    done: int
    total: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """Requests of one workspace; problem details are raised as the original errors."""

    http: httpx.AsyncClient
    workspace: str | None
    """None: that of the key."""
    server: str
    reporter: str | None = None
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT_REQUESTS))

    async def call(
        self,
        method: str,
        path: str,
        answer: type[Answer],
        *,
        body: object = None,
        params: dict[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = QUICK_SECONDS,
    ) -> Answer:
        """Return the answer to a request; raises the error of a problem, OwnerUnavailable without a response.

        A body of bytes is sent as it is, any other as JSON.
        """
        response = await self.send(
            method, path, body=body, params=params, headers=headers, timeout_seconds=timeout_seconds
        )
        return self.read(response, answer)

    def read(self, response: httpx.Response, answer: type[Answer]) -> Answer:
        """Return the answer in a response. Raises OwnerUnavailable where it is not of a hardwon server."""
        try:
            value: Answer = _adapter(answer).validate_json(response.content)  # type: ignore[arg-type] # a type is hashable
        except ValidationError as error:
            raise OwnerUnavailable(f"{self.server} answers, but not as a hardwon server: is it one?") from error
        return value

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: dict[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = QUICK_SECONDS,
    ) -> httpx.Response:
        """Return the response to a request; raises as `call` does.

        A request that the server refused with a Retry-After is repeated then, while there is time left.
        """
        _check_params(params or {})
        content_type = FILE_TYPE if isinstance(body, bytes) else "application/json"
        content = body if body is None or isinstance(body, bytes) else _encode_json(body)
        clock = asyncio.get_running_loop().time
        deadline = clock() + (timeout_seconds or QUICK_SECONDS)
        while True:
            sent_at = clock()
            async with self.slots if timeout_seconds is not None else nullcontext():
                with self._translate_errors():
                    response = await self.http.request(
                        method,
                        path,
                        content=content,
                        params=params,
                        headers={**self._headers(content_type), **(headers or {})},
                        timeout=httpx.Timeout(timeout_seconds, connect=5),
                    )
            if not response.is_error:
                return response
            wait = _retry_delay(response, quick=timeout_seconds is not None)
            silent = response.status_code == httpx.codes.SERVICE_UNAVAILABLE and clock() - sent_at > _SLOW_SECONDS
            if wait is None or silent or clock() + wait > deadline:
                raise _parse_error(response, self.server)
            await asyncio.sleep(wait)

    async def upload(
        self,
        path: str,
        chunks: AsyncIterator[bytes],
        answer: type[Answer],
        **params: str,
    ) -> Answer:
        """Send an archive and return the answer; raises as `call` does. A stream is sent once."""
        with self._translate_errors():
            response = await self.http.post(
                path,
                content=chunks,
                params=params,
                headers=self._headers(ARCHIVE_TYPE),
                timeout=httpx.Timeout(None, connect=5),
            )
        if response.is_error:
            raise _parse_error(response, self.server)
        return self.read(response, answer)

    async def download(self, path: str, **params: str) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a response as they arrive; raises as `call` does, also in the middle."""
        timeout = httpx.Timeout(None, connect=5)
        headers = self._headers("application/json")
        with self._translate_errors():
            async with self.http.stream("GET", path, params=params, headers=headers, timeout=timeout) as response:
                if response.is_error:
                    await response.aread()
                    raise _parse_error(response, self.server)
                async for chunk in response.aiter_raw():
                    yield chunk

    def _headers(self, content_type: str) -> dict[str, str]:
        workspace = {} if self.workspace is None else {WORKSPACE_HEADER: quote(self.workspace)}
        reporter = {} if self.reporter is None else {REPORTER_HEADER: self.reporter}
        return {**workspace, **reporter, "Content-Type": content_type}

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise OwnerUnavailable for the HTTP errors of a block."""
        try:
            yield
        except httpx.HTTPError as error:
            raise OwnerUnavailable(
                f"hardwon at {self.server} does not answer ({_describe(error)}): check that it runs, and"
                " HARDWON_API_URL where that is set"
            ) from error


def _describe(error: httpx.HTTPError) -> str:
    """Return what went wrong with a request, in words."""
    if isinstance(error, httpx.TimeoutException):
        return "it timed out"
    return "no connection" if isinstance(error, httpx.ConnectError) else "the connection was lost"


@cache  # making one takes milliseconds
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def prepare(answer: Any) -> None:
    """Make the parser of a type of answers, which its first answer would wait for."""
    _adapter(answer)


@asynccontextmanager
async def watch_progress(api: Api, progress: Progress | None) -> AsyncIterator[dict[str, str]]:
    """Yield the query parameters of a long request; meanwhile poll its progress twice a second, and pass it on."""
    if progress is None:
        yield {}
        return
    operation = str(uuid4())

    async def watch() -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            with suppress(NotFound):  # not started, or another replica has it
                report = await api.call("GET", f"/v1/operations/{operation}", WorkProgress)
                progress(report.done, report.total)

    watcher = asyncio.create_task(watch())
    try:
        yield {"operation": operation}
    finally:
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)


def is_deletion(request: httpx.Request) -> bool:
    """Return whether a request deletes something: repeated, it finds nothing."""
    return request.method == "DELETE" or request.url.path.endswith(REJECTION)


def _retry_delay(response: httpx.Response, *, quick: bool) -> float | None:
    """Return the seconds until a refused request is retried, None if it is not.

    After a 429 nothing was done, unless Postgres was busy in the middle of it. After that, and after a 503, only quick
    and idempotent requests are retried.
    """
    started = b'"StorageBusy"' in response.content
    limited = response.status_code == httpx.codes.TOO_MANY_REQUESTS and not started
    unavailable = response.status_code == httpx.codes.SERVICE_UNAVAILABLE or started
    if not limited and not (unavailable and quick and not is_deletion(response.request)):
        return None
    if unavailable and _is_problem(response) and b"retry_after_seconds" not in response.content:
        return None  # callers must not wait for a part that is down
    try:
        seconds = float(response.headers.get("Retry-After", ""))
    except ValueError:
        return None
    return seconds * random.uniform(1.0, 1.5) if 0 <= seconds < QUICK_SECONDS else None  # noqa: S311 - spreads calls


def _is_problem(response: httpx.Response) -> bool:
    return str(response.headers.get("Content-Type", "")).startswith(PROBLEM)


def path_segment(name: str, text: str) -> str:
    """Return a text as one segment of a path. Raises InvalidInput for an empty text, a dot segment or a slash."""
    if not isinstance(text, str):  # databases give ids as numbers and UUIDs
        raise InvalidInput(name, f"must be a text, not {kind_of(text)}")
    _check_params({name: text})
    if text in _INVALID_SEGMENTS or "/" in text:  # servers read %2F as a slash, clients take .. as a step up
        raise InvalidInput(name, f"cannot be sent as {text[:50]!r}: give a text without a slash, and not . or ..")
    return quote(text, safe="")


def _encode_json(body: object) -> bytes:
    """Return a body as JSON. Raises InvalidInput with the field that JSON cannot represent."""
    try:
        try:
            return json.dumps(body, ensure_ascii=False).encode()  # as ASCII, Cyrillic takes three times as much
        except UnicodeEncodeError:
            return json.dumps(body).encode()  # a lone surrogate: the server names the field
    except (TypeError, ValueError) as error:
        members = body if isinstance(body, dict) else {}
        field = next((str(name) for name, value in members.items() if not _is_json(value)), "body")
        raise InvalidInput(field, f"cannot be sent: {error}") from error


def _is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _check_params(params: Mapping[str, object]) -> None:
    for name, value in params.items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str):
                check_unicode(name, text)


_PROXY_ERRORS = {
    413: "a proxy before {server} rejects a request as large as this one (413): hardwon takes 16 MiB",
    502: "a proxy before {server} reaches no server there (502)",
    503: "a proxy before {server} reaches no server there (503)",
    504: "a proxy before {server} timed out (504); the request may still be running there",
}
"""Messages for responses without problem details, by status."""


def _parse_error(response: httpx.Response, server: str) -> HardwonError:
    """Return the error of problem details; OwnerUnavailable where they are not of a hardwon server."""
    try:
        problem = response.json()
        kind: type[HardwonError] = getattr(errors, problem["title"])
        detail = str(problem["detail"])
        if detail == not_found_message(response.request.url.path):  # this client knows the path
            detail = f"{detail}: {server} is an older hardwon than this one, or the address is wrong"
        if issubclass(kind, InvalidInput):
            return kind(str(problem["field"]), detail)
        if issubclass(kind, Unavailable):
            return kind(detail, retry_after_seconds=problem.get("retry_after_seconds"))
        if issubclass(kind, HardwonError):
            return kind(detail)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    if message := _PROXY_ERRORS.get(response.status_code):
        return OwnerUnavailable(message.format(server=server))
    return OwnerUnavailable(f"{server} answers {response.status_code}, but not as a hardwon server: is it one?")


def not_found_message(path: str) -> str:
    """Return the detail of a server's 404 for an unknown path."""
    return f"there is nothing at {path}"
