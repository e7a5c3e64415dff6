"""Texts as points: in the index, in Postgres, and what is asked of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from knowledge.models.entries import Entry, EntryType
from knowledge.models.identities import PointId
from knowledge.models.spaces import SparseVector, Vector


class View(StrEnum):
    """Which text of an entry a point stands for: its situation, or the task description beside it."""

    SITUATION = "situation"
    TASK = "task"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What the vector index holds: an id, vectors and the fields that are filtered on. No words, no counts."""

    point_id: PointId
    dense: Vector
    lexical: SparseVector
    workspace: str
    entry_type: EntryType
    view: View
    agent_type: str | None
    task_type: str | None
    technology: str | None
    gate_type: str | None
    embedded_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Which points a search may return.

    `agent_type`, `task_type`, `technology` and `gate_type` let through points with that value and points without one;
    None asks nothing. `without` are points to leave out.
    """

    workspace: str
    live_at: datetime
    view: View | None = None
    entry_types: frozenset[EntryType] | None = None
    agent_type: str | None = None
    task_type: str | None = None
    technology: str | None = None
    gate_type: str | None = None
    without: frozenset[PointId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refilled:
    """How many points were put into the index, and how many texts had to be embedded for them."""

    points: int = 0
    embedded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """How the index and Postgres differ: of so many points some are missing, and others are of nothing."""

    points: int = 0
    missing: int = 0
    orphan: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A point a search found: cosine of the dense vectors, dot product of the lexical ones (0 if no term is shared)."""

    point_id: PointId
    cosine: float
    lexical: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPoint:
    """A point as Postgres has it, with the entry whose text it stands for.

    `vector` is None where none is kept in the space asked for. `settled`: an embedded entry stands behind it;
    `pending`: a staged one does, which a checkpoint may be embedding right now.
    """

    point_id: PointId
    view: View
    entry: Entry
    vector: Vector | None
    embedded_at: datetime
    expires_at: datetime
    settled: bool
    pending: bool


MAX_POINTS = 8
"""At most this many texts of one pattern stand in the index; further ones are evidence only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPoint:
    """A text of an entry and its vector, as a point of the pattern that the entry belongs to."""

    point_id: PointId
    view: View
    vector: Vector


def fitting(points: Iterable[TextPoint], there: set[PointId]) -> list[TextPoint]:
    """Return those that fit into a pattern beside the points that are there, which they are added to."""
    kept = []
    for point in points:
        if point.point_id in there or len(there) < MAX_POINTS:
            there.add(point.point_id)
            kept.append(point)
    return kept
