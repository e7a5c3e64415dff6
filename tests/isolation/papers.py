"""Documents of many workspaces in one store: the same names, bases and ids of scopes in all of them (T7)."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from uuid import uuid4

import sqlalchemy as sa

from hardwon.errors import NotFound
from hardwon.models.answers import Event, EventId
from hardwon.models.documents import DocumentId, NewDocument, PassageId
from knowledge.adapters.postgres.document_tables import kb_chunks, kb_documents
from knowledge.adapters.postgres.engine.database import autocommit
from knowledge.documents.access import Principal, Scope
from knowledge.documents.journal import NewEscalation
from knowledge.documents.models import PassageConditions, PassageWhere
from knowledge.models import SparseVector
from knowledge.wiring.open import Knowledge
from tests.isolation.leaks import CASES, Leak, own
from tests.support.documents import readable, writable
from tests.support.embedders import hashed_bag

BASES = (("global", None), ("user", "ann"), ("case", "7"), ("team", "web"))
ANN = Principal(name="ann")
_LIFETIME = timedelta(hours=1)


class Papers:
    """Operations on documents, and on what was asked of them. Each text bears the mark of its workspace."""

    def __init__(self, of: list[Knowledge], chance: random.Random, another: Callable[[int], int]) -> None:
        self._of = of
        self._chance = chance
        self._another = another
        self._documents: defaultdict[int, dict[str, DocumentId]] = defaultdict(dict)
        self._passages: defaultdict[int, list[PassageId]] = defaultdict(list)
        self.acts = {
            self.write_document: 1.0,
            self.drop_document: 0.3,
            self.find_passages: 3.0,
            self.read_documents: 2.0,
            self.reach_for_documents: 3.0,
            self.search_passages: 2.0,
            self.scan_passages: 0.5,
            self.keep_answers: 1.5,
        }

    async def begin(self, here: int) -> None:
        """Have something to be found."""
        await self.write_document(here, base=0)
        await self.find_passages(here)

    async def write_document(self, here: int, base: int | None = None) -> None:
        """Add or renew a document, and index it."""
        of, (kb, scope_id) = self._of[here], BASES[self._chance.randrange(len(BASES)) if base is None else base]
        case = self._chance.choice(CASES)
        text = f"# {case} mark{here}x\n\nWhen {case}, do as mark{here}x says, way {self._chance.randrange(4)}.\n"
        new = NewDocument(uri=f"{CASES.index(case)}.md", content=text.encode(), tags=(f"mark{here}x",))
        added = await of.documents.library.add(new, await writable(of, kb, scope_id))
        await of.documents.indexing.run()
        own(here, added)
        self._documents[here][f"{kb} {new.uri}"] = added.document.document_id

    async def drop_document(self, here: int) -> None:
        """Delete a document, and what the index has of it."""
        if len(self._documents[here]) > 2:
            named = self._chance.choice(sorted(self._documents[here]))
            document_id = self._documents[here].pop(named)
            kb = named.partition(" ")[0]
            scope = await writable(self._of[here], *next(base for base in BASES if base[0] == kb))
            if await self._of[here].documents.library.delete(scope, [document_id]) != 1:
                raise Leak(f"a document of workspace {here} was gone before it was deleted")
            await self._of[here].documents.indexing.remove_stale()

    async def _scope(self, here: int) -> Scope:
        if self._chance.random() < 0.3:
            return await self._of[here].documents.access.everything(ANN)
        return await readable(self._of[here], *self._chance.choice(BASES))

    async def find_passages(self, here: int) -> None:
        """Search as a question does."""
        case, (kb, scope_id) = self._chance.choice(CASES), self._chance.choice(BASES)
        found = await self._of[here].kb.search(case, kb=kb, scope_id=scope_id, k=10)
        own(here, found)
        self._passages[here] = [*self._passages[here][-5:], *(passage.passage_id for passage in found.passages)]

    async def read_documents(self, here: int) -> None:
        """Read all that a scope holds."""
        scope, quotes = await self._scope(here), self._of[here].documents.quotes
        documents = await quotes.documents(scope)
        own(here, (documents, await quotes.whole(scope)))
        shown, _ = await quotes.counts(scope)
        if shown != len(documents):
            raise Leak(f"workspace {here} counts {shown} documents, and has {len(documents)}")

    async def reach_for_documents(self, here: int) -> None:
        """Ask for and delete what is another's, by its id."""
        there, ours = self._another(here), self._of[here].documents
        if not self._documents[there]:
            return
        named, document_id = self._chance.choice(sorted(self._documents[there].items()))
        kb = named.partition(" ")[0]
        scope = await writable(self._of[here], *next(base for base in BASES if base[0] == kb))
        with suppress(NotFound):
            await ours.library.documents.get(scope.partitions[0], document_id)
            raise Leak(f"workspace {here} was shown document {document_id} of {there}")
        if await ours.library.delete(scope, [document_id]) or await ours.quotes.whole(scope, [document_id]):
            raise Leak(f"workspace {here} reached document {document_id} of {there}")
        if await ours.quotes.passages(self._passages[there][-3:], scope):
            raise Leak(f"workspace {here} was shown passages of {there}")

    async def search_passages(self, here: int) -> None:
        """Ask the index itself: Postgres would leave out what is another's."""
        of = self._of[here]
        room = await of.documents.search.active_space()
        scope = await self._scope(here)
        hits = await of.passages.search(
            room.space,
            hashed_bag(self._chance.choice(CASES), dims=room.space.dims),
            SparseVector(indices=(), values=()),
            PassageWhere(workspace=of.workspace, partitions=scope.partitions, conditions=PassageConditions()),
            limit=20,
        )
        await self._owned(here, [hit.passage_id for hit in hits])

    async def scan_passages(self, here: int) -> None:
        """List what the index holds of a workspace."""
        of = self._of[here]
        room = await of.documents.search.active_space()
        await self._owned(here, await of.passages.scan(room.space, of.workspace, after=None, limit=20))

    async def _owned(self, here: int, ids: list[PassageId]) -> None:
        of = self._of[here]
        owner = sa.select(kb_documents.c.workspace).join(kb_chunks, kb_chunks.c.document_id == kb_documents.c.id)
        foreign = owner.where(kb_chunks.c.id.in_(ids), kb_documents.c.workspace != of.workspace)
        async with autocommit(of.engine) as connection:
            if found := (await connection.execute(foreign)).scalars().all():
                raise Leak(f"the index showed workspace {here} passages of {set(found)}")

    async def keep_answers(self, here: int) -> None:
        """Keep an answer, an event, an escalation under names that all workspaces use, and read what is kept."""
        answering = self._of[here].answering
        key, at = f"key {self._chance.randrange(3)}", answering.clock.now()
        match self._chance.randrange(3):
            case 0:
                found = await answering.cache.get(key)
                own(here, found)
                versions = await self._of[here].documents.quotes.versions(await self._scope(here))
                await answering.cache.put(key, f"mark{here}x", versions, lifetime=_LIFETIME)
            case 1:
                told = Event(event_id=EventId(uuid4()), name=key, happened_at=at, payload={"told": f"mark{here}x"})
                await answering.journal.record(told)
                own(here, await answering.journal.events(name=key, limit=5))
            case _:
                new = NewEscalation(question=key, transcript=[], passage_ids=[], suggested_fix=f"mark{here}x")
                own(here, await answering.journal.escalate(new, at))
                own(here, await answering.journal.escalations(at, limit=5))
