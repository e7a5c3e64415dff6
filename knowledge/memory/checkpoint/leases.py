"""Batches of a checkpoint, leased and embedded; each lease is extended until its batch is stored."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from hardwon.errors import HardwonError, TextRejected
from hardwon.event_log import get_logger
from knowledge.memory.index.embedding_space import SpaceInUse, bind_space
from knowledge.memory.rules import embedding_text
from knowledge.models import DeadEntry, EmbeddingSpace, Entry, EntryId, Vector, View
from knowledge.models import Embeddings as Answer
from knowledge.ports import Claim, Embedder, Selection, Stores
from knowledge.runtime.scheduling import FINISH_SECONDS, gather_all, run_to_completion

log = get_logger(__name__)

_MIN_BATCH = 16
"""Minimum number of entries of a batch: each batch costs some 20 ms, whatever its size."""

_BATCH_SHARE = 0.75
"""A batch's share of the remaining entries: it is decided while the next one is embedded, which takes four times as
long per entry (measured with the bundled model, on two cores)."""

_MAX_CALLS = 2
"""Concurrent calls of an embedder: one is being answered, one is queued."""


@dataclass(slots=True)
class Lease:
    """A claim with a heartbeat: extended each third of its time until it ends."""

    stores: Stores
    claim: Claim
    time: timedelta
    _heartbeat: asyncio.Task[None] | None = None

    @property
    def entries(self) -> Sequence[Entry]:
        """The claimed entries."""
        return self.claim.entries

    def start(self) -> None:
        """Start the heartbeat."""
        self._heartbeat = asyncio.create_task(self._extend_until_cancelled())

    async def _extend_until_cancelled(self) -> None:
        while True:
            await asyncio.sleep(self.time.total_seconds() / 3)
            try:
                await self.stores.entries.extend(self.claim, self.time)
            except HardwonError as error:  # the next one may succeed; if none does, marking will fail
                log.warning("lease_not_extended", reason=str(error))

    async def end(self, *, give_back: bool) -> None:
        """Stop the heartbeat; with `give_back` release the claim, so that others may claim the entries at once."""
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            with suppress(asyncio.CancelledError):
                await self._heartbeat
        if give_back:
            with suppress(HardwonError):  # it expires by itself
                await self.stores.entries.release(self.claim)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchVectors:
    """The vectors of a batch's texts.

    `read`: each entry's texts as the model reads them. `truncated`: number of truncated texts. `dead`: entries with a
    refused text.
    """

    read: Mapping[EntryId, Mapping[View, str]]
    vectors: Mapping[str, Vector]
    truncated: int
    dead: Sequence[DeadEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Leased entries, the space to embed them into, and the running embedding task, if any."""

    lease: Lease
    in_use: SpaceInUse
    embedding: asyncio.Task[BatchVectors] | None

    async def drop(self) -> None:
        """Cancel the embedding and release the entries."""
        if self.embedding is not None:
            self.embedding.cancel()
            await asyncio.gather(self.embedding, return_exceptions=True)
        await self.lease.end(give_back=True)


@dataclass(slots=True, kw_only=True)
class BatchLeaser:
    """Claims the batches of a selection; each is prefetched while the one before is embedded.

    An embedder that is fast with few texts gets small calls, so that others can use it in between, and queued ones, so
    that it is never idle. Batches become smaller towards the end, since nothing is embedded while the last one is
    decided and stored. `at_start`: the part of the selection captured before the start; once `remaining` entries were
    claimed, only these are, or a checkpoint would never end during captures. (Not earlier: the clocks of capturing
    processes may be ahead.) `on_space_bound`: called with the space before entries are embedded into it. `remaining`:
    estimated number of entries to claim. `in_use`: the space of the last batch.
    """

    stores: Stores
    selection: Selection
    at_start: Selection
    batch: int
    time: timedelta
    on_space_bound: Callable[[EmbeddingSpace], None]
    remaining: int = 0
    in_use: SpaceInUse | None = field(default=None, init=False)
    _prefetching: asyncio.Task[Batch | None] | None = field(default=None, init=False)
    _calls: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_CALLS), init=False)

    async def next(self) -> Batch | None:
        """Return the next batch, None where there is nothing to claim."""
        task = self.prefetch()
        batch = await asyncio.shield(task)  # where this is cancelled, `close` releases it
        self._prefetching = None
        return batch

    def prefetch(self) -> asyncio.Task[Batch | None]:
        """Start to claim the next batch."""
        if self._prefetching is None:
            self._prefetching = asyncio.create_task(self._claim_batch())
        return self._prefetching

    async def close(self) -> None:
        """Release a prefetched batch."""
        task, self._prefetching = self._prefetching, None
        if task is not None:
            await asyncio.wait({task}, timeout=FINISH_SECONDS)
            task.cancel()  # a claim whose response was lost is free when its lease expires
            (batch,) = await asyncio.gather(task, return_exceptions=True)
            if isinstance(batch, Batch):
                await batch.drop()

    async def _claim_batch(self) -> Batch | None:
        selection = self.selection if self.remaining > 0 else self.at_start
        claim = await self.stores.entries.claim(selection, limit=self._limit(), lease=self.time)
        if not claim.entries:
            return None
        self.remaining -= len(claim.entries)
        lease = Lease(self.stores, claim, self.time)
        lease.start()
        try:
            self.in_use = in_use = await bind_space(self.stores, lease.entries, previous=self.in_use)
            self.on_space_bound(in_use.bound.space)
        except BaseException:
            await run_to_completion(lease.end(give_back=True))
            raise
        begun = None
        if in_use.embedder.efficient_batch_size is not None:
            begun = asyncio.create_task(self._embed(in_use.embedder, lease.entries))
        return Batch(lease=lease, in_use=in_use, embedding=begun)

    def _limit(self) -> int:
        embedder = self.in_use.embedder if self.in_use else self.stores.embedder
        if embedder.efficient_batch_size is None:
            return self.batch
        size = max(_MIN_BATCH, int(self.remaining * _BATCH_SHARE))
        if 0 < self.remaining - size < _MIN_BATCH // 2:  # a batch of their own would cost more
            size = self.remaining
        return min(self.batch, size)

    async def vectors_of(self, batch: Batch) -> BatchVectors:
        """Return the vectors of a batch's texts."""
        return await (batch.embedding or self._embed(batch.in_use.embedder, batch.lease.entries))

    async def _embed(self, embedder: Embedder, entries: Sequence[Entry]) -> BatchVectors:
        """Embed every text of the entries, each distinct one once."""
        return await self._embed_read(embedder, entries, await embedding_text.all_as_embedded(entries))

    async def _embed_read(
        self, embedder: Embedder, entries: Sequence[Entry], read: Mapping[EntryId, Mapping[View, str]]
    ) -> BatchVectors:
        """Embed the texts in `read`; a refused batch is halved to find the refused entries."""
        distinct = list(dict.fromkeys(text for entry in entries for text in read[entry.entry_id].values()))
        try:
            vectors, truncated = await self._vectors(embedder, distinct)
        except TextRejected as error:
            if len(entries) == 1:
                dead = DeadEntry(entry_id=entries[0].entry_id, reason=str(error))
                return BatchVectors(read=read, vectors={}, truncated=0, dead=[dead])
            middle = len(entries) // 2
            first = await self._embed_read(embedder, entries[:middle], read)
            second = await self._embed_read(embedder, entries[middle:], read)
            return BatchVectors(
                read=read,
                vectors={**first.vectors, **second.vectors},
                truncated=first.truncated + second.truncated,
                dead=[*first.dead, *second.dead],
            )
        return BatchVectors(read=read, vectors=vectors, truncated=truncated, dead=[])

    async def _vectors(self, embedder: Embedder, distinct: Sequence[str]) -> tuple[dict[str, Vector], int]:
        """Return vectors by text and the number of truncated texts, in calls of at most `enough_at_once` texts."""
        size = embedder.efficient_batch_size or len(distinct)
        answers = await gather_all(
            self._call(embedder, distinct[at : at + size]) for at in range(0, len(distinct), size)
        )
        vectors = itertools.chain.from_iterable(answer.vectors for answer in answers)
        return dict(zip(distinct, vectors, strict=True)), sum(len(answer.truncated) for answer in answers)

    async def _call(self, embedder: Embedder, batch_texts: Sequence[str]) -> Answer:
        async with self._calls:
            return await embedder.embed(batch_texts, "document")
