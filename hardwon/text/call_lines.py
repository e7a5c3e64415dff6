"""Tool calls as lines: the line of shell that a call ran, else the tool and its arguments."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

MAX_LINE_CHARS: Final = 4000
_MAX_VALUE_CHARS = 200
_MAX_DEPTH = 4
_MAX_LITERAL_CHARS = 64 * 1024
_SHOWN_CHARS = 300
_COMMANDS = ("command", "cmd", "shell_command", "commands", "command_line")
_SHELL_INPUTS = ("script", "input", "code", "line", "__arg1")
"""Names of the line of shell that only a tool of that name runs: elsewhere they are a script's name, or no shell."""
_FRAMES = ("inputs", "input", "input_str", "args", "arguments", "kwargs", "parameters", "tool_input")
_EDITOR_ACTIONS = frozenset({"view", "create", "str_replace", "insert", "undo_edit"})
"""Values of `command` that say what an editor is to do, beside a path (Anthropic's text editor, OpenHands)."""
_SHELLS = re.compile(
    r"(?:(?:run|execute|exec|local)_)?(?:bash|shell|sh|powershell|terminal|command|commands|cmd|shell_command"
    r"|bash_command|terminal_command)(?:_tool)?|exec|container_exec|run_in_terminal|unified_exec"
)
"""Match the whole name of a tool that runs shell: `Bash`, `run_shell_command`, `terminal`, `container.exec`."""
_WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
"""Match what stands between the words of a tool's name: the place before a capital in `runTests`, `-`, `.`, `__`."""


def snake_case(name: str) -> str:
    """Return a tool's name in lower case, with one `_` between its words."""
    return _WORD_BREAK.sub("_", name).lower().strip("_")


def is_shell(tool: str) -> bool:
    """Return whether a tool's name says that it runs lines of shell."""
    return _SHELLS.fullmatch(snake_case(tool)) is not None


def parse_value(value: Any) -> Any:
    """Return the value that a text of JSON holds, or of a literal of Python, as LangChain has it; else the text."""
    if not isinstance(value, str) or value.lstrip()[:1] not in {"{", "["}:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(value.strip()) if len(value) <= _MAX_LITERAL_CHARS else value
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return value


def nested_arguments(value: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield an object and those within it, outer ones first: writers wrap arguments in `inputs`, `input`, `args`."""
    value = parse_value(value)
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        yield value
        for name in _FRAMES:
            if name in value:
                yield from nested_arguments(value[name], depth + 1)


def editor_action(arguments: Mapping[str, Any]) -> str | None:
    """Return what an editor is to do, where `command` says that; None where it is anything else."""
    action = arguments.get("command")
    return action if isinstance(action, str) and action in _EDITOR_ACTIONS and "path" in arguments else None


def find_command(tool: str, arguments: Any) -> str | None:
    """Return the line of shell that a call ran; None for a tool that is no shell."""
    names = (*_COMMANDS, *_SHELL_INPUTS) if is_shell(tool) else _COMMANDS
    for each in nested_arguments(arguments):
        if editor_action(each) is not None:
            return None
        for name in names:
            value = each.get(name)
            if isinstance(value, str) and value.strip() and not isinstance(parse_value(value), Mapping):
                return value.strip()
            if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
                return "\n".join(value) if name == "commands" else shlex.join(value)
    is_bare = isinstance(arguments, str) and not isinstance(parse_value(arguments), Mapping)
    return arguments.strip() or None if is_bare and is_shell(tool) else None


def show_call(tool: str, arguments: Any) -> str:
    """Return a call as a line: its line of shell, else the tool and each argument with its name, in any order alike."""
    command = find_command(tool, arguments)
    if command is not None:
        return command[:MAX_LINE_CHARS]
    named = list(nested_arguments(arguments))[:2]  # the second is in the first, a frame that the writer put around it
    members = sorted((str(name), value) for name, value in named[-1].items()) if named else []
    words = [f"{name}={_show_value(value)}" for name, value in members if value not in (None, "", [], {})]
    if not named and isinstance(arguments, str) and arguments.strip():
        words = [arguments.strip()[:_MAX_VALUE_CHARS]]
    return shlex.join([tool, *words])[:MAX_LINE_CHARS]


def describe_failure(line: str, words: str) -> str:
    """Return the description of a call that failed: its line and the words of the failure."""
    return f"`{line[:_SHOWN_CHARS]}` failed\n{words}".strip()


def _show_value(value: Any) -> str:
    if isinstance(value, str):
        return value[:_MAX_VALUE_CHARS]
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)[:_MAX_VALUE_CHARS]
    except (TypeError, ValueError, RecursionError):  # a literal of Python with keys that JSON does not have
        return str(value)[:_MAX_VALUE_CHARS]
