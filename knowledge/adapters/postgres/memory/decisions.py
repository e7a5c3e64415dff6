"""The transaction in which leased entries join or found patterns: a few statements for any number of entries."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID as UUID_TYPE
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from knowledge.adapters.postgres.memory.counts import FACETS, NO_NAMES, PROBLEM_START, is_any_of
from knowledge.adapters.postgres.memory.points import OCCUPIES_PLACE, store_vectors
from knowledge.adapters.postgres.memory.records import write_entry_records
from knowledge.adapters.postgres.memory_tables import (
    TIME,
    knowledge_staging,
    links,
    match_keys,
    patterns,
    points,
)
from knowledge.adapters.postgres.seals.row_seals import seal_rows
from knowledge.models import (
    Decision,
    EmbeddingSpace,
    EntryId,
    LeaseToken,
    Link,
    LinkKind,
    PatternId,
    PointId,
    admit_points,
)
from knowledge.ports import DecisionTransaction

_E = knowledge_staging.c
_P = patterns.c
_T = points.c
_K = match_keys.c
_L = links.c


def _each(name: str, type_: sa.types.TypeEngine[Any]) -> sa.ColumnElement[Any]:
    """Return the elements of an array parameter as rows: one statement for many of them."""
    return sa.func.unnest(sa.bindparam(name, type_=sa.ARRAY(type_)))


_COUNTS = ("success_count", "attempt_count", "project_count")


def _insert_patterns() -> sa.Insert:
    """Insert patterns with the counts and names of one founder: most have them in the end, and need no update."""
    given = sa.select(
        _each("ids", UUID_TYPE()).label("id"),
        _each("entry_types", sa.Text()).label("entry_type"),
        _each("match_keys", sa.Text()).label("match_key"),
        _each("founders", UUID_TYPE()).label("founder"),
    ).subquery("given")
    names = (
        sa.case((_E[column].is_not(None), sa.func.array_append(NO_NAMES, sa.cast(_E[column], sa.Text))), else_=NO_NAMES)
        for column in FACETS.values()
    )
    founded_at: sa.BindParameter[Any] = sa.bindparam("founded_at", type_=TIME)
    rows = sa.select(
        given.c.id,
        sa.bindparam("workspace", type_=sa.Text),
        given.c.entry_type,
        given.c.match_key,
        given.c.founder,
        founded_at,
        sa.func.coalesce(_E.timestamp, founded_at),
        ~sa.func.coalesce(_E.low_trust, sa.false()),
        sa.func.coalesce(PROBLEM_START, ""),
        *names,
        *(sa.literal_column("1") for _ in _COUNTS),
    ).select_from(given.outerjoin(knowledge_staging, _E.id == given.c.founder))
    columns = ["id", "workspace", "entry_type", "match_key", "founding_entry_id", "founded_at", "last_seen_at"]
    columns += ["trusted", "problem_start", *FACETS, *_COUNTS]
    return insert(patterns).from_select(columns, rows).on_conflict_do_nothing()


def _write_points() -> sa.Insert:
    rows = sa.select(
        _each("ids", UUID_TYPE()),
        sa.bindparam("workspace", type_=sa.Text),
        _each("pattern_ids", UUID_TYPE()),
        _each("views", sa.Text()),
        sa.bindparam("embedded_at", type_=TIME),
        sa.bindparam("expires_at", type_=TIME),
        sa.false(),  # the default is true, for the inserts of the release before, which counted words itself
    )
    columns = ["id", "workspace", "pattern_id", "view", "embedded_at", "expires_at", "counted"]
    new = insert(points).from_select(columns, rows)
    later = {
        "embedded_at": sa.func.greatest(_T.embedded_at, new.excluded.embedded_at),
        "expires_at": sa.func.greatest(_T.expires_at, new.excluded.expires_at),
        "look_at": None,  # a pending deletion of the point is void
    }
    return new.on_conflict_do_update(index_elements=[_T.id], set_=later).returning(_T.id, _T.counted)


def _link_entries() -> sa.Update:
    rows = sa.select(
        _each("entries", UUID_TYPE()).label("entry"),
        _each("pattern_ids", UUID_TYPE()).label("pattern"),
        _each("point_ids", sa.Text()).label("points"),
    ).subquery("given")
    return (
        sa.update(knowledge_staging)
        .where(_E.id == rows.c.entry, _E.lease_token == sa.bindparam("token", type_=UUID_TYPE))
        .values(
            pattern_id=rows.c.pattern,
            point_ids=sa.cast(sa.func.string_to_array(rows.c.points, ","), sa.ARRAY(UUID_TYPE)),
        )
    )


def _link_patterns() -> sa.Insert:
    new = insert(links)
    likelier = sa.and_(_L.kind != LinkKind.APART, new.excluded.probability > _L.probability)
    updated = {name: new.excluded[name] for name in ("kind", "probability", "why", "found_at")}
    return new.on_conflict_do_update(index_elements=[_L.lower_id, _L.upper_id], set_=updated, where=likelier)


def _select_leased() -> sa.Select[Any]:
    entries = sa.any_(sa.bindparam("entries", type_=sa.ARRAY(UUID_TYPE)))
    ours = _E.lease_token == sa.bindparam("token", type_=UUID_TYPE)
    return sa.select(_E.id, _E.pattern_id).where(_E.id == entries, ours).order_by(_E.id).with_for_update()


def _select_by_key() -> sa.CompoundSelect[Any]:
    workspace = sa.bindparam("workspace", type_=sa.Text)
    keys = sa.any_(sa.bindparam("keys", type_=sa.ARRAY(sa.Text)))
    founded = sa.select(_P.match_key, _P.id.label("pattern_id"), sa.literal(0).label("goes_before"))
    bound = sa.select(_K.match_key, _K.pattern_id, sa.literal(1))
    either = founded.where(_P.workspace == workspace, _P.match_key == keys).union_all(
        bound.where(_K.workspace == workspace, _K.match_key == keys)
    )
    return either.order_by("goes_before")


def _select_resolutions() -> sa.Select[Any]:
    resolution = sa.func.coalesce(_E.solution_steps, _E.revision_approach, _E.approved_approach)
    requested = sa.any_(sa.bindparam("pattern_ids", type_=sa.ARRAY(UUID_TYPE)))
    ours = (
        _E.workspace == sa.bindparam("workspace", type_=sa.Text),
        _E.pattern_id == requested,
        resolution.is_not(None),
    )
    return sa.select(_E.pattern_id, resolution.label("resolution")).where(*ours).distinct()


# Built once: compiling such a statement takes longer than Postgres takes for a row.
_LEASED, _BY_KEY, _RESOLUTIONS = _select_leased(), _select_by_key(), _select_resolutions()
_INSERT_PATTERNS, _WRITE_POINTS, _LINK_ENTRIES, _LINK_PATTERNS = (
    _insert_patterns(),
    _write_points(),
    _link_entries(),
    _link_patterns(),
)


class PostgresDecisions(DecisionTransaction):
    """Decisions under one lease."""

    def __init__(self, connection: AsyncConnection, workspace: str, token: LeaseToken) -> None:
        self._connection = connection
        self._workspace = workspace
        self._token = token

    async def find_leased(self, entry_ids: Sequence[EntryId]) -> Mapping[EntryId, PatternId | None]:
        params = {"entries": list(entry_ids), "token": self._token}
        return {row.id: row.pattern_id for row in await self._connection.execute(_LEASED, params)}

    async def patterns_by_key(self, match_keys: Sequence[str]) -> Mapping[str, PatternId]:
        params = {"workspace": self._workspace, "keys": list(match_keys)}
        return {row.match_key: row.pattern_id for row in await self._connection.execute(_BY_KEY, params)}

    async def resolutions(self, pattern_ids: Collection[PatternId]) -> Mapping[PatternId, Collection[str]]:
        if not pattern_ids:
            return {}
        params = {"workspace": self._workspace, "pattern_ids": list(pattern_ids)}
        resolutions: dict[PatternId, list[str]] = {}
        for row in await self._connection.execute(_RESOLUTIONS, params):
            resolutions.setdefault(PatternId(row.pattern_id), []).append(row.resolution)
        return resolutions

    async def find_existing(self, pattern_ids: Collection[PatternId]) -> set[PatternId]:
        if not pattern_ids:
            return set()
        query = sa.select(_P.id).where(_P.workspace == self._workspace, is_any_of(_P.id, pattern_ids))
        return {PatternId(found) for found in (await self._connection.execute(query)).scalars()}

    async def write(
        self, decisions: Sequence[Decision], space: EmbeddingSpace, *, embedded_at: datetime, expires_at: datetime
    ) -> Mapping[PointId, bool]:
        await self._create_patterns([decision for decision in decisions if decision.founds], embedded_at)
        point_ids = await self._fit_points(decisions)
        counted = await self._write_points(point_ids, decisions, space, embedded_at, expires_at) if point_ids else {}
        if decisions:
            params = {
                "entries": [each.entry.entry_id for each in decisions],
                "pattern_ids": [each.pattern_id for each in decisions],
                "point_ids": [
                    ",".join([str(point.point_id) for point in each.points if point.point_id in point_ids])
                    for each in decisions
                ],
                "token": self._token,
            }
            await self._connection.execute(_LINK_ENTRIES, params)
            await write_entry_records(self._connection, self._workspace, decisions, point_ids)
            await self._bind_keys([each for each in decisions if each.why], embedded_at)
            await self._link([(each.pattern_id, link) for each in decisions for link in each.links], embedded_at)
        return counted

    async def _bind_keys(self, joined: Sequence[Decision], decided_at: datetime) -> None:
        bound = [
            {
                "workspace": self._workspace,
                "match_key": each.match_key,
                "pattern_id": each.pattern_id,
                "why": list(each.why),
                "decided_at": decided_at,
            }
            for each in joined
        ]
        if bound:
            await self._connection.execute(insert(match_keys).on_conflict_do_nothing(), bound)
            keys = [each["match_key"] for each in bound]
            await seal_rows(self._connection, self._workspace, match_keys, _K.match_key.in_(keys), _K.seal.is_(None))

    async def _link(self, pairs: Sequence[tuple[PatternId, Link]], found_at: datetime) -> None:
        rows = [
            {
                "lower_id": min(pattern_id, link.pattern_id),
                "upper_id": max(pattern_id, link.pattern_id),
                "workspace": self._workspace,
                "kind": link.kind,
                "probability": link.probability,
                "why": list(link.why),
                "found_at": found_at,
            }
            for pattern_id, link in pairs
            if pattern_id != link.pattern_id
        ]
        if rows:
            await self._connection.execute(_LINK_PATTERNS, rows)
            pairs_written = [(row["lower_id"], row["upper_id"], found_at) for row in rows]
            written = sa.tuple_(_L.lower_id, _L.upper_id, _L.found_at).in_(pairs_written)
            await seal_rows(self._connection, self._workspace, links, written)

    async def _create_patterns(self, founded: Sequence[Decision], founded_at: datetime) -> None:
        if founded:
            params: dict[str, Any] = {
                "ids": [each.pattern_id for each in founded],
                "workspace": self._workspace,
                "entry_types": [each.entry.entry_type.value for each in founded],
                "match_keys": [each.match_key for each in founded],
                "founders": [each.entry.entry_id for each in founded],
                "founded_at": founded_at,
            }
            await self._connection.execute(_INSERT_PATTERNS, params)
            new = (is_any_of(_P.id, params["ids"]), _P.seal.is_(None))
            await seal_rows(self._connection, self._workspace, patterns, *new)

    async def _fit_points(self, decisions: Sequence[Decision]) -> set[PointId]:
        """Return the points of the decisions within their patterns' limit, those already there included."""
        there: dict[UUID, set[PointId]] = {}
        joins = [decision.pattern_id for decision in decisions if not decision.founds]
        if joins:
            occupied = sa.select(_T.pattern_id, _T.id).where(_T.pattern_id.in_(joins), OCCUPIES_PLACE)
            for row in await self._connection.execute(occupied):
                there.setdefault(row.pattern_id, set()).add(PointId(row.id))
        point_ids: set[PointId] = set()
        for decision in decisions:
            fits = admit_points(decision.points, there.setdefault(decision.pattern_id, set()))
            point_ids.update(point.point_id for point in fits)
        return point_ids

    async def _write_points(
        self,
        point_ids: set[PointId],
        decisions: Sequence[Decision],
        space: EmbeddingSpace,
        embedded_at: datetime,
        expires_at: datetime,
    ) -> Mapping[PointId, bool]:
        of_point = {
            point.point_id: (decision.pattern_id, point)
            # by entry id: of several entries with the same text, the index always gets the same one
            for decision in sorted(decisions, key=lambda decided: decided.entry.entry_id, reverse=True)
            for point in decision.points
            if point.point_id in point_ids
        }
        sorted_points = dict(sorted(of_point.items()))  # in one order, to avoid deadlocks
        ids = list(sorted_points)
        params = {
            "ids": ids,
            "workspace": self._workspace,
            "pattern_ids": [pattern_id for pattern_id, _ in sorted_points.values()],
            "views": [point.view.value for _, point in sorted_points.values()],
            "embedded_at": embedded_at,
            "expires_at": expires_at,
        }
        counted = {PointId(row.id): row.counted for row in await self._connection.execute(_WRITE_POINTS, params)}
        await store_vectors(
            self._connection, space, {point_id: point.vector for point_id, (_, point) in sorted_points.items()}
        )
        return counted
