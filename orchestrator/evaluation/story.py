"""The story that `hardwon demo` tells: each step with memory, beside the same step without.

A scripted agent mends small programs whose tests really run. Alone it tries its own edits in a fixed order; with memory
it first tries the edit that its context names. A scripted reviewer turns down what has no end. What is learned, asked
and reported goes through the services that every orchestrator calls.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from knowledge.models import Context, PatternId, Task
from orchestrator.connection import AnyKnowledge
from orchestrator.context.builder import OrchestratorContextBuilder
from orchestrator.evaluation import story_tasks as tasks
from orchestrator.evaluation.story_tasks import Attempts, CodingTask, Design

_AGENT_TYPE = "coder"
_GATE_TYPE = "design_review"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryStep:
    """A step of the story: its title, lines that tell it, and its result without memory and with it.

    `pattern_id`: the pattern that it was about, None before there is one.
    """

    title: str
    lines: tuple[str, ...]
    without: str
    with_memory: str
    pattern_id: PatternId | None = None


async def tell_story(knowledge: AnyKnowledge) -> AsyncIterator[StoryStep]:
    """Yield the steps as they are done, in the workspace of `knowledge`, which is to be empty."""
    story = _Story(knowledge)
    yield await story.mend_first()
    yield await story.meet_again()
    yield await story.spare_a_rejection()
    yield await story.sink_a_bad_tip()
    yield await story.compare_rivals()
    yield await story.keep_silent()


class _Story:
    def __init__(self, knowledge: AnyKnowledge) -> None:
        self._knowledge = knowledge
        self._builder = OrchestratorContextBuilder(knowledge)
        self._run = uuid.uuid4().hex[:8]

    async def mend_first(self) -> StoryStep:
        task = tasks.ORDER_AGE
        error = await asyncio.to_thread(tasks.meet_error, task)
        attempts = await asyncio.to_thread(tasks.solve, task, error)
        await self._capture(task, attempts)
        return StoryStep(
            title="A failure is mended, and kept",
            lines=(
                _asked(task, error),
                f"the agent tries: {_tried(attempts)}",
                f"kept: the failure, what mended it, and the check that passed ({tasks.CHECK})",
            ),
            without=str(attempts),
            with_memory=f"{attempts} (nothing was known yet)",
        )

    async def meet_again(self) -> StoryStep:
        met = await self._solve(tasks.OVERDUE)
        return StoryStep(
            title="Another project meets it in other words",
            lines=(_asked(tasks.OVERDUE, met.error), _told(met.context)),
            without=str(met.alone),
            with_memory=str(met.attempts),
            pattern_id=_first(met.context),
        )

    async def spare_a_rejection(self) -> StoryStep:
        first, then = tasks.FIRST_DESIGN, tasks.NEXT_DESIGN
        await self._capture_review(first)
        context = await self._ask(then.project_id, then.task_id, then.description, kind="design")
        alone, proposals = tasks.propose(then), tasks.propose(then, context.text)
        if context.patterns:
            await self._report(context, worked=len(proposals) == 1)
        return StoryStep(
            title="A reviewer's rejection spares the next project the same",
            lines=(
                f'{first.project_id}: "{first.alone}"',
                f'the reviewer: "{tasks.FEEDBACK}"',
                f"{then.project_id}: {then.description}",
                _told(context),
            ),
            without=_count(len(alone), "proposal"),
            with_memory=_count(len(proposals), "proposal"),
            pattern_id=_first(context),
        )

    async def sink_a_bad_tip(self) -> StoryStep:
        await self._knowledge.capture.capture_failure_solution(
            project_id="old-crm",
            agent_type=_AGENT_TYPE,
            technology="python",
            failure_description="Reading a price with a decimal comma fails.",
            error_message="ValueError: could not convert string to float: '1.299,00'",
            solution_steps=tasks.NO_COMMAS.steps,
            success_verified=True,
            verified_by="somebody who looked at one number",
            task_id="price",
            run_id=self._run,
        )
        await self._checkpoint("old-crm")
        met = [await self._solve(task) for task in tasks.AMOUNTS]
        misled = [each for each in met if tasks.NO_COMMAS in each.attempts.tried]
        last = met[-1].context
        return StoryStep(
            title="A bad tip fails, and sinks",
            lines=(
                f"old-crm, checked by nobody's test: {tasks.NO_COMMAS.steps}",
                *(f"{_asked(each.task, each.error)}: {_tried(each.attempts)}" for each in met),
                f"the tip was tried {_count(len(misled), 'time')} and failed; {_records(last)}",
            ),
            without=_sum(each.alone for each in met),
            with_memory=_sum(each.attempts for each in met),
            pattern_id=_first(last),
        )

    async def compare_rivals(self) -> StoryStep:
        for task in tasks.FIRST_IMPORTS:
            error = await asyncio.to_thread(tasks.meet_error, task)
            await self._capture(task, await asyncio.to_thread(tasks.solve, task, error))
        met = [await self._solve(task) for task in tasks.NEXT_IMPORTS]
        last = met[-1].context
        return StoryStep(
            title="Two rivals, and the better one wins",
            lines=(
                f"web-shop and billing could read such files with `{tasks.LATIN_1.code}`; that is all that is known",
                *(f"{each.task.project_id}: {_tried(each.attempts)}" for each in met),
                _records(last),
            ),
            without=_sum(each.alone for each in met),
            with_memory=_sum(each.attempts for each in met),
            pattern_id=_first(last),
        )

    async def keep_silent(self) -> StoryStep:
        contexts = [await self._ask(project, task, text) for project, task, text in tasks.FOREIGN]
        silent = sum(not context.patterns for context in contexts)
        return StoryStep(
            title="A foreign task gets silence",
            lines=tuple(
                f'{project}: "{text}": {_told(context)}'
                for (project, _, text), context in zip(tasks.FOREIGN, contexts, strict=True)
            ),
            without="no hint",
            with_memory=f"no hint in {silent} of {len(contexts)}",
        )

    async def _solve(self, task: CodingTask) -> _Met:
        """Solve a task alone and with its context; report what came of the hint, and capture what was new."""
        error = await asyncio.to_thread(tasks.meet_error, task)
        alone = await asyncio.to_thread(tasks.solve, task, error)
        context = await self._ask(task.project_id, task.task_id, f"{task.description}\n{error}")
        attempts = await asyncio.to_thread(tasks.solve, task, error, context.text if context.patterns else "")
        told = context.patterns[0].solution if context.patterns else ""
        worked = attempts.solution.code in told
        if context.patterns:
            await self._report(context, worked=worked)
        if not worked:
            await self._capture(task, attempts)
        return _Met(task=task, error=error, alone=alone, context=context, attempts=attempts)

    async def _ask(self, project_id: str, task_id: str, description: str, kind: str = "bugfix") -> Context:
        task = Task(
            description=description, type=kind, technology="python", project_id=project_id, task_id=task_id,
            run_id=self._run, urgent=True,
        )  # fmt: skip
        return await self._builder.build_context_for_task(task, _AGENT_TYPE)

    async def _report(self, context: Context, *, worked: bool) -> None:
        await self._knowledge.outcomes.record_outcome(context.context_id, context.patterns[0].pattern_id, worked=worked)

    async def _capture(self, task: CodingTask, attempts: Attempts) -> None:
        await self._knowledge.capture.capture_failure_solution(
            project_id=task.project_id,
            agent_type=_AGENT_TYPE,
            task_type="bugfix",
            technology="python",
            task_description=task.description,
            failure_description=task.failure,
            error_message=attempts.error,
            solution_steps=attempts.solution.steps,
            success_verified=True,
            verified_by=tasks.CHECK,
            task_id=task.task_id,
            run_id=self._run,
        )
        await self._checkpoint(task.project_id)

    async def _capture_review(self, design: Design) -> None:
        await self._knowledge.capture.capture_gate_rejection(
            project_id=design.project_id,
            gate_type=_GATE_TYPE,
            task_description=design.description,
            proposal=design.alone,
            human_feedback=tasks.FEEDBACK,
            revision_approach=design.bounded,
            task_id=design.task_id,
            run_id=self._run,
        )
        await self._checkpoint(design.project_id)

    async def _checkpoint(self, project_id: str) -> None:
        await self._knowledge.checkpoints.process_checkpoint(project_id, "phase_completion")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Met:
    task: CodingTask
    error: str
    alone: Attempts
    context: Context
    attempts: Attempts


def _asked(task: CodingTask, error: str) -> str:
    return f"{task.project_id}: {task.description}: {error}"


def _told(context: Context) -> str:
    if context.patterns:
        return f"hint from memory: {context.patterns[0].solution}"
    return f"no hint ({(context.reason or 'degraded').replace('_', ' ')})"


def _tried(attempts: Attempts) -> str:
    failed = "".join(f"`{edit.code}` fails, " for edit in attempts.tried[:-1])
    return f"{failed}`{attempts.solution.code}` passes"


def _records(context: Context) -> str:
    """Return the records of the patterns of a context, in its order."""
    return "now ranked: " + "; ".join(
        f"{number}. {pattern.solution} ({pattern.success_count} of {pattern.attempt_count} worked)"
        for number, pattern in enumerate(context.patterns, 1)
    )


def _first(context: Context) -> PatternId | None:
    return context.patterns[0].pattern_id if context.patterns else None


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)


def _sum(attempts: Iterable[Attempts]) -> str:
    return _count(sum(len(each.tried) for each in attempts), "attempt")
