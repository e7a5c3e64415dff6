"""The vector index on a Qdrant server, through the official client. Also runs over the client's in-memory mode."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Final, NoReturn
from urllib.parse import urlsplit
from uuid import UUID

import httpx
from grpc import RpcError  # type: ignore[import-untyped]
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from hardwon.client.http_environment import check_http_environment
from hardwon.errors import HardwonError, IndexUnavailable, StoreIncompatible
from knowledge.adapters.qdrant import payloads as shape
from knowledge.adapters.qdrant.payloads import SOLE_USER, Ownership
from knowledge.models import EmbeddingSpace, Hit, Point, PointFilter, PointId, SparseVector, Vector
from knowledge.ports import VectorIndex

BATCH: Final = 256
"""Points per request."""

_QUERY_BATCH: Final = 64
"""Vectors per nearest-neighbour request."""

BATCH_NUMBERS: Final = 1_000_000
"""Numbers per request: 20 bytes of JSON each, and a server accepts 32 MB. Splits batches above 3,906 dimensions."""

_LIMITS: Final = httpx.Limits(max_keepalive_connections=8, keepalive_expiry=3.0)
"""The client's own default opens a connection per request to a local server; servers drop idle ones after 5 s."""

_STORE: Final = "hardwon_store"
"""The metadata key of a collection with the identifier of its store."""

_CLIENT_ERRORS: Final = (
    ApiException,
    QdrantException,
    httpx.HTTPError,
    httpx.InvalidURL,
    RpcError,
    OSError,
    # Raised by the in-memory mode and by the client's own checks.
    ValueError,
    KeyError,
    RuntimeError,
    AssertionError,
)


def connect(
    url: str, api_key: str | None = None, ownership: Ownership = SOLE_USER, *, timeout_seconds: float = 10.0
) -> QdrantServerIndex:
    """Return an index on the server at `url` (with the port: 6333 unless given). Nothing is sent yet.

    `timeout_seconds` is per request, rounded up to whole seconds, as the client requires.
    """
    return QdrantServerIndex(client_of(url, api_key, timeout_seconds=timeout_seconds), ownership)


def client_of(url: str, api_key: str | None = None, *, timeout_seconds: float = 10.0) -> AsyncQdrantClient:
    """Return a client of the server at `url`. Nothing is sent yet."""
    check_http_environment()
    with warnings.catch_warnings():
        # A key over http is usual inside a compose network; a warning at each start helps nobody.
        warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
        return AsyncQdrantClient(
            url=url,
            api_key=api_key,
            timeout=math.ceil(timeout_seconds),
            check_compatibility=False,  # it prints a warning from a thread
            limits=_LIMITS,
        )


class QdrantServerIndex(VectorIndex):
    """Points in a collection per embedding space on a server that any number of processes share.

    Every call may be repeated: ids are deterministic and deletions are by id or by expiry. Each raises
    StoreIncompatible if the collection belongs to another store: each would delete the other's points as unknown.
    """

    def __init__(self, client: AsyncQdrantClient, ownership: Ownership = SOLE_USER) -> None:
        self._client = client
        self._address = _address(client)
        self._ownership = ownership
        self._alias = ownership.prefix + shape.ALIAS
        self._owned: set[str] = set()

    async def ensure(self, space: EmbeddingSpace, *, in_use: bool = True) -> None:
        name = self._name(space)
        with self._translate_errors():
            await self._create_if_absent(name, space)
            found = await self._client.get_collection(name)
            await self._check_owner(name, found)
            self._check_dims(found, name, space)
            for field, schema in _payload_indexes().items():
                if self._has_payload_indexes and field not in found.payload_schema:
                    self._check_completed(await self._client.create_payload_index(name, field, schema, wait=True))
            if in_use:
                await self._set_alias(name)

    async def upsert(self, space: EmbeddingSpace, points: Sequence[Point]) -> None:
        shape.check_batch(space, points)
        name = await self._collection(space)
        size = min(BATCH, max(1, BATCH_NUMBERS // space.dims))
        for start in range(0, len(points), size):
            batch = [_to_point(point) for point in points[start : start + size]]
            with self._translate_errors():
                self._check_completed(await self._client.upsert(name, batch, wait=True))

    async def search(
        self, space: EmbeddingSpace, dense: Vector | None, lexical: SparseVector, where: PointFilter, *, limit: int
    ) -> list[Hit]:
        if dense is not None:
            shape.check_dense(space, dense, "dense")
        shape.check_lexical(lexical, "lexical")
        wanted = shape.conditions(where)
        name = await self._collection(space)
        if limit < 1 or wanted.impossible:
            return []
        if dense is None:
            return await self._search_words(name, lexical, _filter(wanted), limit)
        found = await self._search_both(name, dense, lexical, _filter(wanted), limit)
        return [Hit(point_id=PointId(each), cosine=cosine, lexical=words) for each, cosine, words in found]

    async def _search_words(self, name: str, lexical: SparseVector, allowed: models.Filter, limit: int) -> list[Hit]:
        """Return the points nearest by their words, by id, with a cosine of 0."""
        if not lexical.indices:
            return []
        with self._translate_errors():
            found = await self._client.query_points(
                name, query=sparse(lexical), using=shape.LEXICAL, query_filter=allowed, limit=limit, with_payload=False
            )
        hits = [Hit(point_id=PointId(UUID(str(each.id))), cosine=0.0, lexical=each.score) for each in found.points]
        return sorted(hits, key=lambda hit: hit.point_id)

    async def _search_both(
        self, name: str, dense: Vector, lexical: SparseVector, allowed: models.Filter, limit: int
    ) -> list[tuple[UUID, float, float]]:
        """Return the union of both top lists, by id, with both scores of each: cosine and lexical."""
        requests = _both_requests(dense.tolist(), lexical, allowed, limit)
        with self._translate_errors():
            pages = await self._client.query_batch_points(name, requests=requests)
        by_sense, *by_words = [{UUID(str(found.id)): found.score for found in page.points} for page in pages]
        words = by_words[0] if by_words else {}
        return sorted((each, cosine, words.get(each, 0.0)) for each, cosine in by_sense.items())

    async def nearest(
        self, space: EmbeddingSpace, dense: Sequence[Vector], where: PointFilter, *, limit: int, at_least: float
    ) -> list[list[PointId]]:
        for vector in dense:
            shape.check_dense(space, vector, "dense")
        wanted = shape.conditions(where)
        if limit < 1 or wanted.impossible:
            return [[] for _ in dense]
        name, allowed = await self._collection(space), _filter(wanted)
        found: list[list[PointId]] = []
        for start in range(0, len(dense), _QUERY_BATCH):
            requests = [
                models.QueryRequest(
                    query=vector.tolist(),
                    using=shape.DENSE,
                    filter=allowed,
                    limit=limit,
                    score_threshold=at_least,
                    with_payload=False,
                    with_vector=False,
                )
                for vector in dense[start : start + _QUERY_BATCH]
            ]
            with self._translate_errors():
                pages = await self._client.query_batch_points(name, requests=requests)
            found += [[_id(hit.id) for hit in page.points] for page in pages]
        return found

    async def delete(self, space: EmbeddingSpace, point_ids: Sequence[PointId]) -> None:
        name = await self._collection(space)
        if not await self._exists(name):
            return
        for start in range(0, len(point_ids), BATCH):
            chosen: list[int | str | UUID] = list(map(str, point_ids[start : start + BATCH]))
            with self._translate_errors():
                selector = models.PointIdsList(points=chosen)
                self._check_completed(await self._client.delete(name, points_selector=selector, wait=True))

    async def delete_expired(self, space: EmbeddingSpace, workspace: str, now: datetime) -> int:
        name = await self._collection(space)
        shape.format_time(now, "now")
        until = models.FieldCondition(key=shape.EXPIRES_AT, range=models.DatetimeRange(lte=now))
        expired = _workspace_filter(workspace, until)
        if not await self._exists(name):
            return 0
        with self._translate_errors():
            counted = await self._client.count(name, count_filter=expired, exact=True)
            if counted.count:
                selector = models.FilterSelector(filter=expired)
                self._check_completed(await self._client.delete(name, points_selector=selector, wait=True))
            return counted.count

    async def count(self, space: EmbeddingSpace, workspace: str) -> int:
        name = await self._collection(space)
        with self._translate_errors():
            mine = _workspace_filter(workspace)
            return (await self._client.count(name, count_filter=mine, exact=True)).count

    async def scan(
        self, space: EmbeddingSpace, workspace: str, *, after: PointId | None, limit: int
    ) -> list[tuple[PointId, Point | None]]:
        name = await self._collection(space)
        start = None if after is None else shape.id_after(after)
        if limit < 1 or (after is not None and start is None):
            return []
        with self._translate_errors():
            page, _ = await self._client.scroll(
                name,
                scroll_filter=_workspace_filter(workspace),
                limit=limit,
                offset=None if start is None else str(start),
                with_payload=True,
                with_vectors=True,
            )
        return [(_id(found.id), shape.read_point(_id(found.id), found.payload, found.vector)) for found in page]

    async def ids(self, space: EmbeddingSpace, workspace: str, *, after: PointId | None, limit: int) -> list[PointId]:
        start = None if after is None else shape.id_after(after)
        if limit < 1 or (after is not None and start is None):
            return []
        name = await self._collection(space)
        with self._translate_errors():
            page, _ = await self._client.scroll(
                name,
                scroll_filter=_workspace_filter(workspace),
                limit=limit,
                offset=None if start is None else str(start),
                with_payload=False,
            )
        return [_id(found.id) for found in page]

    async def drop(self, space: EmbeddingSpace) -> None:
        name = await self._collection(space)
        with self._translate_errors():
            await self._client.delete_collection(name)
            self._owned.discard(name)

    async def aclose(self) -> None:
        with self._translate_errors():
            await self._client.close()

    def _name(self, space: EmbeddingSpace) -> str:
        return self._ownership.prefix + shape.collection_name(space)

    async def _collection(self, space: EmbeddingSpace) -> str:
        """Return the name of a space's collection; check its owner, once, if it exists."""
        name = self._name(space)
        if self._ownership.store is not None and name not in self._owned:
            with self._translate_errors():
                if await self._client.collection_exists(name):
                    await self._check_owner(name, await self._client.get_collection(name))
        return name

    async def _check_owner(self, name: str, found: models.CollectionInfo) -> None:
        """Raise StoreIncompatible for a collection of another store; claim one without an owner."""
        ours = self._ownership.store
        if ours is None:
            return
        metadata = found.config.metadata or {}
        if metadata.get(_STORE, ours) != ours:
            raise StoreIncompatible(
                f"The collection {name} at {self._address} is another database's, and two that share one delete each"
                " other's points: set HARDWON_QDRANT_PREFIX to a word of this one's own. If the database moved here and"
                " the one before is gone, delete that collection and hardwon's other one there"
                " (hardwon_... and hardwon_documents_...), and run `hardwon rebuild`."
            )
        if _STORE not in metadata:
            await self._client.update_collection(name, metadata={**metadata, _STORE: ours})
        self._owned.add(name)

    async def _exists(self, name: str) -> bool:
        with self._translate_errors():
            return await self._client.collection_exists(name)

    async def _create_if_absent(self, name: str, space: EmbeddingSpace) -> None:
        if await self._client.collection_exists(name):
            return
        try:
            await self._client.create_collection(
                name,
                vectors_config={shape.DENSE: models.VectorParams(size=space.dims, distance=models.Distance.COSINE)},
                # No idf modifier: the query's weights carry the idf, the score must be the plain dot product.
                sparse_vectors_config={shape.LEXICAL: models.SparseVectorParams()},
                # One graph per workspace and none over all of them, since no search crosses workspaces.
                hnsw_config=models.HnswConfigDiff(m=0, payload_m=16),
                metadata=None if self._ownership.store is None else {_STORE: self._ownership.store},
            )
        except (UnexpectedResponse, RpcError, ValueError):
            # Another process was faster, and each server version reports that in its own words.
            if not await self._client.collection_exists(name):
                raise

    def _check_dims(self, found: models.CollectionInfo, name: str, space: EmbeddingSpace) -> None:
        vectors = found.config.params.vectors
        dense = vectors.get(shape.DENSE) if isinstance(vectors, dict) else None
        if dense is None or dense.size != space.dims:
            raise StoreIncompatible(
                f"The collection {name} at {self._address} does not hold vectors of {space.dims} dimensions; it holds "
                "nothing that Postgres lacks: delete it and run `hardwon rebuild`."
            )

    async def _set_alias(self, name: str) -> None:
        known = {alias.alias_name: alias.collection_name for alias in (await self._client.get_aliases()).aliases}
        if known.get(self._alias) == name:
            return
        create = models.CreateAliasOperation(
            create_alias=models.CreateAlias(collection_name=name, alias_name=self._alias)
        )
        delete = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=self._alias))
        # One request, so that there is no moment without the alias.
        await self._client.update_collection_aliases([delete, create] if self._alias in known else [create])

    @property
    def _has_payload_indexes(self) -> bool:
        """True on a server: the in-memory mode has no payload indexes and warns about each."""
        return self._client.init_options.get("location") != ":memory:" and not self._client.init_options.get("path")

    def _check_completed(self, result: models.UpdateResult) -> None:
        if result.status != models.UpdateStatus.COMPLETED:
            raise IndexUnavailable(
                f"Qdrant at {self._address} took a change but did not make it in time ({result.status.value}); "
                "try again."
            )

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except HardwonError:
            raise
        except _CLIENT_ERRORS as exc:
            self._raise(exc)

    def _raise(self, exc: Exception) -> NoReturn:
        source = exc.source if isinstance(exc, ResponseHandlingException) else exc
        status = _status(exc)
        if status in {401, 403}:
            raise IndexUnavailable(
                f"Qdrant at {self._address} refuses the key ({status}); set HARDWON_QDRANT_API_KEY "
                "to one that may write."
            ) from exc
        if status == 404:
            raise IndexUnavailable(f"Qdrant at {self._address} lacks the collection; run `hardwon rebuild`.") from exc
        if isinstance(exc, ResourceExhaustedResponse):
            problem = f"asks to wait {exc.retry_after_s} s"
        elif status is not None:
            problem = f"answered {status}: {_shorten(exc)}"
        elif isinstance(source, httpx.TimeoutException):
            problem = "did not answer in time"
        elif isinstance(source, httpx.HTTPError | OSError):
            problem = (
                f"cannot be reached ({_shorten(source) or type(source).__name__}): start it, or set HARDWON_QDRANT_URL"
            )
        else:
            problem = f"refused to work: {_shorten(source) or type(source).__name__}"
        raise IndexUnavailable(f"Qdrant at {self._address} {problem}.") from exc


def _status(exc: Exception) -> int | None:
    """Return the HTTP status of a response, or the one that corresponds to a gRPC code."""
    if isinstance(exc, UnexpectedResponse):
        return exc.status_code
    code = getattr(exc, "code", None)
    if isinstance(exc, RpcError) and callable(code):
        return {"UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "NOT_FOUND": 404}.get(code().name)
    if isinstance(exc, ValueError) and str(exc).endswith(" not found"):  # the in-memory mode's message for it
        return 404
    return None


def _shorten(exc: Exception) -> str:
    text = exc.content.decode(errors="replace") if isinstance(exc, UnexpectedResponse) else str(exc)
    return " ".join(text.split())[:200].rstrip(".")


def _address(client: AsyncQdrantClient) -> str:
    """Return the address of a client's server, without a password."""
    options = client.init_options
    address = options.get("url") or options.get("location") or options.get("path") or options.get("host") or "localhost"
    parts = urlsplit(str(address))
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _payload_indexes() -> dict[str, models.KeywordIndexParams | models.DatetimeIndexParams]:
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


def _workspace_filter(
    workspace: str, *conditions: models.Condition, without: Collection[PointId] = ()
) -> models.Filter:
    """Return the filter of a request: its conditions and the workspace, which is added here alone."""
    excluded = models.HasIdCondition(has_id=list(map(str, without)))
    return models.Filter(must=[_is(shape.TENANT, workspace), *conditions], must_not=[excluded] if without else None)


def _filter(wanted: shape.Conditions) -> models.Filter:
    required = [_one_of(field, values) for field, values in wanted.one_of]
    live = models.FieldCondition(key=shape.EXPIRES_AT, range=models.DatetimeRange(gt=wanted.live_at))
    same_or_absent = [
        models.Filter(should=[_one_of(field, values), models.IsEmptyCondition(is_empty=models.PayloadField(key=field))])
        for field, values in wanted.same_or_absent
    ]
    return _workspace_filter(wanted.workspace, *required, live, *same_or_absent, without=wanted.without)


def _both_requests(
    dense: list[float], lexical: SparseVector, allowed: models.Filter, limit: int
) -> list[models.QueryRequest]:
    """Return the requests for both scores of the union of both top lists: each list scored by both vectors.

    A point without a shared term is missing from the second response. Without terms there is only the first request.
    """
    nearest: list[tuple[str, list[float] | models.SparseVector]] = [(shape.DENSE, dense)]
    if lexical.indices:
        nearest.append((shape.LEXICAL, sparse(lexical)))
    tops = [models.Prefetch(query=vector, using=name, filter=allowed, limit=limit) for name, vector in nearest]
    return [
        models.QueryRequest(
            prefetch=tops, query=vector, using=name, limit=2 * limit, with_payload=False, with_vector=False
        )
        for name, vector in nearest
    ]
