"""Test results as streams of lines: TAP 13 and 14, `go test -json`, libtest's JSON (cargo, nextest)."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, Final

from orchestrator.importers.ci_reports.cases import Failure, Run, Scope, as_tally
from orchestrator.importers.ci_reports.message import go_reason, rust_reason

HEAD_BYTES: Final = 4096
"""Bytes by which a format is recognised."""
MAX_LINE: Final = 1_000_000
"""Characters of a line that are read; a longer one is cut."""
MAX_BYTES: Final = 1024 * 1024 * 1024
_MAX_TEXT: Final = 32_000
"""Characters of a test's output that are kept: from its end, where the failure stands."""

_CHUNK_BYTES: Final = 64 * 1024
_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_PLAN = re.compile(r"(?:TAP version \d+|\d+\.\.\d+(?:\s*#.*)?|(?:not )?ok\b.*)$")
_POINT = re.compile(r"( *)(not )?ok\b(?: +(\d+))?(?: +-)?(?: +(.*?))?(?:\s+\{)?$")
_DIRECTIVE = re.compile(r"(?<!\\)#\s*(skip\w*|todo)\b.*$", re.IGNORECASE)
_SUBTEST = re.compile(r"( *)# Subtest(?:: (.*))?$")
_TIME = re.compile(r"(?:\s*#\s*time=[\d.]+\s*m?s|(?:\s*#)?\s+in [\d.]+ ?(?:ms|sec|s)|\s*\([\d.]+ ?m?s\))$")
_PROVE_FILE = re.compile(r"(\S+\.\w+) \.{2,}(?: .*)?")
"""The line by which `prove -v` says which file the points that follow are of."""
_TAPE_TITLE = re.compile(r"# (?:SKIP |TODO )?(.+)$")
_TAPE_END = re.compile(r"# (?:tests|pass|fail|skip|todo)\s+\d+$|# ok$")
_YAML_WORDS = ("message", "error", "reason", "description")
_YAML_BLOCKS = {"", "|", "|-", "|+", ">", ">-", ">+"}
_PLACES = ("(in test file", "(from function")
_YAML_PAIR = re.compile(r"(operator|expected|actual|wanted|found|assertion|'.*:'): *(.*)$")


def add_result(run: Run, scope: Scope, name: str, outcome: str, failure: Failure | None = None) -> None:
    """Add a test that passed, failed or was skipped to a run."""
    names = run.scopes.setdefault(scope, {})
    tally = as_tally(names.get(name, 0))
    if outcome == "passed":
        tally.passed += 1
    elif outcome == "skipped":
        tally.skipped += 1
    else:
        tally.failed += 1
        tally.failures.append(failure or Failure())
    tally.last_failed = outcome == "failed"
    names[name] = tally
    run.case_count += 1


def decode_lines(content: bytes) -> str:
    """Return text without colours, with a replacement for what is no UTF-8."""
    return _COLOURS.sub("", content.decode("utf-8", "replace"))


def _decode_coloured(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def iter_lines(stream: IO[bytes], *, colours: bool = False) -> Iterator[str]:
    """Yield the lines of a stream, a piece of it at a time, with or without colours.

    Raises ValueError beyond `MAX_BYTES`.
    """
    decode = _decode_coloured if colours else decode_lines
    rest, size = b"", 0
    while chunk := stream.read(_CHUNK_BYTES):
        size += len(chunk)
        if size > MAX_BYTES:
            raise ValueError(f"has more than the {MAX_BYTES:,} bytes allowed")
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[: 4 * MAX_LINE]
        yield from map(decode, lines)
    yield decode(rest)


def find_reader(head: str) -> Callable[[Iterable[str], Run, tuple[str, ...]], None] | None:
    """Return the reader of the format that a file begins with, None for another one."""
    lines = [line.strip() for line in head.lstrip("\ufeff").splitlines() if line.strip()]
    for line in lines[:20] if not any(_GO_BUILD.match(line) for line in lines) else lines:
        if line.startswith("{"):
            return _reader_of_json(line)
        if _GO_BUILD.match(line) and "[" in line:
            return read_go_test
    if lines and (lines[0].startswith("TAP version") or any(_PLAN.match(line) for line in lines[:5])):
        return read_tap
    if any(_PROVE_FILE.fullmatch(line) for line in lines):
        return read_tap
    return None


def _reader_of_json(line: str) -> Callable[[Iterable[str], Run, tuple[str, ...]], None] | None:
    event = _decode(line)
    if event is None:
        return None
    if "Action" in event and ("Package" in event or "ImportPath" in event):
        return read_go_test
    if event.get("type") in {"suite", "test", "bench"} and "event" in event:
        return read_libtest
    return None


def _decode(line: str) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _scope(folder: tuple[str, ...], *suites: str, classname: str = "") -> Scope:
    return Scope(host="", folder=folder, basedir="", suites=suites, file="", classname=classname)


# TAP


@dataclass(slots=True)
class _Point:
    """A test point, with the lines of diagnostics that follow it."""

    path: tuple[str, ...]
    passed: bool
    directive: str
    words: list[str] = field(default_factory=list)


def read_tap(lines: Iterable[str], run: Run, folder: tuple[str, ...]) -> None:
    """Add the test points of a TAP stream to a run.

    A test is named by its description and those of the subtests it lies in, never by its number. A point whose
    subtests failed says nothing more than they do; one without a description proves nothing.
    """
    points = list(_read_points(lines))
    failed_below = {point.path[:depth] for point in points if not point.passed for depth in range(1, len(point.path))}
    for point in points:
        if not point.path[-1]:
            continue
        scope, name = _scope(folder, *point.path[:-1]), point.path[-1]
        if point.directive:  # a todo that fails is no failure, and one that passes is not done
            add_result(run, scope, name, "skipped")
        elif point.passed:
            add_result(run, scope, name, "passed")
        elif point.path not in failed_below:
            text = "\n".join(point.words).strip()
            add_result(run, scope, name, "failed", Failure(message=_first_words(point.words), text=text[-_MAX_TEXT:]))


def _read_points(lines: Iterable[str]) -> Iterator[_Point]:
    """Yield the points, those of subtests before the point that they are a part of."""
    waiting: defaultdict[int, list[_Point]] = defaultdict(list)
    last: _Point | None = None
    in_yaml = False
    titles = _Titles()
    for raw in lines:
        line = raw.rstrip("\r\n")[:MAX_LINE]
        if in_yaml:
            in_yaml = line.strip() != "..."
            if in_yaml and last is not None:
                last.words.append(line.strip())
            continue
        if line.strip() == "---" and last is not None:
            in_yaml = True
            continue
        found = _POINT.match(line)
        if found is not None:
            indent = len(found[1])
            last = _read_point(found)
            if indent == 0:
                last.path = (*titles.path(line), *last.path)
            below = [point for depth in sorted(waiting) if depth > indent for point in waiting.pop(depth)]
            for point in below:
                point.path = (*last.path, *point.path)
            waiting[indent] += [*below, last]
        elif not titles.note(line) and last is not None and _is_diagnostic(line):
            last.words.append(line.strip().lstrip("# "))
    for depth in sorted(waiting):
        yield from waiting[depth]


def _is_diagnostic(line: str) -> bool:
    line = line.lstrip()
    return line.startswith("#") and not _SUBTEST.match(line) and not line.startswith("# Looks like your test")


@dataclass(slots=True)
class _Titles:
    """Titles of the points that follow: the file of `prove -v`, and tape's tests, which are comments.

    tape's points are the assertions, and those have the same words in many tests. Its streams begin with the version
    and the first title, and have no dash before a description.
    """

    file: str = ""
    title: str = ""
    has_version: bool = False
    is_tape: bool | None = None

    def note(self, line: str) -> bool:
        """Return true for a line that is a title, and use it from here on."""
        if line.startswith("TAP version"):
            self.has_version = True
        elif header := _PROVE_FILE.fullmatch(line.rstrip()):
            self.file = header[1]
            return True
        elif self.has_version and self.is_tape is not False and line.startswith("# ") and not _TAPE_END.match(line):
            found = _TAPE_TITLE.match(line)
            if found is not None and not _SUBTEST.match(line):
                self.title = found[1].strip()
                return bool(self.is_tape)
        return False

    def path(self, point: str) -> tuple[str, ...]:
        """Return the titles of a point."""
        if self.is_tape is None:
            self.is_tape = bool(self.title) and re.match(r"(?:not )?ok \d+ (?!- )", point) is not None
        return tuple(each for each in (self.file, self.title if self.is_tape else "") if each)


def _read_point(found: re.Match[str]) -> _Point:
    description = found[4] or ""
    directive = _DIRECTIVE.search(description)
    name = description[: directive.start()] if directive else description
    return _Point(
        path=(_TIME.sub("", name.replace("\\#", "#").strip()).strip(),),
        passed=found[2] is None,
        directive=directive[1].lower() if directive else "",
    )


def _first_words(words: list[str]) -> str:
    """Return the line of the diagnostics that says what went wrong, with what was expected where that is told."""
    for key in _YAML_WORDS:
        for at, line in enumerate(words):
            if line.startswith(f"{key}:") and (value := _yaml_value(words, at)):
                return value
    told = [" ".join(line.split()) for line in words if line and not line.startswith(("at ", *_PLACES))]
    more = [line for line in told if not line.startswith("Failed test")] or told
    if more and (more[0].startswith("got:") or more[0].endswith(" at:")):
        return " ".join(more[:2])
    pairs = [f"{found[1].strip(chr(39)).rstrip(':')}: {_yaml_value(words, at)}" for at, found in _yaml_pairs(words)]
    if pairs:
        return ", ".join(pairs[:4])
    return " ".join(more[:2]) if more and more[0].endswith(":") else next(iter(more), "")


def _yaml_pairs(words: list[str]) -> Iterator[tuple[int, re.Match[str]]]:
    for at, line in enumerate(words):
        if found := _YAML_PAIR.match(line):
            yield at, found


def _yaml_value(words: list[str], at: int) -> str:
    """Return the value of a key of the diagnostics: on its line, or of a block the first lines, without a place."""
    value = words[at].partition(": ")[2].strip()
    if value not in _YAML_BLOCKS:
        return value.strip("'\",")
    block: list[str] = []
    for line in words[at + 1 :]:
        if re.match(r"[\w']+:(?: |$)", line) or len(block) == 2:
            break
        if line and not line.startswith(_PLACES):
            block.append(line)
    return " ".join(block)


# go test -json

_GO_NOISE = re.compile(
    r"\s*(?:=== (?:RUN|PAUSE|CONT|NAME)\b.*|--- (?:FAIL|PASS|SKIP): .*|(?:FAIL|PASS|ok)\b.*|exit status \d+)\s*$"
)


_GO_BUILD = re.compile(r"(?:FAIL\s+(?P<failed>\S+) \[(?P<step>build|setup) failed\]|# (?P<package>\S+)(?: \[.*\])?)$")
"""Lines of a package that does not build: Go before 1.24 writes them as text, those with `#` to stderr."""


@dataclass(slots=True)
class _GoPackage:
    """The events of a package: the output of each test, and how each attempt at it ended."""

    output: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    ends: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    end: str = ""


def read_go_test(lines: Iterable[str], run: Run, folder: tuple[str, ...]) -> None:
    """Add the tests of `go test -json` to a run.

    A test that was running or paused when its process ended is told as failed without having failed. A package that
    fails without a test that failed, in its build or in TestMain, is a failure of its own, which is mended when the
    package's tests run and pass.
    """
    packages: defaultdict[str, _GoPackage] = defaultdict(_GoPackage)
    built: _GoPackage | None = None
    for line in lines:
        event = _decode(line.strip()) if line.lstrip().startswith("{") else None
        if event is not None and isinstance(event.get("Action"), str):
            _note_go_event(packages, event)
            built = None
        elif found := _GO_BUILD.match(line.strip()):
            built = packages[found["failed"] or found["package"]]
            if found["failed"]:
                built.end = "fail"
                built.output[""] = built.output[""] or [f"the package failed in its {found['step']}"]
        elif built is not None:
            built.output[""].append(line)
    for name, package in packages.items():
        _add_go_package(run, folder, name, package)


def _note_go_event(packages: defaultdict[str, _GoPackage], event: dict[str, Any]) -> None:
    action, test = event["Action"], str(event.get("Test") or "")
    package = packages[str(event.get("Package") or str(event.get("ImportPath") or "").split(" ")[0])]
    match action:
        case "output" | "build-output":
            package.output[test].append(str(event.get("Output", ""))[:MAX_LINE])
        case "pass" | "fail" | "skip" if test:
            package.ends[test].append(action)
        case "pass" | "fail" | "skip" | "build-fail":
            package.end = "fail" if "fail" in {action.removeprefix("build-"), package.end} else action


def _add_go_package(run: Run, folder: tuple[str, ...], name: str, package: _GoPackage) -> None:
    scope = _scope(folder, name, classname=name)
    explained = False
    for test, ends in package.ends.items():
        told = package.output[test]
        for end in ends:
            if end != "fail":
                add_result(run, scope, test, "passed" if end == "pass" else "skipped")
            elif not any("--- FAIL" in line for line in told) and not any("panic:" in line for line in told):
                add_result(run, scope, test, "skipped")
            elif any(other.startswith(f"{test}/") and "fail" in package.ends[other] for other in package.ends):
                explained = True
            else:
                explained = True
                add_result(run, scope, test, "failed", _go_failure(told))
    if package.end == "fail" and not explained:
        add_result(run, _scope(folder, name), "TestMain", "failed", _go_failure(package.output[""]))


def _go_failure(lines: list[str]) -> Failure:
    lines = [line.rstrip() for line in lines if line.strip()]
    told = [line for line in lines if not _GO_NOISE.match(line)]
    reason = go_reason("\n".join(["=== RUN", *lines]))
    return Failure(message=reason or (told[0].strip() if told else ""), text="\n".join(told)[-_MAX_TEXT:])


# libtest


_ATTEMPT = re.compile(r"#\d+$")


def read_libtest(lines: Iterable[str], run: Run, folder: tuple[str, ...]) -> None:
    """Add the tests of libtest's JSON (`--format json`), which nextest writes as well, to a run.

    cargo's stream does not name the binaries: two tests of one name in different ones cannot be told apart.
    """
    for line in lines:
        event = _decode(line.strip()) if line.lstrip().startswith("{") else None
        if event is None or event.get("type") != "test" or not isinstance(event.get("name"), str):
            continue
        binary, mark, test = event["name"].rpartition("$")
        scope, name = _scope(folder, *([binary] if mark else [])), _ATTEMPT.sub("", test)
        match event.get("event"):
            case "ok":
                add_result(run, scope, name, "passed")
            case "ignored":
                add_result(run, scope, name, "skipped")
            case "failed" | "timeout":
                text = str(event.get("stdout") or event.get("message") or "")
                add_result(run, scope, name, "failed", _rust_failure(text, event))


def _rust_failure(text: str, event: dict[str, Any]) -> Failure:
    """Return the reason of a panic: the lines after its place, which names a thread and a process."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if told := rust_reason(text):
        return Failure(message=" ".join(told.split("\n")), text=text[-_MAX_TEXT:])
    reason = str(event.get("message") or event.get("reason") or "") or (
        "test timeout" if event["event"] == "timeout" else ""
    )
    return Failure(message=reason or (lines[0] if lines else ""), text=text[-_MAX_TEXT:])
