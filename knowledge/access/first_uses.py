"""Keys that nobody has shown here yet: one look into the store for all of them, so many times a second at most.

Nobody can tell a valid key from a guess before the store was asked. So none is refused for the guesses beside it: it
waits a moment with them, and what they cost the store does not grow with their number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from knowledge.access.keys import ApiKey, KeyHash

LOOK_EVERY_SECONDS: Final = 0.2
"""The time between two looks, ours; the first after a pause is at once."""

Found = tuple[ApiKey, KeyHash]


@dataclass(slots=True)
class FirstUses:
    """Looks for keys by their ids, all that are waited for in one statement."""

    find_all: Callable[[Collection[str]], Awaitable[Mapping[str, Found]]]
    _waited_for: dict[str, asyncio.Future[Found | None]] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None
    _next: float = float("-inf")

    async def find(self, key_id: str) -> Found | None:
        """Return a key and the hash of its secret, None if there is none. Raises what the look raised."""
        loop = asyncio.get_running_loop()
        answer = self._waited_for.get(key_id)
        if answer is None:
            answer = self._waited_for[key_id] = loop.create_future()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._look())
        return await asyncio.shield(answer)  # others may wait for it

    async def aclose(self) -> None:
        """Look for nothing any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waited_for:
                await asyncio.sleep(self._next - loop.time())
                self._next = loop.time() + LOOK_EVERY_SECONDS
                asked, self._waited_for = self._waited_for, {}
                await self._answer(asked)
        finally:
            for answer in self._waited_for.values():  # nobody looks any more
                answer.cancel()
            self._waited_for = {}

    async def _answer(self, asked: Mapping[str, asyncio.Future[Found | None]]) -> None:
        try:
            (found,) = await asyncio.gather(self.find_all(asked.keys()), return_exceptions=True)
        except asyncio.CancelledError:
            for answer in asked.values():
                answer.cancel()
            raise
        for key_id, answer in asked.items():
            if isinstance(found, BaseException):
                answer.set_exception(found)
                answer.exception()  # whoever waited for it may have gone
            else:
                answer.set_result(found.get(key_id))
