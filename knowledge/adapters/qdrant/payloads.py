"""Names, payloads, checks and filters shared by both Qdrant adapters. Independent of the engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite
from operator import lt
from typing import Any, Final
from uuid import UUID

import numpy as np

from hardwon.errors import InvalidInput
from hardwon.validation import check_unicode
from knowledge.models import EmbeddingSpace, EntryType, Point, PointFilter, PointId, SparseVector, Vector, View

ALIAS: Final = "project_knowledge"
"""The alias of the collection in use."""

DENSE: Final = "dense"
LEXICAL: Final = "lexical"

TENANT: Final = "workspace"
EXPIRES_AT: Final = "expires_at"
KEYWORDS: Final = ("entry_type", "view", "agent_type", "task_type", "technology", "gate_type")
TIMES: Final = ("embedded_at", EXPIRES_AT)

_FINGERPRINT = re.compile(r"[A-Za-z0-9_-]{1,128}")
_LARGEST_WEIGHT = float(np.finfo(np.float32).max)
_LARGEST_ID = (1 << 128) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """The owner of collections on a server that others may use as well.

    `store` is the identifier of the database that they are derived from, None if nobody else uses the server; `prefix`
    begins their names.
    """

    store: str | None = None
    prefix: str = ""


SOLE_USER: Final = Ownership()


def collection_name(space: EmbeddingSpace) -> str:
    """Return the name of a space's collection: a directory and a part of a URL, so unsafe fingerprints are rejected."""
    if not _FINGERPRINT.fullmatch(space.fingerprint):
        raise InvalidInput("fingerprint", "an embedding space needs one of 1 to 128 letters, digits, '-' or '_'")
    return f"hardwon_{space.collection}"


def format_time(when: datetime, field: str) -> str:
    """Return a time as RFC 3339 in UTC with microseconds, the finest resolution that the engines compare."""
    if when.tzinfo is None:
        raise InvalidInput(field, "give a time with its zone")
    return _format_time(when)


@lru_cache(maxsize=1024)
def _format_time(when: datetime) -> str:
    """Format a time; cached, because a batch is checked before it is converted, and may have the same two times."""
    return when.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def read_point(point_id: PointId, fields: Mapping[str, object] | None, vectors: object) -> Point | None:
    """Convert an engine's record to a point, or None if it is not a valid one: it must not stop a scan.

    `vectors`: by name, as in both engines' clients.
    """
    by_name: Mapping[str, Any] = vectors if isinstance(vectors, dict) else {}
    dense, sparse = by_name.get(DENSE), by_name.get(LEXICAL)
    if dense is None or fields is None:
        return None
    weights = sorted(zip(sparse.indices, sparse.values, strict=True)) if sparse is not None else []
    try:
        words = {key: str(fields[key]) for key in (TENANT, *KEYWORDS) if key in fields}
        moments = {key: datetime.fromisoformat(str(fields[key])).astimezone(UTC) for key in TIMES}
        return Point(
            point_id=point_id,
            dense=np.asarray(dense, dtype=np.float32),
            lexical=SparseVector(indices=tuple(i for i, _ in weights), values=tuple(v for _, v in weights)),
            workspace=words[TENANT],
            entry_type=EntryType(words["entry_type"]),
            view=View(words["view"]),
            agent_type=words.get("agent_type"),
            task_type=words.get("task_type"),
            technology=words.get("technology"),
            gate_type=words.get("gate_type"),
            embedded_at=moments["embedded_at"],
            expires_at=moments[EXPIRES_AT],
        )
    except (KeyError, ValueError, OverflowError):
        return None


def read_expiry(fields: Mapping[str, object] | None) -> datetime | None:
    """Return the expiry of a record, or None if it has no valid one."""
    try:
        return datetime.fromisoformat(str((fields or {})[EXPIRES_AT])).astimezone(UTC)
    except (KeyError, ValueError, OverflowError):
        return None


def payload(point: Point) -> dict[str, str]:
    """Return the filter fields of a point. Absent ones are left out, so that "is empty" finds them. No booleans.

    (The embedded engine turns a boolean match into an integer one that matches nothing.)
    """
    words: dict[str, str | None] = {
        TENANT: point.workspace,
        "entry_type": point.entry_type.value,
        "view": point.view.value,
        "agent_type": point.agent_type,
        "task_type": point.task_type,
        "technology": point.technology,
        "gate_type": point.gate_type,
        "embedded_at": format_time(point.embedded_at, "embedded_at"),
        EXPIRES_AT: format_time(point.expires_at, EXPIRES_AT),
    }
    return {key: word for key, word in words.items() if word is not None}


def check_batch(space: EmbeddingSpace, points: Sequence[Point], first: int = 0) -> None:
    """Raise InvalidInput, naming the point, if any of a batch cannot be stored; `first` is the batch's offset.

    Called before the first write: an engine logs a write before it validates it, so a rejected one may be replayed.
    """
    for position, point in enumerate(points, first):
        name = f"points[{position}]"
        if not isinstance(point.point_id, UUID):
            raise InvalidInput(f"{name}.point_id", "a point's id is a UUID")
        check_dense(space, point.dense, f"{name}.dense")
        check_lexical(point.lexical, f"{name}.lexical")
        format_time(point.embedded_at, f"{name}.embedded_at")
        format_time(point.expires_at, f"{name}.{EXPIRES_AT}")
        for key, word in payload(point).items():
            if not word:
                raise InvalidInput(f"{name}.{key}", "leave it out instead of giving an empty text")
            check_unicode(f"{name}.{key}", word)


def check_dense(space: EmbeddingSpace, vector: Vector, field: str) -> None:
    """Raise InvalidInput unless the vector has the space's dimensions, finite numbers and a length."""
    if vector.shape != (space.dims,):
        raise InvalidInput(field, f"this embedding space has {space.dims} dimensions, the vector has {vector.shape}")
    length = float(np.linalg.norm(vector.astype(np.float64)))
    # Vectors come normalised; a length far off is a broken embedding, and the cosine of a zero vector is undefined.
    # Written so that NaN and infinity fail it too.
    if not 1e-6 < length < 1e6:
        raise InvalidInput(field, f"an embedding needs finite numbers and a length near 1, this one has {length}")


def check_lexical(vector: SparseVector, field: str) -> None:
    """Raise InvalidInput unless term ids are distinct, ascending, unsigned 32 bit, each with a finite weight."""
    if len(vector.indices) != len(vector.values):
        raise InvalidInput(field, f"{len(vector.indices)} term ids do not go with {len(vector.values)} weights")
    indices, values = vector.indices, vector.values
    if not indices:
        return
    if indices[0] < 0 or indices[-1] >= 1 << 32 or not all(map(lt, indices, indices[1:])):
        raise InvalidInput(field, "term ids must ascend, be distinct and fit 32 bits")
    # the sum is NaN if any weight is, and a comparison with NaN is false
    if not (min(values) >= -_LARGEST_WEIGHT and max(values) <= _LARGEST_WEIGHT and isfinite(sum(values))):
        raise InvalidInput(field, "term weights must be finite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """A `PointFilter` as conditions on payload fields: `one_of` values are required, `same_or_absent` may be missing.

    The latter match in every usual spelling, because ranking ignores the case of a field: Python, python.

    A workspace is always included; each adapter adds it to every request, in one place.
    """

    workspace: str
    one_of: tuple[tuple[str, tuple[str, ...]], ...]
    same_or_absent: tuple[tuple[str, tuple[str, ...]], ...]
    live_at: datetime
    without: frozenset[PointId]

    @property
    def impossible(self) -> bool:
        """True if no point can match, because a field allows no value."""
        return any(not values for _, values in self.one_of)


def conditions(where: PointFilter) -> Conditions:
    """Return the payload conditions of a search. Unset fields are left out."""
    one_of: list[tuple[str, tuple[str, ...]]] = []
    if where.view is not None:
        one_of.append(("view", (where.view.value,)))
    if where.entry_types is not None:
        one_of.append(("entry_type", tuple(sorted(kind.value for kind in where.entry_types))))
    optional = {
        "agent_type": where.agent_type,
        "task_type": where.task_type,
        "technology": where.technology,
        "gate_type": where.gate_type,
    }
    for field, value in (*optional.items(), (TENANT, where.workspace)):
        if value is not None:
            check_unicode(field, value)
    format_time(where.live_at, "live_at")
    return Conditions(
        workspace=where.workspace,
        one_of=tuple(one_of),
        same_or_absent=tuple((field, _spellings(value)) for field, value in optional.items() if value is not None),
        live_at=where.live_at,
        without=where.without,
    )


def _spellings(word: str) -> tuple[str, ...]:
    """Return a word in its usual spellings: payloads hold it as it was captured, and are compared exactly."""
    return tuple(dict.fromkeys((word, word.lower(), word.upper(), word.capitalize(), word.title())))


def id_after(point_id: PointId) -> UUID | None:
    """Return the next possible id, from which a page after this one starts; None after the last."""
    return None if point_id.int == _LARGEST_ID else UUID(int=point_id.int + 1)
