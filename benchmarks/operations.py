"""Every operation of the memory, and what Postgres reads for each, by its own counters."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count, pairwise
from typing import Any

import asyncpg
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from benchmarks.materials import AGENTS, TASKS, TECHNOLOGIES, failure
from hardwon.models.access import EntryFilter
from hardwon.models.tasks import Task
from jobs.table import run_job
from knowledge.adapters.postgres.engine.database import autocommit
from knowledge.models import CheckpointType, ContextId, EntryId, PatternId
from knowledge.wiring.open import Knowledge
from orchestrator.context.builder import OrchestratorContextBuilder

Operation = Callable[[], Awaitable[object]]
Statements = list[tuple[str, Any]]

_READ = sa.text("""
    SELECT t.relname, coalesce(t.seq_tup_read, 0)::bigint AS whole, coalesce(sum(i.idx_tup_read), 0)::bigint AS by_index
    FROM pg_stat_user_tables t LEFT JOIN pg_stat_user_indexes i USING (relid)
    GROUP BY t.relname, t.seq_tup_read
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Rows that Postgres read for an operation, by table: of whole tables, and by their indexes."""

    whole: Mapping[str, int]
    by_index: Mapping[str, int]

    @property
    def most(self) -> tuple[int, str]:
        """The most rows read of one table, and its name."""
        each = Counter(self.whole) + Counter(self.by_index)
        return max(((rows, table) for table, rows in each.items()), default=(0, ""))


@contextmanager
def statements(engine: AsyncEngine) -> Iterator[Statements]:
    """Keep the statements sent meanwhile, with their parameters."""
    sent: Statements = []

    def keep(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:  # noqa: FBT001
        sent.append((statement, parameters))

    sa.event.listen(engine.sync_engine, "before_cursor_execute", keep)
    try:
        yield sent
    finally:
        sa.event.remove(engine.sync_engine, "before_cursor_execute", keep)


async def read_rows(knowledge: Knowledge, operation: Operation) -> Reading:
    """Return what Postgres reads for an operation, triggers and foreign keys included."""
    before = await _counters(knowledge.engine)
    await operation()
    after = await _counters(knowledge.engine)
    whole, by_index = (
        {
            table: read[place] - before[table][place]
            for table, read in after.items()
            if read[place] > before[table][place]
        }
        for place in (0, 1)
    )
    return Reading(whole=whole, by_index=by_index)


async def _counters(engine: AsyncEngine) -> dict[str, tuple[int, int]]:
    await engine.dispose()  # a process reports what it counted when it ends, else within ten seconds
    async with autocommit(engine) as connection:
        while await connection.scalar(_OTHERS):  # noqa: ASYNC110 - Postgres has no event to wait for
            await asyncio.sleep(0.02)
        rows = await connection.execute(_READ)
        return {row.relname: (row.whole, row.by_index) for row in rows}


_OTHERS = sa.text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND backend_type = 'client backend'"
)


class Operations:
    """The operations on a filled store; each can be repeated, and does something new each time."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._numbers = count(10_000_000)
        self._builder = OrchestratorContextBuilder(knowledge, deadline=timedelta(seconds=30))

    def table(self) -> dict[str, Operation]:
        """Return the operations by their names, in the order in which one leaves something for the next."""
        k = self._knowledge
        return {
            "capture": self.capture,
            "capture of a batch": lambda: self.capture_many(200),
            "checkpoint": k.checkpoints.process_all,
            "checkpoint of a project": self.checkpoint_project,
            "query for a task": self.query,
            "query for a failure": lambda: k.queries.query_for_failure(self._text(), None, AGENTS[0]),
            "query for a gate": lambda: k.queries.query_for_gate("security review", self._text()),
            "context": self.context,
            "outcome": self.outcome,
            "task failed and solved": self.fail_and_solve,
            "unresolved entries": lambda: k.capture.unresolved(limit=20),
            "entries under review": lambda: k.reviews.waiting(limit=20),
            "dead entries": lambda: k.upkeep.dead(20),
            "patterns, a page": self.browse,
            "patterns by problem, two pages": self.browse_by_problem,
            "patterns to join": lambda: k.grouping.suggest(limit=20),
            "a pattern's details": self.details,
            "contexts, two pages": self.list_contexts,
            "contexts of a project": lambda: k.contexts.list(project_id="project-3", limit=20),
            "contexts held out": lambda: k.contexts.list(reason="held_out", limit=20),
            "a context's choice": self.show_context,
            "stats": k.stats,
            "stats of the whole store's workspaces": k.workspaces,
            "is anything there": k.holds_anything,
            "frequent patterns": k.reviews.alarms,
            "alarms of keys": k.reviews.key_alarms,
            "affected by an entry": self.affected,
            "revocation of an entry": self.revoke,
            "deletion of an entry": self.delete,
            "deletion of a pattern": self.delete_pattern,
            "dry prune": lambda: k.pruning.prune(dry_run=True),
            "prune": k.pruning.prune,
            **{f"job {name}": self._job(name) for name in ("sweep", "index", "reconcile", "sweep_cases")},
        }

    async def capture(self) -> EntryId:
        """Capture one entry."""
        return await self._knowledge.capture.capture(failure(next(self._numbers), self._text()))

    async def capture_many(self, number: int) -> object:
        """Capture a batch."""
        return await self._knowledge.capture.capture_all(
            [failure(next(self._numbers), self._text()) for _ in range(number)]
        )

    async def checkpoint_project(self) -> object:
        """Capture for a project, and embed what it has."""
        entry = replace(failure(next(self._numbers), self._text()), project_id="project-7")
        await self._knowledge.capture.capture(entry)
        return await self._knowledge.checkpoints.process_checkpoint("project-7", CheckpointType.PHASE_COMPLETION)

    async def query(self) -> object:
        """Ask as an orchestrator does."""
        number = next(self._numbers)
        fields = (AGENTS[number % 4], TASKS[number % 3], TECHNOLOGIES[number % 3])
        return await self._knowledge.queries.query_for_task(self._text(), *fields, min_relevance=0)

    async def context(self) -> object:
        """Build the context of a task."""
        return await self._builder.build(self._task(), AGENTS[0])

    async def outcome(self) -> object:
        """Report that a pattern of a stored context worked."""
        handed_out = await self._recent_context()
        return await self._knowledge.outcomes.record_outcome(
            ContextId(handed_out.context_id), PatternId(handed_out.shown[0]), worked=True, task_id=self._text()
        )

    async def fail_and_solve(self) -> None:
        """Tell that a task failed, and then that it was solved."""
        task, events = f"E-{next(self._numbers)}", self._knowledge.events
        await events.task_failed(
            project_id="project-3", task_id=task, agent_type=AGENTS[0], failure_description=self._text()
        )
        await events.task_solved(
            project_id="project-3", task_id=task, solution_steps="Pin the version.", verified_by="pytest"
        )

    async def browse(self) -> object:
        """List two pages of patterns."""
        page = await self._knowledge.lists.patterns(limit=20)
        return await self._knowledge.lists.patterns(after=page[-1].pattern_id, limit=20)

    async def browse_by_problem(self) -> object:
        """List the second page of patterns, by the words of their problems."""
        page = await self._knowledge.lists.patterns(sort="problem", limit=20)
        return await self._knowledge.lists.patterns(sort="problem", after=page[-1].pattern_id, limit=20)

    async def details(self) -> object:
        """Show a pattern with its entries."""
        (pattern,) = await self._knowledge.lists.patterns(limit=1)
        return await self._knowledge.grouping.show(pattern.pattern_id)

    async def list_contexts(self) -> object:
        """List two pages of contexts."""
        page = await self._knowledge.contexts.list(limit=20)
        return await self._knowledge.contexts.list(limit=20, after=page[-1].context_id)

    async def show_context(self) -> object:
        """Show how a context was chosen."""
        (last,) = await self._knowledge.contexts.list(limit=1)
        return await self._knowledge.contexts.show(last.context_id)

    async def affected(self) -> object:
        """List the tasks that were shown an entry."""
        return await self._knowledge.revocations.affected(EntryFilter(entry_id=await self.capture()), limit=20)

    async def revoke(self) -> object:
        """Revoke one entry."""
        return await self._knowledge.revocations.revoke(EntryFilter(entry_id=await self.capture()))

    async def delete(self) -> None:
        """Delete an entry that is embedded."""
        (pattern,) = await self._knowledge.lists.patterns(limit=1)
        details = await self._knowledge.grouping.show(pattern.pattern_id)
        await self._knowledge.capture.delete(details.entries[0].entry_id)

    async def delete_pattern(self) -> None:
        """Delete a pattern with its entries."""
        (pattern,) = await self._knowledge.lists.patterns(limit=1)
        await self._knowledge.capture.delete_pattern(pattern.pattern_id)

    def _job(self, name: str) -> Operation:
        return lambda: run_job(self._knowledge, name, once_per_slot=False)

    def _task(self) -> Task:
        number = next(self._numbers)
        return Task(
            description=self._text(),
            type=TASKS[0],
            technology=TECHNOLOGIES[0],
            project_id="project-3",
            task_id=f"Q-{number}",
            run_id="1",
        )

    async def _recent_context(self) -> Any:
        for found in await self._knowledge.contexts.list(limit=50):
            if found.shown:
                return found
        raise AssertionError("no context of the last fifty holds a pattern")

    def _text(self) -> str:
        number = next(self._numbers)
        return f"Traceback in module_{number}: import of the config fails with ValueError, variant{number % 1000:x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What Postgres plans for a statement: the indexes it uses, and the tables it reads whole."""

    indexes: tuple[str, ...]
    whole_tables: tuple[str, ...]


async def explain(engine: AsyncEngine, statement: str, parameters: Any) -> tuple[Plan, str]:
    """Return the plan of a statement with its parameters, and as Postgres prints it."""
    async with _driver(engine) as connection:
        rows = await connection.fetch(f"EXPLAIN {statement}", *parameters)
    text = "\n".join(row[0] for row in rows)
    words = text.replace("\n", " ").split()
    indexes = {word for before, word in pairwise(words) if before in {"using", "Index"}}
    whole = {
        words[at + 2].removeprefix("public.")
        for at, word in enumerate(words[:-2])
        if word == "Scan" and words[at - 1] == "Seq"
    }
    return Plan(indexes=tuple(sorted(indexes)), whole_tables=tuple(sorted(whole))), text


@asynccontextmanager
async def _driver(engine: AsyncEngine) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    async with engine.connect() as connection:
        driver = (await connection.get_raw_connection()).driver_connection
        assert isinstance(driver, asyncpg.Connection)
        yield driver
