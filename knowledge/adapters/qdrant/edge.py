"""The vector index in this process: the official embedded Qdrant engine, one shard directory per embedding space.

The engine holds the interpreter's lock for the whole of every call, so threads would not help: calls are made directly
and kept short (batches of 64 points block the process for 8 ms at 384 dimensions and 80 terms, a search among 10,000
points for 7-9 ms), and the event loop runs between two batches. Writes are synced to disk from outside the engine, in a
thread (`engine_log`).

No HNSW graph is ever built: the exact search stays within 1.3-1.7 times of a bare matrix product up to 100,000 points
(15.8 ms at 256 dimensions), while building a graph stopped the whole process for 30 s at half of that.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

import qdrant_edge as edge

from hardwon.errors import IndexUnavailable
from hardwon.models.maintenance import CollectionHealth, IndexHealth
from knowledge.adapters.qdrant import payloads as shape
from knowledge.adapters.qdrant.edge_search import (
    expiry_filter,
    point_id_of,
    search_both,
    search_filter,
    search_words,
    to_engine_point,
    workspace_filter,
)
from knowledge.adapters.qdrant.edge_storage import (
    CREATING_PREFIX,
    MB,
    REMOVING_PREFIX,
    lock_directory,
    open_shard,
    sync_ahead,
    sync_folder,
    sync_log,
    translate_errors,
)
from knowledge.models import EmbeddingSpace, Hit, Point, PointFilter, PointId, SparseVector, Vector
from knowledge.ports import VectorIndex
from knowledge.runtime.scheduling import yield_to_loop

RESERVE_MB: Final = 256
"""Free space that a write must leave. A full disk kills the process (SIGBUS on a mapped page), so it is checked before.

The log and the vector files grow in steps of 32 MiB each that are only filled later.
"""

BATCH: Final = 64
"""Points per engine call: 64 are stored as fast as 256 (8,100 against 8,400 a second), with a quarter of the stall."""

_QUERY_BATCH: Final = 16
"""Vectors per nearest-neighbour call: the filter is evaluated once for all of them (0.33 instead of 0.91 ms of CPU a
vector among 1,500 points), and the process is blocked no longer than by two or three queries."""

SLICE: Final = 256
"""Points deleted per engine call: 51,001 expired ones block the process 19 ms at a time; all at once, 1,390 ms."""

FLUSH_AFTER: Final = 4096
"""Points written after which the engine flushes (50 to 90 ms): at most so many are replayed after a kill (1 s)."""

_NO_HNSW: Final = 10**9
_ALIASES: Final = "aliases.json"


class QdrantEdgeIndex(VectorIndex):
    """Points in a directory that one process at a time owns, from construction to `aclose`.

    Raises StoreInUse, naming the owner, if another process has it. `reserve_mb` is the free disk space a write must
    leave.
    """

    def __init__(self, directory: Path, *, reserve_mb: int = RESERVE_MB) -> None:
        self._directory = directory
        self._reserve_mb = reserve_mb
        self._shards: dict[str, edge.EdgeShard] = {}
        self._unflushed: Counter[str] = Counter()
        self._creation_locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._owner = os.getpid()
        self._lock: int | None = None
        with translate_errors(directory):
            self._lock = lock_directory(directory)

    async def ensure(self, space: EmbeddingSpace, *, in_use: bool = True) -> None:
        path = self._path(space)
        async with self._creation_locks[path.name]:
            await self._ensure(space, path, in_use=in_use)

    async def upsert(self, space: EmbeddingSpace, points: Sequence[Point]) -> None:
        for start in range(0, len(points), BATCH):
            shape.check_batch(space, points[start : start + BATCH], start)
            await yield_to_loop()
        for start in range(0, len(points), BATCH):
            batch = [to_engine_point(point) for point in points[start : start + BATCH]]
            await yield_to_loop()
            await self._update(space, edge.UpdateOperation.upsert_points(batch))
            await yield_to_loop()
        await self._sync(space, len(points))

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
        del exact  # there is no graph
        if dense is not None:
            shape.check_dense(space, dense, "dense")
        shape.check_lexical(lexical, "lexical")
        wanted = shape.conditions(where)
        with translate_errors(await self._wait_until_created(space)):
            shard = self._shard(space)
            if limit < 1 or wanted.impossible:
                return []
            allowed = search_filter(shard, wanted)
            if dense is None:
                return search_words(shard, lexical, allowed, limit)
            return search_both(shard, dense.tolist(), lexical, allowed, limit)

    async def nearest(
        self, space: EmbeddingSpace, dense: Sequence[Vector], where: PointFilter, *, limit: int, at_least: float
    ) -> list[list[PointId]]:
        for vector in dense:
            shape.check_dense(space, vector, "dense")
        wanted = shape.conditions(where)
        if limit < 1 or wanted.impossible:
            return [[] for _ in dense]
        found: list[list[PointId]] = []
        for start in range(0, len(dense), _QUERY_BATCH):
            queries = [
                edge.Query.Nearest(vector.tolist(), using=shape.DENSE) for vector in dense[start : start + _QUERY_BATCH]
            ]
            with translate_errors(await self._wait_until_created(space)):
                shard = self._shard(space)
                allowed = search_filter(shard, wanted)
                requests = [
                    edge.QueryRequest(limit=limit, query=query, filter=allowed, score_threshold=at_least)
                    for query in queries
                ]
                pages = shard.query_batch(edge.QueryBatchRequest(requests))
            found += [[point_id_of(hit.id) for hit in page] for page in pages]
            await yield_to_loop()
        return found

    async def delete(self, space: EmbeddingSpace, point_ids: Sequence[PointId]) -> None:
        if not (await self._wait_until_created(space)).exists():
            return
        for start in range(0, len(point_ids), SLICE):
            await self._update(space, edge.UpdateOperation.delete_points(list(point_ids[start : start + SLICE])))
            await yield_to_loop()
        await self._sync(space, len(point_ids))

    async def delete_expired(self, space: EmbeddingSpace, workspace: str, now: datetime) -> int:
        expired = expiry_filter(workspace, shape.format_time(now, "now"))
        deleted = 0
        if not (await self._wait_until_created(space)).exists():
            return 0
        while True:
            with translate_errors(await self._wait_until_created(space)):
                request = edge.ScrollRequest(limit=SLICE, filter=expired, with_payload=False)
                found = [record.id for record in self._shard(space).scroll(request)[0]]
            if not found:
                break
            await self._update(space, edge.UpdateOperation.delete_points(found))
            deleted += len(found)
            await yield_to_loop()
        await self._sync(space, deleted)
        return deleted

    async def count(self, space: EmbeddingSpace, workspace: str) -> int:
        with translate_errors(await self._wait_until_created(space)):
            request = edge.CountRequest(exact=True, filter=workspace_filter(workspace))
            return self._shard(space).count(request)

    async def scan(
        self, space: EmbeddingSpace, workspace: str, *, after: PointId | None, limit: int
    ) -> list[tuple[PointId, Point | None]]:
        start = None if after is None else shape.id_after(after)
        with translate_errors(await self._wait_until_created(space)):
            shard = self._shard(space)
            if limit < 1 or (after is not None and start is None):
                return []
            request = edge.ScrollRequest(
                limit=limit,
                offset=start,
                filter=workspace_filter(workspace),
                with_payload=True,
                with_vector=True,
            )
            page, _ = shard.scroll(request)
            return [
                (point_id_of(found.id), shape.read_point(point_id_of(found.id), found.payload, found.vector))
                for found in page
            ]

    async def ids(self, space: EmbeddingSpace, workspace: str, *, after: PointId | None, limit: int) -> list[PointId]:
        start = None if after is None else shape.id_after(after)
        with translate_errors(await self._wait_until_created(space)):
            shard = self._shard(space)
            if limit < 1 or (after is not None and start is None):
                return []
            request = edge.ScrollRequest(
                limit=limit, offset=start, filter=workspace_filter(workspace), with_payload=False
            )
            return [point_id_of(found.id) for found in shard.scroll(request)[0]]

    async def expiries(
        self, space: EmbeddingSpace, workspace: str, *, after: PointId | None, limit: int
    ) -> dict[PointId, datetime | None]:
        start = None if after is None else shape.id_after(after)
        with translate_errors(await self._wait_until_created(space)):
            shard = self._shard(space)
            if limit < 1 or (after is not None and start is None):
                return {}
            request = edge.ScrollRequest(
                limit=limit, offset=start, filter=workspace_filter(workspace), with_payload=[shape.EXPIRES_AT]
            )
            return {point_id_of(found.id): shape.read_expiry(found.payload) for found in shard.scroll(request)[0]}

    async def drop(self, space: EmbeddingSpace) -> None:
        await self._remove(await self._wait_until_created(space))

    async def recreate(self, space: EmbeddingSpace, *, in_use: bool = True) -> None:
        """Replace a collection by an empty one while holding its lock: callers that wait for the lock find it there.

        If there is no room for that, the old one stays.
        """
        path = self._path(space)
        async with self._creation_locks[path.name]:
            with translate_errors(path):
                self._check_free_space()
            await self._remove(path)
            await self._ensure(space, path, in_use=in_use)

    async def _remove(self, path: Path) -> None:
        with translate_errors(path):
            gone = self._rename_for_removal(path)
            if gone is not None:
                await asyncio.to_thread(shutil.rmtree, gone)

    def _rename_for_removal(self, path: Path) -> Path | None:
        """Close a collection and rename it for removal; return the new path, None if there was no collection.

        A kill leaves the whole collection, or remains that the next start removes.
        """
        shard = self._shards.pop(path.name, None)
        del self._unflushed[path.name]
        if shard is not None:
            shard.close()
        if self.alias() == path.name:
            self._set_alias(None)
        if not path.exists():
            return None
        return path.rename(path.with_name(f"{REMOVING_PREFIX}{path.name}-{uuid4().hex}"))

    async def wait_until_consistent(self) -> None:
        """Return at once: there is one copy."""

    async def health(self, space: EmbeddingSpace) -> IndexHealth:
        with translate_errors(await self._wait_until_created(space)):
            points = self._shard(space).info().points_count
        return IndexHealth(collections=(CollectionHealth(name=shape.collection_name(space), points=points),))

    async def aclose(self) -> None:
        if self._lock is None:
            return
        self._check_open()
        try:
            while self._shards:
                name, shard = self._shards.popitem()
                with translate_errors(self._directory / name):
                    shard.close()  # flushes
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)  # a forked child's copy of the descriptor must not keep it
            os.close(self._lock)
            self._lock = None

    def alias(self) -> str | None:
        """Return the collection of the alias `project_knowledge`, None if its file is missing or unreadable."""
        with suppress(FileNotFoundError, ValueError):
            aliases = json.loads((self._directory / _ALIASES).read_text(encoding="utf-8"))
            if isinstance(aliases, dict):
                return aliases.get(shape.ALIAS)
        return None

    def _set_alias(self, name: str | None) -> None:
        fresh = self._directory / f"{_ALIASES}.new"
        with fresh.open("w", encoding="utf-8") as file:
            json.dump({} if name is None else {shape.ALIAS: name}, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._directory / _ALIASES)
        sync_folder(self._directory)

    def _path(self, space: EmbeddingSpace) -> Path:
        """Return the directory of a space's collection, after checking that this process may use it."""
        self._check_open()
        return self._directory / shape.collection_name(space)

    async def _ensure(self, space: EmbeddingSpace, path: Path, *, in_use: bool) -> None:
        with translate_errors(path):
            if not path.exists():  # noqa: ASYNC240 - a quick check of a local folder
                self._check_free_space()
                await self._create(space, path)
            await yield_to_loop()
            self._shard(space)
            if in_use and self.alias() != path.name:
                self._set_alias(path.name)

    async def _wait_until_created(self, space: EmbeddingSpace) -> Path:
        """Wait while a collection is being created, and return its directory."""
        path = self._path(space)
        while (making := self._creation_locks[path.name]).locked():
            async with making:
                pass
        return path

    def _shard(self, space: EmbeddingSpace) -> edge.EdgeShard:
        """Return the open shard of a space, opening it at its first use."""
        path = self._path(space)
        shard = self._shards.get(path.name)
        if shard is None:
            if not path.exists():
                raise IndexUnavailable(f"The index in {self._directory} has no {path.name}; run `hardwon rebuild`.")
            shard = self._shards[path.name] = open_shard(path, space, self._reserve_mb)
        return shard

    async def _create(self, space: EmbeddingSpace, path: Path) -> None:
        """Create a collection with its payload indexes in another directory, then rename that: it is whole or absent.

        Each step waits for the disk (0.1 s on a busy one), and there are a dozen.
        """
        making = path.with_name(f"{CREATING_PREFIX}{path.name}")
        shutil.rmtree(making, ignore_errors=True)
        config = edge.EdgeConfig(
            vectors={shape.DENSE: edge.EdgeVectorParams(size=space.dims, distance=edge.Distance.Cosine)},
            # No idf modifier: the query's weights carry the idf, the score must be the plain dot product.
            sparse_vectors={shape.LEXICAL: edge.EdgeSparseVectorParams()},
            optimizers=edge.EdgeOptimizersConfig(indexing_threshold=_NO_HNSW),
        )
        shard = edge.EdgeShard.create(str(making), config)
        try:
            for operation in _indexes():
                await yield_to_loop()
                shard.update(operation)
            await yield_to_loop()
        finally:
            shard.close()
        self._check_open()  # it may have been closed meanwhile
        making.rename(path)
        sync_folder(path.parent)

    async def _update(self, space: EmbeddingSpace, operation: edge.UpdateOperation) -> None:
        with translate_errors(await self._wait_until_created(space)):
            shard = self._shard(space)
            self._check_free_space()
            shard.update(operation)

    async def _sync(self, space: EmbeddingSpace, written: int) -> None:
        """Sync writes to disk: they survive a kill before this, but a power cut only after it."""
        path = self._path(space)
        with translate_errors(path):
            self._unflushed[path.name] += written
            logged = await asyncio.to_thread(sync_log, path)
            if logged and self._unflushed[path.name] < FLUSH_AFTER:
                return
            await self._wait_until_created(space)
            await asyncio.to_thread(sync_ahead, path)
            await self._wait_until_created(space)
            self._check_open()
            self._shard(space).flush()
            del self._unflushed[path.name]

    def _check_open(self) -> None:
        if os.getpid() != self._owner:
            # The engine's threads do not exist in a forked child: its first query would hang forever.
            raise IndexUnavailable(
                f"The index in {self._directory} was opened by process {self._owner} and cannot be used after a fork; "
                "open it where it is used."
            )
        if self._lock is None:
            raise IndexUnavailable(f"The index in {self._directory} is closed.")

    def _check_free_space(self) -> None:
        free_mb = shutil.disk_usage(self._directory).free // MB
        if free_mb < self._reserve_mb:
            raise IndexUnavailable(
                f"The index in {self._directory} has {free_mb} MB of disk left and needs {self._reserve_mb} MB "
                "before it writes; free some space."
            )


def _indexes() -> Iterator[edge.UpdateOperation]:
    index = edge.UpdateOperation.create_field_index
    yield index(shape.TENANT, edge.KeywordIndexParams(is_tenant=True))
    for field in shape.KEYWORDS:
        yield index(field, edge.KeywordIndexParams(enable_hnsw=False))
    for field in shape.TIMES:
        yield index(field, edge.DatetimeIndexParams(enable_hnsw=False))
