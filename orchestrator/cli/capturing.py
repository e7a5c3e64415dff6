"""Capture what a reader reads, batch after batch: the lines of a file, commits, findings."""

from __future__ import annotations

import threading
from asyncio import wrap_future
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from itertools import islice
from typing import TextIO, TypeVar

from knowledge.errors import InvalidInput
from knowledge.models import CaptureOutcome, CaptureResult, NewEntry
from knowledge.ports import Progress
from orchestrator.cli.reports.memory import CaptureReport
from orchestrator.entries import CapturesAll
from orchestrator.learn.jsonl import read_lines

Row = tuple[int, NewEntry | InvalidInput]
"""The number of a line, commit or finding, and its entry or what is wrong with it."""

BATCH = 200
MAX_LINE_CHARS = 4 * 1024 * 1024
"""No entry that can be stored is as long as this, however its text is escaped."""

_DONE = TypeVar("_DONE")


def read_file(file: str) -> Iterator[Row]:
    """Yield the lines of a file of entries that are not blank, one in memory at a time; `-` is standard input.

    Raises InvalidInput where the file cannot be read.
    """
    try:
        with closing(_open(file)) as lines:
            number = 0
            while line := lines.readline(MAX_LINE_CHARS):
                number += 1
                if len(line) == MAX_LINE_CHARS and not line.endswith("\n"):
                    while (more := lines.readline(MAX_LINE_CHARS)) and not more.endswith("\n"):
                        pass
                    yield number, InvalidInput("line", f"has more than {MAX_LINE_CHARS:,} characters")
                    continue
                for _, read in read_lines([line]):
                    yield number, read
    except OSError as error:
        raise InvalidInput(file, f"cannot be read: {error.strerror}") from error


def _open(file: str) -> TextIO:
    """Open for reading as UTF-8, whatever the locale; bytes that are not UTF-8 are refused with their line."""
    return open(
        0 if file == "-" else file,
        encoding="utf-8-sig",
        errors="surrogateescape",
        closefd=file != "-",
    )


async def read_batch(rows: Iterator[Row]) -> list[Row]:
    """Read the next rows, none at the end. In a thread: a silent pipe must hold up neither Ctrl-C nor other clients."""
    return await apart(lambda: list(islice(rows, BATCH)))


async def apart(work: Callable[[], _DONE]) -> _DONE:
    """Work in a daemon thread, which an exit does not wait for."""
    done: Future[_DONE] = Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is awaited
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await wrap_future(done)


async def capture_rows_of(
    capture: CapturesAll,
    batch: list[Row],
    rows: Iterator[Row],
    report: CaptureReport,
    progress: Progress | None,
) -> None:
    """Capture a batch and all that follows it, and note the answers. What is refused does not stop the rest."""
    while batch:
        stored = iter(await capture.capture_all([entry for _, entry in batch if isinstance(entry, NewEntry)]))
        for number, entry in batch:
            report.add(number, next(stored) if isinstance(entry, NewEntry) else _refused(entry))
        if progress:
            progress(report.read, None)
        batch = await read_batch(rows)


def _refused(error: InvalidInput) -> CaptureResult:
    return CaptureResult(outcome=CaptureOutcome.REFUSED, field=error.field, error=error.reason)
