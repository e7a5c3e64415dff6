"""Verify, repair, rebuild and a change of model, on real Postgres and the real engine."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from hardwon.errors import IndexUnavailable, SpaceMismatch
from hardwon.models.patterns import FoundPatterns
from jobs.table import run_job
from knowledge import Task
from knowledge.text import bm25
from knowledge.wiring.open import Knowledge
from orchestrator import OrchestratorContextBuilder
from tests.acceptance.memory.test_the_loop import CART, fail
from tests.conftest import Opens, SetClock
from tests.support.damage import Damage, damage, in_index
from tests.support.documents import GUIDE, add, find
from tests.support.embedders import HashingEmbedder
from tests.support.faults import Trips, wired

WORDS = ["cart", "price", "total", "order", "stock", "invoice", "user", "session", "cache", "queue", "worker", "lock"]


async def learn(knowledge: Knowledge, number: int, *, first: int = 0) -> None:
    """Embed so many different lessons."""
    rng = random.Random(first)
    for at in range(first, first + number):
        await fail(
            knowledge,
            failure_description=f"{' '.join(rng.sample(WORDS, 6))} broke in case {at}",
            solution_steps=f"mend case {at}",
            task_description=f"task {at}" if at % 3 == 0 else None,
        )
    await knowledge.checkpoints.process_all()


@pytest.mark.long
async def test_g14_verify_finds_each_fault_and_a_second_repair_writes_nothing(knowledge: Knowledge) -> None:
    """G14. Deleted, added and corrupted points, 100 % found, no false one, and repair converges."""
    await learn(knowledge, 300)
    before = await in_index(knowledge)
    harmed = await damage(knowledge, random.Random(14), points=80, strangers=20)

    report = await knowledge.upkeep.verify()
    assert Damage(report.missing, report.orphan, report.stale, report.mismatched) == harmed == Damage(20, 20, 20, 40)
    assert not report.sound

    repaired = await knowledge.upkeep.verify(repair=True)
    assert (repaired.repaired, repaired.sound) == (100, True)
    again = await knowledge.upkeep.verify(repair=True)
    assert (again.repaired, again.sound) == (0, True)
    assert await in_index(knowledge) == before


@pytest.mark.long
async def test_g15_a_rebuild_gives_the_same_ids_and_answers_and_embeds_nothing(
    knowledge: Knowledge, embedder: HashingEmbedder
) -> None:
    """G15. The collection is dropped and comes back from Postgres, vectors included."""
    await learn(knowledge, 60)
    await fail(knowledge)
    await knowledge.checkpoints.process_all()
    asked = "stock invoice user broke"
    ids = await in_index(knowledge)
    answers = await knowledge.queries.query_for_failure(asked, min_relevance=0, max_results=5)
    texts = embedder.texts

    report = await knowledge.store_upkeep.rebuild()
    assert (report.points, report.embedded) == (len(ids), 0)
    assert embedder.texts == texts
    assert await in_index(knowledge) == ids
    again = await knowledge.queries.query_for_failure(asked, min_relevance=0, max_results=5)
    assert [pattern.pattern_id for pattern in again] == [pattern.pattern_id for pattern in answers]
    assert (await knowledge.upkeep.verify()).sound


HALF_WAY = "dropped and not made anew"


class _BrokenOff(Exception):
    """Stands for the death of the process."""


async def break_off_rebuilding(knowledge: Knowledge, moment: str) -> None:
    async def die() -> None:
        if moment == HALF_WAY:
            bound = await knowledge.stores.spaces.bound()
            assert bound is not None
            await knowledge.stores.index.drop(bound.space)
        raise _BrokenOff(moment)

    at = "index.recreate:before:1" if moment == HALF_WAY else moment
    with pytest.raises(_BrokenOff, match=moment):
        await wired(knowledge, Trips({at: die})).store_upkeep.rebuild()


@pytest.mark.long
async def test_a_rebuild_reads_and_counts_the_words_of_texts_anew(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a release reads writing without blanks otherwise than the one before it did."""
    with monkeypatch.context() as before:
        before.setattr(bm25, "has_unspaced_script", lambda _: False)
        await fail(knowledge, failure_description="夜間バッチが二重に実行され在庫が減る", solution_steps="排他を取る")
        await knowledge.checkpoints.process_all()
    asked = bm25.term_counts("夜間バッチの二重実行")
    assert not (await knowledge.stores.spaces.statistics(list(asked))).frequencies
    assert not (await knowledge.upkeep.verify()).sound
    await knowledge.store_upkeep.rebuild()
    assert (await knowledge.upkeep.verify()).wrong == {}
    told = bm25.term_counts("夜間バッチが二重に実行され在庫が減る")
    known = await knowledge.stores.spaces.statistics(list(told))
    assert known.documents == 1
    assert known.frequencies == dict.fromkeys(told, 1)


@pytest.mark.long
async def test_g15_whoever_comes_after_a_rebuild_that_was_killed_puts_back_the_rest(
    knowledge: Knowledge, embedder: HashingEmbedder
) -> None:
    """G15: nobody has to know that it was killed, and to ask for it again."""
    await learn(knowledge, 260)
    ids, texts = await in_index(knowledge), embedder.texts
    for moment in ("index.recreate:before:1", HALF_WAY, "index.recreate:after:1", "index.upsert:after:1"):
        for comes in (knowledge.checkpoints.process_all, knowledge.pruning.prune):
            await break_off_rebuilding(knowledge, moment)
            await comes()
            assert await in_index(knowledge) == ids, (moment, comes)
            assert embedder.texts == texts, (moment, comes)
            assert (await knowledge.upkeep.verify()).sound, (moment, comes)


@pytest.mark.long
@pytest.mark.parametrize("back", [None, "last week's"], ids=["lost", "old"])
@pytest.mark.parametrize("comes", ["checkpoint", "checkpoint with news", "prune"])
async def test_g15_an_index_that_was_lost_or_is_from_before_is_filled_by_whoever_comes_next(
    opens: Opens, home: Path, back: str | None, comes: str
) -> None:
    """G15: else, once a checkpoint has made it anew, queries would find little, and nobody would know."""
    index, copy = home / "index", home / "copy"
    async with opens() as knowledge:
        await learn(knowledge, 20)
    copytree(index, copy)
    async with opens() as knowledge:
        await learn(knowledge, 10, first=20)
        ids = await in_index(knowledge)
    rmtree(index)
    if back:
        copy.rename(index)
    embedder = HashingEmbedder(dims=256)
    async with opens(embedder=embedder) as knowledge:
        match comes:
            case "checkpoint":
                await knowledge.checkpoints.process_all()
            case "prune":
                await knowledge.pruning.prune()
            case _:
                await learn(knowledge, 1, first=31)
        assert set(await in_index(knowledge)) >= set(ids)
        assert embedder.texts == (comes == "checkpoint with news")
        assert (await knowledge.upkeep.verify()).sound


@pytest.mark.long
async def test_g15_an_index_of_before_that_holds_as_many_points_as_it_must_is_put_right_by_the_hour(
    opens: Opens, home: Path, clock: SetClock
) -> None:
    """G15: of what was deleted since it holds too much, of what was learned since nothing; a count tells neither."""
    index, copy = home / "index", home / "copy"
    async with opens() as knowledge:
        await learn(knowledge, 20)
    copytree(index, copy)
    async with opens() as knowledge:
        for pattern in await knowledge.lists.patterns(limit=12):
            await knowledge.capture.delete_pattern(pattern.pattern_id)
        await learn(knowledge, 10, first=20)
        clock.move(timedelta(days=2))
        await knowledge.pruning.prune()  # what went is forgotten
        ids = await in_index(knowledge)
    rmtree(index)
    copy.rename(index)
    embedder = HashingEmbedder(dims=256)
    async with opens(embedder=embedder) as knowledge:
        await knowledge.checkpoints.process_all()
        wrong = (await knowledge.upkeep.verify()).wrong
        assert 0 < wrong["missing"] <= wrong["orphan"], "no more than a count would find"
        await run_job(knowledge, "sweep", once_per_slot=False)
        assert (await knowledge.upkeep.verify()).wrong == {}
        assert await in_index(knowledge) == ids
        assert embedder.texts == 0


@pytest.mark.long
@pytest.mark.parametrize("comes", ["sweep", "prune"])
async def test_g15_a_workspace_that_nobody_comes_to_says_that_the_index_was_lost_until_it_is_filled_by_the_clock(
    opens: Opens, home: Path, comes: str
) -> None:
    """G15: the checkpoint of another one makes the index anew, which holds nothing of this one: silence was told."""
    async with opens() as knowledge:
        other = knowledge.in_workspace("other")
        await learn(knowledge, 3)
        await fail(other)
        await other.checkpoints.process_all()
        await add(other, "a.md", GUIDE)
        await add(knowledge, "b.md", GUIDE)
    rmtree(home / "index")
    rmtree(home / "documents")
    async with opens() as knowledge:
        other = knowledge.in_workspace("other")
        await learn(knowledge, 3, first=30)
        await add(knowledge, "c.md", GUIDE + b"\nMore.")
        known = await other.queries.query_for_failure(CART)
        assert isinstance(known, FoundPatterns)
        assert (len(known), "hardwon rebuild" in (known.degraded or "")) == (1, True), "Postgres has the very text"
        with pytest.raises(IndexUnavailable, match="hardwon rebuild"):
            await other.queries.query_for_failure("The cart shows another total")
        with pytest.raises(IndexUnavailable, match="hardwon rebuild"):
            await find(other, "ERR-4521")
        context = await OrchestratorContextBuilder(other).build_context_for_task(Task(description=CART), "backend")
        assert "lost" in (context.degraded or "")
        assert await run_job(knowledge, comes, once_per_slot=False) == 0
        assert await other.queries.query_for_failure(CART)
        assert await run_job(knowledge, "reconcile", once_per_slot=False)
        assert (await find(other, "ERR-4521")).passages
        assert (await other.upkeep.verify()).sound


@pytest.mark.long
async def test_a_workspace_whose_knowledge_is_gone_is_not_taken_for_lost(knowledge: Knowledge, clock: SetClock) -> None:
    entry_id = await fail(knowledge)
    assert await knowledge.queries.query_for_failure(CART) == [], "nothing is embedded yet"
    await knowledge.checkpoints.process_all()
    await knowledge.capture.delete(entry_id)
    assert await knowledge.queries.query_for_failure(CART) == []
    await fail(knowledge)
    await knowledge.checkpoints.process_all()
    clock.move(timedelta(days=400))
    assert await knowledge.queries.query_for_failure(CART) == []
    await knowledge.pruning.prune()
    assert await knowledge.queries.query_for_failure(CART) == []


@pytest.mark.long
async def test_a_deletion_after_a_rebuild_that_was_killed_is_final_and_does_not_wait_for_the_rest(
    knowledge: Knowledge,
) -> None:
    await learn(knowledge, 30)
    entry_id = await fail(knowledge)
    await knowledge.checkpoints.process_all()
    ids = await in_index(knowledge)
    of_entry = await knowledge.stores.entries.sole_points(entry_id)
    await break_off_rebuilding(knowledge, "index.recreate:after:1")
    await knowledge.capture.delete(entry_id)
    assert await in_index(knowledge) == []
    await knowledge.checkpoints.process_all()
    assert await in_index(knowledge) == [point_id for point_id in ids if point_id not in of_entry]
    assert (await knowledge.upkeep.verify()).sound


@pytest.mark.long
async def test_what_a_prune_would_take_is_the_same_after_a_rebuild_that_was_killed(
    knowledge: Knowledge, clock: SetClock
) -> None:
    await learn(knowledge, 30)
    clock.move(timedelta(days=400))
    planned = await knowledge.pruning.prune(dry_run=True)
    await break_off_rebuilding(knowledge, HALF_WAY)
    assert await knowledge.pruning.prune(dry_run=True) == planned
    assert replace(await knowledge.pruning.prune(), dry_run=True) == planned


@pytest.mark.long
async def test_g22_a_change_of_model_goes_on_beside_queries_and_captures_and_mixes_nothing(
    knowledge: Knowledge, opens: Opens
) -> None:
    """G22. A shadow collection is filled, then the switch: no query fails or finds nothing meanwhile."""
    await learn(knowledge, 120)
    await fail(knowledge)
    await knowledge.checkpoints.process_all()
    new = HashingEmbedder(dims=128, model="another")
    missed: list[str] = []
    done = asyncio.Event()

    async def ask() -> None:
        while not done.is_set():
            if not await knowledge.queries.query_for_failure(CART):
                missed.append("a query found nothing")
            await asyncio.sleep(0)

    async def capture() -> None:
        at = 10_000
        while not done.is_set():
            await learn(knowledge, 5, first=at)
            at += 100

    tasks = [asyncio.create_task(ask()), asyncio.create_task(capture())]
    await asyncio.sleep(0.2)
    report = await knowledge.store_upkeep.reembed(new)
    await asyncio.sleep(0.2)
    done.set()
    await asyncio.gather(*tasks)
    assert report.switched
    assert not missed
    bound = await knowledge.stores.spaces.bound()
    assert bound is not None
    assert (bound.space.model, bound.space.dims) == ("another", 128)
    assert (await knowledge.checkpoints.process_all()).dead == 0
    verified = await knowledge.upkeep.verify()
    assert verified.sound, verified
    assert verified.points == len(await in_index(knowledge))


@pytest.mark.long
async def test_a_store_refuses_the_old_model_after_the_switch_and_can_go_back_at_no_cost(opens: Opens) -> None:
    async with opens() as knowledge:
        await learn(knowledge, 30)
        await knowledge.store_upkeep.reembed(HashingEmbedder(dims=128, model="another"))
        (gone, *_) = await knowledge.lists.patterns()
        await knowledge.capture.delete(gone.entry_ids[0])
    old = HashingEmbedder(dims=256)
    async with opens(embedder=old) as knowledge:  # G14: what went meanwhile is in the old collection no orphan
        with pytest.raises(SpaceMismatch, match="hardwon reembed --model hashing"):
            await knowledge.queries.query_for_failure(CART)
        back = await knowledge.store_upkeep.reembed(old)
        assert (back.switched, back.embedded, old.texts) == (True, 0, 0)
        assert (await knowledge.upkeep.verify()).sound


@pytest.mark.long
async def test_a_dead_entry_is_shown_with_its_reason_and_staged_again_on_request(
    knowledge: Knowledge, embedder: HashingEmbedder
) -> None:
    """G7. A poisoned entry is buried alone; the others of its batch are embedded."""
    embedder.refuses = "poison"
    poisoned = await fail(knowledge, failure_description="poison in the text")
    await learn(knowledge, 10)
    (dead,) = await knowledge.upkeep.dead()
    assert dead.entry_id == poisoned
    assert "poison" in dead.reason
    assert (await knowledge.stats()).entries == {"dead": 1, "embedded": 10}

    embedder.refuses = None
    assert await knowledge.upkeep.retry_dead() == 1
    assert (await knowledge.checkpoints.process_all()).embedded == 1
    assert not await knowledge.upkeep.dead()


@pytest.mark.long
async def test_the_same_words_told_differently_by_several_agents_are_no_fault(
    knowledge: Knowledge, clock: SetClock
) -> None:
    for at in range(6):
        text = CART.upper() if at % 2 else f" {CART}\n"
        await fail(knowledge, project_id=f"p{at}", agent_type=f"agent {at}", failure_description=text)
        if at == 3:
            clock.move(timedelta(seconds=1))
            await knowledge.checkpoints.process_all()
    clock.move(timedelta(seconds=1))
    await knowledge.checkpoints.process_all()
    report = await knowledge.upkeep.verify()
    assert (report.points, report.sound) == (1, True)
