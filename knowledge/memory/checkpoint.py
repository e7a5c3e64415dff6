"""Checkpoints: what is staged gets embedded in batches, decided, put into the index and marked, in that order.

Whatever is killed when, a later checkpoint repeats the same step with the same ids: claim (lease) -> embed -> decide
(one transaction) -> upsert (durable) -> mark and recount (one transaction).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from knowledge.errors import HardwonError, InvalidInput, TextRejected, Unavailable
from knowledge.memory import consolidation, texts
from knowledge.memory.capture import check_text
from knowledge.memory.consolidation import Embedding
from knowledge.memory.points import to_point
from knowledge.memory.retention import add_years
from knowledge.memory.spaces import SpaceInUse, bind_space, recalibrate_if_grown
from knowledge.models import (
    BoundSpace,
    CheckpointId,
    CheckpointReport,
    CheckpointType,
    DeadEntry,
    Decision,
    Entry,
    EntryId,
    Point,
    PointId,
    Vector,
)
from knowledge.ports import Claim, Embedder, Progress, Selection, Stores
from knowledge.search.lexical import term_counts

log = structlog.get_logger(__name__)

_LOOK_AGAIN_SECONDS = 0.5
"""How often a checkpoint looks whether what others hold is done, or their lease is over."""

_MANY = 100
"""New situations in one checkpoint from which on Postgres should not plan as if its tables were empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """What became of one claimed batch."""

    embedded: int = 0
    founded: int = 0
    truncated: int = 0
    dead: tuple[DeadEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEmbeddingService:
    """Processes staged knowledge at checkpoints and embeds it."""

    stores: Stores
    batch: int
    lease: timedelta
    deadline: timedelta
    retention_years: int

    async def process_checkpoint(
        self, project_id: str, checkpoint_type: CheckpointType | str, *, progress: Progress | None = None
    ) -> CheckpointReport:
        """Embed what a project has staged; complete or cancelled projects abandon what was never resolved.

        Raises InvalidInput for an unknown type, Unavailable when a store or the embedder does not answer: what was done
        by then stays done, the rest stays staged.
        """
        check_text("project_id", project_id)
        return await self._process(project_id, _checkpoint_type(checkpoint_type), progress)

    async def process_all(self, *, progress: Progress | None = None) -> CheckpointReport:
        """Embed what all projects have staged, as a manual checkpoint."""
        return await self._process(None, CheckpointType.MANUAL, progress)

    async def sweep(self, *, staged_for: timedelta) -> list[CheckpointReport]:
        """Run a manual checkpoint for each project with something staged for that long: those that never reach one."""
        before = self.stores.clock.now() - staged_for
        projects = await self.stores.entries.due_projects(before)
        return [await self._process(project, CheckpointType.MANUAL, None) for project in projects]

    async def get(self, checkpoint_id: CheckpointId) -> CheckpointReport:
        """Return the report of a checkpoint. Raises NotFound."""
        return await self.stores.checkpoints.get(checkpoint_id)

    async def _process(
        self,
        project_id: str | None,
        checkpoint_type: CheckpointType,
        progress: Progress | None,
    ) -> CheckpointReport:
        stores = self.stores
        report = await stores.checkpoints.start(project_id, checkpoint_type, stores.clock.now())
        ends = {CheckpointType.PROJECT_COMPLETION, CheckpointType.CANCELLATION}
        cancelled = checkpoint_type is CheckpointType.CANCELLATION
        if project_id is not None and checkpoint_type in ends:
            abandoned = await stores.entries.abandon(project_id, unvouched=cancelled)
            report = replace(report, abandoned=abandoned)
        selection = Selection(project_id=project_id, only_vouched=cancelled)
        try:
            async with asyncio.timeout(self.deadline.total_seconds()):
                async for so_far in self._run(report, selection, progress):
                    report = so_far
        except TimeoutError:
            late = f"the checkpoint did not end within {self.deadline}: the rest stays staged for the next one"
            await self._finish(replace(report, error=late))
            raise Unavailable(late) from None
        except HardwonError as error:
            with suppress(HardwonError):  # where Postgres is gone, so is the record of it
                await self._finish(replace(report, error=str(error)))
            raise
        return await self._finish(report)

    async def _finish(self, report: CheckpointReport) -> CheckpointReport:
        report = replace(report, finished_at=self.stores.clock.now())
        await self.stores.checkpoints.finish(report)
        log.info("checkpoint_finished", checkpoint_id=str(report.checkpoint_id), embedded=report.embedded)
        return report

    async def _run(
        self, report: CheckpointReport, selection: Selection, progress: Progress | None
    ) -> AsyncIterator[CheckpointReport]:
        """Embed batch after batch; yield the report after each."""
        total = await self.stores.entries.pending(selection) if progress else 0
        done = 0
        async for batch in self._batches(selection, report.started_at):
            report = replace(
                report,
                embedded=report.embedded + batch.embedded,
                founded=report.founded + batch.founded,
                joined=report.joined + batch.embedded - batch.founded,
                truncated=report.truncated + batch.truncated,
                dead=report.dead + len(batch.dead),
                dead_entries=report.dead_entries + batch.dead,
            )
            done += batch.embedded + len(batch.dead)
            if progress:
                progress(done, max(total, done))
            yield report

    async def _batches(self, selection: Selection, started_at: datetime) -> AsyncIterator[_Batch]:
        """Claim and embed batch after batch, until nothing is left of what was there at the start.

        What another process holds is waited for: it embeds it, or dies and its lease runs out.
        """
        in_use: SpaceInUse | None = None
        there_at_start = replace(selection, captured_before=started_at + timedelta(microseconds=1))
        before = (await self.stores.spaces.statistics([])).documents
        try:
            while True:
                claim = await self._claim(selection)
                if not claim.entries:
                    if not await self.stores.entries.pending(there_at_start):
                        break
                    await asyncio.sleep(_LOOK_AGAIN_SECONDS)
                    continue
                async with self._alive(claim):
                    in_use = await bind_space(self.stores, [texts.situation(e) for e in claim.entries], known=in_use)
                    batch = await self._embed(in_use, claim)
                yield batch
        finally:
            if in_use is not None:
                await self._grown(in_use.bound, before)

    async def _grown(self, bound: BoundSpace, before: int) -> None:
        """See to it that relevance and Postgres' plans fit what is there now."""
        documents = (await self.stores.spaces.statistics([])).documents
        await recalibrate_if_grown(self.stores, bound, before, documents)
        if documents - before >= _MANY:
            await self.stores.patterns.analyse()

    async def _claim(self, selection: Selection) -> Claim:
        """Lease the next batch; what is leased just as this is cancelled is given back at once."""
        claiming = asyncio.ensure_future(self.stores.entries.claim(selection, limit=self.batch, lease=self.lease))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            with suppress(HardwonError):
                await self.stores.entries.release(await claiming)
            raise

    @asynccontextmanager
    async def _alive(self, claim: Claim) -> AsyncIterator[None]:
        """Extend the lease while the block runs; give back what it still holds when the block fails."""

        async def beat() -> None:
            while True:
                await asyncio.sleep(self.lease.total_seconds() / 3)
                await self.stores.entries.extend(claim, self.lease)

        beating = asyncio.create_task(beat())
        try:
            yield
        except BaseException:
            with suppress(HardwonError):  # the lease runs out by itself where Postgres is gone too
                await self.stores.entries.release(claim)
            raise
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating

    async def _embed(self, in_use: SpaceInUse, claim: Claim) -> _Batch:
        bound = in_use.bound
        embeddings, truncated, dead = await self._vectors(in_use.embedder, claim.entries)
        for refused in dead:
            await self.stores.entries.bury(claim.token, refused.entry_id, refused.reason)
        decisions, kept, embedded_at = await self._decide(bound, claim, embeddings)
        known = await self.stores.patterns.settled_points(sorted(kept))
        points, new_terms = self._points(bound, decisions, kept, embedded_at, known)
        await self.stores.index.upsert(bound.space, points)
        if new_terms:
            frequencies = Counter(term for counts in new_terms for term in counts)
            await self.stores.spaces.count_terms(frequencies, len(new_terms))
        marked = await self.stores.patterns.mark_embedded(
            claim.token,
            [decision.entry.entry_id for decision in decisions],
            embedded_at=embedded_at,
            expires_at=add_years(embedded_at, self.retention_years),
        )
        if len(marked) < len(decisions):
            await self._take_back(bound, decisions, marked)
            await self.stores.entries.release(claim)
        founded = sum(decision.founds for decision in decisions if decision.entry.entry_id in marked)
        return _Batch(embedded=len(marked), founded=founded, truncated=truncated, dead=tuple(dead))

    async def _vectors(
        self, embedder: Embedder, entries: Sequence[Entry]
    ) -> tuple[list[Embedding], int, list[DeadEntry]]:
        """Embed every text of the entries, each distinct one once; a batch that is refused is halved to find which."""
        views = {entry.entry_id: texts.views(entry) for entry in entries}
        distinct = list(dict.fromkeys(text for of_entry in views.values() for text in of_entry.values()))
        try:
            embedded = await embedder.embed(distinct, "document")
        except TextRejected as error:
            if len(entries) == 1:
                return [], 0, [DeadEntry(entry_id=entries[0].entry_id, reason=str(error))]
            middle = len(entries) // 2
            first, cut, dead = await self._vectors(embedder, entries[:middle])
            second, cut_too, dead_too = await self._vectors(embedder, entries[middle:])
            return first + second, cut + cut_too, dead + dead_too
        vectors: dict[str, Vector] = dict(zip(distinct, embedded.vectors, strict=True))
        found = [
            Embedding(entry=entry, vectors={view: vectors[text] for view, text in views[entry.entry_id].items()})
            for entry in entries
        ]
        return found, len(embedded.truncated), []

    async def _decide(
        self, bound: BoundSpace, claim: Claim, embeddings: Sequence[Embedding]
    ) -> tuple[list[Decision], set[PointId], datetime]:
        embedded_at = self.stores.clock.now()
        async with self.stores.patterns.deciding(claim.token) as deciding:
            held = await deciding.held([embedding.entry.entry_id for embedding in embeddings])
            keys = {texts.match_key(embedding.entry) for embedding in embeddings}
            decisions = consolidation.decide(
                embeddings,
                held=held,
                known=await deciding.patterns_by_key(sorted(keys)),
                workspace=self.stores.workspace,
            )
            kept = await deciding.write(
                decisions,
                bound.space,
                embedded_at=embedded_at,
                expires_at=add_years(embedded_at, self.retention_years),
            )
        return decisions, kept, embedded_at

    def _points(
        self,
        bound: BoundSpace,
        decisions: Sequence[Decision],
        kept: set[PointId],
        embedded_at: datetime,
        known: set[PointId],
    ) -> tuple[list[Point], list[Counter[int]]]:
        """Return the points of the decisions that are kept, each once, and the term counts of those not known yet."""
        points: dict[PointId, Point] = {}
        new_terms: list[Counter[int]] = []
        # by entry id, as Postgres picks the words of several entries that were embedded together
        for decision in sorted(decisions, key=lambda decided: decided.entry.entry_id):
            words = texts.views(decision.entry)
            for point in decision.points:
                if point.point_id not in kept or point.point_id in points:
                    continue
                counts = term_counts(words[point.view])
                if point.point_id not in known:
                    new_terms.append(counts)
                points[point.point_id] = to_point(
                    decision.entry,
                    point.view,
                    workspace=self.stores.workspace,
                    point_id=point.point_id,
                    vector=point.vector,
                    counts=counts,
                    mean_terms=bound.mean_terms,
                    embedded_at=embedded_at,
                    expires_at=add_years(embedded_at, self.retention_years),
                )
        return list(points.values()), new_terms

    async def _take_back(self, bound: BoundSpace, decisions: Sequence[Decision], marked: set[EntryId]) -> None:
        """Delete the points of entries that were deleted while they were embedded: nothing comes back from the dead."""
        lost = {
            point.point_id
            for decision in decisions
            if decision.entry.entry_id not in marked
            for point in decision.points
        }
        if not lost:
            return
        orphans = lost - await self.stores.patterns.known_points(sorted(lost))
        await self.stores.index.delete(bound.space, sorted(orphans))


def _checkpoint_type(given: CheckpointType | str) -> CheckpointType:
    try:
        return CheckpointType(given)
    except ValueError:
        known = ", ".join(CheckpointType)
        raise InvalidInput("checkpoint_type", f"must be one of {known}, not {given!r}") from None
