"""Statements of the list of patterns: the order, the page behind a pattern, and the counts of all pages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncConnection

from hardwon.errors import NotFound
from hardwon.models.lists import Attempt, PatternFacets, PatternSort, TrustLevel
from knowledge.adapters.postgres.memory.counts import is_any_of, select_runs
from knowledge.adapters.postgres.memory_tables import patterns
from knowledge.models import PatternId
from knowledge.ports import PatternQuery

_P = patterns.c
MAX_COUNTED: Final = 20_000
"""Patterns that are counted for a list, the latest; ours: 10,000 take 30 ms."""
_MAX_VALUES: Final = 30
"""Values of a facet, the most frequent."""
_MAX_OUTCOMES: Final = 30
_ARRAYS: Final = {"technology": _P.technologies, "agent": _P.agents, "project": _P.projects, "tag": _P.tags}


_ORDERS: Final[Mapping[PatternSort, tuple[tuple[sa.ColumnElement[Any], bool], ...]]] = {
    PatternSort.SEEN: ((_P.last_seen_at, True), (_P.id, False)),
    PatternSort.EVIDENCE: ((_P.success_count, True), (_P.project_count, True), (_P.id, False)),
    PatternSort.PROJECTS: ((_P.project_count, True), (_P.success_count, True), (_P.id, False)),
    PatternSort.PROBLEM: ((_P.problem_start, False), (_P.id, False)),
}
"""The columns of each order, and whether each descends; the last one is unique."""


def conditions_of(
    workspace: str, query: PatternQuery, among: Collection[UUID] | None
) -> Iterator[sa.ColumnElement[bool]]:
    """Yield the conditions of a list. `among`: the patterns with the words of the query, None without words."""
    yield _P.workspace == workspace
    yield _P.success_count > 0
    if query.entry_type is not None:
        yield _P.entry_type == query.entry_type
    if query.trust is not None:
        yield _P.trusted if query.trust is TrustLevel.TRUSTED else ~_P.trusted
    values = {
        "technology": query.technology,
        "agent": query.agent_type,
        "project": query.project_id,
        "tag": query.tag,
    }
    for name, value in values.items():
        if value is not None:
            yield sa.literal(value, sa.Text) == sa.any_(_ARRAYS[name])
    if among is not None:
        yield is_any_of(_P.id, among)


async def page_of_ids(
    connection: AsyncConnection,
    conditions: Iterable[sa.ColumnElement[bool]],
    sort: PatternSort,
    *,
    after: PatternId | None,
    limit: int,
) -> Sequence[sa.Row[Any, Any, Any]]:
    """Return the ids of a page, with the time each was last seen and whether it is trusted. Raises NotFound."""
    order = _ORDERS[sort]
    query = (
        sa.select(_P.id, _P.last_seen_at, _P.trusted)
        .where(*conditions)
        .order_by(*(column.desc() if descends else column for column, descends in order))
        .limit(limit)
    )
    if after is not None:
        keys = (await connection.execute(sa.select(*(column for column, _ in order)).where(_P.id == after))).first()
        if keys is None:
            raise NotFound(f"there is no pattern {after} to continue from: begin with the first page")
        query = query.where(_is_behind(order, keys))
    return (await connection.execute(query)).all()


def _is_behind(order: Sequence[tuple[sa.ColumnElement[Any], bool]], keys: Sequence[Any]) -> sa.ColumnElement[bool]:
    """Return the condition that a row comes behind one with these keys."""
    (column, descends), key = order[0], keys[0]
    further: sa.ColumnElement[bool] = column < key if descends else column > key
    if len(order) == 1:
        return further
    # the first condition, which the second implies, is the one that an index is entered by
    at_most = column <= key if descends else column >= key
    return sa.and_(at_most, sa.or_(further, _is_behind(order[1:], keys[1:])))


async def count_facets(
    connection: AsyncConnection, conditions: Iterable[sa.ColumnElement[bool]]
) -> tuple[int, bool, PatternFacets]:
    """Return the number of patterns, whether there are more than were counted, and their facets."""
    counted = (
        sa.select(_P.entry_type, _P.trusted, *(column.label(name) for name, column in _ARRAYS.items()))
        .where(*conditions)
        .order_by(_P.last_seen_at.desc(), _P.id)
        .limit(MAX_COUNTED + 1)
        .cte("counted")
        .prefix_with("MATERIALIZED")
    )
    level = sa.case((counted.c.trusted, TrustLevel.TRUSTED.value), else_=TrustLevel.LOW_TRUST.value)
    plain = {"kind": sa.cast(counted.c.entry_type, sa.Text), "trust": sa.cast(level, sa.Text)}
    number = sa.func.count()
    empty = sa.literal("")
    parts: list[sa.Select[str, str, int]] = [sa.select(empty, empty, number).select_from(counted)]
    parts += [sa.select(sa.literal(name), value, number).group_by(value) for name, value in plain.items()]
    for name in _ARRAYS:
        each = sa.select(sa.func.unnest(counted.c[name]).label("value")).subquery(name)
        parts.append(sa.select(sa.literal(name), each.c.value, number).group_by(each.c.value))
    return await _read_facets(connection, sa.union_all(*parts))


async def _read_facets(connection: AsyncConnection, query: sa.CompoundSelect[Any]) -> tuple[int, bool, PatternFacets]:
    found: dict[str, dict[str, int]] = {name: {} for name in ("", "kind", "trust", *_ARRAYS)}
    for facet, value, number in await connection.execute(query):
        found[facet][value] = number
    total = found.pop("").get("", 0)
    frequent = {
        name: dict(sorted(values.items(), key=lambda each: (-each[1], each[0]))[:_MAX_VALUES])
        for name, values in found.items()
    }
    return min(total, MAX_COUNTED), total > MAX_COUNTED, PatternFacets(**frequent)


async def read_outcomes(connection: AsyncConnection, ids: Collection[UUID]) -> dict[UUID, str]:
    """Return the last attempts of patterns, the oldest first: `w` for one that worked, `f` for one that failed."""
    runs = select_runs(lambda column: is_any_of(column, ids)).subquery("runs")
    newest = sa.func.row_number().over(partition_by=runs.c.pattern_id, order_by=runs.c.at.desc())
    numbered = sa.select(runs.c.pattern_id, runs.c.worked, runs.c.at, newest.label("newest")).subquery("numbered")
    letter = sa.case((numbered.c.worked, "w"), else_="f")
    strip = sa.func.string_agg(letter, aggregate_order_by(sa.literal_column("''"), numbered.c.at))
    query = sa.select(numbered.c.pattern_id, strip).where(numbered.c.newest <= _MAX_OUTCOMES)
    return {row[0]: row[1] for row in await connection.execute(query.group_by(numbered.c.pattern_id))}


async def read_attempts(connection: AsyncConnection, workspace: str, pattern_id: UUID, limit: int) -> list[Attempt]:
    """Return the attempts at a pattern, the latest first."""
    ours = sa.select(_P.id).where(_P.workspace == workspace, _P.id == pattern_id).scalar_subquery()
    runs = select_runs(lambda column: column == ours).subquery("runs")
    columns = (runs.c.project_id, runs.c.task_id, runs.c.run_id, runs.c.worked, runs.c.at)
    query = sa.select(*columns).order_by(runs.c.at.desc(), runs.c.task_id, runs.c.run_id).limit(limit)
    return [
        Attempt(project_id=project, task_id=task, run_id=run, worked=worked, at=at)
        for project, task, run, worked, at in await connection.execute(query)
    ]
