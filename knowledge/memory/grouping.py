"""Patterns as a person sees them: likely twins to join, joined ones to split. What is ruled stands for good."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from knowledge.errors import InvalidInput, NotFound
from knowledge.forms import as_id, as_whole
from knowledge.logs import get_logger
from knowledge.memory import texts
from knowledge.memory.outcomes import joined_to
from knowledge.memory.query import live, to_pattern
from knowledge.memory.settling import settle_if_possible
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
from knowledge.ports import GroupingStore, Regrouping, Stores
from knowledge.provenance import UNHEARD, Auditor

MAX_SUGGESTIONS = 1000
SHOWN_ENTRIES = 100
"""Entries that are shown of a pattern, the oldest."""
_READ_AT_ONCE = 100
"""Entries that are read whole while others wait."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternPair:
    """Two patterns that have to do with each other, the more tried one first.

    `probability`, 0..1: how likely their situations are the same; `why`, in words, what spoke for it and against it.
    """

    kind: LinkKind
    probability: float
    why: tuple[str, ...]
    patterns: tuple[Pattern, Pattern]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternDetails:
    """A pattern with up to `SHOWN_ENTRIES` of its entries, the oldest first, and its likely twins and rivals."""

    pattern: Pattern
    entries: tuple[Entry, ...]
    twins: tuple[PatternPair, ...]
    rivals: tuple[PatternPair, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternGroupingService:
    """Joins and splits the patterns of one workspace, and says which to look at."""

    stores: Stores
    grouping: GroupingStore
    audit: Auditor = UNHEARD

    async def suggest(self, *, limit: int = 20) -> list[PatternPair]:
        """Return patterns that are likely the same, for a person to join, the likeliest first."""
        limit = as_whole("limit", limit, least=1, most=MAX_SUGGESTIONS)
        return await self._pairs(LinkKind.TWIN, None, limit)

    async def show(self, pattern_id: PatternId) -> PatternDetails:
        """Return a live pattern, or the one it was joined to, with its entries and what it has to do with.

        Raises NotFound.
        """
        pattern = to_pattern(await live(self.stores, PatternId(as_id("pattern_id", pattern_id))))
        pattern_id = pattern.pattern_id
        return PatternDetails(
            pattern=pattern,
            entries=tuple(await self.grouping.entries(pattern_id, limit=SHOWN_ENTRIES)),
            twins=tuple(await self._pairs(LinkKind.TWIN, pattern_id, SHOWN_ENTRIES)),
            rivals=tuple(await self._pairs(LinkKind.RIVAL, pattern_id, SHOWN_ENTRIES)),
        )

    async def join(self, keep: PatternId, other: PatternId) -> Pattern:
        """Make two patterns one, for good: what repeats an entry of either comes to the one that is kept.

        No text is changed. Two that are one already stay so: a call whose answer was lost may be repeated. Raises
        NotFound for a pattern that is not live, InvalidInput for two that cannot be one.
        """
        keep, other = PatternId(as_id("keep", keep)), PatternId(as_id("other", other))
        if keep == other:
            raise InvalidInput("other", "is the pattern to keep: give two patterns")
        now = self.stores.clock.now()
        try:
            moved = await self._absorb(keep, other, now)
        except NotFound:
            if await joined_to(self.stores, other) != keep:
                raise
            moved = 0  # done before, and maybe never written down
        await settle_if_possible(self.stores, whole=False)
        await self.audit.note("patterns joined", kept=str(keep), other=str(other), entries=moved)
        log.info("patterns_joined", kept=str(keep), other=str(other), entries=moved)
        return to_pattern(await self.stores.patterns.get(keep, now=now))

    async def _absorb(self, keep: PatternId, other: PatternId, now: datetime) -> int:
        read = await self._moves(other, keep)
        async with self.grouping.regrouping() as regrouping:
            kept, moving = await regrouping.members(keep, now=now), await regrouping.members(other, now=now)
            if kept is None or not kept.live:
                raise self._not_there(keep)
            if moving is None or not moving.live:
                raise self._not_there(other)
            if kept.entry_type is not moving.entry_type:
                raise InvalidInput("other", f"is of {moving.entry_type}, the one to keep of {kept.entry_type}")
            moves = await self._completed(read, regrouping, moving, other, keep)
            await regrouping.absorb(keep, other, key=texts.pattern_key(other), now=now)
            await regrouping.move(moves, keep, now=now)
        return len(moves)

    async def split(self, entry_ids: Sequence[EntryId]) -> Pattern:
        """Take entries, and all with the same words, out of their pattern into one of their own, for good.

        What came of it in contexts that showed none of the others goes along, so that a join is undone with its counts.
        The two are never proposed as twins again. What was split off already stays so: a call whose answer was lost
        may be repeated. Raises NotFound or InvalidInput (field `entry_ids`).
        """
        entry_ids = [EntryId(as_id("entry_ids", entry_id)) for entry_id in entry_ids]
        now = self.stores.clock.now()
        new = PatternId(uuid4())
        seen = _only(await self.grouping.patterns_of(entry_ids), entry_ids)
        read = await self._moves(seen, new)
        async with self.grouping.regrouping() as regrouping:
            old = _only(await regrouping.patterns_of(entry_ids), entry_ids)
            members = await regrouping.members(old, now=now)
            if members is None:
                raise self._not_there(old)
            moves = await self._completed(read if old == seen else {}, regrouping, members, old, new)
            told = set(entry_ids)
            keys = {move.match_key for move in moves if move.entry_id in told}
            leaving = [move for move in moves if move.match_key in keys]
            there = len(leaving) == len(moves) and await regrouping.key_of(old) == texts.pattern_key(old)
            if len(leaving) == len(moves) and not there:
                raise InvalidInput("entry_ids", f"are all that pattern {old} has, with those that say the same")
            if not any(move.entry_id in members.live for move in leaving):
                raise InvalidInput("entry_ids", "are no live ones: of a pattern of their own nothing would be shown")
            if there:
                new = old
            else:
                await self._split_off(regrouping, members, leaving, old, new, now=now)
        await settle_if_possible(self.stores, whole=False)
        moved = 0 if there else len(leaving)
        await self.audit.note("pattern split", old=str(old), new=str(new), entries=moved)
        log.info("pattern_split", old=str(old), new=str(new), entries=moved)
        return to_pattern(await self.stores.patterns.get(new, now=now))

    async def _split_off(
        self,
        regrouping: Regrouping,
        members: Members,
        leaving: Sequence[Move],
        old: PatternId,
        new: PatternId,
        *,
        now: datetime,
    ) -> None:
        """Let entries leave their pattern and found another one."""
        going = {move.entry_id: pattern_id_of(self.stores.workspace, move.entry_id) for move in leaving}
        # an entry's own key stays with the pattern it founded: the ruling goes before it
        await regrouping.found(
            new,
            leaving[0].entry_id,
            entry_type=members.entry_type,
            match_key=texts.pattern_key(new),
            founded_at=now,
        )
        await regrouping.part(
            old,
            new,
            leaving=list(going),
            staying=[entry_id for entry_id in members.entry_ids if entry_id not in going],
            keys={texts.pattern_key(pattern_id) for pattern_id in going.values()},
        )
        await regrouping.move(leaving, new, now=now)
        await regrouping.keep_apart(old, new, now=now)

    async def _moves(self, old: PatternId, new: PatternId) -> dict[EntryId, Move]:
        """Return how the entries of a pattern would go to another one, as far as it has them now.

        Worked out before anybody is held up: for thousands of entries it takes seconds. No text changes any more.
        """
        moves: dict[EntryId, Move] = {}
        async for some in self.grouping.all_entries(old):
            moves |= await asyncio.to_thread(_read, self.stores.workspace, some, old, new)
        return moves

    async def _completed(
        self, read: Mapping[EntryId, Move], regrouping: Regrouping, members: Members, old: PatternId, new: PatternId
    ) -> list[Move]:
        """Return the same for all that the pattern has by now, the oldest first."""
        since = [entry_id for entry_id in members.entry_ids if entry_id not in read]
        moves = dict(read)
        for start in range(0, len(since), _READ_AT_ONCE):
            told = await regrouping.told(since[start : start + _READ_AT_ONCE])
            moves |= await asyncio.to_thread(_read, self.stores.workspace, told, old, new)
        return [moves[entry_id] for entry_id in members.entry_ids]

    def _not_there(self, pattern_id: PatternId) -> NotFound:
        return NotFound(f"there is no live pattern {pattern_id} in workspace {self.stores.workspace}")

    async def _pairs(self, kind: LinkKind, of: PatternId | None, limit: int) -> list[PatternPair]:
        found = await self.grouping.links(kind, of=of, now=self.stores.clock.now(), limit=limit)
        return [
            PatternPair(
                kind=link.kind,
                probability=link.probability,
                why=link.why,
                patterns=(to_pattern(link.patterns[0]), to_pattern(link.patterns[1])),
            )
            for link in found
        ]


def _read(workspace: str, entries: Sequence[Entry], old: PatternId, new: PatternId) -> dict[EntryId, Move]:
    """Return how entries would go from a pattern to another one: their keys and points, by what they tell."""

    def point(pattern_id: PatternId, view: View, text: str) -> PointId:
        return point_id_of(workspace, pattern_id, view, texts.normalise(text))

    return {
        entry.entry_id: Move(
            entry_id=entry.entry_id,
            match_key=texts.wording_key(entry),
            points={point(old, view, text): point(new, view, text) for view, text in texts.views(entry).items()},
        )
        for entry in entries
    }


def _only(patterns: Mapping[EntryId, PatternId], entry_ids: Sequence[EntryId]) -> PatternId:
    """Return the one pattern of entries."""
    if not entry_ids:
        raise InvalidInput("entry_ids", "is empty: which entries are to leave their pattern?")
    for entry_id in entry_ids:
        if entry_id not in patterns:
            raise NotFound(f"entry {entry_id} belongs to no pattern")
    found = set(patterns.values())
    if len(found) > 1:
        raise InvalidInput("entry_ids", f"belong to {len(found)} patterns: give entries of one")
    return found.pop()
