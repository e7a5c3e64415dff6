"""What this library logs: events in the past tense, with ids, to whatever logging the program has set up."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass

_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR, "exception": logging.ERROR}


@dataclass(frozen=True, slots=True)
class EventLog:
    """A logger of events. Where structlog is configured they go there, else to `logging` under the same name.

    A program that set up neither sees nothing: without this, structlog would print to its standard output.
    """

    name: str

    def info(self, event: str, **ids: object) -> None:
        """Log what is as it should be."""
        self._log("info", event, ids)

    def warning(self, event: str, **ids: object) -> None:
        """Log what went on with less than it should have."""
        self._log("warning", event, ids)

    def error(self, event: str, **ids: object) -> None:
        """Log what failed."""
        self._log("error", event, ids)

    def exception(self, event: str, **ids: object) -> None:
        """Log what failed, with the trace of the error that is being dealt with."""
        self._log("exception", event, ids)

    def _log(self, method: str, event: str, ids: dict[str, object]) -> None:
        structlog = sys.modules.get("structlog")  # a program that set it up has loaded it
        if structlog is not None and structlog.is_configured():
            # looked up each time: a program may configure it after us, and again
            getattr(structlog.get_logger(self.name), method)(event, **ids)
            return
        logger = logging.getLogger(self.name)
        if not logger.isEnabledFor(_LEVELS[method]):
            return
        # repr: a line break in a value must not begin a line of the log
        told = " ".join([event, *(f"{name}={value!r}" for name, value in ids.items())])
        getattr(logger, method)("%s", told, stacklevel=3)


def get_logger(name: str) -> EventLog:
    """Return the logger of a module, quiet unless the program logs."""
    logging.getLogger(name).addHandler(logging.NullHandler())  # else logging prints warnings to standard error itself
    return EventLog(name)
