"""Points in dicts, exact and forgetful."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from knowledge.adapters import qdrant_points as shape
from knowledge.errors import IndexUnavailable
from knowledge.models import EmbeddingSpace, Hit, Point, PointId, SparseVector, Vector, Where
from knowledge.ports import VectorIndex


class InMemoryIndex(VectorIndex):
    """Points in a dict per embedding space. `alias` is the collection in use."""

    def __init__(self) -> None:
        self._collections: dict[str, dict[PointId, Point]] = {}
        self.alias: str | None = None

    async def ensure(self, space: EmbeddingSpace, *, in_use: bool = True) -> None:
        name = shape.collection_name(space)
        self._collections.setdefault(name, {})
        if in_use:
            self.alias = name

    async def upsert(self, space: EmbeddingSpace, points: Sequence[Point]) -> None:
        shape.check_batch(space, points)
        self._points(space).update({point.point_id: point for point in points})

    async def search(
        self, space: EmbeddingSpace, dense: Vector, lexical: SparseVector, where: Where, *, limit: int
    ) -> list[Hit]:
        shape.check_dense(space, dense, "dense")
        shape.check_lexical(lexical, "lexical")
        wanted = shape.conditions(where)
        hits = [_hit(point, dense, lexical) for point in self._points(space).values() if _meets(point, wanted)]
        shared = [hit for hit in hits if hit.lexical]
        best = [
            *sorted(hits, key=lambda hit: -hit.cosine)[: max(limit, 0)],
            *sorted(shared, key=lambda hit: -hit.lexical)[: max(limit, 0)],
        ]
        return sorted({hit.point_id: hit for hit in best}.values(), key=lambda hit: hit.point_id)

    async def nearest(
        self, space: EmbeddingSpace, dense: Sequence[Vector], where: Where, *, limit: int, at_least: float
    ) -> list[list[PointId]]:
        found = []
        for vector in dense:
            hits = await self.search(space, vector, SparseVector(indices=(), values=()), where, limit=limit)
            hits.sort(key=lambda hit: -hit.cosine)
            found.append([hit.point_id for hit in hits if hit.cosine >= at_least])
        return found

    async def delete(self, space: EmbeddingSpace, point_ids: Sequence[PointId]) -> None:
        points = self._collections.get(shape.collection_name(space), {})
        for point_id in point_ids:
            points.pop(point_id, None)

    async def delete_expired(self, space: EmbeddingSpace, workspace: str, now: datetime) -> int:
        shape.write_moment(now, "now")
        points = self._collections.get(shape.collection_name(space), {})
        expired = [i for i, point in points.items() if point.workspace == workspace and point.expires_at <= now]
        await self.delete(space, expired)
        return len(expired)

    async def count(self, space: EmbeddingSpace, workspace: str) -> int:
        return sum(point.workspace == workspace for point in self._points(space).values())

    async def scan(
        self, space: EmbeddingSpace, workspace: str, *, after: PointId | None, limit: int
    ) -> list[tuple[PointId, Point | None]]:
        found = [
            point
            for point in self._points(space).values()
            if point.workspace == workspace and (after is None or point.point_id > after)
        ]
        found.sort(key=lambda point: point.point_id)
        return [(point.point_id, point) for point in found[: max(limit, 0)]]

    async def ids(self, space: EmbeddingSpace, workspace: str, *, after: PointId | None, limit: int) -> list[PointId]:
        return [point_id for point_id, _ in await self.scan(space, workspace, after=after, limit=limit)]

    async def drop(self, space: EmbeddingSpace) -> None:
        name = shape.collection_name(space)
        self._collections.pop(name, None)
        if self.alias == name:
            self.alias = None

    async def aclose(self) -> None:
        """Nothing to let go of; the points stay, as they do in a store."""

    def _points(self, space: EmbeddingSpace) -> dict[PointId, Point]:
        name = shape.collection_name(space)
        if name not in self._collections:
            raise IndexUnavailable(f"The index in memory has no {name}; run `hardwon rebuild`.")
        return self._collections[name]


def _meets(point: Point, wanted: shape.Conditions) -> bool:
    fields = shape.payload(point)
    return (
        point.workspace == wanted.workspace
        and all(fields.get(field) in values for field, values in wanted.one_of)
        and all(field not in fields or fields[field] in values for field, values in wanted.same_or_absent)
        and point.expires_at > wanted.live_at
        and point.point_id not in wanted.without
    )


def _hit(point: Point, dense: Vector, lexical: SparseVector) -> Hit:
    weights = dict(zip(point.lexical.indices, point.lexical.values, strict=True))
    return Hit(
        point_id=point.point_id,
        cosine=float(point.dense @ dense / (np.linalg.norm(point.dense) * np.linalg.norm(dense))),
        lexical=sum(
            value * weights.get(index, 0.0) for index, value in zip(lexical.indices, lexical.values, strict=True)
        ),
    )
