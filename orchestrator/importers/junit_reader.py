"""JUnit XML reports of test runners, parsed in bounded memory.

A report is untrusted input: one with a document type, and so with entities, is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Never
from xml.parsers import expat

from hardwon.errors import InvalidInput
from hardwon.text.truncation import escape_unstorable
from hardwon.validation import MAX_TEXT_BYTES

MAX_BYTES = 256 * 1024 * 1024
"""A report of more than a million tests is smaller."""
MAX_DEPTH = 50
"""Suites are nested, but not this deep."""
_CHUNK_BYTES = 64 * 1024
_FAILURE_ELEMENTS = {"failure", "error"}


@dataclass(slots=True, kw_only=True)
class Test:
    """A test of a report; if it is listed several times, it failed if any failed, and ran if any ran."""

    name: str
    file: str | None = None
    failed: bool = False
    ran: bool = False
    message: str = ""
    trace: str = ""


def read_report(file: Path, field_name: str) -> dict[str, Test]:
    """Return the tests of a report by name, in its order. Raises InvalidInput for `field_name`."""
    parser = _ReportParser(refuse=lambda reason: _refuse(field_name, file, reason))
    try:
        with file.open("rb") as stream:
            size = 0
            while chunk := stream.read(_CHUNK_BYTES):
                size += len(chunk)
                if size > MAX_BYTES:
                    _refuse(field_name, file, f"has more than the {MAX_BYTES:,} bytes allowed")
                parser.feed(chunk)
            parser.feed(b"", last=True)
    except OSError as error:
        raise InvalidInput(field_name, f"{file} cannot be read: {error.strerror}") from error
    except (expat.ExpatError, ValueError, LookupError) as error:  # the latter two: an encoding that expat cannot read
        raise InvalidInput(field_name, f"{file} is not XML: {error}") from error
    return parser.tests


def _refuse(field_name: str, file: Path, reason: str) -> Never:
    raise InvalidInput(field_name, f"{file} {reason}")


@dataclass(slots=True)
class _TextBuffer:
    """The text of an element: as much of both ends as can be stored, so that a later cut is visible."""

    first: list[str] = field(default_factory=list)
    last: deque[str] = field(default_factory=deque)
    room: int = MAX_TEXT_BYTES
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
        return "".join([*self.first, *self.last])


class _ReportParser:
    """An incremental parser of a report."""

    def __init__(self, refuse: Callable[[str], Never]) -> None:
        self.tests: dict[str, Test] = {}
        self._refuse = refuse
        self._path: list[str] = []
        self._test: Test | None = None
        self._skipped = False
        self._failed = False
        self._text: _TextBuffer | None = None
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.StartDoctypeDeclHandler = self._doctype

    def feed(self, chunk: bytes, *, last: bool = False) -> None:
        self._parser.Parse(chunk, last)

    def _doctype(self, *_: object) -> None:
        self._refuse("declares a document type, which is not allowed: test runners write none")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._path and name not in {"testsuites", "testsuite"}:
            self._refuse(f"is not a JUnit report: it begins with <{name[:100]}>, not <testsuites> or <testsuite>")
        if len(self._path) >= MAX_DEPTH:
            self._refuse(f"has elements more than {MAX_DEPTH} deep")
        parent = self._path[-1] if self._path else None
        self._path.append(name)
        if name == "testcase":
            test = _test_name(attributes)
            self._test = self.tests.setdefault(test, Test(name=test, file=attributes.get("file")))
            self._skipped = self._failed = False
        elif parent == "testcase" and self._test is not None:
            self._skipped = self._skipped or name == "skipped"
            if name in _FAILURE_ELEMENTS:
                self._failed = True
                if not self._test.message and not self._test.trace:
                    self._test.message = escape_unstorable(
                        attributes.get("message") or attributes.get("type") or ""
                    ).strip()
                    self._text = _TextBuffer()

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.add(text)

    def _end(self, name: str) -> None:
        self._path.pop()
        if self._test is None:
            return
        if name == "testcase":
            self._test.failed = self._test.failed or self._failed
            self._test.ran = self._test.ran or not self._skipped
            self._test = None
        elif name in _FAILURE_ELEMENTS and self._text is not None:
            self._test.trace = escape_unstorable(self._text.text()).strip()
            self._text = None


def _test_name(attributes: dict[str, str]) -> str:
    """Return the name of a test that is the same in all runs: its class or module, and its name."""
    parts = (attributes.get("classname") or attributes.get("file") or "", attributes.get("name") or "")
    return escape_unstorable("::".join(part for part in parts if part)) or "a test without a name"
