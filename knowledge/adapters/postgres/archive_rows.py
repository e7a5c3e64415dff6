"""The tables and columns of an archive, and the conditions under which this hardwon could not read a row again."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import sqlalchemy as sa
from pydantic import TypeAdapter
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from knowledge.adapters.postgres import tables
from knowledge.adapters.postgres.answer_tables import answer_feedback, escalations, qa_events
from knowledge.adapters.postgres.document_tables import (
    kb_chunks,
    kb_documents,
    kb_grants,
    kb_lines,
    kb_partitions,
    kb_scales,
    kb_sources,
    kb_vectors,
    kb_versions,
)
from knowledge.documents.journal import Priority
from knowledge.documents.models import DocumentStatus, DocumentType, PassageKind, Severity
from knowledge.models import (
    AppliesWhen,
    Calibration,
    CheckpointType,
    EmbeddingSpace,
    EntryStatus,
    EntryType,
    LinkKind,
    View,
)

_LEFT_OUT: Final[Mapping[str, frozenset[str]]] = {
    "entries": frozenset({"embedded", "error_signature", "lease_token", "lease_until"}),
    "points": frozenset({"look_at"}),
    "spaces": frozenset({"probes"}),
    "partitions": frozenset({"version"}),
    "documents": frozenset({"lease_token", "lease_until"}),
}
"""Columns that are derived or of a moment: a lease, a note for the index, measurements of an endpoint, cache versions."""

TABLES: Final[Mapping[str, sa.Table]] = {
    "workspaces": tables.workspaces,
    "spaces": tables.embedding_spaces,
    "projects": tables.projects,
    "patterns": tables.patterns,
    "match_keys": tables.match_keys,
    "links": tables.links,
    "entries": tables.knowledge_staging,
    "points": tables.points,
    "vectors": tables.vectors,
    "lexicon": tables.lexicon,
    "checkpoints": tables.checkpoints,
    "contexts": tables.contexts,
    "outcomes": tables.outcomes,
    "partitions": kb_partitions,
    "grants": kb_grants,
    "sources": kb_sources,
    "documents": kb_documents,
    "document_versions": kb_versions,
    "passages": kb_chunks,
    "log_lines": kb_lines,
    "passage_vectors": kb_vectors,
    "scales": kb_scales,
    "escalations": escalations,
    "qa_events": qa_events,
    "feedback": answer_feedback,
}
"""The parts of an archive; each comes after those that its rows refer to."""

STAYS: Final = frozenset(
    {
        "api_keys",
        "audit_log",
        "answer_cache",
        "distillations",
        "distilled_from",
        "job_run",
        "kb_terms",
        "spending",
    }
)
"""Tables that stay behind: keys, the audit log, what is derived, what is counted by the day."""

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    part: tuple(name for name in table.c.keys() if name not in _LEFT_OUT.get(part, ()))  # noqa: SIM118 - names
    for part, table in TABLES.items()
}

STAGED: Final[Mapping[str, sa.Table]] = {
    part: sa.Table(
        f"archive_{part}",
        sa.MetaData(),
        *(sa.Column(name, table.c[name].type) for name in COLUMNS[part]),
        prefixes=["TEMPORARY"],
        postgresql_on_commit="DROP",
    )
    for part, table in TABLES.items()
}
"""Temporary tables that an archive is copied into: they have the types of the columns and no constraints."""


async def add(connection: AsyncConnection, part: str, names: Sequence[str], *conditions: sa.ColumnElement[bool]) -> int:
    """Insert the rows of a part that are not here and meet these conditions; return how many."""
    query = sa.select(*(STAGED[part].c[name] for name in names)).where(*conditions)
    new = insert(TABLES[part]).from_select(list(names), query)
    return (await connection.execute(new.on_conflict_do_nothing())).rowcount


_CLOSED: Final[Mapping[tuple[str, str], Iterable[str]]] = {
    ("entries", "entry_type"): EntryType,
    ("entries", "status"): EntryStatus,
    ("patterns", "entry_type"): EntryType,
    ("points", "view"): View,
    ("links", "kind"): LinkKind,
    ("checkpoints", "checkpoint_type"): CheckpointType,
    ("documents", "status"): frozenset(DocumentStatus) - {DocumentStatus.DELETING},
    ("document_versions", "document_type"): DocumentType,
    ("passages", "kind"): frozenset({PassageKind.CHUNK, PassageKind.SUMMARY}),
    ("passages", "severities"): Severity,
    ("log_lines", "severity"): Severity,
    ("escalations", "priority"): Priority,
}
"""Columns that hold one of a few words."""

_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
_OF_LOGS: Final = frozenset({"ts", "until"})
"""Moments as logs have them, which may be infinite."""
_HALVES: Final = "^(..([0-689a-e].|[7f][0-9ab]))+$"
"""A vector of finite float16 in hexadecimal, the lower byte first: not all bits of an exponent are set."""

_SPACE: Final = TypeAdapter(EmbeddingSpace)
_CALIBRATION: Final = TypeAdapter(Calibration)


def unreadable(part: str) -> sa.ColumnElement[bool]:
    """Return the condition that a row of an archive is not one: once stored, it could not be read again."""
    staged, table = STAGED[part], TABLES[part]
    found = [condition for column in staged.c for condition in _misfits(part, column, table.c[column.name])]
    match part:
        case "entries":
            found.append(_not_texts(staged.c.applies_when, "|".join(field.name for field in fields(AppliesWhen))))
        case "vectors" | "passage_vectors":
            found.append(_not_a_vector(staged))
        case "documents":
            found += _impossible_generations(staged)
    return sa.or_(*found)


def _misfits(part: str, column: sa.Column[Any], declared: sa.Column[Any]) -> list[sa.ColumnElement[bool]]:
    """Return the conditions under which a value does not fit its column, beyond its type."""
    found: list[sa.ColumnElement[bool]] = [] if declared.nullable else [column.is_(None)]
    words = _CLOSED.get((part, column.name))
    if isinstance(column.type, sa.ARRAY):
        found += [sa.func.array_position(column, None).is_not(None), sa.func.array_ndims(column) > 1]
        if words is not None:
            found.append(~column.op("<@", is_comparison=True)(sa.cast(list(words), sa.ARRAY(sa.Text))))
    elif words is not None:
        found.append(column.not_in(list(words)))
    elif isinstance(column.type, sa.Float):
        found.append(column.in_([math.nan, math.inf, -math.inf]))
    elif isinstance(column.type, sa.DateTime) and column.name not in _OF_LOGS:
        found.append(~column.between(_FIRST, _LAST))
    return found


def _not_texts(column: sa.Column[Any], names: str) -> sa.ColumnElement[bool]:
    """Return the condition that a JSON value is not an object of texts with names of a regular expression."""
    as_object = sa.case((sa.func.jsonb_typeof(column) == "object", column), else_=sa.cast({}, JSONB))
    each = sa.func.jsonb_each(as_object).table_valued(sa.column("key", sa.Text), sa.column("value", JSONB))
    wrong = sa.or_(each.c.key.regexp_match(f"^({names})$").is_(False), sa.func.jsonb_typeof(each.c.value) != "string")
    return sa.or_(sa.func.jsonb_typeof(column) != "object", sa.exists(sa.select(1).select_from(each).where(wrong)))


def _not_a_vector(staged: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition that a vector is not finite, or of another length than the vectors of its space."""
    spaces = STAGED["spaces"]
    dims = spaces.c.space["dims"].as_integer()
    other = spaces.c.fingerprint == staged.c.space, sa.func.octet_length(staged.c.vector) != 2 * dims
    halves = sa.func.encode(staged.c.vector, "hex").regexp_match(_HALVES)
    return sa.or_(halves.is_(False), sa.exists().where(*other))


def _impossible_generations(staged: sa.Table) -> list[sa.ColumnElement[bool]]:
    latest, active = staged.c.latest, staged.c.active_generation
    return [
        _not_texts(staged.c.text_hashes, "[0-9]+"),
        latest < 1,
        ~active.between(1, latest),
        sa.and_(staged.c.status == DocumentStatus.INDEXED.value, active.is_distinct_from(latest)),
        sa.and_(staged.c.status == DocumentStatus.FAILED.value, staged.c.error.is_(None)),
    ]


def read_space(row: sa.RowMapping) -> EmbeddingSpace:
    """Return the embedding space of a row. Raises ValueError for one that is none."""
    space = _SPACE.validate_json(json.dumps(row["space"]), strict=True)
    calibration = _CALIBRATION.validate_json(json.dumps(row["calibration"]), strict=True)
    known = ({field.name for field in fields(kind)} for kind in (EmbeddingSpace, Calibration))
    if any(set(row[name]) - names for name, names in zip(("space", "calibration"), known, strict=True)):
        raise ValueError("more than a space has")
    marks = (calibration.unrelated, calibration.right_90, calibration.right_85, calibration.same)
    if space.fingerprint != row["fingerprint"] or space.dims < 1 or row["mean_terms"] <= 0:
        raise ValueError("no space")
    ascending = all(low <= high for low, high in pairwise(marks)) and calibration.unrelated < calibration.same
    if not ascending or not all(map(math.isfinite, marks)):
        raise ValueError("no calibration")
    return space
