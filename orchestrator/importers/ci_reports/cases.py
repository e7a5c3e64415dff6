"""Test cases of a run, grouped by their scope: suite, host, folder, file and class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Scope(NamedTuple):
    """Everything that identifies a test besides its name. `suites` has no times and no suite that repeats the class."""

    host: str
    folder: tuple[str, ...]
    basedir: str
    suites: tuple[str, ...]
    file: str
    classname: str


@dataclass(slots=True, kw_only=True)
class Failure:
    """The words of one failure: `kind` is its type, `out` and `err` what the test printed."""

    message: str = ""
    kind: str = ""
    text: str = ""
    out: str = ""
    err: str = ""


@dataclass(slots=True)
class Tally:
    """Number of tests of one identity that passed, failed, were skipped. `flaky`: one passed after a failed attempt."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    flaky: bool = False
    last_failed: bool = False
    failures: list[Failure] = field(default_factory=list)

    def merge(self, other: Tally | int) -> None:
        """Add the counts of another tally; a number stands for so many passes."""
        if isinstance(other, int):
            self.passed += other
            return
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.flaky |= other.flaky
        self.failures += other.failures


Names = dict[str, Tally | int]
"""Tallies by name; a number stands for a test that only passed, so many times: most of a large report."""


@dataclass(slots=True)
class Run:
    """The tests of one run, of all its files. `unread` has a sentence for each file that could not be read."""

    scopes: dict[Scope, Names] = field(default_factory=dict)
    paths: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    case_count: int = 0
    unread: list[str] = field(default_factory=list)
    other_files: int = 0

    def failed_tests(self) -> Iterator[tuple[Scope, str, Tally]]:
        """Yield the tests that failed, in the order of the report."""
        for scope, names in self.scopes.items():
            told = [(name, tally) for name, tally in names.items() if not isinstance(tally, int)]
            yield from ((scope, name, tally) for name, tally in told if tally.failed)


def as_tally(value: Tally | int) -> Tally:
    """Return the tally that a number of passes stands for."""
    return Tally(passed=value) if isinstance(value, int) else value
