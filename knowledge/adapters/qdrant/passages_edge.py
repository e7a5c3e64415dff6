"""Passages in the embedded engine: shards of their own, one per embedding space, stored like those of patterns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import qdrant_edge as edge

from hardwon.models.documents import PassageId
from hardwon.models.maintenance import IndexHealth
from knowledge.adapters.qdrant import passage_payloads as shape
from knowledge.adapters.qdrant import payloads as qdrant_points
from knowledge.adapters.qdrant.edge import BATCH, RESERVE_MB, QdrantEdgeIndex
from knowledge.adapters.qdrant.edge_search import search_both, sparse
from knowledge.adapters.qdrant.edge_storage import translate_errors
from knowledge.documents.models import PassageHit, PassagePoint, PassageWhere
from knowledge.documents.ports import PassageIndex
from knowledge.models import EmbeddingSpace, PointId, SparseVector, Vector
from knowledge.runtime.scheduling import yield_to_loop


class EdgePassages(PassageIndex):
    """Points in a directory that one process at a time owns, from construction to `aclose`."""

    def __init__(self, directory: Path, *, reserve_mb: int = RESERVE_MB) -> None:
        self._shards = _Shards(directory, reserve_mb=reserve_mb)

    async def ensure(self, space: EmbeddingSpace) -> None:
        await self._shards.make(shape.own_space(space))

    async def upsert(self, space: EmbeddingSpace, points: Sequence[PassagePoint]) -> None:
        shape.check_batch(space, points)
        await self._shards.put(shape.own_space(space), points)

    async def search(
        self,
        space: EmbeddingSpace,
        dense: Vector,
        lexical: SparseVector,
        where: PassageWhere,
        *,
        limit: int,
        exact: bool | None = None,
    ) -> list[PassageHit]:
        del exact  # there is no graph
        qdrant_points.check_dense(space, dense, "dense")
        qdrant_points.check_lexical(lexical, "lexical")
        wanted = shape.conditions(where)
        if limit < 1 or wanted.impossible:
            return []
        return await self._shards.search_both(shape.own_space(space), dense, lexical, _filter(wanted), limit)

    async def delete(self, space: EmbeddingSpace, passage_ids: Sequence[PassageId]) -> None:
        await self._shards.delete(shape.own_space(space), [PointId(each) for each in passage_ids])

    async def count(self, space: EmbeddingSpace, workspace: str) -> int:
        return await self._shards.count(shape.own_space(space), workspace)

    async def scan(
        self, space: EmbeddingSpace, workspace: str, *, after: PassageId | None, limit: int
    ) -> list[PassageId]:
        last = None if after is None else PointId(after)
        found = await self._shards.ids(shape.own_space(space), workspace, after=last, limit=limit)
        return [PassageId(each) for each in found]

    async def find_missing(self, space: EmbeddingSpace, passage_ids: Sequence[PassageId]) -> list[PassageId]:
        return await self._shards.find_missing(shape.own_space(space), passage_ids)

    async def drop(self, space: EmbeddingSpace) -> None:
        await self._shards.drop(shape.own_space(space))

    async def recreate(self, space: EmbeddingSpace) -> None:
        await self._shards.recreate(shape.own_space(space), in_use=False)
        await self.ensure(space)

    async def wait_until_consistent(self) -> None:
        """Return at once: there is one copy."""

    async def health(self, space: EmbeddingSpace) -> IndexHealth:
        return await self._shards.health(shape.own_space(space))

    async def aclose(self) -> None:
        await self._shards.aclose()


class _Shards(QdrantEdgeIndex):
    """The shards of passages."""

    async def make(self, space: EmbeddingSpace) -> None:
        """Create the shard of the space with the payload indexes of passages, if absent."""
        await self.ensure(space, in_use=False)
        with translate_errors(await self._wait_until_created(space)):
            there = self._shard(space).info().payload_schema
        for field, params in _payload_indexes().items():
            if field not in there:
                await yield_to_loop()
                await self._update(space, edge.UpdateOperation.create_field_index(field, params))

    async def put(self, space: EmbeddingSpace, points: Sequence[PassagePoint]) -> None:
        """Write points and sync them to disk."""
        for start in range(0, len(points), BATCH):
            batch = [_to_engine_point(point) for point in points[start : start + BATCH]]
            await yield_to_loop()
            await self._update(space, edge.UpdateOperation.upsert_points(batch))
            await yield_to_loop()
        await self._sync(space, len(points))

    async def search_both(
        self, space: EmbeddingSpace, dense: Vector, lexical: SparseVector, allowed: edge.Filter, limit: int
    ) -> list[PassageHit]:
        """Return the union of both top lists with both scores of each."""
        with translate_errors(await self._wait_until_created(space)):
            hits = search_both(self._shard(space), dense.tolist(), lexical, allowed, limit)
        return [PassageHit(passage_id=PassageId(h.point_id), cosine=h.cosine, lexical=h.lexical) for h in hits]

    async def find_missing(self, space: EmbeddingSpace, passage_ids: Sequence[PassageId]) -> list[PassageId]:
        """Return the ids without a point."""
        there: set[UUID] = set()
        for start in range(0, len(passage_ids), BATCH):
            batch: list[int | UUID | str] = [*passage_ids[start : start + BATCH]]
            with translate_errors(await self._wait_until_created(space)):
                found = self._shard(space).retrieve(batch, with_payload=False, with_vector=False)
            there.update(UUID(str(each.id)) for each in found)
            await yield_to_loop()
        return [each for each in passage_ids if each not in there]


def _payload_indexes() -> dict[str, Any]:
    keywords = edge.KeywordIndexParams(enable_hnsw=False)
    moments = edge.DatetimeIndexParams(enable_hnsw=False)
    numbers = edge.IntegerIndexParams(lookup=False, range=True, enable_hnsw=False)
    return {
        **dict.fromkeys(shape.KEYWORDS, keywords),
        **dict.fromkeys(shape.TIMES, moments),
        **dict.fromkeys(shape.NUMBERS, numbers),
    }


def _to_engine_point(point: PassagePoint) -> edge.Point:
    vectors = {qdrant_points.DENSE: point.dense.tolist(), qdrant_points.LEXICAL: sparse(point.lexical)}
    return edge.Point(point.passage_id, vectors, shape.payload(point))


def _is_any(field: str, values: tuple[str, ...]) -> edge.FieldCondition:
    return edge.FieldCondition(field, match=edge.MatchAny(list(values)))


def _filter(wanted: shape.Conditions) -> edge.Filter:
    must: list[Any] = [_is_any(field, values) for field, values in wanted.one_of]
    if wanted.since is not None:
        after = edge.RangeDateTime(gte=qdrant_points.format_time(wanted.since, "since"))
        must.append(edge.FieldCondition("until", range=after))
    if wanted.until is not None:
        before = edge.RangeDateTime(lte=qdrant_points.format_time(wanted.until, "until"))
        must.append(edge.FieldCondition("ts", range=before))
    if wanted.lines:
        within: list[Any] = [
            edge.Filter(
                must=[
                    edge.FieldCondition("line_start", range=edge.RangeFloat(lte=line)),
                    edge.FieldCondition("line_end", range=edge.RangeFloat(gte=line)),
                ]
            )
            for line in wanted.lines
        ]
        must.append(edge.Filter(should=within))
    return edge.Filter(must=must)
