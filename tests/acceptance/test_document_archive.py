"""Documents go along: into an archive and out of it, through a rebuild, through a change of model. Nothing is lost."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from knowledge.adapters.postgres.archive import PostgresArchive
from knowledge.adapters.postgres.database import transaction
from knowledge.adapters.postgres.document_tables import kb_documents, kb_vectors
from knowledge.documents.access import Scope
from knowledge.documents.journal import Event, EventId, NewEscalation
from knowledge.documents.models import Document, DocumentStatus, NewDocument
from knowledge.documents.syncing import NewSource
from knowledge.errors import Conflict, StorageUnavailable
from knowledge.memory.archive import DOCUMENT_PARTS, ArchiveWriter, slices
from knowledge.memory.store_upkeep import ModelChoice
from knowledge.models import LeaseToken
from knowledge.settings import KnowledgeSettings
from knowledge.wiring import Knowledge, open_knowledge
from tests.acceptance.test_archive import as_stream, whole
from tests.acceptance.test_upkeep import learn
from tests.conftest import TEMPLATE, Opens, SetClock
from tests.support.documents import ADMIN, GUIDE, add, find, put, readable, shown_points, writable, write_log
from tests.support.embedders import HashingEmbedder
from tests.support.postgres import create_database, drop_database

ASKED = ("ERR-4521", "raise pool_size and restart the api", "office closed on Fridays")
LOG = write_log(400, random.Random(7))
EDITED = GUIDE.replace(b"raise pool_size to 40", b"raise pool_size to 80")


class OpensElsewhere(Protocol):
    """Opens a second store, empty at first."""

    def __call__(self, embedder: HashingEmbedder | None = None) -> AbstractAsyncContextManager[Knowledge]: ...


@pytest.fixture
async def elsewhere(postgres_dsn: str, tmp_path: Path, clock: SetClock) -> AsyncIterator[OpensElsewhere]:
    dsn = await create_database(postgres_dsn, template=TEMPLATE)
    settings = KnowledgeSettings(home=tmp_path / "second", database_url=SecretStr(dsn))

    def open_second(embedder: HashingEmbedder | None = None) -> AbstractAsyncContextManager[Knowledge]:
        return open_knowledge(settings, clock=clock, embedder=embedder or HashingEmbedder(dims=256))

    yield open_second
    await drop_database(dsn)


async def fill(knowledge: Knowledge) -> None:
    """Have documents of every state in several bases and workspaces, and all that is kept beside them."""
    gone = await add(knowledge, "gone.md", GUIDE, "user", "ann")
    await knowledge.documents.library.delete(await writable(knowledge, "user", "ann"), [gone.document_id])
    await add(knowledge, "guides/timeouts.md", GUIDE)
    await add(knowledge, "server.log", LOG.text.encode(), "case", "42")
    await add(knowledge, "edited.md", GUIDE, "case", "42")
    await add(knowledge, "edited.md", EDITED, "case", "42")
    await add(knowledge.in_workspace("other"), "other.md", GUIDE.replace(b"ERR-4521", b"ERR-9999"))
    await put(knowledge, "half.md", GUIDE)
    await knowledge.documents.indexing.run()
    await put(knowledge, "half.md", EDITED)  # the first version is shown, the next one waits
    await put(knowledge, "broken.bin", b"\x00\x01\x02" * 50)
    await knowledge.kb.grant("case", "42", "ann")
    source = NewSource(url="file:///srv/handbook", subdir="docs", globs=("*.md",))
    await knowledge.documents.syncing.store.add(await source_of(knowledge, source))
    room = await knowledge.documents.indexing.room()
    await knowledge.documents.quotes.keep_scale(room.space, 0.1, 0.7, 12)
    journal, now = knowledge.answering.journal, knowledge.answering.clock.now()
    question = NewEscalation(
        question="Where is the key?", transcript=[{"role": "user", "content": "hm"}], passage_ids=[], suggested_fix="x"
    )
    await journal.escalate(question, now)
    await journal.escalate(question, now + timedelta(hours=1))
    event = Event(event_id=EventId(uuid4()), name="question_answered", happened_at=now, payload={"n": 1, "t": "ü"})
    await journal.record(event)
    await journal.feedback(event.event_id, up=True, comment="thanks", now=now)


async def source_of(knowledge: Knowledge, new: NewSource) -> Any:
    scope = await writable(knowledge, "team", "platform")
    fetching = replace(knowledge.documents.syncing, allowed=("file:///srv/",))
    return await fetching.add(new, scope)


async def seen(knowledge: Knowledge) -> list[Any]:
    """Return all that can be seen of the documents: what is found, listed, counted, granted and told."""
    other = knowledge.in_workspace("other")
    found: list[Any] = []
    for text in ASKED:
        for opened, kb, scope_id in ((knowledge, "global", None), (knowledge, "case", "42"), (other, "global", None)):
            # vectors went through float16, so what is as near as makes no difference may change places further down
            best = (await find(opened, text, kb, scope_id)).passages[0]
            found.append((best.passage_id, best.text, best.section, best.line_start, best.timestamp, best.uri))
    found.extend([await points_of(opened) for opened in (knowledge, other)])
    for kb, scope_id in (("global", None), ("case", "42"), ("user", "ann"), ("team", "platform")):
        scope = await readable(knowledge, kb, scope_id)
        found.append(await knowledge.documents.library.listed(scope))
        found.append(await knowledge.kb.sources(kb, scope_id))
        found.append(await knowledge.documents.quotes.statistics(scope, [*range(0, 2**32, 2**27)]))
    found.append((await knowledge.documents.evidence.facts("How many ERROR entries?", await case(knowledge))).passages)
    found.append(await knowledge.kb.granted("case", "42"))
    journal = knowledge.answering.journal
    found.extend([await journal.escalations(knowledge.answering.clock.now()), await journal.events()])
    found.append([await journal.feedback_of(event.event_id) for event in await journal.events()])
    return found


async def points_of(knowledge: Knowledge) -> list[UUID]:
    """Return what the index in use holds of a workspace: all that Postgres shows, and nothing else."""
    indexing = knowledge.documents.indexing
    space = (await indexing.room()).space
    ids = await knowledge.passages.scan(space, knowledge.workspace, after=None, limit=10_000)
    stored = await indexing.store.points(space, after=None, limit=10_000)
    assert ids == [point.passage_id for point, _ in stored]
    return [*ids]


async def case(knowledge: Knowledge) -> Scope:
    return await readable(knowledge, "case", "42")


@pytest.mark.long
async def test_a_second_store_shows_the_same_documents_with_nothing_embedded_again(
    knowledge: Knowledge, elsewhere: OpensElsewhere
) -> None:
    """G15."""
    await learn(knowledge, 5)
    await fill(knowledge)
    archive = await whole(knowledge)
    embedder = HashingEmbedder(dims=256)
    async with elsewhere(embedder) as second:
        report = await second.archives.import_archive(as_stream(archive))
        assert (report.rows, report.embedded, embedder.texts) == (report.new, 0, 0)
        assert report.rows["documents"] == 6
        assert report.passages == await count(knowledge)
        assert await seen(second) == await seen(knowledge)
        assert await whole(second) == archive
        assert (await second.documents.upkeep.reconcile()).written == 0
        assert (await second.documents.indexing.run()).indexed == 1, "what waited there waits here"
        (passage, *_) = (await find(second, "raise pool_size to 80")).passages
        assert passage.uri == "half.md"


async def count(knowledge: Knowledge) -> int:
    """Return how many passages are shown in all workspaces."""
    workspaces = [knowledge.in_workspace(each) for each in await knowledge.workspaces()]
    return sum([await shown_points(each) for each in workspaces])


@pytest.mark.long
async def test_again_brings_nothing_and_a_later_archive_brings_what_is_later(
    knowledge: Knowledge, elsewhere: OpensElsewhere
) -> None:
    await fill(knowledge)
    first = await whole(knowledge)
    await add(knowledge, "guides/timeouts.md", EDITED)
    await add(knowledge, "new.md", b"# New\n\nTulips are planted in autumn.\n")
    later = await whole(knowledge)
    async with elsewhere() as second:
        await second.archives.import_archive(as_stream(first))
        again = await second.archives.import_archive(as_stream(first))
        assert (set(again.new.values()), again.passages) == ({0}, 0)
        report = await second.archives.import_archive(as_stream(later))
        assert report.new["documents"] == 1
        assert await seen(second) == await seen(knowledge)
        back = await second.archives.import_archive(as_stream(first))
        assert set(back.new.values()) == {0}
        assert await seen(second) == await seen(knowledge), "what is further here stays"
        await second.documents.indexing.remove_stale()
        assert await second.passages.count(
            (await second.documents.indexing.room()).space, "default"
        ) == await shown_points(second)


@pytest.mark.long
async def test_documents_of_its_own_in_the_same_place_are_named_and_nothing_is_written(
    knowledge: Knowledge, elsewhere: OpensElsewhere
) -> None:
    await add(knowledge, "guides/timeouts.md", GUIDE)
    archive = await whole(knowledge)
    async with elsewhere() as second:
        own = await add(second, "guides/timeouts.md", EDITED)
        with pytest.raises(Conflict, match=r"global_kb has a document guides/timeouts.md of its own .* kb delete"):
            await second.archives.import_archive(as_stream(archive))
        await second.kb.delete("global", None, [own.document_id])
        await second.archives.import_archive(as_stream(archive))
        await add(knowledge, "guides/timeouts.md", EDITED)
        await add(second, "guides/timeouts.md", EDITED.replace(b"80", b"90"))
        with pytest.raises(Conflict, match="changed both here and where the archive was written"):
            await second.archives.import_archive(as_stream(await whole(knowledge)))
        assert "90" in (await find(second, "raise pool_size")).passages[0].text


class _Killed(StorageUnavailable):
    """The process ended here."""


async def cut_off(second: Knowledge, archive: bytes, after: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Import an archive, and end after so many calls of the store; return whether that was before its end."""
    calls = 0
    with monkeypatch.context() as ending:
        for name in ("write", "show"):
            real = getattr(PostgresArchive, name)

            async def counted(self: PostgresArchive, *args: Any, _real: Any = real, **named: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls > after:
                    raise _Killed("killed")
                return await _real(self, *args, **named)

            ending.setattr(PostgresArchive, name, counted)
        try:
            await second.archives.import_archive(as_stream(archive))
        except _Killed:
            return True
        return False


@pytest.mark.long
async def test_an_import_that_is_killed_anywhere_shows_no_half_document_and_is_run_again(
    knowledge: Knowledge, elsewhere: OpensElsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G2, G15."""
    await fill(knowledge)
    archive, wanted = await whole(knowledge), await seen(knowledge)
    async with elsewhere() as second:
        after = 0
        while await cut_off(second, archive, after, monkeypatch):
            after += 1
            for text in ASKED:
                for passage in (await find(second, text, "case", "42")).passages:
                    assert passage.text in (EDITED.decode() if passage.uri == "edited.md" else LOG.text)
            assert (await second.documents.indexing.run()).indexed == 0, "nobody else takes what is being imported"
        assert after > 10
        assert await seen(second) == wanted
        assert await whole(second) == archive


@pytest.mark.long
async def test_an_import_that_is_never_run_again_leaves_documents_that_index_themselves(
    knowledge: Knowledge, elsewhere: OpensElsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add(knowledge, "guides/timeouts.md", GUIDE)
    await add(knowledge, "server.log", LOG.text.encode())
    archive = await whole(knowledge)
    calls = len([part for part, _ in slices(io.BytesIO(archive)) if part != "passage_vectors"])
    async with elsewhere() as second:
        assert await cut_off(second, archive, calls - 1, monkeypatch)
        async with transaction(second.engine) as connection:
            over = sa.update(kb_documents).values(lease_until=sa.func.now() - timedelta(seconds=1))
            await connection.execute(over)
        assert (await second.documents.indexing.run()).indexed == 2
        assert await points_of(second) == await points_of(knowledge)
        again = await second.archives.import_archive(as_stream(archive))
        assert again.new["passages"] == again.new["log_lines"] == 0
        assert await points_of(second) == await points_of(knowledge)
        assert (await find(second, "ERR-4521")).passages[0] == (await find(knowledge, "ERR-4521")).passages[0]


async def test_an_archive_of_before_documents_is_read(knowledge: Knowledge, elsewhere: OpensElsewhere) -> None:
    await learn(knowledge, 5)
    head, *lines, last = [json.loads(line) for line in gzip.decompress(await whole(knowledge)).splitlines()]
    manifest = last["manifest"] | {"version": 4}
    manifest["parts"] = {name: told for name, told in manifest["parts"].items() if name not in DOCUMENT_PARTS}
    old = [head | {"version": 4}, *lines, {"manifest": manifest}]
    packed = gzip.compress("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in old).encode())
    async with elsewhere() as second:
        report = await second.archives.import_archive(as_stream(packed))
        assert (report.new["entries"], report.new["documents"]) == (5, 0)


async def test_documents_of_a_case_that_is_over_here_do_not_come_back(
    knowledge: Knowledge, elsewhere: OpensElsewhere
) -> None:
    await add(knowledge, "server.log", LOG.text.encode(), "case", "42")
    archive = await whole(knowledge)
    async with elsewhere() as second:
        await second.archives.import_archive(as_stream(archive))
        await second.kb.close_case("42")
        await second.documents.indexing.run()
        await second.archives.import_archive(as_stream(archive))
        assert await second.documents.library.listed(await case(second)) == []


async def test_a_store_whose_documents_another_model_embedded_is_not_touched(
    knowledge: Knowledge, elsewhere: OpensElsewhere
) -> None:
    """G22."""
    await add(knowledge, "guides/timeouts.md", GUIDE)
    archive = await whole(knowledge)
    async with elsewhere(HashingEmbedder(dims=64, model="another")) as second:
        await add(second, "own.md", GUIDE)
    async with elsewhere() as second:
        with pytest.raises(Conflict, match="store was embedded with another"):
            await second.archives.import_archive(as_stream(archive))


async def test_a_long_text_has_room_in_a_line(knowledge: Knowledge, elsewhere: OpensElsewhere) -> None:
    """A row of an archive may be as long as a document: here 4 MB of letters that JSON writes in six characters."""
    text = "\n\n".join("ж" * 59 for _ in range(34_000))
    document = await put(knowledge, "long.txt", text.encode())
    async with elsewhere() as second:
        await second.archives.import_archive(as_stream(await whole(knowledge)))
        version = await second.documents.indexing.store.claim(limit=1, lease=timedelta(seconds=9))
        assert (version[0].document_id, version[0].parsed.text) == (document.document_id, text)


@pytest.mark.long
async def test_a_rebuild_brings_documents_of_all_workspaces_back_and_keeps_no_answer_of_meanwhile(
    opens: Opens, embedder: HashingEmbedder
) -> None:
    """G15, X-07."""
    async with opens(embedder=embedder) as knowledge:
        await fill(knowledge)
        await learn(knowledge, 3)
        wanted = await seen(knowledge)
        versions = await knowledge.documents.quotes.versions(await readable(knowledge))
        cost = await knowledge.store_upkeep.rebuild(dry_run=True)
        texts = embedder.texts
        report = await knowledge.store_upkeep.rebuild()
        assert replace(cost, dry_run=False) == report
        assert (report.passages, report.embedded, embedder.texts) == (await count(knowledge), 0, texts)
        renewed = await knowledge.documents.quotes.versions(await readable(knowledge))
        assert renewed[0].version > versions[0].version
        assert await seen(knowledge) == wanted
        assert (await knowledge.upkeep.verify()).sound


@pytest.mark.long
async def test_a_rebuild_embeds_again_what_has_no_vector_any_more(opens: Opens, embedder: HashingEmbedder) -> None:
    async with opens(embedder=embedder) as knowledge:
        await fill(knowledge)
        wanted = await seen(knowledge)
        async with transaction(knowledge.engine) as connection:
            lost = (await connection.execute(sa.delete(kb_vectors))).rowcount
        texts = embedder.texts
        report = await knowledge.store_upkeep.rebuild()
        assert 0 < report.embedded == embedder.texts - texts <= lost
        assert await seen(knowledge) == wanted


@pytest.mark.long
async def test_a_change_of_model_takes_documents_along_before_it_switches(
    opens: Opens, embedder: HashingEmbedder
) -> None:
    """G22, X-07."""
    async with opens(embedder=embedder) as knowledge:
        await fill(knowledge)
        await learn(knowledge, 3)
        wanted, before = await seen(knowledge), await knowledge.documents.indexing.room()
        other = HashingEmbedder(dims=128, model="another")
        report = await knowledge.store_upkeep.reembed(other, force=True)
        assert report.switched
        assert report.embedded == other.texts
        asked = other.texts
        assert {passage.uri for passage in (await find(knowledge, "ERR-4521")).passages} == {
            "guides/timeouts.md",
            "half.md",
        }
        put_right = await knowledge.documents.upkeep.reconcile()
        assert (put_right.requeued, put_right.written) == (0, 0), "nothing was left to the jobs"
        assert other.texts == asked + 1, "only the question"

        texts = embedder.texts
        await knowledge.store_upkeep.reembed(embedder, force=True)
        assert embedder.texts == texts, "the way back costs nothing"
        assert await seen(knowledge) == wanted
        assert (await knowledge.documents.indexing.room()).space == before.space
        back = replace(knowledge.store_upkeep, make=lambda _: embedder)
        assert (await back.reembed_to(ModelChoice(model=before.space.model), forget_old=True)).forgotten == 1
        async with transaction(knowledge.engine) as connection:
            spaces = (await connection.execute(sa.select(kb_vectors.c.space).distinct())).scalars()
            assert list(spaces) == [before.space.fingerprint]


async def test_passages_too_long_for_the_new_model_are_found_at_once_and_cut_anew(
    opens: Opens, embedder: HashingEmbedder
) -> None:
    text = "".join(f"Sentence number {n} tells that the pool of database {n} is exhausted. " for n in range(400))
    async with opens(embedder=embedder) as knowledge:
        await add(knowledge, "long.txt", text.encode())
        before = await count(knowledge)
        await knowledge.store_upkeep.reembed(HashingEmbedder(dims=128, model="short", max_tokens=128), force=True)
        assert (await find(knowledge, "Sentence number 7")).passages
        assert (await knowledge.documents.upkeep.reconcile()).requeued == 1
        assert (await knowledge.documents.indexing.run()).indexed == 1
        assert await count(knowledge) > before
        assert (await find(knowledge, "Sentence number 7")).passages


async def test_a_document_that_is_embedded_while_the_model_changes_is_indexed_again(
    opens: Opens, embedder: HashingEmbedder
) -> None:
    """G22: no document is shown by points of a space that nobody asks any more."""
    async with opens(embedder=embedder) as knowledge:
        await add(knowledge, "first.md", GUIDE)
        await put(knowledge, "second.md", b"# Tulips\n\nTulips are planted in autumn.\n")
        other = HashingEmbedder(dims=128, model="another")
        indexing = knowledge.documents.indexing
        real = indexing.index.upsert

        class Slow:
            """The index, while whose write the model changes."""

            def __getattr__(self, name: str) -> Any:
                return getattr(indexing.index, name)

            async def upsert(self, space: Any, points: Sequence[Any]) -> None:
                await real(space, points)
                await knowledge.store_upkeep.reembed(other, force=True)

        slow: Any = Slow()
        report = await replace(indexing, index=slow).run()
        assert (report.indexed, report.postponed) == (0, 1)
        async with transaction(knowledge.engine) as connection:
            await connection.execute(sa.update(kb_documents).values(not_before=None))
        assert (await indexing.run()).indexed == 1
        assert (await find(knowledge, "Tulips")).passages[0].uri == "second.md"


async def test_rows_of_documents_that_can_be_none_are_refused(elsewhere: OpensElsewhere) -> None:
    partition = {"workspace": "default", "partition": "global_kb", "closed_at": None}
    rows: list[tuple[str, Any]] = [
        ("partitions", partition | {"version": 1}),
        ("partitions", {**partition, "partition": 7}),
        ("documents", {"id": "none"}),
        ("passages", {"id": str(uuid4())}),
        ("escalations", {"asked_at": ["yesterday"]}),
    ]
    async with elsewhere() as second:
        for part, row in rows:
            writer = ArchiveWriter()
            archive = writer.head() + writer.rows(part, [row]) + writer.end()
            with pytest.raises(Exception, match=f"holds {part}"):
                await second.archives.import_archive(as_stream(archive))


async def test_only_the_import_that_holds_a_document_writes_it(knowledge: Knowledge, elsewhere: OpensElsewhere) -> None:
    await add(knowledge, "guides/timeouts.md", GUIDE)
    told = dict(slices(io.BytesIO(await whole(knowledge))))
    ours, theirs = LeaseToken(uuid4()), LeaseToken(uuid4())
    async with elsewhere() as second:
        archive = PostgresArchive(second.engine)
        for part in ("partitions", "documents"):
            assert await archive.write(part, told[part], token=ours) == 1
        with pytest.raises(Conflict, match="or imported from another archive: import again in a minute"):
            await archive.write("documents", told["documents"], token=theirs)
        assert await archive.write("document_versions", told["document_versions"], token=theirs) == 0
        await archive.show(told["documents"], token=theirs)
        document: Document = (await second.documents.library.listed(await readable(second)))[0]
        assert document.status is DocumentStatus.PENDING
        assert await archive.write("document_versions", told["document_versions"], token=ours) == 1
        await archive.hold(ours)
        scope = await second.documents.access.scope(ADMIN, "global")
        assert await second.documents.quotes.counts(scope) == (0, 1)
        again = NewDocument(uri="guides/timeouts.md", content=EDITED)
        await second.documents.library.add(again, await writable(second))
        await archive.show(told["documents"], token=ours)
        assert await second.documents.quotes.counts(scope) == (0, 1), "what came meanwhile goes first"


async def test_a_document_that_is_deleted_here_and_not_gone_yet_is_told_and_comes_back_a_minute_later(
    knowledge: Knowledge, elsewhere: OpensElsewhere
) -> None:
    await add(knowledge, "guide.md", GUIDE)
    archive = await whole(knowledge)
    async with elsewhere() as second:
        await second.archives.import_archive(as_stream(archive))
        (document,) = await second.documents.library.listed(await readable(second))
        await second.documents.library.delete(await writable(second), [document.document_id])
        with pytest.raises(Conflict, match=r"guide.md of global_kb was deleted here .* again in a minute"):
            await second.archives.import_archive(as_stream(archive))
        await second.documents.indexing.run()
        await second.archives.import_archive(as_stream(archive))
        assert (await find(second, "raise pool_size")).passages


async def test_a_document_that_is_indexed_here_and_further_in_the_archive_is_told(
    knowledge: Knowledge, elsewhere: OpensElsewhere
) -> None:
    await put(knowledge, "guide.md", GUIDE)
    first = await whole(knowledge)
    await add(knowledge, "guide.md", EDITED)
    later = await whole(knowledge)
    async with elsewhere() as second:
        await second.archives.import_archive(as_stream(first))
        (job,) = await second.documents.indexing.store.claim(limit=1, lease=timedelta(seconds=60))
        again = await second.archives.import_archive(as_stream(first))
        assert set(again.new.values()) == {0}, "no further than it is here"
        with pytest.raises(Conflict, match=r"guide.md of global_kb is further in the archive, and being indexed here"):
            await second.archives.import_archive(as_stream(later))
        await second.documents.indexing.store.fail(job, "it took too long", retry_after=timedelta(0))
        await second.archives.import_archive(as_stream(later))
        assert "80" in (await find(second, "raise pool_size")).passages[0].text


@pytest.mark.long
@pytest.mark.parametrize(("there", "here"), [(1, 1), (2, 1), (1, 2)])
async def test_a_document_that_was_changed_on_both_sides_is_refused_however_often(
    knowledge: Knowledge, elsewhere: OpensElsewhere, there: int, here: int
) -> None:
    await add(knowledge, "guide.md", GUIDE)
    first = await whole(knowledge)
    for number in range(there):
        await add(knowledge, "guide.md", EDITED + b"%d" % number)
    later = await whole(knowledge)
    async with elsewhere() as second:
        await second.archives.import_archive(as_stream(first))
        for number in range(here):
            await add(second, "guide.md", GUIDE + b"Call Zoe at night, at %d.\n" % number)
        with pytest.raises(Conflict, match=r"guide.md of global_kb was changed both here and where"):
            await second.archives.import_archive(as_stream(later))
        assert "Zoe" in (await find(second, "call Zoe at night")).passages[0].text


@pytest.mark.long
async def test_a_document_that_was_changed_many_times_on_one_side_goes_there_and_back(
    knowledge: Knowledge, elsewhere: OpensElsewhere
) -> None:
    await add(knowledge, "guide.md", GUIDE)
    async with elsewhere() as second:
        await second.archives.import_archive(as_stream(await whole(knowledge)))
        for number in range(3):
            await add(second, "guide.md", EDITED + b"%d" % number)
        await knowledge.archives.import_archive(as_stream(await whole(second)))
        await add(knowledge, "guide.md", GUIDE)
        await second.archives.import_archive(as_stream(await whole(knowledge)))
        assert "40" in (await find(second, "raise pool_size")).passages[0].text
        assert await hashes(second) == await hashes(knowledge)
        assert len(await hashes(second)) == 5


async def test_an_archive_of_before_hashes_of_texts_is_read_and_tells_what_it_can(
    knowledge: Knowledge, elsewhere: OpensElsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add(knowledge, "guide.md", GUIDE)
    first = await of_version_5(knowledge, monkeypatch)
    await add(knowledge, "guide.md", EDITED)
    later = await of_version_5(knowledge, monkeypatch)
    async with elsewhere() as second:
        await second.archives.import_archive(as_stream(first))
        await second.archives.import_archive(as_stream(later))
        assert "80" in (await find(second, "raise pool_size")).passages[0].text
        assert await hashes(second) == await hashes(knowledge)
        await add(second, "guide.md", GUIDE)
        await knowledge.documents.library.add(
            NewDocument(uri="guide.md", content=GUIDE + b"x"), await writable(knowledge)
        )
        with pytest.raises(Conflict, match="was changed both here"):
            await second.archives.import_archive(as_stream(await of_version_5(knowledge, monkeypatch)))


async def hashes(knowledge: Knowledge) -> dict[str, str]:
    """Return what an archive tells of the texts that the one document had."""
    (document,) = dict(slices(io.BytesIO(await whole(knowledge))))["documents"]
    told: dict[str, str] = document["text_hashes"]
    return told


async def of_version_5(knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch) -> bytes:
    told = list(slices(io.BytesIO(await whole(knowledge))))
    with monkeypatch.context() as before:
        before.setattr("knowledge.memory.archive.VERSION", 5)
        writer = ArchiveWriter()
        pieces = [writer.head()]
        for part, rows in told:
            known = [{name: value for name, value in row.items() if name != "text_hashes"} for row in rows]
            pieces.append(writer.rows(part, known))
        return b"".join([*pieces, writer.end()])


@pytest.mark.long
async def test_what_a_killed_import_left_without_its_text_holds_up_nobody(
    knowledge: Knowledge, elsewhere: OpensElsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken to be indexed time and again, before what came later, and whoever waited did so for its lease."""
    for number in range(4):
        await add(knowledge, f"guide-{number}.md", GUIDE.replace(b"ERR-4521", f"ERR-{number}".encode()))
    archive = await whole(knowledge)
    async with elsewhere() as second:
        write = PostgresArchive.write

        async def killed(self: PostgresArchive, part: str, rows: Any, *, token: LeaseToken) -> Any:
            if part == "document_versions":
                raise StorageUnavailable("killed here")
            return await write(self, part, rows, token=token)

        monkeypatch.setattr(PostgresArchive, "write", killed)
        with pytest.raises(StorageUnavailable):
            await second.archives.import_archive(as_stream(archive))
        monkeypatch.undo()
        await put(second, "new.md", GUIDE)
        async with asyncio.timeout(20):
            assert (await second.kb.index()).indexed == 1, "while the import's lease goes on"
        past = sa.func.now() - timedelta(minutes=1)
        async with transaction(second.engine) as connection:
            await connection.execute(
                sa.update(kb_documents).where(kb_documents.c.lease_until.is_not(None)).values(lease_until=past)
            )
        assert (await second.kb.index()).indexed == 0
        states = {each.uri: each.status for each in await second.kb.listed("global", None)}
        assert states.pop("new.md") is DocumentStatus.INDEXED
        assert set(states.values()) == {DocumentStatus.PENDING}
        await second.archives.import_archive(as_stream(archive))
        states = {each.uri: each.status for each in await second.kb.listed("global", None)}
        assert set(states.values()) == {DocumentStatus.INDEXED}
