"""Index documents: claim under a lease, split, embed, write next to the shown generation, then switch to the new one.

Rows and points of a generation are written first; one transaction then shows it instead of the one before; a generation
that is not shown any more is deleted from the index, then from Postgres. A kill at any point leaves the old or the new
document.
"""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final, Protocol

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
from knowledge.documents.ports import IndexedGeneration, IndexedPassage, IndexingJob, IndexingStore, PassageIndex
from knowledge.models import EmbeddingSpace, Vector
from knowledge.ports import Clock, Embedder, Progress
from knowledge.text.bm25 import document_vector, term_counts

log = get_logger(__name__)
MAX_ATTEMPTS: Final = 5
"""Attempts at a document whose process dies each time. Outages do not count."""
RETRY_DELAY: Final = timedelta(minutes=1)
"""Least delay of a document after the database, index or embedder did not respond."""
MAX_CONCURRENT_DOCUMENTS: Final = 3
"""Batches of documents indexed at once: while one is written, others are embedded. A query waits for two texts of
each."""
BATCH_DOCUMENTS: Final = 64
BATCH_BYTES: Final = 64_000
"""Small documents are indexed together, in one call of the model and of each statement: alone, one of 1 KB cost 16 ms
without the model. A larger document comes alone, since it fills these by itself."""
HUGE_BYTES: Final = 1_000_000
"""Texts of this size are indexed at most two at once, over all partitions: one takes minutes, others a second. Ours."""
PARTS: Final = 100
"""Steps of the progress of one document: a large one takes minutes."""
_POLL_SECONDS: Final = 0.2
_EMBEDDING_BATCH: Final = 64
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

    def reserve(self) -> int:
        """Count the documents of one more batch as taken; return their number, 0 if the run is over."""
        if self.is_over:
            return 0
        number = BATCH_DOCUMENTS if self.most is None else min(BATCH_DOCUMENTS, self.most - self.taken)
        self.taken += number
        return number

    def note(self, job: IndexingJob, outcome: str) -> None:
        """Count the outcome of a document, and report progress."""
        self.parts.pop(job.document_id, None)
        if self._is_visible(job):
            self.done[outcome] += 1
            self._report()

    def note_part(self, jobs: Sequence[IndexingJob], share: float) -> None:
        """Report how much of some documents is embedded."""
        self.parts |= {job.document_id: share for job in jobs if self._is_visible(job)}
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
        """Index one batch of documents after the other until none waits or the run is over."""
        while reserved := run.reserve():
            jobs = await self.store.claim(limit=reserved, lease=self.lease, only=run.only)
            run.taken -= reserved - len(jobs)
            if not jobs:
                return
            try:
                async with self._keep_leases(jobs):
                    await self._index_batch(jobs, run)
            except (asyncio.CancelledError, HardwonError):  # not caused by a document
                await self._give_back(jobs)
                raise

    async def _index_batch(self, jobs: Sequence[IndexingJob], run: _Run) -> None:
        """Index documents together; if that fails, one after the other until the run is over."""
        if await self._index_or_fail(jobs, run):
            return
        for number, job in enumerate(jobs):
            if run.reason is not None:
                await self._give_back(jobs[number:])
                return
            await self._index_or_fail([job], run)

    async def _give_back(self, jobs: Sequence[IndexingJob]) -> None:
        with suppress(HardwonError):  # if Postgres fails: the leases expire
            await self.store.give_back(jobs)

    async def _index_or_fail(self, jobs: Sequence[IndexingJob], run: _Run) -> bool:
        """Index documents and count those that are shown now; return False if several were tried and something failed.

        A document alone that fails is recorded with the reason.
        """
        try:
            shown = await self._index(jobs, functools.partial(run.note_part, jobs))
        except Exception as error:  # noqa: BLE001 - no text may stop the documents behind it; `_fail` logs it
            if len(jobs) > 1:
                log.warning("documents_not_indexed_together", documents=len(jobs), reason=reason_of(error))
                return False
            await self._fail(jobs[0], error, run)
            return True
        for job in jobs:
            is_shown = job.document_id in shown  # else another run has its lease by now, or it was deleted
            log.info("document_indexed", document_id=str(job.document_id), generation=job.generation, shown=is_shown)
            if is_shown:
                run.note(job, "indexed")
        return True

    async def _fail(self, job: IndexingJob, error: Exception, run: _Run) -> None:
        """Record why a document is not indexed, and count it. Raises an error that has to do with no document."""
        outcome, retry_after = "failed", None
        if isinstance(error, TextRejected | StorageRejected):
            recorded = str(error)
        elif isinstance(error, Unavailable | EmbedderRejected | LocalOnly):  # all others would fail too
            recorded, outcome, retry_after = str(error), "postponed", RETRY_DELAY
            run.reason = reason_of(error)  # says nothing about a document, so every caller may see it
        elif isinstance(error, HardwonError):
            raise error
        else:
            log.error("document_broke_indexing", document_id=str(job.document_id), exc_info=error)
            recorded = f"{type(error).__name__} during indexing: a defect of hardwon"
        log.warning("document_not_indexed", document_id=str(job.document_id), reason=reason_of(error))
        with suppress(HardwonError):  # if Postgres fails: the lease expires, another run retries
            await self.store.fail(job, recorded, retry_after=retry_after)
        run.note(job, outcome)

    async def _index(self, jobs: Sequence[IndexingJob], progress: Callable[[float], None]) -> set[DocumentId]:
        """Write generations and show them; return the documents whose lease was not lost."""
        active = await self.active_space()
        indexed, vectors = await self._prepare(jobs, active, progress)
        written = await self.store.write(indexed)
        indexed = [each for each in indexed if each.job.document_id in written]
        points = [self._to_point(each.job, passage, vectors) for each in indexed for passage in each.passages]
        await self.index.upsert(active.space, points)
        if (await self.active_space()).space.collection != active.space.collection:
            raise EmbedderUnavailable("The index was changed meanwhile: the document will be indexed again.")
        shown = await self.store.activate(indexed, active.space) if indexed else set()
        for each in indexed:  # points may have been removed before these were written
            if each.job.document_id not in shown and await self.store.is_superseded(each.job):
                await self.index.delete(active.space, [passage.passage_id for passage in each.passages])
        # a rebuild that dropped points that were not shown yet does not restore them; one that begins now does
        ids = [point.passage_id for point in points if point.document_id in shown]
        if lost := set(await self.index.find_missing(active.space, ids)):
            await self.index.upsert(active.space, [point for point in points if point.passage_id in lost])
        return shown

    def _to_point(self, job: IndexingJob, passage: IndexedPassage, vectors: Mapping[bytes, Vector]) -> PassagePoint:
        chunk = passage.chunk
        return PassagePoint(
            passage_id=passage.passage_id,
            workspace=self.workspace,
            partition=job.partition,
            document_id=job.document_id,
            generation=job.generation,
            dense=vectors[passage.text_hash],
            lexical=document_vector(passage.term_counts, MEAN_TERMS),
            category=job.parsed.category,
            severities=chunk.severities,
            timestamp=chunk.timestamp,
            until=chunk.until,
            line_start=chunk.line_start,
            line_end=chunk.line_end,
        )

    async def _prepare(
        self, jobs: Sequence[IndexingJob], active: ActiveSpace, progress: Callable[[float], None]
    ) -> tuple[list[IndexedGeneration], Mapping[bytes, Vector]]:
        """Return the generations to write, without the passages that the embedder refuses, and their embeddings."""
        lines = [await self.store.lines(job) if _is_log(job) else () for job in jobs]
        summaries = [await self._summary(job) for job in jobs]
        texts: dict[bytes, str] = {}

        def split() -> list[IndexedGeneration]:
            return [self._split(*each, active.space, texts) for each in zip(jobs, lines, summaries, strict=True)]

        indexed = await asyncio.to_thread(split)
        vectors, refused = await self._embed(active, texts, progress)
        return [_without_refused(each, refused) for each in indexed] if refused else indexed, vectors

    def _split(
        self,
        job: IndexingJob,
        lines: tuple[LogLine, ...],
        summary: str | None,
        space: EmbeddingSpace,
        texts: dict[bytes, str],
    ) -> IndexedGeneration:
        """Return a generation with all its passages; add their texts, by hash, to those to embed."""
        # an earlier version may have added these notes; keep those of parsing
        notes = tuple(note for note in job.parsed.notes if not _is_of_indexing(note))
        if _is_log(job):
            text = job.parsed.text
            lines = lines or tuple(read_lines(text, now=self.clock.now(), most=MAX_LINES))
            line_count = text.count("\n") + (not text.endswith("\n"))
            if line_count > MAX_LINES:
                notes += (f"{_NOTE_START}{MAX_LINES:,} of {line_count:,} lines are counted and{_NOTE_END}",)
        tokens = max_passage_tokens(space, self.chunk_tokens)
        chunks = split_document(job.parsed, lines, tokens=tokens, most=MAX_PASSAGES + 1)
        if len(chunks) > MAX_PASSAGES:
            notes += (f"{_NOTE_START}{MAX_PASSAGES:,} passages are{_NOTE_END}",)
            chunks = chunks[:MAX_PASSAGES]
        if summary:
            chunks = (*chunks, _summary_chunk(summary, len(chunks)))
        passages = []
        for chunk in chunks:
            text = text_to_embed(job.title, chunk)
            hashed = text_hash(text)
            texts[hashed] = text
            passages.append(
                IndexedPassage(
                    passage_id=passage_id(job.document_id, job.generation, chunk.ordinal),
                    chunk=chunk,
                    term_counts=term_counts(text),
                    text_hash=hashed,
                )
            )
        return IndexedGeneration(job=job, passages=tuple(passages), lines=lines, notes=notes)

    async def _summary(self, job: IndexingJob) -> str | None:
        if self.summariser is None or _is_log(job):
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
    async def _keep_leases(self, jobs: Sequence[IndexingJob]) -> AsyncIterator[None]:
        """Extend leases every third of their duration, until the block ends."""

        async def beat() -> None:
            while True:
                await asyncio.sleep(self.lease.total_seconds() / 3)
                try:
                    await self.store.extend(jobs, self.lease)
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


def _without_refused(indexed: IndexedGeneration, refused: Mapping[bytes, TextRejected]) -> IndexedGeneration:
    """Return a generation without the passages that the embedder refuses. Raises TextRejected if none is left."""
    named = [(each.chunk, refused[each.text_hash]) for each in indexed.passages if each.text_hash in refused]
    if named and len(named) == len(indexed.passages):
        raise named[0][1]
    notes = [f"{_REFUSED_START}{_describe(chunk)}. {error}" for chunk, error in named[:_REFUSED_NOTES]]
    if len(named) > _REFUSED_NOTES:
        notes.append(f"{_REFUSED_START}{len(named) - _REFUSED_NOTES:,} more passages, for reasons like these.")
    accepted = tuple(each for each in indexed.passages if each.text_hash not in refused)
    return replace(indexed, passages=accepted, notes=(*indexed.notes, *notes))


def _is_log(job: IndexingJob) -> bool:
    return job.parsed.document_type is DocumentType.LOG


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
