"""Requests to an endpoint with OpenAI's protocol: retries, timeouts and concurrency, for any kind of request."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from pydantic import SecretStr

from hardwon.client.http_environment import check_http_environment
from hardwon.errors import InvalidSetting
from knowledge.adapters.llm.replies import EndpointKind, TransientError, interpret_error

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
        address = urlsplit(base_url or OPENAI_BASE_URL)
        shown = address._replace(netloc=address.netloc.rpartition("@")[2]).geturl()
        self.name = f"The {kind.name} endpoint {shown}"
        self.retry = retry
        self._kind = kind
        self._model = model
        self._key = api_key.get_secret_value() if api_key else "none"
        self._base_url = base_url or OPENAI_BASE_URL
        self._client: openai.AsyncOpenAI | None = None
        self._slots = asyncio.Semaphore(concurrency)
        self._paused_until = 0.0
        self._closed = False

    async def ask(
        self,
        send: Callable[[openai.AsyncOpenAI, float], Awaitable[bytes]],
        read: Callable[[bytes], _Answer],
    ) -> _Answer:
        """Send a request until there is an answer, a refusal, or no attempt or patience left.

        `send` gets the client and a call's time limit and returns the body, which `read` parses or raises ValueError.
        Raises the kind's errors, or RefusedError if the endpoint refuses this very request.
        """
        loop = asyncio.get_running_loop()
        give_up_at = math.inf
        for attempt in count(1):
            try:
                async with self._slots:
                    self.refuse_closed()
                    give_up_at = min(give_up_at, loop.time() + self.retry.patience_seconds)
                    await self._pause(give_up_at)
                    return await self._ask_once(send, read)
            except TransientError as failure:
                delay = self.retry.delay(attempt, failure.retry_after_seconds)
                if failure.for_all:
                    self._paused_until = max(self._paused_until, loop.time() + delay)
                if attempt >= self.retry.attempts or loop.time() + delay > give_up_at:
                    raise self._kind.unavailable(
                        f"{self.name} {failure.reason} ({attempt} tries): {self._advice(failure)}",
                        retry_after_seconds=failure.retry_after_seconds,
                    ) from failure.__cause__
            await asyncio.sleep(delay)
        raise AssertionError("unreachable")

    def _advice(self, failure: TransientError) -> str:
        if failure.for_all:  # it is up, and asked us to wait
            return "it takes no more for now; the same call may work later, or fewer at a time."
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

            self._client = make_client(api_key=self._key, base_url=self._base_url, max_bytes=self._kind.max_bytes)
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
            raise TransientError(f"gave no answer within {seconds:g} seconds") from exc
        except openai.APIConnectionError as exc:
            raise TransientError("cannot be reached or broke off") from exc
        except openai.APIStatusError as exc:
            meaning = interpret_error(exc, kind=self._kind, endpoint=self.name, model=self._model, key=self._key)
            raise meaning from None  # the library's own text may hold the key
        try:
            return read(content)
        except ValueError as exc:
            raise TransientError(f"answers with something that is not {self._kind.answers}") from exc
