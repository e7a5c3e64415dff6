"""The batches of a checkpoint, leased and embedded, each under a lease that is kept alive until it is done with."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from knowledge.errors import HardwonError, TextRejected
from knowledge.logs import get_logger
from knowledge.memory import texts
from knowledge.memory.finishing import FINISH_SECONDS, to_the_end
from knowledge.memory.spaces import SpaceInUse, bind_space
from knowledge.models import DeadEntry, EmbeddingSpace, Entry, EntryId, Vector, View
from knowledge.models import Embedded as Answer
from knowledge.ports import Claim, Embedder, Selection, Stores
from knowledge.turns import all_of

log = get_logger(__name__)

_FEWEST = 16
"""Entries of a batch at least, where there are so many: each costs some 20 ms, whatever its size."""

_SHARE = 0.75
"""What a batch takes of what is left, if it is not too much: it is decided while the next one is embedded, which takes
four times as long an entry (measured with the bundled model, on two cores)."""

_CALLS = 2
"""Calls of an embedder at the same time: one is answered, one waits for its turn."""


@dataclass(slots=True)
class Lease:
    """A claim that is kept alive until it is let go of: extended each third of its time."""

    stores: Stores
    claim: Claim
    time: timedelta
    _beating: asyncio.Task[None] | None = None

    @property
    def entries(self) -> Sequence[Entry]:
        """What was claimed."""
        return self.claim.entries

    def keep(self) -> None:
        """Begin to extend it."""
        self._beating = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.time.total_seconds() / 3)
            try:
                await self.stores.entries.extend(self.claim, self.time)
            except HardwonError as error:  # the next one may get through; if none does, the mark will say so
                log.warning("lease_not_extended", reason=str(error))

    async def end(self, *, give_back: bool) -> None:
        """Extend it no longer; with `give_back` others may take at once what it still holds."""
        if self._beating is not None:
            self._beating.cancel()
            with suppress(asyncio.CancelledError):
                await self._beating
        if give_back:
            with suppress(HardwonError):  # it runs out by itself where Postgres is gone too
                await self.stores.entries.release(self.claim)


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """The vectors of a batch's texts.

    `read`: the texts of each entry as the model read them. `truncated`: how many were cut; `dead`: entries with a
    refused text.
    """

    read: Mapping[EntryId, Mapping[View, str]]
    vectors: Mapping[str, Vector]
    truncated: int
    dead: Sequence[DeadEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Leased entries, the space to embed them into, and their embedding where it is under way."""

    lease: Lease
    in_use: SpaceInUse
    begun: asyncio.Task[Embedded] | None

    async def drop(self) -> None:
        """Embed it no longer, and let others take it."""
        if self.begun is not None:
            self.begun.cancel()
            await asyncio.gather(self.begun, return_exceptions=True)
        await self.lease.end(give_back=True)


@dataclass(slots=True, kw_only=True)
class Leasing:
    """Takes batch after batch of a selection, the next one while the one before is embedded.

    An embedder that is quick with few texts is given few at a time, so that others have their turn, but the next ones
    before it is done with these, those of the next batch as well, so that it never waits. Its batches become smaller
    towards the end, as nothing is embedded while the last one is decided and stored.
    `at_start`: what of the selection was there when it began; once so many were taken as there were, only of these, as
    a checkpoint beside captures would never end. (Not from the start: clocks of those who capture may be ahead.)
    `bound`: is told the space whenever entries are to be embedded into it. `left`: how many entries there are to take,
    as far as is known; none are after the last. `in_use`: the space of the last batch.
    """

    stores: Stores
    selection: Selection
    at_start: Selection
    batch: int
    time: timedelta
    bound: Callable[[EmbeddingSpace], None]
    left: int = 0
    in_use: SpaceInUse | None = field(default=None, init=False)
    _taking: asyncio.Task[Batch | None] | None = field(default=None, init=False)
    _calls: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_CALLS), init=False)

    async def next(self) -> Batch | None:
        """Return the next batch, None where nothing is to be had."""
        taking = self.take_ahead()
        batch = await asyncio.shield(taking)  # where this is cancelled, `close` gives it back
        self._taking = None
        return batch

    def take_ahead(self) -> asyncio.Task[Batch | None]:
        """Begin to take the next batch."""
        if self._taking is None:
            self._taking = asyncio.create_task(self._take())
        return self._taking

    async def close(self) -> None:
        """Give back what was taken and not asked for."""
        taking, self._taking = self._taking, None
        if taking is not None:
            await asyncio.wait({taking}, timeout=FINISH_SECONDS)
            taking.cancel()  # what Postgres leased without an answer to us, is free when the lease is over
            (batch,) = await asyncio.gather(taking, return_exceptions=True)
            if isinstance(batch, Batch):
                await batch.drop()

    async def _take(self) -> Batch | None:
        selection = self.selection if self.left > 0 else self.at_start
        claim = await self.stores.entries.claim(selection, limit=self._limit(), lease=self.time)
        if not claim.entries:
            return None
        self.left -= len(claim.entries)
        lease = Lease(self.stores, claim, self.time)
        lease.keep()
        try:
            self.in_use = in_use = await bind_space(self.stores, lease.entries, known=self.in_use)
            self.bound(in_use.bound.space)
        except BaseException:
            await to_the_end(lease.end(give_back=True))
            raise
        begun = None
        if in_use.embedder.enough_at_once is not None:
            begun = asyncio.create_task(self._embed(in_use.embedder, lease.entries))
        return Batch(lease=lease, in_use=in_use, begun=begun)

    def _limit(self) -> int:
        embedder = self.in_use.embedder if self.in_use else self.stores.embedder
        if embedder.enough_at_once is None:
            return self.batch
        some = max(_FEWEST, int(self.left * _SHARE))
        if 0 < self.left - some < _FEWEST // 2:  # a batch of their own would cost more than they
            some = self.left
        return min(self.batch, some)

    async def embedded(self, batch: Batch) -> Embedded:
        """Return the vectors of a batch's texts."""
        return await (batch.begun or self._embed(batch.in_use.embedder, batch.lease.entries))

    async def _embed(self, embedder: Embedder, entries: Sequence[Entry]) -> Embedded:
        """Embed every text of the entries, each distinct one once."""
        return await self._embed_read(embedder, entries, await texts.all_as_embedded(entries))

    async def _embed_read(
        self, embedder: Embedder, entries: Sequence[Entry], read: Mapping[EntryId, Mapping[View, str]]
    ) -> Embedded:
        """Embed the texts that are to be read; a batch that is refused is halved to find which."""
        distinct = list(dict.fromkeys(text for entry in entries for text in read[entry.entry_id].values()))
        try:
            vectors, truncated = await self._vectors(embedder, distinct)
        except TextRejected as error:
            if len(entries) == 1:
                dead = DeadEntry(entry_id=entries[0].entry_id, reason=str(error))
                return Embedded(read=read, vectors={}, truncated=0, dead=[dead])
            middle = len(entries) // 2
            one = await self._embed_read(embedder, entries[:middle], read)
            other = await self._embed_read(embedder, entries[middle:], read)
            return Embedded(
                read=read,
                vectors={**one.vectors, **other.vectors},
                truncated=one.truncated + other.truncated,
                dead=[*one.dead, *other.dead],
            )
        return Embedded(read=read, vectors=vectors, truncated=truncated, dead=[])

    async def _vectors(self, embedder: Embedder, told: Sequence[str]) -> tuple[dict[str, Vector], int]:
        """Return vectors by text, and how many texts were cut; no call takes more texts than it gains by."""
        few = embedder.enough_at_once or len(told)
        answers = await all_of(self._call(embedder, told[at : at + few]) for at in range(0, len(told), few))
        vectors = itertools.chain.from_iterable(answer.vectors for answer in answers)
        return dict(zip(told, vectors, strict=True)), sum(len(answer.truncated) for answer in answers)

    async def _call(self, embedder: Embedder, some: Sequence[str]) -> Answer:
        async with self._calls:
            return await embedder.embed(some, "document")
