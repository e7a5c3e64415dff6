"""Documents under faults: `python -m tests.faults.documents scopes|failures|kills [NUMBER]`.

scopes: random questions of random principals; failures: random changes while the index fails; kills: a worker killed at
every named place of an update. Each ends with the number of passages that should not have been shown: it must be 0.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import cast

from pydantic import SecretStr

from hardwon.errors import HardwonError, IndexUnavailable, NoAccess
from hardwon.models.documents import DocumentId, Finding, NewDocument
from knowledge.documents.access import AccessPolicy, Permission, Principal, Scope
from knowledge.documents.ingestion.service import DocumentLibrary
from knowledge.documents.ports import DocumentStore, IndexingStore, PassageIndex
from knowledge.documents.service import Documents
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from tests.support.documents import ADMIN
from tests.support.embedders import HashingEmbedder
from tests.support.faults import Trips, Wired, WiredEmbedder
from tests.support.postgres import create_database, throwaway_postgres
from tests.support.processes import STARTER

PLACES = tuple(
    f"{place}:{phase}:1"
    for place in (
        "documents.put",
        "indexing.claim",
        "indexing.vectors",
        "embedder.embed",
        "indexing.keep_vectors",
        "indexing.write",
        "index.upsert",
        "indexing.activate",
        "indexing.stale",
        "index.delete",
        "indexing.forget",
        "indexing.forget_empty",
    )
    for phase in ("before", "after")
)
"""Where a worker is killed that updates a document: all steps from the new content to the last trace of the old."""

_LEASE = timedelta(seconds=0.5)


@asynccontextmanager
async def opened(settings: KnowledgeSettings) -> AsyncIterator[Knowledge]:
    async with open_knowledge(settings, embedder=HashingEmbedder(dims=128)) as knowledge:
        yield knowledge


# scopes


async def ask_across_scopes(knowledge: Knowledge, questions: int, rng: random.Random) -> tuple[int, int]:
    """Ask random questions as random principals; return how many passages were shown, and how many of them foreign."""
    users = [f"user{n}" for n in range(6)]
    owners: dict[str, str] = {}
    allowed: dict[str, set[str]] = {user: {"global_kb", f"user_{user}_kb"} for user in users}
    places = (
        [("user", user) for user in users] + [("case", str(n)) for n in range(8)] + [("team", str(n)) for n in range(4)]
    )
    for base, id_ in [*places, ("global", None)]:
        scope = await knowledge.documents.access.scope(ADMIN, base, id_, permission=Permission.WRITE)
        word = f"marker{len(owners)}"
        owners[word] = scope.partitions[0]
        text = f"# Notes\n\nThe shared word pool stands here with {word}.\n"
        for number in range(3):
            new = NewDocument(uri=f"{number}.md", content=f"{text}\nPart {number}.\n".encode())
            await knowledge.documents.library.add(new, scope)
        if base in {"case", "team"} and id_:
            for user in rng.sample(users, 2):
                await knowledge.documents.library.grant(ADMIN, base, id_, user)
                allowed[user].add(scope.partitions[0])
    await knowledge.documents.indexing.run()
    shown = foreign = 0
    for _ in range(questions):
        user = rng.choice(users)
        bases = knowledge.documents.for_principal(Principal(name=user))
        anywhere: list[tuple[str | None, str | None]] = [*places, ("global", None), (None, None)]
        kb, scope_id = rng.choice(anywhere)
        question = f"the pool with {rng.choice(list(owners))}"
        partition = None if kb is None else knowledge.documents.access.base(kb).partition(scope_id)
        try:
            found = await bases.search(question, kb=kb, scope_id=scope_id, k=rng.choice([1, 5, 20]))
        except NoAccess:
            foreign += partition in allowed[user]  # refused what is allowed: as wrong
            continue
        may = allowed[user] if partition is None else {partition} & allowed[user]
        shown += len(found.passages)
        foreign += sum(passage.partition not in may for passage in found.passages)
    return shown, foreign


# failures


async def change_while_the_index_fails(knowledge: Knowledge, changes: int, rng: random.Random) -> tuple[int, int]:
    """Add, update, delete and revoke at random; return how often the index failed, and how many passages were stale."""
    share, failed = 0.5, 0

    async def fail(place: str) -> None:
        nonlocal failed
        if place.startswith(("index.upsert", "index.delete")) and rng.random() < share:
            failed += 1
            raise IndexUnavailable("the index is away for a test")

    failing = cast(PassageIndex, Wired(knowledge.passages, "index", fail))
    documents = replace(
        knowledge.documents,
        indexing=replace(knowledge.documents.indexing, index=failing),
        search=replace(knowledge.documents.search, index=failing),
    )
    ann = documents.for_principal(Principal(name="ann"))
    scope = await documents.access.scope(ADMIN, "case", "1", permission=Permission.WRITE)
    shown: dict[str, tuple[DocumentId, set[str]]] = {}
    granted, stale = False, 0
    for number in range(changes):
        uri = f"{rng.randrange(6)}.md"
        match rng.choice(["put", "put", "delete", "grant"]):
            case "put":
                word = f"word{number}"
                content = f"# Pool\n\nThe pool is told of as {word} here.\n".encode()
                added = await documents.library.add(NewDocument(uri=uri, content=content), scope)
                before = shown.get(uri, (added.document.document_id, set()))[1]
                shown[uri] = (added.document.document_id, before | {word})  # until it is indexed, the one before
                await _indexed(documents)
                document = await documents.library.documents.get_by_uri(scope.partitions[0], uri)
                if not document.waiting:
                    shown[uri] = (document.document_id, {word})
            case "delete" if uri in shown:
                await documents.library.delete(scope, [shown.pop(uri)[0]])
                await _indexed(documents)
            case _:
                granted = not granted
                change = documents.library.grant if granted else documents.library.revoke
                await change(ADMIN, "case", "1", "ann")
        found = Finding()
        try:
            found = await ann.search("the pool is told of here", kb="case", scope_id="1", k=50)
        except NoAccess:
            stale += granted
        else:
            stale += 0 if granted else len(found.passages)
        current = set().union(*(words for _, words in shown.values())) if shown else set()
        stale += sum(not (set(passage.text.rstrip(".\n").split()) & current) for passage in found.passages)
    share = 0.0
    for _ in range(10):
        await _indexed(documents)
    return failed, stale


async def _indexed(documents: Documents) -> None:
    try:
        await documents.indexing.run()
    except HardwonError:
        return


# kills

OLD = b"# Pool\n\nOLDWORD begins it.\n\n## Second\n\nOLDWORD goes on.\n\n## Third\n\nOLDWORD ends it.\n"
NEW = b"# Pool\n\nNEWWORD begins it.\n\n## Second\n\nNEWWORD goes on.\n\n## Third\n\nNEWWORD ends it.\n"


def new_text(place: str) -> bytes:
    """Return the newer version, with a word of its own in each section: what was embedded before needs no embedding."""
    return NEW.replace(b"NEWWORD", f"NEWWORD {place.replace(':', ' ').replace('.', ' ')}".encode())


NAMES = ("pool.md", "pond.md")
"""Two documents, which are indexed together."""


async def _add_both(library: DocumentLibrary, scope: Scope, content: bytes) -> None:
    for name in NAMES:
        await library.add(NewDocument(uri=name, content=content), scope)


async def update_until_killed(settings: KnowledgeSettings, place: str) -> None:
    """Update both documents; this process is killed at a place."""

    async def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    async def at_once() -> None:
        return

    trips = Trips({place: die})
    async with open_knowledge(settings, embedder=WiredEmbedder(trips, at_once)) as knowledge:
        documents = knowledge.documents
        library = replace(
            documents.library, documents=cast(DocumentStore, Wired(documents.library.documents, "documents", trips))
        )
        indexing = replace(
            documents.indexing,
            store=cast(IndexingStore, Wired(documents.indexing.store, "indexing", trips)),
            index=cast(PassageIndex, Wired(documents.indexing.index, "index", trips)),
            lease=_LEASE,
        )
        scope = await documents.access.scope(ADMIN, "global", permission=Permission.WRITE)
        await _add_both(library, scope, new_text(place))
        await indexing.run()
        await indexing.remove_stale()


async def what_is_shown(knowledge: Knowledge, place: str) -> tuple[set[str], bool]:
    """Return which of the words are shown by search and as a whole, and whether that is one version of both, whole."""
    policy: AccessPolicy = knowledge.documents.access
    scope = await policy.scope(ADMIN, "global")
    found = await knowledge.kb.search("OLDWORD NEWWORD pool begins goes on ends", kb="global", k=50)
    words = {word for passage in found.passages for word in ("OLDWORD", "NEWWORD") if word in passage.text}
    whole = [each.text for each in await knowledge.documents.quotes.whole(scope)]
    versions = [[text.decode()] * len(NAMES) for text in (OLD, new_text(place))]
    one = whole in versions and len(found.passages) == 3 * len(NAMES) and len(words) == 1
    return words, one and words.pop() in whole[0]


async def kill_at(settings: KnowledgeSettings, place: str) -> list[str]:
    """Kill an update at a place, look, let another worker finish, look again; return what was wrong."""
    wrong = []
    async with open_knowledge(settings, embedder=HashingEmbedder(dims=64)) as knowledge:
        scope = await knowledge.documents.access.scope(ADMIN, "global", permission=Permission.WRITE)
        await knowledge.documents.library.documents.forget_partition("global_kb")
        await knowledge.documents.upkeep.purge()
        await _add_both(knowledge.documents.library, scope, OLD)
        await knowledge.documents.indexing.run()
    child = await asyncio.to_thread(
        STARTER.run,
        ["-m", "tests.faults.documents", "child", place],
        {**os.environ, **_told(settings)},
        b"",
        seconds=120,
    )
    if child.returncode != -signal.SIGKILL:
        wrong.append(f"{place}: never came there, ended with {child.returncode}: {child.stderr[-300:]}")
    async with open_knowledge(settings, embedder=HashingEmbedder(dims=64)) as knowledge:
        words, one = await what_is_shown(knowledge, place)
        if not one:
            wrong.append(f"{place}: a mixture is shown: {words}")
        await asyncio.sleep(_LEASE.total_seconds() + 0.1)
        scope = await knowledge.documents.access.scope(ADMIN, "global", permission=Permission.WRITE)
        await _add_both(knowledge.documents.library, scope, new_text(place))
        await knowledge.documents.indexing.run()
        await knowledge.documents.upkeep.reconcile()
        words, one = await what_is_shown(knowledge, place)
        if not one or "OLDWORD" in str(await knowledge.kb.search("OLDWORD", kb="global", k=50)).replace(
            "'OLDWORD'", ""
        ):
            wrong.append(f"{place}: the new version is not shown whole after another worker: {words}")
        room = await knowledge.documents.indexing.active_space()
        points = await knowledge.passages.count(room.space, "default")
        if points != 3 * len(NAMES):
            wrong.append(f"{place}: the index holds {points} points")
    return wrong


def _told(settings: KnowledgeSettings) -> dict[str, str]:
    url = settings.database_url
    return {
        "HARDWON_HOME": str(settings.home),
        "HARDWON_DATABASE_URL": url.get_secret_value() if url else "",
        "HARDWON_EMBEDDING_MODEL": "all-MiniLM-L6-v2",
    }


async def _command(what: str, number: int, seed: int) -> int:
    rng = random.Random(seed)
    with throwaway_postgres() as server, tempfile.TemporaryDirectory(prefix="hardwon-home-") as home:
        url = await create_database(server.dsn, name="documents")
        settings = KnowledgeSettings(home=Path(home), database_url=SecretStr(url))
        if what == "kills":
            wrong = [told for place in PLACES for told in await kill_at(settings, place)]
            print(f"killed at {len(PLACES)} places, wrong: {len(wrong)}", *wrong, sep="\n")  # noqa: T201
            return len(wrong)
        async with opened(settings) as knowledge:
            work = ask_across_scopes if what == "scopes" else change_while_the_index_fails
            passed, wrong_ones = await work(knowledge, number, rng)
        told = "passages shown" if what == "scopes" else "failures of the index"
        print(f"{number} times, {passed} {told}, foreign or stale: {wrong_ones}")  # noqa: T201
        return wrong_ones


if __name__ == "__main__":
    if sys.argv[1] == "child":
        asyncio.run(update_until_killed(KnowledgeSettings(), sys.argv[2]))
    else:
        sys.exit(asyncio.run(_command(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10_000, 7)) > 0)
