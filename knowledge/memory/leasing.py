"""The batches of a checkpoint, leased and embedded, each under a lease that is kept alive until it is done with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from knowledge.errors import HardwonError, TextRejected
from knowledge.logs import get_logger
from knowledge.memory import texts
from knowledge.memory.spaces import SpaceInUse
from knowledge.models import DeadEntry, Entry, Vector
from knowledge.ports import Claim, Embedder, Selection, Stores

log = get_logger(__name__)

_FEWEST = 8
"""Entries of a batch at least, where there are so many: each costs a few calls of Postgres, whatever its size."""


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
    """The vectors of a batch's texts. `truncated`: how many texts were cut; `dead`: entries with a refused text."""

    vectors: Mapping[str, Vector]
    truncated: int
    dead: Sequence[DeadEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Leased entries, the space to embed them into, and their embedding where it is under way."""

    lease: Lease
    in_use: SpaceInUse
    begun: asyncio.Task[Embedded] | None

    async def embedded(self) -> Embedded:
        """Return the vectors of the entries' texts."""
        return await (self.begun or embed(self.in_use.embedder, self.lease.entries))

    async def drop(self) -> None:
        """Embed it no longer, and let others take it."""
        if self.begun is not None:
            self.begun.cancel()
            await asyncio.gather(self.begun, return_exceptions=True)
        await self.lease.end(give_back=True)


@dataclass(slots=True, kw_only=True)
class Leasing:
    """Takes batch after batch of a selection, the next one while the one before is embedded.

    An embedder that is quick with few texts is given the next batch before it is done with the one before, so that it
    never waits, and smaller ones towards the end: while the last one is decided and stored, nothing is embedded.
    `left`: how many entries there are to take, as far as is known. `bind`: says of entries into which space they are to
    be embedded.
    """

    stores: Stores
    selection: Selection
    batch: int
    time: timedelta
    left: int
    bind: Callable[[Sequence[Entry]], Awaitable[SpaceInUse]]
    _taking: asyncio.Task[Batch | None] | None = field(default=None, init=False)

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
            (batch,) = await asyncio.gather(taking, return_exceptions=True)
            if isinstance(batch, Batch):
                await batch.drop()

    async def _take(self) -> Batch | None:
        claim = await self.stores.entries.claim(self.selection, limit=self._limit(), lease=self.time)
        if not claim.entries:
            return None
        self.left -= len(claim.entries)
        lease = Lease(self.stores, claim, self.time)
        lease.keep()
        try:
            in_use = await self.bind(lease.entries)
        except BaseException:
            await lease.end(give_back=True)
            raise
        begun = None
        if in_use.embedder.enough_at_once is not None:
            begun = asyncio.create_task(embed(in_use.embedder, lease.entries))
        return Batch(lease=lease, in_use=in_use, begun=begun)

    def _limit(self) -> int:
        enough = self.stores.embedder.enough_at_once
        if enough is None:
            return self.batch
        return min(self.batch, enough, max(_FEWEST, self.left // 2))


async def embed(embedder: Embedder, entries: Sequence[Entry]) -> Embedded:
    """Embed every text of the entries, each distinct one once; a batch that is refused is halved to find which."""
    distinct = list(dict.fromkeys(text for entry in entries for text in texts.views(entry).values()))
    try:
        embedded = await embedder.embed(distinct, "document")
    except TextRejected as error:
        if len(entries) == 1:
            return Embedded(vectors={}, truncated=0, dead=[DeadEntry(entry_id=entries[0].entry_id, reason=str(error))])
        middle = len(entries) // 2
        one, other = await embed(embedder, entries[:middle]), await embed(embedder, entries[middle:])
        return Embedded(
            vectors={**one.vectors, **other.vectors},
            truncated=one.truncated + other.truncated,
            dead=[*one.dead, *other.dead],
        )
    return Embedded(
        vectors=dict(zip(distinct, embedded.vectors, strict=True)), truncated=len(embedded.truncated), dead=[]
    )
