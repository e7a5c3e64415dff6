"""Documents go along: into an archive and out of it, through a rebuild, through a change of model. Nothing is lost."""

from __future__ import annotations

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

from hardwon.errors import Conflict
from hardwon.models.answers import Event, EventId
from hardwon.models.documents import NewSource
from hardwon.models.maintenance import ModelChoice
from knowledge.adapters.postgres.document_tables import kb_documents, kb_vectors
from knowledge.adapters.postgres.engine.database import transaction
from knowledge.documents.access import Scope
from knowledge.documents.journal import NewEscalation
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from tests.acceptance.memory.test_upkeep import learn
from tests.conftest import TEMPLATE, Opens, SetClock
from tests.support.archives import as_stream, whole
from tests.support.documents import GUIDE, add, find, put, readable, shown_points, writable, write_log
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
    room = await knowledge.documents.indexing.active_space()
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
        found.append(await knowledge.documents.library.list_documents(scope))
        found.append(await knowledge.kb.sources(kb, scope_id))
        found.append(await knowledge.documents.quotes.statistics(scope, [*range(0, 2**32, 2**27)]))
    found.append((await knowledge.documents.evidence.facts("How many ERROR entries?", await case(knowledge))).passages)
    found.append(await knowledge.kb.grantees("case", "42"))
    journal = knowledge.answering.journal
    found.extend([await journal.escalations(knowledge.answering.clock.now()), await journal.events()])
    found.append([await journal.feedback_of(event.event_id) for event in await journal.events()])
    return found


async def points_of(knowledge: Knowledge) -> list[UUID]:
    """Return what the index in use holds of a workspace: all that Postgres shows, and nothing else."""
    indexing = knowledge.documents.indexing
    space = (await indexing.active_space()).space
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
        assert report.rows["kb_documents"] == 6
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
async def test_again_brings_nothing_and_a_later_archive_is_refused(
    knowledge: Knowledge, elsewhere: OpensElsewhere
) -> None:
    await fill(knowledge)
    first = await whole(knowledge)
    await add(knowledge, "guides/timeouts.md", EDITED)
    later = await whole(knowledge)
    async with elsewhere() as second:
        await second.archives.import_archive(as_stream(first))
        shown = await seen(second)
        again = await second.archives.import_archive(as_stream(first))
        assert (set(again.new.values()), again.passages) == ({0}, 0)
        with pytest.raises(Conflict, match=r"holds kb_documents of its own, .* import into an empty store"):
            await second.archives.import_archive(as_stream(later))
        assert await seen(second) == shown


@pytest.mark.long
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


@pytest.mark.long
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
        wanted, before = await seen(knowledge), await knowledge.documents.indexing.active_space()
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
        assert (await knowledge.documents.indexing.active_space()).space == before.space
        back = replace(knowledge.store_upkeep, make=lambda _: embedder)
        assert (await back.reembed_to(ModelChoice(model=before.space.model), forget_old=True)).forgotten == 1
        async with transaction(knowledge.engine) as connection:
            spaces = (await connection.execute(sa.select(kb_vectors.c.space).distinct())).scalars()
            assert list(spaces) == [before.space.fingerprint]


@pytest.mark.long
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


@pytest.mark.long
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
