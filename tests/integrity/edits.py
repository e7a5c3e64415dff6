"""Random edits of random columns of random tables by their owner: is each that matters refused or reported."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import DBAPIError

from knowledge.adapters.postgres.admin.integrity import PostgresSeals
from knowledge.adapters.postgres.engine.database import autocommit, transaction
from knowledge.adapters.postgres.memory_tables import metadata
from knowledge.models import Task
from knowledge.wiring.open import Knowledge
from orchestrator.context.builder import OrchestratorContextBuilder
from tests.support.entries import capture, failure, rejection

WORDS = [
    "cart",
    "total",
    "login",
    "session",
    "disk",
    "build",
    "cache",
    "queue",
    "lock",
    "index",
    "token",
    "retry",
    "header",
    "timeout",
    "socket",
]
_OTHERS = {"api_keys", "job_run", "spending", "webhook_events", "pattern_maps", "pattern_places"}
"""Tables from which nothing that agents are shown is made."""


def lesson(chance: random.Random, number: int) -> Any:
    """Return a lesson about some words, with a solution that several have."""
    words = " ".join(chance.sample(WORDS, 4))
    return failure(
        failure_description=f"the {words} fails under load",
        solution_steps=f"set the {words.split()[0]} limit to {number % 5}",
        task_id=f"T-{number}",
        run_id=f"R-{number}",
        project_id=f"shop-{number % 3}",
        when_to_try=f"when the {words.split()[1]} is slow" if number % 3 == 0 else None,
    )


async def fill(knowledge: Knowledge, chance: random.Random, entries: int) -> None:
    """Learn lessons, some of them twice, hand some out, and tell what came of it."""
    lessons = [lesson(chance, number) for number in range(entries)]
    await capture(knowledge, *lessons, rejection(task_id="T-gate"))
    await knowledge.checkpoints.process_all()
    builder = OrchestratorContextBuilder(knowledge)
    for number in range(entries // 3):
        task = Task(
            description=lessons[number].failure_description or "",
            project_id="shop-1",
            task_id=f"A-{number}",
            run_id="1",
        )
        context = await builder.build_context_for_task(task, "backend")
        for pattern in context.patterns[:1]:
            await knowledge.outcomes.record_outcome(
                context.context_id, pattern.pattern_id, worked=chance.random() < 0.7
            )
    await capture(knowledge, *(lesson(chance, 1000 + number) for number in range(3)))


async def view(knowledge: Knowledge, questions: list[str]) -> tuple[Any, ...]:
    """Return what people and agents see: answers with texts, counts, order and relevance, hints, and lists."""
    seen: list[Any] = []
    for question in questions:
        found = await knowledge.queries.query_for_failure(question, min_relevance=0, max_results=10)
        seen.append([repr(pattern) for pattern in found])
        hint = await knowledge.queries.query_for_task(question, only_if_sure=True)
        seen.append([repr(pattern) for pattern in hint])
    patterns = await knowledge.lists.patterns()
    seen.append([repr(pattern) for pattern in patterns])
    return tuple(seen)


@dataclass(slots=True)
class Tally:
    """What became of the edits, and those that changed what is seen without anybody being told."""

    refused: int = 0
    reported: int = 0
    harmless: int = 0
    unnoticed: list[str] = field(default_factory=list)
    by_table: Counter[str] = field(default_factory=Counter)


def _other_value(chance: random.Random, column: sa.Column[Any], value: Any, others: list[Any]) -> Any:
    """Return another value for a column: none, one of another row, or one near it."""
    kind = chance.random()
    if kind < 0.15 and column.nullable:
        return None
    if kind < 0.45 and others:
        return chance.choice(others)
    near: dict[type, list[Any]] = {
        bool: [not value],
        int: [value + by for by in (-1, 1, 7)] if isinstance(value, int) else [],
        float: [value + by for by in (-1, 1, 7)] if isinstance(value, float) else [],
        str: [value + " again", value[::-1], value[: len(value) // 2], "forged"] if isinstance(value, str) else [],
        datetime: [value + timedelta(days=by) for by in (-400, -1, 1, 400)] if isinstance(value, datetime) else [],
        UUID: [uuid4()],
        bytes: [value[:-1] + b"x", b"x"] if isinstance(value, bytes) else [],
        list: [[], value[:1], [*value, *value]] if isinstance(value, list) else [],
        dict: [value | {"technology": "forged"}] if isinstance(value, dict) else [],
    }
    for kind_of_value, values in near.items():
        if isinstance(value, kind_of_value):
            return chance.choice(values)
    return True if isinstance(column.type, sa.Boolean) else "forged"


class Owner:
    """Edits rows, and puts them back."""

    def __init__(self, knowledge: Knowledge, chance: random.Random) -> None:
        self._engine = knowledge.engine
        self._chance = chance
        self._tables = [table for name, table in sorted(metadata.tables.items()) if name not in _OTHERS]
        self._tables = [table for table in self._tables if not table.name.startswith(("kb_", "answer", "qa_", "escal"))]

    async def edit(self) -> tuple[str, sa.Update | None]:
        """Edit a column of a row; return what was done, and how to undo it: None where it was refused."""
        table = self._chance.choice(self._tables)
        columns = [column for column in table.c if column.computed is None and column.identity is None]
        column = self._chance.choice(columns)
        async with autocommit(self._engine) as connection:
            rows = (await connection.execute(sa.select(table).order_by(sa.func.random()).limit(5))).mappings().all()
        if not rows:
            return f"{table.name} is empty", None
        row, others = rows[0], [each[column.name] for each in rows[1:]]
        old = row[column.name]
        new = _other_value(self._chance, column, old, others)
        what = f"{table.name}.{column.name}: {str(old)[:60]!r} -> {str(new)[:60]!r}"
        if new == old:
            return what, None
        keys = {key.name: row[key.name] for key in table.primary_key}
        value = sa.null() if new is None and isinstance(column.type, JSONB) else new
        edit = (
            sa.update(table).where(*(table.c[name] == key for name, key in keys.items())).values({column.name: value})
        )
        after = keys | ({column.name: new} if column.name in keys else {})
        undo = sa.update(table).where(*(table.c[name] == key for name, key in after.items()))
        try:
            async with transaction(self._engine) as connection:
                await connection.execute(edit)
        except Exception as error:
            if not isinstance(error, DBAPIError) and not hasattr(error, "__cause__"):
                raise
            return what, None
        return what, undo.values({column.name: sa.null() if old is None else old})

    async def undo(self, undo: sa.Update) -> None:
        """Put a row back."""
        async with transaction(self._engine) as connection:
            await connection.execute(undo)


async def problems(knowledge: Knowledge) -> tuple[str, ...]:
    """Return what verify and the audit log report."""
    found = list((await PostgresSeals(knowledge.engine).verify(knowledge.workspace)).problems)
    for whole_store in (False, True):
        found += (await knowledge.audits.verify(whole_store=whole_store)).problems
    return tuple(found)


async def try_edits(knowledge: Knowledge, edits: int, seed: int) -> Tally:
    """Fill a store, edit it so often, one edit at a time, and return what became of each."""
    chance, tally = random.Random(seed), Tally()
    await fill(knowledge, chance, 30)
    questions = [" ".join(chance.sample(WORDS, 3)) for _ in range(4)]
    assert await problems(knowledge) == (), "an honest store is taken for altered"
    before = await view(knowledge, questions)
    owner = Owner(knowledge, chance)
    for _ in range(edits):
        what, undo = await owner.edit()
        if undo is None:
            tally.refused += 1
            continue
        tally.by_table[what.partition(".")[0]] += 1
        if await problems(knowledge):
            tally.reported += 1
        elif not await _changes(knowledge, questions, before):
            tally.harmless += 1
        elif (await knowledge.upkeep.verify()).sound:
            tally.unnoticed.append(what)
        else:
            tally.reported += 1
        await owner.undo(undo)
    return tally


async def _changes(knowledge: Knowledge, questions: list[str], before: tuple[Any, ...]) -> bool:
    try:
        return await view(knowledge, questions) != before
    except Exception:  # noqa: BLE001 - refused, whatever by
        return False
