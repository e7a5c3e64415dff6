"""The vector index on a Qdrant server or cluster, through the official client.

REST: a search and its response take the client less than gRPC's do at this size (docs/performance.md). Responses are
asked for uncompressed: a server sends compressed ones in small pieces, and the delayed acknowledgement of the second
holds each back for 40 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar
from uuid import UUID

from qdrant_client import AsyncQdrantClient, models

from hardwon.models.maintenance import IndexHealth
from knowledge.adapters.qdrant import payloads as shape
from knowledge.adapters.qdrant.cluster import session as cluster
from knowledge.adapters.qdrant.cluster.collections import Collections, IndexParams
from knowledge.adapters.qdrant.cluster.layout import PAGE, QUERY_BATCH, Layout
from knowledge.adapters.qdrant.cluster.session import ClusterSession, Search, retry
from knowledge.adapters.qdrant.payloads import SOLE_USER, Ownership
from knowledge.models import EmbeddingSpace, Hit, Point, PointFilter, PointId, SparseVector, Vector
from knowledge.ports import VectorIndex

BATCH_NUMBERS: Final = 1_000_000
"""Numbers per request: 20 bytes of JSON each, and a server accepts 32 MB. Splits batches above 3,906 dimensions."""

_EXPIRY_AHEAD: Final = timedelta(minutes=1)

_T = TypeVar("_T")


def connect(
    urls: Sequence[str],
    api_key: str | None = None,
    ownership: Ownership = SOLE_USER,
    layout: Layout | None = None,
    *,
    timeout_seconds: float | None = None,
) -> QdrantServerIndex:
    """Return an index on the cluster with nodes at `urls` (ports: `nodes.with_port`). Nothing is sent yet."""
    return QdrantServerIndex(cluster.connect(urls, api_key, timeout_seconds=timeout_seconds), ownership, layout)


class QdrantServerIndex(VectorIndex):
    """Points in a collection per embedding space on a server that any number of processes share.

    Every call may be repeated: ids are deterministic and deletions are by id or by expiry. Each raises
    StoreIncompatible if the collection belongs to another store: each would delete the other's points as unknown.
    """

    def __init__(
        self,
        client: ClusterSession | AsyncQdrantClient,
        ownership: Ownership = SOLE_USER,
        layout: Layout | None = None,
    ) -> None:
        self._session = client if isinstance(client, ClusterSession) else ClusterSession(client)
        self._client = self._session.client
        self._collections = Collections(self._session, ownership, layout or Layout())
        self._none_expire_until: dict[tuple[str, str], datetime] = {}

    async def ensure(self, space: EmbeddingSpace, *, in_use: bool = True) -> None:
        await self._collections.make(space, self._indexes(), in_use=in_use)

    @staticmethod
    def _indexes() -> dict[str, IndexParams]:
        """Return the payload indexes of a collection by field."""
        return _payload_indexes()

    async def upsert(self, space: EmbeddingSpace, points: Sequence[Point]) -> None:
        shape.check_batch(space, points)
        earliest = min((point.expires_at for point in points), default=None)
        if earliest is not None and any(earliest <= until for until in self._none_expire_until.values()):
            self._none_expire_until.clear()
        await self._upsert(space, points, _to_point)

    async def _upsert(
        self, space: EmbeddingSpace, points: Sequence[_T], to_point: Callable[[_T], models.PointStruct]
    ) -> None:
        name = await self._collections.find(space)
        size = min(PAGE, max(1, BATCH_NUMBERS // space.dims))
        for start in range(0, len(points), size):
            batch = [to_point(point) for point in points[start : start + size]]
            async with self._session.translate_errors(name):
                self._session.check_completed(await self._send_batch(name, batch))

    async def _send_batch(self, name: str, batch: list[models.PointStruct]) -> models.UpdateResult:
        return await retry(lambda: self._client.upsert(name, batch, wait=True))

    async def search(
        self,
        space: EmbeddingSpace,
        dense: Vector | None,
        lexical: SparseVector,
        where: PointFilter,
        *,
        limit: int,
        exact: bool | None = None,
    ) -> list[Hit]:
        if dense is not None:
            shape.check_dense(space, dense, "dense")
        shape.check_lexical(lexical, "lexical")
        wanted = shape.conditions(where)
        name = await self._collections.find(space)
        if limit < 1 or wanted.impossible:
            return []
        allowed = _filter(wanted, expiry=await self._has_expired(name, wanted))
        found = await self._search(name, dense, lexical, allowed, limit, exact=exact)
        return [Hit(point_id=PointId(UUID(each)), cosine=cosine, lexical=words) for each, cosine, words in found]

    async def _search(
        self,
        name: str,
        dense: Vector | None,
        lexical: SparseVector,
        allowed: models.Filter,
        limit: int,
        *,
        exact: bool | None,
    ) -> list[tuple[str, float, float]]:
        """Return the union of both top lists, by id, with both scores of each: cosine and lexical.

        Each list is a root query: a server merges the shards by the score of the root. Hits of one list that the other
        lacks are scored by id; none of them has a score in a list that was not full.
        """
        queries: dict[str, Search] = {}
        if dense is not None:
            params = await self._params(name, exact=exact)
            queries[shape.DENSE] = {"query": dense.tolist(), "using": shape.DENSE, "params": params}
        if lexical.indices:
            queries[shape.LEXICAL] = {"query": sparse(lexical), "using": shape.LEXICAL}
        scores = await self._score(name, {using: {**each, "filter": allowed} for using, each in queries.items()}, limit)
        union = set().union(*scores.values())
        unscored = {using: union - found.keys() for using, found in scores.items() if len(found) >= limit}
        by_id = {using: {**queries[using], "filter": _has_any_id(ids)} for using, ids in unscored.items() if ids}
        for using, found in (await self._score(name, by_id, 2 * limit)).items():
            scores[using].update(found)
        cosines, words = scores.get(shape.DENSE, {}), scores.get(shape.LEXICAL, {})
        return sorted((each, cosines.get(each, 0.0), words.get(each, 0.0)) for each in union)

    async def _score(self, name: str, queries: Mapping[str, Search], limit: int) -> dict[str, dict[str, float]]:
        """Return the ids and scores of the best points of each query, in one request."""
        if not queries:
            return {}
        pages = await self._session.query(name, [{**query, "limit": limit} for query in queries.values()])
        return {using: dict(page) for using, page in zip(queries, pages, strict=True)}

    async def _has_expired(self, name: str, wanted: shape.Conditions) -> bool:
        """Return whether a workspace may have expired points, looked up once a minute.

        Testing each point for it costs a server as much as comparing its vector. What another process writes meanwhile
        with an earlier expiry is left out by Postgres.
        """
        key = name, wanted.workspace
        if wanted.live_at < self._none_expire_until.get(key, wanted.live_at):
            return False
        until = wanted.live_at + _EXPIRY_AHEAD
        due = models.FieldCondition(key=shape.EXPIRES_AT, range=models.DatetimeRange(lte=until))
        async with self._session.translate_errors(name):
            found, _ = await retry(
                lambda: self._client.scroll(
                    name, scroll_filter=_workspace_filter(wanted.workspace, due), limit=1, with_payload=False
                )
            )
        if not found:
            self._none_expire_until[key] = until
        return bool(found)

    async def _params(self, name: str, *, exact: bool | None) -> models.SearchParams:
        if exact is None:
            return await self._collections.params(name)
        return self._collections.params_of(exact=exact)

    async def nearest(
        self, space: EmbeddingSpace, dense: Sequence[Vector], where: PointFilter, *, limit: int, at_least: float
    ) -> list[list[PointId]]:
        for vector in dense:
            shape.check_dense(space, vector, "dense")
        wanted = shape.conditions(where)
        if limit < 1 or wanted.impossible:
            return [[] for _ in dense]
        name = await self._collections.find(space)
        alike: Search = {
            "using": shape.DENSE,
            "filter": _filter(wanted, expiry=await self._has_expired(name, wanted)),
            "params": await self._params(name, exact=None),
            "limit": limit,
            "score_threshold": at_least,
        }
        found: list[list[PointId]] = []
        for start in range(0, len(dense), QUERY_BATCH):
            batch = [{**alike, "query": vector.tolist()} for vector in dense[start : start + QUERY_BATCH]]
            found += [[_id(each) for each, _ in page] for page in await self._session.query(name, batch)]
        return found

    async def delete(self, space: EmbeddingSpace, point_ids: Sequence[PointId]) -> None:
        name = await self._collections.find(space)
        if not await self._collections.exists(name):
            return
        for start in range(0, len(point_ids), PAGE):
            chosen: list[int | str | UUID] = list(map(str, point_ids[start : start + PAGE]))
            await self._delete(name, models.PointIdsList(points=chosen))

    async def _delete(self, name: str, selector: models.PointIdsList | models.FilterSelector) -> None:
        async with self._session.translate_errors(name):
            self._session.check_completed(
                await retry(lambda: self._client.delete(name, points_selector=selector, wait=True))
            )

    async def delete_expired(self, space: EmbeddingSpace, workspace: str, now: datetime) -> int:
        name = await self._collections.find(space)
        shape.format_time(now, "now")
        until = models.FieldCondition(key=shape.EXPIRES_AT, range=models.DatetimeRange(lte=now))
        expired = _workspace_filter(workspace, until)
        if not await self._collections.exists(name):
            return 0
        # Deleted whatever the count: that of a node that has just come back may be 0.
        number = await self._count(name, expired)
        await self._delete(name, models.FilterSelector(filter=expired))
        return number

    async def count(self, space: EmbeddingSpace, workspace: str) -> int:
        return await self._count(await self._collections.find(space), _workspace_filter(workspace))

    async def _count(self, name: str, counted: models.Filter) -> int:
        async with self._session.translate_errors(name):
            return (await retry(lambda: self._client.count(name, count_filter=counted, exact=True))).count

    async def scan(
        self, space: EmbeddingSpace, workspace: str, *, after: PointId | None, limit: int
    ) -> list[tuple[PointId, Point | None]]:
        found = await self._scroll(space, workspace, after, limit, payload=True, vectors=True)
        return [(_id(each.id), shape.read_point(_id(each.id), each.payload, each.vector)) for each in found]

    async def ids(self, space: EmbeddingSpace, workspace: str, *, after: PointId | None, limit: int) -> list[PointId]:
        return [_id(each.id) for each in await self._scroll(space, workspace, after, limit, payload=False)]

    async def expiries(
        self, space: EmbeddingSpace, workspace: str, *, after: PointId | None, limit: int
    ) -> dict[PointId, datetime | None]:
        found = await self._scroll(space, workspace, after, limit, payload=[shape.EXPIRES_AT])
        return {_id(each.id): shape.read_expiry(each.payload) for each in found}

    async def _scroll(
        self,
        space: EmbeddingSpace,
        workspace: str,
        after: PointId | None,
        limit: int,
        *,
        payload: bool | list[str],
        vectors: bool = False,
    ) -> list[models.Record]:
        """Return up to `limit` points above `after`, ascending by id; `payload`: all of it, none, or some fields."""
        name = await self._collections.find(space)
        records: list[models.Record] = []
        start = None if after is None else shape.id_after(after)
        while len(records) < limit and (after is None or start is not None):
            wanted = min(PAGE, limit - len(records))
            page = await self._page(name, workspace, start, wanted, payload=payload, vectors=vectors)
            records += page
            if len(page) < wanted:
                break
            after = _id(page[-1].id)
            start = shape.id_after(after)
        return records

    async def _page(
        self,
        name: str,
        workspace: str,
        start: UUID | None,
        limit: int,
        *,
        payload: bool | list[str],
        vectors: bool,
    ) -> list[models.Record]:
        async with self._session.translate_errors(name):
            page, _ = await retry(
                lambda: self._client.scroll(
                    name,
                    scroll_filter=_workspace_filter(workspace),
                    limit=limit,
                    offset=None if start is None else str(start),
                    with_payload=payload,
                    with_vectors=vectors,
                )
            )
        return page

    async def drop(self, space: EmbeddingSpace) -> None:
        await self._collections.drop(await self._collections.find(space))

    async def wait_until_consistent(self) -> None:
        await self._session.wait_until_consistent()

    async def layout_differences(self, space: EmbeddingSpace) -> list[str]:
        return await self._collections.layout_differences(space)

    async def is_built(self, space: EmbeddingSpace) -> bool:
        return await self._collections.is_built(space)

    async def health(self, space: EmbeddingSpace) -> IndexHealth:
        return await self._collections.health(space)

    async def aclose(self) -> None:
        await self._session.aclose()


def _payload_indexes() -> dict[str, IndexParams]:
    keyword, moment = models.KeywordIndexType.KEYWORD, models.DatetimeIndexType.DATETIME
    return {
        shape.TENANT: models.KeywordIndexParams(type=keyword, is_tenant=True),
        **{field: models.KeywordIndexParams(type=keyword, enable_hnsw=False) for field in shape.KEYWORDS},
        **{field: models.DatetimeIndexParams(type=moment, enable_hnsw=False) for field in shape.TIMES},
    }


def _to_point(point: Point) -> models.PointStruct:
    return models.PointStruct(
        id=str(point.point_id),
        vector={shape.DENSE: point.dense.tolist(), shape.LEXICAL: sparse(point.lexical)},
        payload=shape.payload(point),
    )


def sparse(vector: SparseVector) -> models.SparseVector:
    """Convert a lexical vector to the client's."""
    return models.SparseVector(indices=list(vector.indices), values=list(vector.values))


def _id(raw: object) -> PointId:
    return PointId(UUID(str(raw)))


def _is(field: str, value: str) -> models.FieldCondition:
    return models.FieldCondition(key=field, match=models.MatchValue(value=value))


def _one_of(field: str, values: Collection[str]) -> models.FieldCondition:
    return models.FieldCondition(key=field, match=models.MatchAny(any=list(values)))


def _has_any_id(ids: Collection[str]) -> dict[str, object]:
    return {"must": [{"has_id": sorted(ids)}]}  # the client's model would try three types for each


def _workspace_filter(
    workspace: str, *conditions: models.Condition, without: Collection[PointId] = ()
) -> models.Filter:
    """Return the filter of a request: its conditions and the workspace, which is added here alone."""
    excluded = models.HasIdCondition(has_id=list(map(str, without)))
    return models.Filter(must=[_is(shape.TENANT, workspace), *conditions], must_not=[excluded] if without else None)


def _filter(wanted: shape.Conditions, *, expiry: bool = True) -> models.Filter:
    """Return the filter of a search; without `expiry` it is known that no point has expired."""
    required: list[models.Condition] = [_one_of(field, values) for field, values in wanted.one_of]
    if expiry:
        required.append(models.FieldCondition(key=shape.EXPIRES_AT, range=models.DatetimeRange(gt=wanted.live_at)))
    same_or_absent = [
        models.Filter(should=[_one_of(field, values), models.IsEmptyCondition(is_empty=models.PayloadField(key=field))])
        for field, values in wanted.same_or_absent
    ]
    return _workspace_filter(wanted.workspace, *required, *same_or_absent, without=wanted.without)
