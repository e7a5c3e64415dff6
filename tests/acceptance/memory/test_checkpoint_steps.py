"""Several batches of a checkpoint are under way at once, each at another step; each step in the order of capture."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Literal

import pytest
import sqlalchemy as sa

from hardwon.errors import EmbedderUnavailable, IndexUnavailable, StorageUnavailable, TookTooLong, Unavailable
from knowledge.adapters.postgres.memory import counts
from knowledge.memory.checkpoint import leases, pipeline
from knowledge.memory.index.reconcile import settle
from knowledge.models import Embeddings, EmbeddingSpace, LeaseToken, NewEntry
from knowledge.ports import Selection
from knowledge.runtime import scheduling
from knowledge.wiring.open import Knowledge
from tests.conftest import Opens, SetClock
from tests.support.embedders import HashingEmbedder
from tests.support.entries import capture, failure
from tests.support.faults import Trips, WiredEmbedder, wired
from tests.support.stores import numbered

LEASED = "SELECT count(*) FROM knowledge_staging WHERE lease_token IS NOT NULL"
NOTED = "SELECT count(*) FROM points WHERE look_at IS NOT NULL"
UNCOUNTED = "SELECT count(*) FROM points WHERE NOT counted"
END_IDLE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND state = 'idle in transaction' AND pid <> pg_backend_pid()"
)
PATIENCE_SECONDS = 20


@pytest.fixture
async def small(opens: Opens, embedder: HashingEmbedder) -> AsyncIterator[Knowledge]:
    """The services with batches of four."""
    async with opens(embedder=embedder, checkpoint_batch=4) as opened:
        yield opened


def different(count: int) -> list[NewEntry]:
    return [failure(failure_description=f"failure of part {n}", solution_steps=f"fix {n}") for n in range(count)]


def told_again(count: int) -> list[NewEntry]:
    """Return the same failure, met in so many tasks."""
    return [failure(task_id=f"T-{n}") for n in range(count)]


async def number(knowledge: Knowledge, query: str) -> int:
    async with knowledge.engine.connect() as connection:
        return int((await connection.execute(sa.text(query))).scalar_one())


def waits_for(event: asyncio.Event) -> Callable[[], Awaitable[None]]:
    async def wait() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await event.wait()

    return wait


def sets(event: asyncio.Event) -> Callable[[], Awaitable[None]]:
    async def tell() -> None:
        event.set()

    return tell


class Heard(Trips):
    """Trips that remember in which order places were passed."""

    order: list[str]

    async def __call__(self, place: str) -> None:
        self.order = [*getattr(self, "order", []), place]
        await super().__call__(place)

    def nth(self, place: str, number: int) -> int:
        """Return when a place was passed for the n-th time."""
        return [at for at, passed in enumerate(self.order) if passed == place][number]


@pytest.mark.long
async def test_a_batch_is_decided_while_the_one_before_is_put_into_the_index(small: Knowledge) -> None:
    decided = asyncio.Event()
    trips = Trips({"index.upsert:before:1": waits_for(decided), "deciding.commit:after:2": sets(decided)})
    await capture(small, *different(8))
    assert (await wired(small, trips).checkpoints.process_all()).embedded == 8


class OneAtATime(HashingEmbedder):
    """Gains nothing by more than three texts at once, as a model that runs in this process."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way, self.most, self.sizes = 0, 0, list[int]()

    @property
    def efficient_batch_size(self) -> int | None:
        return 3

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.sizes.append(len(texts))
        await asyncio.sleep(0.01)
        self.under_way -= 1
        return await super().embed(texts, kind)


async def test_a_call_asks_for_no_more_texts_than_the_embedder_gains_by_and_only_one_waits(
    opens: Opens,
) -> None:
    """So that others have their turn, and the embedder never waits for us."""
    embedder = OneAtATime()
    async with opens(embedder=embedder, checkpoint_batch=8) as opened:
        await capture(opened, *different(18))
        assert (await opened.checkpoints.process_all()).embedded == 18
    assert sorted(embedder.sizes) == [2, 2, 2, 3, 3, 3, 3]
    assert embedder.most <= 2


@pytest.mark.long
async def test_the_last_batches_are_smaller_as_nothing_is_embedded_beside_them(opens: Opens) -> None:
    async with opens(embedder=OneAtATime(), checkpoint_batch=256) as opened:
        await capture(opened, *different(200))
        steps: list[int] = []
        await opened.checkpoints.process_all(progress=lambda done, _: steps.append(done))
        assert steps == [150, 187, 200]


async def test_a_last_batch_of_a_few_entries_goes_with_the_one_before(opens: Opens) -> None:
    async with opens(embedder=OneAtATime(), checkpoint_batch=256) as opened:
        await capture(opened, *different(20))
        steps: list[int] = []
        await opened.checkpoints.process_all(progress=lambda done, _: steps.append(done))
        assert steps == [20]


class LateWithTheLast(OneAtATime):
    """Embeds the last batch of 200 entries, of 150, 37 and 13, only when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.told = asyncio.Event()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        if sum(self.sizes) >= 150 + 37:
            await waits_for(self.told)()
        return await super().embed(texts, kind)


@pytest.mark.long
async def test_words_are_counted_while_the_last_batch_is_embedded_so_that_few_are_left_then(opens: Opens) -> None:
    embedder = LateWithTheLast()
    async with opens(embedder=embedder, checkpoint_batch=256) as opened:
        await capture(opened, *different(200))
        trips = Trips({"points.count_words:after:1": sets(embedder.told)})
        assert (await wired(opened, trips).checkpoints.process_all()).embedded == 200
        assert await number(opened, UNCOUNTED) == 0


async def test_what_a_checkpoint_before_left_uncounted_is_counted_before_anything_is_decided(small: Knowledge) -> None:
    async def fails() -> None:
        raise StorageUnavailable("down")

    await capture(small, *different(3))
    with pytest.raises(StorageUnavailable):
        await wired(small, Trips({"points.count_words:before:1": fails})).checkpoints.process_all()
    assert await number(small, UNCOUNTED) == 3
    await capture(small, *different(4))
    heard = Heard({})
    assert (await wired(small, heard).checkpoints.process_all()).embedded == 1
    assert heard.nth("points.count_words:after", 0) < heard.nth("deciding.find_leased:before", 0)
    assert await number(small, UNCOUNTED) == 0
    assert (await small.stores.spaces.statistics([])).documents == 4


async def nothing() -> None:
    """Wait for nothing."""


async def test_the_next_batch_is_leased_while_one_is_embedded(opens: Opens) -> None:
    claimed = asyncio.Event()
    trips = Trips({"embedder.embed:before:1": waits_for(claimed), "entries.claim:after:2": sets(claimed)})
    async with opens(embedder=WiredEmbedder(trips, nothing), checkpoint_batch=4) as opened:
        await capture(opened, *different(8))
        assert (await wired(opened, trips).checkpoints.process_all()).embedded == 8


@pytest.mark.long
async def test_what_was_leased_ahead_is_given_back_when_a_checkpoint_fails(opens: Opens) -> None:
    claimed = asyncio.Event()

    async def fails() -> None:
        await waits_for(claimed)()
        raise EmbedderUnavailable("down")

    trips = Trips({"embedder.embed:before:1": fails, "entries.claim:after:2": sets(claimed)})
    async with opens(embedder=WiredEmbedder(trips, nothing), checkpoint_batch=4) as opened:
        await capture(opened, *different(8))
        with pytest.raises(EmbedderUnavailable):
            await wired(opened, trips).checkpoints.process_all()
        assert await number(opened, LEASED) == 0
        assert (await opened.checkpoints.process_all()).embedded == 8


class Overlapping(OneAtATime):
    """Its first call goes on only once there is a second; it may fail then, and the second hang."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self.fails, self.calls, self.cancelled = fails, 0, 0
        self._second = asyncio.Event()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        self.calls += 1
        if self.calls == 1:
            await waits_for(self._second)()
            if self.fails:
                raise EmbedderUnavailable("down")
        elif self.calls == 2:
            self._second.set()
            try:
                await asyncio.sleep(60 if self.fails else 0)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        return await super().embed(texts, kind)


@pytest.mark.long
async def test_an_embedder_that_gains_nothing_by_many_texts_has_the_next_batch_before_it_is_done(opens: Opens) -> None:
    async with opens(embedder=Overlapping(), checkpoint_batch=3) as opened:
        await capture(opened, *different(8))
        assert (await opened.checkpoints.process_all()).embedded == 8


@pytest.mark.long
async def test_what_is_embedded_ahead_is_broken_off_and_given_back_when_a_checkpoint_fails(opens: Opens) -> None:
    embedder = Overlapping(fails=True)
    async with opens(embedder=embedder, checkpoint_batch=3) as opened:
        await capture(opened, *different(8))
        with pytest.raises(EmbedderUnavailable):
            await opened.checkpoints.process_all()
        assert embedder.cancelled == 1
        assert await number(opened, LEASED) == 0
        assert (await opened.checkpoints.process_all()).embedded == 8


@pytest.mark.long
async def test_what_was_leased_ahead_is_kept_however_long_it_waits(opens: Opens) -> None:
    claimed, left = asyncio.Event(), list[int]()
    lease = timedelta(seconds=0.3)

    async def looks() -> None:
        await waits_for(claimed)()
        await asyncio.sleep(1)
        others = await opened.stores.entries.claim(Selection(), limit=8, lease=lease)
        left.append(len(others.entries))

    trips = Trips({"embedder.embed:before:1": looks, "entries.claim:after:2": sets(claimed)})
    async with opens(embedder=WiredEmbedder(trips, nothing), checkpoint_batch=4) as opened:
        await capture(opened, *different(8))
        assert (await wired(opened, trips, lease=lease).checkpoints.process_all()).embedded == 8
    assert left == [0]


@pytest.mark.long
async def test_a_checkpoint_that_waits_for_what_a_killed_one_took_says_so(
    small: Knowledge, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """G17: a minute of silence looks like a hang."""
    monkeypatch.setattr(pipeline, "_POLLS_BEFORE_WARNING", 2)
    await capture(small, *different(3))
    await small.stores.entries.claim(Selection(), limit=3, lease=timedelta(seconds=2))
    assert (await small.checkpoints.process_all()).embedded == 3
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told.startswith("checkpoint_waits ")
    assert "60 s after the last heartbeat" in told


@pytest.mark.long
async def test_a_batch_is_put_into_the_index_while_the_one_before_is_marked(small: Knowledge) -> None:
    there = asyncio.Event()
    trips = Trips({"patterns.mark_embedded:before:1": waits_for(there), "index.upsert:after:2": sets(there)})
    await capture(small, *different(8))
    assert (await wired(small, trips).checkpoints.process_all()).embedded == 8


@pytest.mark.long
async def test_every_batch_is_decided_then_put_into_the_index_then_marked_and_none_overtakes_another(
    small: Knowledge,
) -> None:
    """The first batch is late in each step: whoever did not wait for it would have overtaken it."""
    decided, in_index = asyncio.Event(), asyncio.Event()

    def late(event: asyncio.Event) -> Callable[[], Awaitable[None]]:
        async def wait() -> None:
            await waits_for(event)()
            await asyncio.sleep(0.1)

        return wait

    heard = Heard(
        {
            "deciding.commit:after:2": sets(decided),
            "index.upsert:before:1": late(decided),
            "index.upsert:after:2": sets(in_index),
            "patterns.mark_embedded:before:1": late(in_index),
        }
    )
    await capture(small, *different(22))
    assert (await wired(small, heard).checkpoints.process_all()).embedded == 22
    for batch in range(6):
        steps = [
            heard.nth("deciding.commit:after", batch),
            heard.nth("index.upsert:before", batch),
            heard.nth("index.upsert:after", batch),
            heard.nth("patterns.mark_embedded:before", batch),
        ]
        assert steps == sorted(steps)
        if batch:
            assert heard.nth("deciding.commit:after", batch - 1) < heard.nth("deciding.find_leased:before", batch)
            assert heard.nth("index.upsert:after", batch - 1) < heard.nth("index.upsert:before", batch)
            assert heard.nth("patterns.mark_embedded:after", batch - 1) < heard.nth(
                "patterns.mark_embedded:before", batch
            )


@pytest.mark.long
async def test_what_a_batch_founded_is_joined_before_the_index_has_it_and_leaves_nothing_to_settle(
    small: Knowledge, clock: SetClock
) -> None:
    """Each batch writes its point after the one before: nobody has to look at it again."""
    decided = asyncio.Event()

    async def later() -> None:
        clock.move(timedelta(seconds=1))

    trips = Trips(
        {
            "deciding.commit:before:1": later,
            "deciding.commit:before:2": later,
            "index.upsert:before:1": waits_for(decided),
            "deciding.commit:after:2": sets(decided),
        }
    )
    await capture(small, *told_again(8))
    report = await wired(small, trips).checkpoints.process_all()
    assert (report.embedded, report.founded) == (8, 1)
    assert trips.passed["index.upsert:after"] == 2
    assert await number(small, NOTED) == 0
    assert (await small.upkeep.verify()).sound
    (found,) = await small.queries.query_for_failure(failure().failure_description or "", min_relevance=0)
    assert found.success_count == 8


@pytest.mark.long
async def test_what_fails_at_one_batch_leaves_no_lease_of_any_and_the_next_checkpoint_finishes(
    small: Knowledge,
) -> None:
    async def down() -> None:
        raise IndexUnavailable("no")

    await capture(small, *different(22))
    with pytest.raises(IndexUnavailable):
        await wired(small, Trips({"index.upsert:before:2": down})).checkpoints.process_all()
    assert await number(small, LEASED) == 0
    left = await number(small, "SELECT count(*) FROM knowledge_staging WHERE status = 'staged'")
    assert 4 <= left <= 18
    assert (await small.checkpoints.process_all()).embedded == left
    assert (await small.stats()).points == await number(small, "SELECT count(*) FROM points") == 22
    assert (await small.upkeep.verify()).sound


@pytest.mark.long
async def test_a_checkpoint_that_is_broken_off_stores_what_is_decided_and_gives_the_rest_back(
    small: Knowledge,
) -> None:
    decided, go = asyncio.Event(), asyncio.Event()
    trips = Trips({"index.upsert:before:1": waits_for(go), "deciding.commit:after:2": sets(decided)})
    await capture(small, *different(40))
    running = asyncio.create_task(wired(small, trips).checkpoints.process_all())
    await waits_for(decided)()
    running.cancel()
    await asyncio.sleep(0.1)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await number(small, LEASED) == 0
    embedded = await number(small, "SELECT count(*) FROM knowledge_staging WHERE status = 'embedded'")
    assert 8 <= embedded <= 16
    assert await number(small, "SELECT count(*) FROM points") == embedded == (await small.stats()).points


@pytest.mark.long
@pytest.mark.parametrize(
    ("place", "wrong", "told"),
    [
        ("patterns.mark_embedded:before:2", ValueError("a defect of ours"), "unexpected error: ValueError"),
        ("patterns.mark_embedded:before:2", asyncio.CancelledError(), "it was cancelled"),
        ("entries.abandon:before:1", StorageUnavailable("Postgres went away"), "Postgres went away"),
    ],
    ids=["a defect", "a cancellation", "a store that fails at once"],
)
async def test_however_a_checkpoint_ends_its_record_says_so(
    small: Knowledge, place: str, wrong: BaseException, told: str
) -> None:
    """It stayed as one that is at work for ever."""

    async def end() -> None:
        raise wrong

    await capture(small, *different(22))
    with pytest.raises(type(wrong)):
        await wired(small, Trips({place: end})).checkpoints.process_checkpoint("web-shop", "project_completion")
    query = "SELECT count(*) FROM checkpoints WHERE finished_at IS NULL OR report->>'error' IS DISTINCT FROM '{}'"
    assert await number(small, query.format(told)) == 0
    assert await number(small, "SELECT count(*) FROM checkpoints") == 1


@pytest.mark.long
async def test_a_process_that_hangs_while_it_decides_holds_up_others_for_a_while_only(
    small: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "MAX_IDLE", timedelta(milliseconds=200))
    await capture(small, *different(2))
    hangs, goes_on = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        async with small.stores.patterns.begin_decisions(LeaseToken(numbered(1))) as deciding:
            await deciding.find_leased([])
            hangs.set()
            await goes_on.wait()
            await deciding.find_leased([])

    hanging = asyncio.create_task(hang())
    await hangs.wait()
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert (await small.checkpoints.process_all()).embedded == 2
    goes_on.set()
    with pytest.raises(StorageUnavailable):
        await hanging


@pytest.mark.long
async def test_a_process_that_hangs_while_it_settles_holds_up_others_for_a_while_only(
    small: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that never answers would keep the patterns of a workspace locked for good."""
    first, second = await capture(small, *different(2))
    await small.checkpoints.process_all()
    monkeypatch.setattr(counts, "MAX_IDLE", timedelta(milliseconds=200))
    hangs, never = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        hangs.set()
        await never.wait()

    deleting = asyncio.create_task(wired(small, Trips({"index.delete:before:1": hang})).capture.delete(first))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await hangs.wait()
        await small.capture.delete(second)
    never.set()
    await asyncio.gather(deleting, return_exceptions=True)
    await small.checkpoints.process_all()  # which settles what was taken back
    assert (await small.stats()).entries == {}
    assert await number(small, NOTED) <= 2


@pytest.mark.long
async def test_what_was_put_into_the_index_after_its_turn_was_over_is_taken_back_by_whoever_comes_next(
    small: Knowledge,
) -> None:
    """G13: Postgres ended the transaction of one who settles; what was deleted before it went on is back for a day."""
    (entry_id,) = await capture(small, failure())
    await small.checkpoints.process_all()
    await small.stores.points.mark_dirty(
        await small.stores.index.ids(await in_use(small), "default", after=None, limit=9)
    )

    async def deleted_meanwhile() -> None:
        async with small.engine.connect() as connection:
            await connection.execute(sa.text(END_IDLE))
        await small.capture.delete(entry_id)
        assert (await small.stats()).points == 0

    late = wired(small, Trips({"index.upsert:before:1": deleted_meanwhile}))
    with pytest.raises(StorageUnavailable):
        await settle(late.upkeep.stores)
    assert (await small.stats()).points == 1
    await small.checkpoints.process_all()
    assert (await small.stats()).points == 0


async def in_use(knowledge: Knowledge) -> EmbeddingSpace:
    bound = await knowledge.stores.spaces.bound()
    assert bound is not None
    return bound.space


@pytest.mark.long
async def test_a_checkpoint_ends_in_time_where_postgres_never_answers(
    small: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (leases, scheduling, pipeline):
        monkeypatch.setattr(module, "FINISH_SECONDS", 0.2)

    async def hang() -> None:
        await asyncio.Event().wait()

    await capture(small, *different(3))
    hung = wired(small, Trips({"entries.claim:before:1": hang}))
    checkpoints = replace(hung.checkpoints, deadline=timedelta(seconds=0.3))
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(Unavailable, match="did not finish within"):
            await checkpoints.process_all()
    assert (await small.checkpoints.process_all()).embedded == 3


@pytest.mark.long
async def test_a_project_that_takes_too_long_holds_up_no_other(
    small: Knowledge, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for an outage, and none that came after it was swept, hour after hour."""
    for module in (leases, scheduling, pipeline):
        monkeypatch.setattr(module, "FINISH_SECONDS", 0.2)

    async def hang() -> None:
        await asyncio.Event().wait()

    for number, entry in enumerate(different(3)):
        await capture(small, replace(entry, project_id=f"p{number}"))
    clock.move(timedelta(days=2))
    hung = wired(small, Trips({"entries.claim:before:1": hang}))
    checkpoints = replace(hung.checkpoints, deadline=timedelta(seconds=2))
    with pytest.raises(TookTooLong):
        await checkpoints.sweep(staged_for=timedelta(days=1))
    assert (await small.stats()).entries == {"embedded": 2, "staged": 1}


@pytest.mark.long
async def test_a_checkpoint_ends_while_captures_go_on(opens: Opens, clock: SetClock) -> None:
    """It took whatever came until nothing came any more."""
    trips = Trips({f"index.upsert:before:{call}": lambda: asyncio.sleep(0.05) for call in range(1, 10_000)})
    async with opens(checkpoint_batch=4) as opened:
        knowledge = wired(opened, trips)
        await knowledge.capture.capture(failure(failure_description="the first"))
        captured = 1

        async def goes_on() -> None:
            nonlocal captured
            while True:
                captured += 1
                clock.move(timedelta(milliseconds=1))
                told = failure(failure_description=f"number {captured}", task_id=str(captured))
                await knowledge.capture.capture(told)

        capturing = asyncio.create_task(goes_on())
        try:
            async with asyncio.timeout(20):
                embedded = (await knowledge.checkpoints.process_all()).embedded
        finally:
            capturing.cancel()
        assert 1 <= embedded < captured
        await knowledge.checkpoints.process_all()
        assert (await knowledge.stats()).entries["embedded"] >= captured - 1
