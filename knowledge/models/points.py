"""Embedded texts as points, in the vector index and in Postgres, and the filters and hits of a search."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hardwon.models.entries import Entry, EntryType
from hardwon.models.ids import PointId
from knowledge.models.spaces import SparseVector, Vector


class View(StrEnum):
    """The text of an entry that a point represents: its situation, or its task description."""

    SITUATION = "situation"
    TASK = "task"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A record of the vector index: id, vectors and the fields used in filters; no texts, no counts."""

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
class PointFilter:
    """Filter of a search.

    `agent_type`, `task_type`, `technology` and `gate_type` accept points with that value and points without any; None
    accepts all. `without` are points to exclude.
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
class RefillReport:
    """Number of points upserted into the index, and of texts that were embedded for them."""

    points: int = 0
    embedded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDrift:
    """Differences between the index and Postgres: of `points`, those missing in the index; orphans exist only there."""

    points: int = 0
    missing: int = 0
    orphan: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A point found by a search: cosine of the dense vectors, dot product of the sparse ones (0: no common term)."""

    point_id: PointId
    cosine: float
    lexical: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPoint:
    """A point as stored in Postgres, with the entry that its text comes from.

    `vector` is None where none is stored in the requested space. `settled`: it belongs to an embedded entry;
    `pending`: to a staged one, which a checkpoint may be embedding right now.
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
"""Texts of one pattern in the index at most; entries beyond that count only as evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPoint:
    """A text of an entry with its vector, as a point of the entry's pattern."""

    point_id: PointId
    view: View
    vector: Vector


def admit_points(points: Iterable[TextPoint], existing: set[PointId]) -> list[TextPoint]:
    """Return the points for which a pattern has room, up to MAX_POINTS, and add their ids to `existing`."""
    admitted = []
    for point in points:
        if point.point_id in existing or len(existing) < MAX_POINTS:
            existing.add(point.point_id)
            admitted.append(point)
    return admitted
