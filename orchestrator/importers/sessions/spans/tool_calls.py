"""Calls of tools as their spans tell them: the command or change that was asked for, and what came of it.

Conventions leave arguments and results free: texts, JSON of any form, or nothing. Where a span says too little to tell
success from failure, the outcome is unknown; one that fails without a word on why has no text.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hardwon.integrations.span_attributes import ARGUMENTS, CALL_ID, COMMAND, RESULT, RETRY_CAUSE, TOOL_NAME
from orchestrator.importers.sessions.checks import find_failure
from orchestrator.importers.sessions.spans.otlp import Span
from orchestrator.importers.sessions.steps import (
    Decider,
    Edit,
    StepOutcome,
    TextBudget,
    edits_of_diff,
    edits_of_replacement,
)

_MAX_EDIT_BYTES = 16 * 1024
_MAX_COMMAND_CHARS = 4000
_MAX_VALUE_CHARS = 200
_MAX_DEPTH = 4
_COMMANDS = ("command", "cmd", "commands", "script", "shell_command", "command_line")
_SHELLS = re.compile(
    r"(?:(?:run|execute|exec)_)?(?:bash|shell|sh|terminal|command|commands|cmd|shell_command|bash_command|terminal_command)"
    r"(?:_tool)?|exec|run_in_terminal|local_shell"
)
"""Names of tools whose only argument, told as a bare text, is a line of shell."""
_MAX_LITERAL_CHARS = 64 * 1024
_PATHS = ("path", "file_path", "filepath", "filename", "file_name", "file", "target_file", "absolute_path")
_OLD = ("old_string", "old_str", "old_text", "old", "search")
_NEW = ("new_string", "new_str", "new_text", "new", "replace", "replacement")
_CONTENT = ("content", "contents", "file_text", "text", "new_content")
_DIFFS = ("diff", "patch", "unified_diff", "input")
_EDITS = re.compile(r"write|edit|replace|create|update|patch|insert|save|modify|overwrite")
_OUTSIDE = re.compile(r"web|brows|fetch|http|\burl|internet|(?:^|_)mcp(?:_|$)")
_CHECK = re.compile(
    r"(?:(?:run|execute|exec|do|perform|start|invoke|launch)_)?"
    r"(?:(?:the|all|unit|integration|e2e|project|python|js|code|static|my)_)*"
    r"(?:tests?|test_suite|tests?_?runner|specs?|checks|lint|linter|linters|linting|type_?checks?|type_?checker|builds?"
    r"|compile|compiler|compilation|migrations?|pytest|unittest|jest|vitest|mypy|ruff|eslint|tsc|ci|ci_pipeline)"
    r"(?:_(?:project|code|files?|suite|app|package|module|modules|all))?"
)
"""Names of tools that check; `check_stock` and `test_connection` are others' business. Settings name more; ours."""
_EXIT_CODES = ("exit_code", "exitCode", "exitcode", "returncode", "return_code", "exit_status")
_TEXTS = ("stdout", "stderr", "output", "content", "text", "result", "message", "error", "errors", "traceback")
_EXIT_LINE = re.compile(
    r"^\W*(?:(?:command|process) )?(?:exited with |finished with )?(?:exit|return|status)[ _-]?(?:code|status)?"
    r"\s*[:= ]\s*(-?\d{1,5})\W*$",
    re.IGNORECASE | re.MULTILINE,
)
_SAYS_FAILED = re.compile(
    r"\b[1-9]\d* (?:tests? )?(?:failed|failures?|errors?)\b|^(?:\w+\.)*\w*(?:Error|Exception)\b:"
    r"|^Traceback \(most recent|^Error\b|^error:|\bFAILED\b|command not found|^fatal: ",
    re.MULTILINE,
)
_SAYS_PASSED = re.compile(
    r"\b[1-9]\d* (?:tests? )?(?:passed|passing|succeeded)\b|^OK\b|^ok\s|\b0 (?:failed|failures|errors)\b|^PASS(?:ED)?\b"
    r"|\bAll (?:tests|checks)\b.{0,20}\bpass|^Success\b|no issues found|BUILD SUCCESS|^Found 0 errors",
    re.MULTILINE | re.IGNORECASE,
)
_WORDLESS = re.compile(
    r"\s*(?:Shell command failed|An error occurred while running the tool\. Please try again\.?"
    r"|Error running tool(?: \(non-fatal\))?(?:: \{.*redacted\.'\})?"
    r"|Tool execution failed\.(?: Error details are redacted\.)?"
    r"|(?:tool_)?error|failed|\[?redacted\]?|<REDACTED>)?\s*\Z",
    re.IGNORECASE,
)
"""Sentences in the place of a failure's words (Claude Code, openai-agents), and nothing."""
_TROUBLE = re.compile(r"timeout|cancel|validation|unknown_?tool|tool_?not_?found|interrupt", re.IGNORECASE)
"""Words of an error's type for what says nothing of the work: the tool was called wrongly, or stopped."""
_BY_PERSON = re.compile(r"user|human|person", re.IGNORECASE)
_BY_RULE = re.compile(r"hook|rule|policy", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """The call of a tool. `is_check`: its name says that it checks something; `command` is then its arguments, too."""

    id: str
    tool: str
    command: str | None
    is_check: bool
    edits: tuple[Edit, ...]
    outcome: StepOutcome
    exit_code: int | None = None
    text: str = ""
    decided_by: Decider | None = None
    is_outside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """A result. `is_good`: where it says so itself; None where it does not."""

    text: str
    exit_code: int | None = None
    is_good: bool | None = None


def read_tool_call(span: Span, children: Sequence[Span], budget: TextBudget) -> ToolCall:
    """Return the call that a span is of. `children`: the spans below it, which tell who decided, and how it ended."""
    tool = _text_of(span, TOOL_NAME) or span.name.rpartition(" ")[2] or "?"
    arguments = _parse(_first(span, ARGUMENTS))
    shell = _text_of(span, COMMAND) or _command_of(tool, arguments)
    is_check = shell is None and _CHECK.fullmatch(_snake_case(tool)) is not None
    command = shell if shell is not None or not is_check else _render_call(tool, arguments)
    outcome, result = _outcome(span, children, shell=shell, is_check=is_check)
    return ToolCall(
        id=_text_of(span, CALL_ID) or span.span_id,
        tool=tool,
        command=command[:_MAX_COMMAND_CHARS] if command else None,
        is_check=is_check,
        edits=_edits_of(tool, arguments, budget) if shell is None else (),
        outcome=outcome,
        exit_code=result.exit_code,
        text=budget.cut(result.text),
        decided_by=_decider(children) if outcome is StepOutcome.DENIED else None,
        is_outside=bool(_OUTSIDE.search(_snake_case(tool))) or span.attributes.get("gen_ai.tool.type") == "extension",
    )


def _outcome(span: Span, children: Sequence[Span], *, shell: str | None, is_check: bool) -> tuple[StepOutcome, _Result]:
    result = _read_result(_parse(_first(span, RESULT)))
    if any(child.attributes.get("decision") == "reject" for child in children):
        return StepOutcome.DENIED, _Result(text="")
    told = [span, *children]
    is_error = any(each.is_error or each.attributes.get("success") is False for each in told)
    if is_error or result.is_good is False or result.exit_code:
        types = [str(each.attributes.get("error.type", "")) for each in told]
        if is_error and any(
            map(_TROUBLE.search, [*types, span.exception[0], str(span.attributes.get(RETRY_CAUSE, ""))])
        ):
            return StepOutcome.TOOL_ERROR, result
        texts = (result.text, span.exception[1], *(each.message for each in told))
        text = next((each for each in texts if not _WORDLESS.match(each)), "")
        return StepOutcome.FAILED, _Result(text=text, exit_code=result.exit_code if text else None)
    if result.exit_code == 0 or (shell is None and not is_check):
        return StepOutcome.OK, result
    return _judge_words(result, is_success=any(each.attributes.get("success") is True for each in told))


def _judge_words(result: _Result, *, is_success: bool) -> tuple[StepOutcome, _Result]:
    """Return what the words of a command or a check without an exit code say. `is_success`: the span says so."""
    if find_failure(result.text) or _SAYS_FAILED.search(result.text):
        if not _SAYS_PASSED.search(result.text):
            return StepOutcome.FAILED, result
        return StepOutcome.UNKNOWN, result
    if is_success or result.is_good or _SAYS_PASSED.search(result.text):
        return StepOutcome.OK, _Result(text=result.text, exit_code=0)
    return StepOutcome.OK, result  # it has ended; whether a check passed is not told


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


def _parse(value: Any) -> Any:
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


def _mappings(value: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield an object and those within it, outer ones first: writers wrap arguments in `inputs`, `input`, `args`."""
    value = _parse(value)
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        yield value
        for name in ("inputs", "input", "input_str", "args", "arguments", "kwargs", "parameters", "tool_input"):
            if name in value:
                yield from _mappings(value[name], depth + 1)


def _command_of(tool: str, arguments: Any) -> str | None:
    if isinstance(arguments, str):
        return arguments.strip() or None if _SHELLS.fullmatch(_snake_case(tool)) else None
    for each in _mappings(arguments):
        for name in _COMMANDS:
            value = each.get(name)
            if isinstance(value, str) and value.strip():
                return value.strip()
            if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
                return shlex.join(value)
    return None


def _render_call(tool: str, arguments: Any) -> str:
    """Return a call as a line of shell: the same for the same arguments in another order."""
    named = list(_mappings(arguments))[:2]  # the second is in the first, a frame that the writer put around it
    members = sorted(named[-1].items()) if named else []
    words = [f"{name}={_render_value(value)}" for name, value in members if value not in (None, "", [], {})]
    if not named and isinstance(arguments, str) and arguments.strip():
        words = [arguments.strip()[:_MAX_VALUE_CHARS]]
    return shlex.join([tool, *words])


def _render_value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text[:_MAX_VALUE_CHARS]


def _edits_of(tool: str, arguments: Any, budget: TextBudget) -> tuple[Edit, ...]:
    """Return the change that a call of an editing tool asked for."""
    if not _EDITS.search(_snake_case(tool)):
        return ()
    for each in _mappings(arguments):
        path = _member(each, _PATHS)
        diff = _member(each, _DIFFS)
        if "\n@@" in f"\n{diff}":
            return edits_of_diff(diff, path, budget, _MAX_EDIT_BYTES)
        old, new = _member(each, _OLD), _member(each, _NEW) or _member(each, _CONTENT)
        if edits := edits_of_replacement(path, old, new, budget, _MAX_EDIT_BYTES):
            return edits
    return ()


def _member(value: Mapping[str, Any], names: Iterable[str]) -> str:
    return next((value[name] for name in names if isinstance(value.get(name), str) and value[name]), "")


def _read_result(value: Any, depth: int = 0) -> _Result:
    """Return what a result says: a text, an object of a command's ends, a message of a framework, or MCP's parts."""
    value = _parse(value)
    if isinstance(value, str):
        codes = {
            int(code) for code in _EXIT_LINE.findall("\n".join([*value.splitlines()[:2], *value.splitlines()[-3:]]))
        }
        return _Result(text=value, exit_code=codes.pop() if len(codes) == 1 else None)
    if value is None or depth >= _MAX_DEPTH:
        return _Result(text="")
    if isinstance(value, list):
        parts = [_read_result(each, depth + 1) for each in value[:100]]
        return _join_results(parts)
    if isinstance(value, Mapping):
        return _read_object(value, depth)
    return _Result(text=str(value))


def _read_object(value: Mapping[str, Any], depth: int) -> _Result:
    parts = [_read_result(value[name], depth + 1) for name in (*_TEXTS, "kwargs", "data") if name in value]
    joined = _join_results(parts)
    code = next((value[name] for name in _EXIT_CODES if type(value.get(name)) is int), joined.exit_code)
    good = joined.is_good
    if value.get("isError") is True or value.get("is_error") is True or value.get("status") in {"error", "failed"}:
        good = False
    flags = [value[name] for name in ("success", "passed", "ok") if isinstance(value.get(name), bool)]
    if flags:
        good = all(flags) and good is not False
    text = joined.text or (json.dumps(value, ensure_ascii=False) if not parts and depth == 0 else "")
    return _Result(text=text, exit_code=code, is_good=good)


def _join_results(parts: Sequence[_Result]) -> _Result:
    code = next((each.exit_code for each in parts if each.exit_code is not None), None)
    flags = [each.is_good for each in parts if each.is_good is not None]
    text = "\n".join(dict.fromkeys(each.text for each in parts if each.text))
    return _Result(text=text, exit_code=code, is_good=all(flags) if flags else None)


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[\s.:/-]+", "_", name).lower()
