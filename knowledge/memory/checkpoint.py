"""Checkpoints: what is staged gets embedded in batches, decided, put into the index and marked, in that order.

Whatever is killed when, a later checkpoint repeats the same step with the same ids: claim (lease) -> embed -> decide
(one transaction) -> upsert (durable) -> mark and recount (one transaction).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from knowledge.errors import HardwonError, InvalidInput, TookTooLong, reason_of
from knowledge.forms import as_id, check_span
from knowledge.logs import get_logger
from knowledge.memory.distillation import DistillationService
from knowledge.memory.embedding_run import EmbeddingRun
from knowledge.memory.finishing import if_in_time
from knowledge.memory.in_turn import process_each
from knowledge.memory.limits import check_text
from knowledge.memory.reaching import reach_if_possible
from knowledge.memory.settling import settle, settle_differing
from knowledge.models import CheckpointId, CheckpointReport, CheckpointType
from knowledge.ports import Progress, Selection, Stores
from knowledge.steps import step

log = get_logger(__name__)

CHECKPOINT_BATCH: Final = 256
"""Entries leased and embedded at a time, at most: fewer where more of them would not be embedded any sooner."""
CHECKPOINT_DEADLINE: Final = timedelta(hours=6)
"""After which a checkpoint ends, ours: what is left stays staged for the next, so a longer one would only keep others
from starting."""
LEASE: Final = timedelta(seconds=60)
"""How long a checkpoint keeps what it claimed without a sign of life; it gives one each third of it, so a shorter lease
would only cost statements, and a longer one keep what was killed from being done again."""

_ENDS = frozenset({CheckpointType.PROJECT_COMPLETION, CheckpointType.CANCELLATION})
"""Checkpoints at which what was never resolved is abandoned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEmbeddingService:
    """Processes staged knowledge at checkpoints and embeds it."""

    stores: Stores
    batch: int
    lease: timedelta
    deadline: timedelta
    retention_years: int
    distillation: DistillationService

    async def process_checkpoint(
        self,
        project_id: str,
        checkpoint_type: CheckpointType | str,
        *,
        distill: bool = False,
        progress: Progress | None = None,
    ) -> CheckpointReport:
        """Embed what a project has staged; complete or cancelled projects abandon what was never resolved.

        `distill`: have a model describe the patterns of the workspace that are due for it afterwards; its failure is
        told in the report and fails nothing. Raises InvalidInput for an unknown type or where there is no model to
        distil with, Unavailable when a store or the embedder does not answer, TookTooLong past the deadline: what was
        done by then stays done, the rest stays staged.
        """
        check_text("project_id", project_id)
        return await self._process(project_id, _checkpoint_type(checkpoint_type), progress, distill=distill)

    async def process_all(self, *, distill: bool = False, progress: Progress | None = None) -> CheckpointReport:
        """Embed what all projects have staged, as a manual checkpoint."""
        return await self._process(None, CheckpointType.MANUAL, progress, distill=distill)

    async def sweep(self, *, staged_for: timedelta) -> list[CheckpointReport]:
        """Run a manual checkpoint for each project with something staged for that long: those that never reach one.

        One that cannot be embedded, or not in its time, holds up no other (`process_each`). What the index lost, where
        nobody comes to a checkpoint either, is put back, and what had no room in it where there is some now. Raises
        InvalidInput.
        """
        check_span("staged_for", staged_for, least=timedelta(0))
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
        report = await self._embedded(report, progress)
        report = await self._finish(report)
        return await self._distilled(report) if distill else report

    async def _embedded(self, report: CheckpointReport, progress: Progress | None) -> CheckpointReport:
        """Abandon what nobody resolves any more and embed the rest; return what came of it.

        Where that fails, it is noted as far as it got.
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
            if project_id is not None and report.checkpoint_type in _ENDS:
                abandoned = await self.stores.entries.abandon(project_id, unvouched=cancelled)
                run.report = replace(report, abandoned=abandoned)
            async with asyncio.timeout(self.deadline.total_seconds()):
                await run.run()
        except TimeoutError:
            late = f"the checkpoint did not end within {self.deadline}: the rest stays staged for the next one"
            await self._failed(run.report, TookTooLong(late))
            raise TookTooLong(late) from None
        except BaseException as error:  # where Postgres is gone, so is the record of it
            await self._failed(run.report, error)
            raise
        return run.report

    async def _failed(self, report: CheckpointReport, error: BaseException) -> None:
        if not isinstance(error, asyncio.CancelledError):  # who broke it off knows
            log.warning("checkpoint_failed", checkpoint_id=str(report.checkpoint_id), reason=reason_of(error))
        await if_in_time(self._finish(replace(report, error=_reason(error))))

    async def _distilled(self, report: CheckpointReport) -> CheckpointReport:
        told = await self.distillation.distil()
        # the record outlives the entries: it says how many were refused, and repeats nothing
        with suppress(HardwonError):
            await self.stores.checkpoints.finish(replace(report, distillation=replace(told, refusals=())))
        return replace(report, distillation=told)

    async def _finish(self, report: CheckpointReport) -> CheckpointReport:
        report = replace(report, finished_at=self.stores.clock.now())
        await self.stores.checkpoints.finish(report)
        log.info("checkpoint_finished", checkpoint_id=str(report.checkpoint_id), embedded=report.embedded)
        return report


def _reason(error: BaseException) -> str:
    """Return why a checkpoint ended, in words for whoever reads its record."""
    if isinstance(error, HardwonError):
        return str(error)
    return "it was cancelled" if isinstance(error, asyncio.CancelledError) else f"unforeseen: {type(error).__name__}"


def _checkpoint_type(given: CheckpointType | str) -> CheckpointType:
    try:
        return CheckpointType(given)
    except ValueError:
        known = ", ".join(CheckpointType)
        raise InvalidInput("checkpoint_type", f"must be one of {known}, not {given!r}") from None
