"""Authenticate API keys, with a short-lived cache instead of a database round trip per request."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol

from cachetools import LRUCache, TTLCache

from hardwon.errors import AccessDenied, HardwonError
from hardwon.event_log import get_logger
from hardwon.models.access import ApiKey
from knowledge.access.keys import KeyCache, KeyHash, KeyStore, Pepper, hash_secret, parse_key
from knowledge.access.principals import Principal, Trust
from knowledge.access.sessions import PageSessions

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


log = get_logger(__name__)
CACHE_SECONDS: Final = 5.0
"""Lifetime of a cached key, and so the delay until a revocation by another process takes effect here."""
TOUCH_INTERVAL: Final = timedelta(minutes=1)
_MAX_CACHED: Final = 10_000


_Find = Callable[[str], Awaitable[tuple[ApiKey, KeyHash] | None]]


class _Clock(Protocol):
    def now(self) -> datetime: ...


@dataclass(slots=True)
class _CachedKey:
    key: ApiKey
    hashed: KeyHash
    until: float
    principal: Principal


@dataclass(slots=True, kw_only=True)
class Authenticator(KeyCache):
    """Authenticates the keys of one store. `seconds` is a monotonic clock."""

    store: KeyStore
    sessions: PageSessions
    pepper: Callable[[], Pepper]
    clock: _Clock
    seconds: Callable[[], float] = time.monotonic
    _cache: LRUCache[str, _CachedKey] = field(default_factory=lambda: LRUCache(_MAX_CACHED))
    _touched: TTLCache[str, None, datetime] = field(init=False)
    _touch_tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _any_key: tuple[bool, float] = (False, float("-inf"))
    _invalidations: int = 0
    _lookups: KeyLookupBatcher = field(init=False)

    def __post_init__(self) -> None:
        self._lookups = KeyLookupBatcher(self.store.find_all)
        self._touched = TTLCache(_MAX_CACHED, TOUCH_INTERVAL, timer=self.clock.now)

    def find_cached(self, text: str) -> Principal | None:
        """Return the principal of a cached key without asking the store; None if not cached, expired or wrong."""
        parsed = parse_key(text)
        cached = self._cache.get(parsed[0]) if parsed else None
        if parsed is None or cached is None or cached.until < self.seconds():
            return None
        return self._admit(cached, parsed[1])

    def find_expired(self, text: str) -> Principal | None:
        """Return the principal of a key from an outdated cache entry; the caller has to look the key up again.

        So that somebody who guesses keys cannot lock out the holders of valid ones.
        """
        parsed = parse_key(text)
        cached = self._cache.get(parsed[0]) if parsed else None
        if parsed is None or cached is None or not self._is_valid(cached, parsed[1], self.clock.now()):
            return None
        return cached.principal

    async def principal(self, text: str) -> Principal:
        """Return the principal of a key. Raises AccessDenied, with the same text for unknown, wrong and ended keys."""
        return await self._principal(text, self.store.find)

    async def principal_of_new_key(self, text: str) -> Principal:
        """Return the principal of a key that is not in the cache, as `principal` does.

        Waits for the next batched lookup of all such keys, LOOKUP_INTERVAL_SECONDS at most.
        """
        return await self._principal(text, self._lookups.find)

    async def principal_of_id(self, key_id: str) -> Principal:
        """Return the principal of a key by its id, for a session that began with its secret. Raises AccessDenied."""
        cached = self._cache.get(key_id)
        if cached is None or cached.until < self.seconds():
            cached = await self._look_up(key_id, self.store.find)
        now = self.clock.now()
        if cached is None or not cached.key.is_live(now):
            raise AccessDenied("the key of your session has expired or was revoked: sign in with another one")
        self._touch(key_id, now)
        return cached.principal

    async def _principal(self, text: str, find: _Find) -> Principal:
        principal = self.find_cached(text)
        if principal is None:
            parsed = parse_key(text)
            cached = await self._look_up(parsed[0], find) if parsed else None
            principal = self._admit(cached, parsed[1]) if parsed and cached else None
        if principal is None:
            raise AccessDenied("this key is not valid: it is wrong, expired or revoked")
        return principal

    async def has_any_key(self) -> bool:
        """Return whether the store has ever had a key; the answer is cached for a few seconds."""
        found, until = self._any_key
        if not found and until < self.seconds():
            invalidations = self._invalidations
            found = await self.store.has_any()
            if invalidations == self._invalidations:
                self._any_key = (found, self.seconds() + CACHE_SECONDS)
        return found

    @property
    def is_known_empty(self) -> bool:
        """True if the last lookup found a store without keys, and no key was created here since."""
        found, until = self._any_key
        return not found and until > float("-inf")

    def invalidate(self, key_id: str) -> None:
        """Drop a key and the existence of keys from the cache, also the results of lookups that are under way."""
        self._invalidations += 1
        self._cache.pop(key_id, None)
        self._any_key = (False, float("-inf"))

    async def aclose(self) -> None:
        """Stop lookups, and wait until the last uses of keys are stored."""
        await self._lookups.aclose()
        await asyncio.gather(*self._touch_tasks, return_exceptions=True)

    async def _look_up(self, key_id: str, find: _Find) -> _CachedKey | None:
        invalidations = self._invalidations
        found = await find(key_id)
        if found is None:
            self._cache.pop(key_id, None)
            return None
        key, stored_hash = found
        if stored_hash.pepper != self.pepper().name:
            log.warning("key_of_another_pepper", key_id=key_id, pepper=stored_hash.pepper, ours=self.pepper().name)
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
        cached = _CachedKey(key, stored_hash, self.seconds() + CACHE_SECONDS, principal)
        if invalidations == self._invalidations:  # else it may have been revoked since the lookup
            self._cache[key_id] = cached
        return cached

    def _admit(self, cached: _CachedKey, secret: str) -> Principal | None:
        now = self.clock.now()
        if not self._is_valid(cached, secret, now):
            return None
        self._touch(cached.key.key_id, now)
        return cached.principal

    def _is_valid(self, cached: _CachedKey, secret: str, now: datetime) -> bool:
        same = hmac.compare_digest(hash_secret(self.pepper(), secret).digest, cached.hashed.digest)
        return same and cached.key.is_live(now)

    def _touch(self, key_id: str, now: datetime) -> None:
        """Store in the background that a key was used, once a minute at most."""
        if key_id in self._touched:
            return
        self._touched[key_id] = None
        task = asyncio.get_running_loop().create_task(self._store_use(key_id, now))
        self._touch_tasks.add(task)
        task.add_done_callback(self._touch_tasks.discard)

    async def _store_use(self, key_id: str, now: datetime) -> None:
        try:
            await self.store.touch(key_id, now)
        except HardwonError as error:  # nothing waits for it, and the next use tries again
            log.warning("key_use_not_noted", key_id=key_id, error=type(error).__name__)
            self._touched.pop(key_id, None)
