"""Upkeep: is the index what Postgres says, and making it so; a change of embedding model without a gap.

Postgres is the truth. Verify and repair read both stores in the order of point ids, page by page, so memory stays small
however large they are.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from uuid import UUID

import numpy as np

from knowledge.errors import TextRejected
from knowledge.forms import as_id, as_whole
from knowledge.logs import get_logger
from knowledge.memory.beside import Beside
from knowledge.memory.locality import WorkspaceEmbedder
from knowledge.memory.points import embedded_text, from_stored, stored_text
from knowledge.memory.reaching import reach_if_possible
from knowledge.memory.settling import settle, settle_points
from knowledge.memory.spaces import SpaceInUse, space_in_use
from knowledge.models import (
    BoundSpace,
    DeadEntry,
    Differing,
    EmbeddingSpace,
    EntryId,
    Point,
    PointId,
    StoredPoint,
    Vector,
)
from knowledge.ports import Embedder, Progress, Stores, UpkeepStore
from knowledge.provenance import UNHEARD, Auditor
from knowledge.turns import let_others_run

log = get_logger(__name__)

MAX_DEAD = 1000
"""Dead entries that one call names."""

PAGE = 256
SAMPLE = 20
"""Ids a report names of each kind of fault."""

_SLICE = 32
"""Points compared before others have their turn, ours: some 10 ms; one with a long text by itself."""
_LONG = 10_000
"""Characters of such a text."""

_FLOAT16 = 2e-3
"""A component of a vector of length 1 may differ by this much after it was kept as float16."""


class Fault(StrEnum):
    """What can be wrong with a point of the index."""

    MISSING = "missing"
    ORPHAN = "orphan"
    STALE = "stale"
    MISMATCHED = "mismatched"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """How index and Postgres differ: points that are missing, have no row, another expiry, other fields or vectors.

    `examples` names some ids of each; `repaired` is how many were put right. `passages`: points of documents, beside
    the `points` of what was learned.
    """

    points: int
    missing: int = 0
    orphan: int = 0
    stale: int = 0
    mismatched: int = 0
    passages: int = 0
    passages_missing: int = 0
    passages_orphan: int = 0
    repaired: int = 0
    examples: Mapping[str, tuple[PointId, ...]] = field(default_factory=dict)

    @property
    def wrong(self) -> dict[str, int]:
        """How many points are wrong, by what is wrong with them."""
        named = {fault.value: getattr(self, fault.value) for fault in Fault}
        named |= {"passages missing": self.passages_missing, "passages orphan": self.passages_orphan}
        return {name: number for name, number in named.items() if number}

    @property
    def sound(self) -> bool:
        """Whether nothing differs, or all that did was put right."""
        return sum(self.wrong.values()) == self.repaired


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildReport:
    """What a rebuild put back; `embedded` texts had no vector kept and cost the embedder. Or would, where `dry_run`.

    `passages`: points of documents, beside the `points` of what was learned.
    """

    points: int
    embedded: int
    dry_run: bool = False
    passages: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """What the two stores say of one point; `in_index` is whether the index has it, as something that is none, too."""

    point_id: PointId
    stored: StoredPoint | None
    found: Point | None
    in_index: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeUpkeepService:
    """Keeps the index of one workspace what Postgres says it is; `beside`: what it has of documents."""

    stores: Stores
    upkeep: UpkeepStore
    beside: Beside
    audit: Auditor = UNHEARD

    async def verify(self, *, repair: bool = False, progress: Progress | None = None) -> VerifyReport:
        """Compare every point with Postgres, exactly; with `repair` put right what differs.

        A second repair writes nothing. Points that a checkpoint is embedding right now are not judged, and what differs
        is looked at again before it is believed, so that work going on meanwhile is no fault.
        """
        in_use = await space_in_use(self.stores)
        if in_use is None:
            return VerifyReport(points=0)
        bound = in_use.bound
        await self.stores.index.ensure(bound.space)
        if repair:
            await self.upkeep.doubt_unsupported()
            await settle(self.stores, whole=False)  # what is missing is found below, and told
            await reach_if_possible(self.stores, tries=None)
        report = VerifyReport(points=0)
        wrong: list[_Pair] = []
        async for pair in self._pairs(bound):
            report = replace(report, points=report.points + (pair.stored is not None))
            long = pair.stored is not None and len(stored_text(pair.stored)) > _LONG
            if long or report.points % _SLICE == 0:
                await let_others_run()
            if self._fault(bound, pair):
                again = await self._again(bound, pair.point_id)
                if fault := self._fault(bound, again):
                    report = _noted(report, fault, pair.point_id)
                    wrong.append(again)
            if repair and len(wrong) >= PAGE:
                report = await self._put_right(in_use, wrong, report)
                wrong = []
            if progress and report.points % PAGE == 0:
                progress(report.points, None)
        if repair:
            report = await self._put_right(in_use, wrong, report)
        report = _with_documents(report, await self.beside.verify(repair=repair), repair=repair)
        log.info("index_verified", points=report.points, sound=report.sound, repaired=report.repaired)
        return report

    async def refill(self, *, recount: bool = True, progress: Progress | None = None) -> RebuildReport:
        """Put every point of the workspace into the index from Postgres, ids kept; `recount`: count its terms anew.

        Vectors kept in Postgres cost no embedding; a text without one is embedded again.
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
                if point.point_id not in counted:  # one that was noted down meanwhile is written twice
                    frequencies.update(point.lexical.indices)
                    counted.add(point.point_id)

        async for page in self._pages(bound.space):
            _, embedded = await self._vectors(bound.space, page, in_use.embedder)
            await settle_points(self.stores, [stored.point_id for stored in page], written=count)
            report = RebuildReport(points=report.points + len(page), embedded=report.embedded + embedded)
            if progress:
                progress(report.points, None)
        await settle(self.stores, written=count)  # what a checkpoint was at, and has marked since
        if recount:
            await self.upkeep.replace_terms(frequencies, counted)
        return report

    async def backfill(
        self, into: BoundSpace, embedder: Embedder, *, lacking: bool = False, progress: Progress | None = None
    ) -> int:
        """Put every text into the collection of a space; return how many had no vector there yet and were embedded.

        `lacking`: only those. May be broken off and called again: what was embedded is kept.
        """
        done = embedded = 0
        embedder = WorkspaceEmbedder(self.stores, embedder)
        async for page in self._pages(into.space, lacking=lacking):
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
        """Have no text of the workspace go to an endpoint from now on, or allow it again.

        Checkpoints, queries and changes of model that would send one raise LocalOnly; captures go on.
        """
        await self.stores.spaces.keep_local(on=on)
        await self.audit.note("workspace kept local", on=on)
        log.info("workspace_kept_local", workspace=self.stores.workspace, on=on)

    async def retry_dead(self) -> int:
        """Stage dead entries again, for the next checkpoint; return how many."""
        return await self.upkeep.retry_dead()

    async def dead(self, limit: int = 20, *, after: EntryId | None = None) -> list[DeadEntry]:
        """Return dead entries with their reasons, the latest first, from behind `after` on. Raises InvalidInput."""
        limit = as_whole("limit", limit, least=1, most=MAX_DEAD)
        return await self.upkeep.dead(limit, after=None if after is None else EntryId(as_id("after", after)))

    async def _pages(self, space: EmbeddingSpace, *, lacking: bool = False) -> AsyncIterator[list[StoredPoint]]:
        """Yield the settled points of the workspace, a page at a time, ascending."""
        after: PointId | None = None
        while page := await self.upkeep.points(space, after=after, limit=PAGE, lacking=lacking):
            after = page[-1].point_id
            if settled := [stored for stored in page if stored.settled]:
                yield settled

    async def _vectors(
        self, space: EmbeddingSpace, page: Sequence[StoredPoint], embedder: Embedder
    ) -> tuple[dict[PointId, Vector], int]:
        """Return the vectors of a page, kept or embedded anew, and how many were embedded."""
        kept = {stored.point_id: stored.vector for stored in page if stored.vector is not None}
        bare = [stored for stored in page if stored.vector is None]
        if not bare:
            return kept, 0
        found = await _embedded(embedder, bare)
        await self.upkeep.put_vectors(space, found)
        return kept | found, len(bare)

    def _to_points(
        self, bound: BoundSpace, page: Sequence[StoredPoint], vectors: Mapping[PointId, Vector]
    ) -> list[Point]:
        return [
            from_stored(stored, vectors[stored.point_id], workspace=self.stores.workspace, mean_terms=bound.mean_terms)
            for stored in page
        ]

    async def _pairs(self, bound: BoundSpace) -> AsyncIterator[_Pair]:
        """Yield every point that either store has, in the order of ids."""
        stored, found = self._all_stored(bound.space), self._all_found(bound.space)
        left, right = await anext(stored, None), await anext(found, None)
        while left is not None or right is not None:
            if right is None or (left is not None and left.point_id < right[0]):
                left = _given(left)
                yield _Pair(point_id=left.point_id, stored=left, found=None, in_index=False)
                left = await anext(stored, None)
            elif left is None or right[0] < left.point_id:
                yield _Pair(point_id=right[0], stored=None, found=right[1], in_index=True)
                right = await anext(found, None)
            else:
                yield _Pair(point_id=left.point_id, stored=left, found=right[1], in_index=True)
                left, right = await anext(stored, None), await anext(found, None)

    async def _all_stored(self, space: EmbeddingSpace) -> AsyncIterator[StoredPoint]:
        after: PointId | None = None
        while page := await self.upkeep.points(space, after=after, limit=PAGE):
            for stored in page:
                yield stored
            after = page[-1].point_id

    async def _all_found(self, space: EmbeddingSpace) -> AsyncIterator[tuple[PointId, Point | None]]:
        after: PointId | None = None
        while page := await self.stores.index.scan(space, self.stores.workspace, after=after, limit=PAGE):
            for found in page:
                yield found
            after = page[-1][0]

    async def _again(self, bound: BoundSpace, point_id: PointId) -> _Pair:
        """Read one point anew from both stores: Postgres last, which a checkpoint writes first."""
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
            return None  # a checkpoint is at it, with another entry of the same text maybe: about to write it anew
        if not pair.in_index:
            # what expired is not shown, and pruning takes it from the index before it takes the rows
            return Fault.MISSING if stored.expires_at > self.stores.clock.now() else None
        if found is None:
            return Fault.MISMATCHED
        if (found.embedded_at, found.expires_at) != (stored.embedded_at, stored.expires_at):
            return Fault.STALE
        vector = found.dense if stored.vector is None else stored.vector
        either = (  # one that a release wrote that knew of no gist is found as it was then: no fault
            from_stored(stored, vector, workspace=workspace, mean_terms=bound.mean_terms, with_gist=with_gist)
            for with_gist in (True, False)
        )
        return None if any(_alike(wanted, found) for wanted in either) else Fault.MISMATCHED

    async def _put_right(self, in_use: SpaceInUse, wrong: Sequence[_Pair], report: VerifyReport) -> VerifyReport:
        """Make the index hold what Postgres says of these points by now; the report says that it was done."""
        if not wrong:
            return report
        stored = [pair.stored for pair in wrong if pair.stored is not None and pair.stored.settled]
        await self._vectors(in_use.bound.space, stored, in_use.embedder)  # kept, where none were
        await settle_points(self.stores, [pair.point_id for pair in wrong])
        return replace(report, repaired=report.repaired + len(wrong))


def _given(stored: StoredPoint | None) -> StoredPoint:
    if stored is None:
        raise AssertionError("one of the two is there")
    return stored


def _noted(report: VerifyReport, fault: Fault, point_id: PointId) -> VerifyReport:
    named = report.examples.get(fault, ())
    counted = {fault.value: getattr(report, fault.value) + 1}
    examples = {**report.examples, fault.value: (*named, point_id)[:SAMPLE]}
    return replace(report, **counted, examples=examples)


def _with_documents(report: VerifyReport, documents: Differing, *, repair: bool) -> VerifyReport:
    """Return a report that tells of documents as well."""
    return replace(
        report,
        passages=documents.points,
        passages_missing=documents.missing,
        passages_orphan=documents.orphan,
        repaired=report.repaired + (documents.missing + documents.orphan if repair else 0),
    )


def _alike(wanted: Point, found: Point) -> bool:
    """Return whether two points are the same but for what float16 and the engine's float32 round off."""
    plain = ("workspace", "entry_type", "view", "agent_type", "task_type", "technology", "gate_type")
    if any(getattr(wanted, name) != getattr(found, name) for name in plain):
        return False
    if wanted.lexical.indices != found.lexical.indices or wanted.dense.shape != found.dense.shape:
        return False
    return bool(
        np.allclose(wanted.dense, found.dense, atol=_FLOAT16)
        and np.allclose(wanted.lexical.values, found.lexical.values, rtol=1e-4)
    )


async def _embedded(embedder: Embedder, bare: Sequence[StoredPoint]) -> dict[PointId, Vector]:
    """Embed the texts of points. Raises TextRejected that names the entry whose text is refused: halved to find it."""
    read = await asyncio.to_thread(lambda: [embedded_text(stored) for stored in bare])
    try:
        made = await embedder.embed(read, "document")
    except TextRejected as error:
        if len(bare) == 1:
            entry_id = bare[0].entry.entry_id
            raise TextRejected(
                f"The text of entry {entry_id} is refused ({error}): all others can go on once that one is deleted"
                f" (`hardwon delete entry {entry_id}`)"
            ) from error
        middle = len(bare) // 2
        return await _embedded(embedder, bare[:middle]) | await _embedded(embedder, bare[middle:])
    return dict(zip((stored.point_id for stored in bare), made.vectors, strict=True))
