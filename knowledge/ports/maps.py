"""The map of patterns of one workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hardwon.models.maps import MapGroup, MapMark
from knowledge.models import EmbeddingSpace, PatternId, Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeMap:
    """Origin of a map: the fingerprint of the space, and the state of the points then; and the names of its groups."""

    space: str
    state: str
    made_at: datetime
    terms: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The place of a pattern and its group."""

    pattern_id: PatternId
    x: float
    y: float
    group: int


class MapStore(Protocol):
    """The map of one workspace. Places go with their patterns."""

    async def state(self, space: EmbeddingSpace, now: datetime) -> str | None:
        """Return a text that changes with the live points of a space, None if there are none."""
        ...

    async def vectors(self, space: EmbeddingSpace, now: datetime, *, limit: int) -> Mapping[PatternId, Vector]:
        """Return the mean vector of the live points of each pattern, of up to `limit` with the most successes."""
        ...

    async def texts(self, pattern_ids: Sequence[PatternId]) -> Mapping[PatternId, str]:
        """Return how the problem and the solution of each pattern begin, by its most trusted entry."""
        ...

    async def replace(self, made: MadeMap, places: Sequence[Placed]) -> None:
        """Replace the map, in one transaction; patterns that are gone by now are left out."""
        ...

    async def find(self) -> MadeMap | None:
        """Return what the map was made from, None if there is none."""
        ...

    async def groups(self, terms: Sequence[Sequence[str]]) -> list[MapGroup]:
        """Return the groups that have patterns, the largest first when they were made; each with its terms."""
        ...

    async def marks(self, group: int | None, *, limit: int, now: datetime) -> list[MapMark]:
        """Return the live patterns that have a place, of one group or all, the most successes first."""
        ...
