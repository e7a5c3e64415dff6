"""Merging and splitting of patterns by a person: likely twins to join, joined ones to split. Rulings are permanent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from hardwon.errors import InvalidInput, NotFound
from hardwon.event_log import get_logger
from hardwon.models.patterns import MAX_SUGGESTIONS, PatternDetails, PatternPair
from hardwon.validation import as_id, as_integer
from knowledge.access.provenance import NO_AUDIT, Auditor
from knowledge.memory.capture.outcomes import merge_target
from knowledge.memory.index.reconcile import settle_if_possible
from knowledge.memory.query.service import get_live, to_pattern, with_dead_ends
from knowledge.memory.rules import embedding_text
from knowledge.models import (
    Entry,
    EntryId,
    LinkKind,
    Members,
    Move,
    Pattern,
    PatternId,
    PointId,
    View,
    pattern_id_of,
    point_id_of,
)
from knowledge.ports import GroupingStore, RegroupingTransaction, Stores

MAX_SHOWN_ENTRIES = 100
"""Entries of a pattern that are shown, the oldest."""
_READ_BATCH = 100
"""Entries read at a time inside the transaction."""
log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternGroupingService:
    """Joins and splits the patterns of one workspace, and suggests which."""

    stores: Stores
    grouping: GroupingStore
    audit: Auditor = NO_AUDIT

    async def suggest(self, *, limit: int = 20) -> list[PatternPair]:
        """Return likely twins for a person to join, likeliest first."""
        limit = as_integer("limit", limit, least=1, most=MAX_SUGGESTIONS)
        return await self._pairs(LinkKind.TWIN, None, limit)

    async def show(self, pattern_id: PatternId) -> PatternDetails:
        """Return a live pattern, or the one it was joined to, with its entries, twins and rivals. Raises NotFound."""
        pattern = to_pattern(await get_live(self.stores, PatternId(as_id("pattern_id", pattern_id))))
        pattern_id = pattern.pattern_id
        return PatternDetails(
            pattern=await with_dead_ends(self.stores, pattern),
            entries=tuple(await self.grouping.entries(pattern_id, limit=MAX_SHOWN_ENTRIES)),
            twins=tuple(await self._pairs(LinkKind.TWIN, pattern_id, MAX_SHOWN_ENTRIES)),
            rivals=tuple(await self._pairs(LinkKind.RIVAL, pattern_id, MAX_SHOWN_ENTRIES)),
        )

    async def join(self, keep: PatternId, other: PatternId) -> Pattern:
        """Merge `other` into `keep`, permanently: later entries that repeat an entry of either join `keep`.

        No text is changed. Idempotent, so that a call whose response was lost can be retried. Raises NotFound for a
        pattern that is not live, InvalidInput for two that cannot be merged.
        """
        keep, other = PatternId(as_id("keep", keep)), PatternId(as_id("other", other))
        if keep == other:
            raise InvalidInput("other", "is the pattern to keep: give two patterns")
        now = self.stores.clock.now()
        try:
            moved = await self._absorb(keep, other, now)
        except NotFound:
            if await merge_target(self.stores, other) != keep:
                raise
            moved = 0  # merged before, perhaps without an audit entry
        await settle_if_possible(self.stores, whole=False)
        await self.audit.record("patterns joined", kept=str(keep), other=str(other), entries=moved)
        log.info("patterns_joined", kept=str(keep), other=str(other), entries=moved)
        return to_pattern(await self.stores.patterns.get(keep, now=now))

    async def _absorb(self, keep: PatternId, other: PatternId, now: datetime) -> int:
        planned = await self._moves(other, keep)
        async with self.grouping.begin_regrouping() as regrouping:
            target, moving = await regrouping.members(keep, now=now), await regrouping.members(other, now=now)
            if target is None or not target.live:
                raise self._no_live_pattern(keep)
            if moving is None or not moving.live:
                raise self._no_live_pattern(other)
            if target.entry_type is not moving.entry_type:
                raise InvalidInput(
                    "other",
                    f"holds {moving.entry_type} entries, but the pattern to keep holds {target.entry_type} entries",
                )
            moves = await self._complete_moves(planned, regrouping, moving, other, keep)
            await regrouping.absorb(keep, other, key=embedding_text.pattern_key(other), now=now)
            await regrouping.move(moves, keep, now=now)
        return len(moves)

    async def split(self, entry_ids: Sequence[EntryId]) -> Pattern:
        """Move entries, and all with the same words, from their pattern to a new one, permanently.

        Outcomes of contexts that showed none of the other entries move along, so that a join is undone with its counts.
        Both have the tags. The two are never proposed as twins again. Idempotent, so that a call whose response was
        lost can be retried. Raises NotFound or InvalidInput (field `entry_ids`).
        """
        entry_ids = [EntryId(as_id("entry_ids", entry_id)) for entry_id in entry_ids]
        now = self.stores.clock.now()
        new = PatternId(uuid4())
        planned_from = _single_pattern(await self.grouping.patterns_of(entry_ids), entry_ids)
        planned = await self._moves(planned_from, new)
        async with self.grouping.begin_regrouping() as regrouping:
            old = _single_pattern(await regrouping.patterns_of(entry_ids), entry_ids)
            members = await regrouping.members(old, now=now)
            if members is None:
                raise self._no_live_pattern(old)
            moves = await self._complete_moves(planned if old == planned_from else {}, regrouping, members, old, new)
            requested = set(entry_ids)
            keys = {move.match_key for move in moves if move.entry_id in requested}
            leaving = [move for move in moves if move.match_key in keys]
            already_split = len(leaving) == len(moves) and await regrouping.key_of(old) == embedding_text.pattern_key(
                old
            )
            if len(leaving) == len(moves) and not already_split:
                raise InvalidInput(
                    "entry_ids", f"are, with those in the same words, all entries of pattern {old}: leave at least one"
                )
            if not any(move.entry_id in members.live for move in leaving):
                raise InvalidInput("entry_ids", "are not live: their new pattern would never be shown")
            if already_split:
                new = old
            else:
                await self._split_off(regrouping, members, leaving, old, new, now=now)
        await settle_if_possible(self.stores, whole=False)
        moved = 0 if already_split else len(leaving)
        await self.audit.record("pattern split", old=str(old), new=str(new), entries=moved)
        log.info("pattern_split", old=str(old), new=str(new), entries=moved)
        return to_pattern(await self.stores.patterns.get(new, now=now))

    async def _split_off(
        self,
        regrouping: RegroupingTransaction,
        members: Members,
        leaving: Sequence[Move],
        old: PatternId,
        new: PatternId,
        *,
        now: datetime,
    ) -> None:
        """Move entries from their pattern to a new one that the first of them founds."""
        new_homes = {move.entry_id: pattern_id_of(self.stores.workspace, move.entry_id) for move in leaving}
        # the entry's own key stays with the pattern it founded; the person's ruling takes precedence
        await regrouping.create_pattern(
            new,
            leaving[0].entry_id,
            entry_type=members.entry_type,
            match_key=embedding_text.pattern_key(new),
            founded_at=now,
            tags_of=old,
        )
        await regrouping.split_contexts(
            old,
            new,
            leaving=list(new_homes),
            staying=[entry_id for entry_id in members.entry_ids if entry_id not in new_homes],
            keys={embedding_text.pattern_key(pattern_id) for pattern_id in new_homes.values()},
        )
        await regrouping.move(leaving, new, now=now)
        await regrouping.keep_apart(old, new, now=now)

    async def _moves(self, old: PatternId, new: PatternId) -> dict[EntryId, Move]:
        """Plan the moves of a pattern's current entries to another one.

        Done before the transaction, as it takes seconds for thousands of entries; texts do not change any more.
        """
        moves: dict[EntryId, Move] = {}
        async for some in self.grouping.all_entries(old):
            moves |= await asyncio.to_thread(_plan_moves, self.stores.workspace, some, old, new)
        return moves

    async def _complete_moves(
        self,
        planned: Mapping[EntryId, Move],
        regrouping: RegroupingTransaction,
        members: Members,
        old: PatternId,
        new: PatternId,
    ) -> list[Move]:
        """Return the moves for all entries that the pattern has by now, oldest first."""
        since = [entry_id for entry_id in members.entry_ids if entry_id not in planned]
        moves = dict(planned)
        for start in range(0, len(since), _READ_BATCH):
            entries = await regrouping.load_entries(since[start : start + _READ_BATCH])
            moves |= await asyncio.to_thread(_plan_moves, self.stores.workspace, entries, old, new)
        return [moves[entry_id] for entry_id in members.entry_ids]

    def _no_live_pattern(self, pattern_id: PatternId) -> NotFound:
        return NotFound(f"there is no live pattern {pattern_id} in workspace {self.stores.workspace}")

    async def _pairs(self, kind: LinkKind, of: PatternId | None, limit: int) -> list[PatternPair]:
        links = await self.grouping.links(kind, of=of, now=self.stores.clock.now(), limit=limit)
        return [
            PatternPair(
                kind=link.kind,
                probability=link.probability,
                why=link.why,
                patterns=(to_pattern(link.patterns[0]), to_pattern(link.patterns[1])),
            )
            for link in links
        ]


def _plan_moves(workspace: str, entries: Sequence[Entry], old: PatternId, new: PatternId) -> dict[EntryId, Move]:
    """Plan the moves of entries from one pattern to another: their new keys and points."""

    def point(pattern_id: PatternId, view: View, text: str) -> PointId:
        return point_id_of(workspace, pattern_id, view, embedding_text.normalise(text))

    return {
        entry.entry_id: Move(
            entry_id=entry.entry_id,
            match_key=embedding_text.wording_key(entry),
            points={
                point(old, view, text): point(new, view, text) for view, text in embedding_text.views(entry).items()
            },
        )
        for entry in entries
    }


def _single_pattern(patterns: Mapping[EntryId, PatternId], entry_ids: Sequence[EntryId]) -> PatternId:
    """Return the one pattern that all entries belong to. Raises InvalidInput or NotFound."""
    if not entry_ids:
        raise InvalidInput("entry_ids", "is empty: give the entries to split off")
    for entry_id in entry_ids:
        if entry_id not in patterns:
            raise NotFound(f"entry {entry_id} does not belong to a pattern")
    distinct = set(patterns.values())
    if len(distinct) > 1:
        raise InvalidInput("entry_ids", f"belong to {len(distinct)} patterns: give entries of one")
    return distinct.pop()
