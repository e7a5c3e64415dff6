"""Requests to an endpoint with OpenAI's protocol: retries, timeouts and concurrency, for any kind of request."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qs, urlsplit

from pydantic import SecretStr

from hardwon.client.http_environment import check_http_environment
from hardwon.errors import HardwonError, InvalidSetting
from knowledge.adapters.llm.failures import (
    EndpointKind,
    TransientError,
    UnansweredError,
    UnusableReplyError,
    interpret_reply,
    interpret_status,
    one_line,
    read_error,
)

if TYPE_CHECKING:
    import openai

OPENAI_BASE_URL = "https://api.openai.com/v1"
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Limits of a call: `timeout_seconds` for one attempt, `patience_seconds` for all attempts together.

    A refused text is not sent again for `refusal_seconds`. An attempt that hangs while the endpoint comes back and the
    longest delay after it take less than 30 s together (docs/reliability.md, G5).
    """

    attempts: int = 4
    timeout_seconds: float = 20.0
    first_delay_seconds: float = 0.5
    longest_delay_seconds: float = 8.0
    patience_seconds: float = 60.0
    refusal_seconds: float = 60.0

    def delay(self, attempt: int, retry_after_seconds: float | None) -> float:
        """Return the seconds to wait after an attempt: those the endpoint asked for, else doubling; with jitter."""
        if retry_after_seconds is not None:
            return retry_after_seconds + random.uniform(0, 0.1 * min(retry_after_seconds, 1.0))  # noqa: S311 - spreads calls
        doubled = min(self.longest_delay_seconds, self.first_delay_seconds * 2.0 ** min(attempt - 1, 64))
        return doubled * random.uniform(0.5, 1.0)  # noqa: S311 - spreads calls


async def load() -> None:
    """Load the library of endpoints, so that no call waits for it; the event loop goes on meanwhile."""
    await asyncio.to_thread(import_module, "openai")


class Endpoint:
    """One endpoint, several requests at a time. A 429 or a Retry-After holds back every caller.

    `kind` names it in errors. Raises InvalidSetting if neither a key nor an address is given.
    """

    def __init__(
        self,
        kind: EndpointKind,
        model: str,
        *,
        api_key: SecretStr | None,
        base_url: str | None,
        concurrency: int,
        retry: RetryPolicy,
    ) -> None:
        if base_url is None and api_key is None:
            raise InvalidSetting(
                f"{kind.variable}_API_KEY", f"{model} needs a key of OpenAI; set it, or {kind.variable}_BASE_URL."
            )
        address = urlsplit((base_url or OPENAI_BASE_URL).strip())
        path = address.path.rstrip("/").removesuffix(kind.path)
        shown = address._replace(netloc=address.netloc.rpartition("@")[2], path=path, query="", fragment="")
        self.name = f"The {kind.name} endpoint {shown.geturl()}"
        self.retry = retry
        self._kind = kind
        self._model = model
        self._key = api_key.get_secret_value().strip() if api_key else "none"
        self._base_url = address._replace(path=path, query="", fragment="").geturl()
        self._query = parse_qs(address.query, keep_blank_values=True)
        self._client: openai.AsyncOpenAI | None = None
        self._slots = asyncio.Semaphore(concurrency)
        self._paused_until = 0.0
        self._closed = False

    async def ask(
        self,
        send: Callable[[openai.AsyncOpenAI, float], Awaitable[bytes]],
        read: Callable[[bytes], _Answer],
        *,
        attempts: int | None = None,
    ) -> _Answer:
        """Send a request until there is an answer, a refusal, or no attempt or patience left.

        `send` gets the client and a call's time limit and returns the body, which `read` parses or raises ValueError.
        `attempts` limits those that fail in a way that may be the request's own; an endpoint that is down or limits the
        rate is tried as often as ever. Raises RefusedError if the endpoint refuses this very request, UnansweredError,
        or the kind's `rejected`.
        """
        loop = asyncio.get_running_loop()
        give_up_at = math.inf
        of_request = False
        for attempt in count(1):
            try:
                async with self._slots:
                    self.refuse_closed()
                    give_up_at = min(give_up_at, loop.time() + self.retry.patience_seconds)
                    await self._pause(give_up_at)
                    return await self._ask_once(send, read)
            except TransientError as failure:
                of_request |= failure.of_request
                delay = self.retry.delay(attempt, failure.retry_after_seconds)
                if failure.for_all:
                    self._paused_until = max(self._paused_until, loop.time() + delay)
                most = attempts if attempts and failure.of_request else self.retry.attempts
                if failure.error or attempt >= most or loop.time() + delay > give_up_at:
                    raise UnansweredError(
                        failure.error or self._unavailable(failure, attempt),
                        failure.reason,
                        of_request=of_request and not failure.for_all,
                        about_size=failure.about_size,
                        may_pass=failure.error is None,
                        has_reply=failure.has_reply,
                    ) from failure.__cause__
            await asyncio.sleep(delay)
        raise AssertionError("unreachable")

    def _unavailable(self, failure: TransientError, attempt: int) -> HardwonError:
        return self._kind.unavailable(
            f"{self.name} {failure.reason} ({attempt} {'try' if attempt == 1 else 'tries'}): {self._advice(failure)}",
            retry_after_seconds=failure.retry_after_seconds,
        )

    def _advice(self, failure: TransientError) -> str:
        if failure.for_all:  # it is up, and asked us to wait
            return "it takes no more for now; the same call may work later, or fewer at a time."
        if failure.is_protocol:  # the address is right
            return "the address is right, and the server fails: see its log, or try again later."
        return f"check that it runs and that {self._kind.variable}_BASE_URL is its address."

    def refuse_closed(self) -> None:
        """Raise an error once it is closed."""
        if self._closed:
            raise self._kind.unavailable(f"{self._kind.closed} was closed: open the stores again.")

    async def aclose(self) -> None:
        """Close the connections. May be called again."""
        self._closed = True
        if self._client is not None:
            await self._client.close()

    async def _get_client(self) -> openai.AsyncOpenAI:
        """Return the client, created at first use."""
        if self._client is None:
            await load()

            check_http_environment()
            from knowledge.adapters.llm.client import make_client  # noqa: PLC0415 - loads the library of endpoints

            self._client = make_client(
                api_key=self._key, base_url=self._base_url, query=self._query, max_bytes=self._kind.max_bytes
            )
        return self._client

    async def _pause(self, give_up_at: float) -> None:
        """Wait until the endpoint accepts calls again; raises at once if that is later than `give_up_at`."""
        loop = asyncio.get_running_loop()
        while (left := self._paused_until - loop.time()) > 0:
            if self._paused_until > give_up_at:
                raise self._kind.unavailable(
                    f"{self.name} asked for a pause of {left:.0f} more seconds: try again then.",
                    retry_after_seconds=left,
                )
            await asyncio.sleep(left)

    async def _ask_once(
        self,
        send: Callable[[openai.AsyncOpenAI, float], Awaitable[bytes]],
        read: Callable[[bytes], _Answer],
    ) -> _Answer:
        client = await self._get_client()
        import openai  # noqa: PLC0415 - loaded by now

        seconds = self.retry.timeout_seconds
        try:
            async with asyncio.timeout(seconds):  # the whole call: a trickle of bytes ends too
                content = await send(client, seconds)
        except (TimeoutError, openai.APITimeoutError) as exc:
            is_down = _class_of_cause(exc) == "ConnectTimeout"
            raise TransientError(f"gave no answer within {seconds:g} seconds", of_request=not is_down) from exc
        except openai.APIConnectionError as exc:
            if _class_of_cause(exc) == "ConnectError":
                raise TransientError("cannot be reached", of_request=False) from exc
            raise TransientError("breaks off the connection") from exc
        except openai.APIStatusError as exc:
            meaning = self._interpret(exc.status_code, exc.response.content, exc.response.headers)
            raise meaning from None  # the library's own text may hold the key
        try:
            return read(content)
        except ValueError as exc:
            if status := interpret_reply(content):
                raise self._interpret(status, content, {}) from None
            raise self._unusable(exc, content) from exc

    def _interpret(self, status: int, content: bytes, headers: Mapping[str, str]) -> Exception:
        return interpret_status(
            status, content, headers, kind=self._kind, endpoint=self.name, model=self._model, key=self._key
        )

    def _unusable(self, error: ValueError, content: bytes) -> TransientError:
        if isinstance(error, UnusableReplyError):
            return TransientError(one_line(str(error), self._key), has_reply=True, is_protocol=True)
        words = one_line(read_error(content).words, self._key)
        told = f"answers with something that is not {self._kind.answers}" + (f" ({words})" if words else "")
        return TransientError(told, has_reply=True)


def _class_of_cause(error: BaseException) -> str:
    """Return the name of the class, which the library's HTTP client and its predecessor share."""
    return type(error.__cause__).__name__
