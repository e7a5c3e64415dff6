"""Reader of Copilot CLI's transcripts: ~/.copilot/session-state/SESSION/events.jsonl, with the sub-agents inside.

Read with what 1.0.102 wrote. A command that fails is a call with success, whose exit code is in `shellExecution`. Who
denied a call is in `permission.completed`, or, for a hook or a rule, in the words of the error. A command in the
background ends in the result of the call that reads its output.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

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
    edits_of_diff,
    edits_of_replacement,
    parse_objects,
    parse_time,
    text_of,
)

TOOL = "copilot-cli"
_PASSED_OVER = re.compile(
    r"(?:session|assistant|system|subagent|hook|permission|skill|tool|user|external_tool|elicitation|command|model|abort"
    r"|capabilities|exit_plan_mode|user_input|sampling|mcp|pending_messages)(?:\.|$)"
)
"""Families of events; those that hold no step are not counted, as every transcript has them."""
_SHELL = frozenset({"bash", "powershell"})
_OUTSIDE = frozenset({"web_fetch", "web_search", "fetch"})
_LOOKS = frozenset({"grep", "glob", "rg"})
_SHELL_LINE = re.compile(r"\n?<(?:shellId: \S+ |exited with |command with )[^<>\n]*>\s*\Z")
_RUNNING = re.compile(
    r"<command (?:started in background )?with (?:id|shellId): (?P<started>[^\s<>]+?)(?: is still running[^<>]*)?>\s*\Z"
    r"|<shellId: (?P<running>\S+) (?:is )?still running[^<>]*>\s*\Z"
)
_READS_SHELL = frozenset({"read_bash", "write_bash", "read_powershell", "write_powershell"})
_REMINDER = re.compile(r"<system_reminder>(.*?)</system_reminder>", re.DOTALL)
_GUIDANCE = re.compile(r"\n+Tool \"[^\"\n]*\" \w+\. Additional guidance from \w+ hooks:\n(.*)\Z", re.DOTALL)
_BY_HOOK = re.compile(r"\ADenied by (?:\w+ )?hook(?: \S+)?: (.*)", re.DOTALL)
_BY_PERSON = re.compile(r"interactively|by-user|user_|human", re.IGNORECASE)
_BY_RULE = re.compile(r"rules|policy|hook", re.IGNORECASE)
_RULED = re.compile(r"denied due to the following rules|Denied by (?:\w+ )?polic", re.IGNORECASE)
_UNASKED = re.compile(r"could-not-request|no interactive user|unattended|could not request", re.IGNORECASE)
_SAID = re.compile(r"(?:feedback|the user (?:said|provided)[^:]*): ?(.*)", re.DOTALL | re.IGNORECASE)


@dataclass(slots=True, kw_only=True)
class _Call:
    """A call, with what was asked for, and with the answer to the question for permission."""

    order: int
    tool: str
    agent: str
    parent_call: str | None = None
    command: str | None = None
    edits: tuple[Edit, ...] = ()
    task: str | None = None
    at: object = None
    is_outside: bool = False
    permission: str = ""
    feedback: str = ""
    shell: str = ""


@dataclass(slots=True, kw_only=True)
class _Reading:
    session: Session
    budget: TextBudget = field(default_factory=TextBudget)
    calls: dict[str, _Call] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)
    """Calls whose commands still run, by their shell."""
    task: str | None = None


def matches(lines: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the first objects of a file are a transcript of Copilot CLI."""
    return any(each.get("type") == "session.start" and isinstance(each.get("data"), Mapping) for each in lines)


def read(lines: Iterable[str]) -> Session:
    """Return the steps of a transcript, its sub-agents' among them."""
    reading = _Reading(session=Session(tool=TOOL, session_id=""))
    for line in parse_objects(lines, reading.session.passed_over):
        data, kind = line.get("data"), text_of(line.get("type"))
        read_event = _EVENTS.get(kind)
        if not isinstance(data, Mapping) or not _PASSED_OVER.match(kind):
            reading.session.passed_over[f"unknown type {kind[:40] or '?'}"] += 1
        elif read_event is not None:
            read_event(reading, line, data)
    for call_id, call in reading.calls.items():
        if call_id not in reading.steps:
            reading.steps[call_id] = _step(reading, call_id, call, {"outcome": StepOutcome.UNKNOWN})
    reading.session.steps = sorted(reading.steps.values(), key=lambda step: step.order)
    return reading.session


def _read_start(reading: _Reading, _: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    session, context = reading.session, data.get("context")
    session.session_id = session.session_id or text_of(data.get("sessionId"))
    session.version = session.version or text_of(data.get("copilotVersion")) or None
    if isinstance(context, Mapping):
        session.folder = session.folder or text_of(context.get("cwd")) or None


def _read_prompt(reading: _Reading, line: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    for found in _REMINDER.finditer(text_of(data.get("transformedContent"))):
        _hand_out(reading, found[1])
    source = text_of(data.get("source"))
    text = text_of(data.get("content")).strip()
    if text and not line.get("agentId") and source in {"", "user"} and not text.startswith("<"):
        reading.task = text_of(data.get("messageId")) or text_of(line.get("id")) or None
        if reading.task:
            reading.session.prompts[reading.task] = reading.budget.cut(text, MAX_PROMPT_BYTES)


def _read_hook(reading: _Reading, _: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    output = data.get("output")
    if isinstance(output, Mapping):
        _hand_out(reading, text_of(output.get("additionalContext")))


def _hand_out(reading: _Reading, text: str) -> None:
    handed = reading.budget.cut(text.strip())
    if handed and handed not in reading.session.handed_out[-4:]:
        reading.session.handed_out.append(handed)


def _read_call(reading: _Reading, line: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    call_id = text_of(data.get("toolCallId"))
    if not call_id or call_id in reading.calls:
        return
    arguments = data.get("arguments")
    arguments = arguments if isinstance(arguments, Mapping) else {}
    tool = text_of(data.get("toolName")) or "?"
    command = text_of(arguments.get("command")) if tool in _SHELL else ""
    reading.calls[call_id] = _Call(
        order=len(reading.calls) + 1,
        tool=tool,
        agent=text_of(line.get("agentId")) or MAIN,
        parent_call=text_of(data.get("parentToolCallId")) or None,
        command=reading.budget.cut(command, MAX_EDIT_BYTES) or None,
        edits=_edits_of_arguments(reading, arguments),
        task=reading.task,
        at=line.get("timestamp"),
        shell=text_of(arguments.get("shellId")),
        is_outside=tool in _OUTSIDE or bool(data.get("mcpServerName")) or bool(data.get("mcpToolName")),
    )


def _edits_of_arguments(reading: _Reading, arguments: Mapping[str, Any]) -> tuple[Edit, ...]:
    """Return the change that was asked for."""
    path = text_of(arguments.get("path"))
    old = text_of(arguments.get("old_str"))
    new = text_of(arguments.get("new_str")) or text_of(arguments.get("file_text"))
    return edits_of_replacement(path, old, new, reading.budget, MAX_EDIT_BYTES)


def _read_permission(reading: _Reading, _: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    call = reading.calls.get(text_of(data.get("toolCallId")))
    result = data.get("result")
    if call is None or not isinstance(result, Mapping):
        return
    kind = text_of(result.get("kind"))
    if kind.startswith("denied") or kind in {"reject", "rejected", "deny"}:
        call.permission = f"{kind} {text_of(data.get('decisionSource'))}"
        call.feedback = reading.budget.cut(text_of(result.get("feedback")).strip(), MAX_OTHER_BYTES)


def _read_result(reading: _Reading, _: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    call_id = text_of(data.get("toolCallId"))
    call = reading.calls.get(call_id)
    if call is None:
        reading.session.passed_over["a result without its call"] += 1
        return
    started = reading.running.get(call.shell, "") if call.tool in _READS_SHELL else ""
    if started and isinstance(data.get("shellExecution"), Mapping):
        begun = reading.calls[started]
        reading.steps[started] = _step(reading, started, begun, _values(reading, begun, data))
        del reading.running[call.shell]
    reading.steps[call_id] = _step(reading, call_id, call, _values(reading, call, data))
    told = text_of(_mapping(data.get("result")).get("content"))
    if guided := _GUIDANCE.search(told):
        _hand_out(reading, guided[1])
    still = _RUNNING.search(_GUIDANCE.sub("", told)[-MAX_OTHER_BYTES:])
    if still is not None and call.tool in _SHELL:
        reading.running[still["started"] or still["running"]] = call_id


def _values(reading: _Reading, call: _Call, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call came to."""
    result, error = _mapping(data.get("result")), _mapping(data.get("error"))
    text = _GUIDANCE.sub("", text_of(result.get("content")) or text_of(error.get("message")))
    if data.get("success") is not True:
        if text_of(error.get("code")) in {"denied", "rejected"} or call.permission:
            return {"outcome": StepOutcome.DENIED, "edits": call.edits, **_decision(call, text)}
        return {"outcome": StepOutcome.TOOL_ERROR, "text": reading.budget.cut(text, MAX_OTHER_BYTES)}
    if call.tool in _SHELL:
        code = _mapping(data.get("shellExecution")).get("exitCode")
        output = reading.budget.cut(_SHELL_LINE.sub("", text))
        if not isinstance(code, int) or isinstance(code, bool) or _RUNNING.search(text[-MAX_OTHER_BYTES:]):
            return {"outcome": StepOutcome.UNKNOWN, "text": output}
        return {"outcome": StepOutcome.OK if code == 0 else StepOutcome.FAILED, "exit_code": code, "text": output}
    return {
        "outcome": StepOutcome.OK,
        "text": reading.budget.cut(text, MAX_OTHER_BYTES),
        "edits": _edits(reading, call, data.get("fileEdits"), text_of(result.get("detailedContent"))),
        "is_outside": call.is_outside,
        "is_search": call.tool in _LOOKS and text.lstrip().lower().startswith("no "),
    }


def _edits(reading: _Reading, call: _Call, files: object, diff: str) -> tuple[Edit, ...]:
    """Return the changes that a result tells: the diff of a tool that edits no file only shows one."""
    paths = (
        [text_of(each.get("path")) for each in files if isinstance(each, Mapping)] if isinstance(files, list) else []
    )
    paths = [path for path in paths if path]
    if not paths:
        return ()
    told = edits_of_diff(diff, paths[0], reading.budget, MAX_EDIT_BYTES)
    by_name = {path.lstrip("/"): path for path in paths}
    edits = tuple(Edit(path=by_name.get(edit.path.lstrip("/"), edit.path), diff=edit.diff) for edit in told)
    return edits or call.edits or tuple(Edit(path=path, diff="") for path in paths)


def _decision(call: _Call, text: str) -> dict[str, Any]:
    """Return who denied a call, and with which words."""
    shown = text[:MAX_OTHER_BYTES]
    if blocked := _BY_HOOK.match(text):
        return {"decided_by": Decider.RULE, "reason": blocked[1].strip()[:MAX_OTHER_BYTES]}
    if _UNASKED.search(f"{call.permission} {shown}"):
        return {"decided_by": Decider.NOBODY, "reason": shown}
    if _BY_PERSON.search(call.permission):
        said = _SAID.search(shown)
        return {"decided_by": Decider.PERSON, "reason": call.feedback or (said[1].strip() if said else "")}
    if _BY_RULE.search(call.permission) or _RULED.search(shown):
        return {"decided_by": Decider.RULE, "reason": call.feedback or shown}
    return {"decided_by": Decider.NOBODY, "reason": shown}


def _step(reading: _Reading, call_id: str, call: _Call, values: Mapping[str, Any]) -> Step:
    parent = reading.calls.get(call.parent_call or "")
    above = parent.agent if parent is not None and parent.agent != call.agent else MAIN
    return Step(
        order=call.order,
        id=call_id,
        agent=call.agent,
        parent=None if call.agent == MAIN else above,
        tool=call.tool,
        command=call.command,
        folder=reading.session.folder,
        task=call.task,
        at=parse_time(call.at),
        **values,
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


_EVENTS = {
    "session.start": _read_start,
    "session.resume": _read_start,
    "user.message": _read_prompt,
    "hook.end": _read_hook,
    "tool.execution_start": _read_call,
    "permission.completed": _read_permission,
    "tool.execution_complete": _read_result,
}
