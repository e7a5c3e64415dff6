"""Passages on a Qdrant server: collections of their own, one per embedding space, stored like those of patterns."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from qdrant_client import AsyncQdrantClient, models

from hardwon.models.documents import PassageId
from knowledge.adapters.qdrant import passage_payloads as shape
from knowledge.adapters.qdrant import payloads as qdrant_points
from knowledge.adapters.qdrant.payloads import SOLE_USER, Ownership
from knowledge.adapters.qdrant.server import BATCH, BATCH_NUMBERS, QdrantServerIndex, client_of, sparse
from knowledge.documents.models import PassageHit, PassagePoint, PassageWhere
from knowledge.documents.ports import PassageIndex
from knowledge.models import EmbeddingSpace, PointId, SparseVector, Vector


def connect(url: str, api_key: str | None = None, ownership: Ownership = SOLE_USER) -> ServerPassages:
    """Return an index of passages on the server at `url`. Nothing is sent yet."""
    return ServerPassages(client_of(url, api_key), ownership)


class ServerPassages(PassageIndex):
    """Points on a server that any number of processes share."""

    def __init__(self, client: AsyncQdrantClient, ownership: Ownership = SOLE_USER) -> None:
        self._collections = _Collections(client, ownership)

    async def ensure(self, space: EmbeddingSpace) -> None:
        await self._collections.make(shape.own_space(space))

    async def upsert(self, space: EmbeddingSpace, points: Sequence[PassagePoint]) -> None:
        shape.check_batch(space, points)
        await self._collections.put(shape.own_space(space), points)

    async def search(
        self, space: EmbeddingSpace, dense: Vector, lexical: SparseVector, where: PassageWhere, *, limit: int
    ) -> list[PassageHit]:
        qdrant_points.check_dense(space, dense, "dense")
        qdrant_points.check_lexical(lexical, "lexical")
        wanted = shape.conditions(where)
        if limit < 1 or wanted.impossible:
            return []
        return await self._collections.search_both(shape.own_space(space), dense, lexical, _filter(wanted), limit)

    async def delete(self, space: EmbeddingSpace, passage_ids: Sequence[PassageId]) -> None:
        await self._collections.delete(shape.own_space(space), [PointId(each) for each in passage_ids])

    async def count(self, space: EmbeddingSpace, workspace: str) -> int:
        return await self._collections.count(shape.own_space(space), workspace)

    async def scan(
        self, space: EmbeddingSpace, workspace: str, *, after: PassageId | None, limit: int
    ) -> list[PassageId]:
        last = None if after is None else PointId(after)
        found = await self._collections.ids(shape.own_space(space), workspace, after=last, limit=limit)
        return [PassageId(each) for each in found]

    async def find_missing(self, space: EmbeddingSpace, passage_ids: Sequence[PassageId]) -> list[PassageId]:
        return await self._collections.find_missing(shape.own_space(space), passage_ids)

    async def drop(self, space: EmbeddingSpace) -> None:
        await self._collections.drop(shape.own_space(space))

    async def aclose(self) -> None:
        await self._collections.aclose()


class _Collections(QdrantServerIndex):
    """The collections of passages."""

    async def make(self, space: EmbeddingSpace) -> None:
        """Create the collection of the space with the payload indexes of passages, if absent."""
        await self.ensure(space, in_use=False)
        if not self._has_payload_indexes:
            return
        name = self._name(space)
        with self._translate_errors():
            found = await self._client.get_collection(name)
            for field, schema in _payload_indexes().items():
                if field not in found.payload_schema:
                    self._check_completed(await self._client.create_payload_index(name, field, schema, wait=True))

    async def put(self, space: EmbeddingSpace, points: Sequence[PassagePoint]) -> None:
        """Write points."""
        name = await self._collection(space)
        size = min(BATCH, max(1, BATCH_NUMBERS // space.dims))
        for start in range(0, len(points), size):
            batch = [_to_point(point) for point in points[start : start + size]]
            with self._translate_errors():
                self._check_completed(await self._client.upsert(name, batch, wait=True))

    async def search_both(
        self, space: EmbeddingSpace, dense: Vector, lexical: SparseVector, allowed: models.Filter, limit: int
    ) -> list[PassageHit]:
        """Return the union of both top lists with both scores of each."""
        found = await self._search_both(await self._collection(space), dense, lexical, allowed, limit)
        return [PassageHit(passage_id=PassageId(each), cosine=cosine, lexical=words) for each, cosine, words in found]

    async def find_missing(self, space: EmbeddingSpace, passage_ids: Sequence[PassageId]) -> list[PassageId]:
        """Return the ids without a point."""
        name, there = await self._collection(space), set[UUID]()
        for start in range(0, len(passage_ids), BATCH):
            batch = [str(each) for each in passage_ids[start : start + BATCH]]
            with self._translate_errors():
                found = await self._client.retrieve(name, batch, with_payload=False)
            there.update(UUID(str(each.id)) for each in found)
        return [each for each in passage_ids if each not in there]


def _payload_indexes() -> dict[str, models.KeywordIndexParams | models.DatetimeIndexParams | models.IntegerIndexParams]:
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
