"""The batches of a checkpoint, each under a lease that is kept alive until it is done with."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from knowledge.errors import HardwonError
from knowledge.logs import get_logger
from knowledge.ports import Claim, Selection, Stores

log = get_logger(__name__)

_FEWEST = 16
"""Entries of a batch at least, where there are so many: each costs a few calls of Postgres, whatever its size."""


@dataclass(slots=True)
class Lease:
    """A claim that is kept alive until it is let go of: extended each third of its time."""

    stores: Stores
    claim: Claim
    time: timedelta
    _beating: asyncio.Task[None] | None = None

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


@dataclass(slots=True, kw_only=True)
class Leasing:
    """Takes batch after batch of a selection, the next one while the one before is embedded.

    An embedder that is quick with few texts gets smaller batches towards the end: while the last one is decided and
    stored, nothing is embedded. `left`: how many entries there are to take, as far as is known.
    """

    stores: Stores
    selection: Selection
    batch: int
    time: timedelta
    left: int
    _taking: asyncio.Task[Lease | None] | None = field(default=None, init=False)

    async def next(self) -> Lease | None:
        """Return a lease on the next batch, None where nothing is to be had."""
        taking = self.take_ahead()
        lease = await asyncio.shield(taking)  # where this is cancelled, `close` gives it back
        self._taking = None
        return lease

    def take_ahead(self) -> asyncio.Task[Lease | None]:
        """Begin to take the next batch."""
        if self._taking is None:
            self._taking = asyncio.create_task(self._take())
        return self._taking

    async def close(self) -> None:
        """Give back what was taken and not asked for."""
        taking, self._taking = self._taking, None
        if taking is not None:
            (lease,) = await asyncio.gather(taking, return_exceptions=True)
            if isinstance(lease, Lease):
                await lease.end(give_back=True)

    async def _take(self) -> Lease | None:
        claim = await self.stores.entries.claim(self.selection, limit=self._limit(), lease=self.time)
        if not claim.entries:
            return None
        self.left -= len(claim.entries)
        lease = Lease(self.stores, claim, self.time)
        lease.keep()
        return lease

    def _limit(self) -> int:
        enough = self.stores.embedder.enough_at_once
        if enough is None:
            return self.batch
        return min(self.batch, enough, max(_FEWEST, self.left // 2))
