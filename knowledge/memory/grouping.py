"""Patterns as a person sees them: likely twins to join, joined ones to split. What is ruled stands for good."""

from __future__ import annotations

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
    EntryStatus,
    LinkKind,
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
        async with self.grouping.regrouping() as regrouping:
            kept, moving = await regrouping.entries(keep), await regrouping.entries(other)
            for pattern_id, entries in ((keep, kept), (other, moving)):
                if not any(_is_live(entry, now) for entry in entries):
                    raise self._not_there(pattern_id)
            if kept[0].entry_type is not moving[0].entry_type:
                raise InvalidInput("other", f"is of {moving[0].entry_type}, the one to keep of {kept[0].entry_type}")
            await regrouping.absorb(keep, other, key=texts.pattern_key(other), now=now)
            await regrouping.move(self._moves(moving, other, keep), keep, now=now)
        return len(moving)

    async def split(self, entry_ids: Sequence[EntryId]) -> Pattern:
        """Take entries, and all with the same words, out of their pattern into one of their own, for good.

        What came of it in contexts that showed none of the others goes along, so that a join is undone with its counts.
        The two are never proposed as twins again. What was split off already stays so: a call whose answer was lost
        may be repeated. Raises NotFound or InvalidInput (field `entry_ids`).
        """
        entry_ids = [EntryId(as_id("entry_ids", entry_id)) for entry_id in entry_ids]
        now = self.stores.clock.now()
        async with self.grouping.regrouping() as regrouping:
            old = _only(await regrouping.patterns_of(entry_ids), entry_ids)
            entries = await regrouping.entries(old)
            keys = {texts.written_key(entry) for entry in entries if entry.entry_id in entry_ids}
            leaving = [entry for entry in entries if texts.written_key(entry) in keys]
            there = len(leaving) == len(entries) and await regrouping.key_of(old) == texts.pattern_key(old)
            if len(leaving) == len(entries) and not there:
                raise InvalidInput("entry_ids", f"are all that pattern {old} has, with those that say the same")
            if not any(_is_live(entry, now) for entry in leaving):
                raise InvalidInput("entry_ids", "are no live ones: of a pattern of their own nothing would be shown")
            staying = [entry for entry in entries if entry not in leaving]
            new = old if there else await self._split_off(regrouping, leaving, staying, old, now)
        await settle_if_possible(self.stores, whole=False)
        moved = 0 if there else len(leaving)
        await self.audit.note("pattern split", old=str(old), new=str(new), entries=moved)
        log.info("pattern_split", old=str(old), new=str(new), entries=moved)
        return to_pattern(await self.stores.patterns.get(new, now=now))

    async def _split_off(
        self,
        regrouping: Regrouping,
        leaving: Sequence[Entry],
        staying: Sequence[Entry],
        old: PatternId,
        now: datetime,
    ) -> PatternId:
        new = PatternId(uuid4())
        founded = (pattern_id_of(self.stores.workspace, entry.entry_id) for entry in leaving)
        # an entry's own key stays with the pattern it founded: the ruling goes before it
        await regrouping.found(new, leaving[0], match_key=texts.pattern_key(new), founded_at=now)
        await regrouping.part(
            old,
            new,
            leaving=[entry.entry_id for entry in leaving],
            staying=[entry.entry_id for entry in staying],
            keys={texts.pattern_key(pattern_id) for pattern_id in founded},
        )
        await regrouping.move(self._moves(leaving, old, new), new, now=now)
        await regrouping.keep_apart(old, new, now=now)
        return new

    def _moves(self, entries: Sequence[Entry], old: PatternId, new: PatternId) -> list[Move]:
        def point(pattern_id: PatternId, view: View, text: str) -> PointId:
            return point_id_of(self.stores.workspace, pattern_id, view, texts.normalised(text))

        return [
            Move(
                entry_id=entry.entry_id,
                match_key=texts.written_key(entry),
                points={point(old, view, text): point(new, view, text) for view, text in texts.views(entry).items()},
            )
            for entry in entries
        ]

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


def _is_live(entry: Entry, now: datetime) -> bool:
    """Return whether an entry is evidence that is shown: embedded, and not expired."""
    return entry.status is EntryStatus.EMBEDDED and entry.expires_at is not None and entry.expires_at > now


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
