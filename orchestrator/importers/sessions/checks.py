"""Checks: the commands that prove something (tests, compilers, linters, builds, migrations), and what came of one."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from orchestrator.importers.sessions.shell.programs import (
    RUN_SCRIPT,
    is_check,
    is_named,
    program_of,
    script_of_shell,
    strip_runners,
)
from orchestrator.importers.sessions.shell.words import SimpleCommand, split_commands
from orchestrator.importers.sessions.steps import Step, StepOutcome

_QUIET_FLAGS = frozenset({"--verbose", "--quiet", "--no-color", "--color", "--no-colour", "--silent", "--no-progress"})
_QUIET_BY_PROGRAM = {
    "pytest": re.compile(
        r"-[qvxsl]+|-r\w+|--tb=\w+|--no-header|--no-summary|--durations=\d+|--maxfail=\d+|--showlocals"
    ),
    "unittest": re.compile(r"-[vqfbc]+|--failfast|--buffer"),
    "go": re.compile(r"-v|-count=1"),
    "cargo": re.compile(r"-q|-v+"),
    "mvn": re.compile(r"-q|-B|-e|-X|-ntp"),
}
_HARMLESS_VARIABLES = re.compile(
    r"(?:CI|TERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|PY_COLORS|PYTHON(?:UNBUFFERED|DONTWRITEBYTECODE)|CLICOLOR\w*|LC_ALL"
    r"|LANG)="
)
_PREFACES = frozenset(
    re.findall(
        r"\S+",
        """cd pushd popd export source . set echo printf true : pwd unset ulimit umask alias nvm conda which date sleep
        tail head tee cat } exit""",
    )
)
_KEYWORDS = frozenset({"if", "for", "while", "until", "case", "!", "function"})
_MAX_DEPTH = 4
MAX_KEY_CHARS = 400


class Verdict(StrEnum):
    """The result of a check. `nothing`: it does not say."""

    PASSED = "passed"
    FAILED = "failed"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A command that proves something. `key`: the same for the same check, however it was typed; `shown`: as typed.

    `is_hidden`: the line's exit code is not the check's, because of a pipe, `|| true` or a later command. `is_alone`:
    no other command of the line can be the one that failed. `programs`: the checks' programs.
    """

    key: str
    shown: str
    programs: tuple[str, ...]
    is_hidden: bool = False
    is_alone: bool = True


def split_named(setting: str) -> list[str]:
    """Return the beginnings of commands that the setting of checks names, with commas between."""
    return [command for each in setting.split(",") if (command := each.strip())]


def read_check(
    command: str | None, *, named: Sequence[str] = (), folder: str | None = None, root: str | None = None
) -> Check | None:
    """Return the check in a line of shell; None where it holds none.

    `named`: the beginnings of commands that are checks because a setting says so. `folder`: where it runs, `root`: the
    session's folder; a check in another folder is another check.
    """
    return _read(command, lambda words, _: is_check(words, named), folder=folder, root=root) if command else None


def read_call(
    call: str | None, *, named: Sequence[str], folder: str | None = None, root: str | None = None
) -> Check | None:
    """Return the check that the call of a tool is, as `show_call` shows it; None where none of `named` names it."""
    return _read(call, lambda words, _: is_named(words, named), folder=folder, root=root) if call else None


def read_command(command: str, *, folder: str | None = None, root: str | None = None) -> Check:
    """Return a line of shell as the check that it is because somebody says so, in the same form as `read_check`.

    Each of its commands that can fail is one, whatever it is.
    """
    found = _read(command, lambda _, each: _can_fail(each), folder=folder, root=root)
    line = " ".join(command.split())[:MAX_KEY_CHARS]
    return found or Check(key=line, shown=line, programs=())


def _read(
    command: str,
    chooses: Callable[[tuple[str, ...], SimpleCommand], bool],
    *,
    folder: str | None,
    root: str | None,
) -> Check | None:
    commands = _unwrap(split_commands(command))
    place = folder or root or ""
    found: list[tuple[int, tuple[str, ...], SimpleCommand, str]] = []
    for at, each in enumerate(commands):
        words = strip_runners(each.words)
        if words and words[0] in {"cd", "pushd"} and each.ends_with in {"&&", ";"}:
            place = _join(place, words[1] if len(words) > 1 else "")
        elif words and chooses(words, each):
            found.append((at, words, each, _relative(place, root or "")))
    if not found:
        return None
    last = found[-1][0]
    return Check(
        key=" && ".join(dict.fromkeys(_key(words, each, where, root) for _, words, each, where in found))[
            :MAX_KEY_CHARS
        ],
        shown=" && ".join(dict.fromkeys(_show(each, where) for *_, each, where in found))[:MAX_KEY_CHARS],
        programs=tuple(dict.fromkeys(program_of(words)[0] for _, words, *_ in found)),
        is_hidden=_is_hidden(commands, [at for at, *_ in found]),
        is_alone=not any(
            _can_fail(each)
            for at, each in enumerate(commands)
            if at != last and at not in {place[0] for place in found}
        ),
    )


def _unwrap(commands: Iterable[SimpleCommand], depth: int = 0) -> list[SimpleCommand]:
    """Replace `bash -c '...'` by the commands inside."""
    unwrapped: list[SimpleCommand] = []
    for each in map(_move_variables, commands):
        words = strip_runners(each.words)
        script = script_of_shell(words) if depth < _MAX_DEPTH else None
        inside = _unwrap(split_commands(script), depth + 1) if script else []
        if inside:
            variables = (*each.variables, *inside[0].variables)
            inside[0] = replace(inside[0], variables=variables)
            inside[-1] = replace(inside[-1], ends_with=each.ends_with, writes=(*inside[-1].writes, *each.writes))
            unwrapped += inside
        else:
            unwrapped.append(each)
    return unwrapped


def _move_variables(command: SimpleCommand) -> SimpleCommand:
    """Return `env NAME=1 program` as `NAME=1 program`."""
    if command.words[:1] != ("env",):
        return command
    count = next((at for at, word in enumerate(command.words[1:], 1) if "=" not in word), len(command.words))
    variables = (*command.variables, *command.words[1:count])
    return replace(command, words=command.words[count:], variables=variables)


def _key(words: tuple[str, ...], command: SimpleCommand, where: str, root: str | None) -> str:
    program, arguments = program_of(words)
    quiet = _QUIET_BY_PROGRAM.get(program)
    kept = [
        _plain_path(word, root)
        for word in arguments
        if not (word.split("=")[0] in _QUIET_FLAGS or (quiet is not None and quiet.fullmatch(word)))
    ]
    if program in {"npm", "pnpm", "yarn"} and kept:
        kept = kept[1:] if kept[0] in RUN_SCRIPT else kept
        kept = ["test", *kept[1:]] if kept and kept[0] in {"t", "tst"} else kept
    if program == "cargo" and kept:
        kept[0] = {"t": "test", "b": "build", "c": "check"}.get(kept[0], kept[0])
    variables = sorted(each for each in command.variables if not _HARMLESS_VARIABLES.match(each))
    text = shlex.join([*variables, program, *kept])
    return f"{where}: {text}" if where else text


def _show(command: SimpleCommand, where: str) -> str:
    text = " ".join([*command.variables, *(quote_word(word) for word in command.words)])
    return f"cd {where} && {text}" if where else text


def quote_word(word: str) -> str:
    """Return a word as it can be typed again; patterns of files and variables stay what they are."""
    return word if re.fullmatch(r"[\w@%+=:,./*\[\]~^!${}-]+", word) else shlex.quote(word)


def _plain_path(word: str, root: str | None) -> str:
    if root and word.startswith(root.rstrip("/") + "/"):
        word = word[len(root.rstrip("/")) + 1 :]
    word = word[2:] if word.startswith("./") and len(word) > 2 else word
    return word.rstrip("/") if len(word) > 1 and "=" not in word else word


def _join(place: str, target: str) -> str:
    if target.startswith("~") or "$" in target or target == "-":
        return target
    return posixpath.normpath(posixpath.join(place, target)) if target else place


def _relative(place: str, root: str) -> str:
    """Return a folder relative to the session's; empty for that one itself."""
    place, root = (posixpath.normpath(each) if each else "" for each in (place, root))
    if place in {root, ".", ""}:
        return ""
    return place[len(root) + 1 :] if root and place.startswith(root + "/") else place


def _is_hidden(commands: Sequence[SimpleCommand], checks: Sequence[int]) -> bool:
    """Return whether the exit code of a line is another one than that of its checks."""
    stops_at_errors = pipefail = False
    for each in commands[: checks[0]]:
        if each.words[:1] == ("set",):
            options = " ".join(each.words[1:])
            stops_at_errors = stops_at_errors or bool(re.search(r"(?:^| )-[a-z]*e|errexit", options))
            pipefail = pipefail or "pipefail" in options
    if any(set(each.words[:1]) & _KEYWORDS or any(v.startswith("$(") for v in each.words[:1]) for each in commands):
        return True
    for at in checks:
        after = commands[at + 1 :]
        operator = commands[at].ends_with
        if operator == "&":
            return True
        if operator == "|" and not pipefail:
            return True
        end = at
        while operator == "|" and end + 1 < len(commands):
            end += 1
            operator = commands[end].ends_with
        after = commands[end + 1 :]
        if _hides(operator, after, stops_at_errors=stops_at_errors):
            return True
    return False


def _hides(operator: str, after: Sequence[SimpleCommand], *, stops_at_errors: bool) -> bool:
    """Return whether the commands behind a check replace its exit code."""
    for each in after:
        if operator == "||" and each.words[:1] not in {("exit",), ("false",)}:
            return True
        if (
            operator == ";"
            and not stops_at_errors
            and each.words[:1] != ("exit",)
            and each.words[:1] not in {("}",), ("fi",)}
        ):
            return True
        if operator == ";" and each.words[:1] == ("exit",) and each.words[1:2] not in {(), ("$?",)}:
            return True
        operator = each.ends_with or operator
        if operator == "&":
            return True
    return False


def _can_fail(command: SimpleCommand) -> bool:
    words = strip_runners(command.words)
    return bool(words) and words[0] not in _PREFACES


ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Match a sequence of a terminal, such as of a colour."""
_FAILURE = re.compile(
    r"^FAILED \((?:failures|errors|unexpected)|^(?:ERROR|FAIL): \w+ \(|^=+ .*\b[1-9]\d* (?:failed|errors?)\b"
    r"|^[1-9]\d* (?:failed|errors?)\b.* in [\d.]+ ?s|^(?:FAILED|ERROR) \S+(?:::|\.py)"
    r"|^[ \t]*(?:Tests?|Test Suites|Test Files|Suites):?\s+.*\b[1-9]\d* failed\b|^[ \t]*[1-9]\d* failing\b"
    r"|^test result: FAILED|^error(?:\[E\d+\])?: |^--- FAIL|^[ \t]*FAIL(?:ED)?(?:\s|$)(?!ED)|^npm (?:ERR!|error\b)"
    r"|\bBUILD FAIL(?:URE|ED)\b|^FAILURE: |^Build FAILED|Tests run: .*\b(?:Failures|Errors): [1-9]"
    r"|\berror TS\d+:|^Found [1-9]\d* errors?\b|\([1-9]\d* errors?, \d+ warnings?\)|:\d+(?::\d+)?: (?:fatal )?error\b"
    r"|\bundefined reference to\b|^make(?:\[\d+\])?: \*\*\* |\b\d+ examples?, [1-9]\d* failures?"
    r"|\b\d+ (?:runs|tests?), (?:\d+ assertions, )?(?:[1-9]\d* failures?|\d+ failures?, [1-9]\d* errors?)\b"
    r"|^(?:FAILURES|ERRORS)!|^Failed!\s+-|\berror (?:CS|MSB|NU|FS|NETSDK)\d+:|[1-9]\d* tests failed out of"
    r"|^not ok \d+(?!.*# (?:TODO|SKIP))|^(?:#|\S) fail [1-9]|\b[1-9]\d* problems? \([1-9]\d* errors?"
    r"|^\d+ passed, [1-9]\d* failed|\b[1-9]\d* (?:tests? )?failed, \d+ (?:passed|succeeded)",
    re.MULTILINE,
)
"""Words of test runners, compilers, linters and builds for a failure; a count of 0 is none."""
_FAILURE_WORD = re.compile(r"fail|error|not ok|\*\*\*|undefined reference", re.IGNORECASE)
"""A word in each line that `_FAILURE` matches: most lines of most outputs have none, and the whole rule is slow."""
_HINT = re.compile(
    r"^Traceback \(most recent call last\)|^[ \t]*(?:\w+\.)*\w+(?:Error|Exception)\b|command not found|^Error\b"
    r"|^fatal: |^panic: |^\S+: error: |^E   |\b[1-9]\d* (?:failed|errors?|failures?)\b|^error\b|^ERROR\b|\bFAILED\b",
    re.MULTILINE,
)
"""Words that tell of a failure where the exit code does not speak against it."""
_VACUOUS = re.compile(
    r"^Ran 0 tests|\bno tests ran\b|\bcollected 0 items\b|^No tests? found|^[ \t]*0 passing"
    r"|^=* ?\d+ (?:skipped|deselected)(?:, \d+ (?:skipped|deselected))* in|^testing: warning: no tests to run"
    r"|\bno test files\]\s*$|^# tests 0$",
    re.MULTILINE | re.IGNORECASE,
)
_RAN_SOME = re.compile(r"\b[1-9]\d* (?:passed|passing|tests? passed)\b|^ok\s+\S+\s+[\d.(]", re.MULTILINE)
_USAGE = re.compile(
    r"^usage: |unrecognized arguments|^error: unexpected argument|No such option|Missing script:|Unknown command",
    re.MULTILINE,
)
_STOPPED = frozenset({124, 130, 137, 143, -1, -2, -9, -15})
"""Exit codes of a time limit and of signals."""
LAST_LINES = 6
"""Lines at the end of an output among which its summary is looked for; ours."""


def find_failure(text: str) -> bool:
    """Return whether a check's output says that something failed."""
    text = ANSI.sub("", text)
    if not _FAILURE_WORD.search(text):
        return False
    return bool(_FAILURE.search("\n".join(line for line in text.split("\n") if _FAILURE_WORD.search(line))))


def hints_at_failure(text: str) -> bool:
    """Return whether a text has words of a failure, whatever else it says."""
    return find_failure(text) or _HINT.search(ANSI.sub("", text)) is not None


def judge(step: Step, check: Check) -> Verdict:
    """Return what a check came to; what stopped it, a tool's trouble and a search say nothing."""
    if step.outcome in {StepOutcome.DENIED, StepOutcome.TOOL_ERROR} or step.is_search or step.exit_code in _STOPPED:
        return Verdict.NOTHING
    text = ANSI.sub("", step.text)
    failed = find_failure(text)
    if step.exit_code is None:
        is_told = step.outcome is StepOutcome.FAILED and bool(text.strip())  # without a word there is nothing to find
        tells = failed or (is_told and (check.is_alone or bool(_HINT.search(text))))
        return Verdict.FAILED if tells else Verdict.NOTHING
    if step.exit_code == 0:
        return _judge_success(text, check, failed=failed)
    if _is_misuse(step.exit_code, text, check):
        return Verdict.NOTHING
    if failed or (check.is_alone and not check.is_hidden) or _HINT.search(text):
        return Verdict.FAILED
    return Verdict.NOTHING


def _judge_success(text: str, check: Check, *, failed: bool) -> Verdict:
    if check.is_hidden:
        hint = failed or (_HINT.search(text) and not _RAN_SOME.search(text))
        return Verdict.FAILED if hint else Verdict.NOTHING
    if failed:  # a script that loses the exit code ends with the summary; else a test prints that of another run
        return (
            Verdict.FAILED if _FAILURE.search("\n".join(text.strip().splitlines()[-LAST_LINES:])) else Verdict.NOTHING
        )
    return Verdict.NOTHING if _VACUOUS.search(text) and not _RAN_SOME.search(text) else Verdict.PASSED


def _is_misuse(exit_code: int, text: str, check: Check) -> bool:
    """Return whether the check was called wrongly, so that nothing was checked."""
    return bool(_USAGE.search(text)) or ("pytest" in check.programs and exit_code == 4)
