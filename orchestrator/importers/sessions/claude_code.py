"""Reader of Claude Code's transcripts: ~/.claude/projects/FOLDER/SESSION.jsonl and SESSION/subagents/agent-ID.jsonl.

Read with what 2.1.332 wrote. Each result is there twice, as `user` and in an `api-request-blob`; only the first counts.
What a hook added is an `attachment`.
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
    hunk_of_replacement,
    parse_objects,
    parse_time,
    text_of,
)

TOOL = "claude-code"
_PASSED_OVER = frozenset(
    re.findall(
        r"\S+",
        """api-request api-request-blob api-request-shape atis-latch last-prompt tools-used queue-operation cost-state
        file-history-snapshot summary system progress ai-title custom-title agent-name mode tag pr-link
        permission-mode content-replacement speculation-accept""",
    )
)
"""Types of lines that hold no step; not counted, as nearly every transcript has them."""
_SHELL = frozenset({"Bash", "PowerShell"})
_EDITORS = frozenset({"Edit", "MultiEdit", "Write", "NotebookEdit"})
_OUTSIDE = frozenset({"WebFetch", "WebSearch"})
_EXIT_CODE = re.compile(r"(?:Error: )?Exit code (-?\d+)\n?")
_TIMED_OUT = re.compile(r"\A(?:Exit code \d+\n)?Command timed out after ", re.MULTILINE)
_HOOK_ERROR = re.compile(r"\A(?:Error: )?\w+:\S* hook (?:error|blocked)[^:\[]*:? ?(?:\[.*?\]: )?", re.DOTALL)
_SAID = re.compile(r"the user said:\s*(.*)", re.DOTALL)
_REFUSED = re.compile(r"The user doesn't want to (?:proceed|take this action)|^User rejected|tool use was rejected")
_HEADLESS = re.compile(r"sdk|print|headless|action", re.IGNORECASE)


@dataclass(slots=True, kw_only=True)
class _Call:
    order: int
    line: Mapping[str, Any]
    tool: str
    values: Mapping[str, Any]
    task: str | None


@dataclass(slots=True, kw_only=True)
class _Reading:
    session: Session
    budget: TextBudget = field(default_factory=TextBudget)
    calls: dict[str, _Call] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    task: str | None = None
    is_headless: bool = False


def matches(lines: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the first objects of a file are a transcript of Claude Code."""
    return any(
        isinstance(each.get("sessionId"), str) and ("uuid" in each or "operation" in each or "leafUuid" in each)
        for each in lines
        if not {"provenance", "projectHash"} & each.keys()
    )


def read(lines: Iterable[str]) -> Session:
    """Return the steps of a transcript, or of a sub-agent's, which has the session's id."""
    reading = _Reading(session=Session(tool=TOOL, session_id=""))
    for line in parse_objects(lines, reading.session.passed_over):
        _read_line(reading, line)
    for call_id, call in reading.calls.items():
        if call_id not in reading.done:
            reading.session.steps.append(_step(reading, call_id, call, outcome=StepOutcome.UNKNOWN))
    reading.session.steps.sort(key=lambda step: step.order)
    return reading.session


def _read_line(reading: _Reading, line: Mapping[str, Any]) -> None:
    session, kind = reading.session, text_of(line.get("type"))
    session.session_id = session.session_id or text_of(line.get("sessionId"))
    session.folder = session.folder or text_of(line.get("cwd")) or None
    session.version = session.version or text_of(line.get("version")) or None
    if kind in {"user", "assistant"}:
        reading.is_headless = reading.is_headless or bool(_HEADLESS.search(text_of(line.get("entrypoint"))))
        _read_message(reading, line)
    elif kind == "attachment":
        attachment = line.get("attachment")
        if isinstance(attachment, Mapping) and attachment.get("type") == "hook_additional_context":
            content = attachment.get("content")
            session.handed_out += (
                [each for each in content if isinstance(each, str)] if isinstance(content, list) else []
            )
    elif kind not in _PASSED_OVER:
        session.passed_over[f"unknown type {kind[:40] or '?'}"] += 1


def _read_message(reading: _Reading, line: Mapping[str, Any]) -> None:
    message = line.get("message")
    content = message.get("content") if isinstance(message, Mapping) else None
    if line.get("type") == "user" and isinstance(line.get("promptId"), str):
        reading.task = line["promptId"]
    if isinstance(content, str):
        _read_prompt(reading, line, content)
        return
    for block in content if isinstance(content, list) else []:
        if not isinstance(block, Mapping):
            continue
        if block.get("type") == "text" and line.get("type") == "user":
            _read_prompt(reading, line, text_of(block.get("text")))
        elif block.get("type") == "tool_use" and isinstance(block.get("id"), str):
            values = block.get("input")
            call = _Call(
                order=len(reading.calls) + 1,
                line=_origin(line),
                tool=text_of(block.get("name")) or "?",
                values=_shorten(reading, values if isinstance(values, Mapping) else {}),
                task=reading.task,
            )
            reading.calls.setdefault(block["id"], call)
        elif block.get("type") == "tool_result" and isinstance(block.get("tool_use_id"), str):
            _read_result(reading, line, block)


def _origin(line: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: line[name] for name in ("timestamp", "cwd", "agentId", "isSidechain") if name in line}


def _shorten(reading: _Reading, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a call without what is long: they stay in memory until the transcript's end."""
    kept = {
        name: value for name, value in values.items() if name not in {"content", "edits", "old_string", "new_string"}
    }
    short = {name: reading.budget.cut(value, MAX_EDIT_BYTES) for name, value in kept.items() if isinstance(value, str)}
    pairs = values.get("edits")
    changes = [each for each in pairs if isinstance(each, Mapping)] if isinstance(pairs, list) else [values]
    hunks = [hunk_of_replacement(text_of(each.get("old_string")), text_of(each.get("new_string"))) for each in changes]
    if isinstance(values.get("content"), str):
        hunks.append(hunk_of_replacement("", values["content"]))
    short["diff"] = reading.budget.cut("\n".join(filter(None, hunks)), MAX_EDIT_BYTES)
    return short


def _read_prompt(reading: _Reading, line: Mapping[str, Any], text: str) -> None:
    is_person = line.get("promptSource") != "system" and not line.get("isMeta") and not text.lstrip().startswith("<")
    if reading.task and is_person and text:
        reading.session.prompts.setdefault(reading.task, reading.budget.cut(text, MAX_PROMPT_BYTES))


def _read_result(reading: _Reading, line: Mapping[str, Any], block: Mapping[str, Any]) -> None:
    call_id = block["tool_use_id"]
    if call_id in reading.done:
        return
    call = reading.calls.get(call_id)
    if call is None:  # its beginning is in another file, or was cut off
        reading.session.passed_over["a result without its call"] += 1
        return
    reading.done.add(call_id)
    if isinstance(line.get("promptId"), str):
        call.task = line["promptId"]
    text = _content(block.get("content"))
    details = line.get("toolUseResult")
    details = details if isinstance(details, Mapping) else {}
    decision = line.get("permissionDecision")
    decision = decision if isinstance(decision, Mapping) else {}
    is_error = block.get("is_error") is True
    if decision.get("decision") == "reject" or (is_error and not decision and _REFUSED.search(text[:400])):
        step = _denied(reading, call_id, call, text, decision)
    elif is_error:
        step = _failed(reading, call_id, call, text)
    else:
        step = _succeeded(reading, call_id, call, text, details)
    reading.session.steps.append(step)


def _denied(reading: _Reading, call_id: str, call: _Call, text: str, decision: Mapping[str, Any]) -> Step:
    said = _SAID.search(text)
    source = text_of(decision.get("source"))
    if source == "hook" or (source == "config" and decision.get("ruleSource")):
        decider, reason = Decider.RULE, _HOOK_ERROR.sub("", text)
    elif reading.is_headless or (decision and not source.startswith("user")):
        decider, reason = Decider.NOBODY, text
    else:
        decider, reason = Decider.PERSON, said[1] if said else ""
    return _step(
        reading,
        call_id,
        call,
        outcome=StepOutcome.DENIED,
        decided_by=decider,
        reason=reading.budget.cut(reason.strip()),
        edits=_edits_of_arguments(call),
        proposal=text_of(call.values.get("plan")),
    )


def _failed(reading: _Reading, call_id: str, call: _Call, text: str) -> Step:
    match = _EXIT_CODE.match(text)
    is_stopped = bool(_TIMED_OUT.search(text))
    if call.tool not in _SHELL or match is None or is_stopped:
        shown = reading.budget.cut(text, MAX_OTHER_BYTES)
        code = int(match[1]) if match else None
        return _step(reading, call_id, call, outcome=StepOutcome.TOOL_ERROR, text=shown, exit_code=code)
    output = reading.budget.cut(text[match.end() :])
    return _step(reading, call_id, call, outcome=StepOutcome.FAILED, text=output, exit_code=int(match[1]))


def _succeeded(reading: _Reading, call_id: str, call: _Call, text: str, details: Mapping[str, Any]) -> Step:
    if call.tool in _SHELL:
        is_running = bool(details.get("backgroundTaskId")) or text.startswith("Command running in background")
        outcome = StepOutcome.OK
        if details.get("interrupted") is True:
            outcome = StepOutcome.TOOL_ERROR
        elif is_running:
            outcome = StepOutcome.UNKNOWN
        return _step(
            reading,
            call_id,
            call,
            outcome=outcome,
            exit_code=0 if outcome is StepOutcome.OK else None,
            text=reading.budget.cut("" if text == "(Bash completed with no output)" else text),
            is_search=bool(details.get("returnCodeInterpretation")),
        )
    is_outside = call.tool in _OUTSIDE or call.tool.startswith("mcp__")
    edits = _edits(reading, call, details) if call.tool in _EDITORS else ()
    shown = reading.budget.cut(text, MAX_OTHER_BYTES)
    return _step(reading, call_id, call, outcome=StepOutcome.OK, text=shown, edits=edits, is_outside=is_outside)


def _edits(reading: _Reading, call: _Call, details: Mapping[str, Any]) -> tuple[Edit, ...]:
    """Return the change that a result tells; a sub-agent's result tells none, then what was asked for."""
    hunks = details.get("structuredPatch")
    path = text_of(details.get("filePath"))
    if not path or not isinstance(hunks, list) or not hunks:
        return _edits_of_arguments(call)
    lines: list[str] = []
    for hunk in hunks:
        rows = hunk.get("lines") if isinstance(hunk, Mapping) else None
        lines += ["@@", *(row for row in rows if isinstance(row, str))] if isinstance(rows, list) else []
    return (Edit(path=path, diff=reading.budget.cut("\n".join(lines), MAX_EDIT_BYTES)),)


def _edits_of_arguments(call: _Call) -> tuple[Edit, ...]:
    path = text_of(call.values.get("file_path") or call.values.get("notebook_path"))
    diff = text_of(call.values.get("diff")) or text_of(call.values.get("new_source"))
    return (Edit(path=path, diff=diff),) if path and diff and call.tool in _EDITORS else ()


def _step(reading: _Reading, call_id: str, call: _Call, *, outcome: StepOutcome, **values: Any) -> Step:
    agent = text_of(call.line.get("agentId")) or ("sidechain" if call.line.get("isSidechain") is True else MAIN)
    return Step(
        order=call.order,
        id=call_id,
        agent=agent,
        parent=None if agent == MAIN else MAIN,
        tool=call.tool,
        command=text_of(call.values.get("command")) or None if call.tool in _SHELL else None,
        outcome=outcome,
        folder=text_of(call.line.get("cwd")) or reading.session.folder,
        task=call.task,
        at=parse_time(call.line.get("timestamp")),
        **values,
    )


def _content(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(text_of(block.get("text")) for block in blocks if isinstance(block, Mapping) and block.get("text"))
