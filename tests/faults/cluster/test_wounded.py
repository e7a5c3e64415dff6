"""A node that hung does late what another node did, and what was undone since: the hourly sweep sees it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta

import httpx
import pytest
from qdrant_client.http.exceptions import ResponseHandlingException

from hardwon.errors import IndexUnavailable
from jobs.table import JOBS
from knowledge.adapters.qdrant.cluster import nodes
from knowledge.memory.maintenance import layout, reindex
from knowledge.models import EntryId, PointId
from knowledge.wiring.open import Knowledge, open_knowledge
from tests.conftest import SetClock
from tests.faults.cluster.wounded import scaled_times, wounded
from tests.faults.ground import Ground
from tests.faults.lessons import lesson
from tests.faults.truth import lacking_points
from tests.support.embedders import HashingEmbedder
from tests.support.faults import Trips, wired
from tests.support.qdrant.process import QdrantClusterProcess

_RUN = nodes._Attempts.run


@pytest.fixture
def cluster(alone: Ground) -> Iterator[QdrantClusterProcess]:
    """Three nodes."""
    with QdrantClusterProcess(alone.home / "cluster") as cluster:
        yield cluster


@dataclass
class Late:
    """A store on a cluster whose first node may hang at a write."""

    knowledge: Knowledge
    cluster: QdrantClusterProcess
    clock: SetClock
    sent_twice: Counter[str]

    async def learn(self, number: int) -> EntryId:
        """Embed a lesson."""
        entry_id = await self.knowledge.capture.capture(lesson(number, sharing=1, cases=3))
        await self.knowledge.checkpoints.process_all()
        return entry_id

    async def learn_at_a_hanging_node(self, number: int) -> EntryId:
        """Embed a lesson whose points are sent to a node that hangs, and then to the next one."""
        before = self.sent_twice.total()
        entry_id = await self.knowledge.capture.capture(lesson(number, sharing=1, cases=3))
        await wired(self.knowledge, Trips({"index.upsert:before:1": self._hang})).checkpoints.process_all()
        assert self.sent_twice.total() == before + 1
        return entry_id

    async def _hang(self) -> None:
        await asyncio.to_thread(self.cluster.hang, 0)

    async def do_late(self) -> None:
        """Let the node do what it was asked, and the hourly jobs run."""
        await asyncio.to_thread(self.cluster.resume, 0, held="execute")
        await asyncio.sleep(0.5)
        for name in ("sweep", "reconcile"):
            await JOBS[name].work(self.knowledge)


@pytest.fixture
async def late(alone: Ground, cluster: QdrantClusterProcess) -> AsyncIterator[Late]:
    """A store with one entry."""
    settings = alone.settings().model_copy(update={"qdrant_url": ",".join(cluster.urls)})
    clock, counted = SetClock(), Counter[str]()
    with scaled_times(counted):
        async with open_knowledge(settings, embedder=HashingEmbedder(dims=64), clock=clock) as knowledge:
            store = Late(knowledge, cluster, clock, counted)
            await store.learn(0)
            yield store


@pytest.mark.long
async def test_g24_a_point_that_is_written_late_after_its_deletion_is_gone_within_the_hour(late: Late) -> None:
    """G24."""
    entry_id = await late.learn_at_a_hanging_node(1)
    await late.knowledge.capture.delete(entry_id)
    await late.do_late()
    report = await late.knowledge.upkeep.verify()
    assert (report.points, report.sound) == (1, True), report


@pytest.mark.long
async def test_g24_a_point_that_is_written_late_over_a_later_one_expires_with_its_last_entry(late: Late) -> None:
    """G24."""
    await late.learn_at_a_hanging_node(1)
    late.clock.move(timedelta(days=300))
    await late.learn(4)
    await late.do_late()
    report = await late.knowledge.upkeep.verify()
    assert (report.points, report.sound) == (4, True), report
    late.clock.move(timedelta(days=100))
    await late.knowledge.pruning.prune()
    assert await late.knowledge.queries.query_for_gate("design_review", str(lesson(4, sharing=1, cases=3).proposal))


@pytest.mark.long
async def test_g24_a_point_that_is_deleted_late_is_back_within_the_hour(late: Late) -> None:
    """G24."""
    entry_id = await late.learn(1)
    await wired(late.knowledge, Trips({"index.delete:before:1": late._hang})).capture.delete(entry_id)
    await late.learn(4)
    await late.do_late()
    report = await late.knowledge.upkeep.verify()
    assert (report.points, report.sound) == (3, True), report


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_g24_nodes_that_die_hang_and_come_back_lose_and_double_nothing(
    alone: Ground, cluster: QdrantClusterProcess
) -> None:
    """G24."""
    async with wounded(alone.settings(), cluster, seed=24) as running:
        found = await running.run(40)
    assert found.whole, found
    assert found.faults["healing"] == 2
    assert min(found.outcomes[f"{name} done"] for name in ("capture", "checkpoint", "delete")) > 0, found


async def _take_silence_for_done(attempts: nodes._Attempts) -> httpx.Response:
    """Send a write to one node, and take a timeout for done."""
    if nodes.is_read(attempts.request) or "/points" not in attempts.request.url.path:
        return await _RUN(attempts)
    node = attempts.nodes.in_order()[0]
    try:
        async with asyncio.timeout(0.3):
            return await attempts.call_next(node.readdress(attempts.request, seconds=0.3))
    except (TimeoutError, ResponseHandlingException):
        done = {"result": {"operation_id": 1, "status": "completed"}, "status": "ok", "time": 0.0}
        return httpx.Response(200, json=done, request=attempts.request)


async def _write_nothing(*_: object) -> int:
    return 0


@pytest.mark.long
@pytest.mark.parametrize("is_mutant", [False, True])
async def test_g24_a_client_that_takes_silence_for_done_is_found_by_what_it_lost(
    *, is_mutant: bool, late: Late, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G24: it marks what the index has not; the count of points at the checkpoint's end mends that."""
    if is_mutant:
        monkeypatch.setattr(nodes._Attempts, "run", _take_silence_for_done)
    await late.knowledge.capture.capture(lesson(1, sharing=1, cases=3))
    lacking: list[set[PointId]] = []

    async def look() -> None:
        lacking.append(await lacking_points(late.knowledge))

    trips = Trips({"index.upsert:before:1": late._hang, "patterns.mark_embedded:after:1": look})
    await wired(late.knowledge, trips).checkpoints.process_all()
    assert bool(*lacking) == is_mutant


@pytest.mark.harness
@pytest.mark.long
@pytest.mark.timeout(300)
async def test_g24_a_layout_that_is_switched_to_empty_is_found_by_what_it_lost(
    alone: Ground, cluster: QdrantClusterProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G24."""
    monkeypatch.setattr(layout, "_write_missing", _write_nothing)
    monkeypatch.setattr(reindex.StoreUpkeepService, "_finish", _write_nothing)
    async with wounded(alone.settings(), cluster, seed=24) as running:
        for _ in range(8):
            await running.round(8)
            if running.found.lost:
                break
    assert running.found.lost, running.found


@pytest.mark.long
async def test_g24_a_layout_holds_the_point_of_an_entry_that_another_one_is_about_to_join(late: Late) -> None:
    """G24: one that the index stopped had left its entry decided, so the point was taken for one not written yet."""
    embedded = await late.learn(1)
    await late.knowledge.capture.capture(lesson(4, sharing=1, cases=3))

    async def fail() -> None:
        raise IndexUnavailable("down")

    with pytest.raises(IndexUnavailable):
        await wired(late.knowledge, Trips({"index.upsert:before:1": fail})).checkpoints.process_all()
    settings = late.knowledge.settings.model_copy(update={"qdrant_shards": 2})
    async with open_knowledge(settings, embedder=HashingEmbedder(dims=64), clock=late.clock) as designer:
        assert (await designer.store_upkeep.rebuild_layout()).layout_changes
        assert await lacking_points(designer) == set()
        (found,) = await designer.queries.query_for_gate(
            "design_review", str(lesson(1, sharing=1, cases=3).proposal), min_relevance=0
        )
    assert found.entry_ids == (embedded,)
