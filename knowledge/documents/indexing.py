"""Documents into the index: claimed under a lease, cut, embedded, written beside what is shown, then shown at once.

Rows and points of a generation are written first; one transaction then shows it instead of the one before; what nothing
shows any more goes from the index, and after that from Postgres. A kill anywhere leaves the old or the new document.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Protocol

import numpy as np

from knowledge.documents.chunking import CHUNK_TOKENS, cut
from knowledge.documents.log_lines import read_lines
from knowledge.documents.models import Chunk, DocumentId, DocumentType, LogLine, PassageKind, PassagePoint
from knowledge.documents.ports import Indexed, IndexingStore, Job, PassageIndex
from knowledge.documents.texts import MEAN_TERMS, embedded_text, passage_id, text_hash
from knowledge.errors import (
    EmbedderRejected,
    EmbedderUnavailable,
    HardwonError,
    LocalOnly,
    StorageRejected,
    TextRejected,
    Unavailable,
    reason_of,
)
from knowledge.logs import get_logger
from knowledge.models import EmbeddingSpace, Vector
from knowledge.ports import Clock, Embedder, Progress
from knowledge.search.lexical import document_vector, term_counts
from knowledge.turns import yield_to_loop

log = get_logger(__name__)

TRIES: Final = 5
"""How often a document is begun whose process ends each time. An outage lasts as long as it lasts."""

PUT_OFF: Final = timedelta(minutes=1)
"""How long a document waits at least where a part does not answer."""

ABREAST: Final = 3
"""Documents under way at once: while one is written, others are embedded. A question waits for two texts of each."""

HUGE_BYTES: Final = 1_000_000
"""Of texts so long at most two are under way at once, whosever they are: one takes minutes, others a second. Ours."""

_LOOK_AGAIN_SECONDS: Final = 0.2
_EMBEDDED_AT_ONCE: Final = 64
_COUNTED_AT_ONCE: Final = 32
_STALE_AT_ONCE: Final = 100
_FIRST: Final = "Only the first "
_SEARCHED: Final = " searched."
"""How the notes of indexing begin and end, and no others."""
_ROOM: Final = 32
"""Tokens of a model's limit that are left to the names above a passage."""

MOST_LINES: Final = 1_000_000
"""Log lines that are kept of a file; the note of one with more says so."""

MOST_PASSAGES: Final = 30_000
"""Passages that are kept of a file: 15 MB of prose have fewer. One of headings alone has millions, and each takes
thousands of bytes while it is indexed, and a call of the model; the note of one with more says so."""


@dataclass(frozen=True, slots=True)
class Room:
    """The embedding space in use, and what embeds in it."""

    space: EmbeddingSpace
    embedder: Embedder


class Rooms(Protocol):
    """Gives the embedding space in use."""

    async def __call__(self) -> Room:
        """Return it; one is bound where none was. Raises SpaceMismatch, Unavailable."""
        ...


class Summariser(Protocol):
    """Writes what a long document is about."""

    async def summarise(self, title: str, text: str) -> str | None:
        """Return a summary, None where none is to be made or the model did not answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """What a run of the index job did. `reason`: why it put documents off and ended, None where it did not."""

    indexed: int = 0
    failed: int = 0
    postponed: int = 0
    removed: int = 0
    reason: str | None = None


@dataclass(slots=True, kw_only=True)
class _Work:
    """What a run has taken and done so far, all its hands together."""

    most: int | None
    only: Collection[DocumentId] | None = None
    told_of: Collection[str] | None = None
    progress: Progress | None = None
    taken: int = 0
    reason: str | None = None
    done: Counter[str] = field(default_factory=Counter)

    @property
    def over(self) -> bool:
        """Whether nothing more is to be taken."""
        return self.reason is not None or (self.most is not None and self.taken >= self.most)

    def begin(self) -> bool:
        """Take one more, if that may be."""
        if self.over:
            return False
        self.taken += 1
        return True

    def note(self, partition: str, outcome: str) -> None:
        """Count what became of a document of a partition, and tell whoever watches."""
        if self.told_of is None or partition in self.told_of:
            self.done[outcome] += 1
            if self.progress:
                self.progress(self.done.total(), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentIndexing:
    """Indexes what waits, and removes from the index what nothing shows."""

    store: IndexingStore
    index: PassageIndex
    room: Rooms
    clock: Clock
    workspace: str
    lease: timedelta = timedelta(seconds=60)
    chunk_tokens: int = CHUNK_TOKENS
    summariser: Summariser | None = None

    async def run(
        self,
        *,
        most: int | None = None,
        wait: bool = False,
        only: Collection[DocumentId] | None = None,
        told_of: Collection[str] | None = None,
        progress: Progress | None = None,
    ) -> IndexReport:
        """Index all that waits now, partitions in turn, at most `most` documents; then remove what is stale.

        With `wait` also until what others hold is done, or their lease is over. `only`: these documents and no others
        are indexed and waited for. `told_of`: the partitions that the
        report and the progress are about, all unless given.

        A document that fails is noted with the reason and does not stop the others. Where a part does not answer, or
        refuses whatever the text (a wrong key, a spent quota, a workspace that is local only), it is put off, and the
        run ends: the next one takes it up, once that is mended.
        """
        if not await self.store.anything():
            return IndexReport()  # no space is bound for documents that are not there
        await self.index.ensure((await self.room()).space)
        work = _Work(most=most, only=only, told_of=told_of, progress=progress)
        while True:
            await self._take_abreast(work)
            if not wait or work.over or not await self.store.held(only):
                break
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        removed = await self.remove_stale()
        return IndexReport(**work.done, removed=removed if told_of is None else 0, reason=work.reason)

    async def _take_abreast(self, work: _Work) -> None:
        hands = [asyncio.create_task(self._take(work)) for _ in range(ABREAST)]
        try:
            await asyncio.gather(*hands)
        finally:
            for hand in hands:
                if not hand.cancelling():  # a second time would break off what it gives back
                    hand.cancel()
            await asyncio.gather(*hands, return_exceptions=True)

    async def _take(self, work: _Work) -> None:
        """Index one document after the other until none waits that may be taken."""
        while work.begin():
            jobs = await self.store.claim(limit=1, lease=self.lease, only=work.only)
            if not jobs:
                work.taken -= 1
                return
            if outcome := await self._index_or_note(jobs[0], work):
                work.note(jobs[0].partition, outcome)

    async def _index_or_note(self, job: Job, work: _Work) -> str | None:
        """Index a document; return what became of it, None where somebody else has it by now, or it is gone."""
        try:
            async with self._kept(job):
                shown = await self._index(job)
        except (TextRejected, StorageRejected) as error:  # of this very text
            await self._fail(job, error, None)
            return "failed"
        except (Unavailable, EmbedderRejected, LocalOnly) as error:  # of any: all that wait would fail one by one
            await self._fail(job, error, PUT_OFF)
            work.reason = reason_of(error)  # of no document, so everybody may be told
            return "postponed"
        except (asyncio.CancelledError, HardwonError):  # not this document's: it would be that of each
            with suppress(HardwonError):
                await self.store.give_back(job)
            raise
        except Exception as error:  # whatever a text brings about, others wait behind it
            log.exception("document_broke_indexing", document_id=str(job.document_id))
            defect = HardwonError(f"{type(error).__name__} while it was indexed: a defect of hardwon's")
            await self._fail(job, defect, None)
            return "failed"
        log.info("document_indexed", document_id=str(job.document_id), generation=job.generation, shown=shown)
        return "indexed" if shown else None

    async def _fail(self, job: Job, error: HardwonError, retry_after: timedelta | None) -> None:
        log.warning("document_not_indexed", document_id=str(job.document_id), reason=reason_of(error))
        with suppress(HardwonError):  # Postgres is what fails: the lease runs out, another run takes it
            await self.store.fail(job, str(error), retry_after=retry_after)

    async def _index(self, job: Job) -> bool:
        """Write a generation and show it; return whether it is shown."""
        room = await self.room()
        indexed, lexical, vectors = await self._made(job, room)
        if not await self.store.write(job, indexed):
            return False
        points = [
            PassagePoint(
                passage_id=passage,
                workspace=self.workspace,
                partition=job.partition,
                document_id=job.document_id,
                generation=job.generation,
                dense=vectors[number],
                lexical=document_vector(lexical[number], MEAN_TERMS),
                category=job.parsed.category,
                severities=chunk.severities,
                timestamp=chunk.timestamp,
                until=chunk.until,
                line_start=chunk.line_start,
                line_end=chunk.line_end,
            )
            for number, (passage, chunk) in enumerate(zip(indexed.passage_ids, indexed.chunks, strict=True))
        ]
        await self.index.upsert(room.space, points)
        if (await self.room()).space.fingerprint != room.space.fingerprint:
            raise EmbedderUnavailable("The embedding model was changed meanwhile: the document is indexed again.")
        if not await self.store.activate(job, room.space, indexed.notes):
            if await self.store.overtaken(job):  # what was left of it may have been removed before these came
                await self.index.delete(room.space, indexed.passage_ids)
            return False
        # a rebuild that dropped them before they were shown knew nothing of them; one that begins now does
        if lost := set(await self.index.find_missing(room.space, indexed.passage_ids)):
            await self.index.upsert(room.space, [point for point in points if point.passage_id in lost])
        return True

    async def _made(self, job: Job, room: Room) -> tuple[Indexed, list[dict[int, int]], Vector]:
        lines, chunks, notes = await asyncio.to_thread(self._cut, job, room.space)
        if summary := await self._summary(job):
            chunks = (*chunks, _summary_chunk(summary, len(chunks)))
        texts = [embedded_text(job.title, chunk) for chunk in chunks]
        counts: list[dict[int, int]] = []
        for start in range(0, len(texts), _COUNTED_AT_ONCE):
            counts += [dict(term_counts(text)) for text in texts[start : start + _COUNTED_AT_ONCE]]
            await yield_to_loop()
        hashes = [text_hash(text) for text in texts]
        vectors = await self._embedded(room, dict(zip(hashes, texts, strict=True)))
        indexed = Indexed(
            chunks=chunks,
            passage_ids=tuple(passage_id(job.document_id, job.generation, chunk.ordinal) for chunk in chunks),
            terms=tuple(tuple(sorted(each)) for each in counts),
            text_hashes=tuple(hashes),
            lines=lines,
            notes=notes,
        )
        dense = np.array([vectors[each] for each in hashes], dtype=np.float32).reshape(len(hashes), room.space.dims)
        return indexed, counts, dense

    def _cut(self, job: Job, space: EmbeddingSpace) -> tuple[tuple[LogLine, ...], tuple[Chunk, ...], tuple[str, ...]]:
        lines: tuple[LogLine, ...] = ()
        # an earlier version may have this note as well; notes on what was not read of a file stay
        notes = tuple(note for note in job.parsed.notes if not (note.startswith(_FIRST) and note.endswith(_SEARCHED)))
        if job.parsed.document_type is DocumentType.LOG:
            text = job.parsed.text
            lines = tuple(itertools.islice(read_lines(text, now=self.clock.now()), MOST_LINES))
            every = text.count("\n") + (not text.endswith("\n"))
            if every > MOST_LINES:
                notes += (f"{_FIRST}{MOST_LINES:,} of {every:,} lines are counted and{_SEARCHED}",)
        tokens = longest_passage(space, self.chunk_tokens)
        chunks = cut(job.parsed, lines, tokens=tokens, most=MOST_PASSAGES + 1)
        if len(chunks) > MOST_PASSAGES:
            notes += (f"{_FIRST}{MOST_PASSAGES:,} passages are{_SEARCHED}",)
        return lines, chunks[:MOST_PASSAGES], notes

    async def _summary(self, job: Job) -> str | None:
        if self.summariser is None or job.parsed.document_type is DocumentType.LOG:
            return None
        return await self.summariser.summarise(job.title, job.parsed.text)

    async def _embedded(self, room: Room, texts: dict[bytes, str]) -> dict[bytes, Vector]:
        """Return the embeddings of texts by their hashes; what was embedded before costs no call."""
        known = dict(await self.store.vectors(room.space, list(texts)))
        missing = [each for each in texts if each not in known]
        for start in range(0, len(missing), _EMBEDDED_AT_ONCE):
            some = missing[start : start + _EMBEDDED_AT_ONCE]
            embedded = await room.embedder.embed([texts[each] for each in some], "document")
            new = dict(zip(some, embedded.vectors, strict=True))
            await self.store.keep_vectors(room.space, new)
            known |= new
        return known

    async def remove_stale(self) -> int:
        """Remove from the index, and then from Postgres, what nothing shows; return how many generations."""
        removed = 0
        while found := await self.store.stale(_STALE_AT_ONCE):
            room = await self.room()
            ids = [passage for stale in found for passage in stale.passage_ids]
            await self.index.delete(room.space, ids)
            for stale in found:
                await self.store.forget(stale)
            removed += len(found)
        await self.store.forget_empty()
        return removed

    @asynccontextmanager
    async def _kept(self, job: Job) -> AsyncIterator[None]:
        """Extend a lease each third of its time, until the block ends."""

        async def beat() -> None:
            while True:
                await asyncio.sleep(self.lease.total_seconds() / 3)
                try:
                    await self.store.extend(job, self.lease)
                except HardwonError as error:  # the next one may get through; if none does, showing it will fail
                    log.warning("lease_not_extended", reason=str(error))

        beating = asyncio.create_task(beat())
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)  # its cancellation ends here, ours does not


def longest_passage(space: EmbeddingSpace, most: int) -> int:
    """Return how many tokens a passage has at most, so that a space's model reads it whole with the names above it."""
    return min(most, max(64, space.max_tokens - _ROOM))


def _summary_chunk(text: str, ordinal: int) -> Chunk:
    return Chunk(
        text=text,
        ordinal=ordinal,
        char_start=0,
        char_end=0,
        line_start=0,
        line_end=0,
        kind=PassageKind.SUMMARY,
        section="Summary",
    )


def total(reports: Sequence[IndexReport]) -> IndexReport:
    """Return the sums of several runs."""
    return IndexReport(
        indexed=sum(each.indexed for each in reports),
        failed=sum(each.failed for each in reports),
        postponed=sum(each.postponed for each in reports),
        removed=sum(each.removed for each in reports),
        reason=next((each.reason for each in reports if each.reason), None),
    )
