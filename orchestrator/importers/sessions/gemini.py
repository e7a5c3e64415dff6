"""Reader of Gemini CLI's transcripts: ~/.gemini/tmp/PROJECT/chats/session-*.jsonl, sub-agents' in chats/SESSION.

Read with what 0.61.0 wrote. A message is written again whenever its calls go on, so the last one of an id counts; each
result is there once more in a message of the user. A command that fails is a call with status `success`, whose output
ends with its exit code. What a hook added stands in the user's text and behind a tool's output.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
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
    parse_objects,
    parse_time,
    text_of,
)

TOOL = "gemini-cli"
SHELL = "run_shell_command"
_HEADER = frozenset({"projectHash", "startTime", "lastUpdated", "kind", "directories", "summary", "memoryScratchpad"})
_PASSED_OVER = frozenset({"info", "error", "warning"})
_OUTSIDE = frozenset({"web_fetch", "google_web_search"})
_LOOKS = frozenset({"grep_search", "search_file_content", "glob", "list_directory", "read_many_files"})
_NOT_DONE = frozenset({"validating", "scheduled", "executing", "awaiting_approval"})
_HOOK_CONTEXT = re.compile(r"\s*<hook_context>(.*?)</hook_context>\s*", re.DOTALL)
_PATHS = ("file_path", "absolute_path", "dir_path", "path")
_MAX_FOLDERS = 4000
_SUB_AGENT = "subagent"
_WORKSPACE = re.compile(r"^ +- (/.+)$", re.MULTILINE)
_BLOCKED = re.compile(
    r"\A(?:Error: )?(?:Tool execution blocked|Agent execution (?:stopped|blocked)(?: by hook)?): (.*)", re.DOTALL
)
_BY_POLICY = re.compile(r"\A(?:Error: )?Tool execution denied by policy\.\s*(.*)", re.DOTALL)
_UNASKED = re.compile(
    r"not supported in non-interactive mode|requires (?:explicit )?user confirmation|non-interactive", re.IGNORECASE
)
_REFUSED = re.compile(r"\[Operation Cancelled\] (?:Reason: )?User (?:denied execution|did not allow tool call)")


@dataclass(slots=True, kw_only=True)
class _Reading:
    session: Session
    budget: TextBudget = field(default_factory=TextBudget)
    steps: dict[str, Step] = field(default_factory=dict)
    folders: dict[str, None] = field(default_factory=dict)
    """Folders of the files that were read or changed."""
    project_hash: str = ""
    workspace: str | None = None
    agent: str = MAIN
    task: str | None = None


def matches(lines: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the first objects of a file are a transcript of Gemini CLI."""
    return any(isinstance(each.get("projectHash"), str) and "sessionId" in each for each in lines)


def read(lines: Iterable[str]) -> Session:
    """Return the steps of a transcript. Its folder is not told, but found by the hash of its name."""
    reading = _Reading(session=Session(tool=TOOL, session_id=""))
    for line in parse_objects(lines, reading.session.passed_over):
        _read_line(reading, line)
    session = reading.session
    session.folder = _find_folder(reading)
    session.steps = [replace(step, folder=session.folder) for step in reading.steps.values()]
    return session


def _read_line(reading: _Reading, line: Mapping[str, Any]) -> None:
    if isinstance(line.get("projectHash"), str):
        reading.project_hash = reading.project_hash or line["projectHash"]
        reading.session.session_id = reading.session.session_id or text_of(line.get("sessionId"))
        if line.get("kind") == _SUB_AGENT:
            reading.agent = reading.session.session_id or _SUB_AGENT
        directories = line.get("directories")
        for folder in directories if isinstance(directories, list) else []:
            _note_workspace(reading, text_of(folder))
        _read_messages(reading, line.get("messages"))
    elif isinstance(line.get("$set"), Mapping):
        _read_messages(reading, line["$set"].get("messages"))
    elif isinstance(line.get("id"), str) and "type" in line:
        _read_message(reading, line)
    elif "$rewindTo" not in line and not _HEADER & line.keys():
        reading.session.passed_over["unknown kind of line"] += 1


def _read_messages(reading: _Reading, messages: object) -> None:
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, Mapping):
            _read_message(reading, message)


def _read_message(reading: _Reading, message: Mapping[str, Any]) -> None:
    kind, calls = text_of(message.get("type")), message.get("toolCalls")
    if kind == "user":
        _read_prompt(reading, message)
    elif kind != "gemini":
        if kind not in _PASSED_OVER:
            reading.session.passed_over[f"unknown type {kind[:40] or '?'}"] += 1
        return
    for call in calls if isinstance(calls, list) else []:
        if isinstance(call, Mapping) and isinstance(call.get("id"), str):
            _read_call(reading, call["id"], call, message)


def _read_prompt(reading: _Reading, message: Mapping[str, Any]) -> None:
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    told = "\n".join(text_of(part.get("text")) for part in parts if isinstance(part, Mapping) and part.get("text"))
    for folder in _WORKSPACE.findall(told[:MAX_PROMPT_BYTES]) if told.startswith("<session_context>") else []:
        _note_workspace(reading, folder)
    own = take_context(told, reading.session, reading.budget, _HOOK_CONTEXT).strip()
    if reading.agent == MAIN and own and not own.startswith(("/", "<", "?")):
        reading.task = text_of(message.get("id")) or None
        if reading.task:
            reading.session.prompts[reading.task] = reading.budget.cut(own, MAX_PROMPT_BYTES)


def _read_call(reading: _Reading, call_id: str, call: Mapping[str, Any], message: Mapping[str, Any]) -> None:
    before = reading.steps.get(call_id)
    if before is not None:  # written again: this one counts
        reading.budget.used -= len(before.text) + sum(len(edit.diff) for edit in before.edits)
    arguments = call.get("args")
    arguments = arguments if isinstance(arguments, Mapping) else {}
    _note_folders(reading, arguments)
    tool = text_of(call.get("name")) or "?"
    command = text_of(arguments.get("command")) if tool == SHELL else ""
    reading.steps[call_id] = Step(
        order=before.order if before else len(reading.steps) + 1,
        id=call_id,
        tool=tool,
        command=reading.budget.cut(command, MAX_EDIT_BYTES) or None,
        task=before.task if before else reading.task,
        agent=reading.agent,
        parent=None if reading.agent == MAIN else MAIN,
        at=parse_time(message.get("timestamp")) or parse_time(call.get("timestamp")),  # a call's is that of its end
        **_values(reading, tool, call),
    )


def _values(reading: _Reading, tool: str, call: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call came to."""
    status, shown = text_of(call.get("status")), call.get("resultDisplay")
    output, error = _response(call.get("result"))
    text = take_context(error or output, reading.session, reading.budget, _HOOK_CONTEXT)
    if status in _NOT_DONE or not status:
        return {"outcome": StepOutcome.UNKNOWN}
    ran = parse_output(text, text_of(shown)) if tool == SHELL else None
    if ran is not None and (status == "success" or ran.exit_code):
        return values_of_output(ran, reading.budget)
    if status != "success":
        decision = _decision(text or text_of(shown))
        outcome = StepOutcome.DENIED if decision else StepOutcome.TOOL_ERROR
        edits = edits_of_display(shown, reading.budget) if decision else ()
        return {"outcome": outcome, "text": reading.budget.cut(text, MAX_OTHER_BYTES), "edits": edits, **decision}
    is_outside = tool in _OUTSIDE or tool.startswith("mcp_") or "MCP Server" in text_of(call.get("displayName"))
    return {
        "outcome": StepOutcome.OK,
        "text": reading.budget.cut(_without_fence(text), MAX_OTHER_BYTES),
        "edits": edits_of_display(shown, reading.budget),
        "is_outside": is_outside,
        "is_search": tool in _LOOKS and text.lstrip().lower().startswith("no "),
    }


def _response(result: object) -> tuple[str, str]:
    """Return the output and the error of a call's result."""
    for part in result if isinstance(result, list) else []:
        answer = part.get("functionResponse") if isinstance(part, Mapping) else None
        response = answer.get("response") if isinstance(answer, Mapping) else None
        if isinstance(response, Mapping):
            return text_of(response.get("output")), text_of(response.get("error"))
    return "", ""


def _decision(text: str) -> dict[str, Any]:
    """Return who denied a call, and with which words; nothing where nobody did.

    A policy without words is what a run without a person denies everything by.
    """
    if blocked := _BLOCKED.match(text):
        return {"decided_by": Decider.RULE, "reason": blocked[1].strip()[:MAX_OTHER_BYTES]}
    if _UNASKED.search(text[:MAX_OTHER_BYTES]):
        return {"decided_by": Decider.NOBODY, "reason": text[:MAX_OTHER_BYTES]}
    if policy := _BY_POLICY.match(text):
        reason = policy[1].strip()[:MAX_OTHER_BYTES]
        return {"decided_by": Decider.RULE if reason else Decider.NOBODY, "reason": reason}
    return {"decided_by": Decider.PERSON, "reason": ""} if _REFUSED.search(text[:MAX_OTHER_BYTES]) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellOutput:
    """A command's output without the tool's own lines. `exit_code`: None where the tool's lines tell none.

    `rest`: what stands behind the tool's lines.
    """

    text: str
    exit_code: int | None = None
    is_stopped: bool = False
    is_running: bool = False
    rest: str = ""


_FENCE = re.compile(r"\A\s*<untrusted_context[^>]*>\n?(.*)\n?</untrusted_context>\s*\Z", re.DOTALL)
_TRUNCATED = re.compile(r"\AOutput too large\b[^\n]*\n")
_BEGINNING = re.compile(r"\A(?:Command: .*?\n)?(?:Directory: [^\n]*\n)?Output: ?", re.DOTALL)
_LAST = "Process Group PGID: "
_END_LINE = re.compile(r"(Exit Code|Signal|Background PIDs|Process Group PGID): (.*)")
_STOPPED = re.compile(
    r"\ACommand (?:timed out|was (?:automatically )?cancelled|finished before the background-promote)"
)
_RUNNING = re.compile(r"\A(?:Command (?:moved to|is running in) background|Background command started)")


def parse_output(text: str, shown: str = "") -> ShellOutput:
    """Return a command's output of what the tool told of it: `Output: ...`, then lines such as `Exit Code: 1`.

    Only the tool's lines at the end count: a command may print such lines too. `shown`: the output alone, if it is
    told.
    """
    text = _without_fence(_TRUNCATED.sub("", _without_fence(text)))
    if _STOPPED.match(text):
        return ShellOutput(text=text, is_stopped=True)
    if _RUNNING.match(text):
        return ShellOutput(text=text, is_running=True)
    begun = _BEGINNING.match(text)
    output = text[begun.end() :] if begun else text
    known = shown if shown and output.startswith(f"{shown}\n") else ""
    told, values, rest = _split_end(output[len(known) :])
    if begun is None and not values:
        return ShellOutput(text=text)
    code = values.get("Exit Code", "0")
    output = known + told
    return ShellOutput(
        text="" if output.strip() == "(empty)" else output,
        exit_code=int(code) if re.fullmatch(r"-?\d{1,10}", code) else None,
        is_stopped=values.get("Signal", "(none)") not in {"(none)", "null", "0", ""},
        rest=rest,
    )


def _split_end(output: str) -> tuple[str, dict[str, str], str]:
    """Split an output into the command's text, the tool's lines about it, and what stands behind these."""
    lines = output.split("\n")
    end = max((at for at, line in enumerate(lines, 1) if line.startswith(_LAST)), default=len(lines))
    first = end
    values: dict[str, str] = {}
    while first > 0 and (line := _END_LINE.match(lines[first - 1])) and line[1] not in values:
        values[line[1]] = line[2].strip()
        first -= 1
    if values and first > 0 and lines[first - 1].startswith("Error: "):
        first -= 1
    return "\n".join(lines[:first]), values, "\n".join(lines[end:]).strip()


def values_of_output(output: ShellOutput, budget: TextBudget) -> dict[str, Any]:
    """Return the values of a step that ran a command."""
    if output.is_running or (output.exit_code is None and not output.is_stopped):
        return {"outcome": StepOutcome.UNKNOWN, "text": budget.cut(output.text)}
    if output.is_stopped:
        return {"outcome": StepOutcome.TOOL_ERROR, "text": budget.cut(output.text, MAX_OTHER_BYTES)}
    outcome = StepOutcome.OK if output.exit_code == 0 else StepOutcome.FAILED
    return {"outcome": outcome, "exit_code": output.exit_code, "text": budget.cut(output.text)}


def edits_of_display(shown: object, budget: TextBudget) -> tuple[Edit, ...]:
    """Return the change that a tool shows of a call."""
    if not isinstance(shown, Mapping) or not isinstance(shown.get("fileDiff"), str):
        return ()
    path = text_of(shown.get("filePath")) or text_of(shown.get("fileName"))
    return edits_of_diff(shown["fileDiff"], path, budget, MAX_EDIT_BYTES) if path else ()


def take_context(text: str, session: Session, budget: TextBudget, tag: re.Pattern[str]) -> str:
    """Return a text without what hooks put into it, which is noted in the session."""
    for found in tag.finditer(text):
        handed = budget.cut(found[1].strip())
        if handed and handed not in session.handed_out[-4:]:
            session.handed_out.append(handed)
    return tag.sub("\n", text).strip("\n") if tag.search(text) else text


def _without_fence(text: str) -> str:
    fenced = _FENCE.match(text)
    return fenced[1].removesuffix("\n") if fenced else text


def _note_workspace(reading: _Reading, folder: str) -> None:
    if folder.startswith("/"):
        folder = posixpath.normpath(folder)
        reading.workspace = reading.workspace or folder
        reading.folders.setdefault(folder)


def session_id_of(lines: Iterable[Mapping[str, Any]], folder: str) -> str | None:
    """Return the id of the session that a file belongs to: a sub-agent's lies in a folder with its session's name."""
    header = next((each for each in lines if isinstance(each.get("projectHash"), str)), {})
    return folder if header.get("kind") == _SUB_AGENT else text_of(header.get("sessionId")) or None


def _note_folders(reading: _Reading, arguments: Mapping[str, Any]) -> None:
    for name in _PATHS:
        path = text_of(arguments.get(name))
        if path.startswith("/") and len(reading.folders) < _MAX_FOLDERS:
            folder = path if name == "dir_path" else posixpath.dirname(path)
            reading.folders.setdefault(posixpath.normpath(folder))


def _find_folder(reading: _Reading) -> str | None:
    """Return the folder whose hash the transcript has; else the first that it names, or that of all the files."""
    for folder in reading.folders:
        current = folder
        while current not in {"/", "//", ""}:
            if hashlib.sha256(current.encode("utf-8", "replace")).hexdigest() == reading.project_hash:
                return current
            current = posixpath.dirname(current)
    if reading.workspace:
        return reading.workspace
    common = posixpath.commonpath(reading.folders) if reading.folders else "/"
    return common if common != "/" else None
