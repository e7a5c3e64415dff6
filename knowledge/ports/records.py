"""Records of trials, and what a workspace's hints came to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from knowledge.models import (
    ChoiceRecord,
    ContextId,
    ContextKind,
    ContextOutcome,
    EntryTexts,
    KnownKeys,
    KnownPlaces,
    LiftCounts,
    PatternId,
    PointId,
    Provenance,
    SearchStart,
    TrialRecord,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextQuery:
    """Conditions on contexts, all of which must hold. `pattern_id`: shown in it. `since`: built then or later."""

    project_id: str | None = None
    reason: str | None = None
    given: ContextKind | None = None
    outcome: ContextOutcome | None = None
    pattern_id: PatternId | None = None
    since: datetime | None = None


class RecordStore(Protocol):
    """The records of one workspace."""

    async def near(self, points: Collection[PointId], *, before: datetime | None = None) -> list[TrialRecord]:
        """Return the records at these points and at others of their patterns, of each the latest, trusted ones first.

        With `before`, those recorded until then. Records whose arm is not computed yet are left out.
        """
        ...

    async def begin_search(
        self, terms: Sequence[int], situation: str, *, unasked: bool = False, agent_type: str | None = None
    ) -> SearchStart | None:
        """Return what a search needs before the index is asked, in one round trip; None if no space is bound.

        `terms`: those of the question; `situation`: its key. With `unasked` also the workspace's experience with hints
        to agents of a type, which leaves out what agents' keys reported.
        """
        ...

    async def find_known(self, situation: str, error: str) -> KnownPlaces:
        """Return what is known of a situation or task with this very text, by its key, or of an error, by its key.

        At most a few dozen of each, whoever reported them: trusted entries first, then the latest. An empty `error` has
        no places.
        """
        ...

    async def record_unaided(self, context_id: ContextId, *, worked: bool, by: Provenance, now: datetime) -> None:
        """Record the result of a task that got no hint; the first result stands, unless an agent's key reported it.

        Raises NotFound.
        """
        ...

    async def choice(self, context_id: ContextId) -> ChoiceRecord:
        """Return how a context was chosen. Raises NotFound."""
        ...

    async def choices(self, query: ContextQuery, *, after: ContextId | None, limit: int) -> list[ChoiceRecord]:
        """Return up to `limit` contexts without their choices, the latest first, those behind `after`."""
        ...

    async def arms_of(self, context_id: ContextId) -> Mapping[PatternId, str]:
        """Return the arms of the candidates of a context."""
        ...

    async def hints(self, limit: int) -> list[tuple[tuple[float, ...], bool]]:
        """Return the features of up to `limit` hints with a trusted outcome, the latest first, and whether they worked.

        The outcome of a hint is that of the first pattern of its context.
        """
        ...

    async def save_weights(self, weights: Sequence[float]) -> None:
        """Store the workspace's weights."""
        ...

    async def forget_weights(self) -> None:
        """Let the prior hold in the workspace again."""
        ...

    async def without_arm(self, limit: int) -> Mapping[UUID, EntryTexts]:
        """Return up to `limit` records without an arm, each with the texts of the entry that it stands for."""
        ...

    async def name_arms(self, arms: Mapping[UUID, str]) -> None:
        """Store the arms of records."""
        ...

    async def without_keys(self, limit: int) -> Mapping[UUID, EntryTexts]:
        """Return up to `limit` records of entries without known keys, each with the texts of its entry."""
        ...

    async def store_keys(self, keys: Mapping[UUID, KnownKeys]) -> None:
        """Store the known keys of records."""
        ...

    async def lift(self) -> LiftCounts:
        """Return the numbers of tasks with a hint and of those held out, by trusted reports, the latest of many."""
        ...
