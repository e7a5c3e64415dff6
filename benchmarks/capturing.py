"""Capturing one entry against the same insert and commit by SQLAlchemy Core alone."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from itertools import islice
from uuid import uuid4

from sqlalchemy.dialects.postgresql import insert

from benchmarks.materials import InstantEmbedder, failure, texts, throwaway
from benchmarks.rounds import Outcome, Times, interleaved, ms, timed
from knowledge.adapters.postgres.memory.entry_rows import to_row
from knowledge.adapters.postgres.memory_tables import knowledge_staging, projects
from knowledge.memory.rules.validation import content_hash, first_status
from knowledge.models import Entry, EntryId, NewEntry
from knowledge.wiring.open import Knowledge
from orchestrator.observability.progress import Stages

GOAL = 1.3
_FIELDS = tuple(field.name for field in fields(NewEntry))
_INSERT = insert(knowledge_staging)
_PROJECT = insert(projects).on_conflict_do_nothing()


async def _by_hand(knowledge: Knowledge, entry: NewEntry, *, with_project: bool) -> float:
    """Time the insert of a row that is put together beforehand; the project is there already where not inserted."""
    told = {name: getattr(entry, name) for name in _FIELDS}
    row = to_row(
        Entry(
            **{**told, "workspace": knowledge.workspace},
            entry_id=EntryId(uuid4()),
            status=first_status(entry),
            content_hash=content_hash(entry),
            captured_at=datetime.now(UTC),
        )
    )

    async def write() -> None:
        async with knowledge.engine.begin() as connection:
            if with_project:
                project = {"workspace": knowledge.workspace, "project_id": entry.project_id}
                await connection.execute(_PROJECT, project)
            await connection.execute(_INSERT, row)

    return await timed(write())


async def measure(*, rounds: int, each: int, progress: Stages) -> list[Outcome]:
    """Return how long a capture takes against the bare insert, with and without the project's row."""
    progress.stage("Capturing")
    stock = texts()
    async with throwaway(InstantEmbedder()) as knowledge:
        numbers = iter(range(10**9))

        def next_entry() -> NewEntry:
            return failure(next(numbers), next(stock))

        for text in islice(stock, 40):  # every project is there, the statement is prepared
            await knowledge.capture.capture(failure(next(numbers), text))

        async def ours(_: int) -> float:
            return await timed(knowledge.capture.capture(next_entry()))

        async def bare(_: int) -> float:
            return await _by_hand(knowledge, next_entry(), with_project=False)

        async def with_project(_: int) -> float:
            return await _by_hand(knowledge, next_entry(), with_project=True)

        against_bare = await interleaved(ours, bare, rounds=rounds, each=each)
        against_both = await interleaved(ours, with_project, rounds=rounds, each=each)
    return [
        _outcome("capture p50 / insert and commit of the same row (the stricter form)", against_bare),
        _outcome("capture p50 / upsert of the project, insert and commit", against_both),
    ]


def _outcome(name: str, times: Times) -> Outcome:
    return Outcome(
        name=name,
        ratio=times.ratio,
        goal=GOAL,
        at_most=True,
        ours=ms(times.median_of(times.ours)),
        raw=ms(times.median_of(times.raw)),
        note=f"p95 ratio {times.ratio_p95:.2f}; fsync on",
    )
