"""Embedding spaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from knowledge.models import BoundSpace, Calibration, EmbeddingSpace, Entry, TermStatistics, Vector


class SpaceStore(Protocol):
    """The embedding spaces of a store, and how common terms are in one workspace."""

    async def bound(self) -> BoundSpace | None:
        """Return the space in use, if one is bound."""
        ...

    async def bind(self, space: EmbeddingSpace, *, mean_terms: float, calibration: Calibration) -> BoundSpace:
        """Bind a space, once, whoever comes first. Raises SpaceMismatch if another one already has vectors."""
        ...

    async def recalibrate(self, space: EmbeddingSpace, calibration: Calibration) -> None:
        """Replace the calibration of a space."""
        ...

    async def probes(self, space: EmbeddingSpace) -> Vector | None:
        """Return what a space's model made of its probe texts (n, dims), None where that was not kept."""
        ...

    async def keep_probes(self, space: EmbeddingSpace, vectors: Vector) -> bool:
        """Keep what a space's model made of its probe texts, float32 (n, dims), unless that is kept already.

        Return False, and keep nothing, where the space is not written down.
        """
        ...

    async def local_only(self) -> bool:
        """Return whether no text of this workspace may go to an endpoint."""
        ...

    async def keep_local(self, *, on: bool) -> None:
        """Say whether no text of this workspace may go to an endpoint."""
        ...

    async def statistics(self, terms: Sequence[int]) -> TermStatistics:
        """Return how common these terms are in this workspace."""
        ...

    async def known(self) -> list[EmbeddingSpace]:
        """Return every space written down: the one in use first, then those there may be a collection of."""
        ...

    async def sample_situations(self, space: EmbeddingSpace, limit: int) -> tuple[list[Entry], Vector]:
        """Return up to `limit` entries of this workspace, spread over all, with their situations' vectors (n, dims)."""
        ...

    async def sample_in_both(self, one: EmbeddingSpace, other: EmbeddingSpace, limit: int) -> tuple[Vector, Vector]:
        """Return up to `limit` vectors of this workspace's situations in two spaces, (n, dims) each, row by row alike.

        They are spread over all that have one in both.
        """
        ...
