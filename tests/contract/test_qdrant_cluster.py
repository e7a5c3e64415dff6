"""The server adapter over a cluster: whole answers over shards, nodes that die and hang, refusals in one sentence."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest
from qdrant_client import models

from hardwon.errors import HardwonError, IndexUnavailable, InvalidSetting, StoreIncompatible
from knowledge.adapters.qdrant.cluster import nodes as cluster_nodes
from knowledge.adapters.qdrant.cluster.layout import Layout, Quantization
from knowledge.adapters.qdrant.payloads import Ownership
from knowledge.adapters.qdrant.server import QdrantServerIndex, connect
from knowledge.models import EmbeddingSpace, PointFilter, PointId, SparseVector
from tests.support.points import NOW, make_point
from tests.support.qdrant.cluster import Timing
from tests.support.qdrant.limits import Access
from tests.support.qdrant.process import QdrantClusterProcess
from tests.support.qdrant.storage import Options
from tests.support.qdrant_over_edge import QdrantProcess

SPACE = EmbeddingSpace(provider="test", model="m", revision="1", dims=16, max_tokens=256, fingerprint="cluster-test")
NAME = "hardwon_cluster-test"
WHERE = PointFilter(workspace="default", live_at=NOW)
NO_WORDS = SparseVector(indices=(), values=())
KEY = "the-whole-key"
ORDERS = list(itertools.permutations(range(3)))


def numbered(number: int) -> PointId:
    return PointId(UUID(int=number + 1))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[QdrantClusterProcess]:
    with QdrantClusterProcess(tmp_path) as process:
        yield process


@asynccontextmanager
async def opened(
    *urls: str, key: str | None = None, layout: Layout | None = None, store: str | None = None
) -> AsyncIterator[QdrantServerIndex]:
    index = connect(urls, key, Ownership(store=store), layout)
    yield index
    await index.aclose()


# Whole answers over shards


@pytest.mark.long
@pytest.mark.parametrize("shards", [1, 2, 3])
async def test_the_one_point_with_a_word_is_found_and_every_hit_has_both_its_scores(
    shards: int, cluster: QdrantClusterProcess
) -> None:
    """S12: 2,000 points; each of 500 words is that of one point, as far by sense from the question as can be."""
    rng = np.random.default_rng(shards)
    dense = rng.standard_normal((2_000, SPACE.dims)).astype(np.float32)
    words = rng.integers(500, 520, size=(2_000, 3))
    terms = [{int(term): 0.5 for term in each} | ({at: 1.0} if at < 500 else {}) for at, each in enumerate(words)]
    points = [
        make_point(point_id=numbered(at), dense=vector, lexical=_sparse(terms[at])) for at, vector in enumerate(dense)
    ]
    unit = dense / np.linalg.norm(dense, axis=1, keepdims=True)
    found = 0
    async with opened(*cluster.urls, layout=Layout(shards=shards)) as index:
        await index.ensure(SPACE)
        await index.upsert(SPACE, points)
        for word in range(500):
            asked = SparseVector(indices=(word, 500 + word % 20), values=(1.0, 0.3))
            hits = await index.search(SPACE, -dense[word], asked, WHERE, limit=20)
            found += any(hit.point_id == numbered(word) for hit in hits)
            for hit in hits:
                at = hit.point_id.int - 1
                right = sum(terms[at].get(term, 0.0) * value for term, value in zip(*_parts(asked), strict=True))
                assert hit.lexical == pytest.approx(right, abs=1e-5)
                assert hit.cosine == pytest.approx(float(unit[at] @ -unit[word]), abs=1e-4)
    assert found == 500


def _sparse(terms: dict[int, float]) -> SparseVector:
    ordered = sorted(terms)
    return SparseVector(indices=tuple(ordered), values=tuple(terms[term] for term in ordered))


def _parts(vector: SparseVector) -> tuple[tuple[int, ...], tuple[float, ...]]:
    return vector.indices, vector.values


@pytest.mark.long
async def test_answers_are_not_compressed_and_a_search_is_two_queries(tmp_path: Path) -> None:
    """S5, S6."""
    with QdrantProcess(tmp_path, Options(compress=True)) as process:
        async with opened(process.url) as index:
            await index.ensure(SPACE)
            seen: list[tuple[str, str | None]] = []
            client = index._client.http.client._async_client

            async def note(response: object) -> None:
                seen.append((response.request.content.decode(), response.headers.get("content-encoding")))  # type: ignore[attr-defined]

            client.event_hooks["response"] = [note]
            await index.search(SPACE, np.ones(SPACE.dims, np.float32), _sparse({1: 1.0}), WHERE, limit=20)
    (_, _), (body, encoding) = seen  # the first looks for expired points, once a minute
    assert (body.count('"using"'), body.count("prefetch"), encoding) == (2, 0, None)


# Nodes


@pytest.mark.long
@pytest.mark.parametrize("order", ORDERS)
async def test_with_a_node_dead_and_one_hanging_every_search_is_answered_in_time(
    order: tuple[int, ...], cluster: QdrantClusterProcess
) -> None:
    """The first waits for the hedge, later ones for nothing."""
    vector = np.ones(SPACE.dims, np.float32)
    async with opened(*[cluster.urls[at] for at in order], layout=Layout(replication=3)) as index:
        await index.ensure(SPACE)
        await index.upsert(SPACE, [make_point(point_id=numbered(1), dense=vector)])
        cluster.kill(0)
        cluster.hang(1)
        times = []
        for _ in range(30):
            began = time.perf_counter()
            assert len(await index.search(SPACE, vector, NO_WORDS, WHERE, limit=5)) == 1
            times.append(time.perf_counter() - began)
        assert max(times) < cluster_nodes.HEDGE_SECONDS + 0.2
        assert sorted(times)[20] < 0.1


@pytest.mark.long
@pytest.mark.parametrize("order", ORDERS)
async def test_a_process_that_starts_beside_a_dead_and_a_hanging_node_answers_its_first_search_in_time(
    order: tuple[int, ...], cluster: QdrantClusterProcess
) -> None:
    vector = np.ones(SPACE.dims, np.float32)
    async with opened(*cluster.urls, layout=Layout(replication=3)) as index:
        await index.ensure(SPACE)
        await index.upsert(SPACE, [make_point(point_id=numbered(1), dense=vector)])
    cluster.kill(0)
    cluster.hang(1)
    async with opened(*[cluster.urls[at] for at in order]) as fresh:
        began = time.perf_counter()
        assert len(await fresh.search(SPACE, vector, NO_WORDS, WHERE, limit=5)) == 1
        assert time.perf_counter() - began < 1.2


@pytest.mark.long
async def test_a_write_leaves_a_node_that_hangs_for_one_that_answers(cluster: QdrantClusterProcess) -> None:
    async with opened(*cluster.urls, layout=Layout(replication=3)) as index:
        await index.ensure(SPACE)
        cluster.hang(0)
        began = time.perf_counter()
        await index.upsert(SPACE, [make_point(point_id=numbered(1), dense=np.ones(SPACE.dims, np.float32))])
        assert 1.0 < time.perf_counter() - began < 6.0
        assert await index.count(SPACE, "default") == 1


@pytest.mark.long
async def test_a_slow_consensus_is_waited_for_beside_the_deadline_of_a_query(tmp_path: Path) -> None:
    """S9, S14: making a collection beside a dead node takes 11 s, the first write beside a hanging one 9.5 s."""
    with QdrantClusterProcess(tmp_path, timing=Timing(create=3.0, first_write=2.0)) as slow:
        slow.kill(2)
        async with opened(slow.urls[0]) as index:
            await index.ensure(SPACE)
            await index.upsert(SPACE, [make_point(point_id=numbered(1), dense=np.ones(SPACE.dims, np.float32))])
            assert await index.count(SPACE, "default") == 1
    assert cluster_nodes.WRITE_SECONDS > 31 > cluster_nodes.READ_SECONDS


@pytest.mark.long
async def test_processes_that_ensure_through_all_nodes_at_once_all_succeed(tmp_path: Path) -> None:
    """S16: the nodes that did not make it cannot read it for a moment."""
    with QdrantClusterProcess(tmp_path, timing=Timing(settle=0.5)) as settling:
        indexes = [connect([url]) for url in settling.urls * 2]
        await asyncio.gather(*(index.ensure(SPACE) for index in indexes))
        await asyncio.gather(*(index.count(SPACE, "default") for index in indexes))
        for index in indexes:
            await index.aclose()


@pytest.mark.long
async def test_expired_points_go_though_the_node_asked_counts_none(
    tmp_path: Path, cluster: QdrantClusterProcess
) -> None:
    """S13: a node that has just come back counts as of before it went away."""
    async with opened(cluster.urls[0], layout=Layout(replication=3)) as index:
        await index.ensure(SPACE)
        cluster.kill(0)
        async with opened(cluster.urls[1]) as other:
            points = [make_point(point_id=numbered(at), dense=np.ones(SPACE.dims, np.float32)) for at in range(9)]
            await other.upsert(SPACE, points)
            cluster.revive(0, stale_seconds=2.0)
            await index.delete_expired(SPACE, "default", points[0].expires_at)
            assert await other.count(SPACE, "default") == 0


@pytest.mark.long
async def test_reads_go_to_other_nodes_while_one_that_came_back_may_be_stale(
    cluster: QdrantClusterProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S15."""
    vector = np.ones(SPACE.dims, np.float32)
    async with opened(*cluster.urls, layout=Layout(replication=3)) as index:
        await index.ensure(SPACE)
        cluster.kill(0)
        await index.upsert(SPACE, [make_point(point_id=numbered(1), dense=vector)])
        cluster.revive(0, stale_seconds=4.0)
        until = time.monotonic() + 5.0
        while time.monotonic() < until:
            assert await index.count(SPACE, "default") == 1
            await asyncio.sleep(0.05)
        monkeypatch.setattr(cluster_nodes, "STALE_SECONDS", 5.5)
        began = time.monotonic()
        await index.wait_until_consistent()
        assert time.monotonic() - began < 5.5


@pytest.mark.long
async def test_lost_shards_are_told_with_their_nodes_and_what_to_do(cluster: QdrantClusterProcess) -> None:
    """S7, S10."""
    async with opened(cluster.urls[0], layout=Layout(replication=1, shards=3)) as index:
        await index.ensure(SPACE)
        cluster.kill(1)
        cluster.kill(2)
        with pytest.raises(IndexUnavailable) as caught:
            await index.search(SPACE, np.ones(SPACE.dims, np.float32), NO_WORDS, WHERE, limit=5)
    said = str(caught.value)
    assert "shard 1 of hardwon_cluster-test has no replica alive" in said
    assert "start" in said
    assert not {"{", "Tonic", "status"} & set(said.split())
    assert "{" not in said


@pytest.mark.long
async def test_health_tells_nodes_replicas_and_what_one_more_death_would_take(cluster: QdrantClusterProcess) -> None:
    async with opened(*cluster.urls) as index:
        await index.ensure(SPACE)
        whole = await index.health(SPACE)
        assert (whole.nodes, whole.problems, whole.advice) == (3, (), ())
        (state,) = whole.collections
        assert (state.shards, state.replicas, state.least_replicas, state.at_risk) == (3, 2, 2, 0.0)
        cluster.kill(2)
        points = [make_point(point_id=numbered(at), dense=np.ones(SPACE.dims, np.float32)) for at in range(30)]
        await index.upsert(SPACE, points)
        wounded = await index.health(SPACE)
    (state,) = wounded.collections
    assert (state.least_replicas, len(wounded.dead_nodes)) == (1, 1)
    assert state.at_risk == pytest.approx(2 / 3, abs=0.25)
    assert any("If one more node dies" in problem for problem in wounded.problems)


# Layouts and refusals


@pytest.mark.long
async def test_a_collection_gets_the_layout_of_the_settings(cluster: QdrantClusterProcess) -> None:
    asked = Layout(replication=3, shards=2, quantization=Quantization.INT8, on_disk=True)
    async with opened(*cluster.urls, layout=asked) as index:
        await index.ensure(SPACE)
        found = await index._client.get_collection(NAME)
        assert await index.layout_differences(SPACE) == []
    params = found.config.params
    assert (params.replication_factor, params.shard_number, params.write_consistency_factor) == (3, 2, 1)
    assert found.config.quantization_config is not None
    async with opened(*cluster.urls) as index:
        assert await index.layout_differences(SPACE) == [
            "replicas: 3 instead of 2",
            "quantization: int8 instead of none",
            "vectors on disk: True instead of False",
        ]


@pytest.mark.long
async def test_a_collection_of_before_gets_its_graph_in_place_and_is_searched_exactly_until_then(
    tmp_path: Path,
) -> None:
    with QdrantProcess(tmp_path) as process:
        async with opened(process.url) as index:
            await index._client.create_collection(
                NAME,
                vectors_config={"dense": models.VectorParams(size=SPACE.dims, distance=models.Distance.COSINE)},
                sparse_vectors_config={"lexical": models.SparseVectorParams()},
                hnsw_config=models.HnswConfigDiff(m=0, payload_m=16),
            )
            assert (await index._collections.params(await index._collections.find(SPACE))).exact
            await index.ensure(SPACE)
            found = await index._client.get_collection(NAME)
            assert found.config.hnsw_config.m == 16
            assert (await index._collections.params(NAME)).exact, "it is not built yet"
            assert index._collections.params_of(exact=False).acorn == models.AcornSearchParams(enable=True)


REFUSED: dict[str, tuple[Options, Layout, type[HardwonError], str]] = {
    "an old server": (Options(version="1.15.2"), Layout(), StoreIncompatible, "needs 1.16 or later"),
    "more replicas than nodes": (Options(), Layout(replication=2), InvalidSetting, "HARDWON_QDRANT_REPLICATION.*has 1"),
    "a body limit below a batch": (
        Options(max_body_bytes=20_000),
        Layout(),
        StoreIncompatible,
        "max_request_size_mb",
    ),
    "a read-only key": (
        Options(access=Access(api_key="other", read_only_key=KEY)),
        Layout(),
        IndexUnavailable,
        "may only read",
    ),
    "a wrong key": (Options(access=Access(api_key="other")), Layout(), IndexUnavailable, "refuses the key"),
}


@pytest.mark.long
@pytest.mark.parametrize("what", REFUSED)
async def test_what_cannot_work_is_refused_in_one_sentence_and_nothing_is_half_stored(
    what: str, tmp_path: Path
) -> None:
    options, layout, error, words = REFUSED[what]
    with QdrantProcess(tmp_path, options) as process:
        async with opened(process.url, key=KEY, layout=layout) as index:
            with pytest.raises(error, match=words) as caught:
                await _ensure_and_write(index)
            assert "\n" not in str(caught.value)
            assert "{" not in str(caught.value)


async def _ensure_and_write(index: QdrantServerIndex) -> None:
    await index.ensure(SPACE)
    points = [make_point(point_id=numbered(at), dense=np.ones(SPACE.dims, np.float32)) for at in range(99)]
    await index.upsert(SPACE, points)


@pytest.mark.long
async def test_addresses_of_two_clusters_or_versions_are_refused(tmp_path: Path) -> None:
    with (
        QdrantClusterProcess(tmp_path / "a", size=2) as one,
        QdrantClusterProcess(tmp_path / "b", size=2) as other,
        QdrantProcess(tmp_path / "c") as alone,
    ):
        for urls in ((one.urls[0], other.urls[0]), (one.urls[0], alone.url), (one.urls[0], one.urls[1], other.urls[1])):
            async with opened(*urls) as index:
                with pytest.raises(InvalidSetting, match="not nodes of one cluster"):
                    await index.ensure(SPACE)
    with (
        QdrantProcess(tmp_path / "d", Options(version="1.18.3")) as old,
        QdrantProcess(tmp_path / "e", Options(version="1.16.0")) as new,
    ):
        async with opened(old.url, new.url) as index:
            with pytest.raises(InvalidSetting, match=r"1\.16\.0"):
                await index.count(SPACE, "default")


STRANGERS: dict[str, tuple[dict[str, models.VectorParams], dict[str, models.SparseVectorParams], str]] = {
    "another distance": (
        {"dense": models.VectorParams(size=SPACE.dims, distance=models.Distance.DOT)},
        {"lexical": models.SparseVectorParams()},
        "by Dot",
    ),
    "no words": (
        {"dense": models.VectorParams(size=SPACE.dims, distance=models.Distance.COSINE)},
        {},
        "no sparse vectors",
    ),
    "another dimension": (
        {"dense": models.VectorParams(size=3, distance=models.Distance.COSINE)},
        {"lexical": models.SparseVectorParams()},
        "16 dimensions",
    ),
}


@pytest.mark.parametrize("what", STRANGERS)
async def test_a_strangers_collection_of_our_name_is_refused_before_a_write(what: str, tmp_path: Path) -> None:
    """S19."""
    vectors, sparse, words = STRANGERS[what]
    with QdrantProcess(tmp_path) as process:
        async with opened(process.url, store="ours") as index:
            await index._client.create_collection(NAME, vectors_config=vectors, sparse_vectors_config=sparse)
            for call in (index.ensure(SPACE), index.count(SPACE, "default"), index.upsert(SPACE, [])):
                with pytest.raises(StoreIncompatible, match=words):
                    await call
            assert (await index._client.get_collection(NAME)).config.metadata is None


@pytest.mark.long
async def test_an_alias_of_our_name_is_refused_before_a_write(tmp_path: Path) -> None:
    with QdrantProcess(tmp_path) as process:
        async with opened(process.url) as index:
            await index.ensure(replace(SPACE, fingerprint="foreign"))
            create = models.CreateAliasOperation(
                create_alias=models.CreateAlias(collection_name="hardwon_foreign", alias_name=NAME)
            )
            await index._client.update_collection_aliases([create])
        async with opened(process.url, store="ours") as index:
            point = make_point(point_id=numbered(1), dense=np.ones(SPACE.dims, np.float32))
            with pytest.raises(StoreIncompatible, match="is an alias of hardwon_foreign"):
                await index.upsert(SPACE, [point])


@pytest.mark.long
async def test_a_key_limited_to_the_collections_is_enough_once_they_exist(tmp_path: Path) -> None:
    """S17."""
    access = Access(api_key=KEY, collection_key="limited", collections=(NAME,))
    with QdrantProcess(tmp_path, Options(access=access)) as process:
        async with opened(process.url, key="limited") as index:
            with pytest.raises(IndexUnavailable, match="server's own key"):
                await index.ensure(SPACE)
        async with opened(process.url, key=KEY) as index:
            await index.ensure(SPACE)
        async with opened(process.url, key="limited", store="ours") as index:
            await index.ensure(SPACE)
            vector = np.ones(SPACE.dims, np.float32)
            await index.upsert(SPACE, [make_point(point_id=numbered(1), dense=vector)])
            assert len(await index.search(SPACE, vector, NO_WORDS, WHERE, limit=5)) == 1


@pytest.mark.long
async def test_strict_limits_below_what_a_query_needs_are_told_at_the_first_use(tmp_path: Path) -> None:
    """S18."""
    with QdrantProcess(tmp_path) as process:
        async with opened(process.url) as index:
            await index.ensure(SPACE)
            await index._client.update_collection(
                NAME, strict_mode_config=models.StrictModeConfig(enabled=True, max_query_limit=10)
            )
        async with opened(process.url) as index:
            with pytest.raises(StoreIncompatible, match=r"allows 10 for max_query_limit in strict mode.* 256"):
                await index.count(SPACE, "default")
