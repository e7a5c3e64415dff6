"""Requests to a hardwon server, and its problem details as the errors they were."""

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

from knowledge import errors
from knowledge.characters import check_unicode
from knowledge.errors import (
    HardwonError,
    InvalidInput,
    NotFound,
    OwnerUnavailable,
    Unavailable,
)

if TYPE_CHECKING:
    from knowledge.ports import Progress

WORKSPACE_HEADER = "Hardwon-Workspace"
"""Its value is percent-encoded where it is not plain ASCII."""
LEAVING_HEADER = "Hardwon-Leaving"
"""Marks the answer to a request that a server cut because it stops: the request may be repeated elsewhere."""
QUICK_SECONDS = 60.0
"""What an answer that does no long work may take."""
_SLOW_SECONDS = 5.0
"""Ours: a store that was waited for so long is silent, and whoever asks again waits as long."""
MAX_BODY_BYTES = 256 * 1024
"""What a request may hold, but for those below."""
MAX_TEXTS_BYTES = 2 * 1024 * 1024
"""What a request with an entry, an event, a question or a task may hold: five texts of 64 KiB, which JSON writes in six
times as much at most, and the small fields beside them. So what is valid in process is never refused over HTTP."""
MCP_PATH = "/mcp"
MAX_MCP_BYTES = MAX_TEXTS_BYTES + MAX_BODY_BYTES
"""What a request of MCP may hold: a call with what a request to the API may hold, and its frame."""
BATCH_PATH = "/v1/entries:batch"
MAX_BATCH_BYTES = 16 * 1024 * 1024
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
"""A little more than a document may have, so that one that has too much is told of as one."""
ARCHIVE_PATH = "/v1/archive"
ARCHIVE_TYPE = "application/gzip"
ENTRIES_PATH = "/v1/archive/entries"
ENTRIES_TYPE = "application/jsonl"
FILE_TYPE = "application/octet-stream"
KEYS_PATH = "/v1/keys"
REJECTION = "/reject"
"""How the paths end by which a person has an entry go."""
PROBLEM = "application/problem+json"
MOST_AT_ONCE = 100
"""How many requests a client has on their way, long work apart; others wait for one of them to end."""
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20)
"""Who waits for a connection of httpx's own pool, and is cancelled as it gets one, leaves it there for good, unopened
and counted: a hundred of them, and no request ever leaves. So nobody waits there, but for `Api.places`."""
WATCH_SECONDS = 0.5
"""How often a client asks how far long work is."""
_NO_PART = frozenset({"", ".", ".."})
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How far long work is; a total of None is unknown."""

    done: int
    total: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """Requests of one workspace; problem details come back as the errors they were."""

    http: httpx.AsyncClient
    workspace: str | None
    """None: that of the key."""
    place: str
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_AT_ONCE))

    async def call(
        self,
        method: str,
        path: str,
        answer: type[Answer],
        *,
        body: object = None,
        params: dict[str, Any] | None = None,
        timeout_seconds: float | None = QUICK_SECONDS,
    ) -> Answer:
        """Return the answer to a request; raises the error it tells of, OwnerUnavailable without an answer.

        A body of bytes is sent as it is, any other as JSON.
        """
        response = await self.send(method, path, body=body, params=params, timeout_seconds=timeout_seconds)
        return self.read(response, answer)

    def read(self, response: httpx.Response, answer: type[Answer]) -> Answer:
        """Return what a response tells. Raises OwnerUnavailable where it is no answer of a hardwon server."""
        try:
            found: Answer = _reader(answer).validate_json(response.content)  # type: ignore[arg-type] # a type is hashable
        except ValidationError as error:
            raise OwnerUnavailable(f"{self.place} answers, but not as a hardwon server: is it one?") from error
        return found

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: dict[str, Any] | None = None,
        timeout_seconds: float | None = QUICK_SECONDS,
    ) -> httpx.Response:
        """Return the response to a request that asks for nothing; raises as `call` does.

        A server that says when to come again is asked again then, while there is time left.
        """
        _check(params or {})
        content_type = FILE_TYPE if isinstance(body, bytes) else "application/json"
        content = body if body is None or isinstance(body, bytes) else _as_json(body)
        clock = asyncio.get_running_loop().time
        late = clock() + (timeout_seconds or QUICK_SECONDS)
        while True:
            asked = clock()
            async with self.places if timeout_seconds is not None else nullcontext():
                with self._answering():
                    response = await self.http.request(
                        method,
                        path,
                        content=content,
                        params=params,
                        headers=self._headers(content_type),
                        timeout=httpx.Timeout(timeout_seconds, connect=5),
                    )
            if not response.is_error:
                return response
            wait = _asked_again_after(response, quick=timeout_seconds is not None)
            silent = response.status_code == httpx.codes.SERVICE_UNAVAILABLE and clock() - asked > _SLOW_SECONDS
            if wait is None or silent or clock() + wait > late:
                raise _error(response, self.place)
            await asyncio.sleep(wait)

    async def upload(
        self,
        path: str,
        chunks: AsyncIterator[bytes],
        answer: type[Answer],
        **params: str,
    ) -> Answer:
        """Send an archive and return the answer; raises as `call` does. A stream is sent once."""
        with self._answering():
            response = await self.http.post(
                path,
                content=chunks,
                params=params,
                headers=self._headers(ARCHIVE_TYPE),
                timeout=httpx.Timeout(None, connect=5),
            )
        if response.is_error:
            raise _error(response, self.place)
        return self.read(response, answer)

    async def download(self, path: str, **params: str) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of an answer as they come; raises as `call` does, also in the middle."""
        timeout = httpx.Timeout(None, connect=5)
        headers = self._headers("application/json")
        with self._answering():
            async with self.http.stream("GET", path, params=params, headers=headers, timeout=timeout) as response:
                if response.is_error:
                    await response.aread()
                    raise _error(response, self.place)
                async for chunk in response.aiter_raw():
                    yield chunk

    def _headers(self, content_type: str) -> dict[str, str]:
        named = {} if self.workspace is None else {WORKSPACE_HEADER: quote(self.workspace)}
        return {**named, "Content-Type": content_type}

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Raise OwnerUnavailable where a block gets no answer."""
        try:
            yield
        except httpx.HTTPError as error:
            raise OwnerUnavailable(
                f"hardwon at {self.place} does not answer ({type(error).__name__}): check that it runs, and"
                " HARDWON_API_URL where that is set"
            ) from error


@cache  # making one takes milliseconds
def _reader(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


@asynccontextmanager
async def watched(api: Api, progress: Progress | None) -> AsyncIterator[dict[str, str]]:
    """Give the parameters of a long request; while it lasts, ask how far it is, twice a second, and pass it on."""
    if progress is None:
        yield {}
        return
    operation = str(uuid4())

    async def watch() -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            with suppress(NotFound):  # not begun, or asked of another replica
                told = await api.call("GET", f"/v1/operations/{operation}", Done)
                progress(told.done, told.total)

    watcher = asyncio.create_task(watch())
    try:
        yield {"operation": operation}
    finally:
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)


def removes(request: httpx.Request) -> bool:
    """Return whether a request has something go: done again, it finds it gone."""
    return request.method == "DELETE" or request.url.path.endswith(REJECTION)


def _asked_again_after(response: httpx.Response, *, quick: bool) -> float | None:
    """Return after how many seconds a refused request is to be repeated, None if it is not.

    After a 429 nothing was done, unless Postgres was busy in the midst of it. After that, and after a 503, only what is
    quick, and what comes to the same when it is done twice.
    """
    begun = b'"StorageBusy"' in response.content
    limited = response.status_code == httpx.codes.TOO_MANY_REQUESTS and not begun
    unavailable = response.status_code == httpx.codes.SERVICE_UNAVAILABLE or begun
    if not limited and not (unavailable and quick and not removes(response.request)):
        return None
    if unavailable and _our_own(response) and b"retry_after_seconds" not in response.content:
        return None  # whoever asks has other things to do than to wait for a part that is down
    try:
        seconds = float(response.headers.get("Retry-After", ""))
    except ValueError:
        return None
    return seconds * random.uniform(1.0, 1.5) if 0 <= seconds < QUICK_SECONDS else None  # noqa: S311 - spreads calls


def _our_own(response: httpx.Response) -> bool:
    return str(response.headers.get("Content-Type", "")).startswith(PROBLEM)


def in_path(name: str, text: str) -> str:
    """Return a text as one part of a path. Raises InvalidInput for what would be none of it, or more than one."""
    if not isinstance(text, str):  # databases give ids as numbers and UUIDs
        raise InvalidInput(name, f"must be a text, not {type(text).__name__}")
    _check({name: text})
    if text in _NO_PART or "/" in text:  # servers read %2F as a slash, clients take .. as a step up
        raise InvalidInput(name, f"cannot be sent as {text[:50]!r}: give a text without a slash, and not . or ..")
    return quote(text, safe="")


def _as_json(body: object) -> bytes:
    """Return a body as JSON. Raises InvalidInput, naming the field that JSON has no form for."""
    try:
        try:
            return json.dumps(body, ensure_ascii=False).encode()  # in ASCII Cyrillic takes three times as much
        except UnicodeEncodeError:
            return json.dumps(body).encode()  # half a character: the server says which text has it
    except (TypeError, ValueError) as error:
        named = body if isinstance(body, dict) else {}
        field = next((str(name) for name, value in named.items() if not _has_form(value)), "body")
        raise InvalidInput(field, f"cannot be sent: {error}") from error


def _has_form(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _check(params: Mapping[str, object]) -> None:
    for name, value in params.items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str):
                check_unicode(name, text)


_OF_PROXIES = {
    413: "a proxy before {place} takes no request as large as this one (413): hardwon takes 16 MiB",
    502: "a proxy before {place} reaches no server there (502)",
    503: "a proxy before {place} reaches no server there (503)",
    504: "a proxy before {place} gave up waiting (504); what was asked for may go on there all the same",
}
"""What an answer means that comes without a server's words, by its status."""


def _error(response: httpx.Response, place: str) -> HardwonError:
    """Return the error that problem details tell of; those of no hardwon server are OwnerUnavailable."""
    try:
        told = response.json()
        kind: type[HardwonError] = getattr(errors, told["title"])
        detail = str(told["detail"])
        if detail == nothing_at(response.request.url.path):  # whoever asks knows of it
            detail = f"{detail}: {place} is an older hardwon than this one, or the address is not right"
        if issubclass(kind, InvalidInput):
            return kind(str(told["field"]), detail)
        if issubclass(kind, Unavailable):
            return kind(detail, retry_after_seconds=told.get("retry_after_seconds"))
        if issubclass(kind, HardwonError):
            return kind(detail)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    of_proxy = _OF_PROXIES.get(response.status_code)
    return OwnerUnavailable(
        of_proxy.format(place=place)
        if of_proxy
        else f"{place} answers {response.status_code}, but not as a hardwon server: is it one?"
    )


def nothing_at(path: str) -> str:
    """Return how a server says that it has no such path."""
    return f"there is nothing at {path}"
