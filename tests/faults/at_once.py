"""Several things at once on the same stores, some given up half-way and done again: one step of the soak."""

from __future__ import annotations

import asyncio
import functools
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from hardwon.errors import IndexUnavailable, NotFound
from knowledge.models import EntryId, NewEntry, Pattern
from knowledge.wiring.open import Knowledge
from tests.faults.model import Diverged
from tests.support.embedders import HashingEmbedder

DIMS = 64
MODELS = ("hashing", "hashing otherwise")
"""The embedding models that a soak changes to and fro between."""

WORK = ("checkpoint", "prune", "rebuild", "reembed", "repair", "verify")

_MAKES_VERIFY_SEE_FAULTS = {"prune", "rebuild", "reembed"}
"""While these go on, index and Postgres do differ for a moment."""

_GIVEN_UP = 0.15


@dataclass(kw_only=True)
class AtOnce:
    """What is done at once with stores, and what came of it.

    `works`: names of `WORK`, beside a checkpoint of all there is; `to_model`: which one `reembed` changes to.
    `deleting` names what somebody deletes meanwhile, and `asked` the failure that is asked for again and again.
    """

    knowledge: Knowledge
    rng: random.Random
    works: Sequence[str]
    to_model: str
    told: Sequence[NewEntry] = ()
    deleting: EntryId | None = None
    asked: str | None = None
    captured: list[tuple[EntryId, NewEntry]] = field(default_factory=list)
    shown: Counter[int | None] = field(default_factory=Counter)
    embedded: int = 0
    pruned: int = 0
    given_up: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Do it all. Raises Diverged where anything fails that must not."""
        doing: list[Awaitable[None]] = [self._soon(self.checkpoint, "checkpoint")]
        doing += [self._soon(getattr(self, name), name) for name in self.works]
        doing += [self._soon(functools.partial(self._capture, told)) for told in self.told]
        if self.deleting is not None:
            doing.append(self._soon(self._delete))
        if self.asked is not None:
            doing += [self._soon(self._ask) for _ in range(4)]
        came_of_it = await asyncio.gather(*doing, return_exceptions=True)
        await self.checkpoint()
        for error in came_of_it:
            if error is not None:
                raise Diverged(f"{self}: {type(error).__name__}: {error}") from error

    def __str__(self) -> str:
        """Say what was done at once."""
        said = [*self.works, f"{len(self.told)} captures", *(["a deletion"] if self.deleting else [])]
        return f"a checkpoint beside {', '.join(said)}, given up: {', '.join(self.given_up) or 'nothing'}"

    async def checkpoint(self) -> None:
        report = await self.knowledge.checkpoints.process_all()
        self.embedded += report.embedded

    async def prune(self) -> None:
        pruned = await self.knowledge.pruning.prune_old_knowledge()
        self.pruned += pruned

    async def rebuild(self) -> None:
        await self.knowledge.store_upkeep.rebuild()

    async def reembed(self) -> None:
        await self.knowledge.store_upkeep.reembed(HashingEmbedder(dims=DIMS, model=self.to_model), force=True)

    async def repair(self) -> None:
        report = await self.knowledge.upkeep.verify(repair=True)
        if not report.sound:
            raise Diverged(f"a repair left {report}")

    async def verify(self) -> None:
        report = await self.knowledge.upkeep.verify()
        if not report.sound and self.deleting is None and not _MAKES_VERIFY_SEE_FAULTS & set(self.works):
            raise Diverged(f"verify says {report}")

    async def _soon(self, do: Callable[[], Awaitable[None]], name: str = "") -> None:
        await asyncio.sleep(self.rng.uniform(0, 0.02))
        if name and self.rng.random() < _GIVEN_UP:
            self.given_up.add(name)
            doing = asyncio.ensure_future(do())
            await asyncio.wait({doing}, timeout=self.rng.uniform(0, 0.05))
            doing.cancel()
            (error,) = await asyncio.gather(doing, return_exceptions=True)
            if isinstance(error, Exception):
                raise error
        await do()

    async def _capture(self, told: NewEntry) -> None:
        self.captured.append((await self.knowledge.capture.capture(told), told))

    async def _delete(self) -> None:
        assert self.deleting is not None
        await self.knowledge.capture.delete(self.deleting)
        try:
            await self.knowledge.capture.delete(self.deleting)
        except NotFound:
            return
        raise Diverged(f"{self.deleting} was deleted twice")

    async def _ask(self) -> None:
        assert self.asked is not None
        try:
            found = await self.knowledge.queries.query_for_failure(self.asked, min_relevance=0, max_results=50)
        except IndexUnavailable:
            if "rebuild" not in self.works:  # which empties it first, and a question is told so
                raise
            found = []
        counts: list[int | None] = [*shown_of(found, self.asked)]
        self.shown.update(counts or [None])


def shown_of(found: Sequence[Pattern], asked: str) -> list[int]:
    """Return the successes of the patterns that are shown for exactly this failure: one pattern, or none."""
    return [pattern.success_count for pattern in found if pattern.problem == asked]
