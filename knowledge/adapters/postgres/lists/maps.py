"""The map of patterns of one workspace in Postgres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from hardwon.models.maps import MapGroup, MapMark
from knowledge.adapters.postgres.engine.database import WorkspaceStore, autocommit, transaction
from knowledge.adapters.postgres.memory.counts import EMBEDDED, MAX_PROBLEM_CHARS, PROBLEM, is_any_of
from knowledge.adapters.postgres.memory.entry_rows import TRUST_ORDER
from knowledge.adapters.postgres.memory.points import OCCUPIES_PLACE
from knowledge.adapters.postgres.memory_tables import (
    knowledge_staging,
    pattern_maps,
    pattern_places,
    patterns,
    points,
    vectors,
)
from knowledge.models import EmbeddingSpace, EntryType, PatternId, Vector
from knowledge.ports import MadeMap, MapStore, Placed

_E = knowledge_staging.c
_P = patterns.c
_M = pattern_maps.c
_L = pattern_places.c
_TEXT_CHARS: Final = 800
"""Characters of a problem and of a solution that name a group, ours: the beginning says what a text is about."""
_PAGE: Final = 1000
_SOLUTION: Final = sa.func.coalesce(_E.solution_steps, _E.revision_approach, _E.approved_approach, "")


class PostgresMaps(WorkspaceStore, MapStore):
    """The map of one workspace in Postgres."""

    async def state(self, space: EmbeddingSpace, now: datetime) -> str | None:
        query = sa.select(sa.func.count(), sa.func.max(points.c.embedded_at)).where(*self._are_live(space, now))
        number, latest = await self._one(query.select_from(_with_vectors()))
        return None if number == 0 else f"{number} {latest.isoformat()}"

    async def vectors(self, space: EmbeddingSpace, now: datetime, *, limit: int) -> Mapping[PatternId, Vector]:
        async with autocommit(self._engine) as connection:
            ids = await self._placed(connection, space, now, limit)
            means: dict[PatternId, Vector] = {}
            for start in range(0, len(ids), _PAGE):
                query = (
                    sa.select(points.c.pattern_id, vectors.c.vector)
                    .select_from(_with_vectors())
                    .where(is_any_of(points.c.pattern_id, ids[start : start + _PAGE]), *self._are_live(space, now))
                    .order_by(points.c.pattern_id, points.c.id)
                )
                means |= _mean_of_each((await connection.execute(query)).all())
        return means

    async def _placed(
        self, connection: AsyncConnection, space: EmbeddingSpace, now: datetime, limit: int
    ) -> Sequence[PatternId]:
        """Return the patterns that get a place."""
        has_vector = sa.exists(
            sa.select(1).select_from(_with_vectors()).where(points.c.pattern_id == _P.id, *self._are_live(space, now))
        )
        query = (
            sa.select(_P.id)
            .where(_P.workspace == self._workspace, _P.success_count > 0, has_vector)
            .order_by(_P.success_count.desc(), _P.id)
            .limit(limit)
        )
        return [PatternId(each) for each in (await connection.execute(query)).scalars()]

    def _are_live(self, space: EmbeddingSpace, now: datetime) -> tuple[sa.ColumnElement[bool], ...]:
        return (
            points.c.workspace == self._workspace,
            points.c.expires_at > now,
            OCCUPIES_PLACE,
            vectors.c.space == space.fingerprint,
        )

    async def texts(self, pattern_ids: Sequence[PatternId]) -> Mapping[PatternId, str]:
        text = sa.func.left(PROBLEM, _TEXT_CHARS) + sa.literal("\n") + sa.func.left(_SOLUTION, _TEXT_CHARS)
        words = (
            sa.select(text.label("text"))
            .where(_E.pattern_id == _P.id, EMBEDDED)
            .order_by(*TRUST_ORDER)
            .limit(1)
            .lateral("words")
        )
        found: dict[PatternId, str] = {}
        async with autocommit(self._engine) as connection:
            for start in range(0, len(pattern_ids), _PAGE):
                query = (
                    sa.select(_P.id, words.c.text)
                    .join(words, sa.true())
                    .where(is_any_of(_P.id, pattern_ids[start : start + _PAGE]))
                )
                found |= {PatternId(row[0]): row[1] for row in await connection.execute(query)}
        return found

    async def replace(self, made: MadeMap, places: Sequence[Placed]) -> None:
        row = {
            "space": made.space,
            "state": made.state,
            "made_at": made.made_at,
            "group_terms": [list(terms) for terms in made.terms],
        }
        written = insert(pattern_maps).values(workspace=self._workspace, **row)
        async with transaction(self._engine) as connection:
            # the row is the lock: two processes may have made the map at once
            await connection.execute(written.on_conflict_do_update(index_elements=[_M.workspace], set_=row))
            await connection.execute(sa.delete(pattern_places).where(_L.workspace == self._workspace))
            for start in range(0, len(places), _PAGE):
                await connection.execute(self._insert(places[start : start + _PAGE]))

    def _insert(self, places: Sequence[Placed]) -> sa.Insert:
        """Return the insertion of the places of those patterns that are still there."""
        columns = {"id": points.c.pattern_id.type, "x": sa.REAL(), "y": sa.REAL(), "group_number": sa.SmallInteger()}
        values = zip(*((each.pattern_id, each.x, each.y, each.group) for each in places), strict=True)
        # four arrays, not four parameters a place: those of 10,000 took a second to be compiled
        arrays = [sa.literal(list(each), sa.ARRAY(kind)) for each, kind in zip(values, columns.values(), strict=True)]
        parts = [sa.column(name, kind) for name, kind in columns.items()]
        given = sa.func.unnest(*arrays).table_valued(*parts).render_derived(name="given")
        ours = (
            sa.select(_P.id, _P.workspace, given.c.x, given.c.y, given.c.group_number)
            .join(given, given.c.id == _P.id)
            .where(_P.workspace == self._workspace)
            .order_by(_P.id)
            .with_for_update(of=patterns, key_share=True, read=True)
        )
        return sa.insert(pattern_places).from_select(["pattern_id", "workspace", "x", "y", "group_number"], ours)

    async def find(self) -> MadeMap | None:
        query = sa.select(_M.space, _M.state, _M.made_at, _M.group_terms).where(_M.workspace == self._workspace)
        row = await self._first(query)
        if row is None:
            return None
        return MadeMap(
            space=row.space, state=row.state, made_at=row.made_at, terms=tuple(tuple(each) for each in row.group_terms)
        )

    async def groups(self, terms: Sequence[Sequence[str]]) -> list[MapGroup]:
        query = (
            sa.select(
                _L.group_number,
                sa.func.count().label("patterns"),
                sa.func.sum(_P.success_count).label("successes"),
                sa.func.sum(_P.attempt_count).label("attempts"),
                sa.func.avg(_L.x).label("x"),
                sa.func.avg(_L.y).label("y"),
            )
            .join(patterns, _P.id == _L.pattern_id)
            .where(_L.workspace == self._workspace, _P.success_count > 0)
            .group_by(_L.group_number)
            .order_by(_L.group_number)
        )
        return [
            MapGroup(
                number=row.group_number,
                terms=tuple(terms[row.group_number]) if row.group_number < len(terms) else (),
                patterns=row.patterns,
                success_count=int(row.successes),
                attempt_count=int(row.attempts),
                x=round(float(row.x), 4),
                y=round(float(row.y), 4),
            )
            for row in await self._all(query)
        ]

    async def marks(self, group: int | None, *, limit: int, now: datetime) -> list[MapMark]:
        chosen = (
            sa.select(pattern_places, _P.entry_type, _P.success_count, _P.attempt_count)
            .join(patterns, _P.id == _L.pattern_id)
            .where(_L.workspace == self._workspace, _P.success_count > 0)
            .order_by(_P.success_count.desc(), _L.pattern_id)
            .limit(limit)
        )
        if group is not None:
            chosen = chosen.where(_L.group_number == group)
        marked = chosen.cte("marked").prefix_with("MATERIALIZED")  # texts are read of these alone
        words = (
            sa.select(sa.func.left(PROBLEM, MAX_PROBLEM_CHARS).label("problem"))
            .where(_E.pattern_id == marked.c.pattern_id, EMBEDDED, _E.expires_at > now)
            .order_by(*TRUST_ORDER)
            .limit(1)
            .lateral("words")
        )
        query = (
            sa.select(marked, words.c.problem)
            .join(words, sa.true())
            .order_by(marked.c.success_count.desc(), marked.c.pattern_id)
        )
        return [
            MapMark(
                pattern_id=PatternId(row.pattern_id),
                entry_type=EntryType(row.entry_type),
                problem=row.problem,
                group=row.group_number,
                x=round(row.x, 5),
                y=round(row.y, 5),
                success_count=row.success_count,
                attempt_count=row.attempt_count,
            )
            for row in await self._all(query)
        ]


def _with_vectors() -> sa.Join:
    return points.join(vectors, vectors.c.point_id == points.c.id)


def _mean_of_each(rows: Sequence[sa.Row[Any, Any]]) -> dict[PatternId, Vector]:
    """Return the mean vector of each pattern; rows of a pattern come together."""
    found: dict[PatternId, list[Vector]] = {}
    for pattern_id, vector in rows:
        found.setdefault(PatternId(pattern_id), []).append(np.frombuffer(vector, np.float16).astype(np.float32))
    return {pattern_id: np.mean(each, axis=0) for pattern_id, each in found.items()}
