"""Sessions of the pages: signing in and out is audited, and a session that was ended opens nothing any more."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Protocol

from cachetools import LRUCache, TTLCache

from hardwon.event_log import get_logger
from knowledge.access.keys import parse_key
from knowledge.access.provenance import NO_AUDIT, Auditor

log = get_logger(__name__)
CACHE_SECONDS: Final = 5.0
"""Delay until a session that was ended in another process opens nothing here, as for a revoked key."""
MAX_ROWS: Final = 10
"""Rows a minute that signing in with one key may add to the audit log, and so may all refused keys together; ours:
whoever guesses keys must not fill it."""
_MAX_CACHED: Final = 10_000
_REFUSED: Final = ""


class SessionStore(Protocol):
    """The sessions of the whole store that were ended before their time."""

    async def end(self, session_id: str, *, ends_at: datetime, now: datetime) -> None:
        """Record that a session ended, until the time at which it is over anyway. Idempotent."""

    async def has_ended(self, session_id: str) -> bool:
        """Return whether a session was ended."""


class _Clock(Protocol):
    def now(self) -> datetime: ...


@dataclass(slots=True)
class _RowLimit:
    """Limits the rows that a subject adds to the audit log; what is beyond is counted, for the next row."""

    _rows: TTLCache[str, int] = field(default_factory=lambda: TTLCache(_MAX_CACHED, 60.0))
    _beyond: LRUCache[str, int] = field(default_factory=lambda: LRUCache(_MAX_CACHED))

    def admit(self, subject: str) -> int | None:
        """Return the number of those that were not recorded since the last row; None if there may be no row now."""
        rows = self._rows.get(subject, 0)
        if rows >= MAX_ROWS:
            self._beyond[subject] = self._beyond.get(subject, 0) + 1
            return None
        self._rows[subject] = rows + 1
        return self._beyond.pop(subject, 0)


@dataclass(slots=True, kw_only=True)
class PageSessions:
    """Signing in and out of the pages of one store; audited with the key's id and the address, never with a secret."""

    store: SessionStore
    clock: _Clock
    audit: Auditor = NO_AUDIT
    _ended: TTLCache[str, bool] = field(default_factory=lambda: TTLCache(_MAX_CACHED, CACHE_SECONDS))
    _limit: _RowLimit = field(default_factory=_RowLimit)

    async def record_sign_in(self, key_id: str, address: str) -> None:
        """Record that somebody signed in with a key. Raises StorageUnavailable."""
        await self._record("signed in", key_id, address, who=f"key {key_id}", subject=key_id)

    async def record_refusal(self, typed: str, address: str) -> None:
        """Record that what was typed is no valid key; its id is recorded if it has the form of one."""
        parsed = parse_key(typed)
        await self._record(
            "sign-in refused", None if parsed is None else parsed[0], address, who="nobody", subject=_REFUSED
        )

    async def end(self, session_id: str, *, key_id: str, ends_at: datetime, address: str) -> None:
        """End a session: here at once, in other processes within seconds. Raises StorageUnavailable."""
        await self.store.end(session_id, ends_at=ends_at, now=self.clock.now())
        self._ended[session_id] = True
        await self._record("signed out", key_id, address, who=f"key {key_id}", subject=key_id)

    async def has_ended(self, session_id: str) -> bool:
        """Return whether a session was ended; the answer is cached for a few seconds. Raises StorageUnavailable."""
        found = self._ended.get(session_id)
        if found is None:
            found = await self.store.has_ended(session_id)
            found = self._ended.setdefault(session_id, found)  # it may have been ended here meanwhile
        return found

    async def _record(self, what: str, key_id: str | None, address: str, *, who: str, subject: str) -> None:
        log.info(what.replace(" ", "_").replace("-", "_"), key_id=key_id)
        unrecorded = self._limit.admit(subject)
        if unrecorded is not None:
            audit = replace(self.audit, who=who)
            await audit.record(what, key=key_id, address=address, unrecorded=unrecorded or None)
