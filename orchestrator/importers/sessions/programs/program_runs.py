"""Tool calls that a program tells of its agents' runs, in the normal form of steps.

The tools are the program's own functions, so what a call did is read off its arguments: a command of a shell, an edit
of a file, or a check where the tool's name says so. What a tool changes is not always told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hardwon.models.runs import ToolCall, ToolOutcome
from hardwon.text.call_lines import MAX_LINE_CHARS, find_command, show_call
from orchestrator.importers.sessions.programs.call_arguments import (
    find_edits,
    find_folder,
    is_check_name,
    is_outside_name,
)
from orchestrator.importers.sessions.programs.call_results import Result, fail_call, judge_call, read_result
from orchestrator.importers.sessions.steps import Decider, Session, Step, StepOutcome, TextBudget


def make_session(
    framework: str, session_id: str, calls: Iterable[ToolCall], *, folder: str | None, contexts: Sequence[str] = ()
) -> Session:
    """Return the session of a run whose tool calls were told in order; a call that was told twice counts once."""
    told = {call.id: call for call in calls}
    budget = TextBudget()
    steps = [_step(order, call, budget) for order, call in enumerate(told.values())]
    returning = {
        step.tool
        for step, call in zip(steps, told.values(), strict=True)
        if step.outcome is StepOutcome.FAILED and call.outcome is ToolOutcome.OK
    }
    return Session(
        tool=framework,
        session_id=session_id,
        folder=folder,
        steps=[_doubt(step, told[step.id]) if step.tool in returning else step for step in steps],
        handed_out=list(contexts),
        may_hide_changes=True,
    )


def _step(order: int, call: ToolCall, budget: TextBudget) -> Step:
    command = find_command(call.tool, call.arguments)
    edits = () if command else find_edits(call.tool, call.arguments, budget)
    outcome, result = _judge(call, is_shell=command is not None, is_edit=bool(edits))
    line = None if edits else command or show_call(call.tool, call.arguments)
    return Step(
        order=order,
        id=call.id,
        tool=call.tool,
        command=line[:MAX_LINE_CHARS] if line else None,
        outcome=outcome,
        exit_code=result.exit_code,
        text=budget.cut(result.text),
        edits=edits,
        decided_by=_decider(call),
        reason=call.text if outcome is StepOutcome.DENIED else "",
        proposal=call.proposal,
        folder=find_folder(call.arguments),
        is_outside=is_outside_name(call.tool),
        is_call=command is None and not edits,
        is_check=command is None and not edits and is_check_name(call.tool),
    )


def _judge(call: ToolCall, *, is_shell: bool, is_edit: bool) -> tuple[StepOutcome, Result]:
    """Return what came of a call: a shell that returned tells nothing of its command's end, any other tool does."""
    result = _result(call)
    match call.outcome:
        case ToolOutcome.OK:
            return judge_call(result, is_edit=is_edit, is_success=not is_shell)
        case ToolOutcome.FAILED:
            return fail_call(result)
        case ToolOutcome.TOOL_ERROR | ToolOutcome.DENIED:
            return StepOutcome(call.outcome), result


def _doubt(step: Step, call: ToolCall) -> Step:
    """Return a step of a tool that returns failures, too: that it returned is no proof, its words may be one."""
    if step.outcome is not StepOutcome.OK or step.edits:
        return step
    _, judged = judge_call(_result(call), is_edit=False, is_success=False)
    return replace(step, exit_code=judged.exit_code)


def _result(call: ToolCall) -> Result:
    result = read_result(call.text)
    return result if call.exit_code is None else replace(result, exit_code=call.exit_code)


def _decider(call: ToolCall) -> Decider | None:
    if call.outcome is not ToolOutcome.DENIED:
        return None
    return Decider.PERSON if call.by_person else Decider.NOBODY
