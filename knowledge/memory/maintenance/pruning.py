"""Pruning: delete knowledge a year after its embedding, and records of the work at the same age."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from hardwon.errors import Conflict
from hardwon.event_log import get_logger
from knowledge.access.provenance import NO_AUDIT, Auditor
from knowledge.memory.index.overflow import reach_if_possible
from knowledge.memory.index.reconcile import settle
from knowledge.memory.maintenance.ports import DocumentRecords
from knowledge.memory.rules.entry_profile import build_profile
from knowledge.memory.rules.retention import add_years
from knowledge.models import EntryId, EntryProfile, EntryTexts, PruneReport
from knowledge.ports import Progress, StoreClock, Stores
from knowledge.retrieval.term_profile import RULES
from knowledge.runtime.instrumentation import step

UNRESOLVED_RETENTION = timedelta(days=90)
"""Open, abandoned, quarantined or dead entries are deleted after this time."""

_PROFILE_BATCH = 200
"""Entries whose profiles are stored in one transaction."""

SLICE = 5_000
"""Rows deleted in one transaction."""

MAX_CLOCK_SKEW = timedelta(hours=1)
"""Tolerated lead of this machine's clock over that of Postgres; ours."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgePruningService:
    """Prunes expired knowledge; contexts, checkpoints and records of documents are deleted at the same age."""

    stores: Stores
    retention_years: int
    documents: DocumentRecords | None = None
    audit: Auditor = NO_AUDIT
    store_clock: StoreClock | None = None

    async def prune_old_knowledge(self) -> int:
        """Delete expired knowledge from both stores; return the number of deleted entries."""
        report = await self.prune()
        return report.entries

    @step("prune")
    async def prune(self, *, dry_run: bool = False, progress: Progress | None = None) -> PruneReport:
        """Delete expired entries, their points and patterns, and unresolved entries; with `dry_run` only count them.

        The index is pruned first, by its own filter: a kill in between leaves rows that the next run deletes. Works in
        batches, so that no transaction is long. Raises Conflict where the clock seems wrong: deletions by a clock that
        is years ahead cannot be undone.
        """
        now = self.stores.clock.now()
        opened_before = now - UNRESOLVED_RETENTION
        if dry_run:
            return await self.stores.patterns.prunable(now, open_before=opened_before)
        await self._compare_clocks(now)
        for space in await self.stores.spaces.list_spaces():
            await self.stores.index.delete_expired(space, self.stores.workspace, now)
        report = PruneReport(entries=0, points=0, patterns=0, never_resolved=0)
        while True:
            batch = await self.stores.patterns.prune(now, open_before=opened_before, limit=SLICE)
            if not (batch.entries or batch.points or batch.never_resolved):
                break
            report = PruneReport(
                entries=report.entries + batch.entries,
                points=report.points + batch.points,
                patterns=report.patterns + batch.patterns,
                never_resolved=report.never_resolved + batch.never_resolved,
            )
            if progress:
                progress(report.entries, None)
        await settle(self.stores)
        await reach_if_possible(self.stores)
        for records in (self.stores.contexts, self.stores.checkpoints, self.documents):
            while records is not None and await records.prune(add_years(now, -self.retention_years), limit=SLICE):
                continue
        while await self.stores.patterns.forget_projects(limit=SLICE):
            continue
        await self._complete_profiles()
        if report.entries or report.never_resolved:
            await self.audit.record("knowledge pruned", entries=report.entries, never_resolved=report.never_resolved)
        log.info("knowledge_pruned", entries=report.entries, points=report.points, patterns=report.patterns)
        return report

    async def _complete_profiles(self) -> None:
        """Store the profiles of entries that have none by the rules of today: a query computes them each time."""
        while texts := await self.stores.patterns.without_profile(RULES, _PROFILE_BATCH):
            profiles = await asyncio.to_thread(_build_profiles, texts)
            await self.stores.patterns.store_profiles(profiles)
            if len(texts) < _PROFILE_BATCH:
                break

    async def _compare_clocks(self, now: datetime) -> None:
        """Raise Conflict where this machine's clock is far ahead of the store's: one of them is wrong."""
        if self.store_clock is None:
            return
        stores_now = await self.store_clock.now()
        if now - stores_now > MAX_CLOCK_SKEW:
            raise Conflict(
                f"nothing is pruned, since the clock of this machine says {now:%Y-%m-%d %H:%M} and that of Postgres"
                f" {stores_now:%Y-%m-%d %H:%M} (UTC): correct the wrong one"
            )


def _build_profiles(texts: Mapping[EntryId, EntryTexts]) -> dict[EntryId, EntryProfile]:
    return {entry_id: build_profile(each) for entry_id, each in texts.items()}
