"""Results of tool calls: the output, the exit code, and success or failure where no exit code is told.

Results are free: texts, JSON of any form, messages of a framework, or nothing. A tool that returns what failed has not
succeeded; one that returns without a word has, only if the framework says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hardwon.text.call_lines import parse_value
from hardwon.text.invisible import visible_text
from orchestrator.importers.sessions.checks import LAST_LINES, find_failure, hints_at_failure
from orchestrator.importers.sessions.steps import StepOutcome

_MAX_DEPTH = 4
_MAX_PARTS = 100
_EXIT_CODES = ("exit_code", "exitCode", "exitcode", "returncode", "return_code", "exit_status")
_TEXTS = ("stdout", "stderr", "output", "content", "text", "result", "message", "error", "errors", "traceback")
_FRAMES = ("kwargs", "data")
_VERDICTS = ("success", "passed", "ok")
_FAILED_COUNTS = ("failed", "failures", "errors", "error_count", "failed_count", "num_failed")
_PASSED_COUNTS = ("passed", "passed_count", "num_passed")
_ERROR_STATES = frozenset({"error", "failed", "failure"})
_EXIT_LINE = re.compile(
    r"^\W*(?:(?:the )?(?:command|process) )?"
    r"(?:(?:exited|finished|failed|ended|completed) with (?:an? )?(?:(?:exit|return)[ _-]?)?(?:code|status)"
    r"|(?:exit|return)[ _-]?(?:code|status)|exit(?=[:=]))\s*[:=]?\s*(-?\d{1,5})\W*$",
    re.IGNORECASE | re.MULTILINE,
)
"""Match a line that tells nothing but an exit code: `exit code: 1`, `Command exited with code 2`; no `Status: 200`."""
_EXIT_MEMBER = re.compile(rf"[\"'](?:{'|'.join(_EXIT_CODES)})[\"']\s*:\s*[\"']?(-?\d{{1,5}})\b")
"""Match an exit code in an object of JSON that cannot be parsed, since its middle was cut."""
_EXIT_LINES = (2, 3)
"""Number of lines at the beginning and at the end of a text among which that line is looked for; ours."""
_SAYS_PASSED = re.compile(
    r"\b[1-9]\d* (?:tests? )?(?:passed|passing|succeeded)\b|^OK\b|^ok\s|\b0 (?:failed|failures|errors)\b|^PASS(?:ED)?\b"
    r"|\bAll (?:tests|checks)\b.{0,20}\bpass|^Success\b|no issues found|BUILD SUCCESS|^Found 0 errors",
    re.MULTILINE | re.IGNORECASE,
)
"""Match words of test runners, type checkers, linters and builds for a success: `3 passed`, `OK`, `BUILD SUCCESS`."""
_SAYS_FAILED = re.compile(
    r"^error: |^(?:Tool execution failed|An error occurred while running the tool|Error (?:running|executing|invoking)"
    r" (?:the )?tool)\b"
    r"|^[^\w\n]*(?:the )?(?:tests?|checks?|build|compilation|lint(?:ing)?|migrations?) (?:has |have )?failed\b",
    re.MULTILINE | re.IGNORECASE,
)
"""Match words for a failure that frameworks write in the place of a result, and a plain `build failed`."""
_EDIT_FAILED = re.compile(
    r"\s*(?:error|failed|failure|could not|couldn't|cannot|can't|unable to|no match|no replacement|no such file"
    r"|permission denied|(?:\w+\.)*\w+(?:Error|Exception)\b|(?:the )?(?:file|path|old_str\w*|string|text)\b.{0,200}"
    r"\b(?:not found|does(?: not|n't) exist|did not appear|not unique))",
    re.IGNORECASE,
)
"""Match the beginning of what an editing tool returns where it changed nothing: `Error: ...`, `String not found`."""
_WORDLESS = re.compile(
    r"(?:Shell command failed|An error occurred while running the tool\. Please try again\.?"
    r"|Error running tool(?: \(non-fatal\))?(?:: \{.*redacted\.'\})?"
    r"|Tool execution failed\.(?: Error details are redacted\.)?"
    r"|(?:tool_)?error|failed|\[?redacted\]?|<REDACTED>)?",
    re.IGNORECASE,
)
"""Match sentences in the place of a failure's words (Claude Code, openai-agents), and nothing at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A result. `is_good`: where it says so itself; None where it does not."""

    text: str
    exit_code: int | None = None
    is_good: bool | None = None


def is_wordless(text: str) -> bool:
    """Return whether a failure's text says nothing of it."""
    return _WORDLESS.fullmatch(text.strip()) is not None


def read_result(value: Any, depth: int = 0) -> Result:
    """Return what a result says: a text, an object of a command's ends, a message of a framework, or MCP's parts."""
    parsed = parse_value(value)
    if isinstance(parsed, str):
        return _read_text(parsed)
    if parsed is None or depth >= _MAX_DEPTH:
        return Result(text="")
    if isinstance(parsed, list):
        return _join([read_result(each, depth + 1) for each in parsed[:_MAX_PARTS]])
    if isinstance(parsed, Mapping):
        return _read_object(parsed, depth)
    return _read_text(str(parsed)) if depth == 0 else Result(text=str(parsed))


def _read_text(text: str) -> Result:
    if text.strip().lower() in {"true", "false"}:
        return Result(text="", is_good=text.strip().lower() == "true")
    if text.lstrip().startswith("{"):
        codes = {int(code) for code in _EXIT_MEMBER.findall(text)}
        return Result(text=text, exit_code=codes.pop() if len(codes) == 1 else None)
    lines = text.splitlines()
    first, last = _EXIT_LINES
    ends = [at for at in range(len(lines)) if at < first or at >= len(lines) - last]
    told = {at: int(match[1]) for at in ends if (match := _EXIT_LINE.match(lines[at]))}
    if len(set(told.values())) != 1:
        return Result(text=text)
    rest = "\n".join(line for at, line in enumerate(lines) if at not in told).strip()
    return Result(text=rest, exit_code=next(iter(told.values())))


def _read_object(value: Mapping[str, Any], depth: int) -> Result:
    parts = [read_result(value[name], depth + 1) for name in (*_TEXTS, *_FRAMES) if name in value]
    joined = _join(parts)
    codes = (_int_of(value.get(name)) for name in _EXIT_CODES)
    code = next((each for each in codes if each is not None), joined.exit_code)
    good = _verdict(value) if _verdict(value) is not None else joined.is_good
    if good is None and code is None and (value.get("error") or value.get("errors")):
        good = False
    text = joined.text or (json.dumps(value, ensure_ascii=False, default=str, skipkeys=True) if depth == 0 else "")
    return Result(text=text if parts or depth == 0 else "", exit_code=code, is_good=good)


def _verdict(value: Mapping[str, Any]) -> bool | None:
    """Return what the members of an object say of success; None where they say nothing."""
    if value.get("isError") is True or value.get("is_error") is True:
        return False
    state = value.get("status")
    if isinstance(state, str) and state.lower() in _ERROR_STATES:
        return False
    if any(_count(value.get(name)) for name in _FAILED_COUNTS):
        return False
    flags = [value[name] for name in _VERDICTS if isinstance(value.get(name), bool)]
    if flags:
        return all(flags)
    return True if any(_count(value.get(name)) for name in _PASSED_COUNTS) else None


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


def _int_of(value: object) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,5}", value):
        return int(value)
    return value if type(value) is int else None


def _join(parts: Sequence[Result]) -> Result:
    code = next((each.exit_code for each in parts if each.exit_code is not None), None)
    flags = [each.is_good for each in parts if each.is_good is not None]
    text = "\n".join(dict.fromkeys(each.text for each in parts if each.text))
    return Result(text=text, exit_code=code, is_good=all(flags) if flags else None)


def judge_call(result: Result, *, is_edit: bool, is_success: bool) -> tuple[StepOutcome, Result]:
    """Return what a call that has ended came to, by what it returned. `is_success`: the framework says that it is one.

    The exit code that is returned is 0 where the call is a success by its words or by the framework's. A success whose
    exit code is None may be a failure of what was checked.
    """
    is_bad = bool(result.exit_code) or result.is_good is False
    if is_edit:
        changed_nothing = is_bad or _EDIT_FAILED.match(result.text)
        return StepOutcome.TOOL_ERROR if changed_nothing else StepOutcome.OK, result
    if is_bad:
        return fail_call(result)
    return (StepOutcome.OK, result) if result.exit_code == 0 else _judge_words(result, is_success=is_success)


def _judge_words(result: Result, *, is_success: bool) -> tuple[StepOutcome, Result]:
    """Return what the words of a result without an exit code say."""
    text = visible_text(result.text)
    end = "\n".join(text.strip().splitlines()[-LAST_LINES:])
    says_passed = result.is_good or _SAYS_PASSED.search(end) is not None
    if hints_at_failure(text) or _SAYS_FAILED.search(text):
        is_mixed = says_passed and not find_failure(end)  # a test prints that of another run
        return (StepOutcome.UNKNOWN, result) if is_mixed else fail_call(result)
    if text.strip() and is_wordless(text):
        return fail_call(result)
    return StepOutcome.OK, replace(result, exit_code=0) if is_success or says_passed else result


def fail_call(result: Result, *more: str) -> tuple[StepOutcome, Result]:
    """Return a failed call with the first of its texts that says why; without one there is nothing to learn."""
    text = next((each for each in (result.text, *more) if not is_wordless(each)), "")
    return StepOutcome.FAILED, Result(text=text, exit_code=result.exit_code if text else None, is_good=False)
