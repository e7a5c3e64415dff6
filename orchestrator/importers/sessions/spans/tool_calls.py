"""Calls of tools as their spans tell them: the command or change that was asked for, and what came of it.

Where a span says too little to tell success from failure, the outcome is unknown; one that fails without a word on why
has no text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from hardwon.integrations.span_attributes import ARGUMENTS, CALL_ID, COMMAND, RESULT, RETRY_CAUSE, TOOL_NAME
from hardwon.models.runs import is_trouble
from hardwon.text.call_lines import MAX_LINE_CHARS, find_command, parse_value, show_call
from orchestrator.importers.sessions.programs.call_arguments import (
    find_edits,
    find_folder,
    is_check_name,
    is_outside_name,
)
from orchestrator.importers.sessions.programs.call_results import Result, fail_call, judge_call, read_result
from orchestrator.importers.sessions.spans.otlp import Span
from orchestrator.importers.sessions.steps import Decider, Step, StepOutcome, TextBudget

_BY_PERSON = re.compile(r"user|human|person", re.IGNORECASE)
"""Match the source of a decision that a person made, such as `user_reject`."""
_BY_RULE = re.compile(r"hook|rule|policy", re.IGNORECASE)
"""Match the source of a decision that a rule made, such as `hook`."""


def read_tool_call(span: Span, children: Sequence[Span], budget: TextBudget) -> Step:
    """Return the step that a span is of, without its place in the session.

    `children`: the spans below it, which tell who decided, and how it ended.
    """
    tool = _text_of(span, TOOL_NAME) or span.name.rpartition(" ")[2] or "?"
    arguments = parse_value(_first(span, ARGUMENTS))
    shell = _text_of(span, COMMAND) or find_command(tool, arguments)
    edits = find_edits(tool, arguments, budget) if shell is None else ()
    outcome, result = _judge(span, children, is_edit=bool(edits))
    line = None if edits else shell or show_call(tool, arguments)
    return Step(
        order=0,
        id=_text_of(span, CALL_ID) or span.span_id,
        tool=tool,
        command=line[:MAX_LINE_CHARS] if line else None,
        outcome=outcome,
        exit_code=result.exit_code,
        text=budget.cut(result.text),
        edits=edits,
        decided_by=_decider(children) if outcome is StepOutcome.DENIED else None,
        folder=find_folder(arguments),
        is_outside=is_outside_name(tool) or span.attributes.get("gen_ai.tool.type") == "extension",
        is_call=shell is None and not edits,
        is_check=shell is None and not edits and is_check_name(tool),
    )


def _judge(span: Span, children: Sequence[Span], *, is_edit: bool) -> tuple[StepOutcome, Result]:
    """Return what came of a call: its span's status alone proves no success, `success` of a span does."""
    result = read_result(_first(span, RESULT))
    if any(child.attributes.get("decision") == "reject" for child in children):
        return StepOutcome.DENIED, Result(text="")
    told = [span, *children]
    if any(each.is_error or each.attributes.get("success") is False for each in told):
        types = [str(each.attributes.get("error.type", "")) for each in told]
        if any(map(is_trouble, [*types, span.exception[0], str(span.attributes.get(RETRY_CAUSE, ""))])):
            return StepOutcome.TOOL_ERROR, result
        return fail_call(result, span.exception[1], *(each.message for each in told))
    return judge_call(result, is_edit=is_edit, is_success=any(each.attributes.get("success") is True for each in told))


def _decider(children: Sequence[Span]) -> Decider:
    sources = " ".join(str(each.attributes.get("source", "")) for each in children)
    if _BY_PERSON.search(sources):
        return Decider.PERSON
    return Decider.RULE if _BY_RULE.search(sources) else Decider.NOBODY


def _first(span: Span, names: Iterable[str]) -> Any:
    return next((span.attributes[name] for name in names if name in span.attributes), None)


def _text_of(span: Span, names: Iterable[str]) -> str | None:
    value = _first(span, names)
    return value.strip() or None if isinstance(value, str) else None
