"""What the embedded index promises beyond the port: one owner, nothing lost by a kill, and guards the engine lacks."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qdrant_edge

from hardwon.errors import IndexUnavailable, InvalidInput, StoreIncompatible, StoreInUse
from knowledge.adapters.qdrant import edge as adapter
from knowledge.adapters.qdrant import edge_storage
from knowledge.adapters.qdrant.edge import QdrantEdgeIndex
from knowledge.models import EmbeddingSpace, EntryType, PointFilter, PointId
from tests.support import points as qdrant_points
from tests.support.qdrant_over_edge import ROOT

SPACE = EmbeddingSpace(provider="test", model="m", revision="1", dims=8, max_tokens=256, fingerprint="edge-test")
NAME = "hardwon_edge-test"

PREAMBLE = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.contract.test_qdrant_edge import SPACE, make_points
from knowledge.adapters.qdrant.edge import QdrantEdgeIndex
from hardwon.errors import HardwonError
directory = Path(sys.argv[1])
"""


make_points = functools.partial(qdrant_points.make_points, dims=SPACE.dims)


def child(script: str, directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + script, str(directory)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(timeout=10)
    assert process.stdout is not None
    process.stdout.close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "index"


async def opened(directory: Path, **settings: Any) -> QdrantEdgeIndex:
    index = QdrantEdgeIndex(directory, **{"reserve_mb": 1, **settings})
    await index.ensure(SPACE)
    return index


def half_done(directory: Path) -> list[Path]:
    return [path for path in directory.iterdir() if path.name.startswith(".")]


async def all_ids(index: QdrantEdgeIndex) -> set[PointId]:
    return {point_id for point_id, _ in await index.scan(SPACE, "default", after=None, limit=100_000)}


# One owner


@pytest.mark.long
async def test_a_second_opener_in_another_process_learns_who_has_the_directory(directory: Path) -> None:
    index = await opened(directory)
    script = """
try:
    QdrantEdgeIndex(directory)
except HardwonError as error:
    print(type(error).__name__, error)
"""
    process = child(script, directory)
    answer = said(process)
    end(process)
    assert answer.startswith("StoreInUse")
    assert f"process {os.getpid()}" in answer
    await index.aclose()


@pytest.mark.long
async def test_a_second_opener_in_the_same_process_is_refused_until_the_first_closes(directory: Path) -> None:
    index = await opened(directory)
    with pytest.raises(StoreInUse):
        QdrantEdgeIndex(directory)
    await index.aclose()
    again = await opened(directory)
    await again.aclose()


@pytest.mark.long
async def test_a_shard_somebody_else_has_open_is_in_use_too(directory: Path) -> None:
    index = await opened(directory)
    await index.aclose()
    shard = qdrant_edge.EdgeShard.load(str(directory / NAME))
    index = QdrantEdgeIndex(directory)
    with pytest.raises(StoreInUse):
        await index.ensure(SPACE)
    shard.close()
    await index.ensure(SPACE)
    await index.aclose()


@pytest.mark.long
async def test_a_forked_child_is_refused_instead_of_hanging(directory: Path) -> None:
    script = """
async def main():
    index = QdrantEdgeIndex(directory, reserve_mb=1)
    await index.ensure(SPACE)
    await index.upsert(SPACE, make_points(3))
    if os.fork() == 0:
        signal.alarm(10)  # where it would hang
        try:
            await index.count(SPACE, "default")
        except HardwonError as error:
            print(type(error).__name__, error, flush=True)
        os._exit(0)
    os.wait()
    print(await index.count(SPACE, "default"), flush=True)
asyncio.run(main())
"""
    process = child(script, directory)
    answer, count = said(process), said(process)
    end(process)
    assert answer.startswith("IndexUnavailable")
    assert "fork" in answer
    assert count == "3"


async def test_only_its_owner_may_read_the_directory(directory: Path) -> None:
    """T25: vectors are as secret as the texts."""
    index = await opened(directory)
    assert os.stat(directory).st_mode & 0o077 == 0  # noqa: PTH116
    await index.aclose()


# Durability


@pytest.mark.long
async def test_a_kill_after_an_acknowledged_write_loses_nothing(directory: Path) -> None:
    """D30."""
    script = """
async def main():
    index = QdrantEdgeIndex(directory, reserve_mb=1)
    await index.ensure(SPACE)
    points = make_points(400)
    await index.upsert(SPACE, points)
    await index.delete(SPACE, [point.point_id for point in points[:100]])
    print("acknowledged", flush=True)
    while True:
        await index.upsert(SPACE, points[100:])
asyncio.run(main())
"""
    process = child(script, directory)
    assert said(process) == "acknowledged"
    await asyncio.sleep(0.05)
    end(process)
    index = await opened(directory)
    assert await all_ids(index) == {point.point_id for point in make_points(400)[100:]}
    await index.aclose()


@pytest.mark.long
async def test_a_collection_half_made_or_half_dropped_by_a_kill_is_cleared_away(directory: Path) -> None:
    index = await opened(directory)
    await index.aclose()
    for left in (".making-hardwon_x", ".dropped-hardwon_y"):
        shutil.copytree(directory / NAME, directory / left)
    index = await opened(directory)
    assert set(os.listdir(directory)) == {NAME, "aliases.json", "owner"}  # noqa: PTH208
    await index.aclose()


async def test_what_a_kill_while_giving_back_space_leaves_is_deleted_at_the_start(directory: Path) -> None:
    index = await opened(directory)
    await index.aclose()
    left = directory / NAME / "temp_segments" / "segment_builder_x"
    left.mkdir(parents=True)
    index = await opened(directory)
    assert not left.exists()
    await index.aclose()


@pytest.mark.long
async def test_the_alias_is_replaced_whole_and_an_unreadable_one_is_written_anew(directory: Path) -> None:
    index = await opened(directory)
    aliases = directory / "aliases.json"
    before = aliases.stat().st_ino
    other = replace(SPACE, fingerprint="other")
    await index.ensure(other)
    assert json.loads(aliases.read_text()) == {"project_knowledge": "hardwon_other"}
    assert aliases.stat().st_ino != before
    for rubbish in ('{"project_know', "[1]", ""):
        aliases.write_text(rubbish)
        await index.ensure(SPACE)
        assert index.alias() == NAME
    await index.aclose()


# Guards


async def test_too_little_disk_is_refused_before_the_write_with_its_place_and_size(directory: Path) -> None:
    """G21: a full disk would kill the process."""
    index = await opened(directory)
    points = make_points(3)
    await index.upsert(SPACE, points)
    await index.aclose()
    index = await opened(directory, reserve_mb=10**9)
    for write in (
        index.upsert(SPACE, make_points(1, seed=2)),
        index.delete(SPACE, [points[0].point_id]),
        index.ensure(replace(SPACE, fingerprint="more")),
        index.recreate(SPACE),  # it dropped the old one first
    ):
        with pytest.raises(IndexUnavailable, match=r"MB of disk left and needs 1000000000 MB") as caught:
            await write
        assert str(directory) in str(caught.value)
    assert await index.count(SPACE, "default") == 3
    await index.aclose()


def spoil(directory: Path, what: str) -> None:
    collection = directory / NAME
    match what:
        case "config":
            (collection / "edge_config.json").write_text("{")
        case "log":
            for log in (collection / "wal").glob("open-*"):
                with log.open("r+b") as file:
                    file.write(b"rubbish" * 10)
        case "segment":
            for state in collection.glob("segments/*/segment.json"):
                state.write_text("{")
        case "emptied":
            shutil.rmtree(collection)
            collection.mkdir()
        case "places":
            (places,) = collection.glob("segments/*/payload_storage/tracker.dat")
            with places.open("r+b") as file:
                file.seek(12)  # where in its page the first payload begins
                file.write(b"\x00\x00\x00\xff")


@pytest.mark.long
@pytest.mark.parametrize("what", ["config", "log", "segment", "emptied"])
async def test_a_damaged_directory_is_named_with_the_way_to_rebuild_it(directory: Path, what: str) -> None:
    """G15."""
    index = await opened(directory)
    await index.upsert(SPACE, make_points(3))
    await index.aclose()
    spoil(directory, what)
    index = QdrantEdgeIndex(directory)
    with pytest.raises(StoreIncompatible, match=r"Postgres.*hardwon rebuild") as caught:
        await index.ensure(SPACE)
    assert str(directory) in str(caught.value)
    await index.drop(SPACE)
    await index.ensure(SPACE)
    assert await index.count(SPACE, "default") == 0
    await index.aclose()


async def test_a_collection_of_other_dimensions_is_not_opened(directory: Path) -> None:
    index = await opened(directory)
    await index.aclose()
    index = QdrantEdgeIndex(directory)
    with pytest.raises(StoreIncompatible, match="8 dimensions, not 9"):
        await index.ensure(replace(SPACE, dims=9))
    await index.aclose()


async def test_a_directory_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(IndexUnavailable, match="file/index"):
        QdrantEdgeIndex(tmp_path / "file" / "index")


@pytest.mark.long
async def test_no_exception_of_the_engine_escapes(directory: Path) -> None:
    index = await opened(directory)
    points = make_points(2)
    await index.upsert(SPACE, points)
    index._shard(SPACE).close()  # from now on every call of the engine raises its plain Exception
    where = PointFilter(workspace="default", live_at=points[0].embedded_at)
    for call in (
        index.upsert(SPACE, points),
        index.search(SPACE, points[0].dense, points[0].lexical, where, limit=2),
        index.delete(SPACE, [points[0].point_id]),
        index.delete_expired(SPACE, "default", points[0].expires_at),
        index.count(SPACE, "default"),
        index.scan(SPACE, "default", after=None, limit=2),
        index.ids(SPACE, "default", after=None, limit=2),
    ):
        with pytest.raises(IndexUnavailable, match=NAME):
            await call
    index._shards.clear()
    await index.aclose()


@pytest.mark.long
async def test_an_engine_that_panics_at_damaged_points_is_named_with_the_way_to_rebuild_it(directory: Path) -> None:
    """G15. A panic of the engine is no Exception: nothing that degrades or reports would see it."""
    index = await opened(directory)
    points = make_points(3)
    await index.upsert(SPACE, points)
    await index.aclose()
    shutil.rmtree(directory / NAME / "wal")  # else each opening writes the points again
    await (await opened(directory)).aclose()
    spoil(directory, "places")
    index = await opened(directory)
    with pytest.raises(IndexUnavailable, match=rf"{NAME}.*hardwon rebuild.*Postgres"):
        await index.scan(SPACE, "default", after=None, limit=3)
    await index.drop(SPACE)
    await index.ensure(SPACE)
    await index.upsert(SPACE, points)
    assert await all_ids(index) == {point.point_id for point in points}
    await index.aclose()


async def test_the_files_ask_for_no_graph_and_no_idf(directory: Path) -> None:
    index = await opened(directory)
    await index.aclose()
    config = json.loads((directory / NAME / "edge_config.json").read_text())
    assert config["optimizers"]["indexing_threshold"] >= 10**9
    assert config["sparse_vectors"] == {"lexical": {}}
    assert config["vectors"]["dense"]["distance"] == "Cosine"


async def test_every_field_a_search_filters_on_has_a_payload_index(directory: Path) -> None:
    """D9."""
    index = await opened(directory)
    schema = index._shard(SPACE).info().payload_schema
    assert {field: str(kind.data_type).rpartition(".")[2] for field, kind in schema.items()} == {
        "workspace": "Keyword",
        "entry_type": "Keyword",
        "view": "Keyword",
        "agent_type": "Keyword",
        "task_type": "Keyword",
        "technology": "Keyword",
        "gate_type": "Keyword",
        "embedded_at": "Datetime",
        "expires_at": "Datetime",
    }
    await index.aclose()


@pytest.mark.long
async def test_the_payload_holds_texts_only_and_leaves_absent_fields_out(directory: Path) -> None:
    """The engine's boolean match finds nothing and says nothing."""
    index = await opened(directory)
    (point,) = make_points(1, entry_type=EntryType.GATE_APPROVAL, gate_type="review")
    await index.upsert(SPACE, [point])
    (record,) = index._shard(SPACE).retrieve([point.point_id], True, False)  # noqa: FBT003
    assert record.payload == {
        "workspace": "default",
        "entry_type": "gate_approval",
        "view": "situation",
        "gate_type": "review",
        "embedded_at": "2026-03-01T12:00:00.000000Z",
        "expires_at": "2027-03-01T12:00:00.000000Z",
    }
    await index.aclose()


@pytest.mark.long
async def test_opening_again_keeps_everything_and_gives_back_the_space_of_deleted_points(directory: Path) -> None:
    points = make_points(3000)
    index = await opened(directory)
    await index.upsert(SPACE, points)
    await index.delete(SPACE, [point.point_id for point in points[:1500]])
    where = PointFilter(workspace="default", live_at=points[0].embedded_at)
    ask: dict[str, Any] = {"dense": points[7].dense, "lexical": points[7].lexical, "where": where, "limit": 20}
    before = await index.search(SPACE, **ask)
    await index.aclose()
    segments = set((directory / NAME / "segments").iterdir())
    index = await opened(directory)
    assert set((directory / NAME / "segments").iterdir()) != segments
    assert await all_ids(index) == {point.point_id for point in points[1500:]}
    assert index.alias() == NAME
    after = await index.search(SPACE, **ask)
    # Equal lexical scores all over, so which of them come first is the engine's choice; both scores are not.
    best = sorted(before, key=lambda hit: -hit.cosine)[:20]
    again = sorted(after, key=lambda hit: -hit.cosine)[:20]
    assert [hit.point_id for hit in again] == [hit.point_id for hit in best]
    assert [hit.cosine for hit in again] == pytest.approx([hit.cosine for hit in best], abs=1e-5)
    assert {hit.lexical for hit in after} == {0.3125}
    await index.upsert(SPACE, points[:10])
    assert await index.count(SPACE, "default") == 1510
    await index.aclose()


@pytest.mark.long
async def test_long_work_lets_the_event_loop_go_on(directory: Path) -> None:
    """The engine holds the interpreter for the whole of a call, so calls are short and others go on between them."""
    points = make_points(2000)
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    ticker = asyncio.create_task(tick())
    index = await opened(directory)
    assert turns >= 10, "a collection is made in a dozen calls that each wait for the disk: 1.4 s at a stretch"
    turns = 0
    await index.upsert(SPACE, points)
    assert turns >= len(points) // adapter.BATCH
    turns = 0
    assert await index.delete_expired(SPACE, "default", points[0].expires_at) == 2000
    assert turns >= 2000 // adapter.SLICE
    ticker.cancel()
    await index.aclose()


@pytest.mark.long
async def test_a_collection_that_several_ask_for_at_once_is_made_once(directory: Path) -> None:
    """Others have their turns while it is made, and it may be dropped at once; whoever gave up left nothing."""
    index = QdrantEdgeIndex(directory, reserve_mb=1)
    gives_up = asyncio.create_task(index.ensure(SPACE))
    await asyncio.sleep(0)
    gives_up.cancel()
    await asyncio.gather(gives_up, *(index.ensure(SPACE) for _ in range(3)), return_exceptions=True)
    await index.upsert(SPACE, make_points(3))
    await asyncio.gather(index.drop(SPACE), index.ensure(SPACE), index.drop(SPACE), index.ensure(SPACE))
    assert await index.count(SPACE, "default") == 0
    await index.aclose()
    assert half_done(directory) == []


@pytest.mark.long
async def test_whoever_waits_while_a_collection_is_made_anew_finds_it_there(directory: Path) -> None:
    """Dropped by one call and made by the next, it was gone to those that had waited for the call before."""
    index = QdrantEdgeIndex(directory, reserve_mb=1)
    waiting = [index.upsert(SPACE, make_points(1)) for _ in range(3)]
    await asyncio.gather(index.ensure(SPACE), index.recreate(SPACE), *waiting)
    assert await index.count(SPACE, "default") == 1
    await index.aclose()
    assert half_done(directory) == []


@pytest.mark.long
async def test_a_bad_batch_is_refused_before_the_engine_sees_any_of_it(directory: Path) -> None:
    """The engine logs a write before it checks it, and a load replays the log: it would come back after a kill."""
    index = await opened(directory)
    log = directory / NAME / "wal"
    before = [(path.name, path.read_bytes()) for path in sorted(log.iterdir())]
    bad = make_points(200)
    bad[199] = replace(bad[199], dense=np.full(SPACE.dims, np.nan, dtype=np.float32))
    with pytest.raises(InvalidInput):
        await index.upsert(SPACE, bad)
    assert [(path.name, path.read_bytes()) for path in sorted(log.iterdir())] == before
    await index.aclose()


class Disk:
    """What a power cut leaves of a collection: what was there when this was made, and what was synced since.

    `torn` is the share of pages of other files that got there by themselves.
    """

    def __init__(self, collection: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._collection, self._place = collection, place
        shutil.copytree(collection, place)
        monkeypatch.setattr(edge_storage, "_sync", self._sync)

    def _sync(self, path: Path) -> None:
        if path.is_file():
            shutil.copy(path, self._place / path.relative_to(self._collection))

    def cut(self, rng: random.Random, torn: float) -> None:
        for path in self._collection.rglob("*"):
            there = self._place / path.relative_to(self._collection)
            if path.is_file() and "wal" not in path.parts and there.exists():
                self._tear(path.read_bytes(), there, rng, torn)

    @staticmethod
    def _tear(written: bytes, there: Path, rng: random.Random, torn: float) -> None:
        kept = bytearray(there.read_bytes())
        if len(kept) == len(written) and kept != written:
            for at in range(0, len(kept), 4096):
                if rng.random() < torn:
                    kept[at : at + 4096] = written[at : at + 4096]
            there.write_bytes(kept)


@pytest.mark.long
@pytest.mark.parametrize("torn", [0.0, 0.1, 0.5, 0.9, 1.0])
async def test_a_power_cut_after_an_acknowledged_write_loses_nothing(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torn: float
) -> None:
    """Whatever pages of the segments got to the disk, and whatever was written, overwritten and deleted."""
    rng = random.Random(torn)
    index = await opened(directory)
    await index.upsert(SPACE, old := make_points(200))
    await index.aclose()  # flushes
    index = await opened(directory)
    disk = Disk(directory / NAME, tmp_path / "after" / NAME, monkeypatch)
    await index.upsert(SPACE, new := make_points(90, seed=2))
    changed = [replace(point, dense=-point.dense) for point in old[:20]]
    await index.upsert(SPACE, changed)
    await index.delete(SPACE, [point.point_id for point in (*old[20:40], *new[:10])])
    disk.cut(rng, torn)
    await index.aclose()
    monkeypatch.undo()

    index = await opened(tmp_path / "after")
    stored = dict(await index.scan(SPACE, "default", after=None, limit=1000))
    assert stored.keys() == {point.point_id for point in (*old[:20], *old[40:], *new[10:])}
    for point in (*changed, *old[40:], *new[10:]):
        found = stored[point.point_id]
        assert found is not None
        assert float(found.dense @ point.dense) > 0.99 * float(np.linalg.norm(point.dense))
        assert found.lexical.indices == point.lexical.indices
    await index.aclose()


@pytest.mark.long
async def test_after_many_writes_the_engine_flushes_so_that_little_is_done_again(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segments alone hold all."""
    monkeypatch.setattr(adapter, "FLUSH_AFTER", 50)
    index = await opened(directory)
    await index.upsert(SPACE, make_points(50))
    copy = directory.parent / "copy"
    shutil.copytree(directory / NAME / "segments", copy / NAME / "segments")
    shutil.copy(directory / NAME / "edge_config.json", copy / NAME)
    await index.aclose()
    index = await opened(copy)
    assert await index.count(SPACE, "default") == 50
    await index.aclose()
