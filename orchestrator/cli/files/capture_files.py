"""Capture of the entries of an importer in batches: the lines of a file, commits, findings."""

from __future__ import annotations

import threading
from asyncio import wrap_future
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from itertools import islice
from typing import TextIO, TypeVar

from hardwon.errors import InvalidInput
from hardwon.models.entries import CaptureOutcome, CaptureResult, NewEntry
from hardwon.models.reports import Progress
from orchestrator.cli.reports.memory_report import CaptureReport
from orchestrator.entries import BatchCapture
from orchestrator.importers.jsonl import read_lines

Row = tuple[int, NewEntry | InvalidInput]
"""The number of a line, commit or finding, and its entry or an error."""

BATCH = 200
MAX_LINE_CHARS = 4 * 1024 * 1024
"""Longer than any entry that can be stored, however its text is escaped."""

_Result = TypeVar("_Result")


def read_file(file: str) -> Iterator[Row]:
    """Yield the non-blank lines of a file of entries, with one in memory at a time; `-` is standard input.

    Raises InvalidInput if the file cannot be read.
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
                for _, entry in read_lines([line]):
                    yield number, entry
    except OSError as error:
        raise InvalidInput(file, f"cannot be read: {error.strerror}") from error


def _open(file: str) -> TextIO:
    """Open for reading as UTF-8 in any locale; a line with bytes that are not UTF-8 is refused later."""
    return open(
        0 if file == "-" else file,
        encoding="utf-8-sig",
        errors="surrogateescape",
        closefd=file != "-",
    )


async def read_batch(rows: Iterator[Row]) -> list[Row]:
    """Read the next rows, none at the end. In a thread: a silent pipe must block neither Ctrl-C nor other clients."""
    return await run_in_daemon_thread(lambda: list(islice(rows, BATCH)))


async def run_in_daemon_thread(work: Callable[[], _Result]) -> _Result:
    """Run work in a daemon thread, which does not delay the exit of the process."""
    done: Future[_Result] = Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is awaited
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await wrap_future(done)


async def capture_batches(
    capture: BatchCapture,
    batch: list[Row],
    rows: Iterator[Row],
    report: CaptureReport,
    progress: Progress | None,
) -> None:
    """Capture a batch and all that follow; add the answers to the report. A refused entry does not stop the rest."""
    while batch:
        stored = iter(await capture.capture_all([entry for _, entry in batch if isinstance(entry, NewEntry)]))
        for number, entry in batch:
            report.add(number, next(stored) if isinstance(entry, NewEntry) else _refusal(entry))
        if progress:
            progress(report.read, None)
        batch = await read_batch(rows)


def _refusal(error: InvalidInput) -> CaptureResult:
    return CaptureResult(outcome=CaptureOutcome.REFUSED, field=error.field, error=error.reason)
