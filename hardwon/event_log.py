"""Log events, in the past tense and with ids, to the logging that the program has configured."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass

_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR, "exception": logging.ERROR}


@dataclass(frozen=True, slots=True)
class EventLog:
    """Logger of events: to structlog where that is configured, else to `logging` under the same name.

    A program that configured neither sees nothing; structlog alone would print to standard output.
    """

    name: str

    def info(self, event: str, **ids: object) -> None:
        """Log an expected event."""
        self._log("info", event, ids)

    def warning(self, event: str, **ids: object) -> None:
        """Log degraded work."""
        self._log("warning", event, ids)

    def error(self, event: str, **ids: object) -> None:
        """Log a failure."""
        self._log("error", event, ids)

    def exception(self, event: str, **ids: object) -> None:
        """Log a failure with the traceback of the exception being handled."""
        self._log("exception", event, ids)

    def _log(self, method: str, event: str, ids: dict[str, object]) -> None:
        structlog = sys.modules.get("structlog")  # a program that configured it has imported it
        if structlog is not None and structlog.is_configured():
            # looked up each time: a program may configure it after us, and again
            getattr(structlog.get_logger(self.name), method)(event, **ids)
            return
        logger = logging.getLogger(self.name)
        if not logger.isEnabledFor(_LEVELS[method]):
            return
        # repr: a line break in a value must not begin a line of the log
        message = " ".join([event, *(f"{name}={value!r}" for name, value in ids.items())])
        getattr(logger, method)("%s", message, stacklevel=3)


def get_logger(name: str) -> EventLog:
    """Return the logger of a module, quiet unless the program logs."""
    logging.getLogger(name).addHandler(logging.NullHandler())  # else logging prints warnings to standard error itself
    return EventLog(name)
