"""The story that `hardwon demo` tells: each step with memory, beside the same step without.

A scripted agent mends small programs whose tests really run. Alone it tries its own edits in a fixed order; with memory
it first tries the edit that its context names. A scripted reviewer turns down what has no end. What is learned, asked
and reported goes through the services that every orchestrator calls.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
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
    """A step of the story: its title, lines that tell it, and how many of a unit it took without memory and with it.

    `pattern_id`: the pattern that it was about, None before there is one.
    """

    title: str
    lines: tuple[str, ...]
    without: int
    with_memory: int
    unit: str
    pattern_id: PatternId | None = None


async def tell_story(knowledge: AnyKnowledge) -> AsyncIterator[StoryStep]:
    """Yield the steps as they are done, in the workspace of `knowledge`, which is to be empty."""
    story = _Story(knowledge)
    yield await story.fix_first_pattern()
    yield await story.meet_again()
    yield await story.remember_an_objection()
    yield await story.lose_a_wrong_hint()
    yield await story.rank_rivals()
    yield await story.keep_silent()


class _Story:
    def __init__(self, knowledge: AnyKnowledge) -> None:
        self._knowledge = knowledge
        self._builder = OrchestratorContextBuilder(knowledge)
        self._run = uuid.uuid4().hex[:8]

    async def fix_first_pattern(self) -> StoryStep:
        task = tasks.ORDER_AGE
        error = await asyncio.to_thread(tasks.meet_error, task)
        attempts = await asyncio.to_thread(tasks.solve, task, error)
        await self._capture(task, attempts)
        return StoryStep(
            title="A failure is fixed, and remembered",
            lines=(
                f"{task.project_id}: {task.description}",
                f"  {error}",
                f"  the agent tries {_describe_tries(attempts)}",
                "  remembered: the failure, the fix, and the test that passed",
            ),
            without=len(attempts.tried),
            with_memory=len(attempts.tried),
            unit="attempt",
        )

    async def meet_again(self) -> StoryStep:
        met = await self._solve(tasks.OVERDUE)
        return StoryStep(
            title="Another project meets it in other words",
            lines=(
                f"{met.task.project_id}: {met.task.description}",
                f"  {met.error}",
                f"  {_describe_hint(met.context)}",
                f"  the agent tries {_describe_tries(met.attempts)}",
            ),
            without=len(met.alone.tried),
            with_memory=len(met.attempts.tried),
            unit="attempt",
            pattern_id=_first_pattern(met.context),
        )

    async def remember_an_objection(self) -> StoryStep:
        first, then = tasks.FIRST_DESIGN, tasks.NEXT_DESIGN
        await self._capture_review(first)
        context = await self._ask(then.project_id, then.task_id, then.description, kind="design")
        alone, proposals = tasks.propose(then), tasks.propose(then, context.text)
        if context.patterns:
            await self._report(context, worked=len(proposals) == 1)
        return StoryStep(
            title="A reviewer's objection is remembered",
            lines=(
                f"{first.project_id} proposes: {first.alone}",
                f'  the reviewer (scripted): "{tasks.FEEDBACK}"',
                f"  accepted then: {first.bounded}",
                f"{then.project_id}: {then.description}",
                f"  {_describe_hint(context)}",
                f"  proposes with it: {proposals[0]}",
                f"  without it first: {alone[0]}",
            ),
            without=len(alone),
            with_memory=len(proposals),
            unit="proposal",
            pattern_id=_first_pattern(context),
        )

    async def lose_a_wrong_hint(self) -> StoryStep:
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
        after = await self._ask(met[-1].task.project_id, "after", _question(met[-1].task, met[-1].error))
        return StoryStep(
            title="A wrong hint loses its place",
            lines=(
                f"old-crm reports a fix that no test has seen: `{tasks.NO_COMMAS.code}`",
                "its word counts as one success, and what is tested from now on counts beside it",
                *(_compare_tries(each) for each in met),
                *_rank_hints(after),
            ),
            without=sum(len(each.alone.tried) for each in met),
            with_memory=sum(len(each.attempts.tried) for each in met),
            unit="attempt",
            pattern_id=_first_pattern(after),
        )

    async def rank_rivals(self) -> StoryStep:
        for task in tasks.FIRST_IMPORTS:
            error = await asyncio.to_thread(tasks.meet_error, task)
            await self._capture(task, await asyncio.to_thread(tasks.solve, task, error))
        met = [await self._solve(task) for task in tasks.NEXT_IMPORTS]
        after = await self._ask(met[-1].task.project_id, "after", _question(met[-1].task, met[-1].error))
        return StoryStep(
            title="Of two fixes, the better one comes first",
            lines=(
                f"two projects fixed a file that could not be read, both with `{tasks.LATIN_1.code}`",
                *(_compare_tries(each) for each in met),
                *_rank_hints(after),
            ),
            without=sum(len(each.alone.tried) for each in met),
            with_memory=sum(len(each.attempts.tried) for each in met),
            unit="attempt",
            pattern_id=_first_pattern(after),
        )

    async def keep_silent(self) -> StoryStep:
        contexts = [await self._ask(project, task, text) for project, task, text in tasks.FOREIGN]
        return StoryStep(
            title="No hint where nothing fits",
            lines=tuple(
                f'{project}: "{text}": {_describe_hint(context)}'
                for (project, _, text), context in zip(tasks.FOREIGN, contexts, strict=True)
            ),
            without=0,
            with_memory=sum(bool(context.patterns) for context in contexts),
            unit="hint",
        )

    async def _solve(self, task: CodingTask) -> _Meeting:
        """Solve a task alone and with its context; report what came of the hint, and capture what was new."""
        error = await asyncio.to_thread(tasks.meet_error, task)
        alone = await asyncio.to_thread(tasks.solve, task, error)
        context = await self._ask(task.project_id, task.task_id, _question(task, error))
        attempts = await asyncio.to_thread(tasks.solve, task, error, context.text if context.patterns else "")
        told = context.patterns[0].solution if context.patterns else ""
        worked = attempts.solution.code in told
        if context.patterns:
            await self._report(context, worked=worked)
        if not worked:
            await self._capture(task, attempts)
        return _Meeting(task=task, error=error, alone=alone, context=context, attempts=attempts)

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
            dead_ends=[edit.steps for edit in attempts.tried[:-1]],
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
class _Meeting:
    task: CodingTask
    error: str
    alone: Attempts
    context: Context
    attempts: Attempts


def _question(task: CodingTask, error: str) -> str:
    return f"{task.description}\n{error}"


def _describe_hint(context: Context) -> str:
    if context.patterns:
        return f"hint: {context.patterns[0].solution}"
    if context.confidence is not None:
        return f"no hint, as the nearest would help with a chance of {context.confidence:.0%}"
    return f"no hint ({(context.reason or 'degraded').replace('_', ' ')})"


def _describe_tries(attempts: Attempts) -> str:
    failed = "".join(f"`{edit.code}`: fails; " for edit in attempts.tried[:-1])
    return f"{failed}`{attempts.solution.code}`: passes"


def _compare_tries(met: _Meeting) -> str:
    tries, alone = len(met.attempts.tried), len(met.alone.tried)
    return f"{met.task.project_id} needs {tries} ({alone} without memory): {_describe_tries(met.attempts)}"


def _rank_hints(context: Context) -> list[str]:
    """Return the patterns of a context in its order, with their records."""
    return [
        f"hint {number} from now on: {pattern.solution} Worked {pattern.success_count} of {pattern.attempt_count} times"
        for number, pattern in enumerate(context.patterns, 1)
    ]


def _first_pattern(context: Context) -> PatternId | None:
    return context.patterns[0].pattern_id if context.patterns else None
