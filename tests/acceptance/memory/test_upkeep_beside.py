"""Verify, rebuild and a change of model in the middle of a checkpoint: nothing is lost, and nothing wrongly accused."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from hardwon.models.maintenance import VerifyReport
from knowledge.adapters.qdrant.edge import QdrantEdgeIndex
from knowledge.models import EmbeddingSpace, NewEntry
from knowledge.text.bm25 import term_counts
from knowledge.wiring.open import Knowledge
from tests.conftest import Opens, SetClock
from tests.support.embedders import HashingEmbedder
from tests.support.entries import capture, failure
from tests.support.faults import Trips, wired


async def tell_again(knowledge: Knowledge, clock: SetClock, after: timedelta) -> None:
    """Embed a failure; tell of the same, met in another task, some time later."""
    await capture(knowledge, failure(task_id="1"))
    await knowledge.checkpoints.process_all()
    clock.move(after)
    await capture(knowledge, failure(task_id="2"))


@pytest.mark.long
async def test_g14_a_point_that_a_checkpoint_is_about_to_write_again_is_no_fault(
    knowledge: Knowledge, clock: SetClock
) -> None:
    """G14: its row says already until when the text lives that was told again, and the index not yet."""
    await tell_again(knowledge, clock, timedelta(days=3))
    found: list[VerifyReport] = []

    async def look() -> None:
        found.append(await knowledge.upkeep.verify())

    await wired(knowledge, Trips({"index.upsert:before:1": look})).checkpoints.process_all()
    assert [report.sound for report in found] == [True]
    assert (await knowledge.upkeep.verify()).sound


def lessons(count: int) -> list[NewEntry]:
    return [failure(failure_description=f"part {n} broke", solution_steps=f"mend part {n}") for n in range(count)]


@pytest.mark.long
@pytest.mark.parametrize(
    "moment",
    ["index.upsert:before:1", "index.upsert:after:1", "patterns.mark_embedded:before:1", "points.count_words:before:1"],
)
async def test_g15_rebuilding_in_the_middle_of_a_checkpoint_loses_no_point_and_counts_each_word_once(
    opens: Opens, embedder: HashingEmbedder, moment: str
) -> None:
    """G15: what was in the index that is dropped, and is marked only then, is put into the new one."""
    async with opens(embedder=embedder, checkpoint_batch=4) as knowledge:
        await capture(knowledge, *lessons(3))
        await knowledge.checkpoints.process_all()
        await capture(knowledge, *lessons(12)[3:])

        async def rebuild() -> None:
            await knowledge.store_upkeep.rebuild()

        await wired(knowledge, Trips({moment: rebuild})).checkpoints.process_all()
        assert (await knowledge.upkeep.verify()).sound
        assert (await knowledge.stats()).points == 12
        await capture(knowledge, failure(failure_description="a zebra", solution_steps="let it go"))
        await knowledge.checkpoints.process_all()  # which counts what was left
        statistics = await knowledge.stores.spaces.statistics(list(term_counts("broke zebra")))
        assert (statistics.documents, sorted(statistics.frequencies.values())) == (13, [1, 12])


@pytest.mark.long
async def test_g23_a_rebuild_that_is_given_up_leaves_a_collection_that_a_checkpoint_can_write_to(
    knowledge: Knowledge,
) -> None:
    """G23: cancelled between dropping it and making it anew, it left none, and the checkpoint beside it failed."""
    await capture(knowledge, *lessons(3))
    await knowledge.checkpoints.process_all()
    await capture(knowledge, *lessons(4)[3:])
    index, dropped = knowledge.stores.index, asyncio.Event()
    assert isinstance(index, QdrantEdgeIndex)
    make = index._create

    async def tell_and_make(space: EmbeddingSpace, path: Path) -> None:
        dropped.set()
        await make(space, path)

    async def give_up() -> None:
        index._create = tell_and_make  # type: ignore[method-assign]
        rebuilding = asyncio.create_task(knowledge.store_upkeep.rebuild())
        await dropped.wait()
        rebuilding.cancel()
        await asyncio.gather(rebuilding, return_exceptions=True)

    report = await wired(knowledge, Trips({"index.upsert:before:1": give_up})).checkpoints.process_all()
    assert report.embedded == 1
    await knowledge.upkeep.verify(repair=True)
    assert (await knowledge.stats()).points == 4


@pytest.mark.long
async def test_g22_an_entry_embedded_while_the_model_changes_is_embedded_by_the_new_one(
    knowledge: Knowledge, clock: SetClock
) -> None:
    """G12, G22: else the new index keeps the end of the older entry with the same text, and drops what lives."""
    await tell_again(knowledge, clock, timedelta(days=100))

    async def change() -> None:
        await knowledge.store_upkeep.reembed(HashingEmbedder(dims=128), force=True)

    await wired(knowledge, Trips({"points.find_uncounted:after:1": change})).checkpoints.process_all()
    assert (await knowledge.stats()).entries == {"embedded": 2}
    assert (await knowledge.upkeep.verify()).sound
    clock.move(timedelta(days=270))  # a year after the first, not after the second
    await knowledge.pruning.prune()
    (found,) = await knowledge.queries.query_for_failure(failure().failure_description or "", min_relevance=0.0)
    assert found.success_count == 1


async def beside_the_write(knowledge: Knowledge, clock: SetClock, *, repair: bool) -> None:
    """Put a point back while its text is told again by a checkpoint that waits to decide until that is done."""
    await tell_again(knowledge, clock, timedelta(days=200))
    checkpoints: list[asyncio.Task[object]] = []

    async def checkpoint() -> None:
        checkpoints.append(asyncio.create_task(knowledge.checkpoints.process_all()))
        await asyncio.sleep(0.2)

    if repair:
        bound = await knowledge.stores.spaces.bound()
        assert bound is not None
        (stored,) = await knowledge.upkeep.upkeep.points(bound.space, after=None, limit=2)
        await knowledge.stores.index.delete(bound.space, [stored.point_id])
        await wired(knowledge, Trips({"index.upsert:before:1": checkpoint})).upkeep.verify(repair=True)
    else:
        await wired(knowledge, Trips({"index.upsert:before:1": checkpoint})).store_upkeep.rebuild()
    await asyncio.gather(*checkpoints)


@pytest.mark.long
@pytest.mark.parametrize("repair", [True, False], ids=["repair", "rebuild"])
async def test_g14_what_is_put_back_never_undoes_what_a_checkpoint_wrote_meanwhile(
    knowledge: Knowledge, clock: SetClock, *, repair: bool
) -> None:
    """G12, G14, G15: else a text that was told again goes a year after it was told first."""
    await beside_the_write(knowledge, clock, repair=repair)
    assert (await knowledge.upkeep.verify()).sound
    clock.move(timedelta(days=170))
    await knowledge.pruning.prune()
    (found,) = await knowledge.queries.query_for_failure(failure().failure_description or "", min_relevance=0.0)
    assert found.success_count == 1


@pytest.mark.long
async def test_g12_an_expired_point_is_not_put_back_for_pruning_has_taken_it(
    knowledge: Knowledge, clock: SetClock
) -> None:
    """G12: pruning takes it from the index before it takes the row; in between a rebuild would put it back for good."""
    await capture(knowledge, failure())
    await knowledge.checkpoints.process_all()
    clock.move(timedelta(days=400))

    await wired(knowledge, Trips({"patterns.prune:before:1": knowledge.store_upkeep.rebuild})).pruning.prune()
    assert (await knowledge.stats()).points == 0
    assert (await knowledge.upkeep.verify()).sound
