"""Upkeep of a whole store, over all its workspaces: rebuild the index, change the embedding model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

import numpy as np

from hardwon.errors import Conflict
from hardwon.event_log import get_logger
from hardwon.models.maintenance import ModelChoice, RebuildReport, ReembedReport
from knowledge.access.provenance import NO_AUDIT, Auditor
from knowledge.memory.index.embedding_space import space_in_use
from knowledge.memory.index.residency import refuse_remote
from knowledge.memory.maintenance.layout import build_layout, drop_older_layouts, write_rest
from knowledge.memory.maintenance.recall import layout_differences
from knowledge.memory.maintenance.verify import KnowledgeUpkeepService
from knowledge.models import BoundSpace, EmbeddingSpace, Vector
from knowledge.ports import Embedder, Progress
from knowledge.retrieval.calibration import default_calibration
from knowledge.runtime.scheduling import run_to_completion

MAX_COMPARED = 100
"""Texts per workspace and kind whose nearest neighbour is compared in both spaces before a switch."""
MAX_SAMPLE = 400
"""Texts per workspace and kind that are read from both spaces for that: the compared ones and possible neighbours."""
MIN_TEXTS = 12
"""Minimum texts per workspace and kind to judge a model; with fewer, chance alone keeps too many neighbours."""
MIN_KEPT = 0.5
"""Share of nearest neighbours that must stay near, or a switch is refused: the new model finds other texts similar.

Measured on 20 to 400 texts of the sets of docs/evaluation.md (failures, runbooks, passages), against the bundled
model: multilingual-e5-small in four bits keeps 0.77 to 1.00, the bundled one by its first token instead of the mean
0.70 to 0.95, with 32 of its 256 tokens 0.66 to 0.87, with noise as long as its vectors 0.81 to 0.91; random vectors
0.03 to 0.08 of 180 texts and more, 0.20 of 20. Of 15 texts, drawn 300 times, E5 keeps 0.68 to 0.93 on average, random
vectors 0.22, and as much as 0.53 once in a hundred draws.
"""
_MAX_NEAR = 10
_SAME_COSINE = 0.999
"""Cosine of practically identical texts, which are near each other for any model; ours."""


@dataclass(frozen=True, slots=True)
class NeighbourCount:
    """Number of compared texts, and of those whose nearest neighbour stayed near."""

    compared: int = 0
    kept: int = 0

    def __add__(self, other: NeighbourCount) -> NeighbourCount:
        """Return the sum of both."""
        return NeighbourCount(self.compared + other.compared, self.kept + other.kept)

    @property
    def share(self) -> float:
        """The share that stayed near, 1 where nothing was compared."""
        return self.kept / self.compared if self.compared else 1.0


def count_kept_neighbours(before: Vector, after: Vector) -> NeighbourCount:
    """Count the texts whose nearest neighbour in one space is near in the other; vectors: (n, dims), of length 1.

    Near means among the ten nearest, of fewer than 50 texts among the nearest fifth; a tie counts as farther.
    Practically identical texts are ignored.
    """
    texts = len(before)
    if texts < MIN_TEXTS:
        return NeighbourCount()
    near = min(_MAX_NEAR, texts // 5)
    compared = min(texts, MAX_COMPARED)
    cosines_before, cosines_after = before[:compared] @ before.T, after[:compared] @ after.T
    ignored = cosines_before > _SAME_COSINE
    ignored[np.arange(compared), np.arange(compared)] = True
    cosines_before[ignored] = cosines_after[ignored] = -np.inf
    rows = np.flatnonzero(~ignored.all(axis=1))
    nearest = cosines_before[rows].argmax(axis=1)
    places = (cosines_after[rows] >= cosines_after[rows, nearest][:, np.newaxis]).sum(axis=1)
    return NeighbourCount(len(rows), int((places <= near).sum()))


log = get_logger(__name__)
MAX_DURING_SWITCH = 64
"""Texts that may remain to be embedded during the switch, which blocks checkpoints' marks for a minute at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUpkeepService:
    """Upkeep of all workspaces. `of` returns the upkeep of one.

    `use`: make this process embed with another embedder. `make`: create the embedder of a model; raises InvalidInput
    where that is impossible. `let_go`: called once a created embedder is no longer needed here; closes it unless it is
    in use.
    """

    workspaces: Callable[[], Awaitable[list[str]]]
    of: Callable[[str], KnowledgeUpkeepService]
    use: Callable[[Embedder], Awaitable[None]]
    make: Callable[[ModelChoice], Embedder]
    release: Callable[[Embedder], Awaitable[None]]
    audit: Auditor = NO_AUDIT

    async def rebuild(self, *, dry_run: bool = False, progress: Progress | None = None) -> RebuildReport:
        """Drop the collection in use and restore it from Postgres with the same ids; queries find less meanwhile.

        After a kill the next checkpoint or prune restores the rest. `dry_run`: only report the cost.
        """
        if dry_run:
            return await self._rebuild_cost()
        report = RebuildReport(points=0, embedded=0)
        async for upkeep in self._each():
            await upkeep.stores.points.mark_all_dirty()
        if not await self._drop_in_use():
            return report
        async for upkeep in self._each():  # including workspaces that appeared just before the drop
            await upkeep.stores.points.mark_all_dirty()  # points that a checkpoint wrote before the drop
            refilled = await upkeep.refill(progress=_offset_progress(report.points, progress))
            documents = await upkeep.documents.refill()
            report = RebuildReport(
                points=report.points + refilled.points,
                embedded=report.embedded + refilled.embedded + documents.embedded,
                passages=report.passages + documents.points,
            )
        log.info("index_rebuilt", points=report.points, passages=report.passages, embedded=report.embedded)
        return report

    async def rebuild_layout(self, *, dry_run: bool = False, progress: Progress | None = None) -> RebuildReport:
        """Give the collections the layout that the settings ask for, beside those in use, then switch to them at once.

        Queries, captures and checkpoints continue. Can be interrupted and called again. Does nothing where the layout
        is as asked for, as it is with the embedded engine.
        """
        every = await self._list_upkeeps()
        in_use = await space_in_use(every[0].stores) if every else None
        if in_use is None:
            return RebuildReport(points=0, embedded=0, dry_run=dry_run)
        async with AsyncExitStack() as locks:
            if not dry_run:
                await locks.enter_async_context(every[0].upkeep.lock_model_change())
            differences = await layout_differences(every[0].stores, every[0].documents, in_use.bound.space)
            cost = replace(await self._rebuild_cost(), embedded=0, layout_changes=differences)
            if dry_run or not differences:
                return cost if dry_run else replace(cost, dry_run=False, points=0, passages=0)
            into = await build_layout(every, in_use.bound, in_use.embedder, progress=progress)
            async with every[0].upkeep.begin_switch(into.space):
                await write_rest(await self._list_upkeeps(), into)
            await self._finish(into.space, in_use.embedder)
        log.info("index_laid_out", collection=into.space.collection, changes=differences)
        return replace(cost, dry_run=False)

    async def _drop_in_use(self) -> bool:
        """Recreate the collections in use, empty; return False where nothing was ever embedded."""
        async for upkeep in self._each():
            in_use = await space_in_use(upkeep.stores)
            if in_use is None:
                return False
            await run_to_completion(self._recreate(upkeep, in_use.bound.space))
            return True  # collections are shared by all workspaces
        return False

    async def _recreate(self, upkeep: KnowledgeUpkeepService, space: EmbeddingSpace) -> None:
        """Drop and recreate the collections, never only one step: a concurrent checkpoint could not write."""
        await upkeep.stores.index.recreate(space)
        await upkeep.documents.drop(space)

    async def _rebuild_cost(self) -> RebuildReport:
        points = missing = passages = 0
        async for upkeep in self._each():
            in_use = await space_in_use(upkeep.stores)
            if in_use is not None:
                of_workspace = await upkeep.upkeep.tally(in_use.bound.space)
                of_documents = await upkeep.documents.tally(in_use.bound.space)
                points, passages = points + of_workspace[0], passages + of_documents[0]
                missing += of_workspace[1] + of_documents[1]
        return RebuildReport(points=points, embedded=missing, dry_run=True, passages=passages)

    async def reembed_to(
        self,
        choice: ModelChoice,
        *,
        force: bool = False,
        forget_old: bool = False,
        progress: Progress | None = None,
    ) -> ReembedReport:
        """Switch to a model that an operator names, as `reembed` does; `forget_old` then drops all other vectors.

        Changes are noted in the audit log. Raises InvalidInput, or what `reembed` raises.
        """
        embedder = self.make(choice)
        try:
            return await self._reembed_to(choice, embedder, force=force, forget_old=forget_old, progress=progress)
        finally:
            await self.release(embedder)

    async def _reembed_to(
        self,
        choice: ModelChoice,
        embedder: Embedder,
        *,
        force: bool,
        forget_old: bool,
        progress: Progress | None,
    ) -> ReembedReport:
        every = await self._list_upkeeps()
        if not every:
            return await self.reembed(embedder, force=force, progress=progress)
        async with every[0].upkeep.lock_model_change():
            report = await self._reembed(every, embedder, force=force, progress=progress)
            if report.switched:
                await self.audit.record("embedding model changed", model=choice.model, forgot_others=forget_old)
            if not forget_old:
                return report
            forgotten = await self._forget_unused(await self._list_upkeeps())
        if forgotten and not report.switched:
            await self.audit.record("vectors of other models dropped", model=choice.model, forgotten=forgotten)
        return replace(report, forgotten=forgotten)

    async def reembed(
        self, embedder: Embedder, *, force: bool = False, progress: Progress | None = None
    ) -> ReembedReport:
        """Embed everything with another model next to the one in use, then switch; queries and captures continue.

        Can be interrupted and called again; after the switch `finish` completes it as well. To go back, call it with
        the old model, whose vectors are still there. Raises Conflict without switching during another change of model,
        and, unless `force`, where the new model keeps too few neighbours.
        """
        every = await self._list_upkeeps()
        if not every:
            await self.use(embedder)
            model = (await embedder.space()).model
            return ReembedReport(from_model=None, to_model=model, embedded=0, kept=1.0, switched=False)
        async with every[0].upkeep.lock_model_change():
            return await self._reembed(every, embedder, force=force, progress=progress)

    async def finish(self) -> bool:
        """Finish a change of model that was killed after its switch; return whether there was one. For the scheduler.

        Also drops documents' points of unused spaces. Does nothing during a running change. Raises SpaceMismatch where
        this process embeds with another model.
        """
        every = await self._list_upkeeps()
        if not every or not (
            await every[0].upkeep.find_unused_spaces() or await every[0].upkeep.has_unfinished_change()
        ):
            return False
        async with AsyncExitStack() as locks:
            try:
                await locks.enter_async_context(every[0].upkeep.lock_model_change())
            except Conflict:
                return False
            was_interrupted = await every[0].upkeep.has_unfinished_change()
            if was_interrupted and (in_use := await space_in_use(every[0].stores)):
                space = in_use.bound.space
                embedded = await self._finish(space, await every[0].stores.embedder.embedder_for(space))
                log.warning("space_switch_finished", model=space.model, embedded=embedded)
            for other in await every[0].upkeep.find_unused_spaces():
                await every[0].documents.leave(other)
        return was_interrupted

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
            from_model = None if bound is None else bound.space.model
            embedded = (
                0 if bound is None else await self._finish(bound.space, embedder)
            )  # an earlier switch may have been killed
            return ReembedReport(
                from_model=from_model, to_model=space.model, embedded=embedded, kept=1.0, switched=False
            )
        for upkeep in every:
            await refuse_remote(upkeep.stores, space)
        await embedder.recognise(space)  # even with nothing left to embed it may be another model
        into = await every[0].upkeep.prepare(
            space, mean_terms=bound.mean_terms, calibration=default_calibration(space.model)
        )
        space = into.space  # with the layout that it had when it was last in use
        await every[0].stores.index.ensure(space, in_use=False)
        embedded = await _backfill(every, into, embedder, progress=progress)
        while (more := await _backfill(every, into, embedder, only_missing=True)) > MAX_DURING_SWITCH:
            embedded += more
        embedded += more + await self._backfill_documents(
            every, space, embedder, progress=_offset_progress(embedded, progress)
        )
        kept = await _share_of_kept_neighbours(every, bound.space, space)
        if kept < MIN_KEPT and not force:
            raise Conflict(
                f"{space.model} keeps only {kept:.0%} of the nearest neighbours that {bound.space.model} finds:"
                " nothing was switched; use --force to switch anyway"
            )
        # from here on queries in either space are embedded by its own embedder
        await self.use(embedder)
        async with every[0].upkeep.begin_switch(space):
            # entries captured since, in new workspaces too: nothing is marked while the lock is held
            every_now = await self._list_upkeeps()
            for upkeep in every_now:
                await refuse_remote(upkeep.stores, space)
            embedded += await _backfill(every_now, into, embedder, only_missing=True)
        embedded += await self._finish(space, embedder)
        log.info("space_switched", model=space.model, fingerprint=space.fingerprint, embedded=embedded)
        return ReembedReport(
            from_model=bound.space.model, to_model=space.model, embedded=embedded, kept=kept, switched=True
        )

    async def _finish(self, space: EmbeddingSpace, embedder: Embedder) -> int:
        """Apply changes made during the switch to the space in use; return the number of texts embedded.

        Cheap where there is nothing to do.
        """
        every = await self._list_upkeeps()
        embedded = await self._backfill_documents(every, space, embedder)  # documents added since, to the old space
        others = [
            other for other in await every[0].stores.spaces.list_spaces() if other.fingerprint != space.fingerprint
        ]
        for upkeep in every:
            for other in others:
                await upkeep.documents.note_switch(other, space)
        await every[0].stores.index.ensure(space)
        for upkeep in every:  # deleted or changed since they were written, now or when the space was last in use
            await upkeep.verify(repair=True)
        await drop_older_layouts(every, space)
        await every[0].upkeep.mark_change_finished()
        return embedded

    async def _backfill_documents(
        self,
        every: Sequence[KnowledgeUpkeepService],
        space: EmbeddingSpace,
        embedder: Embedder,
        *,
        progress: Progress | None = None,
    ) -> int:
        """Write documents to the collection of a space; return the number of texts embedded."""
        embedded = 0
        for upkeep in every:
            offset_progress = _offset_progress(embedded, progress)
            embedded += (await upkeep.documents.backfill(space, embedder, progress=offset_progress)).embedded
        return embedded

    async def _forget_unused(self, every: Sequence[KnowledgeUpkeepService]) -> int:
        """Drop collections and vectors of unused spaces; going back then costs embedding again."""
        spaces = await every[0].upkeep.find_unused_spaces()
        for space in spaces:  # patterns' collections are shared by all workspaces: any will do
            for upkeep in every:
                await upkeep.documents.forget(space)
            await every[0].stores.index.drop(space)
            await every[0].upkeep.forget_space(space)
        await every[0].upkeep.forget_unknown()
        return len(spaces)

    async def _list_upkeeps(self) -> list[KnowledgeUpkeepService]:
        return [upkeep async for upkeep in self._each()]

    async def _each(self) -> AsyncIterator[KnowledgeUpkeepService]:
        for workspace in await self.workspaces():
            yield self.of(workspace)


async def _backfill(
    every: Sequence[KnowledgeUpkeepService],
    into: BoundSpace,
    embedder: Embedder,
    *,
    only_missing: bool = False,
    progress: Progress | None = None,
) -> int:
    embedded = before = 0
    total = sum([(await upkeep.upkeep.tally(into.space))[0] for upkeep in every]) if progress else None
    for upkeep in every:
        offset_progress = _offset_progress(before, progress, total)
        embedded += await upkeep.backfill(into, embedder, only_missing=only_missing, progress=offset_progress)
        before += (await upkeep.upkeep.tally(into.space))[0] if progress else 0
    return embedded


def _offset_progress(before: int, progress: Progress | None, total: int | None = None) -> Progress | None:
    """Return a progress callback for a part of the work, offset by `before`."""
    if progress is None:
        return None

    def report(done: int, _: int | None) -> None:
        progress(before + done, total if total is None else max(total, before + done))

    return report


async def _share_of_kept_neighbours(
    every: Sequence[KnowledgeUpkeepService], old: EmbeddingSpace, new: EmbeddingSpace
) -> float:
    """Return the share of nearest neighbours that stayed near, the smaller of situations and passages."""
    of_situations, of_passages = NeighbourCount(), NeighbourCount()
    for upkeep in every:
        situations = await upkeep.stores.spaces.sample_in_both(old, new, MAX_SAMPLE)
        of_situations += await asyncio.to_thread(count_kept_neighbours, *situations)
        passages = await upkeep.documents.sample_in_both(old, new, MAX_SAMPLE)
        of_passages += await asyncio.to_thread(count_kept_neighbours, *passages)
    return min(of_situations.share, of_passages.share)
