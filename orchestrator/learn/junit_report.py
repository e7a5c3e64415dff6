"""JUnit XML reports, as test runners write them, read test by test in bounded memory.

A report comes from where tests ran, so nothing in it is trusted: no document type, and so no entity, is taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Never
from xml.parsers import expat

from knowledge.errors import InvalidInput
from knowledge.memory.limits import MAX_TEXT_BYTES
from orchestrator.learn.fields import storable

MAX_BYTES = 256 * 1024 * 1024
"""A report of more than a million tests has less."""
MAX_DEPTH = 50
"""Suites stand in suites, but not so deep."""
_PIECE = 64 * 1024
_FAILED = {"failure", "error"}


@dataclass(slots=True, kw_only=True)
class Test:
    """A test of a report; one that is told of several times failed if it failed once, and ran if it ran once."""

    name: str
    file: str | None = None
    failed: bool = False
    ran: bool = False
    message: str = ""
    trace: str = ""


def read_report(file: Path, field_name: str) -> dict[str, Test]:
    """Return the tests of a report by their names, in its order. Raises InvalidInput for `field_name`."""
    reading = _Reading(wrong=lambda reason: _refuse(field_name, file, reason))
    try:
        with file.open("rb") as stream:
            size = 0
            while piece := stream.read(_PIECE):
                size += len(piece)
                if size > MAX_BYTES:
                    _refuse(field_name, file, f"has more than the {MAX_BYTES:,} bytes allowed")
                reading.feed(piece)
            reading.feed(b"", last=True)
    except OSError as error:
        raise InvalidInput(field_name, f"{file} cannot be read: {error.strerror}") from error
    except (expat.ExpatError, ValueError, LookupError) as error:  # the latter two: an encoding that expat cannot read
        raise InvalidInput(field_name, f"{file} is no XML: {error}") from error
    return reading.tests


def _refuse(field_name: str, file: Path, reason: str) -> Never:
    raise InvalidInput(field_name, f"{file} {reason}")


@dataclass(slots=True)
class _Texts:
    """What is kept of the text of an element: of either end as much as can be stored, so that it shows what was cut."""

    first: list[str] = field(default_factory=list)
    last: deque[str] = field(default_factory=deque)
    room: int = MAX_TEXT_BYTES
    held: int = 0

    def add(self, text: str) -> None:
        if self.room > 0:
            self.first.append(text)
            self.room -= len(text)
            return
        self.last.append(text)
        self.held += len(text)
        while self.held - len(self.last[0]) >= MAX_TEXT_BYTES:
            self.held -= len(self.last.popleft())

    def joined(self) -> str:
        return "".join([*self.first, *self.last])


class _Reading:
    """The state of a parser between two pieces of a report."""

    def __init__(self, wrong: Callable[[str], Never]) -> None:
        self.tests: dict[str, Test] = {}
        self._wrong = wrong
        self._path: list[str] = []
        self._test: Test | None = None
        self._skipped = False
        self._failed = False
        self._text: _Texts | None = None
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.StartDoctypeDeclHandler = self._doctype

    def feed(self, piece: bytes, *, last: bool = False) -> None:
        self._parser.Parse(piece, last)

    def _doctype(self, *_: object) -> None:
        self._wrong("declares a document type, which no test runner writes: it is not read")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._path and name not in {"testsuites", "testsuite"}:
            self._wrong(f"is no JUnit report: it begins with <{name[:100]}>, not <testsuites> or <testsuite>")
        if len(self._path) >= MAX_DEPTH:
            self._wrong(f"has elements more than {MAX_DEPTH} deep")
        inside = self._path[-1] if self._path else None
        self._path.append(name)
        if name == "testcase":
            told = _name(attributes)
            self._test = self.tests.setdefault(told, Test(name=told, file=attributes.get("file")))
            self._skipped = self._failed = False
        elif inside == "testcase" and self._test is not None:
            self._skipped = self._skipped or name == "skipped"
            if name in _FAILED:
                self._failed = True
                if not self._test.message and not self._test.trace:
                    self._test.message = storable(attributes.get("message") or attributes.get("type") or "").strip()
                    self._text = _Texts()

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
        elif name in _FAILED and self._text is not None:
            self._test.trace = storable(self._text.joined()).strip()
            self._text = None


def _name(attributes: dict[str, str]) -> str:
    """Return what a test is called from run to run: its class or module, and its name."""
    parts = (attributes.get("classname") or attributes.get("file") or "", attributes.get("name") or "")
    return storable("::".join(part for part in parts if part)) or "a test without a name"
