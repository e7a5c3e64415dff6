"""From the text of a key to the principal it makes, without a round trip to the database at every request."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol

from cachetools import LRUCache, TTLCache

from knowledge.access.first_uses import FirstUses
from knowledge.access.keys import ApiKey, Forgets, KeyHash, KeyStore, hashed, parse
from knowledge.access.pepper import Pepper
from knowledge.access.principals import Principal, Trust
from knowledge.errors import AccessDenied, HardwonError
from knowledge.logs import get_logger

log = get_logger(__name__)

REMEMBERED_SECONDS: Final = 5.0
"""How long a key is remembered: what another process revoked opens nothing after this."""
TOUCHED_EVERY: Final = timedelta(minutes=1)
_MOST_REMEMBERED: Final = 10_000


_Find = Callable[[str], Awaitable[tuple[ApiKey, KeyHash] | None]]


class _Clock(Protocol):
    def now(self) -> datetime: ...


@dataclass(slots=True)
class _Known:
    key: ApiKey
    hashed: KeyHash
    until: float
    principal: Principal


@dataclass(slots=True, kw_only=True)
class Authenticator(Forgets):
    """Knows keys again, of one store. `seconds` tells time that never goes back."""

    store: KeyStore
    pepper: Callable[[], Pepper]
    clock: _Clock
    seconds: Callable[[], float] = time.monotonic
    _known: LRUCache[str, _Known] = field(default_factory=lambda: LRUCache(_MOST_REMEMBERED))
    _touched: TTLCache[str, None, datetime] = field(init=False)
    _touching: set[asyncio.Task[None]] = field(default_factory=set)
    _any: tuple[bool, float] = (False, float("-inf"))
    _forgets: int = 0
    _first_uses: FirstUses = field(init=False)

    def __post_init__(self) -> None:
        self._first_uses = FirstUses(self.store.find_all)
        self._touched = TTLCache(_MOST_REMEMBERED, TOUCHED_EVERY, timer=self.clock.now)

    def remembered(self, text: str) -> Principal | None:
        """Return the principal of a key that was seen a moment ago, without asking the store; None for any other."""
        parsed = parse(text)
        known = self._known.get(parsed[0]) if parsed else None
        if parsed is None or known is None or known.until < self.seconds():
            return None
        return self._let_in(known, parsed[1])

    def recognised(self, text: str) -> Principal | None:
        """Return whom a key let in before, if it was not seen to end since: it is to be looked up anew.

        So whoever tries keys beside its holder does not keep that one out.
        """
        parsed = parse(text)
        known = self._known.get(parsed[0]) if parsed else None
        if parsed is None or known is None or not self._opens(known, parsed[1], self.clock.now()):
            return None
        return known.principal

    async def principal(self, text: str) -> Principal:
        """Return the principal of a key. Raises AccessDenied, the same for one unknown, wrong, expired or revoked."""
        return await self._principal(text, self.store.find)

    async def introduced(self, text: str) -> Principal:
        """Return the principal of a key that was not shown here before, as `principal` does.

        It waits for the next look into the store for all such keys, LOOK_EVERY_SECONDS at most.
        """
        return await self._principal(text, self._first_uses.find)

    async def _principal(self, text: str, find: _Find) -> Principal:
        principal = self.remembered(text)
        if principal is None:
            parsed = parse(text)
            known = await self._look_up(parsed[0], find) if parsed else None
            principal = self._let_in(known, parsed[1]) if parsed and known else None
        if principal is None:
            raise AccessDenied("this key opens nothing here: it is wrong, or has ended")
        return principal

    async def any_key(self) -> bool:
        """Return whether the store has ever had a key; what is remembered of it is a few seconds old at most."""
        found, until = self._any
        if not found and until < self.seconds():
            forgets = self._forgets
            found = await self.store.any()
            if forgets == self._forgets:
                self._any = (found, self.seconds() + REMEMBERED_SECONDS)
        return found

    @property
    def had_none(self) -> bool:
        """Whether the store had no key when it was last asked, and none was made here since."""
        found, until = self._any
        return not found and until > float("-inf")

    async def of_another_pepper(self) -> int:
        """Return how many live keys open nothing here, as they were made with another pepper."""
        return await self.store.of_others(self.pepper().name, self.clock.now()) if await self.any_key() else 0

    def forget(self, key_id: str) -> None:
        """Look a key up anew at its next use, and whether there is any; what was asked before this is not kept."""
        self._forgets += 1
        self._known.pop(key_id, None)
        self._any = (False, float("-inf"))

    async def aclose(self) -> None:
        """Finish noting which keys were used, and look for no more."""
        await self._first_uses.aclose()
        await asyncio.gather(*self._touching, return_exceptions=True)

    async def _look_up(self, key_id: str, find: _Find) -> _Known | None:
        forgets = self._forgets
        found = await find(key_id)
        if found is None:
            self._known.pop(key_id, None)
            return None
        key, kept = found
        if kept.pepper != self.pepper().name:
            log.warning("key_of_another_pepper", key_id=key_id, pepper=kept.pepper, ours=self.pepper().name)
            return None
        scopes = frozenset(key.scopes)
        principal = Principal(
            trust=Trust.KEY,
            scopes=scopes,
            workspace=key.workspace,
            key_id=key_id,
            first_key=key.first_key,
            name=key.name,
        )
        known = _Known(key, kept, self.seconds() + REMEMBERED_SECONDS, principal)
        if forgets == self._forgets:  # else it may have been revoked since the store was asked
            self._known[key_id] = known
        return known

    def _let_in(self, known: _Known, secret: str) -> Principal | None:
        now = self.clock.now()
        if not self._opens(known, secret, now):
            return None
        self._touch(known.key.key_id, now)
        return known.principal

    def _opens(self, known: _Known, secret: str, now: datetime) -> bool:
        same = hmac.compare_digest(hashed(self.pepper(), secret).digest, known.hashed.digest)
        return same and known.key.live(now)

    def _touch(self, key_id: str, now: datetime) -> None:
        """Have it noted that a key was used, once a minute, while its request goes on."""
        if key_id in self._touched:
            return
        self._touched[key_id] = None
        task = asyncio.get_running_loop().create_task(self._note(key_id, now))
        self._touching.add(task)
        task.add_done_callback(self._touching.discard)

    async def _note(self, key_id: str, now: datetime) -> None:
        try:
            await self.store.touch(key_id, now)
        except HardwonError as error:  # nobody waits for it, and the next use notes it
            log.warning("key_use_not_noted", key_id=key_id, error=type(error).__name__)
            self._touched.pop(key_id, None)
