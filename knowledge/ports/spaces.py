"""Embedding spaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from knowledge.models import BoundSpace, Calibration, EmbeddingSpace, Entry, TermStatistics, Vector


class SpaceStore(Protocol):
    """The embedding spaces of a store, and the term statistics of one workspace."""

    async def bound(self) -> BoundSpace | None:
        """Return the space in use, None if none is bound."""

    async def bind(self, space: EmbeddingSpace, *, mean_terms: float, calibration: Calibration) -> BoundSpace:
        """Bind a space once, by whoever comes first. Raises SpaceMismatch if another one has vectors already."""

    async def recalibrate(self, space: EmbeddingSpace, calibration: Calibration) -> None:
        """Replace the calibration of a space."""

    async def probes(self, space: EmbeddingSpace) -> Vector | None:
        """Return the vectors of a space's probe texts (n, dims), None if they were not stored."""

    async def keep_probes(self, space: EmbeddingSpace, vectors: Vector) -> bool:
        """Store the vectors of a space's probe texts, float32 (n, dims), unless they are stored already.

        Returns False, and stores nothing, if the space is not recorded.
        """

    async def local_only(self) -> bool:
        """Return whether no text of this workspace may be sent to an endpoint."""

    async def keep_local(self, *, on: bool) -> None:
        """Set whether no text of this workspace may be sent to an endpoint."""

    async def statistics(self, terms: Sequence[int]) -> TermStatistics:
        """Return the statistics of these terms in this workspace."""

    async def list_spaces(self) -> list[EmbeddingSpace]:
        """Return every recorded space: the one in use first, then those that may have a collection."""

    async def sample_situations(self, space: EmbeddingSpace, limit: int) -> tuple[list[Entry], Vector]:
        """Return up to `limit` entries of this workspace, spread evenly, with their situations' vectors (n, dims)."""

    async def sample_in_both(self, one: EmbeddingSpace, other: EmbeddingSpace, limit: int) -> tuple[Vector, Vector]:
        """Return up to `limit` situation vectors of this workspace in two spaces, (n, dims) each, row by row the same.

        They are spread evenly over all that have a vector in both.
        """
