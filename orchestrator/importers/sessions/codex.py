"""Reader of Codex's rollouts: ~/.codex/sessions/YEAR/MONTH/DAY/rollout-*.jsonl, a sub-agent's a file of its own.

Read with what 0.171.0 wrote. An `item_completed` has the truth of a command or a change of files; a command that runs
for long is completed after the next one, so items and calls are joined by their id. Rollouts of older versions have the
function calls alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

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
    parse_objects,
    parse_time,
    text_of,
)

TOOL = "codex"
_LINES = frozenset({"session_meta", "event_msg", "response_item"})
_PASSED_OVER = frozenset({"world_state", "turn_context", "token_usage_record", "compacted", "ghost_snapshot"})
_SHELL = frozenset({"exec_command", "shell", "shell_command", "local_shell", "container.exec", "unified_exec"})
_CONTINUATIONS = frozenset({"write_stdin", "wait"})
_LOOKS = frozenset({"search", "read", "list_files"})
_BLOCKED = re.compile(
    r"\A(?:Command|Tool call|Patch) blocked by \w+ hook: (?P<reason>.*?)(?: Command: .*)?\Z", re.DOTALL
)
_BY_POLICY = re.compile(r"approval policy is |cannot ask for escalated|sandbox denied", re.IGNORECASE)
_BY_RULE = re.compile(r"rejected:? (?:blocked by|by) policy|policy forbids", re.IGNORECASE)
_BY_USER = re.compile(
    r"rejected by (?:the )?user|\A(?:exec command|patch) rejected|user rejected|declined", re.IGNORECASE
)
_EXITED = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.MULTILINE)
_RUNNING = re.compile(r"^Process running with session ID ", re.MULTILINE)
_OUTPUT = re.compile(r"^Output:\n?", re.MULTILINE)
_PATCH_FILE = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$")


@dataclass(slots=True, kw_only=True)
class _Call:
    """A function call, with what its item or its output says of it."""

    order: int
    tool: str
    command: str | None = None
    folder: str | None = None
    patch: str = ""
    task: str | None = None
    at: str | None = None
    item: Mapping[str, Any] | None = None
    output: str | None = None


@dataclass(slots=True, kw_only=True)
class _Reading:
    session: Session
    budget: TextBudget = field(default_factory=TextBudget)
    calls: dict[str, _Call] = field(default_factory=dict)
    agent: str = MAIN
    parent: str | None = None
    is_headless: bool = False
    task: str | None = None


def matches(lines: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the first objects of a file are a rollout of Codex."""
    return any(each.get("type") == "session_meta" and isinstance(each.get("payload"), Mapping) for each in lines)


def read(lines: Iterable[str]) -> Session:
    """Return the steps of a rollout; a sub-agent's has the id of the session that it belongs to."""
    reading = _Reading(session=Session(tool=TOOL, session_id=""))
    for line in parse_objects(lines, reading.session.passed_over):
        payload, kind = line.get("payload"), text_of(line.get("type"))
        if kind not in _LINES or not isinstance(payload, Mapping):
            if kind not in _PASSED_OVER:
                reading.session.passed_over[f"unknown type {kind[:40] or '?'}"] += 1
            continue
        if kind == "session_meta":
            _read_meta(reading, payload)
        elif kind == "event_msg":
            _read_event(reading, payload, text_of(line.get("timestamp")))
        else:
            _read_item_of_response(reading, payload, text_of(line.get("timestamp")))
    reading.session.steps = [
        step for call_id, call in reading.calls.items() if (step := _step(reading, call_id, call)) is not None
    ]
    reading.session.steps.sort(key=lambda step: step.order)
    return reading.session


def _read_meta(reading: _Reading, meta: Mapping[str, Any]) -> None:
    session = reading.session
    if session.session_id:  # a forked rollout repeats the metadata of the one that it came from
        return
    thread = text_of(meta.get("id"))
    parent = text_of(meta.get("parent_thread_id"))
    source = meta.get("source")
    session.session_id = text_of(meta.get("session_id")) or parent or thread
    session.folder = text_of(meta.get("cwd")) or None
    session.version = text_of(meta.get("cli_version")) or None
    session.parent_id = parent or None
    if isinstance(source, Mapping) or parent:
        reading.agent = thread
        reading.parent = MAIN if parent in {"", session.session_id} else parent
    reading.is_headless = source == "exec" or "exec" in text_of(meta.get("originator"))


def _read_event(reading: _Reading, event: Mapping[str, Any], at: str) -> None:
    kind = event.get("type")
    if isinstance(event.get("turn_id"), str):
        reading.task = event["turn_id"]
    item = event.get("item")
    if kind == "item_completed" and isinstance(item, Mapping):
        _read_item(reading, item, at)
    elif kind == "exec_command_end" and isinstance(event.get("call_id"), str):
        _read_item(reading, {**event, "type": "CommandExecution", "id": event["call_id"]}, at)
    elif kind == "patch_apply_end" and isinstance(event.get("call_id"), str):
        status = "completed" if event.get("success") else "failed"
        _read_item(reading, {**event, "type": "FileChange", "id": event["call_id"], "status": status}, at)


def _read_item(reading: _Reading, item: Mapping[str, Any], at: str) -> None:
    call_id, kind = text_of(item.get("id")), text_of(item.get("type"))
    if kind not in {"CommandExecution", "FileChange", "McpToolCall", "WebSearch"} or not call_id:
        return
    call = reading.calls.get(call_id)
    if call is None:  # a command of the user's own, or one that was begun before this file
        call = _begin(reading, call_id, text_of(kind), at)
    if call.item is not None:
        return
    call.item = _shorten(reading, item)
    if kind == "CommandExecution":
        call.command = call.command or _command_of(item.get("command"))
        folder = text_of(item.get("cwd"))
        call.folder = call.folder or (unquote(folder.removeprefix("file://")) or None)


def _shorten(reading: _Reading, item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is needed of an item: it stays in memory until the rollout's end."""
    kept = {name: item[name] for name in ("type", "status", "exit_code") if name in item}
    kept["text"] = reading.budget.cut(text_of(item.get("aggregated_output")) or text_of(item.get("stdout")))
    parsed = item.get("parsed_cmd")
    kinds = (
        {text_of(each.get("type")) for each in parsed if isinstance(each, Mapping)}
        if isinstance(parsed, list)
        else set()
    )
    kept["is_search"] = bool(kinds) and kinds <= _LOOKS
    changes = item.get("changes")
    if isinstance(changes, Mapping):
        kept["edits"] = tuple(
            Edit(path=path, diff=reading.budget.cut(_diff_of(change), MAX_EDIT_BYTES))
            for path, change in changes.items()
            if isinstance(change, Mapping)
        )
    return kept


def _diff_of(change: Mapping[str, Any]) -> str:
    if isinstance(change.get("unified_diff"), str):
        return str(change["unified_diff"])
    sign = "-" if change.get("type") == "delete" else "+"
    return "\n".join(["@@", *(f"{sign}{line}" for line in text_of(change.get("content")).splitlines())])


def _read_item_of_response(reading: _Reading, item: Mapping[str, Any], at: str) -> None:
    kind, call_id = text_of(item.get("type")), item.get("call_id")
    metadata = item.get("internal_chat_message_metadata_passthrough")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    if isinstance(metadata.get("turn_id"), str):
        reading.task = metadata["turn_id"]
    if kind == "message":
        _read_message(reading, item, metadata)
    elif not isinstance(call_id, str):
        return
    elif kind in {"function_call", "custom_tool_call", "local_shell_call"}:
        if call_id not in reading.calls:
            _read_arguments(reading, _begin(reading, call_id, text_of(item.get("name")) or text_of(kind), at), item)
    elif kind in {"function_call_output", "custom_tool_call_output"} and call_id in reading.calls:
        call = reading.calls[call_id]
        if call.output is None:
            call.output = reading.budget.cut(_output_text(item.get("output")))


def _begin(reading: _Reading, call_id: str, tool: str, at: str) -> _Call:
    call = _Call(order=len(reading.calls) + 1, tool=tool, task=reading.task, at=at)
    reading.calls[call_id] = call
    return call


def _read_arguments(reading: _Reading, call: _Call, item: Mapping[str, Any]) -> None:
    if item.get("type") == "custom_tool_call":
        call.patch = (
            reading.budget.cut(text_of(item.get("input")), MAX_EDIT_BYTES) if call.tool == "apply_patch" else ""
        )
        return
    action = item.get("action")
    values: object = action if isinstance(action, Mapping) else None
    if values is None:
        try:
            values = json.loads(text_of(item.get("arguments")) or "{}")
        except (ValueError, RecursionError):
            values = {}
    if not isinstance(values, Mapping):
        return
    if call.tool in _SHELL or item.get("type") == "local_shell_call":
        command = _command_of(values.get("cmd") or values.get("command"))
        call.command = reading.budget.cut(command, MAX_EDIT_BYTES) if command else None
        call.folder = text_of(values.get("workdir")) or text_of(values.get("working_directory")) or None
    elif call.tool == "apply_patch":
        call.patch = reading.budget.cut(text_of(values.get("input")) or text_of(values.get("patch")), MAX_EDIT_BYTES)


def _command_of(command: object) -> str | None:
    """Return the line of shell: of a program's arguments the last where they are `bash -lc LINE`, else all."""
    if isinstance(command, str):
        return command or None
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    if len(words) == 3 and re.fullmatch(r"-[a-z]*c|/c|-Command", words[1]):
        return words[2]
    return " ".join(words) or None


def _output_text(output: object) -> str:
    if isinstance(output, list):
        return "\n".join(text_of(part.get("text")) for part in output if isinstance(part, Mapping))
    return text_of(output.get("content")) if isinstance(output, Mapping) else text_of(output)


def _read_message(reading: _Reading, item: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
    kinds = metadata.get("content_item_kinds")
    kinds = kinds if isinstance(kinds, list) else []
    text = _output_text(item.get("content"))
    if "hooks.additional_context" in kinds:
        reading.session.handed_out.append(reading.budget.cut(text))
    elif item.get("role") == "user" and text and not text.lstrip().startswith("<"):
        is_person = "user.text" in kinds if kinds else not text.startswith("# AGENTS.md")
        if is_person and reading.task and reading.agent == MAIN:
            reading.session.prompts.setdefault(reading.task, reading.budget.cut(text, MAX_PROMPT_BYTES))


def _step(reading: _Reading, call_id: str, call: _Call) -> Step | None:
    """Return what a call came to; None for one that only waits for another."""
    if call.tool in _CONTINUATIONS:
        return None
    values = _values_of_item(reading, call) if call.item is not None else _values_of_output(reading, call)
    is_patch = bool(values.get("edits")) or call.tool == "apply_patch"
    return Step(
        order=call.order,
        id=call_id,
        agent=reading.agent,
        parent=reading.parent,
        tool="apply_patch" if is_patch else call.tool,
        command=None if is_patch else call.command,
        folder=call.folder or reading.session.folder,
        task=call.task,
        at=parse_time(call.at),
        **values,
    )


def _values_of_item(reading: _Reading, call: _Call) -> dict[str, Any]:
    item = call.item or {}
    kind, status, code = text_of(item.get("type")), text_of(item.get("status")), item.get("exit_code")
    text, code = item["text"], code if isinstance(code, int) else None
    if status == "declined":
        return {"outcome": StepOutcome.DENIED, **_decision(reading, call.output or ""), "edits": item.get("edits", ())}
    if kind == "FileChange":
        is_done = status in {"completed", ""}
        edits = item.get("edits", ()) if is_done else ()
        return {"outcome": StepOutcome.OK if is_done else StepOutcome.TOOL_ERROR, "text": text[:400], "edits": edits}
    if kind != "CommandExecution":
        shown = reading.budget.cut(call.output or "", MAX_OTHER_BYTES)
        return {"outcome": StepOutcome.OK, "text": shown, "is_outside": True}
    if code is None:
        return {"outcome": StepOutcome.UNKNOWN, "text": text}
    outcome = StepOutcome.OK if code == 0 else StepOutcome.FAILED
    return {"outcome": outcome, "exit_code": code, "text": text, "is_search": item["is_search"]}


def _values_of_output(reading: _Reading, call: _Call) -> dict[str, Any]:
    """Return what the output alone says of a call: of a denied one, or of an older version."""
    output = call.output
    if output is None:
        return {"outcome": StepOutcome.UNKNOWN}
    is_command = call.command is not None or bool(call.patch)
    code, text = _parse_output(output)
    if code is None and is_command and (decision := _decision(reading, output)):
        return {"outcome": StepOutcome.DENIED, **decision, "edits": _edits_of_patch(call.patch)}
    if call.patch:
        is_done = code == 0 or output.startswith("Success")
        edits = _edits_of_patch(call.patch) if is_done else ()
        return {"outcome": StepOutcome.OK if is_done else StepOutcome.TOOL_ERROR, "edits": edits, "text": text[:400]}
    if call.command is None:
        is_outside = call.tool.startswith(("mcp", "web"))
        return {"outcome": StepOutcome.OK, "text": text[:MAX_OTHER_BYTES], "is_outside": is_outside}
    if code is None:
        outcome = StepOutcome.UNKNOWN if _RUNNING.search(output) else StepOutcome.TOOL_ERROR
        return {"outcome": outcome, "text": text[:MAX_OTHER_BYTES]}
    return {"outcome": StepOutcome.OK if code == 0 else StepOutcome.FAILED, "exit_code": code, "text": text}


def _parse_output(output: str) -> tuple[int | None, str]:
    """Return the exit code in a call's output, and the output without the tool's own lines."""
    if output.startswith("{"):
        try:
            value = json.loads(output)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and isinstance(value.get("metadata"), dict):
            code = value["metadata"].get("exit_code")
            return (code if isinstance(code, int) else None), text_of(value.get("output"))
    head, separator, rest = output.partition("Output:\n")
    exited = _EXITED.search(head)
    return (int(exited[1]) if exited else None), rest if separator and len(head) < 400 else output


def _decision(reading: _Reading, output: str) -> dict[str, Any]:
    """Return who denied a call, and with which words; nothing where nobody did."""
    if blocked := _BLOCKED.search(output):
        return {"decided_by": Decider.RULE, "reason": blocked["reason"].strip()}
    head = output[:400]
    if _BY_POLICY.search(head):
        return {"decided_by": Decider.NOBODY, "reason": head}
    if _BY_RULE.search(head):
        return {"decided_by": Decider.RULE, "reason": head}
    if _BY_USER.search(head) or not output:
        return {"decided_by": Decider.NOBODY if reading.is_headless else Decider.PERSON, "reason": ""}
    return {}


def _edits_of_patch(patch: str) -> tuple[Edit, ...]:
    """Return the changes in the text of a patch, as `apply_patch` takes it."""
    files: dict[str, list[str]] = {}
    rows: list[str] = []
    for line in patch.splitlines():
        if file := _PATCH_FILE.match(line):
            rows = files.setdefault(file[1].strip(), ["@@"])
        elif not line.startswith("***"):
            rows.append(line)
    return tuple(Edit(path=path, diff="\n".join(lines)) for path, lines in files.items())
