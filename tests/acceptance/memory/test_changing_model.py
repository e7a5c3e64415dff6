"""A change of model beside the rest: newcomers, a death after the switch, notes of the old space, another change."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Literal
from uuid import uuid4

import pytest
import sqlalchemy as sa

from hardwon.errors import (
    Conflict,
    EmbedderUnavailable,
    IndexUnavailable,
    SpaceMismatch,
    StorageUnavailable,
    TextRejected,
)
from hardwon.models.maintenance import ModelChoice, ReembedReport
from jobs.table import run_job
from knowledge.adapters.postgres.engine.database import autocommit
from knowledge.adapters.postgres.memory import counts
from knowledge.adapters.postgres.memory_tables import vectors
from knowledge.memory.index.reconcile import settle
from knowledge.models import Embeddings, EntryStatus, LeaseToken
from knowledge.wiring.open import Knowledge
from tests.conftest import Opens, SetClock
from tests.support.cases import load_tables
from tests.support.documents import GUIDE, add
from tests.support.embedders import HashingEmbedder
from tests.support.entries import CART, capture, failure, learn
from tests.support.faults import Trips, wired

FAILURES = tuple(load_tables("test_changing_model")["FAILURES"])
MOON = failure(task_id="2", failure_description="the moon fell", solution_steps="put it up again")


def another(model: str = "another") -> HashingEmbedder:
    return HashingEmbedder(dims=128, model=model)


async def forget_old(knowledge: Knowledge, embedder: HashingEmbedder) -> ReembedReport:
    """Change to an embedder, or stay with it, and drop all other vectors."""
    service = replace(knowledge.store_upkeep, make=lambda _: embedder)
    return await service.reembed_to(ModelChoice(model="as given"), force=True, forget_old=True)


class Scrambled(HashingEmbedder):
    """Its vectors have nothing to do with the words."""

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        return await super().embed([hashlib.sha256(text.encode()).hexdigest() for text in texts], kind)


async def refuse_scrambled(knowledge: Knowledge) -> None:
    before = await knowledge.stores.spaces.bound()
    with pytest.raises(Conflict, match="nothing was switched; use --force"):
        await knowledge.store_upkeep.reembed(Scrambled(model="scrambled"))
    assert await knowledge.stores.spaces.bound() == before


@pytest.mark.long
async def test_g22_a_model_that_sees_other_likenesses_is_refused_unless_forced(knowledge: Knowledge) -> None:
    """G22: the words of the failures, which no model changes, kept their neighbours, and it was let through."""
    await learn(knowledge, *(failure(failure_description=each, solution_steps=f"mend: {each}") for each in FAILURES))
    await refuse_scrambled(knowledge)
    forced = await knowledge.store_upkeep.reembed(Scrambled(model="scrambled"), force=True)
    assert forced.switched
    assert forced.kept < 0.5


@pytest.mark.long
async def test_g22_a_model_is_refused_for_documents_alone(knowledge: Knowledge) -> None:
    """G22: passages were not compared."""
    for at, told in enumerate((each, also) for each in FAILURES for also in ("in the shop", "in the office")):
        await add(knowledge, f"{at}.md", " ".join(told).encode())
    await refuse_scrambled(knowledge)
    assert (await knowledge.store_upkeep.reembed(HashingEmbedder(dims=512, model="another"))).switched


@pytest.mark.long
async def test_g22_a_model_is_refused_for_documents_that_what_was_learned_would_outweigh(knowledge: Knowledge) -> None:
    """G22: each is searched by itself."""

    class ScrambledPassages(Scrambled):
        async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
            passages = all("Page" in text for text in texts)
            return await (super().embed(texts, kind) if passages else HashingEmbedder.embed(self, texts, kind))

    alike = (f"{each} {kind}" for each in FAILURES for kind in ("here", "there"))
    await learn(knowledge, *(failure(failure_description=each, solution_steps=f"mend: {each}") for each in alike))
    for at, each in enumerate(FAILURES):
        await add(knowledge, f"{at}.md", f"Page: {each}".encode())
    with pytest.raises(Conflict):
        await knowledge.store_upkeep.reembed(ScrambledPassages(dims=512, model="scrambled"))


@pytest.mark.long
async def test_g22_too_few_texts_to_judge_a_model_by_refuse_none(knowledge: Knowledge) -> None:
    """G22: of fewer than twelve, chance alone keeps many."""
    await learn(knowledge, *(failure(failure_description=each, solution_steps=each) for each in FAILURES[:11]))
    changed = await knowledge.store_upkeep.reembed(Scrambled(model="scrambled"))
    assert (changed.switched, changed.kept) == (True, 1.0)


@pytest.mark.long
async def test_g22_a_workspace_that_comes_while_the_model_changes_is_found_by_the_new_one(knowledge: Knowledge) -> None:
    """G22."""
    await learn(knowledge, failure())
    newcomer = knowledge.in_workspace("newcomer")

    service = wired(knowledge, Trips({"upkeep.prepare:before:1": lambda: learn(newcomer, failure())})).store_upkeep
    await service.reembed(another(), force=True)
    for each in (knowledge, newcomer):
        assert await each.queries.query_for_failure(CART, min_relevance=0.0)
        assert (await each.upkeep.verify()).sound


@pytest.mark.long
async def test_g22_a_change_of_model_that_dies_after_the_switch_is_finished_by_asking_for_it_again(
    knowledge: Knowledge, clock: SetClock
) -> None:
    """G12, G22: else a text told again before the switch keeps its old end, and what lives goes with it."""
    await learn(knowledge, failure(task_id="1"))
    clock.move(timedelta(days=200))

    async def tell_again() -> None:
        await learn(knowledge, failure(task_id="2"))

    async def die() -> None:
        raise ZeroDivisionError

    trips = Trips({"spaces.sample_in_both:before:1": tell_again, "upkeep.switch:after:1": die})
    with pytest.raises(ZeroDivisionError):
        await wired(knowledge, trips).store_upkeep.reembed(another(), force=True)
    assert not (await knowledge.upkeep.verify()).sound
    assert not (await knowledge.store_upkeep.reembed(another(), force=True)).switched
    assert (await knowledge.upkeep.verify()).sound
    clock.move(timedelta(days=170))
    await knowledge.pruning.prune()
    assert await knowledge.queries.query_for_failure(CART, min_relevance=0.0)


@pytest.mark.long
async def test_g22_a_change_of_model_that_dies_after_the_switch_is_finished_by_the_clock(
    knowledge: Knowledge, clock: SetClock
) -> None:
    """G22: nobody asks again who has the new model in the settings by then."""
    await learn(knowledge, failure(task_id="1"))
    await add(knowledge, "guide.md", GUIDE)
    clock.move(timedelta(days=200))
    new = another()

    async def tell_again() -> None:
        await learn(knowledge, failure(task_id="2"))

    async def look() -> None:
        assert not await knowledge.store_upkeep.finish(), "it is under way"

    async def die() -> None:
        raise ZeroDivisionError

    at = {"spaces.sample_in_both:before:1": tell_again, "upkeep.switch:before:1": look, "upkeep.switch:after:1": die}
    with pytest.raises(ZeroDivisionError):
        await wired(knowledge, Trips(at)).store_upkeep.reembed(new, force=True)
    assert not (await knowledge.upkeep.verify()).sound
    texts = new.texts
    await run_job(knowledge, "reconcile", once_per_slot=False)
    assert (await knowledge.upkeep.verify()).wrong == {}
    assert new.texts == texts, "all was embedded before the switch"
    assert not await knowledge.documents.indexing.store.requeue(await new.space()), "documents are the new model's"
    assert not await knowledge.store_upkeep.finish(), "once"


@pytest.mark.long
@pytest.mark.parametrize("place", ["patterns.prune:before:1", "patterns.mark_embedded:before:1"])
async def test_g22_what_is_noted_down_is_settled_in_the_space_in_use_by_then(knowledge: Knowledge, place: str) -> None:
    """G22: whoever settles may have begun before the switch."""
    await learn(knowledge, failure(task_id="1"), MOON)
    keep, other = [each.pattern_id for each in await knowledge.lists.patterns()]
    await capture(knowledge, failure(task_id="3", failure_description="third", solution_steps="do"))

    async def silent() -> None:
        raise IndexUnavailable("the index does not answer")

    async def change() -> None:
        await knowledge.store_upkeep.reembed(another(), force=True)
        hanging = wired(knowledge, Trips({"index.delete:before:1": silent, "index.upsert:before:1": silent}))
        await hanging.grouping.join(keep, other)  # its settling is put off

    working = wired(knowledge, Trips({place: change}))
    await (working.pruning.prune() if place.startswith("patterns.prune") else working.checkpoints.process_all())
    await knowledge.checkpoints.process_all()
    await knowledge.pruning.prune()
    report = await knowledge.upkeep.verify()
    assert (report.missing, report.stale, report.mismatched, report.orphan) == (0, 0, 0, 0)


class Closing(HashingEmbedder):
    """Tells whether it was closed, and waits in each call while it is `held`."""

    def __init__(self, dims: int = 128, model: str = "another") -> None:
        super().__init__(dims=dims, model=model)
        self.closed = False
        self.asked = asyncio.Event()
        self.free = asyncio.Event()
        self.free.set()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        self.asked.set()
        await self.free.wait()
        return await super().embed(texts, kind)

    async def aclose(self) -> None:
        self.closed = True
        await super().aclose()


@pytest.mark.long
async def test_an_embedder_that_is_not_used_any_more_is_closed_and_none_that_a_call_uses(knowledge: Knowledge) -> None:
    """Each change that was refused or repeated left a model loaded until the process ended."""
    await learn(knowledge, failure())
    first, again, refused = Closing(), Closing(), Closing(model="refused")
    await forget_old(knowledge, first)
    first.free.clear()
    first.asked.clear()
    asking = asyncio.create_task(knowledge.queries.query_for_failure(CART, min_relevance=0.0))
    await first.asked.wait()
    await forget_old(knowledge, again)
    assert not first.closed, "a question is embedded with it"
    first.free.set()
    assert await asking
    assert (first.closed, again.closed) == (True, False)

    refused.unavailable = "no answer"
    with pytest.raises(EmbedderUnavailable):
        await forget_old(knowledge, refused)
    assert (refused.closed, again.closed) == (True, False)
    await forget_old(knowledge, again)
    assert not again.closed
    assert await knowledge.queries.query_for_failure(CART, min_relevance=0.0)


@pytest.mark.long
async def test_only_one_change_of_model_goes_on_at_a_time(knowledge: Knowledge) -> None:
    """Else one forgets the space that the other is about to switch to."""
    await learn(knowledge, failure())
    refused: list[str] = []

    async def change_too() -> None:
        with pytest.raises(Conflict) as conflict:
            await forget_old(knowledge, HashingEmbedder(dims=256))
        refused.append(str(conflict.value))

    service = wired(knowledge, Trips({"upkeep.switch:before:1": change_too})).store_upkeep
    assert (await service.reembed(another(), force=True)).switched
    assert refused == ["the embedding model is being changed already: wait until that has ended"]
    assert (await forget_old(knowledge, another())).forgotten == 1
    assert await knowledge.queries.query_for_failure(CART, min_relevance=0.0)


@pytest.mark.long
async def test_g22_checkpoints_that_wait_for_the_switch_leave_it_the_connections_it_needs(knowledge: Knowledge) -> None:
    """Each waited with a connection of the pool: the switch had none left to read with, and failed with them."""
    await capture(knowledge, failure())
    await knowledge.checkpoints.process_all()
    bound = await knowledge.stores.spaces.bound()
    assert bound is not None
    now, patterns = knowledge.stores.clock.now(), knowledge.stores.patterns
    later = now + timedelta(days=365)
    many = [
        patterns.mark_embedded(LeaseToken(uuid4()), [], bound.space, embedded_at=now, expires_at=later)
        for _ in range(2 * knowledge.settings.database_connections)
    ]
    async with knowledge.upkeep.upkeep.begin_switch(bound.space):
        waiting = asyncio.gather(*many)
        await asyncio.sleep(0.5)
        async with asyncio.timeout(5):
            assert await knowledge.upkeep.upkeep.tally(bound.space) == (1, 0)
        assert not waiting.done(), "nothing is marked while the model is changed"
    assert await waiting == [set()] * len(many)


@pytest.mark.long
async def test_g24_what_is_reconciled_during_a_switch_is_reconciled_in_the_space_that_is_in_use_then(
    knowledge: Knowledge,
) -> None:
    """A switch left out a point as it was dirty, and it was written to the old collection and marked clean."""
    await capture(knowledge, failure())
    await knowledge.checkpoints.process_all()
    bound, points = await knowledge.stores.spaces.bound(), knowledge.stores.points
    assert bound is not None
    now = knowledge.stores.clock.now()
    every = [*await points.index_membership(bound.space, now, after=None, limit=10)]
    into = replace(bound.space, layout=bound.space.layout + 1)
    await knowledge.stores.index.ensure(into, in_use=False)
    await points.mark_dirty(every)
    async with knowledge.upkeep.upkeep.begin_switch(into):
        assert not any((await points.index_membership(into, now, after=None, limit=10)).values())
        settling = asyncio.create_task(settle(knowledge.stores, whole=False))
        await asyncio.sleep(0.5)
        assert not settling.done()
    await settling
    assert await knowledge.stores.index.ids(into, knowledge.workspace, after=None, limit=10) == every


@pytest.mark.long
async def test_a_change_of_model_that_hangs_at_the_switch_holds_up_others_for_a_minute_only(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G4: then Postgres takes back what it did, and it is asked for again."""
    monkeypatch.setattr(counts, "MAX_IDLE", timedelta(milliseconds=300))
    await learn(knowledge, failure(task_id="1"))
    there, ended = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        there.set()
        await ended.wait()

    hanging = wired(knowledge, Trips({"upkeep.switch:before:1": hang}))
    changing = asyncio.create_task(hanging.store_upkeep.reembed(another(), force=True))
    await there.wait()
    await capture(knowledge, MOON)
    async with asyncio.timeout(10):
        assert (await knowledge.checkpoints.process_all()).embedded == 1
    ended.set()
    with pytest.raises(StorageUnavailable):
        await changing
    assert (await knowledge.store_upkeep.reembed(another(), force=True)).switched
    assert (await knowledge.upkeep.verify()).sound


@pytest.mark.long
async def test_g22_a_query_that_began_before_its_index_was_dropped_is_asked_again(knowledge: Knowledge) -> None:
    """G22: to whoever asked, nothing was down."""
    await learn(knowledge, failure())

    asking = wired(knowledge, Trips({"index.search:before:1": lambda: forget_old(knowledge, another())}))
    assert await asking.queries.query_for_failure(CART, min_relevance=0.0)


@pytest.mark.long
async def test_g22_a_checkpoint_that_began_before_its_index_was_dropped_goes_on_in_the_new_one(
    knowledge: Knowledge,
) -> None:
    """G22: it said that the index was gone, and to run a rebuild."""
    await learn(knowledge, failure())
    await capture(knowledge, MOON)

    working = wired(knowledge, Trips({"index.upsert:before:1": lambda: forget_old(knowledge, another())}))
    assert (await working.checkpoints.process_all()).embedded == 1
    assert (await knowledge.upkeep.verify()).wrong == {}
    found = await knowledge.queries.query_for_failure("the moon fell", min_relevance=0.0)
    assert found[0].problem == "the moon fell"


@pytest.mark.long
async def test_what_a_checkpoint_kept_for_a_space_that_was_forgotten_goes_with_the_next_ones(
    knowledge: Knowledge,
) -> None:
    await learn(knowledge, failure(task_id="1"))
    await capture(knowledge, MOON)

    async def change() -> None:
        await forget_old(knowledge, another())

    await wired(knowledge, Trips({"points.find_uncounted:after:1": change})).checkpoints.process_all()
    assert (await knowledge.stats()).entries == {"embedded": 2}
    await forget_old(knowledge, another())
    async with autocommit(knowledge.engine) as connection:
        kept = (await connection.execute(sa.select(vectors.c.space).distinct())).scalars().all()
    assert kept == [(await another().space()).fingerprint]
    assert (await knowledge.upkeep.verify()).sound


@pytest.mark.long
async def test_a_text_that_the_new_model_refuses_is_named_and_the_change_goes_on_without_it(
    knowledge: Knowledge,
) -> None:
    """The whole change failed for good, and nothing said for which of all the texts."""
    told = [failure(failure_description=f"{thing} is odd", error_message=None) for thing in ("Alpha", "Beta", "Gamma")]
    await learn(knowledge, *told)
    refused = (await knowledge.queries.query_for_failure("Beta is odd", min_relevance=0))[0]
    new = HashingEmbedder(dims=64, model="another", refuses="Beta")
    with pytest.raises(TextRejected, match=rf"entry {refused.entry_ids[0]} .*delete entry"):
        await knowledge.store_upkeep.reembed(new, force=True)
    await knowledge.capture.delete(refused.entry_ids[0])
    assert (await knowledge.store_upkeep.reembed(new, force=True)).switched


class InThisProcess(HashingEmbedder):
    """An embedder that questions are given to before anybody knows whether it is the one in use."""

    @property
    def efficient_batch_size(self) -> int | None:
        return 64


@pytest.mark.long
async def test_g22_a_question_on_its_way_through_the_old_model_is_embedded_again_by_the_new_one(
    knowledge: Knowledge,
) -> None:
    """G22: both make vectors of as many dimensions, so that nothing else would tell them apart."""
    old, new = InThisProcess(model="old"), InThisProcess(model="new")
    await knowledge.store_upkeep.reembed(old, force=True)
    await learn(knowledge, failure(), MOON)
    (before, *_) = await knowledge.queries.query_for_failure(CART, min_relevance=0.0)

    asked = wired(knowledge, Trips({"spaces.bound:before:1": lambda: knowledge.store_upkeep.reembed(new, force=True)}))
    texts = old.texts
    (after, *_) = await asked.queries.query_for_failure(CART, min_relevance=0.0)
    assert (after.pattern_id, round(after.relevance, 6)) == (before.pattern_id, round(before.relevance, 6))
    assert old.texts == texts + 1, "asked ahead"
    nothing = knowledge.in_workspace("empty")
    assert await nothing.queries.query_for_failure(CART, min_relevance=0.0) == []


@pytest.mark.long
async def test_g22_what_a_checkpoint_founded_by_the_old_model_is_not_compared_by_the_new_one(opens: Opens) -> None:
    """G22: what was decided and is not in the index yet was; here the dimensions differ, so that it broke."""
    async with opens(embedder=HashingEmbedder(dims=256, model="old"), checkpoint_batch=4) as knowledge:
        await learn(knowledge, failure())
        parts = [
            failure(task_id=f"{n}", failure_description=f"part {n} fell", solution_steps=f"mend {n}") for n in range(24)
        ]
        await capture(knowledge, *parts)

        async def change() -> None:
            new = HashingEmbedder(dims=128, model="all-MiniLM-L6-v2")  # one whose texts are compared
            await knowledge.store_upkeep.reembed(new, force=True)

        working = wired(knowledge, Trips({"patterns.mark_embedded:before:2": change}))
        await working.checkpoints.process_all()
        assert (await knowledge.stats()).entries == {EntryStatus.EMBEDDED: 25}
        assert (await knowledge.upkeep.verify()).sound


@pytest.mark.long
async def test_g22_a_store_of_documents_alone_stays_with_the_model_that_embedded_them(opens: Opens) -> None:
    """G22: the first checkpoint under another model took it over, and no document was found."""
    async with opens(embedder=HashingEmbedder(model="old")) as knowledge:
        await add(knowledge, "guide.md", GUIDE)
    async with opens(embedder=another()) as knowledge:
        await capture(knowledge, failure())
        with pytest.raises(SpaceMismatch):
            await knowledge.checkpoints.process_all()
    async with opens(embedder=HashingEmbedder(model="old")) as knowledge:
        assert (await knowledge.checkpoints.process_all()).embedded == 1
        assert (await knowledge.upkeep.verify()).sound
