"""Tool calls that a program tells of its agents' runs, in the normal form of steps.

The tools are the program's own functions, so what a call did is read off its arguments: a command of a shell, an edit
of a file, or a check where the tool's name says so. What a tool changes is not always told.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hardwon.models.runs import ToolCall, ToolOutcome
from orchestrator.importers.sessions.checks import hints_at_failure
from orchestrator.importers.sessions.steps import (
    Decider,
    Edit,
    Session,
    Step,
    StepOutcome,
    TextBudget,
    edits_of_diff,
    edits_of_replacement,
)

_EDIT_BYTES = 8 * 1024
_MAX_VALUE_CHARS = 200
_COMMANDS = ("command", "cmd", "shell_command", "commands")
_FOLDERS = ("cwd", "workdir", "working_directory", "working_dir")
_PATHS = ("path", "file_path", "filepath", "file", "filename", "file_name", "target_file")
_REPLACEMENTS = (
    ("old_string", "new_string"), ("old_str", "new_str"), ("old_text", "new_text"), ("old", "new"),
    ("search", "replace"), ("before", "after"),
)  # fmt: skip
_CONTENTS = ("content", "contents", "file_text", "new_content", "text", "code")
_DIFFS = ("diff", "patch")
_WRITES = re.compile(r"(?:^|_)(?:write|create|save|edit|put|update|replace|overwrite|add)(?:_|$)")
_CHECKS = re.compile(
    r"(?:^|_)(?:pytest|unittest|jest|vitest|tests?|specs?|lint|linter|typecheck|type_check|check_types|mypy|ruff|eslint"
    r"|compile|build|ci|migrate|migrations?)(?:_|$)"
)
_OTHER_VERBS = re.compile(
    r"^(?:get|list|read|show|find|search|describe|write|create|add|generate|edit|update|delete|remove|open|view|fetch"
    r"|save|plan|suggest|explain|count)_"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_EXIT_KEYS = ("exit_code", "exitCode", "returncode", "return_code", "exit_status")
_OUTPUT_KEYS = ("stdout", "output", "stderr", "error", "text")
_EXIT_LINE = re.compile(
    r"^\W*exit(?:ed with)?(?: exit)?[ _](?:code|status):?\s*(-?\d+)\W*$", re.IGNORECASE | re.MULTILINE
)


def make_session(
    framework: str, session_id: str, calls: Iterable[ToolCall], *, folder: str | None, contexts: Sequence[str] = ()
) -> Session:
    """Return the session of a run whose tool calls were told in order; a call that was told twice counts once."""
    told = {call.id: call for call in calls}
    budget = TextBudget()
    return Session(
        tool=framework,
        session_id=session_id,
        folder=folder,
        steps=[_step(order, call, budget) for order, call in enumerate(told.values())],
        handed_out=list(contexts),
        may_hide_changes=True,
    )


def _is_check(tool: str) -> bool:
    name = _CAMEL.sub("_", tool).lower().strip("_")
    return bool(_CHECKS.search(name)) and not _OTHER_VERBS.match(name)


def _step(order: int, call: ToolCall, budget: TextBudget) -> Step:
    command = _command(call.arguments)
    edits = () if command else _edits(call, budget)
    text, exit_code = _result(call)
    outcome = StepOutcome(call.outcome)
    if command is None and exit_code is None and outcome is StepOutcome.OK and not edits:
        if hints_at_failure(text):  # a tool that returns what failed has not succeeded
            outcome = StepOutcome.FAILED
        else:
            exit_code = 0
    return Step(
        order=order,
        id=call.id,
        tool=call.tool,
        command=command or (None if edits else show_call(call)),
        outcome=outcome,
        exit_code=exit_code,
        text=budget.cut(text),
        edits=edits,
        decided_by=_decider(call),
        reason=call.text if outcome is StepOutcome.DENIED else "",
        proposal=call.proposal,
        folder=_text(call.arguments, _FOLDERS),
        is_check=command is None and not edits and _is_check(call.tool),
    )


def _decider(call: ToolCall) -> Decider | None:
    if call.outcome is not ToolOutcome.DENIED:
        return None
    return Decider.PERSON if call.by_person else Decider.NOBODY


def show_call(call: ToolCall) -> str:
    """Return a call as a line of words: the tool, and each argument with its name."""
    words = [
        f"{name}={value if isinstance(value, str) else json.dumps(value, sort_keys=True)}"[:_MAX_VALUE_CHARS]
        for name, value in call.arguments.items()
        if value is not None
    ]
    return shlex.join([call.tool, *words])


def _command(arguments: Mapping[str, Any]) -> str | None:
    """Return the line of shell that a call ran; None for a tool that is no shell."""
    for name in _COMMANDS:
        value = arguments.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
            return shlex.join(value) if name != "commands" else " && ".join(value)
    return None


def _edits(call: ToolCall, budget: TextBudget) -> tuple[Edit, ...]:
    """Return the changes of files that a call made, as far as its arguments tell them."""
    path = _text(call.arguments, _PATHS) or ""
    diff = _text(call.arguments, _DIFFS)
    if diff and "@@" in diff:
        return edits_of_diff(diff, path or "file", budget, _EDIT_BYTES)
    for old, new in _REPLACEMENTS:
        before, after = call.arguments.get(old), call.arguments.get(new)
        if isinstance(before, str) and isinstance(after, str):
            return edits_of_replacement(path, before, after, budget, _EDIT_BYTES)
    content = _text(call.arguments, _CONTENTS)
    if content and _WRITES.search(_CAMEL.sub("_", call.tool).lower()):
        return edits_of_replacement(path, "", content, budget, _EDIT_BYTES)
    return ()


def _result(call: ToolCall) -> tuple[str, int | None]:
    """Return what a tool put out and its exit code, from a JSON object or a line that tells it."""
    text, exit_code = call.text, call.exit_code
    try:
        value = json.loads(text) if text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict) and any(isinstance(value.get(key), int) for key in _EXIT_KEYS):
        exit_code = next(value[key] for key in _EXIT_KEYS if isinstance(value.get(key), int))
        text = "\n".join(str(value[key]) for key in _OUTPUT_KEYS if value.get(key))
    elif exit_code is None and (line := _EXIT_LINE.search(text)):
        exit_code = int(line[1])
        text = f"{text[: line.start()]}{text[line.end() :]}".strip()
    return text, exit_code


def _text(arguments: Mapping[str, Any], names: Iterable[str]) -> str | None:
    found = (arguments.get(name) for name in names)
    return next((value for value in found if isinstance(value, str) and value), None)
