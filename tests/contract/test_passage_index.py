"""What every `PassageIndex` promises, asked of each adapter: the embedded engine, and the client's in-memory mode."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import numpy as np
import pytest
import qdrant_edge

from hardwon.models.documents import DocumentId, PassageId, Severity
from knowledge.adapters.qdrant import passage_payloads
from knowledge.adapters.qdrant.passages_edge import EdgePassages
from knowledge.adapters.qdrant.passages_server import connect
from knowledge.adapters.qdrant.payloads import collection_name
from knowledge.documents.models import PassageConditions, PassagePoint, PassageWhere
from knowledge.documents.ports import PassageIndex
from knowledge.models import EmbeddingSpace, SparseVector, Vector
from tests.support.qdrant_over_edge import QdrantProcess

DIMS = 8
SPACE = EmbeddingSpace(provider="test", model="m", revision="1", dims=DIMS, max_tokens=64, fingerprint=uuid4().hex)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOTHING = SparseVector(indices=(), values=())
FIRST, SECOND = DocumentId(UUID(int=1)), DocumentId(UUID(int=2))
EVERYTHING = PassageWhere(workspace="default", partitions=("case_1", "global_kb"))


@pytest.fixture(scope="module")
def loopback(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantProcess]:
    with QdrantProcess(tmp_path_factory.mktemp("qdrant")) as process:
        yield process


@pytest.fixture(params=["edge", "loopback", "server"])
async def index(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[PassageIndex]:
    made: PassageIndex
    match request.param:
        case "edge":
            made = EdgePassages(tmp_path / "documents", reserve_mb=1)
        case "loopback":
            made = connect([request.getfixturevalue("loopback").url])
        case _:
            url = os.environ.get("HARDWON_TEST_QDRANT_URL")
            if not url:
                pytest.skip("HARDWON_TEST_QDRANT_URL names no Qdrant server")
            made = connect(url.split(","), os.environ.get("HARDWON_TEST_QDRANT_API_KEY"))
    await made.ensure(SPACE)
    yield made
    await made.drop(SPACE)
    await made.aclose()


def towards(number: int) -> Vector:
    vector = np.full(DIMS, 0.1, dtype=np.float32)
    vector[number % DIMS] = 1.0
    unit: Vector = (vector / np.linalg.norm(vector)).astype(np.float32)
    return unit


def words(*terms: int) -> SparseVector:
    return SparseVector(indices=tuple(sorted(terms)), values=tuple(1.0 for _ in terms))


def point(number: int, **told: object) -> PassagePoint:
    given = PassagePoint(
        passage_id=PassageId(UUID(int=number)),
        workspace="default",
        partition="case_1",
        document_id=FIRST,
        generation=1,
        dense=towards(number),
        lexical=words(number),
    )
    return replace(given, **told)  # type: ignore[arg-type]


async def ids(index: PassageIndex, where: PassageWhere, *, limit: int = 50) -> list[int]:
    found = await index.search(SPACE, towards(1), NOTHING, where, limit=limit)
    return sorted(hit.passage_id.int for hit in found)


async def test_the_nearest_by_either_vector_come_with_both_scores(index: PassageIndex) -> None:
    """A0-80: dense and words."""
    await index.upsert(SPACE, [point(number) for number in range(1, 8)])
    hits = {h.passage_id.int: h for h in await index.search(SPACE, towards(1), words(5), EVERYTHING, limit=1)}
    assert set(hits) == {1, 5}
    assert hits[1].cosine == pytest.approx(1, abs=1e-5)
    assert hits[1].lexical == 0
    assert hits[5].lexical == pytest.approx(1)
    assert hits[5].cosine == pytest.approx(float(towards(1) @ towards(5)), abs=1e-5)


async def test_only_the_asked_partitions_of_the_workspace_are_searched(index: PassageIndex) -> None:
    """A0-30, A2-28."""
    strange = [point(2, partition="case_2"), point(3, workspace="other"), point(4, partition="global_kb")]
    await index.upsert(SPACE, [point(1), *strange])
    assert await ids(index, EVERYTHING) == [1, 4]
    assert await ids(index, replace(EVERYTHING, partitions=())) == []
    assert await index.count(SPACE, "default") == 3


@pytest.mark.long
async def test_only_the_asked_documents_are_searched(index: PassageIndex) -> None:
    """A4-06."""
    await index.upsert(SPACE, [point(1), point(2, document_id=SECOND)])
    assert await ids(index, replace(EVERYTHING, documents=frozenset({SECOND}))) == [2]
    assert await ids(index, replace(EVERYTHING, documents=frozenset())) == []
    assert await ids(index, replace(EVERYTHING, conditions=PassageConditions(document_ids=frozenset({FIRST})))) == [1]


@pytest.mark.long
async def test_severities_times_and_lines_are_filtered_on(index: PassageIndex) -> None:
    """A0-80."""
    hour = timedelta(hours=1)
    bad = point(1, severities=(Severity.INFO, Severity.ERROR), timestamp=NOON, until=NOON + hour, line_end=50)
    fine = point(2, severities=(Severity.INFO,), timestamp=NOON + 2 * hour, line_start=51, line_end=90)
    await index.upsert(SPACE, [bad, fine, point(3)])

    async def wish(**told: object) -> list[int]:
        return await ids(index, replace(EVERYTHING, conditions=PassageConditions(**told)))  # type: ignore[arg-type]

    assert await wish(severities=frozenset({Severity.ERROR, Severity.CRITICAL})) == [1]
    assert await wish(severities=frozenset({Severity.INFO})) == [1, 2]
    assert await wish(since=NOON + hour / 2) == [1, 2]
    assert await wish(since=NOON + hour / 2, until=NOON + hour) == [1]
    assert await wish(until=NOON - hour) == []
    assert await wish(lines=(42,)) == [1]
    assert await wish(lines=(51, 90)) == [2]


@pytest.mark.long
async def test_written_again_a_point_is_replaced_and_deleted_it_is_gone(index: PassageIndex) -> None:
    """A0-75."""
    await index.upsert(SPACE, [point(1), point(2)])
    await index.upsert(SPACE, [point(1, partition="case_2")])
    assert await ids(index, EVERYTHING) == [2]
    await index.delete(SPACE, [PassageId(UUID(int=2)), PassageId(UUID(int=99))])
    assert await ids(index, EVERYTHING) == []
    assert await index.scan(SPACE, "default", after=None, limit=10) == [PassageId(UUID(int=1))]


@pytest.mark.long
async def test_ids_without_a_point_are_told_from_those_with_one(index: PassageIndex) -> None:
    every = [PassageId(UUID(int=number)) for number in range(1, 3_000)]
    await index.upsert(SPACE, [point(number) for number in (5, 2_500)])
    assert await index.find_missing(SPACE, every) == [each for each in every if each.int not in {5, 2_500}]
    assert await index.find_missing(SPACE, []) == []


@pytest.mark.long
async def test_ids_come_in_pages_in_order(index: PassageIndex) -> None:
    """A0-74."""
    await index.upsert(SPACE, [point(number) for number in (5, 3, 1, 4, 2)])
    first = await index.scan(SPACE, "default", after=None, limit=3)
    rest = await index.scan(SPACE, "default", after=first[-1], limit=3)
    assert [each.int for each in (*first, *rest)] == [1, 2, 3, 4, 5]


@pytest.mark.long
async def test_payload_indexes_that_a_kill_left_out_are_made_at_the_next_start(tmp_path: Path) -> None:
    """The embedded engine's; without them each question reads every point."""
    index = EdgePassages(tmp_path / "documents", reserve_mb=1)
    own = passage_payloads.own_space(SPACE)
    await index._shards.ensure(own, in_use=False)
    await index.aclose()
    index = EdgePassages(tmp_path / "documents", reserve_mb=1)
    await index.ensure(SPACE)
    await index.upsert(SPACE, [point(1)])
    await index.aclose()
    shard = qdrant_edge.EdgeShard.load(str(tmp_path / "documents" / collection_name(own)))
    there = shard.info().payload_schema
    shard.close()
    assert there.keys() >= {*passage_payloads.KEYWORDS, *passage_payloads.TIMES, *passage_payloads.NUMBERS}
    assert there["partition"].points == 1


@pytest.mark.long
async def test_others_have_their_turns_while_an_index_is_made(tmp_path: Path) -> None:
    """The embedded engine's: each payload index waits for the disk, and the first document came within a second."""
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    ticker = asyncio.create_task(tick())
    index = EdgePassages(tmp_path / "documents", reserve_mb=1)
    await asyncio.gather(*(index.ensure(SPACE) for _ in range(2)))
    made = len(passage_payloads.KEYWORDS) + len(passage_payloads.TIMES) + len(passage_payloads.NUMBERS)
    assert turns >= made + 10
    await index.upsert(SPACE, [point(1)])
    ticker.cancel()
    await index.aclose()
