"""Commands of CI jobs that failed and end well in a later run of the job, as verified failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from hardwon.errors import InvalidInput
from hardwon.text.truncation import escape_unstorable
from hardwon.validation import check_text
from knowledge.models import EntryType, NewEntry
from knowledge.text.error_summary import error_lines
from knowledge.text.fitting import fit_ends
from orchestrator.importers.ci_reports.job_logs import Job, MendedStep, compare_jobs, read_job
from orchestrator.importers.ci_reports.stream_readers import iter_lines
from orchestrator.importers.fields import fit_beginning, key
from orchestrator.importers.junit import read_diff
from orchestrator.importers.repository import open_repository

_MAX_CHANGES = 100
_SHOWN_CHARS = 500
_DIFF = ("diff", "-M", "--no-ext-diff", "--no-textconv", "--no-color")


@dataclass(frozen=True, slots=True, kw_only=True)
class MendedCommands:
    """The entries of commands that were mended; `left_out`: number of failed ones by the reason."""

    entries: Iterator[NewEntry]
    left_out: Counter[str]


def read_mended_commands(
    before: Path,
    after: Path,
    *,
    project: str,
    solution: str | None = None,
    diff: Path | None = None,
    repository: Path | None = None,
) -> MendedCommands:
    """Read the commands that failed in the log of one job, and end well in that of a later run of it.

    The solution is `solution`, the content of the file `diff`, or the commits of `repository` between those of the two
    runs; without any the entries are open failures. A job that passes on the same commit was flaky: nothing is learned.
    Raises InvalidInput for `before`, `after`, `solution`, `diff`, `repository` or `project`.
    """
    check_text("project", project)
    if solution is not None:
        check_text("solution", solution)
    earlier, later = _read(before, "before"), _read(after, "after")
    steps = solution if diff is None else read_diff(diff)
    if steps is None and repository is not None:
        steps = _changes_between(repository, earlier, later)
    left_out: Counter[str] = Counter()
    found = [each for each in compare_jobs(earlier, later) if _is_learned(each, left_out)]
    run_id = f"job {sha256(before.read_bytes()).hexdigest()[:16]}"
    entries = (_entry(each, project=project, solution=steps, run_id=run_id) for each in found)
    return MendedCommands(entries=entries, left_out=left_out)


def _read(log: Path, field: str) -> Job:
    try:
        with log.open("rb") as stream:
            job = read_job(iter_lines(stream, colours=True))
    except OSError as error:
        raise InvalidInput(field, f"{log} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InvalidInput(field, f"{log} {error}") from error
    if job is None:
        raise InvalidInput(field, f"{log} is no log of a job of GitHub Actions or GitLab CI")
    return job


def _is_learned(found: MendedStep, left_out: Counter[str]) -> bool:
    if not found.mended:
        left_out["not run to its end and well in the later run, on another commit"] += 1
    return found.mended


def _changes_between(path: Path, before: Job, after: Job) -> str:
    """Return the subjects and the diff of the commits between two runs. Raises InvalidInput for `repository`."""
    repository = open_repository(path)
    if before.commit is None or after.commit is None:
        raise InvalidInput("repository", "a log does not say which commit it ran on: give --solution or --diff")
    first, last = (repository.revision(commit) for commit in (before.commit, after.commit))
    if first is None or last is None:
        missing = before.commit if first is None else after.commit
        raise InvalidInput("repository", f"{path} lacks the commit {missing}, which a log ran on: fetch it")
    subjects = repository.run("log", f"--max-count={_MAX_CHANGES}", "--format=%h %s", f"{first}..{last}")
    changes = repository.run(*_DIFF, first, last, "--")
    text = escape_unstorable(subjects.stdout + b"\n" + changes.stdout).strip()
    if not text:
        raise InvalidInput("repository", f"{path} has no change between {first[:12]} and {last[:12]}")
    return fit_beginning(text, "cut: the changes go on")


def _entry(found: MendedStep, *, project: str, solution: str | None, run_id: str) -> NewEntry:
    step = found.step
    command = escape_unstorable(step.command)
    output = escape_unstorable("\n".join(step.lines)).strip()
    ending = "failed" if step.exit_code == -1 else f"failed with exit code {step.exit_code}"
    words = "\n".join(error_lines(output, _SHOWN_CHARS, len))
    return NewEntry(
        entry_type=EntryType.FAILURE_SOLUTION,
        project_id=key(project),
        agent_type="developer",
        task_type="bugfix",
        failure_description=fit_ends(f"`{command}` {ending}\n{words}".strip(), "cut: the log has more here"),
        error_message=fit_ends(output, "cut: the log has more here") if output else None,
        solution_steps=solution,
        success_verified=solution is not None,
        verified_by=command[:500] if solution is not None else None,
        task_id=key(command),
        run_id=run_id,
    )
