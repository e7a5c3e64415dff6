"""Distillation: a model describes patterns in general terms, in addition to their entries' words; only on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

from hardwon.errors import HardwonError, InvalidInput, InvalidSetting, QuestionRejected
from hardwon.event_log import get_logger
from knowledge.memory.checkpoint.summary_prompt import (
    GROWTH_FACTOR,
    MIN_ENTRIES,
    Answer,
    distinct,
    instructions,
    read_answer,
    records,
    select_material,
)
from knowledge.memory.index.residency import refuse_endpoint
from knowledge.models import Distillation, DistillationReport, DistilledText, PatternId, RefusedDistillation
from knowledge.ports import ChatModel, DistillationCandidate, Stores

CONCURRENCY = 4
"""Patterns distilled concurrently."""

_MAX_CANDIDATES = 64
"""Entries of a pattern from which distinct ones are selected."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillationService:
    """Has a model describe patterns. `open_chat` opens the configured model, None where there is none."""

    stores: Stores
    open_chat: Callable[[], ChatModel] | None
    deadline: timedelta

    def check(self) -> None:
        """Raise InvalidSetting unless a model is configured."""
        self._chat()

    async def distil(self) -> DistillationReport:
        """Have every due pattern (`DistillationStore.due`) described; return a report.

        A failure of the model or a store ends the run and is reported as `error`; stored results stay. Raises
        InvalidSetting where no model is configured.
        """
        chat = self._chat()()
        run = _Run(stores=self.stores, chat=chat)
        try:
            async with (
                asyncio.timeout(self.deadline.total_seconds()),
                self.stores.distillations.lock_distilling() as alone,
            ):
                if alone:
                    await run.run()
                else:  # the due patterns would be paid for twice
                    run.error = (
                        "another checkpoint is distilling this workspace's patterns: the due ones are left to it"
                    )
        except TimeoutError:
            run.error = f"distillation did not finish within {self.deadline}: the rest is left for the next run"
        except HardwonError as error:
            run.error = str(error)
        finally:
            await chat.aclose()
        report = run.report()
        log.info("patterns_distilled", distilled=report.distilled, refused=report.refused, due=report.due)
        return report

    def _chat(self) -> Callable[[], ChatModel]:
        if self.open_chat is None:
            raise InvalidSetting("HARDWON_CHAT_MODEL", "is not set: name the model that distils patterns")
        return self.open_chat


@dataclass(slots=True, kw_only=True)
class _Run:
    """Distils the due patterns, a few at a time, until the model or a store fails."""

    stores: Stores
    chat: ChatModel
    due: int = 0
    distilled: int = 0
    overtaken: int = 0
    refusals: list[RefusedDistillation] = field(default_factory=list)
    error: str | None = None

    async def run(self) -> None:
        now = self.stores.clock.now()
        due = await self.stores.distillations.due(self.chat.model, now=now, least=MIN_ENTRIES, grown=GROWTH_FACTOR)
        self.due = len(due)
        waiting = iter(due)
        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENCY):
                group.create_task(self._work(waiting))

    def report(self) -> DistillationReport:
        return DistillationReport(
            due=self.due,
            distilled=self.distilled,
            refused=len(self.refusals),
            overtaken=self.overtaken,
            refusals=tuple(self.refusals),
            error=self.error,
        )

    async def _work(self, waiting: Iterator[DistillationCandidate]) -> None:
        for pattern in waiting:
            if self.error is not None:
                return
            try:
                await self._distil(pattern)
            except HardwonError as error:
                self.error = str(error)

    async def _distil(self, pattern: DistillationCandidate) -> None:
        stores, now = self.stores, self.stores.clock.now()
        entries = distinct(await stores.distillations.material(pattern.pattern_id, now=now, limit=_MAX_CANDIDATES))
        if not entries:
            self.overtaken += 1
            return
        seen, fence = select_material(entries), uuid4().hex
        await refuse_endpoint(stores, f"distilling with {self.chat.model}")
        try:
            text = await self.chat.answer(instructions(fence), records(seen, fence), as_json=True)
        except QuestionRejected as refusal:  # not stored: the endpoint may accept it another time
            self._refuse(pattern.pattern_id, str(refusal))
            return
        distilled = refused = None
        try:
            distilled = self._to_distilled(read_answer(text, seen))
        except InvalidInput as error:
            refused = str(error)
        stored = await stores.distillations.keep(
            Distillation(
                pattern_id=pattern.pattern_id,
                entry_ids=tuple(entry.entry_id for entry in entries),
                evidence=pattern.evidence,
                model=self.chat.model,
                answered_at=stores.clock.now(),
                distilled=distilled,
                refused=refused,
            )
        )
        if not stored:
            self.overtaken += 1
        elif refused is not None:
            self._refuse(pattern.pattern_id, refused)
        else:
            self.distilled += 1

    def _to_distilled(self, answer: Answer) -> DistilledText:
        return DistilledText(
            title=answer.title,
            problem=answer.problem,
            when_to_try=answer.when_to_try,
            when_not_to_try=answer.when_not_to_try,
            model=self.chat.model,
            written_at=self.stores.clock.now(),
        )

    def _refuse(self, pattern_id: PatternId, reason: str) -> None:
        self.refusals.append(RefusedDistillation(pattern_id=pattern_id, reason=reason))
