"""Upkeep of a whole store, over all its workspaces: rebuild the index, change the embedding model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import Field

from knowledge.errors import Conflict
from knowledge.logs import get_logger
from knowledge.memory.finishing import to_the_end
from knowledge.memory.locality import refuse_remote
from knowledge.memory.neighbours import AMONG, LEAST_KEPT, NeighbourCount, count_kept_neighbours
from knowledge.memory.spaces import space_in_use
from knowledge.memory.upkeep import KnowledgeUpkeepService, RebuildReport
from knowledge.models import BoundSpace, EmbeddingSpace
from knowledge.ports import Embedder, Progress
from knowledge.provenance import UNHEARD, Auditor
from knowledge.search.calibration import shipped

log = get_logger(__name__)

FEW = 64
"""Texts that may be left to embed during the switch, which holds up the marks of checkpoints for a minute at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReembedReport:
    """What a change of model did. `kept`: share of nearest neighbours that stayed near, 1 where texts were too few.

    `from_model` is None where nothing was embedded before; `forgotten`: models whose vectors were dropped.
    """

    from_model: str | None
    to_model: str
    embedded: int
    kept: float
    switched: bool
    forgotten: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """A model as an operator names it. What is None is as the settings say; a key goes to its own `base_url` only."""

    model: str
    dims: Annotated[int | None, Field(ge=2, le=65536)] = None
    revision: str | None = None
    query_prefix: str | None = None
    document_prefix: str | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUpkeepService:
    """Upkeep of all workspaces. `of` gives the upkeep of one.

    `use` makes this process embed with another embedder. `make` makes the embedder of a model; it raises InvalidInput
    where there can be none. `let_go` is told of each that was made when nothing more is done with it here: it is closed
    unless it came into use.
    """

    workspaces: Callable[[], Awaitable[list[str]]]
    of: Callable[[str], KnowledgeUpkeepService]
    use: Callable[[Embedder], Awaitable[None]]
    make: Callable[[ModelChoice], Embedder]
    let_go: Callable[[Embedder], Awaitable[None]]
    audit: Auditor = UNHEARD

    async def rebuild(self, *, dry_run: bool = False, progress: Progress | None = None) -> RebuildReport:
        """Drop the collection in use and put everything back from Postgres, ids kept; queries find less meanwhile.

        Where it is killed, the next checkpoint or prune puts back the rest. `dry_run`: only say what it would cost.
        """
        if dry_run:
            return await self._rebuild_cost()
        done = RebuildReport(points=0, embedded=0)
        async for upkeep in self._each():
            await upkeep.stores.points.doubt_all()
        if not await self._drop_in_use():
            return done
        async for upkeep in self._each():  # those, too, that came just before the drop
            await upkeep.stores.points.doubt_all()  # what a checkpoint put into the one that was dropped, and marks now
            part = await upkeep.refill(progress=_after(done.points, progress))
            written = await upkeep.beside.refill()
            done = RebuildReport(
                points=done.points + part.points,
                embedded=done.embedded + part.embedded + written.embedded,
                passages=done.passages + written.points,
            )
        log.info("index_rebuilt", points=done.points, passages=done.passages, embedded=done.embedded)
        return done

    async def _drop_in_use(self) -> bool:
        """Drop the collections in use and make them anew, empty; return False where nothing was ever embedded."""
        async for upkeep in self._each():
            in_use = await space_in_use(upkeep.stores)
            if in_use is None:
                return False
            await to_the_end(self._anew(upkeep, in_use.bound.space))
            return True  # they are of the whole store
        return False

    async def _anew(self, upkeep: KnowledgeUpkeepService, space: EmbeddingSpace) -> None:
        """Drop and make anew, never the one without the other: a checkpoint beside it would have nowhere to write."""
        await upkeep.stores.index.anew(space)
        await upkeep.beside.drop(space)

    async def _rebuild_cost(self) -> RebuildReport:
        points = lacking = passages = 0
        async for upkeep in self._each():
            in_use = await space_in_use(upkeep.stores)
            if in_use is not None:
                of_workspace = await upkeep.upkeep.tally(in_use.bound.space)
                of_documents = await upkeep.beside.tally(in_use.bound.space)
                points, passages = points + of_workspace[0], passages + of_documents[0]
                lacking += of_workspace[1] + of_documents[1]
        return RebuildReport(points=points, embedded=lacking, dry_run=True, passages=passages)

    async def reembed_to(
        self,
        choice: ModelChoice,
        *,
        force: bool = False,
        forget_old: bool = False,
        progress: Progress | None = None,
    ) -> ReembedReport:
        """Change over to the model an operator names, as `reembed` does; `forget_old` then drops all other vectors.

        The audit log has what was changed or dropped, nothing where nothing was. Raises InvalidInput, or what `reembed`
        raises.
        """
        embedder = self.make(choice)
        try:
            return await self._reembed_to(choice, embedder, force=force, forget_old=forget_old, progress=progress)
        finally:
            await self.let_go(embedder)

    async def _reembed_to(
        self,
        choice: ModelChoice,
        embedder: Embedder,
        *,
        force: bool,
        forget_old: bool,
        progress: Progress | None,
    ) -> ReembedReport:
        every = await self._every()
        if not every:
            return await self.reembed(embedder, force=force, progress=progress)
        async with every[0].upkeep.changing():
            report = await self._reembed(every, embedder, force=force, progress=progress)
            if report.switched:
                await self.audit.note("embedding model changed", model=choice.model, forgot_others=forget_old)
            if not forget_old:
                return report
            forgotten = await self._forget_unused(await self._every())
        if forgotten and not report.switched:
            await self.audit.note("vectors of other models dropped", model=choice.model, forgotten=forgotten)
        return replace(report, forgotten=forgotten)

    async def reembed(
        self, embedder: Embedder, *, force: bool = False, progress: Progress | None = None
    ) -> ReembedReport:
        """Embed everything with another model beside the one in use, then switch; queries and captures go on.

        May be broken off and called again; after the switch `finish` does the rest as well. Going back is the same call
        with the old model, whose vectors are still there. Raises Conflict, and switches nothing, where the new model
        keeps too few neighbours, unless `force`, and beside another change of model.
        """
        every = await self._every()
        if not every:
            await self.use(embedder)
            model = (await embedder.space()).model
            return ReembedReport(from_model=None, to_model=model, embedded=0, kept=1.0, switched=False)
        async with every[0].upkeep.changing():
            return await self._reembed(every, embedder, force=force, progress=progress)

    async def finish(self) -> bool:
        """Finish a change of model that died after its switch; return whether there was one. For the clock.

        Points of documents go that the index has for spaces that are not in use. Does nothing beside a change that is
        under way. Raises SpaceMismatch where this process embeds with another model.
        """
        every = await self._every()
        if not every or not await every[0].upkeep.unused_spaces():
            return False
        async with AsyncExitStack() as held:
            try:
                await held.enter_async_context(every[0].upkeep.changing())
            except Conflict:
                return False
            died = await every[0].upkeep.unfinished()
            if died and (in_use := await space_in_use(every[0].stores)):
                space = in_use.bound.space
                embedded = await self._finish(space, await every[0].stores.embedder.of_space(space))
                log.warning("space_switch_finished", model=space.model, embedded=embedded)
            for other in await every[0].upkeep.unused_spaces():
                await every[0].beside.leave(other)
        return died

    async def _reembed(
        self,
        every: Sequence[KnowledgeUpkeepService],
        embedder: Embedder,
        *,
        force: bool,
        progress: Progress | None,
    ) -> ReembedReport:
        bound = await every[0].stores.spaces.bound()
        space = await embedder.space()
        if bound is None or bound.space.fingerprint == space.fingerprint:
            await self.use(embedder)
            was = None if bound is None else bound.space.model
            embedded = 0 if bound is None else await self._finish(space, embedder)  # one may have died there
            return ReembedReport(from_model=was, to_model=space.model, embedded=embedded, kept=1.0, switched=False)
        for upkeep in every:
            await refuse_remote(upkeep.stores, space)
        await embedder.recognise(space)  # that there may be nothing left to embed does not mean it is the same model
        into = await every[0].upkeep.prepare(space, mean_terms=bound.mean_terms, calibration=shipped(space.model))
        await every[0].stores.index.ensure(space, in_use=False)
        embedded = await _backfill(every, into, embedder, progress=progress)
        while (more := await _backfill(every, into, embedder, lacking=True)) > FEW:
            embedded += more
        embedded += more + await self._documents_into(every, space, embedder, progress=_after(embedded, progress))
        kept = await _neighbours_kept(every, bound.space, space)
        if kept < LEAST_KEPT and not force:
            raise Conflict(
                f"{space.model} keeps only {kept:.0%} of the nearest neighbours that {bound.space.model} finds:"
                " nothing was switched; say --force if that is wanted"
            )
        # from here on both are known: what is asked for in either space is embedded by its own
        await self.use(embedder)
        async with every[0].upkeep.switching(space):
            # what came in since, in new workspaces too: nothing is marked while the lock is held
            by_now = await self._every()
            for upkeep in by_now:
                await refuse_remote(upkeep.stores, space)
            embedded += await _backfill(by_now, into, embedder, lacking=True)
        embedded += await self._finish(space, embedder)
        log.info("space_switched", model=space.model, fingerprint=space.fingerprint, embedded=embedded)
        return ReembedReport(
            from_model=bound.space.model, to_model=space.model, embedded=embedded, kept=kept, switched=True
        )

    async def _finish(self, space: EmbeddingSpace, embedder: Embedder) -> int:
        """Put into the space in use what came, went or changed beside the switch; return how many texts were embedded.

        Costs nothing but a look where there is nothing to do.
        """
        every = await self._every()
        embedded = await self._documents_into(every, space, embedder)  # what was shown since, for the old space
        others = [other for other in await every[0].stores.spaces.known() if other.fingerprint != space.fingerprint]
        for upkeep in every:
            for other in others:
                await upkeep.beside.switched(other, space)
        await every[0].stores.index.ensure(space)
        for upkeep in every:  # what went or changed since it was put there, this time or when the space was last in use
            await upkeep.verify(repair=True)
        await every[0].upkeep.finished()
        return embedded

    async def _documents_into(
        self,
        every: Sequence[KnowledgeUpkeepService],
        space: EmbeddingSpace,
        embedder: Embedder,
        *,
        progress: Progress | None = None,
    ) -> int:
        """Put documents into the collection of a space; return how many texts were embedded."""
        embedded = 0
        for upkeep in every:
            told = _after(embedded, progress)
            embedded += (await upkeep.beside.backfill(space, embedder, progress=told)).embedded
        return embedded

    async def _forget_unused(self, every: Sequence[KnowledgeUpkeepService]) -> int:
        """Drop collections and vectors of spaces that are not in use: after that going back costs embedding again."""
        spaces = await every[0].upkeep.unused_spaces()
        for space in spaces:  # they are of the whole store: any workspace will do for what was learned
            for upkeep in every:
                await upkeep.beside.forget(space)
            await every[0].stores.index.drop(space)
            await every[0].upkeep.forget_space(space)
        await every[0].upkeep.forget_unknown()
        return len(spaces)

    async def _every(self) -> list[KnowledgeUpkeepService]:
        return [upkeep async for upkeep in self._each()]

    async def _each(self) -> AsyncIterator[KnowledgeUpkeepService]:
        for workspace in await self.workspaces():
            yield self.of(workspace)


async def _backfill(
    every: Sequence[KnowledgeUpkeepService],
    into: BoundSpace,
    embedder: Embedder,
    *,
    lacking: bool = False,
    progress: Progress | None = None,
) -> int:
    embedded = before = 0
    total = sum([(await upkeep.upkeep.tally(into.space))[0] for upkeep in every]) if progress else None
    for upkeep in every:
        told = _after(before, progress, total)
        embedded += await upkeep.backfill(into, embedder, lacking=lacking, progress=told)
        before += (await upkeep.upkeep.tally(into.space))[0] if progress else 0
    return embedded


def _after(before: int, progress: Progress | None, total: int | None = None) -> Progress | None:
    """Return what is told of a part's progress, where `before` were done before it."""
    if progress is None:
        return None

    def told(done: int, _: int | None) -> None:
        progress(before + done, total if total is None else max(total, before + done))

    return told


async def _neighbours_kept(every: Sequence[KnowledgeUpkeepService], old: EmbeddingSpace, new: EmbeddingSpace) -> float:
    """Return the share of nearest neighbours that stayed near: of situations or of passages, whichever kept fewer."""
    learned, written = NeighbourCount(), NeighbourCount()
    for upkeep in every:
        situations = await upkeep.stores.spaces.sample_in_both(old, new, AMONG)
        learned += await asyncio.to_thread(count_kept_neighbours, *situations)
        passages = await upkeep.beside.sample_in_both(old, new, AMONG)
        written += await asyncio.to_thread(count_kept_neighbours, *passages)
    return min(learned.share, written.share)
