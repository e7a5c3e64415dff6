"""Logging of our entry points: events with ids, one JSON line each, on standard error. Libraries configure nothing."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
from collections.abc import Iterator
from typing import TextIO, cast

import structlog
from structlog.tracebacks import ExceptionDictTransformer

from knowledge.errors import InvalidSetting
from knowledge.settings import removed_variables, unknown_variables

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class _StandardError(io.TextIOBase):
    """Whatever standard error is at the time: a program may put another stream in its place, and close the old one.

    Where nothing can be written (a full disk, a reader that left) the line is lost, and the work goes on.
    """

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            return sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()


def configure_logs(*, level: int | None = None) -> None:
    """Log to standard error from `level` on; HARDWON_LOG_LEVEL (WARNING) where none is given.

    What libraries log goes the same way. Raises InvalidSetting for a level that does not exist.
    """
    named = (os.environ.get("HARDWON_LOG_LEVEL", "").strip() or "WARNING").upper()
    if named not in _LEVELS:
        raise InvalidSetting("HARDWON_LOG_LEVEL", f"must be one of {', '.join(_LEVELS)}, not {named!r}")
    lowest = logging.getLevelNamesMapping()[named] if level is None else level
    usual: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    to_json: list[structlog.typing.Processor] = [
        # what a function had in hand is what a caller sent: entries, questions, keys
        structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
        structlog.processors.JSONRenderer(),
    ]
    structlog.configure(
        processors=[*usual, *to_json],
        wrapper_class=structlog.make_filtering_bound_logger(lowest),
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, _StandardError())),
    )
    of_libraries = logging.StreamHandler(_StandardError())
    of_libraries.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=usual,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *to_json],
        )
    )
    logging.basicConfig(handlers=[of_libraries], level=max(lowest, logging.WARNING), force=True)


@contextlib.contextmanager
def left_out(event: str) -> Iterator[None]:
    """Log no such event for a block, whose caller tells of it: a person would read it twice, once as JSON."""
    processors = structlog.get_config()["processors"]

    def leave_out(_: object, __: str, told: structlog.typing.EventDict) -> structlog.typing.EventDict:
        if told["event"] == event:
            raise structlog.DropEvent
        return told

    processors.insert(0, leave_out)  # in place: a logger that was used before has this very list
    try:
        yield
    finally:
        processors.remove(leave_out)


def warn_of_unknown_settings() -> None:
    """Say on standard error which HARDWON_ variables nobody reads: a typing mistake would pass for a setting."""
    for name, nearest in unknown_variables(os.environ).items():
        hint = f"did you mean {nearest}?" if nearest else "docs/settings.md lists them all"
        sys.stderr.write(f"warning: {name} is no setting of hardwon: {hint}\n")
    for name, instead in removed_variables(os.environ).items():
        sys.stderr.write(f"warning: {name} is no longer a setting, and changes nothing: {instead}\n")
