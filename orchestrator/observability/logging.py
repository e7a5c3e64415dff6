"""Logging of our entry points: events with ids on standard error, as JSON lines or, on a terminal, as sentences.

Only they configure logging.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
from typing import TextIO, cast

import structlog
from structlog.tracebacks import ExceptionDictTransformer

from hardwon.errors import InvalidSetting
from knowledge.settings import removed_variables, unknown_variables
from orchestrator.observability.log_sentence import format_log_sentence

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class _StandardError(io.TextIOBase):
    """The current standard error: a program may replace the stream and close the old one.

    If a write fails (a full disk, a reader that left) the line is lost, and the work goes on.
    """

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            return sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()


def configure_logs(*, level: int | None = None) -> None:
    """Log to standard error from `level` on; by default from HARDWON_LOG_LEVEL (WARNING) on.

    A terminal gets sentences, anything else JSON lines. Libraries log the same way. Raises InvalidSetting for a level
    that does not exist.
    """
    name = (os.environ.get("HARDWON_LOG_LEVEL", "").strip() or "WARNING").upper()
    if name not in _LEVELS:
        raise InvalidSetting("HARDWON_LOG_LEVEL", f"must be one of {', '.join(_LEVELS)}, not {name!r}")
    lowest = logging.getLevelNamesMapping()[name] if level is None else level
    common: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # local variables hold what callers sent (entries, questions, keys): neither form of a traceback shows them
    to_line: list[structlog.typing.Processor] = (
        [structlog.processors.format_exc_info, _render_sentence]
        if sys.stderr.isatty()
        else [
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
            structlog.processors.JSONRenderer(),
        ]
    )
    structlog.configure(
        processors=[*common, *to_line],
        wrapper_class=structlog.make_filtering_bound_logger(lowest),
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, _StandardError())),
    )
    handler = logging.StreamHandler(_StandardError())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=common,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *to_line],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(lowest, logging.WARNING), force=True)


def _render_sentence(_logger: object, _method: str, event: structlog.typing.EventDict) -> str:
    """Render an event for a person; the last of structlog's processors."""
    fields = {name: value for name, value in event.items() if name not in {"event", "level"}}
    return format_log_sentence(str(event.get("event", "")), str(event.get("level", "info")), fields)


def warn_of_unknown_settings() -> None:
    """Warn on standard error of HARDWON_ variables that are not settings: a typing mistake would go unnoticed."""
    for name, nearest in unknown_variables(os.environ).items():
        hint = f"did you mean {nearest}?" if nearest else "the documentation lists them all"
        sys.stderr.write(f"warning: {name} is not a setting of hardwon: {hint}\n")
    for name, instead in removed_variables(os.environ).items():
        sys.stderr.write(f"warning: {name} is no longer a setting, and changes nothing: {instead}\n")
