"""Upkeep: verify and repair the index against Postgres; change the embedding model without downtime.

Postgres is the truth. Verify and repair read both stores in the order of point ids, page by page, so that memory use
does not grow with their size.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import numpy as np

from hardwon.errors import TextRejected
from hardwon.event_log import get_logger
from hardwon.models.maintenance import Fault, IndexHealth, RebuildReport, RecallReport, VerifyReport
from hardwon.validation import as_id, as_integer
from knowledge.access.provenance import NO_AUDIT, Auditor
from knowledge.memory.index.embedding_space import SpaceInUse, space_in_use
from knowledge.memory.index.overflow import reach_if_possible
from knowledge.memory.index.points import from_stored, model_text, point_text
from knowledge.memory.index.reconcile import settle, settle_points
from knowledge.memory.index.residency import WorkspaceEmbedder
from knowledge.memory.maintenance.integrity import IntegrityService
from knowledge.memory.maintenance.ports import DocumentUpkeep
from knowledge.memory.maintenance.recall import examine_index, measure_recall
from knowledge.models import (
    BoundSpace,
    DeadEntry,
    EmbeddingSpace,
    EntryId,
    IndexDrift,
    Point,
    PointId,
    StoredPoint,
    Vector,
)
from knowledge.ports import Embedder, Progress, Stores, UpkeepStore
from knowledge.runtime.instrumentation import step
from knowledge.runtime.scheduling import yield_to_loop

log = get_logger(__name__)
MAX_DEAD = 1000
"""Dead entries returned by one call at most."""
PAGE = 256
SAMPLE = 20
"""Example ids in a report for each kind of fault."""
_SLICE = 32
"""Points compared before yielding to the event loop: some 10 ms; one with a long text counts alone. Ours."""
_LONG_TEXT = 10_000
"""Characters from which a text is long."""
_FLOAT16_TOLERANCE = 2e-3
"""Tolerance for a component of a unit vector that was stored as float16."""
_RELATIVE_TOLERANCE = 1e-5
_WEIGHT_TOLERANCE = 1e-4
"""Relative tolerance for the weight of a term that was stored as float32."""
_LEAST_WEIGHT = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """One point in both stores. `in_index`: the index has the id, even if it is not a valid point."""

    point_id: PointId
    stored: StoredPoint | None
    found: Point | None
    in_index: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeUpkeepService:
    """Keeps the index of one workspace consistent with Postgres; `documents`: the same for its documents."""

    stores: Stores
    upkeep: UpkeepStore
    documents: DocumentUpkeep
    integrity: IntegrityService
    audit: Auditor = NO_AUDIT

    async def verify(
        self, *, repair: bool = False, recall: bool = False, progress: Progress | None = None
    ) -> VerifyReport:
        """Compare every point with Postgres, exactly; with `repair` correct the differences.

        A second repair writes nothing. Points that a checkpoint is embedding are skipped, and differences are checked
        twice, so that concurrent work, or a node that has just come back, is not reported as a fault. With `recall` the
        searches are measured as well, before anything is changed. All entries are compared with their seals.
        """
        measured = await self.measure_recall() if recall else None
        seals = await self.integrity.verify()
        return replace(await self._verify(repair=repair, progress=progress), recall=measured, seals=seals)

    async def _verify(self, *, repair: bool, progress: Progress | None) -> VerifyReport:
        in_use = await space_in_use(self.stores)
        if in_use is None:
            return VerifyReport(points=0)
        bound = in_use.bound
        await self.stores.index.ensure(bound.space)
        if repair:
            await self.upkeep.mark_unsupported_dirty()
            await settle(self.stores, whole=False)  # missing points are found below, and reported
            await reach_if_possible(self.stores, tries=None)
        report = VerifyReport(points=0)
        faulty: list[_Pair] = []
        async for pair in self._pairs(bound):
            report = replace(report, points=report.points + (pair.stored is not None))
            is_long = pair.stored is not None and len(point_text(pair.stored)) > _LONG_TEXT
            if is_long or report.points % _SLICE == 0:
                await yield_to_loop()
            if self._fault(bound, pair):
                await self.stores.index.wait_until_consistent()
                reread = await self._read_again(bound, pair.point_id)
                if fault := self._fault(bound, reread):
                    report = _add_fault(report, fault, pair.point_id)
                    faulty.append(reread)
            if repair and len(faulty) >= PAGE:
                report = await self._repair(in_use, faulty, report)
                faulty = []
            if progress and report.points % PAGE == 0:
                progress(report.points, None)
        if repair:
            report = await self._repair(in_use, faulty, report)
        report = _with_documents(report, await self.documents.verify(repair=repair), repair=repair)
        log.info("index_verified", points=report.points, sound=report.sound, repaired=report.repaired)
        return report

    @step("measure_recall")
    async def measure_recall(self, limit: int = 50) -> RecallReport:
        """Search for up to `limit` stored situations, and as many passages, as queries do and exactly; compare both.

        Changes nothing, and in particular not a layout that is found wanting.
        """
        return await measure_recall(self.stores, self.documents, as_integer("limit", limit, least=1, most=1000))

    async def index_health(self) -> IndexHealth:
        """Return the state of the index: nodes, replicas, what would be lost. Raises IndexUnavailable."""
        return await examine_index(self.stores, self.documents)

    async def refill(self, *, recount: bool = True, progress: Progress | None = None) -> RebuildReport:
        """Write every point of the workspace from Postgres to the index, ids unchanged; `recount`: recount its terms.

        Vectors stored in Postgres are reused; texts without one are embedded.
        """
        in_use = await space_in_use(self.stores)
        if in_use is None:
            return RebuildReport(points=0, embedded=0)
        bound = in_use.bound
        report = RebuildReport(points=0, embedded=0)
        frequencies: Counter[int] = Counter()
        counted: set[PointId] = set()

        def count(written: Sequence[Point]) -> None:
            for point in written:
                if point.point_id not in counted:  # one that was marked meanwhile is written twice
                    frequencies.update(point.lexical.indices)
                    counted.add(point.point_id)

        async for page in self._pages(bound.space, only_missing=True):
            _, embedded = await self._vectors(bound.space, page, in_use.embedder)
            report = replace(report, embedded=report.embedded + embedded)
        after: PointId | None = None
        while point_ids := await self.upkeep.settled_points(after=after, limit=PAGE):
            after = point_ids[-1]
            await settle_points(self.stores, point_ids, written=count if recount else None)
            report = replace(report, points=report.points + len(point_ids))
            if progress:
                progress(report.points, None)
        await settle(self.stores, written=count)  # points that a checkpoint was embedding and has marked since
        if recount:
            await self.upkeep.replace_terms(frequencies, counted)
        return report

    async def backfill(
        self, into: BoundSpace, embedder: Embedder, *, only_missing: bool = False, progress: Progress | None = None
    ) -> int:
        """Write every text to the collection of a space; return the number of texts embedded.

        `only_missing`: only texts without a vector. Can be interrupted and called again: embedded vectors are stored.
        """
        done = embedded = 0
        embedder = WorkspaceEmbedder(self.stores, embedder)
        async for page in self._pages(into.space, only_missing=only_missing):
            vectors, made = await self._vectors(into.space, page, embedder)
            points = await asyncio.to_thread(self._to_points, into, page, vectors)
            await self.stores.index.upsert(into.space, points)
            done, embedded = done + len(page), embedded + made
            if progress:
                progress(done, None)
        return embedded

    async def local_only(self) -> bool:
        """Return whether no text of the workspace may go to an endpoint."""
        return await self.stores.spaces.local_only()

    async def keep_local(self, *, on: bool) -> None:
        """Forbid or allow sending the workspace's texts to an endpoint.

        Forbidden checkpoints, queries and changes of model raise LocalOnly; captures continue.
        """
        await self.stores.spaces.keep_local(on=on)
        await self.audit.record("workspace kept local", on=on)
        log.info("workspace_kept_local", workspace=self.stores.workspace, on=on)

    async def retry_dead(self) -> int:
        """Stage dead entries again for the next checkpoint; return their number."""
        self.stores.embedder.forget()  # the refusals too
        return await self.upkeep.retry_dead()

    async def dead(self, limit: int = 20, *, after: EntryId | None = None) -> list[DeadEntry]:
        """Return dead entries with their reasons, latest first, starting after `after`. Raises InvalidInput."""
        limit = as_integer("limit", limit, least=1, most=MAX_DEAD)
        return await self.upkeep.dead(limit, after=None if after is None else EntryId(as_id("after", after)))

    async def _pages(self, space: EmbeddingSpace, *, only_missing: bool = False) -> AsyncIterator[list[StoredPoint]]:
        """Yield the settled points of the workspace, a page at a time, ascending."""
        after: PointId | None = None
        while page := await self.upkeep.points(space, after=after, limit=PAGE, lacking=only_missing):
            after = page[-1].point_id
            if settled := [stored for stored in page if stored.settled]:
                yield settled

    async def _vectors(
        self, space: EmbeddingSpace, page: Sequence[StoredPoint], embedder: Embedder
    ) -> tuple[dict[PointId, Vector], int]:
        """Return the vectors of a page, stored or embedded, and the number embedded."""
        stored_vectors = {stored.point_id: stored.vector for stored in page if stored.vector is not None}
        without_vector = [stored for stored in page if stored.vector is None]
        if not without_vector:
            return stored_vectors, 0
        embedded = await _embed(embedder, without_vector)
        await self.upkeep.put_vectors(space, embedded)
        return stored_vectors | embedded, len(without_vector)

    def _to_points(
        self, bound: BoundSpace, page: Sequence[StoredPoint], vectors: Mapping[PointId, Vector]
    ) -> list[Point]:
        return [
            from_stored(stored, vectors[stored.point_id], workspace=self.stores.workspace, mean_terms=bound.mean_terms)
            for stored in page
        ]

    async def _pairs(self, bound: BoundSpace) -> AsyncIterator[_Pair]:
        """Yield every point that either store has, in the order of ids."""
        stored, found = self._all_stored(bound.space), self._all_indexed(bound.space)
        left, right = await anext(stored, None), await anext(found, None)
        while left is not None or right is not None:
            if right is None or (left is not None and left.point_id < right[0]):
                left = _require(left)
                yield _Pair(point_id=left.point_id, stored=left, found=None, in_index=False)
                left = await anext(stored, None)
            elif left is None or right[0] < left.point_id:
                yield _Pair(point_id=right[0], stored=None, found=right[1], in_index=True)
                right = await anext(found, None)
            else:
                yield _Pair(point_id=left.point_id, stored=left, found=right[1], in_index=True)
                left, right = await anext(stored, None), await anext(found, None)

    async def _all_stored(self, space: EmbeddingSpace) -> AsyncIterator[StoredPoint]:
        """Yield all points of the workspace, ascending; Postgres reads the next page while one is compared."""
        page = await self.upkeep.points(space, after=None, limit=PAGE)
        while page:
            following = asyncio.create_task(self.upkeep.points(space, after=page[-1].point_id, limit=PAGE))
            try:
                for stored in page:
                    yield stored
                page = await following
            finally:
                following.cancel()

    async def _all_indexed(self, space: EmbeddingSpace) -> AsyncIterator[tuple[PointId, Point | None]]:
        after: PointId | None = None
        while page := await self.stores.index.scan(space, self.stores.workspace, after=after, limit=PAGE):
            for found in page:
                yield found
            after = page[-1][0]

    async def _read_again(self, bound: BoundSpace, point_id: PointId) -> _Pair:
        """Read one point again from both stores: Postgres last, as a checkpoint writes it first."""
        before = PointId(UUID(int=point_id.int - 1)) if point_id.int else None
        found = await self.stores.index.scan(bound.space, self.stores.workspace, after=before, limit=1)
        stored = await self.upkeep.points(bound.space, after=before, limit=1)
        return _Pair(
            point_id=point_id,
            stored=next((one for one in stored if one.point_id == point_id), None),
            found=next((point for found_id, point in found if found_id == point_id), None),
            in_index=any(found_id == point_id for found_id, _ in found),
        )

    def _fault(self, bound: BoundSpace, pair: _Pair) -> Fault | None:
        stored, found, workspace = pair.stored, pair.found, self.stores.workspace
        if stored is None or not (stored.settled or stored.pending):
            return Fault.ORPHAN if pair.in_index else None
        if not stored.settled or (stored.pending and pair.in_index):
            return None  # a checkpoint is embedding it, perhaps for another entry with the same text
        if not pair.in_index:
            # expired points are not shown, and pruning deletes them from the index before the rows
            return Fault.MISSING if stored.expires_at > self.stores.clock.now() else None
        if found is None:
            return Fault.MISMATCHED
        if (found.embedded_at, found.expires_at) != (stored.embedded_at, stored.expires_at):
            return Fault.STALE
        vector = found.dense if stored.vector is None else stored.vector
        candidates = (  # a point that an earlier release wrote without its gist is valid
            from_stored(stored, vector, workspace=workspace, mean_terms=bound.mean_terms, with_gist=with_gist)
            for with_gist in (True, False)
        )
        return None if any(_are_equal(wanted, found) for wanted in candidates) else Fault.MISMATCHED

    async def _repair(self, in_use: SpaceInUse, faulty: Sequence[_Pair], report: VerifyReport) -> VerifyReport:
        """Settle these points, and count them as repaired."""
        if not faulty:
            return report
        stored = [pair.stored for pair in faulty if pair.stored is not None and pair.stored.settled]
        await self._vectors(in_use.bound.space, stored, in_use.embedder)  # stores missing vectors
        await settle_points(self.stores, [pair.point_id for pair in faulty])
        return replace(report, repaired=report.repaired + len(faulty))


def _require(stored: StoredPoint | None) -> StoredPoint:
    if stored is None:
        raise AssertionError("one of the two exists")
    return stored


def _add_fault(report: VerifyReport, fault: Fault, point_id: PointId) -> VerifyReport:
    ids = report.examples.get(fault, ())
    counts = {fault.value: getattr(report, fault.value) + 1}
    examples = {**report.examples, fault.value: (*ids, point_id)[:SAMPLE]}
    return replace(report, **counts, examples=examples)


def _with_documents(report: VerifyReport, documents: IndexDrift, *, repair: bool) -> VerifyReport:
    """Return the report with the differences of documents added."""
    return replace(
        report,
        passages=documents.points,
        passages_missing=documents.missing,
        passages_orphan=documents.orphan,
        repaired=report.repaired + (documents.missing + documents.orphan if repair else 0),
    )


def _are_equal(wanted: Point, found: Point) -> bool:
    """Return whether two points are equal except for rounding to float16 and float32."""
    fields = ("workspace", "entry_type", "view", "agent_type", "task_type", "technology", "gate_type")
    if any(getattr(wanted, name) != getattr(found, name) for name in fields):
        return False
    if wanted.lexical.indices != found.lexical.indices or wanted.dense.shape != found.dense.shape:
        return False
    # written so that NaN is a difference; numpy's allclose takes four times as long
    difference = np.abs(wanted.dense - found.dense) - _RELATIVE_TOLERANCE * np.abs(found.dense)
    if not difference.max(initial=0.0) <= _FLOAT16_TOLERANCE:
        return False
    pairs = zip(wanted.lexical.values, found.lexical.values, strict=True)
    return all(abs(one - other) <= _WEIGHT_TOLERANCE * abs(other) + _LEAST_WEIGHT for one, other in pairs)


async def _embed(embedder: Embedder, without_vector: Sequence[StoredPoint]) -> dict[PointId, Vector]:
    """Embed the texts of points; a refused batch is halved. Raises TextRejected, naming the refused entry."""
    model_texts = await asyncio.to_thread(lambda: [model_text(stored) for stored in without_vector])
    try:
        embedded = await embedder.embed(model_texts, "document")
    except TextRejected as error:
        if len(without_vector) == 1:
            entry_id = without_vector[0].entry.entry_id
            raise TextRejected(
                f"The embedder refuses the text of entry {entry_id} ({error}): delete the entry to continue"
                f" (`hardwon delete entry {entry_id}`)"
            ) from error
        middle = len(without_vector) // 2
        return await _embed(embedder, without_vector[:middle]) | await _embed(embedder, without_vector[middle:])
    return dict(zip((stored.point_id for stored in without_vector), embedded.vectors, strict=True))
