"""The vector index."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from hardwon.models.maintenance import IndexHealth
from knowledge.models import EmbeddingSpace, Hit, Point, PointFilter, PointId, SparseVector, Vector


class VectorIndex(Protocol):
    """Points of an embedding space: dense and lexical vectors with filter fields. Derived from Postgres, never truth.

    The collection of a space is named after its fingerprint, so vectors of two models never meet; the alias
    `project_knowledge` points at the one in use.
    """

    async def ensure(self, space: EmbeddingSpace, *, in_use: bool = True) -> None:
        """Create the collection of the space with its payload indexes, if absent; point the alias at one in use."""

    async def upsert(self, space: EmbeddingSpace, points: Sequence[Point]) -> None:
        """Write all points or raise; on return they survive a kill and are found. A bad point rejects the batch."""

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
        """Return the union of the `limit` nearest points by each vector, with both raw scores, in few round trips.

        Ordered by point id; the caller ranks. Without a dense vector those by words alone, with a cosine of 0. `exact`:
        compare with every point (True) or by the graph as it is (False), where an index has one; by default by a graph
        once that is built.
        """

    async def nearest(
        self, space: EmbeddingSpace, dense: Sequence[Vector], where: PointFilter, *, limit: int, at_least: float
    ) -> list[list[PointId]]:
        """Return for each vector the `limit` points of the highest cosine, `at_least` or more, highest first.

        Many vectors take few round trips.
        """

    async def delete(self, space: EmbeddingSpace, point_ids: Sequence[PointId]) -> None:
        """Delete points; absent ids and an absent collection are not errors."""

    async def delete_expired(self, space: EmbeddingSpace, workspace: str, now: datetime) -> int:
        """Delete a workspace's points with `expires_at <= now`, by the payload index; return how many there were.

        An absent collection has none.
        """

    async def count(self, space: EmbeddingSpace, workspace: str) -> int:
        """Return the exact number of a workspace's points."""

    async def scan(
        self, space: EmbeddingSpace, workspace: str, *, after: PointId | None, limit: int
    ) -> list[tuple[PointId, Point | None]]:
        """Return up to `limit` points with ids above `after`, ascending by id, vectors included.

        A row that is not a valid point of hardwon comes as None.
        """

    async def ids(self, space: EmbeddingSpace, workspace: str, *, after: PointId | None, limit: int) -> list[PointId]:
        """Return up to `limit` ids of points above `after`, ascending, valid or not."""

    async def expiries(
        self, space: EmbeddingSpace, workspace: str, *, after: PointId | None, limit: int
    ) -> dict[PointId, datetime | None]:
        """Return the expiries of up to `limit` points above `after`, ascending by id; None where one is not valid."""

    async def drop(self, space: EmbeddingSpace) -> None:
        """Delete the collection of the space, if there is one."""

    async def recreate(self, space: EmbeddingSpace) -> None:
        """Drop the collection of the space in use and create it empty."""
        await self.drop(space)
        await self.ensure(space)

    async def wait_until_consistent(self) -> None:
        """Wait until nodes that were away have what they missed; nothing missing may be called lost before."""

    async def layout_differences(self, space: EmbeddingSpace) -> list[str]:
        """Return in which points the collection is not laid out as the settings ask, in words; none if it is absent."""
        del space
        return []

    async def is_built(self, space: EmbeddingSpace) -> bool:
        """Return whether the index has finished its work on the collection, such as building a graph."""
        del space
        return True

    async def health(self, space: EmbeddingSpace) -> IndexHealth:
        """Return the state of the index and of the collection of a space. Raises IndexUnavailable."""

    async def aclose(self) -> None:
        """Flush and close the index."""
