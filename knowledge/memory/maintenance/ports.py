"""Ports to the documents of a store, which shares its index with them; this package knows nothing more of them."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from hardwon.models.maintenance import IndexHealth, RecallSample
from knowledge.models import EmbeddingSpace, IndexDrift, RefillReport, Vector
from knowledge.ports import Embedder, Progress


class DocumentUpkeep(Protocol):
    """Upkeep of one workspace's documents: rebuilds, changes of model, imports."""

    async def tally(self, space: EmbeddingSpace) -> tuple[int, int]:
        """Return the number of points the index must hold, and of those without an embedding in a space."""

    async def verify(self, *, repair: bool = False) -> IndexDrift:
        """Compare the points of the space in use with Postgres; with `repair` correct the differences.

        A second repair writes nothing; concurrent work is not reported as a fault.
        """

    async def drop(self, space: EmbeddingSpace) -> None:
        """Drop the points of a space, of all workspaces, and recreate the empty collection."""

    async def refill(self, *, progress: Progress | None = None) -> RefillReport:
        """Write every missing point to the index in use, from stored embeddings where there are any."""

    async def backfill(
        self, space: EmbeddingSpace, embedder: Embedder, *, progress: Progress | None = None
    ) -> RefillReport:
        """Write every point to the index of another space, using its embedder; embeddings are stored."""

    async def sample_in_both(self, one: EmbeddingSpace, other: EmbeddingSpace, limit: int) -> tuple[Vector, Vector]:
        """Return vectors of up to `limit` texts in two spaces, (n, dims) each, in the same order."""

    async def recall(self, space: EmbeddingSpace, limit: int) -> list[RecallSample]:
        """Search for up to `limit` passages as questions do and exactly; return the recall by conditions."""

    async def health(self, space: EmbeddingSpace) -> IndexHealth:
        """Return the state of the collection of a space. Raises IndexUnavailable."""

    async def layout_differences(self, space: EmbeddingSpace) -> list[str]:
        """Return in which points the collection of a space is not laid out as the settings ask, in words."""

    async def is_built(self, space: EmbeddingSpace) -> bool:
        """Return whether the index has finished its work on the collection of a space; True where there is none."""

    async def note_switch(self, before: EmbeddingSpace, space: EmbeddingSpace) -> None:
        """Record that another, filled space is in use now."""

    async def leave(self, space: EmbeddingSpace) -> None:
        """Drop the points of an unused space, of all workspaces; embeddings stay."""

    async def forget(self, space: EmbeddingSpace) -> None:
        """Drop the points and embeddings of an unused space."""


class DocumentRecords(Protocol):
    """Records of one workspace's documents: questions, answers and feedback."""

    async def prune(self, before: datetime, *, limit: int) -> int:
        """Delete records older than `before`, at most `limit` of each kind; return their number."""
