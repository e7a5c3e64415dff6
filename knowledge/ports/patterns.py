"""Patterns: deciding which entry joins which pattern, merging and splitting by a person, distillation by a model."""

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
    EntryProfile,
    EntryTexts,
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
    TrialRecord,
)


class DecisionTransaction(Protocol):
    """A transaction that assigns entries to patterns; no other one runs in its workspace meanwhile."""

    async def find_leased(self, entry_ids: Sequence[EntryId]) -> Mapping[EntryId, PatternId | None]:
        """Return those entries that the lease still covers, each with the pattern an earlier attempt decided on."""
        ...

    async def patterns_by_key(self, match_keys: Sequence[str]) -> Mapping[str, PatternId]:
        """Return the patterns that entries with one of the keys belong to.

        By an earlier decision or ruling, or because the pattern was founded with the key.
        """
        ...

    async def resolutions(self, pattern_ids: Collection[PatternId]) -> Mapping[PatternId, Collection[str]]:
        """Return the distinct resolutions of the entries of each pattern; patterns without any are left out."""
        ...

    async def find_existing(self, pattern_ids: Collection[PatternId]) -> set[PatternId]:
        """Return those of the patterns that exist."""
        ...

    async def write(
        self, decisions: Sequence[Decision], space: EmbeddingSpace, *, embedded_at: datetime, expires_at: datetime
    ) -> Mapping[PointId, bool]:
        """Write patterns, links, points and vectors; return the points kept, at most `MAX_POINTS` a pattern.

        The value is True if the words of a point are in the lexicon already. An entry that joined for another reason
        than equal texts (`why`) binds its key to the pattern, so that its repetitions join there too.
        """
        ...


class PatternStore(Protocol):
    """Patterns of one workspace and the points that stand for their texts."""

    def begin_decisions(self, token: LeaseToken) -> AbstractAsyncContextManager[DecisionTransaction]:
        """Open the transaction in which leased entries join or found patterns; commits if the block succeeds."""
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
        """Mark entries embedded and recount their patterns, in one transaction; return those marked.

        Entries that the token no longer holds are left out; so are all of them if `space`, into whose index their
        points were put, is no longer in use.
        """
        ...

    async def pattern_of_key(self, match_key: str) -> PatternId | None:
        """Return the pattern that a decision or a ruling bound a key to, None if there is none."""
        ...

    async def analyse(self) -> None:
        """Refresh the store's planner statistics after many entries came in."""
        ...

    async def founders(self, space: EmbeddingSpace, point_ids: Sequence[PointId]) -> Mapping[PointId, Founder]:
        """Return the founders that the patterns of points are compared by, without patterns that have no vector."""
        ...

    async def evidence(
        self, point_ids: Sequence[PointId], *, now: datetime, project_id: str | None = None
    ) -> Mapping[PointId, Evidence]:
        """Return the live patterns of points, with texts; points without live evidence are left out.

        With `project_id` also whether an entry of that project is among the evidence of each.
        """
        ...

    async def evidence_with_records(
        self, point_ids: Sequence[PointId], further: Sequence[PointId], *, now: datetime, project_id: str | None = None
    ) -> tuple[Mapping[PointId, Evidence], list[TrialRecord]]:
        """Return the same of `point_ids`, and the records near these and `further` points, in one round trip.

        The records are those that `RecordStore.near` returns, in any order.
        """
        ...

    async def without_profile(self, rules: int, limit: int) -> Mapping[EntryId, EntryTexts]:
        """Return the texts of embedded entries that have no profile by these rules."""
        ...

    async def store_profiles(self, profiles: Mapping[EntryId, EntryProfile]) -> None:
        """Store the profiles of entries, those deleted meanwhile aside."""
        ...

    async def get(self, pattern_id: PatternId, *, now: datetime) -> Evidence:
        """Return a live pattern. Raises NotFound."""
        ...

    async def prune(self, now: datetime, *, open_before: datetime, limit: int) -> PruneReport:
        """Delete up to `limit` expired entries and entries not embedded since `open_before`; recount their patterns.

        Deletes expired points too: the index is pruned first, by its own filter. Other points of these entries are
        marked dirty.
        """
        ...

    async def forget_projects(self, *, limit: int) -> int:
        """Delete up to `limit` projects that are empty; return how many: fewer than `limit` may leave some."""
        ...

    async def prunable(self, now: datetime, *, open_before: datetime) -> PruneReport:
        """Return the counts that a complete prune would delete."""
        ...


class RegroupingTransaction(Protocol):
    """A transaction that moves entries between patterns; no other one runs in its workspace meanwhile."""

    async def patterns_of(self, entry_ids: Sequence[EntryId]) -> Mapping[EntryId, PatternId]:
        """Return the patterns of entries; entries without one are left out."""
        ...

    async def members(self, pattern_id: PatternId, *, now: datetime) -> Members | None:
        """Return the entries of a pattern without their texts, None if it has none."""
        ...

    async def load_entries(self, entry_ids: Sequence[EntryId]) -> list[Entry]:
        """Return those of the entries that exist, complete."""
        ...

    async def key_of(self, pattern_id: PatternId) -> str | None:
        """Return the key that a pattern was founded with, None if there is no such pattern."""
        ...

    async def create_pattern(
        self,
        pattern_id: PatternId,
        founder: EntryId,
        *,
        entry_type: EntryType,
        match_key: str,
        founded_at: datetime,
        tags_of: PatternId,
    ) -> None:
        """Write a pattern without entries, with the tags of another one."""
        ...

    async def move(self, moves: Sequence[Move], to: PatternId, *, now: datetime) -> None:
        """Move entries to a pattern for good, with their keys and with their points under new ids; recount."""
        ...

    async def absorb(self, keep: PatternId, other: PatternId, *, key: str, now: datetime) -> None:
        """Give a pattern the keys, outcomes, tags and links of another one, whose entries are moved to it next.

        `key` stands for the other one itself, and is bound to the pattern too.
        """
        ...

    async def split_contexts(
        self,
        old: PatternId,
        new: PatternId,
        *,
        leaving: Sequence[EntryId],
        staying: Sequence[EntryId],
        keys: Collection[str],
    ) -> None:
        """Give the new pattern the contexts, with outcomes, that showed `leaving` entries and none of `staying`.

        Those of `keys` that are bound to the old pattern are bound to the new one.
        """
        ...

    async def keep_apart(self, one: PatternId, other: PatternId, *, now: datetime) -> None:
        """Record that two patterns are never to be proposed for merging."""
        ...


class GroupingStore(Protocol):
    """The entries of each pattern of one workspace, to be merged and split by a person."""

    async def links(self, kind: LinkKind, *, of: PatternId | None, now: datetime, limit: int) -> list[LinkedPatterns]:
        """Return up to `limit` linked pairs of live patterns, likeliest first; `of`: those of one pattern."""
        ...

    async def entries(self, pattern_id: PatternId, *, limit: int) -> list[Entry]:
        """Return up to `limit` entries of a pattern, oldest first."""
        ...

    async def patterns_of(self, entry_ids: Sequence[EntryId]) -> Mapping[EntryId, PatternId]:
        """Return the patterns of entries; entries without one are left out."""
        ...

    def all_entries(self, pattern_id: PatternId) -> AsyncIterator[list[Entry]]:
        """Yield all entries of a pattern in batches, in any order, without a lock."""
        ...

    def begin_regrouping(self) -> AbstractAsyncContextManager[RegroupingTransaction]:
        """Open the transaction in which entries change patterns; commits if the block succeeds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillationCandidate:
    """A pattern to distil, with the number of embedded entries it has now."""

    pattern_id: PatternId
    evidence: int


class DistillationStore(Protocol):
    """Distillations: what a model wrote of the patterns of one workspace. Deleted with any entry it was made of."""

    def lock_distilling(self) -> AbstractAsyncContextManager[bool]:
        """Yield whether this process may distil patterns of the workspace, and lock out others until the block ends.

        The lock of a process that died is free at once. Waits while this process distils in many workspaces already.
        """
        ...

    async def due(self, model: str, *, now: datetime, least: int, grown: int) -> list[DistillationCandidate]:
        """Return the patterns to distil, those with most evidence first.

        They have at least `least` live entries and no distillation, an expired one, or one made of at most a `grown`-th
        of their evidence; or their distillation was refused and came from another model.
        """
        ...

    async def material(self, pattern_id: PatternId, *, now: datetime, limit: int) -> list[Entry]:
        """Return up to `limit` live entries of a pattern, most trusted first, then latest."""
        ...

    async def keep(self, distillation: Distillation) -> bool:
        """Replace a pattern's distillation; return False, and store nothing, if one of its entries is gone.

        It is shown until the first of its entries expires. A refused one leaves the text before as it is; the pattern
        is then due again once its evidence has grown from there.
        """
        ...
