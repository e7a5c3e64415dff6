"""Index documents: claim under a lease, split, embed, write next to the shown generation, then switch to the new one.

Rows and points of a generation are written first; one transaction then shows it instead of the one before; a generation
that is not shown any more is deleted from the index, then from Postgres. A kill at any point leaves the old or the new
document.
"""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Protocol

import numpy as np

from hardwon.errors import (
    EmbedderRejected,
    EmbedderUnavailable,
    HardwonError,
    LocalOnly,
    StorageRejected,
    TextRejected,
    Unavailable,
    reason_of,
)
from hardwon.event_log import get_logger
from hardwon.models.documents import DocumentId, DocumentType, IndexReport, LogLine, PassageKind
from knowledge.documents.models import Chunk, PassagePoint
from knowledge.documents.parsing.chunking import CHUNK_TOKENS, split_document
from knowledge.documents.parsing.log_lines import read_lines
from knowledge.documents.parsing.passage_text import MEAN_TERMS, passage_id, text_hash, text_to_embed
from knowledge.documents.ports import IndexedGeneration, IndexingJob, IndexingStore, PassageIndex
from knowledge.models import EmbeddingSpace, Vector
from knowledge.ports import Clock, Embedder, Progress
from knowledge.runtime.scheduling import yield_to_loop
from knowledge.text.bm25 import document_vector, term_counts

log = get_logger(__name__)
MAX_ATTEMPTS: Final = 5
"""Attempts at a document whose process dies each time. Outages do not count."""
RETRY_DELAY: Final = timedelta(minutes=1)
"""Least delay of a document after the database, index or embedder did not respond."""
MAX_CONCURRENT_DOCUMENTS: Final = 3
"""Documents indexed at once: while one is written, others are embedded. A query waits for two texts of each."""
HUGE_BYTES: Final = 1_000_000
"""Texts of this size are indexed at most two at once, over all partitions: one takes minutes, others a second. Ours."""
PARTS: Final = 100
"""Steps of the progress of one document: a large one takes minutes."""
_POLL_SECONDS: Final = 0.2
_EMBEDDING_BATCH: Final = 64
_COUNTING_BATCH: Final = 32
_STALE_BATCH: Final = 100
_NOTE_START: Final = "Only the first "
_NOTE_END: Final = " searched."
_REFUSED_START: Final = "Not searched: "
"""Starts and end of the notes that indexing adds, and of no others."""
_REFUSED_NOTES: Final = 5
"""Refused passages that are named one by one."""
_HEADING_TOKENS: Final = 32
"""Tokens of a model's limit that are reserved for the headings above a passage."""
MAX_LINES: Final = 1_000_000
"""Log lines that are stored of a file; a note says so if it has more."""
MAX_PASSAGES: Final = 30_000
"""Passages that are stored of a file: 15 MB of prose have fewer. A file of headings alone has millions, and each takes
thousands of bytes while it is indexed, and a call of the model. A note says so if a file has more."""


@dataclass(frozen=True, slots=True)
class ActiveSpace:
    """The embedding space in use, and its embedder."""

    space: EmbeddingSpace
    embedder: Embedder


class ActiveSpaceProvider(Protocol):
    """Provides the embedding space in use."""

    async def __call__(self) -> ActiveSpace:
        """Return it; binds one if there is none yet. Raises SpaceMismatch, Unavailable."""


class Summariser(Protocol):
    """Summarises long documents."""

    async def summarise(self, title: str, text: str) -> str | None:
        """Return a summary, None if none is needed or the model did not respond."""


@dataclass(slots=True, kw_only=True)
class _Run:
    """Progress of a run, shared by its workers."""

    most: int | None
    only: Collection[DocumentId] | None = None
    visible_partitions: Collection[str] | None = None
    progress: Progress | None = None
    taken: int = 0
    reason: str | None = None
    done: Counter[str] = field(default_factory=Counter)
    parts: dict[DocumentId, float] = field(default_factory=dict)
    """How much of each document is embedded that is being indexed, 0..1."""

    @property
    def is_over(self) -> bool:
        """True once no more documents are to be claimed."""
        return self.reason is not None or (self.most is not None and self.taken >= self.most)

    def begin(self) -> bool:
        """Count one more document as taken; return False if the run is over."""
        if self.is_over:
            return False
        self.taken += 1
        return True

    def note(self, job: IndexingJob, outcome: str) -> None:
        """Count the outcome of a document, and report progress."""
        self.parts.pop(job.document_id, None)
        if self._is_visible(job):
            self.done[outcome] += 1
            self._report()

    def note_part(self, job: IndexingJob, share: float) -> None:
        """Report how much of a document is embedded."""
        if self._is_visible(job):
            self.parts[job.document_id] = share
            self._report()

    def _is_visible(self, job: IndexingJob) -> bool:
        return self.visible_partitions is None or job.partition in self.visible_partitions

    def _report(self) -> None:
        if self.progress:
            self.progress(PARTS * self.done.total() + int(PARTS * sum(self.parts.values())), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentIndexing:
    """Indexes waiting documents, and deletes stale generations from the index."""

    store: IndexingStore
    index: PassageIndex
    active_space: ActiveSpaceProvider
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
        visible_partitions: Collection[str] | None = None,
        progress: Progress | None = None,
    ) -> IndexReport:
        """Index all waiting documents, partitions in turn, at most `most` of them; then remove stale generations.

        With `wait`, also wait until the documents that others have leased are done, or their leases expire. `only`:
        index and wait for these documents alone. `visible_partitions`: the partitions that the report and the progress
        cover, all if None. `progress` gets hundredths of documents.

        A document that fails is recorded with the reason and does not stop the others. If the database, index or
        embedder does not respond, or rejects every text (a wrong key, a spent quota, a workspace that is local only),
        the document is postponed and the run ends: a later run retries it.
        """
        if not await self.store.has_documents():
            return IndexReport()  # without documents, do not bind a space
        await self.index.ensure((await self.active_space()).space)
        state = _Run(most=most, only=only, visible_partitions=visible_partitions, progress=progress)
        while True:
            await self._run_workers(state)
            if not wait or state.is_over or not await self.store.has_leases(only):
                break
            await asyncio.sleep(_POLL_SECONDS)
        removed = await self.remove_stale()
        return IndexReport(**state.done, removed=removed if visible_partitions is None else 0, reason=state.reason)

    async def _run_workers(self, run: _Run) -> None:
        workers = [asyncio.create_task(self._run_worker(run)) for _ in range(MAX_CONCURRENT_DOCUMENTS)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                if not worker.cancelling():  # a second cancel would interrupt the release of its lease
                    worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _run_worker(self, run: _Run) -> None:
        """Index one document after the other until none waits or the run is over."""
        while run.begin():
            jobs = await self.store.claim(limit=1, lease=self.lease, only=run.only)
            if not jobs:
                run.taken -= 1
                return
            if outcome := await self._index_or_fail(jobs[0], run):
                run.note(jobs[0], outcome)

    async def _index_or_fail(self, job: IndexingJob, run: _Run) -> str | None:
        """Index a document; return the outcome, None if another run has its lease by now, or it was deleted."""
        try:
            async with self._keep_lease(job):
                shown = await self._index(job, functools.partial(run.note_part, job))
        except (TextRejected, StorageRejected) as error:  # caused by this text
            await self._fail(job, error, None)
            return "failed"
        except (Unavailable, EmbedderRejected, LocalOnly) as error:  # not caused by the text: all others would fail too
            await self._fail(job, error, RETRY_DELAY)
            run.reason = reason_of(error)  # says nothing about a document, so every caller may see it
            return "postponed"
        except (asyncio.CancelledError, HardwonError):  # not caused by the document
            with suppress(HardwonError):
                await self.store.give_back(job)
            raise
        except Exception as error:  # no text may stop the documents behind it
            log.exception("document_broke_indexing", document_id=str(job.document_id))
            defect = HardwonError(f"{type(error).__name__} during indexing: a defect of hardwon")
            await self._fail(job, defect, None)
            return "failed"
        log.info("document_indexed", document_id=str(job.document_id), generation=job.generation, shown=shown)
        return "indexed" if shown else None

    async def _fail(self, job: IndexingJob, error: HardwonError, retry_after: timedelta | None) -> None:
        log.warning("document_not_indexed", document_id=str(job.document_id), reason=reason_of(error))
        with suppress(HardwonError):  # if Postgres fails: the lease expires, another run retries
            await self.store.fail(job, str(error), retry_after=retry_after)

    async def _index(self, job: IndexingJob, progress: Callable[[float], None]) -> bool:
        """Write a generation and show it; return False if the lease was lost."""
        active = await self.active_space()
        indexed, lexical, vectors = await self._prepare(job, active, progress)
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
        await self.index.upsert(active.space, points)
        if (await self.active_space()).space.collection != active.space.collection:
            raise EmbedderUnavailable("The index was changed meanwhile: the document will be indexed again.")
        if not await self.store.activate(job, active.space, indexed.notes):
            if await self.store.is_superseded(job):  # its points may have been removed before these were written
                await self.index.delete(active.space, indexed.passage_ids)
            return False
        # a rebuild that dropped points that were not shown yet does not restore them; one that begins now does
        if lost := set(await self.index.find_missing(active.space, indexed.passage_ids)):
            await self.index.upsert(active.space, [point for point in points if point.passage_id in lost])
        return True

    async def _prepare(
        self, job: IndexingJob, active: ActiveSpace, progress: Callable[[float], None]
    ) -> tuple[IndexedGeneration, list[dict[int, int]], Vector]:
        stored = await self.store.lines(job) if job.parsed.document_type is DocumentType.LOG else ()
        lines, chunks, notes = await asyncio.to_thread(self._split, job, active.space, stored)
        if summary := await self._summary(job):
            chunks = (*chunks, _summary_chunk(summary, len(chunks)))
        texts = [text_to_embed(job.title, chunk) for chunk in chunks]
        counts: list[dict[int, int]] = []
        for start in range(0, len(texts), _COUNTING_BATCH):
            counts += [dict(term_counts(text)) for text in texts[start : start + _COUNTING_BATCH]]
            await yield_to_loop()
        hashes = [text_hash(text) for text in texts]
        vectors, refused = await self._embed(active, dict(zip(hashes, texts, strict=True)), progress)
        if refused:
            kept = [number for number, each in enumerate(hashes) if each not in refused]
            if not kept:
                raise next(iter(refused.values()))
            notes = (*notes, *_refused_notes(chunks, [refused.get(each) for each in hashes]))
            chunks = tuple(chunks[number] for number in kept)
            hashes, counts = [hashes[number] for number in kept], [counts[number] for number in kept]
        indexed = IndexedGeneration(
            chunks=chunks,
            passage_ids=tuple(passage_id(job.document_id, job.generation, chunk.ordinal) for chunk in chunks),
            terms=tuple(tuple(sorted(each)) for each in counts),
            text_hashes=tuple(hashes),
            lines=lines,
            notes=notes,
        )
        dense = np.array([vectors[each] for each in hashes], dtype=np.float32).reshape(len(hashes), active.space.dims)
        return indexed, counts, dense

    def _split(
        self, job: IndexingJob, space: EmbeddingSpace, lines: tuple[LogLine, ...]
    ) -> tuple[tuple[LogLine, ...], tuple[Chunk, ...], tuple[str, ...]]:
        # an earlier version may have added these notes; keep those of parsing
        notes = tuple(note for note in job.parsed.notes if not _is_of_indexing(note))
        if job.parsed.document_type is DocumentType.LOG:
            text = job.parsed.text
            lines = lines or tuple(read_lines(text, now=self.clock.now(), most=MAX_LINES))
            line_count = text.count("\n") + (not text.endswith("\n"))
            if line_count > MAX_LINES:
                notes += (f"{_NOTE_START}{MAX_LINES:,} of {line_count:,} lines are counted and{_NOTE_END}",)
        tokens = max_passage_tokens(space, self.chunk_tokens)
        chunks = split_document(job.parsed, lines, tokens=tokens, most=MAX_PASSAGES + 1)
        if len(chunks) > MAX_PASSAGES:
            notes += (f"{_NOTE_START}{MAX_PASSAGES:,} passages are{_NOTE_END}",)
        return lines, chunks[:MAX_PASSAGES], notes

    async def _summary(self, job: IndexingJob) -> str | None:
        if self.summariser is None or job.parsed.document_type is DocumentType.LOG:
            return None
        return await self.summariser.summarise(job.title, job.parsed.text)

    async def _embed(
        self, active: ActiveSpace, texts: dict[bytes, str], progress: Callable[[float], None]
    ) -> tuple[dict[bytes, Vector], dict[bytes, TextRejected]]:
        """Return the embeddings of texts by their hashes, and the refusals of the others; stored ones are reused."""
        refused: dict[bytes, TextRejected] = {}
        vectors = dict(await self.store.vectors(active.space, list(texts)))
        missing = [each for each in texts if each not in vectors]
        for start in range(0, len(missing), _EMBEDDING_BATCH):
            some = missing[start : start + _EMBEDDING_BATCH]
            new = await _embed_accepted(active.embedder, {each: texts[each] for each in some}, refused)
            await self.store.keep_vectors(active.space, new)
            vectors |= new
            progress(1 - (len(missing) - start - len(some)) / len(texts))
        return vectors, refused

    async def remove_stale(self) -> int:
        """Delete stale generations from the index, then from Postgres; return their number."""
        removed = 0
        while found := await self.store.stale(_STALE_BATCH):
            active = await self.active_space()
            ids = [passage for stale in found for passage in stale.passage_ids]
            await self.index.delete(active.space, ids)
            for stale in found:
                await self.store.forget(stale)
            removed += len(found)
        await self.store.forget_empty()
        return removed

    @asynccontextmanager
    async def _keep_lease(self, job: IndexingJob) -> AsyncIterator[None]:
        """Extend a lease every third of its duration, until the block ends."""

        async def beat() -> None:
            while True:
                await asyncio.sleep(self.lease.total_seconds() / 3)
                try:
                    await self.store.extend(job, self.lease)
                except HardwonError as error:  # the next try may succeed; if none does, `activate` fails
                    log.warning("lease_not_extended", reason=str(error))

        beating = asyncio.create_task(beat())
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)  # swallows its cancellation, not ours


async def _embed_accepted(
    embedder: Embedder, texts: dict[bytes, str], refused: dict[bytes, TextRejected]
) -> dict[bytes, Vector]:
    """Return the embeddings of texts; a refused batch is halved, and the refused texts are added to `refused`."""
    hashes = list(texts)
    try:
        embedded = await embedder.embed(list(texts.values()), "document")
    except TextRejected as error:
        if len(texts) == 1:
            refused[hashes[0]] = error
            return {}
        middle = len(texts) // 2
        vectors: dict[bytes, Vector] = {}
        for half in (hashes[:middle], hashes[middle:]):
            vectors |= await _embed_accepted(embedder, {each: texts[each] for each in half}, refused)
        return vectors
    return dict(zip(hashes, embedded.vectors, strict=True))


def _refused_notes(chunks: Sequence[Chunk], refused: Sequence[TextRejected | None]) -> list[str]:
    """Return what is noted of the passages that the embedder refuses."""
    named = [(chunk, error) for chunk, error in zip(chunks, refused, strict=True) if error is not None]
    notes = [f"{_REFUSED_START}{_describe(chunk)}. {error}" for chunk, error in named[:_REFUSED_NOTES]]
    if len(named) > _REFUSED_NOTES:
        notes.append(f"{_REFUSED_START}{len(named) - _REFUSED_NOTES:,} more passages, for reasons like these.")
    return notes


def _describe(chunk: Chunk) -> str:
    if chunk.kind is PassageKind.SUMMARY:
        return "the summary"
    if chunk.line_start == chunk.line_end:
        return f"line {chunk.line_start}"
    return f"lines {chunk.line_start} to {chunk.line_end}"


def _is_of_indexing(note: str) -> bool:
    return note.startswith(_REFUSED_START) or (note.startswith(_NOTE_START) and note.endswith(_NOTE_END))


def max_passage_tokens(space: EmbeddingSpace, most: int) -> int:
    """Return the maximum tokens of a passage, so that a space's model reads it whole below its headings."""
    return min(most, max(64, space.max_tokens - _HEADING_TOKENS))


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


def sum_reports(reports: Sequence[IndexReport]) -> IndexReport:
    """Return the summed counts of several runs."""
    return IndexReport(
        indexed=sum(each.indexed for each in reports),
        failed=sum(each.failed for each in reports),
        postponed=sum(each.postponed for each in reports),
        removed=sum(each.removed for each in reports),
        reason=next((each.reason for each in reports if each.reason), None),
    )
