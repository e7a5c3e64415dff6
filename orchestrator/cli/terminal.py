"""What the commands print: results on standard output, people's extras (progress, notes, errors) on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBars
from rich.table import Table

from orchestrator.progress import Stages

if TYPE_CHECKING:
    from knowledge.ports import Progress

out = Console(highlight=False, soft_wrap=True)
notes = Console(stderr=True, highlight=False, soft_wrap=True)


def _plain(value: object) -> object:
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
    """Return a value as JSON that standard output can show."""
    unicode = sys.stdout.encoding.lower().replace("-", "") == "utf8"
    return json.dumps(value, default=_plain, ensure_ascii=not unicode, indent=indent)


_also: ContextVar[Mapping[str, object] | None] = ContextVar("also_in_json", default=None)


def also_in_json(**told: object) -> None:
    """Have the JSON document of the command that runs say something beside what it came to."""
    _also.set({**(_also.get() or {}), **told})


def print_json(value: object) -> None:
    """Print one JSON document and nothing else."""
    if also := _also.get():
        told = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
        value = {**told, **also} if isinstance(told, dict) else value
    sys.stdout.write(json_line(value, indent=2) + "\n")


def print_json_with_list(value: dict[str, Any], name: str, items: Iterable[str]) -> None:
    """Print an object as one JSON document with a list in it whose items are lines of JSON, one at a time."""
    sys.stdout.write(json_line(value, indent=2).removesuffix("\n}") + f',\n  "{name}": [')
    between = "\n    "
    for item in items:
        sys.stdout.write(between + item.removesuffix("\n"))
        between = ",\n    "
    sys.stdout.write("\n  ]\n}\n")


def print_text(text: str) -> None:
    """Print a text as it is: stored text is never read as markup."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def note_more(shown: Sized, most: int | None, *, as_json: bool) -> None:
    """Tell a person, on standard error, that a list may go on where it was cut."""
    if len(shown) == most and not as_json:
        notes.print(f"the first {most:,}: --limit shows more, --all all of them", markup=False)


def print_pairs(title: str, pairs: dict[str, Any]) -> None:
    """Print names and values in two columns."""
    table = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for name, value in pairs.items():
        table.add_row(name, "-" if value is None else _cell(value))
    out.print(table)


def told_moment(moment: datetime) -> str:
    """Return a moment as all of what is printed has it: to the minute, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return told_moment(value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {number}" for name, number in value.items()) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


class _Bars(Stages):
    """Stages where somebody watches: a bar each."""

    def __init__(self, bars: ProgressBars) -> None:
        self._bars = bars

    def stage(self, name: str) -> Progress:
        bars = self._bars
        for task in bars.tasks:
            bars.update(task.id, total=task.total or 1, completed=task.total or 1)
        current = bars.add_task(name, total=None)

        def report(done: int, total: int | None) -> None:
            bars.update(current, completed=done, total=total)

        return report


class _Lines(Stages):
    """Stages where standard error is a file: a line at the beginning of each and one every tenth part."""

    def stage(self, name: str) -> Progress:
        notes.print(name, markup=False)
        told = 0

        def report(done: int, total: int | None) -> None:
            nonlocal told
            if total and total > 1 and done * 10 // total > told:
                told = done * 10 // total
                notes.print(f"  {done:,} of {total:,}", markup=False)

        return report


@contextmanager
def stages(*, quiet: bool) -> Iterator[Stages]:
    """Show the stages of a block on standard error."""
    if quiet:
        yield Stages()
        return
    if not notes.is_terminal:
        yield _Lines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with ProgressBars(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=notes) as bars:
        shown = _Bars(bars)
        yield shown
        shown.stage("done")
        bars.remove_task(bars.tasks[-1].id)
