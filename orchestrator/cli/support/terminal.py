"""Output of commands: results on standard output; progress, notes and errors for people on standard error."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

from hardwon.context.sanitize import sanitize
from orchestrator.observability.progress import Stages

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as ProgressBars

    from hardwon.models.reports import Progress

_SECONDS_BETWEEN_LINES = 5.0


class Printer:
    """Prints lines; in colour on a terminal, which rich is loaded for at the first line that has any."""

    def __init__(self, *, stderr: bool = False) -> None:
        self._stderr = stderr

    @property
    def is_terminal(self) -> bool:
        """True unless the output goes to a file or another program."""
        return (sys.stderr if self._stderr else sys.stdout).isatty() or bool(os.environ.get("FORCE_COLOR"))

    @cached_property
    def console(self) -> Console:
        """Rich's console for this output."""
        from rich.console import Console

        return Console(stderr=self._stderr, highlight=False)

    def print(self, text: str = "", *, style: str | None = None) -> None:
        """Print a text as it is: stored text is never parsed as markup."""
        if style is not None and self.is_terminal:
            self.console.print(text, style=style, markup=False)
        else:
            (sys.stderr if self._stderr else sys.stdout).write(f"{text}\n")


out = Printer()
notes = Printer(stderr=True)


def _to_plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def json_line(value: object, *, indent: int | None = None) -> str:
    """Return a value as JSON that standard output can encode."""
    unicode = sys.stdout.encoding.lower().replace("-", "") == "utf8"
    return json.dumps(value, default=_to_plain, ensure_ascii=not unicode, indent=indent)


_extra_json: ContextVar[Mapping[str, object] | None] = ContextVar("extra_json", default=None)


def add_to_json(**fields: object) -> None:
    """Add fields to the JSON document of the running command."""
    _extra_json.set({**(_extra_json.get() or {}), **fields})


def print_json(value: object) -> None:
    """Print one JSON document and nothing else."""
    if extra := _extra_json.get():
        fields = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
        value = {**fields, **extra} if isinstance(fields, dict) else value
    sys.stdout.write(json_line(value, indent=2) + "\n")


def print_json_with_list(value: dict[str, Any], name: str, items: Iterable[str]) -> None:
    """Print an object as one JSON document with a list whose items are lines of JSON, streamed one at a time."""
    sys.stdout.write(json_line(value, indent=2).removesuffix("\n}") + f',\n  "{name}": [')
    between = "\n    "
    for item in items:
        sys.stdout.write(between + item.removesuffix("\n"))
        between = ",\n    "
    sys.stdout.write("\n  ]\n}\n")


def print_text(text: str) -> None:
    """Print a text as it is: stored text is never parsed as markup."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def note_more(shown: Sized, most: int | None, *, as_json: bool) -> None:
    """Note on standard error that a list was cut and may have more."""
    if len(shown) == most and not as_json:
        notes.print(f"the first {most:,}: --limit shows more, --all all of them")


def print_pairs(title: str, pairs: dict[str, Any]) -> None:
    """Print names and values in two columns."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for name, value in pairs.items():
        table.add_row(name, "-" if value is None else _format_cell(value))
    out.console.print(table)


def format_time(moment: datetime) -> str:
    """Return a time as it is printed everywhere: to the minute, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def one_line(text: str, most: int = 100) -> str:
    """Return the beginning of a stored text on one line, without control characters."""
    line = " ".join(sanitize(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _format_cell(value: object) -> str:
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {number}" for name, number in value.items()) or "none"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


class _Line(Stages):
    """Stages on a terminal: one line that moves, with a bar for the stage that goes on."""

    def __init__(self, bars: ProgressBars) -> None:
        self._bars = bars
        self._task = bars.add_task("", total=None, visible=False)

    def stage(self, name: str) -> Progress:
        self._bars.reset(self._task, description=name, total=None, visible=True)

        def report(done: int, total: int | None) -> None:
            self._bars.update(self._task, completed=done, total=total)

        return report


class _Lines(Stages):
    """Stages where standard error is a file: a line at the beginning of each, and where they last a line now and then.

    Such a line comes after a tenth, not sooner than `_SECONDS_BETWEEN_LINES` after the last.
    """

    def stage(self, name: str) -> Progress:
        notes.print(name)
        tenths, noted = 0, time.monotonic()

        def report(done: int, total: int | None) -> None:
            nonlocal tenths, noted
            if not total or done * 10 // total <= tenths:
                return
            tenths = done * 10 // total
            if (now := time.monotonic()) - noted >= _SECONDS_BETWEEN_LINES:
                noted = now
                notes.print(f"  {done:,} of {total:,}")

        return report


@contextmanager
def stages(*, quiet: bool) -> Iterator[Stages]:
    """Yield a reporter of stages for a block; it prints to standard error unless `quiet`."""
    if quiet:
        yield Stages()
        return
    if not notes.is_terminal:
        yield _Lines()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as ProgressBars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with ProgressBars(
        *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=notes.console, transient=True
    ) as bars:
        yield _Line(bars)
