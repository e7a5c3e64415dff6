"""The lesson of a watched command: a failure is remembered; a change that made the same check pass is its solution."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from subprocess import SubprocessError

from hardwon.text.invisible import visible_text
from hardwon.text.truncation import escape_unstorable, truncate_middle
from knowledge.models import EntryType, NewEntry
from knowledge.text.error_summary import error_lines, error_signature
from knowledge.text.redaction import redact
from orchestrator.importers.commit_messages import is_test
from orchestrator.importers.fields import key, main_technology
from orchestrator.importers.sessions.checks import read_command
from orchestrator.importers.sessions.lessons.entries import task_id_of
from orchestrator.watch.open_failures import FailureLog, OpenFailure, failure_key
from orchestrator.watch.passthrough import Ending
from orchestrator.watch.work_tree import Change, Snapshot, WorkTree

MAX_OUTPUT_BYTES = 16 * 1024
MAX_DIFF_BYTES = 4 * 1024
MAX_CHANGED_FILES = 40
MAX_CHANGED_LINES = 2000
"""A larger change is somebody's whole branch: which part of it mended the check is not known. Ours."""
_MAX_SUBJECTS = 5
_SHOWN_CHARS = 500
_CUT = "\n[cut: the output has more here]\n"

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


class RunResult(StrEnum):
    """The result of a run, as it is counted."""

    PIPED = "piped"
    """Its exit status may be that of another command, so it says nothing."""
    FAILED = "failed"
    PASSED = "passed"
    """It had not failed before."""
    LEARNED = "learned"
    WITHDRAWN = "withdrawn"
    """It failed again in the state in which it had passed, so what was learned by that pass is taken back."""
    TESTS_ONLY = "tests_only"
    """Only tests were changed: kept as an open failure, for a person."""
    FLAKY = "flaky"
    """Nothing was changed."""
    UNREADABLE = "unreadable"
    """Only binary, lock, vendored or generated files were changed: their diff would tell nobody what to do."""
    TOO_LARGE = "too_large"
    OTHER_BRANCH = "other_branch"
    SAYS_FAILED = "says_failed"
    """It ended with 0 and said that something failed."""
    NO_GIT = "no_git"
    """The changes are not known: outside of a git work tree, or too many of them are not committed."""
    STOPPED = "stopped"
    """It was interrupted, or could not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRun:
    """A run of a command: where it ran and how it ended."""

    command: Sequence[str]
    folder: Path
    ending: Ending
    project: str | None = None


def note_run(run: WatchedRun, log: FailureLog, now: datetime) -> RunResult:
    """Remember a failure, or what mended it, and count the run. `now`: in UTC. Raises OSError or SubprocessError."""
    ended_well = run.ending.exit_code == 0
    if ended_well and not log.has_open():
        return RunResult.PASSED
    if hides_its_status(run.command):
        return _count(log, RunResult.PIPED)
    if not ended_well and not is_failure(run.command, run.ending.exit_code, run.ending.signal):
        return _count(log, RunResult.STOPPED)
    tree = WorkTree.open(run.folder, objects=log.folder)
    root = tree.root if tree is not None else run.folder.resolve()
    project = run.project or (tree.project_id if tree is not None else key(root.name or "root"))
    check = read_command(shlex.join(run.command), folder=str(run.folder.resolve()), root=str(root))
    name = failure_key(project, check.key, str(root))
    if ended_well and log.find(name) is None:
        return RunResult.PASSED  # as most runs do: nothing is written
    tree = None if tree is None else replace(tree, objects=log.objects_of(name))
    with log.lock():
        known = log.find(name)
        if ended_well:
            result = RunResult.PASSED if known is None else _close(known, run, tree, log)
        else:
            output = describe_output(run.ending)
            failure = OpenFailure(
                key=name,
                project=project,
                command=redact(check.shown).text,
                task=task_id_of(check.key, str(root)),
                work_tree=str(root),
                exit_code=run.ending.shell_code,
                output=output,
                signature=error_signature(output),
                failed_at=now.isoformat(timespec="seconds"),
            )
            remembered = _remember(failure, known, tree, run.ending.started_at)
            if remembered.snapshot is not None and log.withdraw(name, remembered.snapshot.tree):
                log.count(RunResult.WITHDRAWN)
            log.remember(remembered, now)
            result = RunResult.FAILED
        log.count(result)
    return result


def _count(log: FailureLog, result: RunResult) -> RunResult:
    with log.lock():
        log.count(result)
    return result


def _remember(failure: OpenFailure, known: OpenFailure | None, tree: WorkTree | None, before: float) -> OpenFailure:
    """Return the failure as it is remembered: from the first state of the work tree in which it said the same."""
    if known is not None and known.signature == failure.signature and known.snapshot is not None:
        return replace(failure, snapshot=known.snapshot, failed_at=known.failed_at, times=known.times + 1)
    return failure if tree is None else replace(failure, snapshot=_snapshot(tree, before))


def _snapshot(tree: WorkTree, before: float) -> Snapshot | None:
    try:
        return tree.take_snapshot(before)
    except SubprocessError:  # a time limit, or a repository that git cannot read just now
        return None


def _close(known: OpenFailure, run: WatchedRun, tree: WorkTree | None, log: FailureLog) -> RunResult:
    """Judge what made a check pass; keep the entry for the store where that is a lesson."""
    if says_failure(describe_output(run.ending)):
        return RunResult.SAYS_FAILED
    now = None if tree is None or known.snapshot is None else _snapshot(tree, run.ending.started_at)
    if tree is None or known.snapshot is None or now is None:
        log.forget(known.key)
        return RunResult.NO_GIT
    result, entry = _judge(known, tree, known.snapshot, now)
    if entry is not None:
        log.add_pending(entry, reporter_of(known))
        log.note_passed(known.key, now.tree, entry)
    log.forget(known.key)
    return result


def _judge(known: OpenFailure, tree: WorkTree, before: Snapshot, now: Snapshot) -> tuple[RunResult, NewEntry | None]:
    if before.tree == now.tree:
        return RunResult.FLAKY, None
    if before.branch != now.branch and not tree.follows(before, now):
        return RunResult.OTHER_BRANCH, None
    changes = tree.list_changes(before, now)
    if not changes:
        return RunResult.FLAKY, None
    shown = [each for each in changes if each.is_shown]
    if not shown:
        return RunResult.UNREADABLE, None
    if len(changes) > MAX_CHANGED_FILES or sum(each.lines for each in changes) > MAX_CHANGED_LINES:
        return RunResult.TOO_LARGE, None
    ordered = sorted(changes, key=lambda each: (is_test(each.path), each.path))
    is_verified = not all(is_test(each.path) for each in shown)
    solution = _describe_change(tree, before, now, ordered)
    entry = _make_entry(known, now, ordered, solution, is_verified=is_verified)
    return (RunResult.LEARNED if is_verified else RunResult.TESTS_ONLY), entry


def _describe_change(tree: WorkTree, before: Snapshot, now: Snapshot, changes: Sequence[Change]) -> str:
    """Return the subjects of the commits and the diff, of code before that of tests, within the limit."""
    code = [each for each in changes if not is_test(each.path)]
    tests = [each for each in changes if is_test(each.path)]
    parts = [*tree.list_subjects(before, now, _MAX_SUBJECTS)]
    parts += [tree.render_changes(before, now, part) for part in (code, tests) if part]
    text = redact("\n".join(part for part in parts if part)).text
    encoded = text.encode()
    if len(encoded) <= MAX_DIFF_BYTES:
        return text
    note = "\n[cut: the change goes on]"
    beginning = encoded[: MAX_DIFF_BYTES - len(note)].decode("utf-8", "ignore")
    return (beginning.rpartition("\n")[0] or beginning) + note


def _make_entry(
    known: OpenFailure, now: Snapshot, changes: Sequence[Change], solution: str, *, is_verified: bool
) -> NewEntry:
    ending = f"failed with exit code {known.exit_code}"
    words = "\n".join(error_lines(known.output, _SHOWN_CHARS, len))
    shown = truncate_middle(known.command, _SHOWN_CHARS, " ")
    digest = sha256(f"{known.key} {known.failed_at} {now.tree}".encode()).hexdigest()[:16]
    return NewEntry(
        entry_type=EntryType.FAILURE_SOLUTION,
        project_id=known.project,
        agent_type="developer",
        task_type="bugfix",
        technology=main_technology((each.path, each.lines) for each in changes),
        failure_description=f"`{shown}` {ending}\n{words}".strip(),
        error_message=known.output or None,
        solution_steps=solution,
        success_verified=is_verified,
        verified_by=shown if is_verified else None,
        task_id=known.task or key(known.command),
        run_id=f"watch {known.failed_at}#{digest}",
        idempotency_key=f"watch-{digest}",
    )


def reporter_of(failure: OpenFailure) -> str:
    """Return who reports a failure: a work tree, so that runs in one clone count once and another clone is another."""
    return f"watch-{sha256(failure.work_tree.encode()).hexdigest()[:16]}"


def describe_output(ending: Ending) -> str:
    """Return the ends of an output without secrets and colours, and of redrawn lines their last state."""
    texts = []
    for piece in ending.output.pieces():
        lines = visible_text(escape_unstorable(piece).replace("\r\n", "\n")).split("\n")
        texts.append("\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines).strip("\n"))
    text = redact(_CUT.join(text for text in texts if text)).text
    return truncate_middle(text, MAX_OUTPUT_BYTES, _CUT)


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
