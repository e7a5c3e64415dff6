"""Export and import: the same ids, the same answers, nothing embedded again; damaged archives are refused whole."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
import random
import signal
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, cast

import httpx
import pytest
from pydantic import SecretStr

from hardwon.errors import Conflict, InvalidInput, StorageUnavailable, StoreIncompatible
from hardwon.models.access import EntryFilter
from knowledge.access.principals import Principal, Scope, Trust
from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.adapters.postgres.admin.archive_rows import STAYS, TABLES
from knowledge.adapters.postgres.document_tables import metadata
from knowledge.memory.maintenance.archive_format import check
from knowledge.models import AppliesWhen, EntryType, LinkKind, Pattern, Task
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from orchestrator import OrchestratorContextBuilder
from orchestrator.cli.files.archives import write_archive
from orchestrator.client import KnowledgeClient
from orchestrator.http.app import make_app
from orchestrator.importers.jsonl import read_lines
from tests.acceptance.memory.test_review import AGENT, LESSON
from tests.acceptance.memory.test_the_loop import CART, fail
from tests.acceptance.memory.test_upkeep import learn
from tests.conftest import TEMPLATE, SetClock
from tests.faults.campaigns import draw_lessons
from tests.support.archives import as_stream, edited, repacked, whole
from tests.support.documents import GUIDE, add
from tests.support.embedders import HashingEmbedder
from tests.support.entries import CART as CART_FAILS
from tests.support.entries import failure
from tests.support.folders import end_owner
from tests.support.openai_server import OpenAIServer
from tests.support.postgres import (
    POSTGRES_15,
    create_database,
    create_owned_database,
    drop_database,
    system_postgres,
)
from tests.support.processes import Commands, embedding_by, entry, lines
from tests.support.qdrant_over_edge import QdrantProcess

ASKED = ["stock invoice user broke", "the cache of the session breaks", CART, "queue worker lock"]


class OpensElsewhere(Protocol):
    """Opens a second store, empty at first."""

    def __call__(self, embedder: HashingEmbedder | None = None) -> AbstractAsyncContextManager[Knowledge]: ...


@pytest.fixture
async def second_url(postgres_dsn: str) -> AsyncIterator[str]:
    dsn = await create_database(postgres_dsn, template=TEMPLATE)
    yield dsn
    await drop_database(dsn)


@pytest.fixture
async def third_url(postgres_dsn: str) -> AsyncIterator[str]:
    dsn = await create_database(postgres_dsn, template=TEMPLATE)
    yield dsn
    await drop_database(dsn)


@pytest.fixture
def elsewhere(second_url: str, tmp_path: Path, clock: SetClock) -> OpensElsewhere:
    settings = KnowledgeSettings(home=tmp_path / "second", database_url=SecretStr(second_url))

    def open_second(embedder: HashingEmbedder | None = None) -> AbstractAsyncContextManager[Knowledge]:
        return open_knowledge(settings, clock=clock, embedder=embedder or HashingEmbedder(dims=256))

    return open_second


async def fill(knowledge: Knowledge) -> None:
    """Have entries of every kind and state, two workspaces, a context."""
    await learn(knowledge, 60)
    for project in ("a", "b"):
        await fail(knowledge, project_id=project)
    await knowledge.checkpoints.process_all()
    await knowledge.corrections.tag((await knowledge.queries.query_for_failure(CART))[0].pattern_id, ["ours"])
    await learn(knowledge.in_workspace("other"), 5)
    await fail(knowledge, failure_description="still staged", dead_ends=["restart it"])
    await knowledge.capture.capture_gate_rejection(project_id="a", gate_type="review", human_feedback="no")
    task = Task(description=CART, project_id="a", task_id="T-1")
    assert (await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "backend")).degraded is None


async def answers(knowledge: Knowledge) -> list[list[Pattern]]:
    found = [await knowledge.queries.query_for_failure(text, min_relevance=0, max_results=10) for text in ASKED]
    found.append(await knowledge.queries.query_for_task("task 3", min_relevance=0))
    found.append(await knowledge.in_workspace("other").queries.query_for_failure(ASKED[0], min_relevance=0))
    return found


async def assert_same_answers(one: Knowledge, other: Knowledge) -> None:
    """Vectors went through float16, so two patterns that are as near as makes no difference may change places."""
    for ours, theirs in zip(await answers(one), await answers(other), strict=True):
        assert len(ours) == len(theirs)
        for pattern, same in zip(ours, theirs, strict=True):
            assert pattern.relevance == pytest.approx(same.relevance, abs=2e-3)
            if pattern.pattern_id == same.pattern_id:
                assert replace(pattern, relevance=0) == replace(same, relevance=0)
        assert [pattern.pattern_id for pattern in ours[:1]] == [pattern.pattern_id for pattern in theirs[:1]]


@pytest.mark.long
async def test_a_second_store_answers_the_same_with_the_same_ids_and_nothing_embedded_again(
    knowledge: Knowledge, elsewhere: OpensElsewhere
) -> None:
    """G15."""
    await fill(knowledge)
    seen: list[tuple[int, int | None]] = []
    archive = b"".join(
        [piece async for piece in knowledge.archives.export_archive(progress=lambda *told: seen.append(told))]
    )
    assert seen[-1][0] == seen[-1][1]
    assert archive == await whole(knowledge), "the same rows are the same bytes"
    embedder = HashingEmbedder(dims=256)
    async with elsewhere(embedder) as second:
        report = await second.archives.import_archive(as_stream(archive), progress=lambda *told: seen.append(told))
        assert (report.rows, report.embedded, embedder.texts) == (report.new, 0, 0)
        assert report.rows["knowledge_staging"] == 69
        kept = await second.stores.entries.entries_of_task("web-shop", None, EntryType.FAILURE_SOLUTION)
        assert ("restart it",) in {entry.dead_ends for entry in kept}
        await assert_same_answers(second, knowledge)
        for workspace in ("default", "other"):
            ours, theirs = knowledge.in_workspace(workspace), second.in_workspace(workspace)
            assert await theirs.stats() == await ours.stats()
            assert (await theirs.upkeep.verify()).sound
        assert await whole(second) == archive
        assert (await second.checkpoints.process_all()).embedded == 1, "what was staged there is staged here"


@pytest.mark.long
async def test_an_import_again_doubles_nothing_and_a_later_archive_is_refused(
    knowledge: Knowledge, elsewhere: OpensElsewhere
) -> None:
    await learn(knowledge, 20)
    open_id = await fail(knowledge, failure_description="not solved yet", solution_steps=None, success_verified=False)
    first = await whole(knowledge)
    await knowledge.capture.resolve_failure(open_id, solution_steps="mended", verified_by="pytest")
    later = await whole(knowledge)
    async with elsewhere() as second:
        await second.archives.import_archive(as_stream(first))
        stats = await second.stats()
        again = await second.archives.import_archive(as_stream(first))
        assert set(again.new.values()) == {0}
        assert again.points == 27
        with pytest.raises(Conflict, match=r"holds knowledge_staging of its own, .* import into an empty store"):
            await second.archives.import_archive(as_stream(later))
        assert await second.stats() == stats
        assert (await second.upkeep.verify()).sound


@pytest.mark.long
async def test_captures_and_checkpoints_that_go_on_are_in_an_archive_whole_or_not_at_all(
    knowledge: Knowledge, elsewhere: OpensElsewhere
) -> None:
    """One snapshot: no entry without its pattern, no point without its vector."""
    await learn(knowledge, 20)
    pieces = knowledge.archives.export_archive()
    archive = await anext(pieces)
    await learn(knowledge, 20, first=100)
    archive += b"".join([piece async for piece in pieces])
    async with elsewhere() as second:
        await second.archives.import_archive(as_stream(archive))
        stats = await second.stats()
        assert dict(stats.entries) in ({"embedded": 20}, {"embedded": 40})
        assert (await second.upkeep.verify()).sound


def plain(archive: bytes) -> bytearray:
    return bytearray(gzip.decompress(archive))


def replaced(archive: bytes, one: bytes, other: bytes) -> bytes:
    return gzip.compress(bytes(plain(archive)).replace(one, other, 1))


def without_manifest(archive: bytes) -> bytes:
    tar = bytes(plain(archive))
    return gzip.compress(tar[: tar.index(b"hardwon-archive-9/manifest.json")] + bytes(1024))


@pytest.mark.long
async def test_what_is_not_a_whole_archive_of_this_version_is_refused_before_anything_is_written(
    knowledge: Knowledge, elsewhere: OpensElsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    await learn(knowledge, 10)
    archive = await whole(knowledge)
    flipped = bytearray(archive)
    flipped[len(archive) // 2] ^= 1
    old = gzip.compress(
        b'{"format":"hardwon-archive","version":8}\n["workspaces",{"workspace":"default"}]\n' + b" " * 500
    )
    with monkeypatch.context() as newer:
        newer.setattr("knowledge.memory.maintenance.archive_format.VERSION", 99)
        later = await whole(knowledge)
    broken = {
        "cut off": [archive[: len(archive) // 2], archive[:-1], bytes(plain(archive)[:-1]), without_manifest(archive)],
        "damaged": [replaced(archive, b"broke in case", b"broke in cage"), bytes(flipped)],
        "format version 99, this hardwon reads 9": [later],
        "of JSON lines, as hardwon wrote them up to commit 7e69ee7: import it with that version": [old],
        "no archive of hardwon": [b"PK\3\4 a zip" * 100, gzip.compress(b"[]\n" * 300)],
        "empty|cut off": [b"", gzip.compress(b"")],
        "after": [archive + b"more", bytes(plain(archive)) + b"more"],
        "of a later hardwon|by a later hardwon": [edited(archive, "projects", {}, schema="9999")],
        "other columns of projects": [edited(archive, "projects", {"colour": "red"})],
        "columns of projects than": [edited(archive, "projects", {}, without="workspace")],
        "columns of poems": [repacked(archive, "projects", lambda columns, rows: ((), rows), name="poems")],
    }
    async with elsewhere() as second:
        for says, archives in broken.items():
            for each in archives:
                with pytest.raises(InvalidInput, match=says) as refused:
                    await second.archives.import_archive(as_stream(each))
                assert refused.value.field == "archive"
        stats = await second.stats()
        assert (stats.projects, dict(stats.entries), stats.embedding_model) == (0, {}, None)
        report = await second.archives.import_archive(as_stream(bytes(plain(archive))))
        assert report.new["knowledge_staging"] == 10, "a plain tar is read as well"


EDITS: list[tuple[str, dict[str, str]]] = [
    ("projects", {"created_at": "some day"}),
    ("projects", {"created_at": "infinity"}),
    ("projects", {"workspace": r"\N"}),
    ("projects", {"project_id": "a\0b"}),
    ("projects", {"project_id": "\ud800"}),
    ("projects", {"project_id": "x" * 201}),
    ("points", {"view": "sideways"}),
    ("points", {"id": "none"}),
    ("patterns", {"entry_type": "poem"}),
    ("knowledge_staging", {"status": "thought"}),
    ("knowledge_staging", {"success_verified": "maybe"}),
    ("knowledge_staging", {"suspicions": "{NULL}"}),
    ("knowledge_staging", {"applies_when": '{"colour": "red"}'}),
    ("knowledge_staging", {"applies_when": '["python"]'}),
    ("vectors", {"vector": r"\\x"}),
    ("vectors", {"vector": r"\\x0000"}),
    ("vectors", {"vector": r"\\x" + "007e" * 256}),
    ("vectors", {"vector": r"\\x" + "007c" * 256}),
    ("embedding_spaces", {"calibration": "{}"}),
    ("embedding_spaces", {"mean_terms": "0"}),
    ("embedding_spaces", {"mean_terms": "NaN"}),
    ("embedding_spaces", {"space": "{}"}),
    ("embedding_spaces", {"fingerprint": "other"}),
    ("kb_vectors", {"vector": r"\\x" + "003c" * 255}),
    ("kb_versions", {"document_type": "poem"}),
    ("kb_chunks", {"severities": "{poem}"}),
    ("kb_chunks", {"kind": "document"}),
    ("kb_documents", {"latest": "7"}),
    ("kb_documents", {"active_generation": r"\N"}),
    ("kb_documents", {"text_hashes": '{"one": "x"}'}),
    ("kb_documents", {"status": "deleting"}),
]
"""Values as COPY writes them that no hardwon could read again, or that Postgres does not take."""


@pytest.mark.long
async def test_rows_that_could_not_be_read_again_are_refused_by_the_name_of_their_part_and_nothing_is_written(
    knowledge: Knowledge, elsewhere: OpensElsewhere
) -> None:
    await fail(knowledge)
    await knowledge.checkpoints.process_all()
    await add(knowledge, "guide.md", GUIDE)
    archive = await whole(knowledge)
    async with elsewhere() as second:
        for table, values in EDITS:
            with pytest.raises(InvalidInput, match=f"archive: holds {table} that are none") as refused:
                await second.archives.import_archive(as_stream(edited(archive, table, values)))
            assert refused.value.__cause__ is None, "the driver's error repeats what is stored"
        stats = await second.stats()
        assert (stats.projects, stats.embedding_model) == (0, None)
        assert (await second.archives.import_archive(as_stream(archive))).new["kb_documents"] == 1
        assert (await second.upkeep.verify()).sound


@pytest.mark.long
async def test_an_import_that_fails_anywhere_leaves_nothing_and_is_run_again(
    knowledge: Knowledge, elsewhere: OpensElsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G2, G15."""
    await fail(knowledge)
    await add(knowledge, "guide.md", GUIDE)
    await knowledge.checkpoints.process_all()
    archive = await whole(knowledge)
    async with elsewhere() as second:
        empty = await whole(second)
        for step in ("recount", "_count_all_terms", "take_turn"):
            with monkeypatch.context() as failing:

                async def fails(*_: object) -> None:
                    raise StorageUnavailable("Postgres is gone")

                failing.setattr(f"knowledge.adapters.postgres.admin.archive.{step}", fails)
                with pytest.raises(StorageUnavailable):
                    await second.archives.import_archive(as_stream(archive))
            assert await whole(second) == empty
        report = await second.archives.import_archive(as_stream(archive))
        assert report.rows == report.new


@pytest.mark.long
@pytest.mark.skipif(not POSTGRES_15.is_dir(), reason="there is no Postgres 15 in /usr/lib/postgresql")
async def test_a_store_moves_from_postgres_18_to_15_and_back_as_an_owner_without_further_rights(
    knowledge: Knowledge, elsewhere: OpensElsewhere, tmp_path: Path, clock: SetClock
) -> None:
    await fill(knowledge)
    await add(knowledge, "guide.md", GUIDE)
    archive = await whole(knowledge)
    with system_postgres(POSTGRES_15) as server:
        settings = KnowledgeSettings(home=tmp_path, database_url=SecretStr(await create_owned_database(server)))
        async with open_knowledge(settings, clock=clock, embedder=HashingEmbedder(dims=256)) as older:
            report = await older.archives.import_archive(as_stream(archive))
            assert (report.rows, report.embedded) == (report.new, 0)
            assert (await older.upkeep.verify()).sound
            await assert_same_answers(older, knowledge)
            back = await whole(older)
    there, here = check(io.BytesIO(archive)), check(io.BytesIO(back))
    assert (here.tables, here.origin.workspaces) == (there.tables, there.origin.workspaces)
    assert (there.origin.postgres[:2], here.origin.postgres[:2]) == ("18", "15")
    async with elsewhere() as second:
        await second.archives.import_archive(as_stream(back))
        assert await whole(second) == archive
        await assert_same_answers(second, knowledge)


async def test_every_table_goes_along_or_stays_behind_on_purpose() -> None:
    assert TABLES.keys() | STAYS == metadata.tables.keys()
    names = list(TABLES)
    assert names.index("embedding_spaces") < min(names.index("vectors"), names.index("kb_vectors")), (
        "a store with vectors keeps its space in use"
    )


@pytest.mark.long
async def test_entries_for_people_are_lines_that_capture_takes_back(
    knowledge: Knowledge, elsewhere: OpensElsewhere
) -> None:
    told = AppliesWhen(technology="python", version=">=3.10")
    await knowledge.capture.capture(failure(applies_when=told, failure_description='a\tb\n"é"', idempotency_key="k"))
    await knowledge.capture.capture_gate_rejection(project_id="a", gate_type="review", human_feedback="no")
    await knowledge.checkpoints.process_all()
    lines = b"".join([piece async for piece in knowledge.archives.export_entries("default")]).decode().splitlines()
    async with elsewhere() as second:
        read = [entry for _, entry in read_lines(lines)]
        assert {each.outcome for each in await second.capture.capture_all(cast("Any", read))} == {"accepted"}
        again = b"".join([piece async for piece in second.archives.export_entries("default")]).decode().splitlines()
    assert (sorted(again), len(lines)) == (sorted(lines), 2)
    assert json.loads(next(line for line in lines if '"k"' in line))["applies_when"] == {
        "technology": "python",
        "version": ">=3.10",
    }


@pytest.mark.long
async def test_conditions_travel(knowledge: Knowledge, elsewhere: OpensElsewhere) -> None:
    told = AppliesWhen(technology="python", version=">=3.10")
    entry_id = await knowledge.capture.capture(failure(applies_when=told, error_message="KeyError"))
    await knowledge.checkpoints.process_all()
    async with elsewhere() as second:
        await second.archives.import_archive(as_stream(await whole(knowledge)))
        assert (await second.capture.get(entry_id)).applies_when == told
        (pattern,) = await second.queries.query_for_failure(CART_FAILS, "KeyError", min_relevance=0)
        assert pattern.when_to_try.endswith("fails with KeyError; only with python >=3.10.")


@pytest.mark.long
async def test_a_store_with_vectors_of_another_model_or_patterns_of_its_own_is_not_touched(
    knowledge: Knowledge, elsewhere: OpensElsewhere
) -> None:
    """G22."""
    await learn(knowledge, 10)
    archive = await whole(knowledge)
    other = HashingEmbedder(dims=64, model="another")
    async with elsewhere(other) as second:
        with pytest.raises(Conflict, match=r"settings ask for another .* set HARDWON_EMBEDDING_MODEL=hashing"):
            await second.archives.import_archive(as_stream(archive))
        await learn(second, 3)
    async with elsewhere() as second:
        with pytest.raises(Conflict, match=r"store was embedded with another .* reembed --model hashing"):
            await second.archives.import_archive(as_stream(archive))
        await second.store_upkeep.reembed(HashingEmbedder(dims=256), force=True)
        before = await second.stats()
        with pytest.raises(Conflict, match="holds knowledge_staging of its own"):
            await second.archives.import_archive(as_stream(archive))
        assert await second.stats() == before


@pytest.mark.long
async def test_archives_go_over_http_both_ways_whatever_their_size(
    knowledge: Knowledge, elsewhere: OpensElsewhere
) -> None:
    await fill(knowledge)
    async with elsewhere() as second:

        def client(opened: Knowledge) -> KnowledgeClient:
            return KnowledgeClient("http://hardwon", transport=httpx.ASGITransport(app=make_app(opened)))

        async with client(knowledge) as source, client(second) as target:
            archive = b"".join([piece async for piece in source.archives.export_archive()])
            assert archive == await whole(knowledge)
            told = b"".join([piece async for piece in source.archives.export_entries("other")])
            assert told == b"".join([piece async for piece in knowledge.archives.export_entries("other")])
            assert told.count(b'"workspace": "other"') == told.count(b"\n") == 5
            assert not any([piece async for piece in source.archives.export_entries("nobody")])
            report = await target.archives.import_archive(as_stream(archive))
            assert (report.rows, report.embedded) == (report.new, 0)
            with pytest.raises(InvalidInput, match="cut off"):
                await target.archives.import_archive(as_stream(archive[:500]))
        await assert_same_answers(second, knowledge)


@pytest.fixture
def endpoint() -> Iterator[OpenAIServer]:
    with OpenAIServer(dims=64) as server:
        yield server


@pytest.fixture
def server(second_url: str, tmp_path: Path, endpoint: OpenAIServer) -> Iterator[Commands]:
    """Commands on a Postgres server and a Qdrant server."""
    with QdrantProcess(tmp_path / "qdrant") as qdrant:
        settings = {"HARDWON_DATABASE_URL": second_url, "HARDWON_QDRANT_URL": qdrant.url}
        yield Commands(tmp_path / "unused", embedding_by(endpoint) | settings)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_an_embedded_store_moves_to_servers_through_a_pipe_and_a_killed_import_goes_on(
    database_url: str, home: Path, server: Commands, endpoint: OpenAIServer, tmp_path: Path
) -> None:
    """G2, G15: killed with SIGKILL in the middle, run again."""
    source = Commands(home, embedding_by(endpoint) | {"HARDWON_DATABASE_URL": database_url})
    number = 500
    told = [entry(failure_description=f"case {at} of the cart breaks", task_id=str(at)) for at in range(number)]
    (tmp_path / "entries.jsonl").write_text(lines(told))
    asked = ("query", "failure", "case 77 of the cart", "--min-relevance", "0")
    with source.serving():
        source.here("capture", tmp_path / "entries.jsonl")
        source.here("checkpoint")
        wanted = source.here(*asked)
        stats = source.here("stats")
        exported = source.here("export", tmp_path / "archive")
        assert exported["rows"]["knowledge_staging"] == number
        assert sorted(path.name for path in tmp_path.glob("archive*")) == ["archive"]
    embedded = endpoint.texts

    with server.start("import", tmp_path / "archive", HARDWON_LOG_LEVEL="INFO") as importing:
        assert importing.process.stderr is not None
        while "Importing" not in (said := importing.process.stderr.readline()):
            assert said, "it ended before it was killed"
        importing.process.kill()  # first: it would send it to the next owner
        end_owner(server.home, signal.SIGKILL)
    with (tmp_path / "archive").open("rb") as archive:
        done = server.json("import", "-", told=archive.read())
    assert done["new"] == done["rows"], "the killed one had written nothing"
    assert (done["points"], done["embedded"]) == (number, 0)
    assert server.json("stats") == stats
    assert server.json("verify")["sound"]
    again = server.json(*asked)
    assert [p["pattern_id"] for p in again["patterns"]] == [p["pattern_id"] for p in wanted["patterns"]]
    assert endpoint.texts - embedded <= 1, "only the question"


@pytest.mark.long
def test_files_that_cannot_be_read_or_written_are_named_and_a_failed_export_leaves_none(
    database_url: str, home: Path, endpoint: OpenAIServer, tmp_path: Path
) -> None:
    commands = Commands(home, embedding_by(endpoint) | {"HARDWON_DATABASE_URL": database_url})
    with commands.serving():
        with pytest.raises(InvalidInput, match="cannot be read: No such file"):
            commands.here("import", tmp_path / "none")
        with pytest.raises(InvalidInput, match="cannot be written: No such file"):
            commands.here("export", tmp_path / "none" / "archive")
        for folder in (".", "/", tmp_path):
            with pytest.raises(InvalidInput, match="is a directory: name a file in it"):
                commands.here("export", folder)
    assert not list(tmp_path.iterdir())


async def test_an_export_that_is_cut_off_leaves_no_file_and_the_one_before_as_it_was(
    knowledge: Knowledge, tmp_path: Path
) -> None:
    async def cut() -> AsyncGenerator[bytes, None]:
        yield (await whole(knowledge))[:50]

    (tmp_path / "archive").write_text("the one before")
    with pytest.raises(InvalidInput, match="cut off"):
        await write_archive(str(tmp_path / "archive"), cut())
    assert (tmp_path / "archive").read_text() == "the one before"
    assert not (tmp_path / "archive.part").exists()
    rows = await write_archive(str(tmp_path / "archive"), knowledge.archives.export_archive())
    with (tmp_path / "archive").open("rb") as archive:
        assert check(archive).rows == rows


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def test_an_archive_is_read_by_its_owner_alone_and_one_that_takes_a_place_by_whoever_read_there(
    knowledge: Knowledge, tmp_path: Path
) -> None:
    """All workspaces are in it; everybody on the machine could read it, and a link put beside it was followed."""
    (tmp_path / "other").write_text("of somebody else")
    (tmp_path / "archive.part").symlink_to(tmp_path / "other")
    mask = os.umask(0)
    try:
        await write_archive(str(tmp_path / "archive"), knowledge.archives.export_archive())
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "archive").stat().st_mode) == 0o600
    assert (tmp_path / "other").read_text() == "of somebody else"
    (tmp_path / "archive").chmod(0o640)
    await write_archive(str(tmp_path / "archive"), knowledge.archives.export_archive())
    assert stat.S_IMODE((tmp_path / "archive").stat().st_mode) == 0o640
    assert _names(tmp_path) == {"archive", "archive.part", "other"}


@pytest.mark.long
async def test_an_export_into_a_pipe_or_through_a_link_leaves_both_in_their_place(
    knowledge: Knowledge, tmp_path: Path
) -> None:
    """What root exported to /dev/stdout took the place of that link, and of a device: of /dev/null, for everybody."""
    os.mkfifo(tmp_path / "pipe")
    reading = asyncio.create_task(asyncio.to_thread((tmp_path / "pipe").read_bytes))
    assert await write_archive(str(tmp_path / "pipe"), knowledge.archives.export_archive()) is None
    check(io.BytesIO(await reading))
    assert (tmp_path / "pipe").is_fifo()

    (tmp_path / "link").symlink_to(tmp_path / "archive")
    assert await write_archive(str(tmp_path / "link"), knowledge.archives.export_archive())
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "archive").read_bytes() == await reading


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no device that is always full")
async def test_an_export_that_nobody_takes_ends_at_once(knowledge: Knowledge, tmp_path: Path) -> None:
    """What was left of it was closed once its task had ended, which was told with a trace."""
    (tmp_path / "full").symlink_to("/dev/full")
    pieces = knowledge.archives.export_archive()
    with pytest.raises(InvalidInput, match="full: cannot be written: No space left"):
        await write_archive(str(tmp_path / "full"), pieces)
    assert [piece async for piece in pieces] == []


@pytest.mark.long
async def test_what_a_person_ruled_goes_along(knowledge: Knowledge, elsewhere: OpensElsewhere) -> None:
    one = await fail(knowledge, failure_description="The nightly export runs out of memory")
    other = await fail(knowledge, failure_description="Exporting orders dies at night")
    await knowledge.checkpoints.process_all()
    kept, gone = [(await knowledge.capture.get(entry_id)).pattern_id for entry_id in (one, other)]
    assert kept is not None
    assert gone is not None
    await knowledge.grouping.join(kept, gone)
    split = await knowledge.grouping.split([other])
    async with elsewhere() as second:
        await second.archives.import_archive(as_stream(await whole(knowledge)))
        again = await fail(second, failure_description="Exporting orders dies at night", project_id="second")
        await second.checkpoints.process_all()
        assert (await second.capture.get(again)).pattern_id == split.pattern_id
        (pair,) = await second.grouping.grouping.links(LinkKind.APART, of=kept, now=second.stores.clock.now(), limit=9)
        assert {pattern.pattern_id for pattern in pair.patterns} == {kept, split.pattern_id}
        assert (await second.upkeep.verify()).sound


@pytest.mark.long
async def test_who_told_an_outcome_travels(knowledge: Knowledge, elsewhere: OpensElsewhere) -> None:
    await knowledge.capture.capture(failure())
    await knowledge.checkpoints.process_all()
    task = Task(description="TypeError in the cart total", project_id="second", task_id="T-2")
    assert (await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "backend")).patterns
    agent = Principal(trust=Trust.KEY, scopes=frozenset({Scope.CAPTURE}), workspace="default", key_id="agent1")
    echo = failure(project_id="second", task_id="T-2", failure_description="again")
    await knowledge.for_principal(agent).capture.capture(echo)
    async with elsewhere() as second:
        await second.archives.import_archive(as_stream(await whole(knowledge)))
        (pattern,) = await second.queries.query_for_failure("TypeError in the cart total", min_relevance=0)
        assert pattern.success_count == 2
        assert (await second.revocations.revoke(EntryFilter(key_id="agent1"))).outcomes == 1


@pytest.mark.long
async def test_a_second_database_at_a_qdrant_is_refused_until_it_has_a_prefix(
    settings: KnowledgeSettings, second_url: str, tmp_path: Path
) -> None:
    """A restored dump beside the database it came from: the repair of one deleted the points of the other."""

    async def learned(knowledge: Knowledge) -> None:
        await fail(knowledge)
        await knowledge.checkpoints.process_all()

    with QdrantProcess(tmp_path / "qdrant") as qdrant:
        first = settings.model_copy(update={"qdrant_url": qdrant.url})
        second = first.model_copy(update={"database_url": SecretStr(second_url)})
        async with open_knowledge(first, embedder=HashingEmbedder(dims=64)) as knowledge:
            await learned(knowledge)
            async with open_knowledge(second, embedder=HashingEmbedder(dims=64)) as other:
                with pytest.raises(StoreIncompatible, match="HARDWON_QDRANT_PREFIX"):
                    await learned(other)
            apart = second.model_copy(update={"qdrant_prefix": "staging-"})
            async with open_knowledge(apart, embedder=HashingEmbedder(dims=64)) as other:
                await learned(other)
                assert (await other.stats()).points == 1
                await other.store_upkeep.rebuild()
                await other.upkeep.verify(repair=True)
            assert (await knowledge.stats()).points == 1
            assert (await knowledge.upkeep.verify()).sound


@pytest.mark.long
async def test_the_same_records_in_the_same_order_give_the_same_bytes_after_export_and_import_too(
    settings: KnowledgeSettings, second_url: str, third_url: str, tmp_path: Path
) -> None:
    def open_at(url: str, number: int, clock: SetClock) -> AbstractAsyncContextManager[Knowledge]:
        changed = {"home": tmp_path / str(number), "database_url": SecretStr(url), "holdout": 0.0}
        there = settings.model_copy(update=changed | {"query_deadline_ms": 60_000})
        return open_knowledge(there, clock=clock, embedder=LocalEmbedder())

    async def fill(knowledge: Knowledge, clock: SetClock) -> None:
        lessons = [*draw_lessons(random.Random(3), 30), LESSON, replace(LESSON, solution="Set `LANG=C`.")]
        agent = knowledge.for_principal(replace(AGENT, workspace=knowledge.workspace))
        for number, lesson in enumerate(lessons):
            clock.move(timedelta(seconds=1))
            await (agent if number % 5 == 4 else knowledge).capture.capture(lesson.told(number))
        await knowledge.checkpoints.process_all()
        for number, lesson in enumerate(lessons[-12:]):
            clock.move(timedelta(seconds=1))
            task = Task(description=lesson.situation, project_id="p", task_id=f"t{number}")
            context = await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "backend")
            if context.patterns:
                worked, first = number % 3 > 0, context.patterns[0].pattern_id
                await knowledge.outcomes.record_outcome(context.context_id, first, worked=worked)
            else:
                await knowledge.outcomes.record_unaided(context.context_id, worked=number % 2 == 0)
        await knowledge.checkpoints.process_all()

    async def texts(knowledge: Knowledge) -> list[bytes]:
        lessons = [LESSON, *draw_lessons(random.Random(3), 30)]
        questions = [text for lesson in lessons for text in (lesson.situation, lesson.paraphrase)]
        builder = OrchestratorContextBuilder(knowledge)
        return [
            (await builder.build_context_for_task(Task(description=text), "backend")).text.encode()
            for text in questions
        ]

    assert settings.database_url is not None
    found = []
    for number, url in enumerate((settings.database_url.get_secret_value(), second_url)):
        clock = SetClock()
        async with open_at(url, number, clock) as knowledge:
            await fill(knowledge, clock)
            found.append(await texts(knowledge))
            archive = await whole(knowledge)
    async with open_at(third_url, 2, clock) as knowledge:
        await knowledge.archives.import_archive(as_stream(archive))
        found.append(await texts(knowledge))
    assert found[0] == found[1], "the same records in the same order"
    assert found[1] == found[2], "after export and import"
    assert sum(b"Pattern 1" in text for text in found[0]) > 10
