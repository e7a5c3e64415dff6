"""A store over a cluster of stand-in Qdrant nodes: contexts beside dead nodes, and layouts without a gap."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import cast

import pytest
from qdrant_client import models

from hardwon.client.knowledge_client import KnowledgeClient
from hardwon.errors import HardwonError, IndexUnavailable
from hardwon.models.tasks import Task
from knowledge.adapters.qdrant.server import QdrantServerIndex
from knowledge.memory.maintenance import layout, reindex
from knowledge.models import NewEntry
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge
from orchestrator.context.builder import OrchestratorContextBuilder
from orchestrator.evaluation import doctor
from tests.conftest import Opens
from tests.support.documents import GUIDE, add, find
from tests.support.entries import CART, capture, failure, learn
from tests.support.qdrant.collection import GraphPolicy
from tests.support.qdrant.process import QdrantClusterProcess
from tests.support.qdrant.storage import Options

ORDERS = list(itertools.permutations(range(3)))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[QdrantClusterProcess]:
    with QdrantClusterProcess(tmp_path) as process:
        yield process


def lessons(count: int, *, first: int = 0) -> list[NewEntry]:
    """Return failures that have nothing in common."""
    return [
        failure(failure_description=f"{sha256(bytes([at])).hexdigest()} of case {at}", solution_steps=f"mend case {at}")
        for at in range(first, first + count)
    ]


async def fill(knowledge: Knowledge) -> None:
    await learn(knowledge, *lessons(40), failure())
    await learn(knowledge.in_workspace("other"), failure())
    await add(knowledge, "guide.md", GUIDE)


@pytest.mark.long
@pytest.mark.parametrize("order", ORDERS)
async def test_no_context_is_silent_or_late_with_one_node_dead_and_one_hanging(
    order: tuple[int, ...], cluster: QdrantClusterProcess, opens: Opens
) -> None:
    """60 contexts in each order of the addresses; the whole figure is in docs/reliability.md."""
    urls = ",".join(cluster.urls[at] for at in order)
    async with opens(qdrant_url=urls, qdrant_replication=3) as knowledge:
        await fill(knowledge)
        builder = OrchestratorContextBuilder(knowledge)

        async def slowest(contexts: int) -> float:
            times = []
            for number in range(contexts):
                began = time.perf_counter()
                task = Task(description=f"{CART} {number}", project_id="shop", task_id=f"T-{number}")
                context = await builder.build_context_for_task(task, "backend")
                times.append(time.perf_counter() - began)
                assert (len(context.patterns) > 0, context.degraded) == (True, None)
            return max(times)

        whole = await slowest(30)
        cluster.kill(0)
        cluster.hang(1)
        assert await slowest(60) < whole + 0.3


@pytest.mark.long
async def test_a_layout_is_taken_without_a_moment_without_answers(cluster: QdrantClusterProcess, opens: Opens) -> None:
    """And what is captured, deleted and checkpointed meanwhile is in the new one."""
    urls = ",".join(cluster.urls)
    async with opens(qdrant_url=urls, qdrant_replication=1, qdrant_shards=1) as knowledge:
        await fill(knowledge)
        assert (await knowledge.store_upkeep.rebuild_layout(dry_run=True)).layout_changes == ()
    async with opens(qdrant_url=urls) as knowledge:
        (gone,) = await learn(knowledge, failure(failure_description="The build is red since the upgrade of yesterday"))
        asked, stop = 0, asyncio.Event()

        async def ask() -> None:
            nonlocal asked
            while not stop.is_set():
                assert await knowledge.queries.query_for_failure(CART)
                assert (await find(knowledge, "ERR-4521")).passages
                asked += 1

        asking = asyncio.create_task(ask())
        await capture(knowledge, *lessons(10, first=100))
        changing = asyncio.create_task(knowledge.store_upkeep.rebuild_layout())
        await knowledge.checkpoints.process_all()
        await knowledge.capture.delete(gone)
        report = await changing
        stop.set()
        await asking
        assert asked > 3
        assert report.layout_changes == ("replicas: 1 instead of 2",)
        assert (report.embedded, report.points > 40, report.passages > 0) == (0, True, True)
        await knowledge.checkpoints.process_all()
        assert (await knowledge.upkeep.verify()).sound
        assert (await knowledge.in_workspace("other").upkeep.verify()).sound
        assert (await knowledge.store_upkeep.rebuild_layout()).layout_changes == ()
        assert isinstance(knowledge.stores.index, QdrantServerIndex)
        names = {each.name for each in (await knowledge.stores.index._client.get_collections()).collections}
        assert len(names) == 2
        assert all(name.endswith("_1") for name in names)
    async with opens(qdrant_url=cluster.urls[1]) as another:
        assert await another.queries.query_for_failure(CART)
        await capture(another, failure(failure_description="A new one after the change"))
        assert (await another.checkpoints.process_all()).embedded == 1
        assert (await another.upkeep.verify()).sound


STEPS = ["build_layout", "write_rest", "drop_older_layouts"]


@pytest.mark.long
@pytest.mark.parametrize("step", STEPS)
async def test_a_change_of_layout_that_is_killed_goes_on_when_it_is_called_again_or_by_the_clock(
    step: str, cluster: QdrantClusterProcess, opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = ",".join(cluster.urls)
    async with opens(qdrant_url=urls, qdrant_shards=1) as knowledge:
        await fill(knowledge)
    async with opens(qdrant_url=urls, qdrant_shards=2) as knowledge:
        with monkeypatch.context() as killing:
            real = getattr(layout, step)

            async def killed(*arguments: object, **named: object) -> object:
                if step == "build_layout":
                    killing.setattr(layout, "_PAGE", 8)
                    killing.setattr(layout, "_write", _failing_after(layout._write, 2))
                    return await real(*arguments, **named)
                raise IndexUnavailable("killed")

            killing.setattr(reindex, step, killed)
            with pytest.raises(IndexUnavailable):
                await knowledge.store_upkeep.rebuild_layout()
        assert await knowledge.queries.query_for_failure(CART)
    async with opens(qdrant_url=urls, qdrant_shards=2) as knowledge:
        if step == "drop_older_layouts":
            assert await knowledge.store_upkeep.finish()
        else:
            assert (await knowledge.store_upkeep.rebuild_layout()).layout_changes == ("shards: 1 instead of 2",)
        assert (await knowledge.upkeep.verify()).sound
        assert await knowledge.queries.query_for_failure(CART)
        assert not await knowledge.store_upkeep.finish()


def _failing_after(real: object, times: int) -> object:
    left = itertools.count(times, -1)

    async def write(*arguments: object) -> object:
        if next(left) <= 0:
            raise IndexUnavailable("killed")
        return await real(*arguments)  # type: ignore[operator]

    return write


@pytest.mark.long
async def test_verify_recall_finds_a_collection_of_the_layout_of_before_and_is_content_after_a_new_one(
    tmp_path: Path, opens: Opens
) -> None:
    """The graph of each workspace alone: a search under two conditions finds nothing. With low thresholds, at once."""
    graphs = GraphPolicy(indexing_threshold_kb=50, full_scan_threshold_kb=10, at_once=True)
    with QdrantClusterProcess(tmp_path, Options(graphs=graphs), size=1) as process:
        async with opens(qdrant_url=process.urls[0]) as knowledge:
            await fill(knowledge)
            index, bound = knowledge.stores.index, await knowledge.stores.spaces.bound()
            assert bound is not None
            assert isinstance(index, QdrantServerIndex)
            assert (await knowledge.upkeep.measure_recall()).advice == ()
            name = index._collections.name(bound.space)
            await index._client.update_collection(name, hnsw_config=models.HnswConfigDiff(m=0, payload_m=16))
        async with opens(qdrant_url=process.urls[0]) as knowledge:
            before = await knowledge.upkeep.verify(recall=True)
            assert before.recall is not None
            assert not before.recall.sound
            assert any("hardwon rebuild --layout" in advice for advice in before.recall.advice)
            await knowledge.store_upkeep.rebuild_layout()
            after = await knowledge.upkeep.verify(recall=True)
            assert after.recall is not None
            assert (after.sound, after.recall.sound, after.recall.least) == (True, True, 1.0)


@pytest.mark.long
async def test_while_the_index_is_away_nothing_is_marked_and_the_layout_stays(
    cluster: QdrantClusterProcess, opens: Opens
) -> None:
    async with opens(qdrant_url=",".join(cluster.urls), qdrant_shards=1) as knowledge:
        await fill(knowledge)
    async with opens(qdrant_url=",".join(cluster.urls), qdrant_shards=2) as knowledge:
        await capture(knowledge, failure(failure_description="One that waits for its checkpoint"))
        for node in range(3):
            cluster.kill(node)
        for work in (knowledge.store_upkeep.rebuild_layout, knowledge.checkpoints.process_all):
            with pytest.raises(HardwonError):
                await work()
        for node in range(3):
            cluster.revive(node)
        assert (await knowledge.stats()).entries["staged"] == 1
        assert (await knowledge.checkpoints.process_all()).embedded == 1
        assert (await knowledge.upkeep.verify()).sound


@pytest.mark.long
async def test_the_doctor_tells_nodes_replicas_what_one_more_death_takes_and_what_to_do(
    cluster: QdrantClusterProcess, opens: Opens, settings: KnowledgeSettings
) -> None:
    """It asks the nodes, not /readyz, which says that all shards are ready."""
    async with opens(qdrant_url=",".join(cluster.urls)) as knowledge:
        await fill(knowledge)
        client = cast("KnowledgeClient", knowledge)
        said = await doctor._check_index(client, settings)
        assert "3 nodes" in said
        assert "2 replicas of each" in said
        assert said.endswith("If one more node died, nothing would be lost")
        assert await doctor._check_recall(client) == "searches find 100% of what exact ones find"
        cluster.kill(2)
        await learn(knowledge, *lessons(20, first=200))
        with pytest.raises(IndexUnavailable) as caught:
            await doctor._check_index(client, settings)
        said = str(caught.value)
        assert "does not answer: start it" in said
        assert "1 of 2 replicas alive" in said
        assert "If one more node dies" in said
    async with opens(qdrant_url=",".join(cluster.urls[:2]), qdrant_replication=3) as knowledge:
        cluster.revive(2)
        said = await doctor._check_index(cast("KnowledgeClient", knowledge), settings)
        assert "replicas: 2 instead of 3" in said
        assert "hardwon rebuild --layout" in said


async def test_the_doctor_says_when_a_server_would_answer_sooner(
    knowledge: Knowledge, settings: KnowledgeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await learn(knowledge, failure())
    assert "a Qdrant server" not in await doctor._check_index(cast("KnowledgeClient", knowledge), settings)
    monkeypatch.setattr(doctor, "_SERVER_FROM", 0)
    assert "set HARDWON_QDRANT_URL" in await doctor._check_index(cast("KnowledgeClient", knowledge), settings)
