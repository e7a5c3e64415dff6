"""What every `VectorIndex` promises, asked of each adapter.

The embedded engine; the server adapter over a server on loopback, and over a real one
where HARDWON_TEST_QDRANT_URL names it.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest
import qdrant_edge
from qdrant_client import models

from hardwon.errors import IndexUnavailable, InvalidInput
from knowledge.adapters.qdrant.edge import QdrantEdgeIndex
from knowledge.adapters.qdrant.server import QdrantServerIndex, connect
from knowledge.models import EmbeddingSpace, EntryType, Hit, Point, PointFilter, PointId, SparseVector, Vector, View
from knowledge.ports import VectorIndex
from tests.support import points as qdrant_points
from tests.support.points import NOW
from tests.support.qdrant_over_edge import QdrantProcess

DIMS = 16
TICK = timedelta(microseconds=1)
EVERYTHING = PointFilter(workspace="default", live_at=NOW)


@pytest.fixture(scope="module")
def loopback(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantProcess]:
    with QdrantProcess(tmp_path_factory.mktemp("qdrant")) as process:
        yield process


@pytest.fixture(params=["edge", "loopback", "server"])
async def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[VectorIndex]:
    index: VectorIndex
    match request.param:
        case "edge":
            index = QdrantEdgeIndex(tmp_path_factory.mktemp("index"), reserve_mb=1)
        case "loopback":
            index = connect([request.getfixturevalue("loopback").url])
        case _:
            url = os.environ.get("HARDWON_TEST_QDRANT_URL")
            if not url:
                pytest.skip("HARDWON_TEST_QDRANT_URL names no Qdrant server")
            index = connect(url.split(","), os.environ.get("HARDWON_TEST_QDRANT_API_KEY"))
    yield index
    await index.aclose()


@pytest.fixture
async def space(index: VectorIndex) -> AsyncIterator[EmbeddingSpace]:
    space = make_space()
    await index.ensure(space)
    yield space
    await index.drop(space)


def make_space(dims: int = DIMS) -> EmbeddingSpace:
    return EmbeddingSpace(
        provider="test", model="m", revision="1", dims=dims, max_tokens=256, fingerprint=f"test-{uuid4().hex[:12]}"
    )


def unit(rng: np.random.Generator, dims: int = DIMS) -> Vector:
    vector = rng.standard_normal(dims).astype(np.float32)
    return vector / np.float32(np.linalg.norm(vector))


def words(rng: np.random.Generator, vocabulary: int = 60, count: int = 8) -> SparseVector:
    # Ids up to the last 32 bit one: they are hashes.
    chosen = np.sort(rng.choice(vocabulary, count, replace=False)).astype(np.int64) * (2**32 // vocabulary)
    return SparseVector(indices=tuple(map(int, chosen)), values=tuple(map(float, rng.uniform(0.1, 2.0, count))))


def make_point(rng: np.random.Generator, **changes: Any) -> Point:
    dims = changes.pop("dims", DIMS)
    told: dict[str, Any] = {"point_id": PointId(UUID(bytes=rng.bytes(16)))}
    told |= {"dense": unit(rng, dims), "lexical": words(rng)}
    return qdrant_points.make_point(**told | changes)


def varied_points(count: int, seed: int = 1) -> list[Point]:
    """Points that differ in every field a search asks about."""
    rng, pick = np.random.default_rng(seed), random.Random(seed)
    return [
        make_point(
            rng,
            workspace=pick.choice(["default", "default", "other"]),
            entry_type=pick.choice(list(EntryType)),
            view=pick.choice(list(View)),
            agent_type=pick.choice([None, "backend", "frontend"]),
            task_type=pick.choice([None, "bugfix", "feature"]),
            technology=pick.choice([None, "python", "go"]),
            gate_type=pick.choice([None, "review"]),
            expires_at=NOW + timedelta(hours=pick.randint(-20, 100)),
        )
        for _ in range(count)
    ]


def allowed(point: Point, where: PointFilter) -> bool:
    return (
        point.workspace == where.workspace
        and point.expires_at > where.live_at
        and (where.view is None or point.view == where.view)
        and (where.entry_types is None or point.entry_type in where.entry_types)
        and all(
            getattr(where, field) is None or getattr(point, field) in {None, getattr(where, field)}
            for field in ("agent_type", "task_type", "technology", "gate_type")
        )
        and point.point_id not in where.without
    )


def reference(points: list[Point], dense: Vector, lexical: SparseVector, where: PointFilter, limit: int) -> list[Hit]:
    """The contract in numpy: both scores of the union of both top lists."""
    kept = [point for point in points if allowed(point, where)]
    asked = dict(zip(lexical.indices, lexical.values, strict=True))
    scored = [
        (
            float(np.dot(point.dense, dense)),
            sum(asked.get(i, 0.0) * v for i, v in zip(point.lexical.indices, point.lexical.values, strict=True)),
            point.point_id,
        )
        for point in kept
    ]
    by_sense = sorted(scored, key=lambda one: -one[0])[:limit]
    by_words = sorted((one for one in scored if one[1] > 0), key=lambda one: -one[1])[:limit]
    union = {one[2]: one for one in by_sense + by_words}
    return [Hit(point_id=i, cosine=union[i][0], lexical=union[i][1]) for i in sorted(union)]


def assert_same(found: list[Hit], expected: list[Hit]) -> None:
    assert [hit.point_id for hit in found] == [hit.point_id for hit in expected]
    for hit, right in zip(found, expected, strict=True):
        assert hit.cosine == pytest.approx(right.cosine, abs=1e-4)
        assert hit.lexical == pytest.approx(right.lexical, abs=1e-4)


async def found_ids(index: VectorIndex, space: EmbeddingSpace, where: PointFilter = EVERYTHING) -> set[PointId]:
    """All points a search lets through: asked with a limit above their number."""
    rng = np.random.default_rng(9)
    return {hit.point_id for hit in await index.search(space, unit(rng, space.dims), words(rng), where, limit=500)}


# Scores


@pytest.mark.long
@pytest.mark.parametrize("limit", [1, 7, 40])
async def test_both_raw_scores_of_the_union_of_both_tops_are_those_of_the_reference(
    index: VectorIndex, space: EmbeddingSpace, limit: int
) -> None:
    points = varied_points(300)
    await index.upsert(space, points)
    rng = np.random.default_rng(2)
    for _ in range(5):
        dense, lexical = unit(rng), words(rng, count=5)
        expected = reference(points, dense, lexical, EVERYTHING, limit)
        assert limit < len(expected) <= 2 * limit or limit == 1
        assert_same(await index.search(space, dense, lexical, EVERYTHING, limit=limit), expected)


@pytest.mark.long
async def test_a_stored_weight_counts_as_it_is_however_common_its_term(
    index: VectorIndex, space: EmbeddingSpace
) -> None:
    """The inverse document frequency is in the query's weights; an engine that adds its own would count it twice."""
    rng = np.random.default_rng(3)
    points = [make_point(rng, lexical=SparseVector(indices=(7,), values=(0.5,))) for _ in range(20)]
    await index.upsert(space, points)
    hits = await index.search(space, unit(rng), SparseVector(indices=(7, 9), values=(0.25, 1.0)), EVERYTHING, limit=50)
    assert len(hits) == 20
    assert all(hit.lexical == pytest.approx(0.125, abs=1e-6) for hit in hits)


async def test_a_point_that_shares_no_term_has_a_lexical_score_of_zero(
    index: VectorIndex, space: EmbeddingSpace
) -> None:
    rng = np.random.default_rng(4)
    point = make_point(rng, lexical=SparseVector(indices=(1, 2), values=(1.0, 1.0)))
    await index.upsert(space, [point])
    hits = await index.search(space, point.dense, SparseVector(indices=(3,), values=(1.0,)), EVERYTHING, limit=3)
    assert [(hit.point_id, hit.lexical) for hit in hits] == [(point.point_id, 0.0)]
    assert hits[0].cosine == pytest.approx(1.0, abs=1e-4)


async def test_a_query_without_terms_and_a_point_without_terms_go_by_sense_alone(
    index: VectorIndex, space: EmbeddingSpace
) -> None:
    rng = np.random.default_rng(5)
    nothing = SparseVector(indices=(), values=())
    points = [make_point(rng, lexical=nothing), make_point(rng), make_point(rng)]
    await index.upsert(space, points)
    dense = unit(rng)
    found = await index.search(space, dense, nothing, EVERYTHING, limit=2)
    assert_same(found, reference(points, dense, nothing, EVERYTHING, 2))
    assert [hit.lexical for hit in found] == [0.0, 0.0]


@pytest.mark.parametrize("limit", [1, 5])
async def test_the_nearest_of_many_vectors_are_those_of_the_reference_highest_first(
    index: VectorIndex, space: EmbeddingSpace, limit: int
) -> None:
    points = varied_points(300)
    await index.upsert(space, points)
    rng = np.random.default_rng(12)
    asked = [unit(rng) for _ in range(150)]
    where = replace(EVERYTHING, entry_types=frozenset({EntryType.FAILURE_SOLUTION}))
    found = await index.nearest(space, asked, where, limit=limit, at_least=0.3)
    kept, nothing = [point for point in points if allowed(point, where)], SparseVector(indices=(), values=())
    for dense, near in zip(asked, found, strict=True):
        hits = sorted(reference(kept, dense, nothing, where, limit), key=lambda hit: -hit.cosine)
        assert near == [hit.point_id for hit in hits if hit.cosine >= 0.3]
    assert 0 < sum(map(len, found)) < limit * len(asked)


async def test_no_vectors_and_a_limit_of_zero_find_nothing(index: VectorIndex, space: EmbeddingSpace) -> None:
    rng = np.random.default_rng(13)
    await index.upsert(space, [make_point(rng)])
    assert await index.search(space, unit(rng), words(rng), EVERYTHING, limit=0) == []
    assert await index.nearest(space, [], EVERYTHING, limit=5, at_least=0.0) == []
    assert await index.nearest(space, [unit(rng), unit(rng)], EVERYTHING, limit=0, at_least=-1.0) == [[], []]
    with pytest.raises(InvalidInput):
        await index.nearest(space, [unit(rng), unit(rng, DIMS + 1)], EVERYTHING, limit=1, at_least=0.0)


async def test_a_point_that_had_expired_when_it_was_written_is_not_found(
    index: VectorIndex, space: EmbeddingSpace
) -> None:
    """A search before it has learned that nothing expires soon."""
    vector = np.ones(DIMS, np.float32)
    live, late = (
        qdrant_points.make_point(point_id=PointId(UUID(int=number)), dense=vector, expires_at=NOW + number * TICK)
        for number in (2, 0)
    )
    nothing = SparseVector(indices=(), values=())
    await index.upsert(space, [live])
    assert [hit.point_id for hit in await index.search(space, vector, nothing, EVERYTHING, limit=9)] == [live.point_id]
    await index.upsert(space, [late])
    assert [hit.point_id for hit in await index.search(space, vector, nothing, EVERYTHING, limit=9)] == [live.point_id]
    assert await index.nearest(space, [vector], EVERYTHING, limit=9, at_least=0.0) == [[live.point_id]]


async def test_an_empty_collection_answers_with_nothing(index: VectorIndex, space: EmbeddingSpace) -> None:
    assert await found_ids(index, space) == set()
    assert await index.count(space, "default") == 0
    assert await index.scan(space, "default", after=None, limit=5) == []


# Filters


async def test_no_search_leaves_its_workspace(index: VectorIndex, space: EmbeddingSpace) -> None:
    """T7."""
    points = varied_points(60)
    await index.upsert(space, points)
    for workspace in ("default", "other", "nobody"):
        where = PointFilter(workspace=workspace, live_at=NOW - timedelta(days=9))
        own = {p.point_id for p in points if p.workspace == workspace}
        assert await found_ids(index, space, where) == own
        assert await index.count(space, workspace) == len(own)


async def test_a_point_is_gone_from_the_very_moment_of_its_expiry(index: VectorIndex, space: EmbeddingSpace) -> None:
    """G12."""
    rng = np.random.default_rng(7)
    point = make_point(rng, expires_at=NOW)
    await index.upsert(space, [point])
    assert await found_ids(index, space, replace(EVERYTHING, live_at=NOW - TICK)) == {point.point_id}
    assert await found_ids(index, space, replace(EVERYTHING, live_at=NOW)) == set()


async def test_moments_are_compared_across_time_zones(index: VectorIndex, space: EmbeddingSpace) -> None:
    """D7: naive and zoned times never mix; two spellings of one moment are one moment."""
    rng = np.random.default_rng(8)
    there = NOW.astimezone(datetime.fromisoformat("2026-03-01T00:00+05:30").tzinfo)
    point = make_point(rng, expires_at=there + TICK)
    await index.upsert(space, [point])
    assert await found_ids(index, space, replace(EVERYTHING, live_at=there)) == {point.point_id}
    assert await index.delete_expired(space, "default", there) == 0
    assert await index.delete_expired(space, "default", there + TICK) == 1


async def test_a_wish_lets_through_the_same_value_and_no_value(index: VectorIndex, space: EmbeddingSpace) -> None:
    """D4, D15: an absent value is never asked for, and never hides a point."""
    rng = np.random.default_rng(10)
    for field in ("agent_type", "task_type", "technology", "gate_type"):
        same, absent, other = points = [make_point(rng, **{field: value}) for value in ("yes", None, "no")]
        await index.upsert(space, points)
        wish: dict[str, Any] = {field: "yes"}
        assert await found_ids(index, space, replace(EVERYTHING, **wish)) == {same.point_id, absent.point_id}
        assert await found_ids(index, space) == {same.point_id, absent.point_id, other.point_id}
        await index.delete(space, [point.point_id for point in points])


@pytest.mark.parametrize(("told", "asked"), [("Coder", "coder"), ("python", "Python"), ("sql", "SQL")])
async def test_a_wish_lets_through_the_same_value_in_another_case(
    index: VectorIndex, space: EmbeddingSpace, told: str, asked: str
) -> None:
    """As ranking takes it: of a crowd of others it was not found, where more than an index shows were nearer."""
    rng = np.random.default_rng(14)
    for field in ("agent_type", "task_type", "technology", "gate_type"):
        same, _ = points = [make_point(rng, **{field: value}) for value in (told, f"{told}s")]
        await index.upsert(space, points)
        wish: dict[str, Any] = {field: asked}
        assert await found_ids(index, space, replace(EVERYTHING, **wish)) == {same.point_id}
        await index.delete(space, [point.point_id for point in points])


async def test_any_mix_of_conditions_finds_what_the_reference_finds(index: VectorIndex, space: EmbeddingSpace) -> None:
    points = varied_points(200, seed=3)
    await index.upsert(space, points)
    rng, pick = np.random.default_rng(11), random.Random(11)
    for _ in range(25):
        where = PointFilter(
            workspace=pick.choice(["default", "other"]),
            live_at=NOW + timedelta(hours=pick.randint(-10, 30)),
            view=pick.choice([None, *View]),
            entry_types=pick.choice([None, frozenset(pick.sample(list(EntryType), 2)), frozenset()]),
            agent_type=pick.choice([None, "backend"]),
            task_type=pick.choice([None, "bugfix"]),
            technology=pick.choice([None, "python", "rust"]),
            gate_type=pick.choice([None, "review"]),
            without=frozenset(point.point_id for point in pick.sample(points, pick.choice([0, 30]))),
        )
        dense, lexical = unit(rng), words(rng)
        found = await index.search(space, dense, lexical, where, limit=10)
        assert_same(found, reference(points, dense, lexical, where, 10))


# Writes


async def test_a_second_upsert_replaces_the_whole_point(index: VectorIndex, space: EmbeddingSpace) -> None:
    rng = np.random.default_rng(12)
    before = make_point(rng, agent_type="backend", workspace="other")
    after = make_point(rng, point_id=before.point_id, lexical=SparseVector(indices=(5,), values=(1.0,)))
    await index.upsert(space, [before])
    await index.upsert(space, [after])
    assert await index.count(space, "other") == 0
    assert await index.count(space, "default") == 1
    where = replace(EVERYTHING, agent_type="frontend")
    found = await index.search(space, after.dense, before.lexical, where, limit=5)
    assert_same(found, reference([after], after.dense, before.lexical, where, 5))


async def test_of_one_id_twice_in_a_batch_the_later_point_stays(index: VectorIndex, space: EmbeddingSpace) -> None:
    rng = np.random.default_rng(13)
    first = make_point(rng)
    last = make_point(rng, point_id=first.point_id)
    await index.upsert(space, [first, last])
    found = await index.search(space, last.dense, last.lexical, EVERYTHING, limit=5)
    assert_same(found, reference([last], last.dense, last.lexical, EVERYTHING, 5))


async def test_a_call_of_more_points_than_one_request_holds_writes_and_deletes_them_all(
    index: VectorIndex, space: EmbeddingSpace
) -> None:
    rng = np.random.default_rng(14)
    points = [make_point(rng) for _ in range(700)]
    await index.upsert(space, points)
    assert await index.count(space, "default") == 700
    await index.delete(space, [point.point_id for point in points[:600]])
    assert {i for i, _ in await index.scan(space, "default", after=None, limit=1000)} == {
        point.point_id for point in points[600:]
    }


SPOILED: dict[str, dict[str, Any]] = {
    "not a number in the vector": {"dense": np.array([np.nan] + [0.1] * (DIMS - 1), dtype=np.float32)},
    "infinity in the vector": {"dense": np.array([np.inf] + [0.1] * (DIMS - 1), dtype=np.float32)},
    "a vector of zeros": {"dense": np.zeros(DIMS, dtype=np.float32)},
    "too few dimensions": {"dense": np.ones(DIMS - 1, dtype=np.float32)},
    "two rows": {"dense": np.ones((2, DIMS), dtype=np.float32)},
    "an infinite weight": {"lexical": SparseVector(indices=(1,), values=(float("inf"),))},
    "a weight beyond 32 bits": {"lexical": SparseVector(indices=(1,), values=(1e300,))},
    "a weight that is no number": {"lexical": SparseVector(indices=(1,), values=(float("nan"),))},
    "a weight too few": {"lexical": SparseVector(indices=(1, 2), values=(1.0,))},
    "a term twice": {"lexical": SparseVector(indices=(2, 2), values=(1.0, 1.0))},
    "a term id beyond 32 bits": {"lexical": SparseVector(indices=(2**32,), values=(1.0,))},
    "a negative term id": {"lexical": SparseVector(indices=(-1,), values=(1.0,))},
    "an id that is no UUID": {"point_id": "1"},
    "half a character": {"technology": "\ud800"},
    "an empty field": {"agent_type": ""},
    "a naive time": {"expires_at": datetime(2027, 1, 1)},  # noqa: DTZ001
}


async def test_a_bad_batch_is_refused_whole_and_names_the_point(index: VectorIndex, space: EmbeddingSpace) -> None:
    """D31, G6: the engines would keep some of the good points, or take the bad one as it is."""
    rng = np.random.default_rng(15)
    good = [make_point(rng) for _ in range(300)]
    for why, change in SPOILED.items():
        batch = [*good[:270], replace(good[270], **change), *good[271:]]
        with pytest.raises(InvalidInput, match=r"points\[270\]"):
            await index.upsert(space, batch)
        assert await index.count(space, "default") == 0, why


async def test_a_bad_query_is_refused(index: VectorIndex, space: EmbeddingSpace) -> None:
    rng = np.random.default_rng(16)
    for change in SPOILED.values():
        if change.keys() & {"dense", "lexical"}:
            query = {"dense": unit(rng), "lexical": words(rng), **change}
            with pytest.raises(InvalidInput):
                await index.search(space, query["dense"], query["lexical"], EVERYTHING, limit=5)


async def test_a_naive_moment_and_half_a_character_are_refused_in_questions_too(
    index: VectorIndex, space: EmbeddingSpace
) -> None:
    rng = np.random.default_rng(17)
    naive = datetime(2026, 1, 1)  # noqa: DTZ001
    for where in (replace(EVERYTHING, live_at=naive), replace(EVERYTHING, technology="\ud800")):
        with pytest.raises(InvalidInput):
            await index.search(space, unit(rng), words(rng), where, limit=5)
    with pytest.raises(InvalidInput):
        await index.delete_expired(space, "default", naive)


# Deletes


async def test_deleting_absent_ids_is_no_error_and_takes_nothing_else(
    index: VectorIndex, space: EmbeddingSpace
) -> None:
    rng = np.random.default_rng(18)
    kept, gone = make_point(rng), make_point(rng)
    await index.upsert(space, [kept, gone])
    for _ in range(2):
        await index.delete(space, [gone.point_id, PointId(uuid4())])
    await index.delete(space, [])
    assert await found_ids(index, space) == {kept.point_id}


async def test_expired_points_are_counted_exactly_and_only_they_are_deleted(
    index: VectorIndex, space: EmbeddingSpace
) -> None:
    """D5, D9, G12."""
    points = varied_points(150, seed=5)
    edge_case = make_point(np.random.default_rng(19), expires_at=NOW)
    a_tick_later = make_point(np.random.default_rng(20), expires_at=NOW + TICK)
    points += [edge_case, a_tick_later]
    await index.upsert(space, points)
    expired = {p.point_id for p in points if p.workspace == "default" and p.expires_at <= NOW}
    assert edge_case.point_id in expired
    assert await index.delete_expired(space, "default", NOW) == len(expired)
    assert await index.delete_expired(space, "default", NOW) == 0
    for workspace in ("default", "other"):
        left = {i for i, _ in await index.scan(space, workspace, after=None, limit=1000)}
        assert left == {p.point_id for p in points if p.workspace == workspace} - expired


@pytest.mark.long
@pytest.mark.parametrize("index", ["edge"], indirect=True)
async def test_more_expired_points_than_any_page_holds_are_all_deleted(index: VectorIndex) -> None:
    """D6: the design deleted the first 10,000. A server deletes by filter in one request."""
    space = make_space(dims=2)
    await index.ensure(space)
    rng = np.random.default_rng(21)
    nothing = SparseVector(indices=(), values=())
    old = [make_point(rng, dims=2, lexical=nothing, expires_at=NOW - timedelta(seconds=i)) for i in range(12_000)]
    await index.upsert(space, [*old, make_point(rng, dims=2)])
    assert await index.delete_expired(space, "default", NOW) == 12_000
    assert await index.count(space, "default") == 1


async def plant(index: VectorIndex, space: EmbeddingSpace, point_id: UUID, payload: dict[str, Any]) -> None:
    """Store a row that no adapter would write."""
    dense = [1.0] + [0.0] * (space.dims - 1)
    match index:
        case QdrantEdgeIndex():
            row = qdrant_edge.Point(point_id, {"dense": dense}, payload)
            index._shard(space).update(qdrant_edge.UpdateOperation.upsert_points([row]))
        case QdrantServerIndex():
            struct = models.PointStruct(id=str(point_id), vector={"dense": dense}, payload=payload)
            await index._client.upsert(f"hardwon_{space.fingerprint}", [struct], wait=True)
        case _:
            raise AssertionError(index)


@pytest.mark.parametrize("strange", ["not a date", 12, None, ["2026"], {"a": 1}], ids=str)
async def test_a_row_with_a_strange_expiry_stops_neither_pruning_nor_scanning(
    index: VectorIndex, space: EmbeddingSpace, strange: object
) -> None:
    """D11. The row shows up in a scan as something that is no point, so that `verify` finds it."""
    rng = np.random.default_rng(22)
    old, live, odd = make_point(rng, expires_at=NOW), make_point(rng), uuid4()
    await index.upsert(space, [old, live])
    await plant(index, space, odd, {"workspace": "default", "expires_at": strange})
    assert await index.delete_expired(space, "default", NOW) == 1
    scanned = dict(await index.scan(space, "default", after=None, limit=10))
    assert scanned.keys() == {live.point_id, odd}
    assert scanned[PointId(odd)] is None
    expiries = await index.expiries(space, "default", after=None, limit=10)
    assert expiries == {live.point_id: live.expires_at, PointId(odd): None}
    found = scanned[live.point_id]
    assert found is not None
    assert replace(found, dense=live.dense, lexical=live.lexical) == live
    np.testing.assert_allclose(found.dense, live.dense, atol=1e-6)
    assert found.lexical.indices == live.lexical.indices
    np.testing.assert_allclose(found.lexical.values, live.lexical.values, rtol=1e-6)
    # a search may give its id, which Postgres knows nothing of: a query fetches words by ids and shows none for it
    assert live.point_id in await found_ids(index, space) <= {live.point_id, PointId(odd)}


# Counting and scanning


@pytest.mark.long
async def test_a_scan_pages_through_all_points_of_a_workspace_in_the_order_of_their_ids(
    index: VectorIndex, space: EmbeddingSpace
) -> None:
    points = varied_points(90, seed=6)
    first, last = PointId(UUID(int=0)), PointId(UUID(int=2**128 - 1))
    points[0], points[1] = (replace(p, point_id=i, workspace="default") for p, i in zip(points, (first, last)))  # noqa: B905
    await index.upsert(space, points)
    expected = sorted(p.point_id for p in points if p.workspace == "default")
    scanned: list[PointId] = []
    while page := await index.scan(space, "default", after=scanned[-1] if scanned else None, limit=7):
        assert len(page) <= 7
        assert all(point is not None and point.point_id == point_id for point_id, point in page)
        scanned += [point_id for point_id, _ in page]
    assert scanned == expected
    assert await index.scan(space, "default", after=None, limit=0) == []
    between = PointId(UUID(int=expected[3].int + 1))
    assert [i for i, _ in await index.scan(space, "default", after=between, limit=2)] == expected[4:6]
    ids: list[PointId] = []
    while found := await index.ids(space, "default", after=ids[-1] if ids else None, limit=7):
        assert len(found) <= 7
        ids += found
    assert ids == expected
    assert await index.ids(space, "default", after=None, limit=0) == []
    assert await index.ids(space, "default", after=between, limit=2) == expected[4:6]
    expiries: dict[PointId, datetime | None] = {}
    while part := await index.expiries(space, "default", after=max(expiries, default=None), limit=7):
        assert len(part) <= 7
        expiries |= part
    assert expiries == {p.point_id: p.expires_at for p in points if p.workspace == "default"}
    assert [*expiries] == expected
    assert await index.expiries(space, "default", after=None, limit=0) == {}
    assert [*await index.expiries(space, "default", after=between, limit=2)] == expected[4:6]


# Collections


async def test_a_second_ensure_keeps_everything(index: VectorIndex, space: EmbeddingSpace) -> None:
    """D43."""
    point = make_point(np.random.default_rng(23))
    await index.upsert(space, [point])
    await index.ensure(space)
    assert await found_ids(index, space) == {point.point_id}


async def test_several_at_once_may_ensure_a_space(index: VectorIndex) -> None:
    """D43, G19."""
    space = make_space()
    await asyncio.gather(*(index.ensure(space) for _ in range(8)))
    assert await index.count(space, "default") == 0
    await index.drop(space)


@pytest.mark.long
async def test_two_spaces_of_equal_dimensions_never_meet(index: VectorIndex, space: EmbeddingSpace) -> None:
    """G22: the same id in both, and dropping one leaves the other."""
    other = make_space()
    await index.ensure(other)
    rng = np.random.default_rng(24)
    here = make_point(rng)
    there = make_point(rng, point_id=here.point_id, lexical=SparseVector(indices=(), values=()))
    await index.upsert(space, [here])
    assert await found_ids(index, other) == set()
    await index.upsert(other, [there])
    found = await index.search(space, here.dense, here.lexical, EVERYTHING, limit=5)
    assert_same(found, reference([here], here.dense, here.lexical, EVERYTHING, 5))
    await index.drop(other)
    assert await found_ids(index, space) == {here.point_id}


async def alias_of(index: VectorIndex) -> str | None:
    match index:
        case QdrantEdgeIndex():
            return index.alias()
        case QdrantServerIndex():
            found = (await index._client.get_aliases()).aliases
            return next((one.collection_name for one in found if one.alias_name == "project_knowledge"), None)
        case _:
            raise AssertionError(index)


@pytest.mark.long
async def test_the_alias_points_at_the_space_that_was_ensured_last(index: VectorIndex, space: EmbeddingSpace) -> None:
    assert await alias_of(index) == f"hardwon_{space.fingerprint}"
    newer = make_space()
    await index.ensure(newer)
    assert await alias_of(index) == f"hardwon_{newer.fingerprint}"
    await index.drop(newer)
    assert await alias_of(index) is None


async def test_nothing_is_left_to_delete_in_a_space_that_was_never_made(index: VectorIndex) -> None:
    unknown = make_space()
    await index.delete(unknown, [PointId(uuid4())])
    assert await index.delete_expired(unknown, "default", NOW) == 0
    with pytest.raises(IndexUnavailable):
        await index.count(unknown, "default")


async def test_a_space_that_was_never_made_is_an_error_that_names_the_way_out(index: VectorIndex) -> None:
    unknown = make_space()
    rng = np.random.default_rng(25)
    for call in (
        index.upsert(unknown, [make_point(rng)]),
        index.search(unknown, unit(rng), words(rng), EVERYTHING, limit=3),
        index.count(unknown, "default"),
        index.scan(unknown, "default", after=None, limit=3),
        index.ids(unknown, "default", after=None, limit=3),
    ):
        with pytest.raises(IndexUnavailable, match="hardwon rebuild"):
            await call
    await index.drop(unknown)


@pytest.mark.parametrize("fingerprint", ["", "../../etc", "a/b", "a b", "é", "x" * 200])
async def test_a_fingerprint_that_could_lead_out_of_the_index_is_refused(index: VectorIndex, fingerprint: str) -> None:
    """T16."""
    with pytest.raises(InvalidInput, match="fingerprint"):
        await index.ensure(replace(make_space(), fingerprint=fingerprint))


async def test_closing_twice_is_no_error_and_a_closed_index_says_so(index: VectorIndex) -> None:
    space = make_space()
    await index.ensure(space)
    await index.aclose()
    await index.aclose()
    with pytest.raises(IndexUnavailable):
        await index.count(space, "default")
