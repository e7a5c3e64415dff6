"""Patterns: what joins and founds them, what a person joins and splits, what a chat model wrote of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from knowledge.models import (
    Decision,
    Distillation,
    EmbeddingSpace,
    Entry,
    EntryId,
    EntryType,
    Evidence,
    Founder,
    LeaseToken,
    LinkedPatterns,
    LinkKind,
    Members,
    Move,
    PatternId,
    PointId,
    PruneReport,
)


class Deciding(Protocol):
    """A transaction in which entries are given to patterns, alone in its workspace until it ends."""

    async def held(self, entry_ids: Sequence[EntryId]) -> Mapping[EntryId, PatternId | None]:
        """Return those entries that the lease still holds, with the pattern an earlier attempt decided on."""
        ...

    async def patterns_by_key(self, match_keys: Sequence[str]) -> Mapping[str, PatternId]:
        """Return the patterns that entries with one of the keys belong to.

        As ruled or decided before, or founded with it.
        """
        ...

    async def resolutions(self, pattern_ids: Collection[PatternId]) -> Mapping[PatternId, Collection[str]]:
        """Return the resolutions of the entries of some patterns, each text once; a pattern without any is left out."""
        ...

    async def existing(self, pattern_ids: Collection[PatternId]) -> set[PatternId]:
        """Return those of the patterns that are there."""
        ...

    async def write(
        self, decisions: Sequence[Decision], space: EmbeddingSpace, *, embedded_at: datetime, expires_at: datetime
    ) -> Mapping[PointId, bool]:
        """Write patterns, links, points and vectors; return the points kept, at most `MAX_POINTS` a pattern.

        True for those whose words are in the lexicon already. An entry that joined for other reasons than equal texts
        (`why`) binds its key to the pattern, so that whoever repeats it comes there too.
        """
        ...


class PatternStore(Protocol):
    """Patterns of one workspace and the points that stand for their texts."""

    def deciding(self, token: LeaseToken) -> AbstractAsyncContextManager[Deciding]:
        """Open the transaction in which leased entries join or found patterns; it commits when the block ends well."""
        ...

    async def mark_embedded(
        self,
        token: LeaseToken,
        entry_ids: Sequence[EntryId],
        space: EmbeddingSpace,
        *,
        embedded_at: datetime,
        expires_at: datetime,
    ) -> set[EntryId]:
        """Mark entries embedded and recount their patterns, in one transaction; return those that were.

        Left out are entries the token no longer holds; all of them, where `space`, into whose index their points were
        put, is no longer in use.
        """
        ...

    async def bound_to(self, match_key: str) -> PatternId | None:
        """Return the pattern that a key was bound to by a decision or a ruling, None where it was not."""
        ...

    async def analyse(self) -> None:
        """Have the store look at what it holds now, so that it plans its queries well after many entries came in."""
        ...

    async def founders(self, space: EmbeddingSpace, point_ids: Sequence[PointId]) -> Mapping[PointId, Founder]:
        """Return what the patterns of points are compared by; left out are those without entries or a vector."""
        ...

    async def evidence(
        self, point_ids: Sequence[PointId], *, now: datetime, project_id: str | None = None
    ) -> Mapping[PointId, Evidence]:
        """Return the live patterns behind points, with words; points without live evidence are left out.

        With `project_id` also whether an entry of that project is among the evidence of each.
        """
        ...

    async def get(self, pattern_id: PatternId, *, now: datetime) -> Evidence:
        """Return a live pattern. Raises NotFound."""
        ...

    async def page(self, *, after: PatternId | None, limit: int, now: datetime) -> list[Evidence]:
        """Return up to `limit` live patterns with ids above `after`, ascending by id."""
        ...

    async def prune(self, now: datetime, *, open_before: datetime, limit: int) -> PruneReport:
        """Delete up to `limit` expired entries, and those that were never embedded since before `open_before`; recount.

        Expired points go too: the index is pruned first, by its own filter. Others of these entries are noted down.
        """
        ...

    async def forget_projects(self, *, limit: int) -> int:
        """Delete up to `limit` projects of which nothing is left; return how many: fewer do not mean that none is."""
        ...

    async def prunable(self, now: datetime, *, open_before: datetime) -> PruneReport:
        """Return what a whole prune would delete."""
        ...


class Regrouping(Protocol):
    """A transaction in which entries change patterns, alone in its workspace until it ends."""

    async def patterns_of(self, entry_ids: Sequence[EntryId]) -> Mapping[EntryId, PatternId]:
        """Return the patterns of entries; left out are those that are of none."""
        ...

    async def members(self, pattern_id: PatternId, *, now: datetime) -> Members | None:
        """Return the entries of a pattern without their words, None where it has none."""
        ...

    async def told(self, entry_ids: Sequence[EntryId]) -> list[Entry]:
        """Return those of some entries that are there, whole."""
        ...

    async def key_of(self, pattern_id: PatternId) -> str | None:
        """Return the key that a pattern was founded with, None where there is no such pattern."""
        ...

    async def found(
        self,
        pattern_id: PatternId,
        founder: EntryId,
        *,
        entry_type: EntryType,
        match_key: str,
        founded_at: datetime,
    ) -> None:
        """Write a pattern without entries."""
        ...

    async def move(self, moves: Sequence[Move], to: PatternId, *, now: datetime) -> None:
        """Give entries to a pattern, with their points under new ids and their keys, for good; recount."""
        ...

    async def absorb(self, keep: PatternId, other: PatternId, *, key: str, now: datetime) -> None:
        """Give a pattern the keys, outcomes and links of one whose entries are to move to it next.

        `key` stands for the other one itself, and is bound to the pattern too.
        """
        ...

    async def part(
        self,
        old: PatternId,
        new: PatternId,
        *,
        leaving: Sequence[EntryId],
        staying: Sequence[EntryId],
        keys: Collection[str],
    ) -> None:
        """Give a pattern the contexts that showed entries which are to move to it and none that stay, with outcomes.

        Of `keys`, those that are bound to the old pattern are bound to the new one.
        """
        ...

    async def keep_apart(self, one: PatternId, other: PatternId, *, now: datetime) -> None:
        """Write down that two patterns are never to be proposed as one."""
        ...


class GroupingStore(Protocol):
    """Which entries of one workspace make up a pattern, for a person who sees it otherwise."""

    async def links(self, kind: LinkKind, *, of: PatternId | None, now: datetime, limit: int) -> list[LinkedPatterns]:
        """Return up to `limit` linked pairs, both of them live, the likeliest first; `of`: those of one pattern."""
        ...

    async def entries(self, pattern_id: PatternId, *, limit: int) -> list[Entry]:
        """Return up to `limit` entries of a pattern, the oldest first."""
        ...

    async def patterns_of(self, entry_ids: Sequence[EntryId]) -> Mapping[EntryId, PatternId]:
        """Return the patterns of entries; left out are those that are of none."""
        ...

    def all_entries(self, pattern_id: PatternId) -> AsyncIterator[list[Entry]]:
        """Yield all entries of a pattern, some at a time, in any order; nothing is held up meanwhile."""
        ...

    def regrouping(self) -> AbstractAsyncContextManager[Regrouping]:
        """Open the transaction in which entries change patterns; it commits when the block ends well."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Undistilled:
    """A pattern to distil, with how many embedded entries it has now."""

    pattern_id: PatternId
    evidence: int


class DistillationStore(Protocol):
    """What a model wrote of the patterns of one workspace. It goes with any entry that it was made of."""

    def distilling(self) -> AbstractAsyncContextManager[bool]:
        """Say whether nobody else distils patterns of the workspace, and let nobody until the block ends.

        What a process that died was at is free at once. Waits where this process is at it in many workspaces already.
        """
        ...

    async def due(self, model: str, *, now: datetime, least: int, grown: int) -> list[Undistilled]:
        """Return the patterns to distil, those with most evidence first.

        They have at least `least` live entries, and no answer yet, or one that has expired, or one of a time when they
        had at most a `grown`-th of the evidence; or their answer was refused and came from another model.
        """
        ...

    async def material(self, pattern_id: PatternId, *, now: datetime, limit: int) -> list[Entry]:
        """Return up to `limit` live entries of a pattern, the most trusted, then latest first."""
        ...

    async def keep(self, distillation: Distillation) -> bool:
        """Keep an answer in place of the one before; False, and nothing kept, where one of its entries is gone.

        It is shown until the first of its entries expires. A refused one leaves what was written before as it is, which
        is then due again once the evidence has grown from there.
        """
        ...
