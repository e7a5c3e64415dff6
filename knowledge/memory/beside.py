"""What else a store has in its index, beside what was learned: documents, of which this package knows nothing more."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from knowledge.models import Differing, EmbeddingSpace, Refilled, Vector
from knowledge.ports import Embedder, Progress


class Beside(Protocol):
    """The documents of one workspace, where a whole store is rebuilt, changes its model or came out of an archive."""

    async def tally(self, space: EmbeddingSpace) -> tuple[int, int]:
        """Return how many points the index is to hold, and how many of them have no embedding in a space."""
        ...

    async def verify(self, *, repair: bool = False) -> Differing:
        """Compare the points of the space in use with Postgres; with `repair` put right what differs.

        A second repair writes nothing, and work that goes on meanwhile is no fault.
        """
        ...

    async def drop(self, space: EmbeddingSpace) -> None:
        """Drop the points of a space, those of all workspaces, and make room for them anew."""
        ...

    async def refill(self, *, progress: Progress | None = None) -> Refilled:
        """Put every point that lacks into the index in use, from kept embeddings where there are any."""
        ...

    async def backfill(
        self, space: EmbeddingSpace, embedder: Embedder, *, progress: Progress | None = None
    ) -> Refilled:
        """Put every point into the index of another space, embedded by its embedder; what was embedded is kept."""
        ...

    async def sample_in_both(self, one: EmbeddingSpace, other: EmbeddingSpace, limit: int) -> tuple[Vector, Vector]:
        """Return vectors of up to `limit` of their texts in two spaces, (n, dims) each, row by row alike."""
        ...

    async def note_switch(self, before: EmbeddingSpace, space: EmbeddingSpace) -> None:
        """Take note that another space is in use now, and was filled."""
        ...

    async def leave(self, space: EmbeddingSpace) -> None:
        """Drop the points of a space that is not in use, those of all workspaces; embeddings stay."""
        ...

    async def forget(self, space: EmbeddingSpace) -> None:
        """Drop what there is of a space that is not in use."""
        ...


class ToldBeside(Protocol):
    """What was told of documents in one workspace: questions, what came of them, what was thought of it."""

    async def prune(self, before: datetime, *, limit: int) -> int:
        """Delete what was told before a moment, so many of each kind at most; return how many."""
        ...
