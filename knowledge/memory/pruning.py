"""Pruning: a year after embedding, knowledge goes from both stores; what is on record of the work goes as late."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from knowledge.errors import Conflict
from knowledge.logs import get_logger
from knowledge.memory.beside import ToldBeside
from knowledge.memory.reaching import reach_if_possible
from knowledge.memory.retention import add_years
from knowledge.memory.settling import settle
from knowledge.models import PruneReport
from knowledge.ports import Progress, StoreClock, Stores
from knowledge.provenance import UNHEARD, Auditor
from knowledge.steps import step

UNRESOLVED_FOR = timedelta(days=90)
"""An entry that was open, abandoned, held back or dead for this long goes too."""

SLICE = 5_000
"""Rows deleted in one transaction."""

CLOCKS_APART = timedelta(hours=1)
"""By which this machine may be ahead of Postgres; ours."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgePruningService:
    """Automatically prunes knowledge past its year; contexts, checkpoints and what was told of documents go as late."""

    stores: Stores
    retention_years: int
    beside: ToldBeside | None = None
    audit: Auditor = UNHEARD
    store_clock: StoreClock | None = None

    async def prune_old_knowledge(self) -> int:
        """Delete expired knowledge from both stores; return how many entries went."""
        report = await self.prune()
        return report.entries

    @step("prune")
    async def prune(self, *, dry_run: bool = False, progress: Progress | None = None) -> PruneReport:
        """Delete expired entries, their points and patterns, and what was never resolved; or say what would go.

        The index goes first, by its own filter: a kill in between leaves rows that the next run deletes. Slice by
        slice, so that no transaction is long. Raises Conflict where the clock seems wrong: what is deleted by one
        that is years ahead does not come back.
        """
        now = self.stores.clock.now()
        before = now - UNRESOLVED_FOR
        if dry_run:
            return await self.stores.patterns.prunable(now, open_before=before)
        await self._compare_clocks(now)
        for space in await self.stores.spaces.known():
            await self.stores.index.delete_expired(space, self.stores.workspace, now)
        done = PruneReport(entries=0, points=0, patterns=0, never_resolved=0)
        while True:
            part = await self.stores.patterns.prune(now, open_before=before, limit=SLICE)
            if not (part.entries or part.points or part.never_resolved):
                break
            done = PruneReport(
                entries=done.entries + part.entries,
                points=done.points + part.points,
                patterns=done.patterns + part.patterns,
                never_resolved=done.never_resolved + part.never_resolved,
            )
            if progress:
                progress(done.entries, None)
        await settle(self.stores)
        await reach_if_possible(self.stores)
        for told in (self.stores.contexts, self.stores.checkpoints, self.beside):
            while told is not None and await told.prune(add_years(now, -self.retention_years), limit=SLICE):
                continue
        while await self.stores.patterns.forget_projects(limit=SLICE):
            continue
        if done.entries or done.never_resolved:
            await self.audit.note("knowledge pruned", entries=done.entries, never_resolved=done.never_resolved)
        log.info("knowledge_pruned", entries=done.entries, points=done.points, patterns=done.patterns)
        return done

    async def _compare_clocks(self, now: datetime) -> None:
        """Raise Conflict where it is much earlier by the store's clock: one of the two is wrong."""
        if self.store_clock is None:
            return
        stores_now = await self.store_clock.now()
        if now - stores_now > CLOCKS_APART:
            raise Conflict(
                f"nothing is pruned, as the clock of this machine says {now:%Y-%m-%d %H:%M} and that of Postgres"
                f" {stores_now:%Y-%m-%d %H:%M} (UTC): set the wrong one"
            )
