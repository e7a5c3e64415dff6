"""Tests that failed and pass again, as verified failures: the reports of the later run prove it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import IO, cast

from hardwon.errors import InvalidInput
from hardwon.text.truncation import escape_unstorable
from hardwon.validation import MAX_TEXT_BYTES, check_text
from knowledge.models import EntryType, NewEntry
from knowledge.text.fitting import fit_ends
from orchestrator.importers.ci_reports.cases import Failure, Run, Scope
from orchestrator.importers.ci_reports.message import describe, technology_of, trace
from orchestrator.importers.ci_reports.proof import Comparison, Mended
from orchestrator.importers.ci_reports.report_files import ReportFile, TooLarge, find_files, open_reports
from orchestrator.importers.ci_reports.stream_readers import HEAD_BYTES, decode_lines, find_reader, iter_lines
from orchestrator.importers.ci_reports.valid_xml import Unreadable
from orchestrator.importers.fields import fit_beginning, key, main_technology, technology
from orchestrator.importers.junit_reader import NotJUnit, read_stream

_CHANGED_FILE = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)", re.MULTILINE)
_PLAIN_SUITES = {
    "pytest", "(empty)", "undefined", "root suite", "jest tests", "vitest tests", "pytest tests", "mocha tests",
    "nextest-run", "rspec", "tap-junit", "deno test", "test", "tests", "default", "default suite",
    "unittest.suite._errorholder",
}  # fmt: skip
"""Suites that say which tool ran the tests; a name shown to people has none of them."""
_PLAIN_CLASS = re.compile(
    r"test|Test suite failed to run|Minitest::Result|Tap-Junit-Suite"
    r"|.*\b(?:_FailedTest|LoadTestsFailure|ModuleImportFailure)"
)
_CHECKOUT = re.compile(r"\A(?:file://)?(?:[A-Za-z]:)?/\S*/(?=[^/\s]+/[^/\s]+\.\w+\Z)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairedTests:
    """The entries of tests that were mended, and what was left out.

    `left_out`: number of failed tests by the reason for which they are not learned; complete once `entries` is read.
    `unread` has a sentence for each file that could not be read.
    """

    entries: Iterator[NewEntry]
    left_out: dict[str, int]
    unread: list[str]


@dataclass(slots=True)
class _Solution:
    project: str
    steps: str | None
    changed: str | None
    verified_by: str
    run_id: str
    main: str | None


def read_repaired_tests(
    before: Path | Sequence[Path],
    after: Path | Sequence[Path],
    *,
    project: str,
    solution: str | None = None,
    diff: Path | None = None,
) -> RepairedTests:
    """Read the tests that failed in the JUnit reports of one run and pass in those of a later one.

    A run is a file, a folder, a glob or several of them; zip and tar archives are read too. The solution is
    `solution`, or the content of the file `diff`; without either the entries are open failures. All reports are read
    before the first entry. Raises InvalidInput for `before`, `after`, `solution`, `diff` or `project`; a file that
    cannot be read is an error only if its run has no other.
    """
    check_text("project", project)
    if solution is not None:
        check_text("solution", solution)
    steps = solution if diff is None else read_diff(diff)
    changed = main_technology((file, 1) for file in _CHANGED_FILE.findall(steps or "") if file != "/dev/null")
    earlier_files = _as_list(before)
    later_files = _as_list(after)
    earlier, found = _read_run(earlier_files, "before", words=True)
    later, _ = _read_run(later_files, "after", words=False)
    comparison = Comparison(earlier, later)
    mended = [(test, _technology(test)) for test in comparison.mended_tests()]
    told = _Solution(
        project=key(project),
        steps=steps,
        changed=changed,
        verified_by=escape_unstorable(f"junit {', '.join(file.name or str(file) for file in later_files)}")[:500],
        run_id=f"junit {_digest(found)}",
        main=_main([told for _, told in mended if told]),
    )
    left_out = {reason.value: number for reason, number in comparison.left_out.items()}
    if others := earlier.other_files + later.other_files:
        left_out["no_junit_files"] = others
    return RepairedTests(
        entries=(_entry(test, named, told) for test, named in mended),
        left_out=left_out,
        unread=[*earlier.unread, *later.unread],
    )


def _as_list(files: Path | Sequence[Path]) -> list[Path]:
    return [files] if isinstance(files, Path) else list(files)


def _read_run(sources: Sequence[Path], field_name: str, *, words: bool) -> tuple[Run, list[Path]]:
    """Read all reports of a run. Raises InvalidInput if none of them can be read."""
    found = list(find_files(sources, field_name))
    run = Run()
    read = 0
    for file in open_reports(found):
        if file.folder not in run.paths:
            run.paths[file.folder] = file.path.absolute().parent.parts
        try:
            _read_file(file, run, words=words)
            read += 1
        except NotJUnit as error:
            if file.named:
                run.unread.append(f"{file.name} {error}")
            run.other_files += 1
        except Unreadable as error:
            run.unread.append(f"{file.name} {error}")
    if not read:
        reason = run.unread[0] if run.unread else f"{sources[0]} has no JUnit report"
        raise InvalidInput(field_name, reason)
    return run, [each[1] if isinstance(each, tuple) else each for each in found]


def _read_file(file: ReportFile, run: Run, *, words: bool) -> None:
    try:
        with closing(file.open()) as stream:
            head = stream.read(HEAD_BYTES)
            rest = cast("IO[bytes]", _Rest(head, stream))
            reader = find_reader(decode_lines(head)) if not head.lstrip().startswith(b"<") else None
            if reader is not None:
                reader(iter_lines(rest), run, file.folder)
            elif head.lstrip()[:1] in {b"{", b"["}:
                raise NotJUnit("is JSON, but of no test runner that hardwon reads")
            else:
                read_stream(rest, run, folder=file.folder, words=words)
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror or error}") from error
    except (EOFError, TooLarge, ValueError) as error:
        raise Unreadable(f"cannot be read: {error}") from error


@dataclass(slots=True)
class _Rest:
    """A stream from its beginning, of which the head has been read."""

    head: bytes
    stream: IO[bytes]

    def read(self, size: int = -1) -> bytes:
        if self.head:
            head, self.head = self.head, b""
            return head
        return self.stream.read(size)


def _entry(test: Mended, named: str | None, solution: _Solution) -> NewEntry:
    name = display_name(test)
    failure = next(iter(test.tally.failures), Failure())
    told = [describe(each, test.name) for each in test.tally.failures]
    message = next((each for each in told if each), "")
    text = trace(failure)
    return NewEntry(
        entry_type=EntryType.FAILURE_SOLUTION,
        project_id=solution.project,
        agent_type="developer",
        task_type="bugfix",
        technology=named or solution.changed or solution.main,
        failure_description=_text(f"{name}\n{message}".strip()),
        error_message=_text(text) if text and text != message else None,
        solution_steps=solution.steps,
        success_verified=solution.steps is not None,
        verified_by=solution.verified_by if solution.steps is not None else None,
        task_id=key(name),
        run_id=solution.run_id,
    )


def _technology(test: Mended) -> str | None:
    scope = test.scope
    failure = next(iter(test.tally.failures), Failure())
    told = technology(scope.file) if scope.file else None
    return told or technology_of(failure, scope.classname, test.name, *scope.suites)


def _main(technologies: Sequence[str]) -> str | None:
    """Return the technology of most tests of the run: that of those whose words point to no file."""
    return max(sorted(set(technologies)), key=Counter(technologies).__getitem__, default=None)


def display_name(test: Mended) -> str:
    """Return class and name of a test; also suites, file, host or module where other tests have the same ones."""
    scope, name = test.scope, _shown(test.name)
    classname = "" if _PLAIN_CLASS.fullmatch(scope.classname) else _shown(scope.classname)
    suites = [_shown(suite) for suite in scope.suites if suite.lower() not in _PLAIN_SUITES]
    if classname and all(other.suites == scope.suites for other in test.others):
        suites = []
    parts = [part for part in (*suites, classname) if part and part != name]
    parts.append(name)
    more = [
        told
        for part in ("file", "host", "folder")
        if any(other is not scope and _part(other, part) != _part(scope, part) for other in test.others)
        and (told := _part(scope, part))
    ]
    shown = "::".join(part for part in dict.fromkeys(parts) if part)
    return escape_unstorable(f"{shown} ({', '.join(more)})" if more else shown) or "a test without a name"


def _part(scope: Scope, part: str) -> str:
    if part == "folder":
        return "/".join(scope.folder)
    return _shown(scope.file) if part == "file" else scope.host


@lru_cache(maxsize=64)
def _shown(name: str) -> str:
    """Return a name in one line; of the absolute path of a file the end, which is the same in every checkout."""
    return _CHECKOUT.sub("", " ".join(name.split()), count=1)


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


def _digest(files: Sequence[Path]) -> str:
    """Return a hash of the reports, the same however often they are imported: it identifies the failed run."""
    digest = sha256()
    for file in files:
        try:
            with file.open("rb") as stream:
                while chunk := stream.read(1024 * 1024):
                    digest.update(chunk)
        except OSError:  # named in `unread`
            continue
    return digest.hexdigest()[:16]
