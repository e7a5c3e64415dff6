"""The vector index."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from knowledge.models import EmbeddingSpace, Hit, Point, PointFilter, PointId, SparseVector, Vector


class VectorIndex(Protocol):
    """Points of an embedding space: dense and lexical vectors with filter fields. Derived from Postgres, never truth.

    The collection of a space is named after its fingerprint, so vectors of two models never meet; the alias
    `project_knowledge` points at the one in use.
    """

    async def ensure(self, space: EmbeddingSpace, *, in_use: bool = True) -> None:
        """Create the collection of the space with its payload indexes, if absent; point the alias at one in use."""
        ...

    async def upsert(self, space: EmbeddingSpace, points: Sequence[Point]) -> None:
        """Write all points or raise; once it returns they survive a kill and are found. Refuses a bad batch whole."""
        ...

    async def search(
        self, space: EmbeddingSpace, dense: Vector, lexical: SparseVector, where: PointFilter, *, limit: int
    ) -> list[Hit]:
        """Return the union of the `limit` nearest points by each vector, both raw scores of each, in one round trip.

        Ordered by point id; the caller ranks.
        """
        ...

    async def nearest(
        self, space: EmbeddingSpace, dense: Sequence[Vector], where: PointFilter, *, limit: int, at_least: float
    ) -> list[list[PointId]]:
        """Return for each vector the `limit` points of the highest cosine that have at least that one, highest first.

        Many vectors take few round trips.
        """
        ...

    async def delete(self, space: EmbeddingSpace, point_ids: Sequence[PointId]) -> None:
        """Delete points; absent ids are no error, nor is a collection that is not there."""
        ...

    async def delete_expired(self, space: EmbeddingSpace, workspace: str, now: datetime) -> int:
        """Delete a workspace's points with `expires_at <= now`, by the payload index; return how many there were.

        A collection that is not there has none.
        """
        ...

    async def count(self, space: EmbeddingSpace, workspace: str) -> int:
        """Return the exact number of a workspace's points."""
        ...

    async def scan(
        self, space: EmbeddingSpace, workspace: str, *, after: PointId | None, limit: int
    ) -> list[tuple[PointId, Point | None]]:
        """Return up to `limit` points with ids above `after`, ascending by id, vectors included.

        A row that is no point of ours, whatever is wrong with it, comes as None.
        """
        ...

    async def ids(self, space: EmbeddingSpace, workspace: str, *, after: PointId | None, limit: int) -> list[PointId]:
        """Return up to `limit` ids of points above `after`, ascending, whatever is wrong with what they have."""
        ...

    async def drop(self, space: EmbeddingSpace) -> None:
        """Delete the collection of the space, if there is one."""
        ...

    async def recreate(self, space: EmbeddingSpace) -> None:
        """Drop the collection of the space in use and make it anew, empty."""
        await self.drop(space)
        await self.ensure(space)

    async def aclose(self) -> None:
        """Flush and let go of the index."""
        ...
