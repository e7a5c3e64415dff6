"""Distillation: a model says in general what a pattern is about, beside the words of its entries; only on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

from knowledge.errors import HardwonError, InvalidInput, InvalidSetting, QuestionRejected
from knowledge.logs import get_logger
from knowledge.memory.distilling import (
    GROWN,
    LEAST_ENTRIES,
    Answer,
    distinct,
    instructions,
    read_answer,
    records,
    shown,
)
from knowledge.memory.locality import refuse_endpoint
from knowledge.models import Distillation, DistillationReport, Distilled, PatternId, RefusedDistillation
from knowledge.ports import ChatModel, Stores, Undistilled

CONCURRENCY = 4
"""Patterns in work at a time."""

_LOOKED_AT = 64
"""Entries of a pattern among which different ones are looked for."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillationService:
    """Has a model describe patterns. `open_chat` opens the model of the settings, None where there is none."""

    stores: Stores
    open_chat: Callable[[], ChatModel] | None
    deadline: timedelta

    def check(self) -> None:
        """Raise InvalidSetting unless there is a model to ask."""
        self._chat()

    async def distil(self) -> DistillationReport:
        """Have every pattern described that is due (`DistillationStore.due`), and tell what became of them.

        A failure of the model or of a store ends it and is told as `error`; what was kept by then stays. Raises
        InvalidSetting where there is no model to ask.
        """
        chat = self._chat()()
        run = _Run(stores=self.stores, chat=chat)
        try:
            async with asyncio.timeout(self.deadline.total_seconds()), self.stores.distillations.distilling() as alone:
                if alone:
                    await run.run()
                else:  # what is due would be paid for twice
                    run.error = "another checkpoint has patterns of the workspace distilled: what is due is left to it"
        except TimeoutError:
            run.error = f"it did not end within {self.deadline}: the rest is left for the next time"
        except HardwonError as error:
            run.error = str(error)
        finally:
            await chat.aclose()
        report = run.report()
        log.info("patterns_distilled", distilled=report.distilled, refused=report.refused, due=report.due)
        return report

    def _chat(self) -> Callable[[], ChatModel]:
        if self.open_chat is None:
            raise InvalidSetting("HARDWON_CHAT_MODEL", "is not set: name the model that is to distil patterns")
        return self.open_chat


@dataclass(slots=True, kw_only=True)
class _Run:
    """The patterns that are due, a few at a time, until the model or a store fails."""

    stores: Stores
    chat: ChatModel
    due: int = 0
    distilled: int = 0
    overtaken: int = 0
    refusals: list[RefusedDistillation] = field(default_factory=list)
    error: str | None = None

    async def run(self) -> None:
        now = self.stores.clock.now()
        due = await self.stores.distillations.due(self.chat.model, now=now, least=LEAST_ENTRIES, grown=GROWN)
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

    async def _work(self, waiting: Iterator[Undistilled]) -> None:
        for pattern in waiting:
            if self.error is not None:
                return
            try:
                await self._distil(pattern)
            except HardwonError as error:
                self.error = str(error)

    async def _distil(self, pattern: Undistilled) -> None:
        stores, now = self.stores, self.stores.clock.now()
        entries = distinct(await stores.distillations.material(pattern.pattern_id, now=now, limit=_LOOKED_AT))
        if not entries:
            self.overtaken += 1
            return
        seen, fence = shown(entries), uuid4().hex
        await refuse_endpoint(stores, f"distilling with {self.chat.model}")
        try:
            text = await self.chat.answer(instructions(fence), records(seen, fence), as_json=True)
        except QuestionRejected as refusal:  # not kept: the endpoint may take it another time
            self._refuse(pattern.pattern_id, str(refusal))
            return
        distilled = refused = None
        try:
            distilled = self._written(read_answer(text, seen))
        except InvalidInput as error:
            refused = str(error)
        kept = await stores.distillations.keep(
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
        if not kept:
            self.overtaken += 1
        elif refused is not None:
            self._refuse(pattern.pattern_id, refused)
        else:
            self.distilled += 1

    def _written(self, answer: Answer) -> Distilled:
        return Distilled(
            title=answer.title,
            problem=answer.problem,
            when_to_try=answer.when_to_try,
            when_not_to_try=answer.when_not_to_try,
            model=self.chat.model,
            written_at=self.stores.clock.now(),
        )

    def _refuse(self, pattern_id: PatternId, reason: str) -> None:
        self.refusals.append(RefusedDistillation(pattern_id=pattern_id, reason=reason))
