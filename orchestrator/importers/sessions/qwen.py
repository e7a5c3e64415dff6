"""Reader of Qwen Code's transcripts: ~/.qwen/projects/FOLDER/chats/SESSION.jsonl, sub-agents' in FOLDER/subagents.

Read with what 0.24.4 wrote. A command's exit code is in what the tool shows of it; a sub-agent's transcript has the
text alone. What a hook added is marked in the user's text, and stands unmarked behind a tool's output. A run without a
person denies a tool by a rule that names the whole tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.importers.sessions.gemini import (
    SHELL,
    edits_of_display,
    parse_output,
    take_context,
    values_of_output,
)
from orchestrator.importers.sessions.steps import (
    MAIN,
    MAX_EDIT_BYTES,
    MAX_OTHER_BYTES,
    MAX_PROMPT_BYTES,
    Decider,
    Edit,
    Session,
    Step,
    StepOutcome,
    TextBudget,
    edits_of_replacement,
    parse_objects,
    parse_time,
    text_of,
)

TOOL = "qwen-code"
_OUTSIDE = frozenset({"web_fetch", "web_search"})
_LOOKS = frozenset({"grep_search", "search_file_content", "glob", "list_directory"})
_HOOK_CONTEXT = re.compile(r"\s*<qwen:user-prompt-submit-context>(.*?)</qwen:user-prompt-submit-context>\s*", re.DOTALL)
_RULE = re.compile(r"Matching deny rule: \"(?P<rule>[^\"]*)\"")
_UNASKED = re.compile(
    r"permission was declined|non-interactive mode|plan mode|core tools allowlist|call surface|cannot prompt"
    r"|\ABlocked by auto mode policy",
    re.IGNORECASE,
)
"""Words of the tool, or of the model that judges calls in the mode `auto`."""
_REFUSED = re.compile(r"(?:\[Operation Cancelled\] Reason: )?User did not allow tool call:?\s*(.*)", re.DOTALL)
_CANCELLED = re.compile(r"\[Operation Cancelled\]")


@dataclass(slots=True, kw_only=True)
class _Call:
    """A call, with the changes that it asks for."""

    order: int
    tool: str
    command: str | None = None
    folder: str | None = None
    edits: tuple[Edit, ...] = ()
    task: str | None = None
    at: object = None


@dataclass(slots=True, kw_only=True)
class _Reading:
    session: Session
    budget: TextBudget = field(default_factory=TextBudget)
    calls: dict[str, _Call] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict)
    agent: str = MAIN
    task: str | None = None


def matches(lines: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the first objects of a file are a transcript of Qwen Code, or of one of its sub-agents."""
    return any(
        isinstance(each.get("sessionId"), str)
        and ("provenance" in each or isinstance(_parts(each), list))
        and "projectHash" not in each
        for each in lines
    )


def read(lines: Iterable[str]) -> Session:
    """Return the steps of a transcript, or of a sub-agent's, which has the session's id."""
    reading = _Reading(session=Session(tool=TOOL, session_id=""))
    for line in parse_objects(lines, reading.session.passed_over):
        _read_line(reading, line)
    for call_id, call in reading.calls.items():
        if call_id not in reading.steps:
            reading.steps[call_id] = _step(reading, call_id, call, {"outcome": StepOutcome.UNKNOWN})
    reading.session.steps = sorted(reading.steps.values(), key=lambda step: step.order)
    return reading.session


def _read_line(reading: _Reading, line: Mapping[str, Any]) -> None:
    session, kind = reading.session, line.get("type")
    session.session_id = session.session_id or text_of(line.get("sessionId"))
    session.folder = session.folder or text_of(line.get("cwd")) or None
    session.version = session.version or text_of(line.get("version")) or None
    if line.get("isSidechain") is True:
        reading.agent = text_of(line.get("agentId")) or "sidechain"
    parts = _parts(line)
    if kind == "user":
        _read_prompt(reading, line, parts)
    elif kind == "assistant":
        for part in parts or []:
            _read_call(reading, line, part)
    elif kind == "tool_result":
        for part in parts or []:
            _read_result(reading, line, part)
    elif kind != "system":
        session.passed_over[f"unknown type {text_of(kind)[:40] or '?'}"] += 1


def _parts(line: Mapping[str, Any]) -> list[Any] | None:
    message = line.get("message")
    parts = message.get("parts") if isinstance(message, Mapping) else None
    return parts if isinstance(parts, list) else None


def _read_prompt(reading: _Reading, line: Mapping[str, Any], parts: list[Any] | None) -> None:
    told = "\n".join(text_of(part.get("text")) for part in parts or [] if isinstance(part, Mapping))
    own = take_context(told, reading.session, reading.budget, _HOOK_CONTEXT).strip()
    if reading.agent != MAIN or line.get("provenance", "real_user") != "real_user" or line.get("subtype"):
        return
    if own and not own.startswith(("/", "<")):
        reading.task = text_of(line.get("uuid")) or None
        if reading.task:
            reading.session.prompts[reading.task] = reading.budget.cut(own, MAX_PROMPT_BYTES)


def _read_call(reading: _Reading, line: Mapping[str, Any], part: object) -> None:
    call = part.get("functionCall") if isinstance(part, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(call.get("id"), str) or call["id"] in reading.calls:
        return
    arguments = call.get("args")
    arguments = arguments if isinstance(arguments, Mapping) else {}
    tool = text_of(call.get("name")) or "?"
    command = text_of(arguments.get("command")) if tool == SHELL else ""
    reading.calls[call["id"]] = _Call(
        order=len(reading.calls) + 1,
        tool=tool,
        command=reading.budget.cut(command, MAX_EDIT_BYTES) or None,
        folder=text_of(arguments.get("directory")) or None,
        edits=_edits_of_arguments(reading, arguments),
        task=reading.task,
        at=line.get("timestamp"),
    )


def _edits_of_arguments(reading: _Reading, arguments: Mapping[str, Any]) -> tuple[Edit, ...]:
    """Return the change that was asked for."""
    path = text_of(arguments.get("file_path"))
    old = text_of(arguments.get("old_string"))
    new = text_of(arguments.get("new_string")) or text_of(arguments.get("content"))
    return edits_of_replacement(path, old, new, reading.budget, MAX_EDIT_BYTES)


def _read_result(reading: _Reading, line: Mapping[str, Any], part: object) -> None:
    answer = part.get("functionResponse") if isinstance(part, Mapping) else None
    if not isinstance(answer, Mapping) or not isinstance(answer.get("id"), str):
        return
    call = reading.calls.get(answer["id"])
    if call is None:
        reading.session.passed_over["a result without its call"] += 1
        return
    response = answer.get("response")
    response = response if isinstance(response, Mapping) else {}
    told = line.get("toolCallResult")
    values = _values(reading, call, response, told if isinstance(told, Mapping) else {})
    reading.steps[answer["id"]] = _step(reading, answer["id"], call, values)


def _values(reading: _Reading, call: _Call, response: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call came to."""
    error = text_of(response.get("error"))
    text = take_context(error or text_of(response.get("output")), reading.session, reading.budget, _HOOK_CONTEXT)
    shown = told.get("resultDisplay")
    if told.get("errorType") == "execution_denied" or _REFUSED.match(text) or told.get("status") == "cancelled":
        return _denied(reading, call, text_of(shown) or text)
    if call.tool == SHELL:
        return _values_of_command(reading, text, shown, told)
    if error or told.get("status") == "error":
        if _UNASKED.search(error) and not told.get("status"):  # a sub-agent's
            return _denied(reading, call, error)
        return {"outcome": StepOutcome.TOOL_ERROR, "text": reading.budget.cut(text, MAX_OTHER_BYTES)}
    return {
        "outcome": StepOutcome.OK,
        "text": reading.budget.cut(text, MAX_OTHER_BYTES),
        "edits": edits_of_display(shown, reading.budget) or call.edits,
        "is_outside": call.tool in _OUTSIDE or call.tool.startswith("mcp__"),
        "is_search": call.tool in _LOOKS and text.lstrip().lower().startswith("no "),
    }


def _values_of_command(reading: _Reading, text: str, shown: object, told: Mapping[str, Any]) -> dict[str, Any]:
    output = parse_output(text)
    if output.rest:  # what a hook added
        reading.session.handed_out.append(reading.budget.cut(output.rest))
    details = shown if isinstance(shown, Mapping) else {}
    code = details.get("exitCode")
    if not isinstance(code, int) or isinstance(code, bool) or details.get("signal") or output.is_stopped:
        values = values_of_output(output, reading.budget)
        if values["outcome"] is StepOutcome.UNKNOWN and told.get("status") == "error":
            values["outcome"] = StepOutcome.TOOL_ERROR
        return values
    return {
        "outcome": StepOutcome.OK if code == 0 else StepOutcome.FAILED,
        "exit_code": code,
        "text": reading.budget.cut(text_of(details.get("output"))),
        "is_search": code != 0 and told.get("status") == "success",
    }


def _denied(reading: _Reading, call: _Call, text: str) -> dict[str, Any]:
    """Return who denied a call, and with which words."""
    text = text[: MAX_OTHER_BYTES * 4].strip()
    rule = _RULE.search(text)
    refused = _REFUSED.match(text)
    decider, reason = Decider.RULE, text  # a hook's own words
    if "(" not in rule["rule"] if rule is not None else _UNASKED.search(text):
        decider = Decider.NOBODY
    elif refused is not None:
        decider, reason = Decider.PERSON, refused[1].strip()
    elif _CANCELLED.match(text) or not text:  # the whole run was stopped
        return {"outcome": StepOutcome.TOOL_ERROR, "text": reading.budget.cut(text, MAX_OTHER_BYTES)}
    return {
        "outcome": StepOutcome.DENIED,
        "decided_by": decider,
        "reason": reading.budget.cut(reason, MAX_OTHER_BYTES),
        "edits": call.edits,
    }


def _step(reading: _Reading, call_id: str, call: _Call, values: Mapping[str, Any]) -> Step:
    return Step(
        order=call.order,
        id=call_id,
        agent=reading.agent,
        parent=None if reading.agent == MAIN else MAIN,
        tool=call.tool,
        command=call.command,
        folder=call.folder or reading.session.folder,
        task=call.task,
        at=parse_time(call.at),
        **values,
    )
