"""What the server adapter promises beyond the port: one round trip, typed requests, an error of ours for each fault.

The faults come from a server on loopback that can misbehave; requests are read off a server in this process.
"""

from __future__ import annotations

import asyncio
import functools
import time
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient, models

from hardwon.errors import HardwonError, IndexUnavailable, StoreIncompatible
from knowledge.adapters.qdrant import server as adapter
from knowledge.adapters.qdrant.payloads import SOLE_USER, Ownership, conditions
from knowledge.adapters.qdrant.server import QdrantServerIndex, connect
from knowledge.models import EmbeddingSpace, PointFilter, PointId, SparseVector
from tests.support import points as qdrant_points
from tests.support.points import NOW, TERMS
from tests.support.qdrant_over_edge import Faults, QdrantOverEdge, QdrantProcess

SPACE = EmbeddingSpace(provider="test", model="m", revision="1", dims=4, max_tokens=256, fingerprint="server-test")
NAME = "hardwon_server-test"
DENSE = np.array([0.5, 0.5, 0.5, 0.5], dtype=np.float32)
WHERE = PointFilter(workspace="default", live_at=NOW, agent_type="backend", without=frozenset({PointId(uuid4())}))


make_points = functools.partial(qdrant_points.make_points, dims=SPACE.dims)


def calls(index: QdrantServerIndex) -> dict[str, Callable[[], Coroutine[Any, Any, object]]]:
    """Every call of the port that talks to the server."""
    (point,) = make_points(1)
    return {
        "ensure": lambda: index.ensure(SPACE),
        "upsert": lambda: index.upsert(SPACE, [point]),
        "search": lambda: index.search(SPACE, DENSE, TERMS, WHERE, limit=3),
        "nearest": lambda: index.nearest(SPACE, [DENSE], WHERE, limit=3, at_least=0.0),
        "delete": lambda: index.delete(SPACE, [point.point_id]),
        "delete_expired": lambda: index.delete_expired(SPACE, "default", NOW),
        "count": lambda: index.count(SPACE, "default"),
        "scan": lambda: index.scan(SPACE, "default", after=None, limit=3),
        "ids": lambda: index.ids(SPACE, "default", after=None, limit=3),
        "drop": lambda: index.drop(SPACE),
    }


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantProcess]:
    with QdrantProcess(tmp_path_factory.mktemp("qdrant")) as process:
        yield process


@pytest.fixture
async def index(process: QdrantProcess) -> AsyncIterator[QdrantServerIndex]:
    process.misbehave(Faults())
    index = connect([process.url], timeout_seconds=1)
    await index.ensure(SPACE)
    yield index
    process.misbehave(Faults())
    await index.aclose()


def _over(server: QdrantOverEdge, ownership: Ownership = SOLE_USER) -> QdrantServerIndex:
    transport = httpx.ASGITransport(app=server.app)
    client = AsyncQdrantClient(url="http://qdrant", check_compatibility=False, transport=transport)
    return QdrantServerIndex(client, ownership)


@pytest.fixture
async def inside(tmp_path: Path) -> AsyncIterator[tuple[QdrantOverEdge, QdrantServerIndex]]:
    """A server in this process, whose requests can be read, and an index over it."""
    server = QdrantOverEdge(tmp_path / "qdrant")
    index = _over(server)
    await index.ensure(SPACE)
    server.requests.clear()
    yield server, index
    await index.aclose()
    server.close()


Inside = tuple[QdrantOverEdge, QdrantServerIndex]

# Requests


async def test_a_search_is_one_request_and_one_for_the_scores_that_a_full_list_lacks(inside: Inside) -> None:
    """D1: the design calls `search`, which the client no longer has."""
    server, index = inside
    nearest_first = sorted(make_points(9), key=lambda each: -float(each.dense @ DENSE / np.linalg.norm(each.dense)))
    words = [SparseVector(indices=(1,), values=(1.0 + rank,)) for rank in range(9)]  # those far away have most of them
    await index.upsert(SPACE, [replace(each, lexical=word) for each, word in zip(nearest_first, words, strict=True)])
    server.requests.clear()
    assert len(await index.search(SPACE, DENSE, TERMS, WHERE, limit=20)) == 9
    batch = ("POST", f"/collections/{NAME}/points/query/batch")
    assert server.requests == [("POST", f"/collections/{NAME}/points/scroll"), batch], "is any expired? once a minute"
    server.requests.clear()
    assert len(await index.search(SPACE, DENSE, TERMS, WHERE, limit=20)) == 9
    assert server.requests == [batch]
    server.requests.clear()
    assert len(await index.search(SPACE, DENSE, TERMS, WHERE, limit=5)) >= 5
    assert server.requests == [batch, batch]


async def test_the_nearest_of_many_vectors_take_few_requests(inside: Inside) -> None:
    server, index = inside
    await index.upsert(SPACE, make_points(9))
    server.requests.clear()
    found = await index.nearest(SPACE, [DENSE] * 100, WHERE, limit=5, at_least=-1.0)
    assert [len(near) for near in found] == [5] * 100
    assert server.requests[1:] == [("POST", f"/collections/{NAME}/points/query/batch")] * 2


async def test_points_filters_and_selectors_are_the_clients_own_types() -> None:
    """D2, D3, D4, D5: dicts pass over the wire and break in memory, or the other way round; None matches nothing."""
    (point,) = make_points(1)
    stored = adapter._to_point(point)
    assert isinstance(stored, models.PointStruct)
    assert stored.payload is not None
    assert None not in stored.payload.values()
    wanted = adapter._filter(conditions(WHERE))
    assert isinstance(wanted, models.Filter)
    assert isinstance(wanted.must, list)
    assert {type(condition) for condition in wanted.must} == {models.FieldCondition, models.Filter}
    assert "null" not in wanted.model_dump_json(exclude_none=True)


async def test_expired_points_go_by_one_delete_with_a_filter_whatever_was_counted(inside: Inside) -> None:
    """D6. A node that has just come back may count none."""
    server, index = inside
    await index.upsert(SPACE, make_points(30))
    server.requests.clear()
    assert await index.delete_expired(SPACE, "default", NOW) == 0
    assert await index.delete_expired(SPACE, "default", NOW + timedelta(days=365)) == 30
    count, delete = ("POST", f"/collections/{NAME}/points/count"), ("POST", f"/collections/{NAME}/points/delete")
    there = ("GET", f"/collections/{NAME}/exists")
    assert server.requests == [there, count, delete] * 2


@pytest.mark.long
async def test_points_go_out_in_batches_that_a_server_takes(inside: Inside) -> None:
    """D30."""
    server, index = inside
    await index.upsert(SPACE, make_points(600))
    assert server.requests == [("PUT", f"/collections/{NAME}/points")] * 3
    wide = replace(SPACE, dims=250_000, fingerprint="wide")
    point = replace(make_points(1)[0], dense=np.full(wide.dims, 0.002, dtype=np.float32))
    server.requests.clear()
    with pytest.raises(IndexUnavailable):  # no such collection; what counts is that the first request held four points
        await index.upsert(wide, [point] * 5)
    assert adapter.BATCH_NUMBERS // wide.dims == 4
    assert [verb for verb, path in server.requests if path.endswith("/points")] == ["PUT"]


async def test_a_second_ensure_only_looks(inside: Inside) -> None:
    """D43."""
    server, index = inside
    await index.ensure(SPACE)
    assert {verb for verb, _ in server.requests} == {"GET"}


async def test_the_collection_gets_every_payload_index_plain_dot_products_and_both_kinds_of_graph(
    inside: Inside,
) -> None:
    """D9."""
    _, index = inside
    made = await index._client.get_collection(NAME)
    assert {field: schema.data_type.value for field, schema in made.payload_schema.items()} == {
        **dict.fromkeys(
            ["workspace", "entry_type", "view", "agent_type", "task_type", "technology", "gate_type"], "keyword"
        ),
        **dict.fromkeys(["embedded_at", "expires_at"], "datetime"),
    }
    assert made.config.params.sparse_vectors is not None
    assert made.config.params.sparse_vectors["lexical"].modifier is None
    assert (made.config.hnsw_config.m, made.config.hnsw_config.payload_m) == (16, 16)


@pytest.mark.long
async def test_payload_indexes_a_killed_ensure_did_not_come_to_are_made_by_the_next(inside: Inside) -> None:
    server, index = inside
    await index.drop(SPACE)
    server.faults = Faults(kind="unavailable", path="/index", after=3)
    with pytest.raises(IndexUnavailable):
        await index.ensure(SPACE)
    server.faults = Faults()
    await index.ensure(SPACE)
    assert len((await index._client.get_collection(NAME)).payload_schema) == 9


async def test_a_collection_of_other_dimensions_is_not_used(inside: Inside) -> None:
    _, index = inside
    with pytest.raises(StoreIncompatible, match="hardwon rebuild"):
        await index.ensure(replace(SPACE, dims=5))


async def test_the_alias_moves_in_one_request(inside: Inside) -> None:
    server, index = inside
    await index.ensure(replace(SPACE, fingerprint="newer"))
    changes = [path for verb, path in server.requests if path.endswith("/aliases") and verb == "POST"]
    assert changes == ["/collections/aliases"]
    assert server.aliases == {"project_knowledge": "hardwon_newer"}


# Several stores


async def test_nothing_is_done_to_the_collection_of_another_database(tmp_path: Path) -> None:
    """Staging and production on one server took each other's points for strangers, and deleted them."""
    server = QdrantOverEdge(tmp_path)
    ours, other = (_over(server, Ownership(store=store)) for store in ("production", "staging"))
    await ours.ensure(SPACE)
    await ours.upsert(SPACE, make_points(3))
    for call in calls(other).values():
        with pytest.raises(StoreIncompatible, match="HARDWON_QDRANT_PREFIX"):
            await call()
    assert await ours.count(SPACE, "default") == 3
    for index in (ours, other):
        await index.aclose()
    server.close()


@pytest.mark.long
async def test_databases_share_a_server_by_prefixes_of_their_own(tmp_path: Path) -> None:
    server = QdrantOverEdge(tmp_path)
    ours, other = (_over(server, Ownership(store=store, prefix=f"{store}-")) for store in ("production", "staging"))
    for index, count in ((ours, 3), (other, 2)):
        await index.ensure(SPACE)
        await index.upsert(SPACE, make_points(count))
    await other.drop(SPACE)
    assert await ours.count(SPACE, "default") == 3
    assert server.aliases == {"production-project_knowledge": f"production-{NAME}"}
    for index in (ours, other):
        await index.aclose()
    server.close()


async def test_a_collection_that_does_not_say_whose_it_is_becomes_that_of_who_comes_first(inside: Inside) -> None:
    server, before = inside
    await before.upsert(SPACE, make_points(3))
    ours, other = (_over(server, Ownership(store=store)) for store in ("production", "staging"))
    assert await ours.count(SPACE, "default") == 3
    with pytest.raises(StoreIncompatible):
        await other.count(SPACE, "default")
    server.requests.clear()
    await ours.count(SPACE, "default")
    assert server.requests == [("POST", f"/collections/{NAME}/points/count")], "whose it is is asked once"


# Several clients


@pytest.mark.long
async def test_clients_that_start_together_all_get_the_collection(inside: Inside) -> None:
    """D43, G19: each sees that there is none, each makes one, and all but the first are told that there is one."""
    server, _ = inside
    space = replace(SPACE, fingerprint="together")
    indexes = [_over(server) for _ in range(6)]
    server.faults = Faults(kind="slow", seconds=0.05, path="/exists")  # answers are old when they arrive
    await asyncio.gather(*(index.ensure(space) for index in indexes))
    assert server.requests.count(("PUT", "/collections/hardwon_together")) == 6
    for index in indexes:
        await index.upsert(space, make_points(5))
        assert await index.count(space, "default") == 5
        await index.aclose()


@pytest.mark.long
async def test_what_one_client_was_acknowledged_outlives_a_kill_of_the_server(tmp_path: Path) -> None:
    """G10, and that connections of before the kill do not stand in the way after it."""
    with QdrantProcess(tmp_path) as process:
        index = connect([process.url], timeout_seconds=2)
        await index.ensure(SPACE)
        await index.upsert(SPACE, make_points(50))
        process.stop(kill=True)
        with pytest.raises(IndexUnavailable, match="cannot be reached"):
            await index.count(SPACE, "default")
        process.start()
        assert await index.count(SPACE, "default") == 50
        await index.aclose()


# Faults

FAULTS: dict[str, tuple[Faults, type[HardwonError], str]] = {
    "503": (Faults(kind="unavailable"), IndexUnavailable, "answered 503"),
    "403": (Faults(kind="forbidden"), IndexUnavailable, "HARDWON_QDRANT_API_KEY"),
    "429": (Faults(kind="limited"), IndexUnavailable, "wait 3 s"),
    "not JSON": (Faults(kind="broken"), IndexUnavailable, "refused to work"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_every_call_turns_a_fault_into_an_error_of_ours_that_names_the_server(
    index: QdrantServerIndex, process: QdrantProcess, fault: str
) -> None:
    """G10, G11."""
    how, error, words = FAULTS[fault]
    process.misbehave(how)
    for name, call in calls(index).items():
        with pytest.raises(error, match=words) as caught:
            await call()
        assert process.url in str(caught.value), name
        assert "\n" not in str(caught.value), name
    process.misbehave(Faults())
    await index.drop(SPACE)
    await index.ensure(SPACE)
    assert await index.count(SPACE, "default") == 0


async def test_a_server_that_hangs_is_given_up_after_the_timeout(
    index: QdrantServerIndex, process: QdrantProcess
) -> None:
    process.misbehave(Faults(kind="hang", seconds=20))
    started = time.monotonic()
    with pytest.raises(IndexUnavailable, match="did not answer in time"):
        await index.search(SPACE, DENSE, TERMS, WHERE, limit=3)
    assert time.monotonic() - started < 4


async def test_a_callers_deadline_cuts_a_slow_search_and_the_next_one_works(
    index: QdrantServerIndex, process: QdrantProcess
) -> None:
    """G11."""
    process.misbehave(Faults(kind="slow", seconds=0.8))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await index.search(SPACE, DENSE, TERMS, WHERE, limit=3)
    process.misbehave(Faults())
    assert await index.search(SPACE, DENSE, TERMS, WHERE, limit=3) == []


async def test_a_server_that_is_not_there_is_an_error_of_ours_in_every_call(tmp_path: Path) -> None:
    with QdrantProcess(tmp_path) as process:
        url = process.url
    index = connect([url], timeout_seconds=2)
    for call in calls(index).values():
        with pytest.raises(IndexUnavailable, match="cannot be reached") as caught:
            await call()
        assert url in str(caught.value)
    await index.aclose()


async def test_grpc_errors_are_errors_of_ours_too() -> None:
    client = AsyncQdrantClient(
        url="http://127.0.0.1:1", grpc_port=1, prefer_grpc=True, timeout=2, check_compatibility=False
    )
    index = QdrantServerIndex(client)
    for name, call in calls(index).items():
        if name != "ensure":  # asks over HTTP first
            with pytest.raises(IndexUnavailable):
                await call()
    await index.aclose()


@pytest.mark.parametrize("call", ["upsert", "delete", "delete_expired"])
async def test_a_change_that_was_taken_but_not_made_is_not_reported_as_made(
    index: QdrantServerIndex, process: QdrantProcess, call: str
) -> None:
    """D30: durability must not rest on a client's default; `acknowledged` is not `completed`."""
    old = replace(make_points(1)[0], expires_at=NOW)
    await index.upsert(SPACE, [old])
    process.misbehave(Faults(kind="unfinished"))
    with pytest.raises(IndexUnavailable, match="acknowledged"):
        await calls(index)[call]()
    process.misbehave(Faults())
    await index.delete(SPACE, [old.point_id])


async def test_a_fault_in_the_middle_of_a_large_write_is_repaired_by_repeating_it(
    index: QdrantServerIndex, process: QdrantProcess
) -> None:
    """G10."""
    points = make_points(600)
    process.misbehave(Faults(kind="unavailable", path="/points", after=1))
    with pytest.raises(IndexUnavailable):
        await index.upsert(SPACE, points)
    process.misbehave(Faults())
    assert await index.count(SPACE, "default") == 256
    await index.upsert(SPACE, points)
    assert await index.count(SPACE, "default") == 600
    await index.delete(SPACE, [point.point_id for point in points])


# Connecting


async def test_connecting_asks_nothing_says_nothing_and_keeps_secrets_out_of_errors() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index = connect(["http://somebody:password@127.0.0.1:1/qdrant"], "secret-key", timeout_seconds=0.5)
    with pytest.raises(IndexUnavailable) as caught:
        await index.count(SPACE, "default")
    assert "http://127.0.0.1:1/qdrant" in str(caught.value)
    assert "password" not in str(caught.value)
    assert "secret-key" not in str(caught.value)
    await index.aclose()
