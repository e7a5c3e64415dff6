"""Decisions of people with a grace period: recorded at once, done after 30 seconds unless they are undone."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

from hardwon.errors import Conflict, HardwonError, InvalidInput, NotFound, Unavailable, reason_of
from hardwon.event_log import get_logger
from hardwon.models.deeds import Deed, DeedId, DeedKind, DeedState
from hardwon.validation import as_id, as_integer
from knowledge.access.keys import KeyStore, is_revoked
from knowledge.access.provenance import NO_AUDIT, Auditor
from knowledge.memory.capture.service import KnowledgeCaptureService
from knowledge.memory.curation.merge_split import PatternGroupingService
from knowledge.memory.curation.review_queue import ReviewService, id_of_texts
from knowledge.models import TRUSTED, Entry, EntryId, EntryStatus, PatternId, Provenance
from knowledge.ports import DeedStore, Stores

log = get_logger(__name__)
GRACE: Final = timedelta(seconds=30)
"""Time in which a decision can be undone; ours: a toast is shown for eight seconds, and a page may be closed."""
MAX_LISTED: Final = 1000
_TAKEOVER_AFTER: Final = timedelta(minutes=10)
_DECISIONS: Final = (DeedKind.APPROVE, DeedKind.REJECT, DeedKind.JOIN, DeedKind.SPLIT)
_PAST: Final = {
    DeedKind.APPROVE: "approved it",
    DeedKind.REJECT: "rejected it",
    DeedKind.JOIN: "joined it to another pattern",
    DeedKind.SPLIT: "split it off",
    DeedKind.DELETE_ENTRY: "deleted it",
    DeedKind.DELETE_PATTERN: "deleted it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeedService:
    """Decisions of one workspace that can be undone for a while."""

    stores: Stores
    deeds: DeedStore
    reviews: ReviewService
    grouping: PatternGroupingService
    capture: KnowledgeCaptureService
    keys: KeyStore
    by: Provenance = TRUSTED
    audit: Auditor = NO_AUDIT

    async def decide(
        self,
        kind: str,
        *,
        entry_id: EntryId | None = None,
        pattern_id: PatternId | None = None,
        other: PatternId | None = None,
        entry_ids: Sequence[EntryId] | None = None,
    ) -> Deed:
        """Record a decision, to be done after 30 seconds: `approve` or `reject` an entry, `join` a pattern, `split`.

        `join`: `other` becomes part of `pattern_id`. `split`: `entry_ids` get a pattern of their own. Repeated by the
        same person, the decision that waits is returned. Raises InvalidInput, NotFound, or Conflict, in words, where
        another has decided already.
        """
        if kind not in _DECISIONS:
            raise InvalidInput("deed", f"must be one of {', '.join(_DECISIONS)}")
        chosen = DeedKind(kind)
        if chosen is DeedKind.JOIN:
            keep = await self._live_pattern("pattern_id", pattern_id)
            return await self._record(chosen, await self._live_pattern("other", other), keep)
        if chosen is DeedKind.SPLIT:
            ids = [as_id("entry_ids", each) for each in entry_ids or ()]
            if not ids:
                raise InvalidInput("entry_ids", "is empty: give the entries to split off")
            for each in ids:
                await self.stores.entries.get(EntryId(each))
            return await self._record(chosen, *ids)
        if entry_id is None:
            raise InvalidInput("entry_id", f"is missing: give the entry to {kind}")
        subject = EntryId(as_id("entry_id", entry_id))
        entry = await self._require_waiting(subject)
        return await self._record(chosen, subject, *([id_of_texts(entry)] if chosen is DeedKind.APPROVE else []))

    async def delete(self, *, entry_id: EntryId | None = None, pattern_id: PatternId | None = None) -> Deed:
        """Record that an entry or a pattern is to be deleted after 30 seconds. Raises as `decide` does."""
        if (entry_id is None) == (pattern_id is None):
            raise InvalidInput("entry_id", "or pattern_id: give one of them")
        if entry_id is None:
            return await self._record(DeedKind.DELETE_PATTERN, await self._live_pattern("pattern_id", pattern_id))
        subject = EntryId(as_id("entry_id", entry_id))
        await self.stores.entries.get(subject)
        return await self._record(DeedKind.DELETE_ENTRY, subject)

    async def undo(self, deed_id: DeedId) -> Deed:
        """Undo a decision that waits; return it. Idempotent. Raises NotFound, or Conflict once it is done."""
        deed_id = DeedId(as_id("deed_id", deed_id))
        undone = await self.deeds.end(deed_id, DeedState.UNDONE, self.stores.clock.now(), by=self.audit.who)
        deed = await self.deeds.get(deed_id)
        if undone:
            await self.audit.record("deed undone", deed=str(deed_id), kind=deed.kind, subject=str(deed.subject))
        elif deed.state is not DeedState.UNDONE:
            raise Conflict(f"it is too late to undo deed {deed_id}: {_describe(deed)}")
        elif deed.ended_by != self.audit.who:
            raise Conflict(f"deed {deed_id} was undone by {deed.ended_by} already")
        return deed

    async def list(
        self, *, state: str | None = None, limit: int = 50, after: DeedId | None = None
    ) -> builtins.list[Deed]:
        """Return decisions, the latest first, those behind `after`. Raises InvalidInput or NotFound."""
        if state is not None and state not in frozenset(DeedState):
            raise InvalidInput("state", f"must be one of {', '.join(DeedState)}")
        await self.perform_due()
        return await self.deeds.list(
            state=None if state is None else DeedState(state),
            after=None if after is None else DeedId(as_id("after", after)),
            limit=as_integer("limit", limit, least=1, most=MAX_LISTED),
        )

    async def perform_due(self) -> int:
        """Do what is due; return the number of deeds done. A deed that cannot be done is marked as failed.

        So is one whose key was revoked since; one whose key has expired or was rotated stands.
        Replay-safe: what a process that died has begun is done again. A store that does not answer leaves it to later.
        """
        done = 0
        now = self.stores.clock.now()
        while (deed := await self.deeds.claim(now, takeover_after=_TAKEOVER_AFTER)) is not None:
            state, error = DeedState.DONE, None
            try:
                await self._perform(deed)
            except Unavailable:
                raise
            except HardwonError as failure:
                state, error = DeedState.FAILED, reason_of(failure)
                log.warning("deed_failed", deed_id=str(deed.deed_id), kind=deed.kind, reason=error)
            await self.deeds.end(deed.deed_id, state, self.stores.clock.now(), error=error)
            done += state is DeedState.DONE
        return done

    async def _perform(self, deed: Deed) -> None:
        """Do a deed in the name of who decided it."""
        if deed.key_id is not None and await is_revoked(self.keys, deed.key_id):
            raise Conflict(f"key {deed.key_id} was revoked before what it decided was done")
        audit = replace(self.audit, who=deed.who)
        reviews, grouping = replace(self.reviews, audit=audit), replace(self.grouping, audit=audit)
        capture = replace(self.capture, audit=audit)
        match deed.kind:
            case DeedKind.APPROVE:
                entry = await reviews.show(EntryId(deed.subject))
                if deed.others and deed.others[0] != id_of_texts(entry):  # an agent added what nobody has read
                    raise Conflict(f"entry {entry.entry_id} was changed after it was approved: look at it again")
                await reviews.approve_seen(entry)
            case DeedKind.REJECT:
                await reviews.reject(EntryId(deed.subject))
            case DeedKind.JOIN:
                await grouping.join(PatternId(deed.others[0]), PatternId(deed.subject))
            case DeedKind.SPLIT:
                await grouping.split([EntryId(each) for each in (deed.subject, *deed.others)])
            case DeedKind.DELETE_ENTRY:
                await capture.delete(EntryId(deed.subject))
            case DeedKind.DELETE_PATTERN:
                await capture.delete_pattern(PatternId(deed.subject))

    async def _record(self, kind: DeedKind, subject: UUID, *others: UUID) -> Deed:
        await self.perform_due()
        now = self.stores.clock.now()
        deed = Deed(
            deed_id=DeedId(uuid4()),
            kind=kind,
            subject=subject,
            others=others,
            who=self.audit.who,
            decided_at=now,
            due_at=now + GRACE,
            state=DeedState.WAITING,
            key_id=self.by.key_id,
        )
        stored = await self.deeds.add(deed)
        if (stored.kind, stored.others, stored.who) != (deed.kind, deed.others, deed.who):
            raise Conflict(f"{subject} is decided already: {_describe(stored)}; undo deed {stored.deed_id} first")
        return stored

    async def _live_pattern(self, field: str, pattern_id: PatternId | None) -> PatternId:
        if pattern_id is None:
            raise InvalidInput(field, "is missing: give a pattern")
        pattern_id = PatternId(as_id(field, pattern_id))
        await self.stores.patterns.get(pattern_id, now=self.stores.clock.now())
        return pattern_id

    async def _require_waiting(self, entry_id: EntryId) -> Entry:
        """Return an entry that waits for a review. Raises Conflict, naming who decided, if it does not any more."""
        last = await self.deeds.last_about(entry_id)
        try:
            entry = await self.stores.entries.get(entry_id)
        except NotFound:
            if last is None:
                raise
            raise Conflict(f"entry {entry_id} is decided already: {_describe(last)}") from None
        if entry.status is not EntryStatus.QUARANTINED:
            why = "it does not wait for a review" if last is None else f"it is decided already: {_describe(last)}"
            raise Conflict(f"entry {entry_id} is {entry.status}: {why}")
        return entry


def _describe(deed: Deed) -> str:
    """Return who decided what, and when, in words."""
    return f"{deed.who} {_PAST[deed.kind]} at {deed.decided_at:%Y-%m-%d %H:%M:%S} UTC"
