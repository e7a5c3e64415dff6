"""Passages on a Qdrant server: collections of their own, one per embedding space, stored like those of patterns."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from qdrant_client import AsyncQdrantClient, models

from hardwon.models.documents import PassageId
from hardwon.models.maintenance import IndexHealth
from knowledge.adapters.qdrant import passage_payloads as shape
from knowledge.adapters.qdrant import payloads as qdrant_points
from knowledge.adapters.qdrant.cluster import session as cluster
from knowledge.adapters.qdrant.cluster.collections import IndexParams
from knowledge.adapters.qdrant.cluster.layout import PAGE, Layout
from knowledge.adapters.qdrant.cluster.session import ClusterSession
from knowledge.adapters.qdrant.payloads import SOLE_USER, Ownership
from knowledge.adapters.qdrant.server import QdrantServerIndex, sparse
from knowledge.documents.models import PassageHit, PassagePoint, PassageWhere
from knowledge.documents.ports import PassageIndex
from knowledge.models import EmbeddingSpace, PointId, SparseVector, Vector


def connect(
    urls: Sequence[str], api_key: str | None = None, ownership: Ownership = SOLE_USER, layout: Layout | None = None
) -> ServerPassages:
    """Return an index of passages on the cluster with nodes at `urls`. Nothing is sent yet."""
    return ServerPassages(cluster.connect(urls, api_key), ownership, layout)


class ServerPassages(PassageIndex):
    """Points on a server that any number of processes share."""

    def __init__(
        self,
        client: ClusterSession | AsyncQdrantClient,
        ownership: Ownership = SOLE_USER,
        layout: Layout | None = None,
    ) -> None:
        self._points = _Points(client, ownership, layout)

    async def ensure(self, space: EmbeddingSpace) -> None:
        await self._points.ensure(shape.own_space(space), in_use=False)

    async def upsert(self, space: EmbeddingSpace, points: Sequence[PassagePoint]) -> None:
        shape.check_batch(space, points)
        await self._points.put(shape.own_space(space), points)

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
        qdrant_points.check_dense(space, dense, "dense")
        qdrant_points.check_lexical(lexical, "lexical")
        wanted = shape.conditions(where)
        if limit < 1 or wanted.impossible:
            return []
        return await self._points.search_both(
            shape.own_space(space), dense, lexical, _filter(wanted), limit, exact=exact
        )

    async def delete(self, space: EmbeddingSpace, passage_ids: Sequence[PassageId]) -> None:
        await self._points.delete(shape.own_space(space), [PointId(each) for each in passage_ids])

    async def count(self, space: EmbeddingSpace, workspace: str) -> int:
        return await self._points.count(shape.own_space(space), workspace)

    async def scan(
        self, space: EmbeddingSpace, workspace: str, *, after: PassageId | None, limit: int
    ) -> list[PassageId]:
        last = None if after is None else PointId(after)
        found = await self._points.ids(shape.own_space(space), workspace, after=last, limit=limit)
        return [PassageId(each) for each in found]

    async def find_missing(self, space: EmbeddingSpace, passage_ids: Sequence[PassageId]) -> list[PassageId]:
        return await self._points.find_missing(shape.own_space(space), passage_ids)

    async def drop(self, space: EmbeddingSpace) -> None:
        await self._points.drop(shape.own_space(space))

    async def wait_until_consistent(self) -> None:
        await self._points.wait_until_consistent()

    async def layout_differences(self, space: EmbeddingSpace) -> list[str]:
        return await self._points.layout_differences(shape.own_space(space))

    async def is_built(self, space: EmbeddingSpace) -> bool:
        return await self._points.is_built(shape.own_space(space))

    async def health(self, space: EmbeddingSpace) -> IndexHealth:
        return await self._points.health(shape.own_space(space))

    async def aclose(self) -> None:
        await self._points.aclose()


class _Points(QdrantServerIndex):
    """The points of passages, in collections with payload indexes of their own."""

    @staticmethod
    def _indexes() -> dict[str, IndexParams]:
        return QdrantServerIndex._indexes() | _payload_indexes()  # noqa: SLF001 - of this class, too

    async def put(self, space: EmbeddingSpace, points: Sequence[PassagePoint]) -> None:
        """Write points."""
        await self._upsert(space, points, _to_point)

    async def search_both(
        self,
        space: EmbeddingSpace,
        dense: Vector,
        lexical: SparseVector,
        allowed: models.Filter,
        limit: int,
        *,
        exact: bool | None,
    ) -> list[PassageHit]:
        """Return the union of both top lists with both scores of each."""
        name = await self._collections.find(space)
        found = await self._search(name, dense, lexical, allowed, limit, exact=exact)
        return [PassageHit(passage_id=PassageId(UUID(each)), cosine=near, lexical=words) for each, near, words in found]

    async def find_missing(self, space: EmbeddingSpace, passage_ids: Sequence[PassageId]) -> list[PassageId]:
        """Return the ids without a point."""
        name, there = await self._collections.find(space), set[UUID]()
        for start in range(0, len(passage_ids), PAGE):
            batch = [str(each) for each in passage_ids[start : start + PAGE]]
            async with self._session.translate_errors(name):
                found = await self._client.retrieve(name, batch, with_payload=False)
            there.update(UUID(str(each.id)) for each in found)
        return [each for each in passage_ids if each not in there]


def _payload_indexes() -> dict[str, IndexParams]:
    keyword, moment = models.KeywordIndexType.KEYWORD, models.DatetimeIndexType.DATETIME
    number = models.IntegerIndexType.INTEGER
    return {
        **{field: models.KeywordIndexParams(type=keyword, enable_hnsw=False) for field in shape.KEYWORDS},
        **{field: models.DatetimeIndexParams(type=moment, enable_hnsw=False) for field in shape.TIMES},
        **{
            field: models.IntegerIndexParams(type=number, lookup=False, range=True, enable_hnsw=False)
            for field in shape.NUMBERS
        },
    }


def _to_point(point: PassagePoint) -> models.PointStruct:
    return models.PointStruct(
        id=str(point.passage_id),
        vector={qdrant_points.DENSE: point.dense.tolist(), qdrant_points.LEXICAL: sparse(point.lexical)},
        payload=shape.payload(point),
    )


def _is_any(field: str, values: tuple[str, ...]) -> models.FieldCondition:
    return models.FieldCondition(key=field, match=models.MatchAny(any=list(values)))


def _filter(wanted: shape.Conditions) -> models.Filter:
    must: list[models.Condition] = [_is_any(field, values) for field, values in wanted.one_of]
    if wanted.since is not None:
        must.append(models.FieldCondition(key="until", range=models.DatetimeRange(gte=wanted.since)))
    if wanted.until is not None:
        must.append(models.FieldCondition(key="ts", range=models.DatetimeRange(lte=wanted.until)))
    if wanted.lines:
        within: list[models.Condition] = [
            models.Filter(
                must=[
                    models.FieldCondition(key="line_start", range=models.Range(lte=line)),
                    models.FieldCondition(key="line_end", range=models.Range(gte=line)),
                ]
            )
            for line in wanted.lines
        ]
        must.append(models.Filter(should=within))
    return models.Filter(must=must)
