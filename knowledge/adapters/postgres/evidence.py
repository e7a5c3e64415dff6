"""Live patterns in Postgres, each with its texts and a summary of its evidence: queries and conversion."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import fields
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID as UUID_TYPE
from sqlalchemy.ext.asyncio import AsyncConnection

from knowledge.adapters.postgres.counting import EMBEDDED
from knowledge.adapters.postgres.rows import ENTRY_COLUMNS, TRUST_ORDER, entry_of_values
from knowledge.adapters.postgres.tables import (
    TIME,
    distillations,
    knowledge_staging,
    links,
    patterns,
    points,
    vouched,
)
from knowledge.models import (
    MAX_CIRCUMSTANCES,
    MAX_RIVALS,
    MAX_SOURCE_ENTRIES,
    MAX_WHEN_CHARS,
    AppliesWhen,
    Circumstance,
    DistilledText,
    Entry,
    Evidence,
    PatternId,
)

_E = knowledge_staging.c
_P = patterns.c
_T = points.c
_PROJECT = sa.bindparam("project", type_=sa.Text)
_D = distillations.c
_DISTILLED = {
    field.name: "answered_at" if field.name == "written_at" else field.name for field in fields(DistilledText)
}
"""The columns of a distillation, by field."""


def _select_with_words(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Select live patterns with their texts: those of the most trusted, then latest, evidence.

    Summaries over entries are computed only for patterns that have several: most have one.
    """
    live = sa.and_(_E.pattern_id == _P.id, EMBEDDED, _E.expires_at > sa.bindparam("now", type_=TIME))
    words = sa.select(*ENTRY_COLUMNS, _E.error_signature).where(live).order_by(*TRUST_ORDER).limit(1)
    latest = _most_trusted(live, _E.embedded_at, _E.id)
    latest_ids = sa.select(latest.c.id).order_by(latest.c.embedded_at.desc(), latest.c.id).scalar_subquery()
    ids = sa.func.array(latest_ids).label("entry_ids")
    # a subquery with an offset stays one: otherwise Postgres repeats it wherever the column is named
    named = sa.select(ids).offset(sa.literal_column("0")).lateral("named")
    several = sa.func.cardinality(named.c.entry_ids) > 1
    of_project = sa.and_(_PROJECT.is_not(None), several)
    written = sa.and_(_D.pattern_id == _P.id, _D.refused.is_(None), _D.expires_at > sa.bindparam("now", type_=TIME))
    return (
        sa.select(
            *columns,
            _P.id.label("found_id"),
            _P.success_count,
            _P.attempt_count,
            _P.project_count,
            _P.founded_at,
            named.c.entry_ids,
            sa.case((several, _select_circumstances(live))).label("circumstances"),
            sa.case((several, _select_distinct(live, _E.applies_when))).label("conditions"),
            sa.case((several, _select_distinct(live, sa.func.left(_E.when_to_try, MAX_WHEN_CHARS)))).label("whens"),
            sa.case((several, _select_when_to_try(live))).label("when_told"),
            sa.case((of_project, sa.exists().where(live, _E.project_id == _PROJECT))).label("of_project"),
            _select_rivals().label("rivals"),
            *(_D[column].label(f"distilled_{name}") for name, column in _DISTILLED.items()),
            words.lateral("words"),
        )
        .select_from(patterns.outerjoin(distillations, written))
        .where(_P.workspace == sa.bindparam("workspace"), _P.success_count > 0)
    )


def _most_trusted(live: sa.ColumnElement[bool], *columns: sa.ColumnElement[Any]) -> sa.Subquery:
    """Select columns of the entries that a pattern is summarised from: of many, the most trusted ones only."""
    return (
        sa.select(*columns)
        .where(live)
        .order_by(*TRUST_ORDER)
        .limit(MAX_SOURCE_ENTRIES)
        .correlate(patterns)
        .subquery("heard")
    )


def _select_when_to_try(live: sa.ColumnElement[bool]) -> sa.ScalarSelect[Any]:
    """Select `when_to_try` of the most trusted entry that has one."""
    entries = _most_trusted(live, _E.when_to_try, _E.low_trust, vouched.label("vouched"), _E.embedded_at, _E.id)
    trusted = (entries.c.low_trust, entries.c.vouched, entries.c.embedded_at.desc(), entries.c.id)
    sentence = sa.select(entries.c.when_to_try).where(entries.c.when_to_try.is_not(None)).order_by(*trusted).limit(1)
    return sentence.scalar_subquery()


def _select_rivals() -> sa.ScalarSelect[Any]:
    """Select the ids of a pattern's rivals as an array: of many, those with the most evidence."""
    rival = links.c.kind == sa.literal_column("'rival'")
    upper = sa.select(links.c.upper_id.label("id")).where(links.c.lower_id == _P.id, rival).correlate(patterns)
    lower = sa.select(links.c.lower_id).where(links.c.upper_id == _P.id, rival).correlate(patterns)
    other = upper.union_all(lower).subquery("other")
    rivals = patterns.alias("rivals")
    most = (
        sa.select(rivals.c.id)
        .select_from(other.join(rivals, rivals.c.id == other.c.id))
        .order_by(rivals.c.success_count.desc(), rivals.c.founded_at, rivals.c.id)
        .limit(MAX_RIVALS)
        .correlate(patterns)
    )
    return sa.select(sa.func.array(most.scalar_subquery())).scalar_subquery()


def _select_circumstances(live: sa.ColumnElement[bool]) -> sa.ScalarSelect[Any]:
    """Select the circumstances in which a pattern worked, by its live entries: a JSON array of objects."""
    entries = _most_trusted(live, _E.agent_type, _E.technology, _E.task_type, _E.gate_type, _E.error_signature)
    values = tuple(entries.c)
    names: tuple[sa.ColumnElement[str], ...] = (
        sa.literal_column("'agent_type'"),
        sa.literal_column("'technology'"),
        sa.literal_column("'task_type'"),
        sa.literal_column("'gate_type'"),
        sa.literal_column("'error'"),
    )
    named = itertools.chain.from_iterable(zip(names, values, strict=True))
    each = (
        sa.select(sa.func.jsonb_build_object(sa.literal_column("'entries'"), sa.func.count(), *named).label("each"))
        .group_by(*values)
        .order_by(sa.func.count().desc(), *values)
        .limit(MAX_CIRCUMSTANCES)
        .subquery("circumstances")
    )
    return sa.select(sa.func.jsonb_agg(each.c.each)).scalar_subquery()


def _select_distinct(live: sa.ColumnElement[bool], column: sa.ColumnElement[Any]) -> sa.ScalarSelect[Any]:
    """Select the distinct conditions, or sentences of when to try, of a pattern's live entries, as a JSON array.

    If any entry is trusted, those of low trust are ignored: one of them would hide what all others found to work.
    """
    most = _most_trusted(live, _E.low_trust)
    trust = sa.select(sa.func.bool_and(most.c.low_trust)).scalar_subquery()
    entries = _most_trusted(live, column.label("told"), _E.low_trust)
    each = (
        sa.select(entries.c.told)
        .where(entries.c.told.is_not(None), sa.or_(~entries.c.low_trust, trust))
        .distinct()
        .limit(MAX_CIRCUMSTANCES)
        .subquery("each")
    )
    return sa.select(sa.func.jsonb_agg(each.c.told)).scalar_subquery()


# Built once: compiling such a statement takes longer than Postgres takes to answer it.
_WANTED = (
    sa.select(_T.id, _T.pattern_id)
    .where(_T.id == sa.any_(sa.bindparam("points", type_=sa.ARRAY(UUID_TYPE))))
    .cte("wanted")
    .prefix_with("MATERIALIZED")
)
_AFTER: sa.BindParameter[Any] = sa.bindparam("after", type_=UUID_TYPE)
OF_POINTS = _select_with_words(_WANTED.c.id.label("point_id")).where(_WANTED.c.pattern_id == _P.id)
"""The patterns of some points, one row per point."""
ONE_PATTERN = _select_with_words().where(_P.id == sa.bindparam("pattern", type_=UUID_TYPE))
PAGE = (
    _select_with_words()
    .where(sa.or_(_AFTER.is_(None), _P.id > _AFTER))
    .order_by(_P.id)
    .limit(sa.bindparam("limit", type_=sa.Integer))
)
_SOME_PATTERNS = _select_with_words().where(_P.id == sa.any_(sa.bindparam("patterns", type_=sa.ARRAY(UUID_TYPE))))


async def live_patterns(
    connection: AsyncConnection, workspace: str, pattern_ids: Collection[UUID], now: datetime
) -> dict[PatternId, Evidence]:
    """Return those of the patterns that are live."""
    params = {"workspace": workspace, "now": now, "patterns": list(pattern_ids), "project": None}
    found = [evidence_of(row, None) for row in await connection.execute(_SOME_PATTERNS, params)]
    return {evidence.pattern_id: evidence for evidence in found}


def evidence_of(row: sa.Row[Any], project_id: str | None) -> Evidence:
    """Convert a row of these statements; `project_id`: the project whose entries set `of_project`."""
    words = entry_of_values(row[-len(ENTRY_COLUMNS) - 1 : -1])  # the last columns, except the signature of the error
    entry_ids = tuple(row._mapping["entry_ids"])  # noqa: SLF001 - SQLAlchemy's public name for a row by key
    summary = (
        _summary_of_one(words, row.error_signature, project_id) if len(entry_ids) == 1 else _summary_of_several(row)
    )
    return Evidence(
        pattern_id=PatternId(row.found_id),
        entry_type=words.entry_type,
        words=words,
        success_count=row.success_count,
        attempt_count=row.attempt_count,
        project_count=row.project_count,
        founded_at=row.founded_at,
        rivals=tuple(sorted(row.rivals)),
        entry_ids=entry_ids,
        distilled=_to_distilled(row),
        **summary,
    )


def _summary_of_several(row: sa.Row[Any]) -> dict[str, Any]:
    """Return the summary of several entries."""
    return {
        "circumstances": tuple(Circumstance(**values) for values in row.circumstances),
        "when_to_try": row.when_told,
        "conditions": tuple(AppliesWhen(**values) for values in row.conditions or ()),
        "whens": tuple(row.whens or ()),
        "of_project": row.of_project,
    }


def _summary_of_one(words: Entry, error: str | None, project_id: str | None) -> dict[str, Any]:
    """Return the summary of a single entry."""
    circumstance = Circumstance(
        entries=1,
        agent_type=words.agent_type,
        technology=words.technology,
        task_type=words.task_type,
        gate_type=words.gate_type,
        error=error,
    )
    return {
        "circumstances": (circumstance,),
        "when_to_try": words.when_to_try,
        "conditions": (words.applies_when,) if words.applies_when else (),
        "whens": (words.when_to_try[:MAX_WHEN_CHARS],) if words.when_to_try else (),
        "of_project": None if project_id is None else words.project_id == project_id,
    }


def _to_distilled(row: sa.Row[Any]) -> DistilledText | None:
    if row.distilled_title is None:
        return None
    return DistilledText(**{name: getattr(row, f"distilled_{name}") for name in _DISTILLED})
