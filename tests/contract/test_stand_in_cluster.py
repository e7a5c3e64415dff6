"""A stand-in cluster fails as a real one did: refused, silent, late, behind, without a replica or a majority."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.qdrant.cluster import QdrantCluster, Timing
from tests.support.qdrant.limits import Access
from tests.support.qdrant.process import QdrantClusterProcess
from tests.support.qdrant.storage import Options
from tests.support.qdrant_over_edge import QdrantOverEdge

Body = dict[str, Any]
LAYOUT: Body = {"vectors": {"dense": {"size": 2, "distance": "Cosine"}}, "sparse_vectors": {"lexical": {}}}
EVERY: Body = {"exact": True}


def points(first: int, after: int) -> Body:
    return {
        "points": [{"id": n, "vector": {"dense": [1.0, float(n)]}, "payload": {"n": "x"}} for n in range(first, after)]
    }


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[QdrantCluster]:
    async with QdrantCluster(tmp_path / "cluster") as cluster:
        yield cluster


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=5) as client:
        yield client


class Asking:
    """Requests to the nodes of a cluster, by number."""

    def __init__(self, cluster: QdrantCluster, client: httpx.AsyncClient) -> None:
        self._cluster = cluster
        self._client = client

    async def create(self, **settings: int) -> httpx.Response:
        return await self.send(0, "PUT", "", LAYOUT | settings)

    async def write(self, node: int, body: Body, **options: Any) -> httpx.Response:
        return await self.send(node, "PUT", "/points?wait=true", body, **options)

    async def delete(self, node: int, ids: list[int]) -> httpx.Response:
        return await self.send(node, "POST", "/points/delete?wait=true", {"points": ids})

    async def count(self, node: int) -> int:
        answer = (await self.send(node, "POST", "/points/count", EVERY)).raise_for_status()
        return int(answer.json()["result"]["count"])

    async def counts(self) -> list[int]:
        return [await self.count(node) for node in range(self._cluster.size)]

    async def ids(self, node: int) -> set[int]:
        answer = await self.send(node, "POST", "/points/scroll", {"limit": 1000})
        return {one["id"] for one in answer.json()["result"]["points"]}

    async def states(self, node: int) -> list[str]:
        placement = (await self.send(node, "GET", "/cluster", {})).json()["result"]
        return [one["state"] for one in placement["remote_shards"] + placement["local_shards"]]

    async def send(self, node: int, verb: str, path: str, body: Body, **options: Any) -> httpx.Response:
        url = f"{self._cluster.urls[node]}/collections/c{path}"
        return await self._client.request(verb, url, json=body, **options)


@pytest.fixture
def asking(cluster: QdrantCluster, client: httpx.AsyncClient) -> Asking:
    return Asking(cluster, client)


async def test_a_dead_node_refuses_connections_and_resets_open_ones(cluster: QdrantCluster, asking: Asking) -> None:
    await asking.create(replication_factor=2)
    await asking.write(0, points(0, 10))
    cluster.nodes[1].slow_seconds = 30
    waiting = asyncio.create_task(asking.count(1))
    await asyncio.sleep(0.1)
    await cluster.nodes[1].kill()
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        await waiting
    with pytest.raises(httpx.ConnectError):
        await asking.count(1)
    assert [await asking.count(0), await asking.count(2)] == [10, 10]
    cluster.nodes[1].slow_seconds = 0
    await cluster.nodes[1].start()
    assert await asking.counts() == [10, 10, 10]


@pytest.mark.parametrize("held", ["execute", "drop"])
async def test_what_a_hanging_node_was_asked_is_done_late_or_never(
    held: Any, cluster: QdrantCluster, asking: Asking
) -> None:
    await asking.create(replication_factor=2)
    cluster.nodes[1].hang()
    with pytest.raises(httpx.ReadTimeout):
        await asking.write(1, points(0, 10), timeout=0.2)
    waiting = asyncio.create_task(asking.write(1, points(10, 20)))
    await asyncio.sleep(0.1)
    assert await asking.count(0) == 0
    cluster.nodes[1].resume(held=held)
    if held == "execute":
        assert (await waiting).status_code == 200
        assert await asking.counts() == [20, 20, 20]
    else:
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await waiting
        assert await asking.counts() == [0, 0, 0]


async def test_a_node_that_comes_back_answers_as_of_before_in_its_shards_until_it_has_healed(
    cluster: QdrantCluster, asking: Asking
) -> None:
    await asking.create(replication_factor=2)
    await asking.write(0, points(0, 300))
    await cluster.nodes[2].kill()
    await asking.write(0, points(300, 600))
    await asking.delete(0, list(range(150)))
    assert (await asking.states(0)).count("Dead") == 2
    await cluster.nodes[2].start(stale_seconds=0.5)
    now, stale = set(range(150, 600)), await asking.ids(2)
    assert await asking.count(2) == len(stale)
    missing, back = now - stale, stale - now
    assert all(number >= 300 for number in missing)
    assert all(number < 150 for number in back)
    assert 0.5 < len(missing) / 300 < 0.8, "of two shards of three"
    assert 0.5 < len(back) / 150 < 0.8
    assert await asking.ids(0) == now
    query = {"query": [1.0, 0.0], "using": "dense", "limit": 1000}
    found = await asking.send(2, "POST", "/points/query", query)
    assert {hit["id"] for hit in found.json()["result"]["points"]} == stale
    await asyncio.sleep(0.6)
    assert await asking.ids(2) == now
    assert set(await asking.states(0)) == {"Active"}


async def test_after_a_kill_a_stale_node_is_not_ready_and_after_a_hang_it_says_it_is(
    cluster: QdrantCluster, client: httpx.AsyncClient
) -> None:
    node = cluster.nodes[1]
    await node.kill()
    await node.start(stale_seconds=5)
    assert (await client.get(f"{node.url}/readyz")).status_code == 503
    node.hang()
    node.resume(stale_seconds=5)
    assert (await client.get(f"{node.url}/readyz")).status_code == 200


async def test_with_one_replica_a_dead_or_hanging_node_silences_everything(
    cluster: QdrantCluster, asking: Asking
) -> None:
    """S7."""
    await asking.create()
    await asking.write(0, points(0, 30))
    cluster.nodes[1].hang()
    cluster.timing = Timing(lost_read_hanging=0.3)
    began = time.monotonic()
    refused = await asking.send(0, "POST", "/points/count", EVERY)
    assert (refused.status_code, time.monotonic() - began > 0.3) == (500, True)
    cluster.nodes[1].resume()
    await cluster.nodes[1].kill()
    assert (await asking.send(0, "POST", "/points/count", EVERY)).status_code == 500
    assert (await asking.write(0, points(30, 60))).status_code == 500
    await cluster.nodes[1].start()
    assert 30 < await asking.count(0) < 60, "what was refused was made in the shards that live"


async def test_the_first_write_beside_an_absent_node_waits_and_marks_its_replicas(
    cluster: QdrantCluster, asking: Asking
) -> None:
    """S14."""
    await asking.create(replication_factor=2)
    cluster.timing = Timing(first_write_hanging=0.3)
    cluster.nodes[1].hang()
    assert "Dead" not in await asking.states(0)
    for slow in (True, False):
        began = time.monotonic()
        assert (await asking.write(0, points(0, 30))).status_code == 200
        assert (time.monotonic() - began > 0.3) is slow
    assert (await asking.states(0)).count("Dead") == 2


async def test_with_a_consistency_of_two_a_write_beside_a_dead_node_is_refused_made_and_never_heals_by_itself(
    cluster: QdrantCluster, asking: Asking
) -> None:
    """S13."""
    await asking.create(replication_factor=2, write_consistency_factor=2)
    await cluster.nodes[2].kill()
    assert (await asking.write(0, points(0, 100))).status_code == 500
    assert set(await asking.states(0)) == {"Active"}
    await cluster.nodes[2].start()
    assert await asking.count(0) == 100
    assert await asking.count(2) < 70
    assert (await asking.write(0, points(0, 100))).status_code == 200
    assert await asking.counts() == [100, 100, 100], "the same write again heals it"


async def test_a_collection_is_made_late_beside_a_dead_node_and_not_without_a_majority(
    cluster: QdrantCluster, asking: Asking
) -> None:
    """S9."""
    cluster.timing = Timing(create=0.4, consensus=0.2)
    await cluster.nodes[2].kill()
    with pytest.raises(httpx.ReadTimeout):
        await asking.send(0, "PUT", "", LAYOUT | {"replication_factor": 2}, timeout=0.1)
    assert (await asking.send(0, "GET", "", {})).status_code == 404
    await asyncio.sleep(0.4)
    assert (await asking.send(0, "GET", "", {})).status_code == 200, "it is made though nobody waited for it"
    await cluster.nodes[1].kill()
    assert (await asking.send(0, "DELETE", "", {})).status_code == 500


async def test_other_nodes_do_not_read_a_collection_that_was_made_just_now(
    cluster: QdrantCluster, asking: Asking
) -> None:
    """S16."""
    cluster.timing = Timing(settle=3600)
    await asking.create(replication_factor=2)
    assert [(await asking.send(node, "GET", "", {})).status_code for node in (0, 1)] == [200, 500]
    cluster.timing = Timing(settle=0)
    assert (await asking.send(1, "GET", "", {})).status_code == 200


@pytest.fixture
def process(tmp_path: Path) -> Iterator[QdrantClusterProcess]:
    with QdrantClusterProcess(tmp_path / "cluster") as process:
        yield process


@pytest.mark.long
def test_the_control_port_does_the_same_to_a_process_and_a_kill_of_all_loses_nothing(
    process: QdrantClusterProcess,
) -> None:
    urls = process.urls

    def count(node: int) -> int:
        answer = httpx.post(f"{urls[node]}/collections/c/points/count", json=EVERY, timeout=0.5).raise_for_status()
        return int(answer.json()["result"]["count"])

    httpx.put(f"{urls[0]}/collections/c", json=LAYOUT | {"replication_factor": 2}).raise_for_status()
    process.kill(0)
    httpx.put(f"{urls[1]}/collections/c/points?wait=true", json=points(0, 90)).raise_for_status()
    with pytest.raises(httpx.ConnectError):
        count(0)
    process.revive(0, stale_seconds=60)
    assert count(0) < 60
    process.hang(1)
    with pytest.raises(httpx.ReadTimeout):
        count(1)
    process.resume(1, held="drop")
    process.stop(kill=True)
    process.start()
    assert [count(node) for node in range(3)] == [90, 90, 90]


async def test_answers_are_compressed_where_that_is_set_and_accepted(tmp_path: Path) -> None:
    """S5."""
    server = QdrantOverEdge(tmp_path, Options(compress=True))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=server.app), base_url="http://qdrant") as client:
        for accepted in ("gzip, zstd", "identity"):
            answer = await client.get("/collections", headers={"Accept-Encoding": accepted})
            assert answer.json()["result"] == {"collections": []}
            assert answer.headers.get("content-encoding") == ("gzip" if accepted != "identity" else None)
    assert server.accepted_encodings == {"gzip, zstd", "identity"}
    server.close()


async def test_a_key_for_one_collection_may_do_all_but_make_one_or_move_an_alias(tmp_path: Path) -> None:
    """S17."""
    access = Access(api_key="all", collection_key="mine", collections=("c",))
    server = QdrantOverEdge(tmp_path, Options(access=access))
    transport = httpx.ASGITransport(app=server.app)
    mine = httpx.AsyncClient(transport=transport, base_url="http://qdrant", headers={"api-key": "mine"})
    async with mine:
        await mine.put("/collections/c", json=LAYOUT, headers={"api-key": "all"})
        index = {"field_name": "n", "field_schema": {"type": "keyword"}}
        assert (await mine.put("/collections/c/index", json=index)).status_code == 200
        assert (await mine.put("/collections/c/points", json=points(0, 3))).status_code == 200
        assert (await mine.post("/collections/c/points/count", json=EVERY)).json()["result"]["count"] == 3
        assert (await mine.post("/collections/d/points/count", json=EVERY)).status_code == 403
        assert (await mine.put("/collections/d", json=LAYOUT)).status_code == 403
        assert (await mine.post("/collections/aliases", json={"actions": []})).status_code == 403
    server.close()


STRICT: list[tuple[Body, str, Body]] = [
    ({"max_query_limit": 3}, "query", {"query": [1.0, 0.0], "using": "dense", "limit": 4}),
    ({"max_query_limit": 3}, "scroll", {"limit": 4}),
    (
        {"search_max_batchsize": 1},
        "query/batch",
        {"searches": [{"query": [1.0, 0.0], "using": "dense", "limit": 1}] * 2},
    ),
    ({"search_allow_exact": False}, "count", EVERY),
    ({"condition_max_size": 2}, "count", {"filter": {"must": [{"has_id": [1, 2, 3]}]}, "exact": False}),
    ({"filter_max_conditions": 1}, "delete", {"filter": {"must": [{"has_id": [1]}, {"has_id": [2]}]}}),
    ({"unindexed_filtering_update": False}, "delete", {"filter": {"must": [{"key": "n", "match": {"value": "x"}}]}}),
]


@pytest.mark.parametrize(("limits", "path", "body"), STRICT)
async def test_strict_mode_refuses_what_is_beyond_its_limits(
    limits: Body, path: str, body: Body, tmp_path: Path
) -> None:
    """S18."""
    server = QdrantOverEdge(tmp_path)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=server.app), base_url="http://qdrant") as client:
        await client.put("/collections/c", json=LAYOUT)
        assert (await client.post(f"/collections/c/points/{path}", json=body)).status_code == 200
        await client.patch("/collections/c", json={"strict_mode_config": {"enabled": True, **limits}})
        told = (await client.get("/collections/c")).json()["result"]["config"]["strict_mode_config"]
        assert told == {"enabled": True, **limits}
        refused = await client.post(f"/collections/c/points/{path}", json=body)
        assert refused.status_code == 400
        assert refused.json()["status"]["error"].startswith("Bad request: ")
        assert "Help: " in refused.json()["status"]["error"]
    server.close()
