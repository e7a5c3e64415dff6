"""Many at once on the same patterns: nobody starves, nobody waits in a circle, and nobody is cancelled half-way."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from hardwon.errors import NotFound, StorageUnavailable
from knowledge.adapters.postgres.engine.database import autocommit
from knowledge.models import Context, EntryId, NewEntry, PatternId, Task
from knowledge.wiring.open import Knowledge
from orchestrator.context.builder import OrchestratorContextBuilder
from tests.conftest import Opens
from tests.support.embedders import HashingEmbedder
from tests.support.entries import CART, capture, failure, learn
from tests.support.faults import Trips, Wired, wired

MOON = failure(task_id="2", failure_description="the moon fell", solution_steps="put it up again")


def lessons(count: int, of: str = "a") -> list[NewEntry]:
    return [
        failure(failure_description=f"part {n} broke", solution_steps=f"mend part {n}", task_id=f"{of}{n}")
        for n in range(count)
    ]


async def context_of(knowledge: Knowledge, project: str = "web-shop") -> Context:
    task = Task(description=CART, type="bugfix", technology="python", project_id=project, task_id="T")
    return await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "backend")


@pytest.mark.long
async def test_g9_captures_go_on_while_an_index_that_hangs_holds_up_deletions(knowledge: Knowledge) -> None:
    """G9."""
    ids = await learn(knowledge, *lessons(40))
    hanging, answers = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        hanging.set()
        await answers.wait()

    capturing = wired(knowledge, Trips({"index.delete:before:1": hang})).capture  # whichever comes there first
    deletions = [asyncio.create_task(capturing.delete(each)) for each in ids[:31]]
    await hanging.wait()
    async with asyncio.timeout(5):
        await knowledge.capture.capture(failure(task_id="new"))
    assert not all(deletion.done() for deletion in deletions)
    answers.set()
    await asyncio.gather(*deletions)
    assert (await knowledge.stats()).points == 9


@pytest.mark.long
async def test_g2_a_checkpoint_that_is_cancelled_twice_gives_back_what_it_leased(opens: Opens) -> None:
    """G2: its own deadline, and while it does something about that, its caller's."""
    async with opens() as knowledge:
        await capture(knowledge, *lessons(3))
        claimed = asyncio.Event()

        async def slow() -> None:
            claimed.set()
            await asyncio.sleep(0.5)

        lease = timedelta(seconds=1)
        slowly = wired(knowledge, Trips({"entries.claim:after:1": slow}), lease=lease).checkpoints
        late = asyncio.create_task(replace(slowly, deadline=timedelta(seconds=0.1)).process_all())
        await claimed.wait()
        await asyncio.sleep(0.3)
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        async with asyncio.timeout(20):
            report = await wired(knowledge, Trips({}), lease=lease).checkpoints.process_all()
        assert report.embedded == 3


@pytest.mark.long
async def test_g4_checkpoints_beside_a_change_of_vectors_never_wait_in_a_circle(knowledge: Knowledge) -> None:
    """G4: known texts are told again in any order, while others are given vectors of another model."""
    count, rng = 128, random.Random(4)
    await learn(knowledge, *lessons(count))
    ended = asyncio.Event()

    async def change() -> None:
        models = 0
        while not ended.is_set():
            models += 1
            await knowledge.store_upkeep.reembed(HashingEmbedder(dims=32, model=f"model {models % 2}"), force=True)

    changing = asyncio.create_task(change())
    for turn in range(12):
        again = lessons(count, of=f"{turn}-")
        rng.shuffle(again)
        await knowledge.capture.capture_all(again)
        await knowledge.checkpoints.process_all()
    ended.set()
    await changing
    assert (await knowledge.stats()).entries == {"embedded": 13 * count}
    assert (await knowledge.upkeep.verify()).sound


async def test_a_resolution_told_several_times_at_once_is_the_same_for_all(knowledge: Knowledge) -> None:
    """The first one that finds it an echo of what was handed out deletes the entry; the others find it gone."""
    (known,) = await learn(knowledge, failure(task_id="1"))
    assert (await context_of(knowledge)).patterns
    unresolved = failure(task_id="T", solution_steps=None, success_verified=False, verified_by=None)
    opened = await knowledge.capture.capture(unresolved)
    steps = failure().solution_steps or ""

    async def resolve() -> EntryId:
        return await knowledge.capture.resolve_failure(opened, solution_steps=steps, verified_by="pytest")

    assert await asyncio.gather(*(resolve() for _ in range(3))) == [known] * 3


async def test_an_outcome_whose_context_goes_while_it_is_told_is_told_of_nothing(knowledge: Knowledge) -> None:
    await learn(knowledge, failure(task_id="1"))
    handed_out = await context_of(knowledge, project="shop-2")
    await knowledge.capture.capture(failure(task_id="9", project_id="shop-2", failure_description="zzz"))

    async def forget() -> None:
        await knowledge.capture.delete_project("shop-2")

    contexts = Wired(knowledge.stores.contexts, "contexts", Trips({"contexts.get:after:1": forget}))
    stores = replace(knowledge.stores, contexts=contexts)
    with pytest.raises(NotFound, match="there is no context"):
        await replace(knowledge.outcomes, stores=stores).record_outcome(
            handed_out.context_id, handed_out.patterns[0].pattern_id, worked=True
        )


async def test_an_echo_of_a_project_that_goes_meanwhile_is_an_entry_like_any_other(knowledge: Knowledge) -> None:
    await learn(knowledge, failure(task_id="1"))
    assert (await context_of(knowledge, project="shop-2")).patterns

    told = [failure(task_id="T", project_id="shop-2"), failure(task_id="U", project_id="shop-3")]
    working = wired(knowledge, Trips({"patterns.get:after:1": lambda: knowledge.capture.delete_project("shop-2")}))
    assert len(await working.capture.capture_all(told)) == 2


async def patterns_by_entry(knowledge: Knowledge) -> dict[EntryId, PatternId]:
    return {entry: each.pattern_id for each in await knowledge.lists.patterns() for entry in each.entry_ids}


async def end_idle_transactions(knowledge: Knowledge) -> None:
    """Do what Postgres does to a transaction that is idle for too long."""
    idle = "state = 'idle in transaction' and datname = current_database()"
    async with autocommit(knowledge.engine) as connection:
        await connection.execute(sa.text(f"select pg_terminate_backend(pid) from pg_stat_activity where {idle}"))


@pytest.mark.long
async def test_g13_whoever_settles_after_postgres_ended_its_transaction_undoes_nothing_for_good(
    knowledge: Knowledge,
) -> None:
    """G13: it hung before it took a point from the index, and meanwhile the text was told again."""
    first, second = await learn(knowledge, failure(task_id="1"), MOON)
    of_entry = await patterns_by_entry(knowledge)
    await knowledge.grouping.join(of_entry[first], of_entry[second])

    async def lose_the_lock() -> None:
        await end_idle_transactions(knowledge)
        await learn(knowledge, replace(MOON, task_id="3"))

    settling = wired(knowledge, Trips({"index.delete:before:1": lose_the_lock}))
    await settling.capture.delete(second)
    await knowledge.checkpoints.process_all()
    assert (await knowledge.upkeep.verify()).sound


async def test_whoever_settles_is_told_that_postgres_ended_its_transaction(knowledge: Knowledge) -> None:
    (entry_id,) = await learn(knowledge, failure())
    (point,) = await knowledge.stores.entries.sole_points(entry_id)
    now = knowledge.stores.clock.now()
    with pytest.raises(StorageUnavailable):
        async with knowledge.stores.points.begin_reconciliation(now=now, again_at=now, limit=1, also=(point,)):
            await end_idle_transactions(knowledge)
