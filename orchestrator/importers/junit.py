"""Tests that failed and pass again, as verified failures: the report of the later run proves it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from hardwon.errors import InvalidInput
from hardwon.text.truncation import escape_unstorable
from hardwon.validation import MAX_TEXT_BYTES, check_text
from knowledge.models import EntryType, NewEntry
from knowledge.text.fitting import fit_ends
from orchestrator.importers.fields import fit_beginning, key, main_technology, technology
from orchestrator.importers.junit_reader import Test, read_report

_CHANGED_FILE = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)", re.MULTILINE)


def read_repaired_tests(
    before: Path, after: Path, *, project: str, solution: str | None = None, diff: Path | None = None
) -> Iterator[NewEntry]:
    """Yield the tests that failed in one JUnit report and pass in a later one, in the order of the first.

    The solution is `solution`, or the content of the file `diff`; without either they are open failures. Tests that
    still fail, or did not run again, are left out. Both reports are read whole before the first entry. Raises
    InvalidInput for `before`, `after`, `solution`, `diff` or `project`.
    """
    check_text("project", project)
    if solution is not None:
        check_text("solution", solution)
    steps = solution if diff is None else read_diff(diff)
    changed = main_technology((file, 1) for file in _CHANGED_FILE.findall(steps or "") if file != "/dev/null")
    failed = [test for test in read_report(before, "before").values() if test.failed]
    later = read_report(after, "after")
    run_id = f"junit {_digest(before)}"
    return (
        NewEntry(
            entry_type=EntryType.FAILURE_SOLUTION,
            project_id=key(project),
            agent_type="developer",
            task_type="bugfix",
            technology=(technology(test.file) if test.file else None) or changed,
            failure_description=_text(f"{test.name}\n{test.message}".strip()),
            error_message=_text(test.trace) if test.trace and test.trace != test.message else None,
            solution_steps=steps,
            success_verified=steps is not None,
            verified_by=escape_unstorable(f"junit {after.name}")[:500] if steps is not None else None,
            task_id=key(test.name),
            run_id=run_id,
        )
        for test in failed
        if _passes(later.get(test.name))
    )


def _passes(test: Test | None) -> bool:
    return test is not None and test.ran and not test.failed


def _text(words: str) -> str:
    return fit_ends(words, "cut: the report has more here")


def read_diff(diff: Path) -> str:
    """Return the diff in a file, its beginning if it is too long. Raises InvalidInput for `diff`."""
    try:
        with diff.open("rb") as stream:
            content = escape_unstorable(stream.read(MAX_TEXT_BYTES + 1))
    except OSError as error:
        raise InvalidInput("diff", f"{diff} cannot be read: {error.strerror}") from error
    if not content.strip():
        raise InvalidInput("diff", f"{diff} is empty: give the diff of the fix")
    return fit_beginning(content.strip("\n"), "cut: the diff has more")


def _digest(file: Path) -> str:
    """Return a hash of the report, the same however often it is imported: it identifies the failed run."""
    with file.open("rb") as stream:
        digest = sha256()
        while chunk := stream.read(1024 * 1024):
            digest.update(chunk)
    return digest.hexdigest()[:16]
