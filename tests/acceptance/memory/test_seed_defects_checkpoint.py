"""The design's defects at checkpoints and in pruning, each proven absent on the real stores."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from hardwon.errors import NotFound
from knowledge.models import EntryStatus, NewEntry
from knowledge.wiring.open import Knowledge
from tests.conftest import Opens, SetClock
from tests.support.embedders import HashingEmbedder
from tests.support.entries import CART, capture, failure, learn


async def number(knowledge: Knowledge, query: str) -> int:
    """Return what Postgres counts, past all services."""
    async with knowledge.engine.connect() as connection:
        return int((await connection.execute(sa.text(query))).scalar_one())


def many(count: int, **told: Any) -> list[NewEntry]:
    """Return failures that have nothing to do with each other."""
    return [
        failure(failure_description=f"failure of part {n}", solution_steps=f"fix {n}", **told) for n in range(count)
    ]


async def points(knowledge: Knowledge) -> int | None:
    return (await knowledge.stats()).points


@pytest.fixture
async def small(opens: Opens, embedder: HashingEmbedder) -> AsyncIterator[Knowledge]:
    """The services with batches of eight."""
    async with opens(embedder=embedder, checkpoint_batch=8) as opened:
        yield opened


@pytest.mark.long
@pytest.mark.parametrize(
    ("embedded_at", "end"),
    [
        ("2024-02-29T12:00:00+00:00", "2025-02-28T12:00:00+00:00"),
        ("2023-03-01T00:00:00+00:00", "2024-03-01T00:00:00+00:00"),  # 366 days
        ("2024-02-28T23:59:59.999999+00:00", "2025-02-28T23:59:59.999999+00:00"),
        ("2025-03-09T07:30:00+00:00", "2026-03-09T07:30:00+00:00"),  # clocks are put forward in New York
    ],
)
async def test_knowledge_lives_for_one_calendar_year_to_the_microsecond(
    knowledge: Knowledge, clock: SetClock, embedded_at: str, end: str
) -> None:
    """D8: 365 days are not a year. In both stores, and whatever the pruner's hour."""
    clock.time = datetime.fromisoformat(embedded_at)
    (entry_id,) = await learn(knowledge, failure())
    entry = await knowledge.capture.get(entry_id)
    over = datetime.fromisoformat(end)
    assert (entry.embedded_at, entry.expires_at) == (clock.time, over)

    clock.time = over - timedelta(microseconds=1)
    assert await knowledge.pruning.prune_old_knowledge() == 0
    assert (await knowledge.queries.query_for_failure(CART))[0].entry_ids == (entry_id,)
    clock.time = over
    assert await knowledge.queries.query_for_failure(CART, min_relevance=0) == []
    assert await knowledge.pruning.prune_old_knowledge() == 1
    assert await points(knowledge) == 0


@pytest.mark.long
async def test_what_is_pruned_is_gone_from_both_stores_and_nothing_younger_is(
    knowledge: Knowledge, clock: SetClock
) -> None:
    """D10: the design pruned the index alone, so a rebuild would have brought everything back."""
    (old,) = await learn(knowledge, failure(task_description="An old task"))
    clock.move(timedelta(days=1))
    (young,) = await learn(knowledge, failure(solution_steps="Another way"))
    clock.move(timedelta(days=364, hours=1))
    foreseen = await knowledge.pruning.prune(dry_run=True)
    assert (await knowledge.capture.get(old)).entry_id == old, "a dry run deletes nothing"
    report = await knowledge.pruning.prune()
    assert (report.entries, report.points, report.patterns) == (1, 2, 1)
    assert (foreseen.entries, foreseen.points, foreseen.patterns) == (1, 2, 1)

    with pytest.raises(NotFound):
        await knowledge.capture.get(old)
    assert await number(knowledge, "SELECT count(*) FROM points") == await points(knowledge) == 1
    (found,) = await knowledge.queries.query_for_failure(CART, min_relevance=0)
    assert found.entry_ids == (young,)
    assert (await knowledge.pruning.prune()).entries == 0


@pytest.mark.long
async def test_what_was_embedded_is_never_embedded_again(small: Knowledge, embedder: HashingEmbedder) -> None:
    """D23: the design never marked an entry, so each checkpoint paid for all of them again."""
    await learn(small, *many(20))
    calls, texts = embedder.calls, embedder.texts
    assert texts == 20
    for kind in ("manual", "phase_completion", "project_completion", "cancellation"):
        assert (await small.checkpoints.process_checkpoint("web-shop", kind)).embedded == 0
    assert (embedder.calls, embedder.texts) == (calls, texts)
    await learn(small, failure(failure_description="a new one"))
    assert embedder.texts == 21
    assert (
        await number(small, "SELECT count(*) FROM knowledge_staging WHERE embedded AND embedded_at IS NOT NULL") == 21
    )


@pytest.mark.long
async def test_checkpoints_side_by_side_embed_each_entry_once(small: Knowledge, embedder: HashingEmbedder) -> None:
    """D24: the design had no lease, so two checkpoints embedded everything twice."""
    await capture(small, *many(40))
    reports = await asyncio.gather(*(small.checkpoints.process_all() for _ in range(4)))
    assert sum(report.embedded for report in reports) == sum(report.founded for report in reports) == 40
    assert embedder.texts == 40
    assert await number(small, "SELECT max(attempts) FROM knowledge_staging") == 1
    assert await number(small, "SELECT count(*) FROM points") == await points(small) == 40


@pytest.mark.long
@pytest.mark.parametrize("written_first", [True, False])
async def test_an_entry_deleted_while_it_is_embedded_does_not_come_back(
    small: Knowledge, monkeypatch: pytest.MonkeyPatch, *, written_first: bool
) -> None:
    """D25: a slow checkpoint must not resurrect what a person deleted, just before or after its points were written."""
    gone, *rest = await capture(small, *many(3))
    upsert = small.stores.index.upsert

    async def and_it_is_deleted(*space_and_points: Any) -> None:
        if written_first:
            await upsert(*space_and_points)
        await small.capture.delete(gone)
        if not written_first:
            await upsert(*space_and_points)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(small.stores.index, "upsert", and_it_is_deleted)
        report = await small.checkpoints.process_all()
    assert report.embedded == len(rest)
    assert await number(small, "SELECT count(*) FROM points WHERE look_at IS NULL") == await points(small) == 2
    found = await small.queries.query_for_failure("failure of part 0", min_relevance=0)
    assert {entry_id for pattern in found for entry_id in pattern.entry_ids} == set(rest)


@pytest.mark.long
async def test_a_poisoned_entry_is_buried_alone_with_the_reason(opens: Opens) -> None:
    """D28: the design's first exception ended the checkpoint for all."""
    embedder = HashingEmbedder(dims=64, refuses="nitroglycerine")
    async with opens(embedder=embedder) as knowledge:
        entries = many(64)
        entries[41] = failure(failure_description="a load of nitroglycerine")
        ids = await capture(knowledge, *entries)
        report = await knowledge.checkpoints.process_all()
        assert (report.embedded, report.dead) == (63, 1)
        assert [dead.entry_id for dead in report.dead_entries] == [ids[41]]
        assert embedder.calls <= 1 + 2 * math.log2(64), "halved, not sent one by one"
        buried = await knowledge.capture.get(ids[41])
        assert buried.status is EntryStatus.DEAD
        assert "nitroglycerine" in (buried.dead_reason or "")
        before = embedder.calls
        assert (await knowledge.checkpoints.process_all()).dead == 0
        assert embedder.calls == before, "the dead are not tried again by themselves"


@pytest.mark.long
async def test_a_lesson_several_tell_before_one_checkpoint_is_found_by_its_own_words(
    knowledge: Knowledge, clock: SetClock
) -> None:
    """D32: counted as one situation, whoever told it first."""
    for number_of_lesson in range(6):
        for project in "abc":
            await capture(knowledge, failure(project_id=project, failure_description=f"lesson {number_of_lesson}"))
            clock.move(timedelta(seconds=1))
    report = await knowledge.checkpoints.process_all()
    assert (report.embedded, report.founded) == (18, 6)
    assert (await knowledge.stores.spaces.statistics([])).documents == 6
    for number_of_lesson in range(6):
        found = await knowledge.queries.query_for_failure(f"lesson {number_of_lesson}")
        assert found[0].problem == f"lesson {number_of_lesson}"
        assert found[0].success_count == 3
