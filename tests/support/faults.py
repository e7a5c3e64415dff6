"""Faults on purpose: wires around the ports of open stores that can be tripped, and checkpoints that are wrong.

The product has no switch for tests: its services get ports that pass a wire before and after each call.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, cast
from uuid import uuid4

import sqlalchemy as sa

from knowledge.adapters.postgres.engine.database import transaction
from knowledge.adapters.postgres.memory_tables import knowledge_staging
from knowledge.memory.checkpoint.pipeline import EmbeddingRun
from knowledge.memory.index import points
from knowledge.memory.maintenance.verify import KnowledgeUpkeepService
from knowledge.models import (
    Decision,
    Embeddings,
    EmbeddingSpace,
    EntryId,
    LeaseToken,
    Point,
    PointId,
)
from knowledge.ports import (
    CheckpointStore,
    DecisionTransaction,
    EntryStore,
    PatternStore,
    PointStore,
    SpaceStore,
    UpkeepStore,
    VectorIndex,
)
from knowledge.wiring.open import Knowledge
from tests.support.embedders import HashingEmbedder

Wire = Callable[[str], Awaitable[None]]
"""Told `port.method:before` and `port.method:after` at each call; whatever it does happens there."""


class Trips:
    """A wire that does something at the n-th time that a place is passed: `{"index.upsert:after:2": do}`."""

    def __init__(self, at: Mapping[str, Callable[[], Awaitable[object]]]) -> None:
        self._at = at
        self.passed: Counter[str] = Counter()

    async def __call__(self, place: str) -> None:
        self.passed[place] += 1
        if do := self._at.get(f"{place}:{self.passed[place]}"):
            await do()


class Wired:
    """A port whose calls pass a wire before and after."""

    def __init__(self, port: object, name: str, wire: Wire) -> None:
        self._port = port
        self._name = name
        self._wire = wire

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._port, method)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*arguments: Any, **named: Any) -> Any:
            await self._wire(f"{self._name}.{method}:before")
            answer = await found(*arguments, **named)
            await self._wire(f"{self._name}.{method}:after")
            return answer

        return call


class _WiredPatterns(Wired):
    """The transaction that decides has its own calls, and a place before and after its commit."""

    @asynccontextmanager
    async def begin_decisions(self, token: LeaseToken) -> AsyncIterator[DecisionTransaction]:
        async with self._port.begin_decisions(token) as deciding:  # type: ignore[attr-defined]
            yield cast(DecisionTransaction, Wired(deciding, "deciding", self._wire))
            await self._wire("deciding.commit:before")
        await self._wire("deciding.commit:after")


class _WiredUpkeep(Wired):
    """The switch of spaces has a place before its commit, and one after it."""

    @asynccontextmanager
    async def begin_switch(self, space: EmbeddingSpace) -> AsyncIterator[None]:
        async with self._port.begin_switch(space):  # type: ignore[attr-defined]
            yield
            await self._wire("upkeep.switch:before")
        await self._wire("upkeep.switch:after")


class WiredEmbedder(HashingEmbedder):
    """An instant embedder with a wire around it; `wait` is what an embedding call takes."""

    def __init__(
        self, wire: Wire, wait: Callable[[], Awaitable[None]], *, refuses: str | None = None, model: str = "hashing"
    ) -> None:
        super().__init__(dims=64, refuses=refuses, model=model)
        self._wire = wire
        self._wait = wait

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        await self._wire("embedder.embed:before")
        await self._wait()
        embedded = await super().embed(texts, kind)
        await self._wire("embedder.embed:after")
        return embedded


def wired(knowledge: Knowledge, wire: Wire, *, lease: timedelta | None = None) -> Knowledge:
    """Return the same services on ports that pass the wire, with another lease where one is given."""
    inner = knowledge.stores
    stores = replace(
        inner,
        entries=cast(EntryStore, Wired(inner.entries, "entries", wire)),
        patterns=cast(PatternStore, _WiredPatterns(inner.patterns, "patterns", wire)),
        points=cast(PointStore, Wired(inner.points, "points", wire)),
        spaces=cast(SpaceStore, Wired(inner.spaces, "spaces", wire)),
        checkpoints=cast(CheckpointStore, Wired(inner.checkpoints, "checkpoints", wire)),
        index=cast(VectorIndex, Wired(inner.index, "index", wire)),
    )
    upkeep_store = cast(UpkeepStore, _WiredUpkeep(knowledge.upkeep.upkeep, "upkeep", wire))
    upkeep = replace(knowledge.upkeep, stores=stores, upkeep=upkeep_store)

    def upkeep_of(workspace: str) -> KnowledgeUpkeepService:
        return upkeep if workspace == knowledge.workspace else knowledge.store_upkeep.of(workspace)

    return replace(
        knowledge,
        stores=stores,
        upkeep=upkeep,
        store_upkeep=replace(knowledge.store_upkeep, of=upkeep_of),
        queries=replace(knowledge.queries, stores=stores),
        reviews=replace(knowledge.reviews, stores=stores),
        revocations=replace(knowledge.revocations, stores=stores),
        grouping=replace(knowledge.grouping, stores=stores),
        capture=replace(knowledge.capture, stores=stores),
        checkpoints=replace(knowledge.checkpoints, stores=stores, lease=lease or knowledge.checkpoints.lease),
        pruning=replace(knowledge.pruning, stores=stores),
    )


class Mutant(StrEnum):
    """A checkpoint that is wrong in one way, which the harness must find."""

    MARKS_FIRST = "marks before it upserts"
    RANDOM_IDS = "gives points random ids"
    NO_TAKING_BACK = "does not take back the points of entries that were deleted meanwhile"
    NO_TOKEN = "marks what another one holds by now"


def mutated(knowledge: Knowledge, mutant: Mutant | None) -> Knowledge:
    """Return the services with a checkpoint that is wrong."""
    match mutant:
        case None:
            return knowledge
        case Mutant.MARKS_FIRST:
            late = _LateIndex(knowledge.stores.index)
            marks_first = cast(PatternStore, _MarksFirst(knowledge.stores.patterns, late))
            stores = replace(knowledge.stores, index=cast(VectorIndex, late), patterns=marks_first)
            return replace(knowledge, checkpoints=replace(knowledge.checkpoints, stores=stores))
        case Mutant.RANDOM_IDS:
            setattr(points, "point_id_of", lambda *_: PointId(uuid4()))  # noqa: B010 - the worker's process is this mutant's own
            return knowledge
        case Mutant.NO_TAKING_BACK:
            assert hasattr(EmbeddingRun, "_settle_deleted")  # else the mutant is none
            setattr(EmbeddingRun, "_settle_deleted", _take_nothing_back)  # noqa: B010 - the worker's process is this mutant's own
            unnoticed = cast(PointStore, _NoticesNothing(knowledge.stores.points))
            stores = replace(knowledge.stores, points=unnoticed)
            return replace(knowledge, checkpoints=replace(knowledge.checkpoints, stores=stores))
        case Mutant.NO_TOKEN:
            no_token = cast(PatternStore, _MarksAnything(knowledge.stores.patterns, knowledge))
            stores = replace(knowledge.stores, patterns=no_token)
            return replace(knowledge, checkpoints=replace(knowledge.checkpoints, stores=stores))


class _Around:
    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _NoticesNothing(_Around):
    """Does not see what went from the index between a decision and its write."""

    async def mark_overtaken(self, point_ids: Sequence[PointId], embedded_at: datetime) -> int:
        return 0


class _LateIndex(_Around):
    """Keeps what is upserted until it is told to write."""

    def __init__(self, inner: object) -> None:
        super().__init__(inner)
        self._kept: list[tuple[EmbeddingSpace, Sequence[Point]]] = []

    async def upsert(self, space: EmbeddingSpace, points: Sequence[Point]) -> None:
        self._kept.append((space, points))

    async def write(self) -> None:
        while self._kept:
            space, points = self._kept.pop()
            await cast(VectorIndex, self._inner).upsert(space, points)


class _MarksFirst(_Around):
    def __init__(self, inner: object, index: _LateIndex) -> None:
        super().__init__(inner)
        self._index = index

    async def mark_embedded(self, *arguments: Any, **named: Any) -> Any:
        marked = await cast(PatternStore, self._inner).mark_embedded(*arguments, **named)
        await self._index.write()
        return marked


class _MarksAnything(_Around):
    """Takes every entry it marks for its own: what a mark without a token would do."""

    def __init__(self, inner: object, knowledge: Knowledge) -> None:
        super().__init__(inner)
        self._knowledge = knowledge

    async def mark_embedded(
        self, token: LeaseToken, entry_ids: Sequence[EntryId], space: EmbeddingSpace, **until: datetime
    ) -> set[EntryId]:
        row = knowledge_staging.c
        mine = {"status": "staged", "lease_token": token, "lease_until": sa.func.now(), "embedded_at": None}
        async with transaction(self._knowledge.engine) as connection:
            await connection.execute(
                sa.update(knowledge_staging).where(row.id.in_(list(entry_ids))).values(**mine, expires_at=None)
            )
        return await cast(PatternStore, self._inner).mark_embedded(token, entry_ids, space, **until)


async def _take_nothing_back(run: EmbeddingRun, decisions: Sequence[Decision], marked: object) -> None:
    return None
