"""Job logs of GitHub Actions and GitLab CI: the commands of a job, and how each ended."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

_MAX_LINES: Final = 2_000
"""Lines of a step's output that are kept: the last, where the failure stands."""
_TIMESTAMP = re.compile(r"^\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z(?: \d\d[EO]\+?)? ?")
_COLOURS = re.compile(r"\x1b\[([0-9;]*)[ -/]*[@-~]")
_SECTION = re.compile(r"section_(?:start|end):\d+:[\w.-]+(?:\[[^\]]*\])?\r?")
_GITHUB_RUN = re.compile(r"##\[group\]Run (.*)$")
_GITHUB_EXIT = re.compile(r"##\[error\]Process completed with exit code (\d+)\.")
_GITHUB_ERROR = re.compile(r"##\[error\](.*)$")
_ACTION = re.compile(r"[\w.-]+/[\w./-]+@\S+$")
_GITHUB_END = ("Post job cleanup.", "##[group]Post ", "Cleaning up orphan processes")
_GITHUB_SETTINGS = re.compile(r"(?:shell|env|with): ?")
_GITLAB_EXIT = re.compile(r"ERROR: Job failed: (?:exit (?:code|status) (\d+)|command terminated with exit code (\d+))")
_GITLAB_END = re.compile(r"(?:Job succeeded|ERROR: Job failed)\b")
_GITLAB_CLEANUP = ("Cleaning up project directory", "Uploading artifacts", "Running after_script", "Saving cache")
_COMMIT = re.compile(
    r"(?:HEAD is now at|Checking out|commit(?:ted)?:?) '?([0-9a-f]{7,40})\b|^'?([0-9a-f]{40})'?$", re.IGNORECASE
)


@dataclass(slots=True)
class Step:
    """A command of a job. `exit_code`: None where it ended well, -1 where it failed without a number.

    `ended`: another step followed it, or the job told its end; a log that breaks off proves nothing of its last step.
    """

    command: str
    exit_code: int | None = None
    ended: bool = False
    lines: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Job:
    """The steps of a job in order, and the commit that it ran on, where the log tells it."""

    steps: list[Step] = field(default_factory=list)
    commit: str | None = None


def read_job(lines: Iterable[str]) -> Job | None:
    """Read a job's log; None if it is no log of GitHub Actions or GitLab CI."""
    text = [_plain(line) for line in lines]
    if any("##[group]" in line for line, _ in text):
        return _read_github([line for line, _ in text])
    if any(_GITLAB_END.match(line) or line.startswith("Running with gitlab-runner") for line, _ in text):
        return _read_gitlab(text)
    return None


def _plain(line: str) -> tuple[str, bool]:
    """Return a line without its time, colours and section marks, and whether it began in bold green, as commands do."""
    bare = _SECTION.sub("", _TIMESTAMP.sub("", line.rstrip("\r\n")))
    first = _COLOURS.search(bare)
    is_command = first is not None and not bare[: first.start()].strip() and first[1] in {"32;1", "1;32"}
    while (colour := _COLOURS.match(bare)) is not None and not is_command and colour[1] in {"0", "0;m", ""}:
        bare = bare[colour.end() :]
        first = _COLOURS.match(bare)
        is_command = first is not None and first[1] in {"32;1", "1;32"}
    return _COLOURS.sub("", bare).rpartition("\r")[2], is_command


def _read_github(lines: list[str]) -> Job:
    job = Job()
    step: Step | None = None
    in_script = False
    for line in lines:
        _note_commit(job, line)
        if (run := _GITHUB_RUN.search(line)) is not None:
            _end(step)
            step, in_script = Step(command=run[1].strip()), True
            job.steps.append(step)
        elif line.startswith(_GITHUB_END):
            _end(step)
            step = None
        elif step is None:
            continue
        elif in_script:
            in_script = _read_script(step, line)
        elif (ended := _GITHUB_EXIT.search(line)) is not None:
            step.exit_code, step.ended = int(ended[1]), True
        else:
            error = _GITHUB_ERROR.search(line)
            if error is not None and step.exit_code is None and _ACTION.match(step.command):
                step.exit_code = -1  # an action has no exit code; in a script it may be an annotation
            _add_line(step, line if error is None else error[1])
    return job


def _read_script(step: Step, line: str) -> bool:
    """Add a line of the script that a step shows before it runs; return whether there may be more of it."""
    if line.startswith("##[endgroup]"):
        return False
    if not _GITHUB_SETTINGS.match(line) and line.strip() and line.strip() != step.command and not line.startswith("  "):
        step.command = f"{step.command}\n{line.strip()}"
    return True


def _read_gitlab(lines: list[tuple[str, bool]]) -> Job:
    job = Job()
    step: Step | None = None
    for line, is_command in lines:
        _note_commit(job, line)
        if is_command and line.startswith("$ "):
            _end(step)
            step = Step(command=line[2:].strip())
            job.steps.append(step)
        elif _GITLAB_END.match(line):
            failed = _GITLAB_EXIT.match(line)
            last = job.steps[-1] if job.steps else None
            if last is not None and not line.startswith("Job succeeded"):
                last.exit_code = int(failed[1] or failed[2]) if failed else -1
            _end(last)
            step = None
        elif line.startswith(_GITLAB_CLEANUP):
            step = None
        elif step is not None:
            _add_line(step, line)
    return job


def _add_line(step: Step, line: str) -> None:
    step.lines.append(line)
    if len(step.lines) > _MAX_LINES:
        del step.lines[: _MAX_LINES // 2]


def _end(step: Step | None) -> None:
    if step is not None:
        step.ended = True


def _note_commit(job: Job, line: str) -> None:
    if job.commit is None and (found := _COMMIT.search(line.strip())) is not None:
        job.commit = found[1] or found[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class MendedStep:
    """A step that failed. `mended`: the later run of its job ran it, to its end, and it ended well."""

    step: Step
    mended: bool


def compare_jobs(before: Job, after: Job) -> Iterator[MendedStep]:
    """Yield the failed steps of a job; each is mended if a later run has it as often, and every time it ended well."""
    later = [step for step in after.steps if step.ended]
    for step in before.steps:
        if step.exit_code is None:
            continue
        same = [other for other in later if other.command == step.command]
        needed = sum(other.command == step.command for other in before.steps)
        mended = len(same) >= needed and all(other.exit_code is None for other in same)
        yield MendedStep(step=step, mended=mended and not _is_same_commit(before, after))


def _is_same_commit(before: Job, after: Job) -> bool:
    """Return whether both ran on one commit: a job that passes without a change was flaky."""
    if before.commit is None or after.commit is None:
        return False
    length = min(len(before.commit), len(after.commit))
    return before.commit[:length] == after.commit[:length]
