"""The end of a watched command: the exit statuses that are failures, and those that prove nothing."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "busybox"})
_SEARCHES = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack", "test", "["})
"""Programs that say by exit code 1 that they found nothing."""
_NOT_RUN = frozenset({124, 126, 127})
"""Exit codes of a time limit (timeout), of a program that may not run, and of one that is not there."""
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL})
"""Signals that a program raises by its own fault; others came from outside."""
_FAILURE_WORDS = re.compile(
    r"^(?:FAILED|FAIL)\b(?! *[:=]? *0\b)|\bFAILED \((?:errors|failures)=\d|\b[1-9]\d* (?:failed|failures?|errors?)\b"
    r"|\btest result: FAILED",
    re.MULTILINE,
)
"""Words of test runners and compilers for a failure, though they ended with 0."""


def shell_script(command: Sequence[str]) -> str | None:
    """Return the script of `sh -c SCRIPT`; None for any other command."""
    if not command or Path(command[0]).name not in _SHELLS:
        return None
    for place, argument in enumerate(command[1:], 1):
        if not argument.startswith(("-", "+")):
            if command[place - 1] in {"-o", "+o"} or (place == 1 and Path(command[0]).name == "busybox"):
                continue
            return None
        if argument.startswith("-") and not argument.startswith("--") and "c" in argument:
            rest = [each for each in command[place + 1 :] if not each.startswith("-")]
            return rest[0] if rest else None
    return None


def hides_its_status(command: Sequence[str]) -> bool:
    """Return whether a command's exit status may be another's: through a pipe, `|| true` or `&` in a shell."""
    script = shell_script(command)
    if script is None:
        return False
    try:
        lexer = shlex.shlex(script, posix=False, punctuation_chars=";|&\n")
        lexer.whitespace = " \t\r"
        lexer.whitespace_split = True
        tokens = list(lexer)
    except ValueError:
        return True  # not a script that we can read
    while tokens and not tokens[-1].strip():
        tokens.pop()
    has_pipefail = "pipefail" in tokens or "pipefail" in command
    if ("|" in tokens or "|&" in tokens) and not has_pipefail:
        return True
    return "||" in tokens or bool(tokens and tokens[-1] == "&")


def is_failure(command: Sequence[str], exit_code: int | None, killed_by: int | None) -> bool:
    """Return whether a command's end is a failure of what it checks, and not a search, a time limit or a Ctrl-C."""
    if killed_by is not None:
        return killed_by in _CRASHES
    if exit_code is None or exit_code == 0 or exit_code in _NOT_RUN:
        return False
    if exit_code > 128:
        return exit_code - 128 in _CRASHES or exit_code - 128 not in signal.valid_signals()
    return not (exit_code == 1 and command and Path(command[0]).name in _SEARCHES)


def says_failure(output: str) -> bool:
    """Return whether an output says that something failed, whatever its command's exit code is."""
    return _FAILURE_WORDS.search(output) is not None
