"""Batched lookup of keys that are not cached: one query for all of them, at a limited rate.

A valid key cannot be told from a guess before the store was asked. So no key is refused because of guesses; it waits
a moment with them, and the load on the store does not grow with their number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from knowledge.access.keys import ApiKey, KeyHash

LOOKUP_INTERVAL_SECONDS: Final = 0.2
"""Time between two lookups (our choice); the first one after a pause is immediate."""

FoundKey = tuple[ApiKey, KeyHash]


@dataclass(slots=True)
class KeyLookupBatcher:
    """Looks up keys by id, all pending ones in one query."""

    find_all: Callable[[Collection[str]], Awaitable[Mapping[str, FoundKey]]]
    _pending: dict[str, asyncio.Future[FoundKey | None]] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None
    _next: float = float("-inf")

    async def find(self, key_id: str) -> FoundKey | None:
        """Return a key and the hash of its secret, None if there is none. Raises the errors of the query."""
        loop = asyncio.get_running_loop()
        answer = self._pending.get(key_id)
        if answer is None:
            answer = self._pending[key_id] = loop.create_future()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run())
        return await asyncio.shield(answer)  # others may be waiting for it

    async def aclose(self) -> None:
        """Cancel all lookups."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._pending:
                await asyncio.sleep(self._next - loop.time())
                self._next = loop.time() + LOOKUP_INTERVAL_SECONDS
                batch, self._pending = self._pending, {}
                await self._answer(batch)
        finally:
            for answer in self._pending.values():  # no further query will answer it
                answer.cancel()
            self._pending = {}

    async def _answer(self, batch: Mapping[str, asyncio.Future[FoundKey | None]]) -> None:
        try:
            (found,) = await asyncio.gather(self.find_all(batch.keys()), return_exceptions=True)
        except asyncio.CancelledError:
            for answer in batch.values():
                answer.cancel()
            raise
        for key_id, answer in batch.items():
            if isinstance(found, BaseException):
                answer.set_exception(found)
                answer.exception()  # mark it as retrieved: its waiter may be gone
            else:
                answer.set_result(found.get(key_id))
