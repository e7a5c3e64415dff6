"""The columns of each part of an archive, and its rows as the values of their columns.

A row is taken only for what this hardwon can read again: what it would stumble over once it is stored is refused.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from itertools import pairwise
from typing import Annotated, Any, Final
from uuid import UUID

import sqlalchemy as sa
from pydantic import Field, TypeAdapter
from sqlalchemy.dialects.postgresql import JSONB

from knowledge.adapters.postgres import tables
from knowledge.adapters.postgres.answer_tables import escalations
from knowledge.adapters.postgres.document_archive import DOCUMENTS
from knowledge.adapters.postgres.document_rows import C, D, V
from knowledge.adapters.postgres.document_tables import kb_lines, kb_vectors
from knowledge.documents.journal import Priority
from knowledge.documents.models import DocumentStatus, DocumentType, PassageKind, Severity
from knowledge.errors import InvalidInput
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

Rows = Sequence[Mapping[str, Any]]

_ENTRY = (
    "id workspace project_id entry_type agent_type task_type technology task_description failure_description"
    " error_message solution_steps gate_type proposal human_feedback revision_approach approved_approach when_to_try"
    " applies_when success_verified verified_by task_id run_id idempotency_key"
    " captured_by resolved_by agent_key low_trust suspicions"
    " content_hash timestamp status attempts dead_reason"
    " pattern_id point_ids embedded_at expires_at"
)
_PATTERN = "id workspace entry_type match_key founding_entry_id success_count attempt_count project_count founded_at"
FORMAT: Mapping[str, tuple[sa.Table, tuple[str, ...]]] = {
    **{
        part: (table, tuple(columns.split()))
        for part, table, columns in (
            ("workspaces", tables.workspaces, "workspace local_only"),
            ("spaces", tables.embedding_spaces, "fingerprint space mean_terms calibration active bound_at"),
            ("projects", tables.projects, "workspace project_id created_at"),
            (
                "patterns",
                tables.patterns,
                _PATTERN,
            ),
            ("match_keys", tables.match_keys, "workspace match_key pattern_id why ruled decided_at"),
            ("links", tables.links, "lower_id upper_id workspace kind probability why found_at"),
            ("entries", tables.knowledge_staging, _ENTRY),
            ("points", tables.points, "id workspace pattern_id view embedded_at expires_at counted"),
            ("vectors", tables.vectors, "point_id space vector"),
            ("lexicon", tables.lexicon, "workspace term documents"),
            (
                "checkpoints",
                tables.checkpoints,
                "id workspace project_id checkpoint_type started_at finished_at report",
            ),
            (
                "contexts",
                tables.contexts,
                "id workspace project_id task_id run_id agent_type pattern_ids entry_ids created_at",
            ),
            (
                "outcomes",
                tables.outcomes,
                "id workspace context_id pattern_id project_id task_id run_id worked recorded_at recorded_by low_trust",
            ),
        )
    },
    **DOCUMENTS,
}
"""The columns of each part: those of the format version, spelt out, so that a new column never changes it unseen.

A lease is left out: what is leased here is staged there.
"""

_LATER: Mapping[str, Any] = {
    "applies_when": None,
    "captured_by": None,
    "resolved_by": None,
    "agent_key": None,
    "recorded_by": None,
    "low_trust": False,
    "suspicions": (),
    "entry_ids": (),
    "text_hashes": {},
}
"""Rows of older archives lack them: what is taken instead, as nothing was told there."""

_CONDITIONS = frozenset(field.name for field in fields(AppliesWhen))
_E = tables.knowledge_staging.c
_CLOSED: Final[Mapping[sa.Column[Any], Collection[str]]] = {
    _E.entry_type: frozenset(EntryType),
    _E.status: frozenset(EntryStatus),
    tables.patterns.c.entry_type: frozenset(EntryType),
    tables.points.c.view: frozenset(View),
    tables.links.c.kind: frozenset(LinkKind),
    tables.checkpoints.c.checkpoint_type: frozenset(CheckpointType),
    D.status: frozenset(DocumentStatus) - {DocumentStatus.DELETING},
    V.document_type: frozenset(DocumentType),
    C.kind: frozenset({PassageKind.CHUNK, PassageKind.SUMMARY}),
    C.severities: frozenset(Severity),
    kb_lines.c.severity: frozenset(Severity),
    escalations.c.priority: frozenset(Priority),
}
"""Columns that hold one of a few words."""

_VECTORS: Final = frozenset({tables.vectors.c.vector, kb_vectors.c.vector})
_NOT_FINITE: Final = frozenset(byte for byte in range(256) if byte & 0x7C == 0x7C)
"""The higher byte of a float16 that is none, or infinite: all bits of its exponent are set."""

_KINDS: Final[tuple[tuple[type[sa.types.TypeEngine[Any]], type | tuple[type, ...]], ...]] = (
    (sa.Boolean, bool),
    (sa.Float, (int, float)),
    (sa.Integer, int),
    (sa.String, str),
)
_SPACE = TypeAdapter(EmbeddingSpace)
_CALIBRATION = TypeAdapter(Calibration)
_HASHES = TypeAdapter(dict[Annotated[str, Field(pattern=r"^[0-9]+$")], str])


def values(part: str, rows: Rows) -> list[dict[str, Any]]:
    """Return rows of an archive as the values of their columns. Raises InvalidInput (field `archive`)."""
    table, names = FORMAT[part]
    try:
        told = [
            {name: _value(table.c[name], row.get(name, _LATER.get(name))) for name in _exactly(names, row)}
            for row in rows
        ]
        for row in told:
            _check_row(part, row)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidInput("archive", f"holds {part} that are none: export it again") from error
    return told


def _exactly(names: tuple[str, ...], row: Mapping[str, Any]) -> Iterable[str]:
    if set(names) - set(row) - _LATER.keys() or set(row) - set(names):
        raise ValueError("other columns")
    return names


def _value(column: sa.Column[Any], told: Any) -> Any:
    if told is None:
        if not column.nullable:
            raise ValueError(f"no {column.name}")
        return None
    kind = column.type
    closed = _CLOSED.get(column)
    if isinstance(kind, sa.ARRAY):
        return [_among(closed, _one(kind.item_type, each)) for each in told]
    if column in _VECTORS:
        return _vector(told)
    return _conditions(told) if column is _E.applies_when else _among(closed, _one(kind, told))


def _one(kind: sa.types.TypeEngine[Any], told: Any) -> Any:
    """Return a value of JSON as one of a type."""
    if isinstance(kind, sa.UUID):
        return UUID(told)
    if isinstance(kind, sa.DateTime):
        moment = datetime.fromisoformat(told)
        if moment.tzinfo is None:
            raise ValueError("a time without a zone")
        return moment
    if isinstance(kind, sa.LargeBinary):
        return b64decode(told, validate=True)
    if not isinstance(kind, JSONB):
        _check_kind(kind, told)
    return told


def _check_kind(kind: sa.types.TypeEngine[Any], told: Any) -> None:
    wanted = next(kinds for each, kinds in _KINDS if isinstance(kind, each))
    if not isinstance(told, wanted) or (isinstance(told, bool) and wanted is not bool):
        raise TypeError(f"a {type(told).__name__}")
    if isinstance(told, float) and not math.isfinite(told):
        raise ValueError("no number")
    if isinstance(told, str) and "\0" in told:
        raise ValueError("no text")


def _among(closed: Collection[str] | None, told: Any) -> Any:
    if closed is not None and told not in closed:
        raise ValueError("none of its words")
    return told


def _vector(told: str) -> bytes:
    vector = b64decode(told, validate=True)
    if not vector or len(vector) % 2 or not _NOT_FINITE.isdisjoint(vector[1::2]):
        raise ValueError("no vector")
    return vector


def _conditions(told: Mapping[str, Any]) -> dict[str, str]:
    """Return the conditions of an entry, whatever they say: what cannot be evaluated stands against nothing."""
    if not _CONDITIONS.issuperset(told) or not all(isinstance(each, str) for each in told.values()):
        raise ValueError("no conditions")
    return dict(told)


def _check_row(part: str, row: Mapping[str, Any]) -> None:
    match part:
        case "spaces":
            _check_space(row)
        case "documents":
            _check_document(row)


def _check_space(row: Mapping[str, Any]) -> None:
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


def _check_document(row: Mapping[str, Any]) -> None:
    _HASHES.validate_python(row["text_hashes"], strict=True)
    latest, active = row["latest"], row["active_generation"]
    if latest < 1 or (active is not None and not 0 < active <= latest):
        raise ValueError("no such generation")
    if row["status"] == DocumentStatus.INDEXED and active != latest:
        raise ValueError("shown, but not its latest generation")
    if row["status"] == DocumentStatus.FAILED and row["error"] is None:
        raise ValueError("failed without a reason")
