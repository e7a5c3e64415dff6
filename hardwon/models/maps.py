"""The map of patterns: places in two dimensions, in which patterns that mean something alike lie together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from hardwon.models.entries import EntryType
from hardwon.models.ids import PatternId


@dataclass(frozen=True, slots=True, kw_only=True)
class MapGroup:
    """Patterns that lie together, named by the words that set them apart. `x`, `y`: their middle."""

    number: int
    terms: tuple[str, ...]
    patterns: int
    success_count: int
    attempt_count: int
    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MapMark:
    """A pattern on the map. `x`, `y`: from 0 to 1, from the left and from the top; `problem`: how it begins."""

    pattern_id: PatternId
    entry_type: EntryType
    problem: str
    group: int
    x: float
    y: float
    success_count: int
    attempt_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternMap:
    """The map of a workspace; `made_at`: None if there is none for the embedding model in use.

    `marks`: those with the most successes, of one group or all; `total`: the number of patterns that have a place.
    """

    made_at: datetime | None = None
    total: int = 0
    groups: tuple[MapGroup, ...] = ()
    marks: tuple[MapMark, ...] = ()
