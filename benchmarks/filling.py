"""A large store soon: a few entries captured and embedded for real, then multiplied by COPY, with ids and vectors anew.

What is copied is what a capture and a checkpoint leave behind: an entry with its profile, its pattern, its point with
the vector, its record, and the words of its text; for some a context that was handed out, with its outcome. The ids are
derived as a checkpoint derives them, and each text has a word that no other has, so `verify` finds nothing to repair.
A copy has the technology of its seed, as a situation has, and other agents, tasks and projects.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final
from uuid import UUID

import asyncpg
import numpy as np
import sqlalchemy as sa

from benchmarks.materials import AGENTS, TASKS, failure, texts
from knowledge.adapters.postgres.admin.integrity import PostgresSeals
from knowledge.adapters.postgres.engine.database import autocommit, transaction
from knowledge.adapters.postgres.memory.counts import fold_counters
from knowledge.adapters.postgres.memory.entry_rows import ENTRY_COLUMNS, to_entry
from knowledge.adapters.postgres.memory.spaces import add_terms
from knowledge.adapters.postgres.memory_tables import (
    contexts,
    entry_profiles,
    knowledge_staging,
    outcomes,
    patterns,
    points,
    records,
    vectors,
)
from knowledge.memory.index.points import from_stored
from knowledge.memory.rules import embedding_text
from knowledge.memory.rules.arms import situation_key
from knowledge.memory.rules.retention import add_years
from knowledge.models import (
    DEFAULT_WORKSPACE,
    BoundSpace,
    Entry,
    EntryId,
    Point,
    StoredPoint,
    Vector,
    View,
    pattern_id_of,
    point_id_of,
)
from knowledge.ports import Progress
from knowledge.wiring.open import Knowledge

SMALL_TENANT: Final = "small-tenant"
"""The workspace of one entry in ten; the others are in the default one."""
MAX_SEEDS: Final = 2_000
_CHUNK: Final = 1_000
_SPAN: Final = timedelta(days=300)
"""The time over which entries were captured: none is expired, and the oldest will be in two months."""
_ENTRIES_OF_PROJECT: Final = 1_000
_NOISE: Final = 0.04
"""Standard deviation of what is added to each component of a copied unit vector: the cosine to the first is 0.79."""
_CONTEXT_EVERY: Final = 5
_FILL: Final = (knowledge_staging, entry_profiles, patterns, points, vectors, records, contexts, outcomes)
_ORDER: Final = (patterns, knowledge_staging, entry_profiles, points, vectors, contexts, outcomes, records)
"""Tables in the order of their foreign keys; `outcomes` has records, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """An entry that was embedded for real, with the rows that it left."""

    entry: Entry
    staged: Mapping[str, Any]
    profile: Mapping[str, Any]
    pattern: Mapping[str, Any]
    record: Mapping[str, Any]
    view: View
    vector: Vector


async def fill(knowledge: Knowledge, entries: int, *, progress: Progress | None = None) -> list[Seed]:
    """Bring an empty store to this many embedded entries in both stores; return those that were embedded for real."""
    number = min(MAX_SEEDS, entries)
    stock = list(islice(texts(), number))
    for start in range(0, number, _CHUNK):
        chunk = stock[start : start + _CHUNK]
        await knowledge.capture.capture_all([failure(start + at, text) for at, text in enumerate(chunk)])
    await knowledge.checkpoints.process_all()
    seeds = await read_seeds(knowledge)
    await multiply(knowledge, seeds, entries - number, progress=progress)
    async with autocommit(knowledge.engine) as connection:
        for workspace in (DEFAULT_WORKSPACE, SMALL_TENANT):
            await fold_counters(connection, workspace)
        await connection.execute(sa.text("VACUUM ANALYZE"))
    return seeds


async def read_seeds(knowledge: Knowledge) -> list[Seed]:
    """Return the embedded entries of a workspace that founded a pattern, with their rows."""
    own = (knowledge_staging.c.id == patterns.c.founding_entry_id, patterns.c.workspace == knowledge.workspace)
    ids = sa.select(knowledge_staging.c.id, patterns.c.id.label("pattern_id"), points.c.id.label("point_id"))
    joined = ids.where(*own, points.c.pattern_id == patterns.c.id, points.c.view == View.SITUATION)
    async with autocommit(knowledge.engine) as connection:

        async def by_id(table: sa.Table, key: str) -> dict[UUID, Mapping[str, Any]]:
            rows = (await connection.execute(sa.select(table))).mappings()
            return {row[key]: dict(row) for row in rows}

        staged = await by_id(knowledge_staging, "id")
        profiles, founded = await by_id(entry_profiles, "entry_id"), await by_id(patterns, "id")
        stored, told = await by_id(vectors, "point_id"), await by_id(records, "id")
        entries = {row.entry_id: to_entry(row) for row in await connection.execute(sa.select(*ENTRY_COLUMNS))}
        return [
            Seed(
                entry=entries[row.id],
                staged=staged[row.id],
                profile=profiles[row.id],
                pattern=founded[row.pattern_id],
                record=told[row.id],
                view=View.SITUATION,
                vector=np.frombuffer(stored[row.point_id]["vector"], dtype=np.float16).astype(np.float32),
            )
            for row in (await connection.execute(joined)).all()
        ]


async def multiply(
    knowledge: Knowledge, seeds: Sequence[Seed], entries: int, *, progress: Progress | None = None
) -> None:
    """Add this many copies of the seeds to Postgres by COPY, and their points to the index."""
    bound = await knowledge.stores.spaces.bound()
    assert bound is not None
    maker = _Copies(seeds=seeds, bound=bound, of_all=entries + len(seeds))
    await _add_projects(knowledge, maker.projects)
    for start in range(0, entries, _CHUNK):
        rows, batch = maker.make(range(start, min(start + _CHUNK, entries)))
        copying = asyncio.create_task(_copy(knowledge, rows))
        await asyncio.sleep(0)
        await knowledge.stores.index.upsert(bound.space, batch)
        await copying
        if progress:
            progress(start + _CHUNK, entries)
    for workspace, counted in maker.terms.items():
        async with transaction(knowledge.engine) as connection:
            await add_terms(connection, workspace, counted, maker.documents[workspace])
    await PostgresSeals(knowledge.engine).adopt(anew=False)


async def _add_projects(knowledge: Knowledge, projects: int) -> None:
    add = sa.text(
        "INSERT INTO projects (workspace, project_id) SELECT workspace, 'project-' || number"
        " FROM unnest(CAST(:workspaces AS text[])) AS workspace, generate_series(0, :last) AS number"
        " ON CONFLICT DO NOTHING"
    )
    async with transaction(knowledge.engine) as connection:
        await connection.execute(add, {"workspaces": [DEFAULT_WORKSPACE, SMALL_TENANT], "last": projects - 1})


async def _copy(knowledge: Knowledge, rows: Mapping[str, list[tuple[Any, ...]]]) -> None:
    async with transaction(knowledge.engine) as connection:
        await connection.execute(sa.text("SET LOCAL synchronous_commit = off"))
        driver = (await connection.get_raw_connection()).driver_connection
        assert isinstance(driver, asyncpg.Connection)
        for table in _ORDER:
            if rows[table.name]:
                await driver.copy_records_to_table(table.name, records=rows[table.name], columns=_columns(table))


def _columns(table: sa.Table) -> list[str]:
    return [column.name for column in table.c if column.computed is None]


def _digest(*parts: object) -> str:
    return hashlib.sha1("\0".join(map(str, parts)).encode(), usedforsecurity=False).hexdigest()


class _Copies:
    """Makes copies of seeds: rows for Postgres, points for the index, and counts of their terms."""

    def __init__(self, *, seeds: Sequence[Seed], bound: BoundSpace, of_all: int) -> None:
        self._seeds = seeds
        self._bound = bound
        self._of_all = of_all
        self._newest = datetime.now(UTC)
        self._chance = np.random.default_rng(41)
        self.projects = max(20, of_all // _ENTRIES_OF_PROJECT)
        self.terms: dict[str, Counter[int]] = {DEFAULT_WORKSPACE: Counter(), SMALL_TENANT: Counter()}
        self.documents: Counter[str] = Counter()

    def make(self, numbers: range) -> tuple[dict[str, list[tuple[Any, ...]]], list[Point]]:
        """Return the rows and the points of the copies with these numbers."""
        rows: dict[str, list[tuple[Any, ...]]] = {table.name: [] for table in _FILL}
        shape = (len(numbers), self._bound.space.dims)
        noise = self._chance.standard_normal(shape, dtype=np.float32) * np.float32(_NOISE)
        batch = []
        for number, each in zip(numbers, noise, strict=True):
            seed = self._seeds[number % len(self._seeds)]
            vector = seed.vector + each
            vector /= np.linalg.norm(vector)
            of_entry = self._copy(seed, number, vector.astype(np.float16))
            for table, row in of_entry.rows():
                rows[table.name].append(tuple(row.get(name) for name in _columns_of(table)))
            point = of_entry.point(self._bound.mean_terms)
            self.terms[of_entry.workspace].update(point.lexical.indices)
            self.documents[of_entry.workspace] += 1
            batch.append(point)
        return rows, batch

    def _copy(self, seed: Seed, number: int, vector: Vector) -> _Copy:
        workspace = SMALL_TENANT if number % 10 == 0 else DEFAULT_WORKSPACE
        # of ten in turn one is the small tenant's: divided, or its entries would all be of some fields
        turn = number // 10 + number % 10
        at = self._newest - _SPAN * (1 - number / self._of_all) - timedelta(hours=1)
        entry = replace(
            seed.entry,
            entry_id=EntryId(UUID(hex=_digest("entry", number)[:32])),
            failure_description=f"{seed.entry.failure_description}\nvariant{number:x}",
            agent_type=AGENTS[turn % len(AGENTS)],
            task_type=TASKS[turn // 2 % len(TASKS)],
            project_id=f"project-{turn % self.projects}",
            task_id=f"C-{number}",
            captured_at=at,
        )
        return _Copy(
            seed=seed,
            entry=entry,
            workspace=workspace,
            number=number,
            vector=vector,
            space=self._bound.space.fingerprint,
        )


class _Copy:
    """One copy of a seed."""

    def __init__(self, *, seed: Seed, entry: Entry, workspace: str, number: int, vector: Vector, space: str) -> None:
        self.workspace = workspace
        self._seed, self._entry, self._number, self._vector, self._space = seed, entry, number, vector, space
        self._embedded_at = entry.captured_at + timedelta(minutes=10)
        self._expires_at = add_years(self._embedded_at, 1)
        self._pattern = pattern_id_of(workspace, entry.entry_id)
        self._text = embedding_text.normalise(embedding_text.views(entry)[seed.view])
        self._point = point_id_of(workspace, self._pattern, seed.view, self._text)

    def point(self, mean_terms: float) -> Point:
        """Return the point of the copy."""
        stored = StoredPoint(
            point_id=self._point,
            view=self._seed.view,
            entry=self._entry,
            vector=self._vector.astype(np.float32),
            embedded_at=self._embedded_at,
            expires_at=self._expires_at,
            settled=True,
            pending=False,
        )
        assert stored.vector is not None
        return from_stored(stored, stored.vector, workspace=self.workspace, mean_terms=mean_terms)

    def rows(self) -> Iterator[tuple[sa.Table, Mapping[str, Any]]]:
        """Yield the rows that a capture, a checkpoint and, of some, a context and its outcome leave behind."""
        seed, entry, number = self._seed, self._entry, self._number
        ours = {"workspace": self.workspace}
        told = {
            "id": entry.entry_id,
            "project_id": entry.project_id,
            "agent_type": entry.agent_type,
            "task_type": entry.task_type,
            "technology": entry.technology,
            "failure_description": entry.failure_description,
            "task_id": entry.task_id,
            "content_hash": _digest(seed.staged["content_hash"], number),
            "timestamp": entry.captured_at,
            "pattern_id": self._pattern,
            "point_ids": [self._point],
            "embedded_at": self._embedded_at,
            "expires_at": self._expires_at,
        }
        yield knowledge_staging, {**seed.staged, **ours, **told, "seal": None}
        yield entry_profiles, {**seed.profile, **ours, "entry_id": entry.entry_id}
        turn = number // 10 + number % 10
        tried, worked = turn % (2 * _CONTEXT_EVERY) == 1, turn % (6 * _CONTEXT_EVERY) != 1
        founded = {
            "id": self._pattern,
            "match_key": _digest(seed.pattern["match_key"], number),
            "founding_entry_id": entry.entry_id,
            "founded_at": self._embedded_at,
            "attempt_count": 1 + tried,
            "success_count": 1 + (tried and worked),
            "project_count": 1,
        }
        yield patterns, {**seed.pattern, **ours, **founded}
        times = {"embedded_at": self._embedded_at, "expires_at": self._expires_at}
        point = {
            "id": self._point,
            "pattern_id": self._pattern,
            "view": seed.view.value,
            "counted": True,
            "look_at": None,
        }
        yield points, {**ours, **point, **times}
        yield vectors, {"point_id": self._point, "space": self._space, "vector": self._vector.tobytes()}
        of_entry = {
            "id": entry.entry_id,
            "entry_id": entry.entry_id,
            "point_id": self._point,
            "situation_key": situation_key(self._text),
            "agent_type": entry.agent_type,
            "project_id": entry.project_id,
            "task_id": entry.task_id,
            "recorded_at": entry.captured_at,
        }
        record = {**seed.record, **ours, **of_entry}
        yield records, record
        if turn % _CONTEXT_EVERY == 1:
            yield from self._context(record, tried=tried, worked=worked)

    def _context(
        self, record: Mapping[str, Any], *, tried: bool, worked: bool
    ) -> Iterator[tuple[sa.Table, Mapping[str, Any]]]:
        """Yield a context in which the pattern was handed out and, if it was tried, its outcome."""
        context_id = UUID(hex=_digest("context", self._number)[:32])
        task = {
            "workspace": self.workspace,
            "project_id": self._entry.project_id,
            "task_id": f"U-{self._number}",
            "run_id": "1",
        }
        yield (
            contexts,
            {
                **task,
                "id": context_id,
                "agent_type": self._entry.agent_type,
                "pattern_ids": [self._pattern],
                "entry_ids": [self._entry.entry_id],
                "created_at": self._embedded_at,
                "reason": "spoke",
                "situation_key": None,
                "point_id": self._point,
                "choice": None,
                "near": None,
            },
        )
        if tried:
            outcome_id = UUID(hex=_digest("outcome", self._number)[:32])
            at = self._embedded_at + timedelta(minutes=10)
            report = {"worked": worked, "recorded_at": at, "recorded_by": None, "low_trust": False}
            yield outcomes, {**task, **report, "id": outcome_id, "context_id": context_id, "pattern_id": self._pattern}
            of_outcome = {"id": outcome_id, "entry_id": None, "outcome_id": outcome_id, "is_exact": False}
            yield records, {**record, **task, **report, **of_outcome, "situation_key": None}


_NAMES: Final = {table.name: _columns(table) for table in _FILL}


def _columns_of(table: sa.Table) -> list[str]:
    return _NAMES[table.name]
