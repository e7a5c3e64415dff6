"""Checkpoints: staged entries are embedded in batches, assigned to patterns, indexed and marked, in that order.

After a kill at any point a later checkpoint repeats the same step with the same ids: claim (lease) -> embed -> decide
(one transaction) -> upsert (durable) -> mark and recount (one transaction).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from hardwon.errors import HardwonError, InvalidInput, TookTooLong, reason_of
from hardwon.event_log import get_logger
from hardwon.validation import as_id, check_duration, check_text
from knowledge.memory.checkpoint.pipeline import EmbeddingRun
from knowledge.memory.checkpoint.summaries import DistillationService
from knowledge.memory.index.overflow import reach_if_possible
from knowledge.memory.index.reconcile import settle, settle_differing
from knowledge.models import CheckpointId, CheckpointReport, CheckpointType
from knowledge.ports import Progress, Selection, Stores
from knowledge.runtime.instrumentation import step
from knowledge.runtime.scheduling import process_each, try_finish

log = get_logger(__name__)

CHECKPOINT_BATCH: Final = 256
"""Maximum of entries leased and embedded at a time; fewer if a larger batch would not be embedded sooner."""
CHECKPOINT_DEADLINE: Final = timedelta(hours=6)
"""Ours: entries that are left stay staged for the next checkpoint; a longer one would only delay others."""
LEASE: Final = timedelta(seconds=60)
"""Lease of claimed entries, renewed at every third of it: a shorter one costs statements, a longer one delays the retry
after a kill."""

_FINAL_TYPES = frozenset({CheckpointType.PROJECT_COMPLETION, CheckpointType.CANCELLATION})
"""Checkpoints that abandon unresolved entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEmbeddingService:
    """Processes staged knowledge at checkpoints and embeds it."""

    stores: Stores
    batch: int
    lease: timedelta
    deadline: timedelta
    retention_years: int
    distillation: DistillationService
    take_head: Callable[[], Awaitable[object]] | None = None
    """Takes a head over all that is stored, to be kept elsewhere."""

    async def process_checkpoint(
        self,
        project_id: str,
        checkpoint_type: CheckpointType | str,
        *,
        distill: bool = False,
        progress: Progress | None = None,
    ) -> CheckpointReport:
        """Embed a project's staged entries; a completed or cancelled project abandons its unresolved ones.

        `distill`: afterwards have a model describe the workspace's patterns that are due; a failure of that is only
        reported. Raises InvalidInput for an unknown type, InvalidSetting where `distill` has no model, Unavailable when
        a store or the embedder does not answer, TookTooLong past the deadline: finished batches stay embedded, the rest
        stays staged.
        """
        check_text("project_id", project_id)
        return await self._process(project_id, _parse_checkpoint_type(checkpoint_type), progress, distill=distill)

    async def process_all(self, *, distill: bool = False, progress: Progress | None = None) -> CheckpointReport:
        """Embed all projects' staged entries, as a manual checkpoint."""
        return await self._process(None, CheckpointType.MANUAL, progress, distill=distill)

    async def sweep(self, *, staged_for: timedelta) -> list[CheckpointReport]:
        """Run a manual checkpoint for each project with entries staged for that long, as it may never reach one itself.

        A project that fails or takes too long does not hold up the others. Also restores points that the index lost,
        and indexes entries that had no room before. Raises InvalidInput.
        """
        check_duration("staged_for", staged_for, least=timedelta(0))
        before = self.stores.clock.now() - staged_for

        async def process(project: str) -> CheckpointReport:
            return await self._process(project, CheckpointType.MANUAL, None)

        reports = await process_each(await self.stores.entries.due_projects(before), process)
        await settle(self.stores)
        await settle_differing(self.stores)
        await reach_if_possible(self.stores)
        return reports

    async def get(self, checkpoint_id: CheckpointId) -> CheckpointReport:
        """Return the report of a checkpoint. Raises NotFound."""
        return await self.stores.checkpoints.get(CheckpointId(as_id("checkpoint_id", checkpoint_id)))

    @step("checkpoint")
    async def _process(
        self,
        project_id: str | None,
        checkpoint_type: CheckpointType,
        progress: Progress | None,
        *,
        distill: bool = False,
    ) -> CheckpointReport:
        if distill:
            self.distillation.check()
        report = await self.stores.checkpoints.start(project_id, checkpoint_type, self.stores.clock.now())
        report = await self._embed(report, progress)
        report = await self._finish(report)
        return await self._distil(report) if distill else report

    async def _embed(self, report: CheckpointReport, progress: Progress | None) -> CheckpointReport:
        """Abandon entries that will not be resolved and embed the rest; return the report.

        A failure is recorded with the progress made.
        """
        project_id, cancelled = report.project_id, report.checkpoint_type is CheckpointType.CANCELLATION
        run = EmbeddingRun(
            stores=self.stores,
            batch=self.batch,
            lease=self.lease,
            retention_years=self.retention_years,
            report=report,
            selection=Selection(project_id=project_id, only_vouched=cancelled),
            progress=progress,
        )
        try:
            if project_id is not None and report.checkpoint_type in _FINAL_TYPES:
                abandoned = await self.stores.entries.abandon(project_id, unvouched=cancelled)
                run.report = replace(report, abandoned=abandoned)
            async with asyncio.timeout(self.deadline.total_seconds()):
                await run.run()
        except TimeoutError:
            late = f"the checkpoint did not finish within {self.deadline}: the rest stays staged for the next one"
            await self._record_failure(run.report, TookTooLong(late))
            raise TookTooLong(late) from None
        except BaseException as error:  # without Postgres there is no record either
            await self._record_failure(run.report, error)
            raise
        return run.report

    async def _record_failure(self, report: CheckpointReport, error: BaseException) -> None:
        if not isinstance(error, asyncio.CancelledError):  # the caller cancelled it
            log.warning("checkpoint_failed", checkpoint_id=str(report.checkpoint_id), reason=reason_of(error))
        await try_finish(self._finish(replace(report, error=_reason(error))))

    async def _distil(self, report: CheckpointReport) -> CheckpointReport:
        distillation = await self.distillation.distil()
        # the record outlives the entries: it counts the refused ones and repeats none of their text
        with suppress(HardwonError):
            await self.stores.checkpoints.finish(replace(report, distillation=replace(distillation, refusals=())))
        return replace(report, distillation=distillation)

    async def _finish(self, report: CheckpointReport) -> CheckpointReport:
        report = replace(report, finished_at=self.stores.clock.now())
        await self.stores.checkpoints.finish(report)
        if report.embedded:
            self.stores.embedded.set()
        if self.take_head is not None:
            await self.take_head()
        log.info("checkpoint_finished", checkpoint_id=str(report.checkpoint_id), embedded=report.embedded)
        return report


def _reason(error: BaseException) -> str:
    """Return the reason for the checkpoint's record."""
    if isinstance(error, HardwonError):
        return str(error)
    return (
        "it was cancelled" if isinstance(error, asyncio.CancelledError) else f"unexpected error: {type(error).__name__}"
    )


def _parse_checkpoint_type(value: CheckpointType | str) -> CheckpointType:
    try:
        return CheckpointType(value)
    except ValueError:
        types = ", ".join(CheckpointType)
        raise InvalidInput("checkpoint_type", f"must be one of {types}, not {value!r}") from None
