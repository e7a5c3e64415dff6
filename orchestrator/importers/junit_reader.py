"""JUnit XML reports of test runners, parsed in bounded memory.

A report is untrusted input: one with a document type, and so with entities, is refused. Control characters, which XML
forbids and coloured output has, are replaced.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from typing import IO
from xml.parsers import expat

from hardwon.validation import MAX_TEXT_BYTES
from orchestrator.importers.ci_reports.cases import Failure, Names, Run, Scope, Tally
from orchestrator.importers.ci_reports.valid_xml import MARK, Unreadable, clean_text, valid_chunks

MAX_DEPTH = 50
"""Suites are nested, but not this deep."""
MAX_CASES = 1_000_000
"""Test cases in a run: each takes memory until the runs are compared."""
_FULL_TEXTS_BYTES = 48 * 1024 * 1024
"""Above this the texts of further failures are cut to `_SHORT_TEXT_CHARS`."""
_SHORT_TEXT_CHARS = 2000

_FAILED, _SKIPPED, _FLAKY, _RERUN, _TEARDOWN = 1, 2, 4, 8, 16
_CHILDREN = {
    "failure": _FAILED,
    "error": _FAILED,
    "skipped": _SKIPPED,
    "skip": _SKIPPED,
    "ignored": _SKIPPED,
    "disabled": _SKIPPED,
    "pending": _SKIPPED,
    "todo": _SKIPPED,
    "flakyFailure": _FLAKY,
    "flakyError": _FLAKY,
    "rerunFailure": _RERUN,
    "rerunError": _RERUN,
}
_OF_A_SUITE = {"failure", "error", "system-out"}
_LISTS_ALL_RULES = {"rubocop"}
"""Suites of linters that list each rule they know as a test that passed, those that are switched off too."""
_SHORTEST_RUN = 0.01
"""Seconds that show that a spec ran: jasmine-reporters writes what a filter or a focused spec excluded as passed."""
_BY_TIME = "by time"
_EXPECTED_TO_FAIL = "fail"
"""Playwright's property of a test that is expected to fail: where it fails, the report has no other sign of it."""
_TAP_DIRECTIVE = re.compile(
    r"^(?:not )?ok (?P<number>\d+)(?: -)?(?P<title>.*?)(?<!\\)# *(?:todo|skip)", re.MULTILINE | re.IGNORECASE
)
"""A point that failed as expected or was skipped: TAP::Formatter::JUnit makes it a test case that passed."""
_STATES = ("status", "result", "state", "outcome")
_SWITCHES = ("disabled", "skipped", "ignored", "executed", "ran")
_SPECIAL_ATTRIBUTES = {*_STATES, *_SWITCHES}
_RAN = {
    "", "run", "ran", "pass", "passed", "ok", "success", "successful", "succeeded", "completed", "complete", "done",
    "finished", "executed",
}  # fmt: skip
_BROKE = {
    "fail", "failed", "failure", "error", "errored", "broken", "crashed", "aborted", "timeout", "timedout", "timed_out",
}  # fmt: skip

_TIME = re.compile(
    r"[-_ ]?\b\d{4}-?\d\d-?\d\d[T_ -]?\d\d[:.-]?\d\d(?:[:.-]?\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"(?:-[0-9a-f]{7,40})?\b"
    r"|\s*[(\[]\d+(?:[.,]\d+)? ?(?:ms|s|sec|secs|seconds|µs|us|ns)[)\]]$"
)
_CONFIGURATION = re.compile(r"(?:/|[A-Za-z]:).*\.(?:xml|dist|json|toml|ini)")
_DIGITS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+")
_MACHINE = re.compile(
    r"|localhost|[0-9a-f]{12}|[0-9a-f]{64}|fv-az\d+-\d+|pkrvm\w+|runnervm\w+|ip-\d+-\d+-\d+-\d+(?:\..*)?"
    r"|runner-[\w-]+-project-\d+-concurrent-\d+.*|DESKTOP-[A-Z0-9]{7}|Mac-\d{10,}(?:\.local)?|[\w.-]+\.(?:local|internal|lan)"
    r"|[a-z0-9-]+-[a-f0-9]{8,10}-[a-z0-9]{5}"
)
"""Names that CI gives to machines, another one for each run. Others may be projects (Playwright) and are compared."""


class NotJUnit(Exception):
    """The file is no JUnit report, though it may be good XML."""


def read_stream(stream: IO[bytes], run: Run, *, folder: tuple[str, ...], words: bool) -> None:
    """Add the tests of a report to a run, or none of them if it cannot be read. Without `words` no text is kept."""
    parser = _ReportParser(run, folder=folder, words=words)
    try:
        for chunk in valid_chunks(stream):
            parser.feed(chunk)
        parser.feed(b"", last=True)
    except (expat.ExpatError, ValueError, LookupError) as error:  # the latter two: an encoding that nobody can read
        raise Unreadable(f"is not XML: {error}") from error
    else:
        parser.commit()
    finally:
        parser.close()


@dataclass(slots=True)
class _TextBuffer:
    """The text of an element: as much of both ends as can be stored, so that a later cut is visible."""

    room: int
    first: list[str] = field(default_factory=list)
    last: deque[str] = field(default_factory=deque)
    tail_size: int = 0

    def add(self, text: str) -> None:
        if self.room > 0:
            self.first.append(text)
            self.room -= len(text)
            return
        self.last.append(text)
        self.tail_size += len(text)
        while self.tail_size - len(self.last[0]) >= MAX_TEXT_BYTES:
            self.tail_size -= len(self.last.popleft())

    def text(self) -> str:
        return clean_text("".join([*self.first, *self.last])).strip()


@dataclass(slots=True)
class _Case:
    """An open test case: what its children say so far."""

    attributes: dict[str, str]
    depth: int
    flags: int = 0
    failures: list[Failure] | None = None
    out: str = ""
    err: str = ""


@dataclass(slots=True)
class _Suite:
    """An open suite. `repeats` are the tests in it whose identity occurred in it before."""

    name: str
    host: str
    basedir: str
    declared: int
    elements: int = 0
    depth: int = 0
    is_pytest: bool = False
    nested: bool = False
    failed: int = 0
    case: _Case | None = None
    """The suite's own errors and output, as of a test."""
    repeats: list[tuple[Names, str]] = field(default_factory=list)


class _ReportParser:
    """An incremental parser of a report."""

    def __init__(self, run: Run, *, folder: tuple[str, ...], words: bool) -> None:
        self._run = run
        self._folder = folder
        self._words = words
        self._texts_size = 0
        self._scopes: dict[Scope, Names] = {}
        self._names_by_class: dict[tuple[str | None, str | None], Names] = {}
        self._suites: list[_Suite] = []
        self._outer: list[_Case] = []
        self._plain: list[dict[str, str]] = []
        self._case: _Case | None = None
        self._depth = 0
        self._doubtful = ""
        self._case_count = run.case_count
        self._buffer: _TextBuffer | None = None
        self._buffer_depth = 0
        parser = self._parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._start
        self._start_plain, self._end_plain, self._flush = self._plain_case_handlers()

    def feed(self, chunk: bytes, *, last: bool = False) -> None:
        self._parser.Parse(chunk, last)
        self._flush()

    def commit(self) -> None:
        """Add the tests to the run: only a report that was read to its end counts."""
        self._run.case_count = self._case_count
        for scope, names in self._scopes.items():
            known = self._run.scopes.setdefault(scope, names)
            if known is not names:
                for name, value in names.items():
                    _merge(known, name, value)

    def close(self) -> None:
        """Let go of the handlers: they refer to the parser, so that only a garbage collection would free it."""
        self._parser.StartDoctypeDeclHandler = None
        self._parser.StartElementHandler = self._parser.EndElementHandler = self._parser.CharacterDataHandler = None
        del self._start_plain, self._end_plain, self._flush

    def _fail(self, reason: str) -> Unreadable:
        return Unreadable(f"{reason} (line {self._parser.CurrentLineNumber})")

    def _doctype(self, *_: object) -> None:
        raise self._fail("declares a document type, which is not allowed: test runners write none")

    def _plain_case_handlers(
        self,
    ) -> tuple[Callable[[str, dict[str, str]], None], Callable[[str], None], Callable[[], None]]:
        """Return handlers for outside of a case, which only collect cases without children: most of a large report.

        All that is not of such a case is left to `_start` and `_end`. Closures: methods take a third more time.
        """
        is_open = False
        plain = self._plain

        def start(name: str, attributes: dict[str, str]) -> None:
            nonlocal is_open
            if not is_open and name == "testcase":
                is_open = True
                plain.append(attributes)
                return
            opened = plain.pop() if is_open else None
            self._add_plain_cases()
            if opened is not None:
                is_open = False
                self._depth += 1
                self._open_case(_Case(opened, self._depth))
            self._start(name, attributes)

        def flush() -> None:
            opened = plain.pop() if is_open else None
            self._add_plain_cases()
            if opened is not None:
                plain.append(opened)

        def end(name: str) -> None:
            nonlocal is_open
            if is_open:
                is_open = False
            else:
                self._add_plain_cases()
                self._end(name)

        return start, end, flush

    def _add_plain_cases(self) -> None:
        """Add the cases without children since the last element that is none, those of a class at a time."""
        for key, cases in groupby(self._plain, _class_and_file):
            attributes = list(cases)
            tests = [each.get("name", "") for each in attributes]
            passes = dict.fromkeys(tests, 1)
            names = self._names_by_class.get(key) or self._find_names(*key)
            if (
                len(passes) == len(tests)
                and names.keys().isdisjoint(passes)
                and not self._doubtful
                and _SPECIAL_ATTRIBUTES.isdisjoint(set().union(*attributes))
                and MARK not in "".join(tests)
            ):
                names.update(passes)
                self._case_count += len(tests)
            else:
                for each in attributes:
                    self._end_case(each, None)
        self._plain.clear()
        if self._case_count > MAX_CASES:
            raise self._fail(f"takes the run above the {MAX_CASES:,} test cases allowed")

    def _open_case(self, case: _Case | None) -> None:
        """Go into a case that has children, or out of it."""
        self._case = case
        self._parser.StartElementHandler = self._start_plain if case is None else self._start
        self._parser.EndElementHandler = self._end_plain if case is None else self._end

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        depth = self._depth = self._depth + 1
        if depth > MAX_DEPTH:
            raise self._fail(f"has elements more than {MAX_DEPTH} deep")
        if self._case is not None:
            if name == "testcase":
                self._outer.append(self._case)
                self._case = _Case(attributes, depth)
            elif depth == self._case.depth + 1:
                self._start_child(self._case, name, attributes)
            elif name == "property" and attributes.get("name") == _EXPECTED_TO_FAIL:
                self._case.flags |= _SKIPPED
        elif name in {"testsuite", "testsuites"}:
            self._start_suite(name, attributes)
            self._open_case(None)
        else:
            self._start_other(name, attributes)

    def _start_other(self, name: str, attributes: dict[str, str]) -> None:
        depth = self._depth
        if depth == 1:
            raise NotJUnit(f"is not a JUnit report: it begins with <{name[:100]}>, not <testsuites> or <testsuite>")
        if self._suites and depth == self._suites[-1].depth + 1 and name in _OF_A_SUITE:
            self._start_child_of_suite(self._suites[-1], name, attributes)
        elif name == "property" and attributes.get("name") == "basedir" and self._suites:
            self._suites[-1].basedir = attributes.get("value", "")
            self._names_by_class = {}

    def _start_suite(self, tag: str, attributes: dict[str, str]) -> None:
        outer = self._suites[-1] if self._suites else None
        name = clean_text(attributes.get("name", ""))
        if tag == "testsuites":
            name = _DIGITS.sub("", name)
        if name in _LISTS_ALL_RULES:
            self._doubtful = name
        elif outer is None:
            self._doubtful = ""
        elif not outer.name and {"disabled", "timestamp"} <= attributes.keys() and outer.host == "":
            self._doubtful = _BY_TIME if attributes.get("hostname") == "localhost" else ""
        declared = attributes.get("tests", "")
        if outer is not None:
            outer.nested = True
        self._suites.append(
            _Suite(
                name=_TIME.sub("", name).strip(),
                host=attributes.get("hostname") or (outer.host if outer else ""),
                basedir=outer.basedir if outer else "",
                elements=-self._case_count,
                depth=self._depth,
                is_pytest=outer is not None and outer.name == "pytest tests",
                declared=int(declared) if declared.isdecimal() else -1,
            )
        )
        self._names_by_class = {}

    def _start_child(self, case: _Case, name: str, attributes: dict[str, str]) -> None:
        flag = _CHILDREN.get(name)
        if flag is None:
            if self._words and name in {"system-out", "system-err"}:
                self._capture()
            return
        case.flags |= flag
        if flag == _FAILED:
            message = attributes.get("message") or ""
            if message.startswith("failed on teardown"):
                case.flags |= _TEARDOWN
            if self._words:
                failure = Failure(message=clean_text(message).strip(), kind=clean_text(attributes.get("type") or ""))
                case.failures = [*(case.failures or ()), failure]
                self._capture()

    def _start_child_of_suite(self, suite: _Suite, name: str, attributes: dict[str, str]) -> None:
        """Begin an error of the suite itself, or its output where that is the TAP stream its tests were made of."""
        suite.case = suite.case or _Case({"name": suite.name}, suite.depth)
        if name in {"failure", "error"}:
            self._start_child(suite.case, name, attributes)
        elif self._has_numbers():
            self._capture()

    def _has_numbers(self) -> bool:
        """Return true where the tests of the open suite are named by their numbers, as points of TAP are."""
        return any(next(iter(names), "")[:1].isdigit() for names in self._names_by_class.values())

    def _capture(self) -> None:
        room = MAX_TEXT_BYTES if self._texts_size < _FULL_TEXTS_BYTES else _SHORT_TEXT_CHARS
        self._buffer = _TextBuffer(room)
        self._buffer_depth = self._depth
        self._parser.CharacterDataHandler = self._buffer.add

    def _end_capture(self, case: _Case, name: str, text: str) -> None:
        self._buffer = None
        self._parser.CharacterDataHandler = None
        if name == "system-out":
            case.out = case.out or text
        elif name == "system-err":
            case.err = case.err or text
        elif case.failures:
            case.failures[-1].text = text

    def _end(self, name: str) -> None:
        depth, case = self._depth, self._case
        self._depth = depth - 1
        if case is not None:
            if depth == case.depth:
                self._end_case(case.attributes, case)
                self._open_case(self._outer.pop() if self._outer else None)
            elif self._buffer is not None and depth == self._buffer_depth:
                self._end_capture(case, name, self._buffer.text())
        elif self._buffer is not None and depth == self._buffer_depth and self._suites[-1].case is not None:
            self._end_capture(self._suites[-1].case, name, self._buffer.text())
        elif name in {"testsuite", "testsuites"} and self._suites:
            suite = self._suites[-1]
            suite.elements += self._case_count
            _fold_reruns(suite)
            if suite.case is not None:
                self._end_suite(suite, suite.case)
            self._suites.pop()
            self._names_by_class = {}

    def _end_case(self, attributes: dict[str, str], case: _Case | None) -> None:
        count = self._case_count = self._case_count + 1
        if count > MAX_CASES:
            raise self._fail(f"takes the run above the {MAX_CASES:,} test cases allowed")
        get = attributes.get
        key = (get("classname"), get("file"))
        names = self._names_by_class.get(key)
        if names is None or self._outer or "group" in attributes:
            names = self._find_names(*key, get("group"))
        name = get("name", "")
        if MARK in name:
            name = clean_text(name)
        flags = 0 if case is None else case.flags
        if self._doubtful or not _SPECIAL_ATTRIBUTES.isdisjoint(attributes):
            flags |= _state_flags(attributes)
            flags = flags or self._doubt(get("time", ""))
        if name in names:
            if self._suites:
                self._suites[-1].repeats.append((names, name))
        elif not flags:
            names[name] = 1
            return
        if flags:
            if self._suites:
                self._suites[-1].failed += bool(flags & _FAILED)
            self._add(names, name, flags, case or _Case(attributes, 0))
        else:
            _merge(names, name, 1)

    def _doubt(self, time: str) -> int:
        """Return the flags of a case that looks like a pass, in a report where those that did not run do as well."""
        if self._doubtful == _BY_TIME:
            return 0 if time.replace(".", "", 1).isdecimal() and float(time) >= _SHORTEST_RUN else _SKIPPED
        return _SKIPPED if self._doubtful else 0

    def _end_suite(self, suite: _Suite, case: _Case) -> None:
        """Add an error of the suite that no test of it explains, and correct what its TAP stream knows better."""
        for point in _TAP_DIRECTIVE.finditer(case.out):
            title = point["title"].strip()
            name = f"{point['number']} - {title}" if title else point["number"]
            for names in self._names_by_class.values():
                if name in names:
                    names[name] = Tally(skipped=1)
        if case.flags and suite.name and not suite.failed:
            self._add(self._find_names(None, None), suite.name, case.flags, case)

    def _add(self, names: Names, name: str, flags: int, case: _Case) -> None:
        """Add a case that did not just pass. A skipped one with a failure is a todo: neither a pass nor a failure."""
        tally = Tally()
        if flags & _SKIPPED:
            tally.skipped = 1
        elif flags & _FAILED:
            tally.failed = 1
            tally.last_failed = True
            tally.failures = case.failures or ([Failure()] if self._words else [])
            for failure in tally.failures:
                failure.out, failure.err = case.out, case.err
                self._texts_size += len(failure.text)
            self._texts_size += len(case.out) + len(case.err)
            if flags & _TEARDOWN and (known := names.get(name)) is not None:
                self._add_teardown(names, name, known, tally)
                return
        else:
            tally.passed = 1
            tally.flaky = bool(flags & (_FLAKY | _RERUN))
        _merge(names, name, tally)

    def _add_teardown(self, names: Names, name: str, known: Tally | int, teardown: Tally) -> None:
        """Add a teardown's error to the test: pytest writes an element for it beside that of the test."""
        test = Tally(passed=known) if isinstance(known, int) else known
        if test.passed:
            test.passed -= 1
            test.failed += 1
        elif not test.failed:
            test.failed = 1
        test.last_failed = True
        test.failures += teardown.failures
        names[name] = test
        if self._suites:
            self._suites[-1].elements -= 1
            self._suites[-1].repeats.pop()

    def _find_names(self, classname: str | None, file: str | None, group: str | None = None) -> Names:
        inner = self._suites[-1] if self._suites else None
        class_text = clean_text(classname or "").strip()
        parents = [clean_text(outer.attributes.get("name") or "") for outer in self._outer]
        suites = [suite.name for suite in self._suites if suite.name and not _repeats(suite.name, class_text)]
        host = clean_text(inner.host) if inner else ""
        scope = Scope(
            host="" if _MACHINE.fullmatch(host) else host,
            folder=self._folder,
            basedir=clean_text(inner.basedir).replace("\\", "/").rstrip("/") if inner else "",
            suites=(*suites, *parents, *([clean_text(group)] if group else [])),
            file=clean_text(file or "").replace("\\", "/"),
            classname=class_text,
        )
        names = self._scopes.setdefault(scope, {})
        if not self._outer and not group:
            self._names_by_class[classname, file] = names
        return names


def _class_and_file(attributes: dict[str, str]) -> tuple[str | None, str | None]:
    return attributes.get("classname"), attributes.get("file")


def _repeats(suite: str, classname: str) -> bool:
    """Return true for a suite that says no more than the class, or is the file of the run's configuration (PHPUnit).

    Reruns of Surefire move the tests of a class to the file of a nested one.
    """
    if _CONFIGURATION.fullmatch(suite):
        return True
    return suite == classname or (
        bool(classname)
        and (
            (suite.startswith(classname) and suite[len(classname)] == "$")
            or (classname.startswith(suite) and classname[len(suite)] == "$")
        )
    )


def _state_flags(attributes: dict[str, str]) -> int:
    """Return flags for a case whose status says that it did not run, or failed. An unknown status is no run."""
    for name in _STATES:
        state = attributes.get(name, "").strip().lower()
        if state in _BROKE:
            return _FAILED
        if state not in _RAN:
            return _SKIPPED
    for name in _SWITCHES:
        value = attributes.get(name, "").strip().lower()
        ran = value in {"", "true", "1", "yes"} if name in {"executed", "ran"} else value in {"", "false", "0", "no"}
        if not ran:
            return _SKIPPED
    return 0


def _merge(names: Names, name: str, value: Tally | int) -> None:
    known = names.get(name)
    if known is None:
        names[name] = value
    elif isinstance(known, int):
        if isinstance(value, int):
            names[name] = known + value
        else:
            value.passed += known
            names[name] = value
    else:
        known.merge(value)
        known.last_failed = not isinstance(value, int) and value.last_failed


def _is_retried(value: Tally | int) -> bool:
    """Return true where all attempts but the last look like a pass: pytest counts subtests too, so numbers differ."""
    return isinstance(value, int) or (not value.skipped and value.failed <= value.last_failed)


def _fold_reruns(suite: _Suite) -> None:
    """Make the attempts of a test one test, where the suite counts tests and lists attempts.

    pytest-rerunfailures lists each attempt that was repeated like a pass; `tests` tells them from tests of one name.
    """
    if suite.nested or suite.declared < 1 or not suite.repeats or suite.elements <= suite.declared:
        return
    exact = suite.elements - suite.declared == len(suite.repeats)
    if not exact and not (suite.is_pytest and all(_is_retried(names[name]) for names, name in suite.repeats)):
        return
    for names, name in suite.repeats:
        known = names[name]
        tally = Tally(passed=known) if isinstance(known, int) else known
        if tally.last_failed:
            tally.passed, tally.failed = 0, 1
        else:
            tally.passed, tally.failed, tally.flaky = 1, 0, True
        names[name] = tally
