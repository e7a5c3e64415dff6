"""Logging of commands that are clients: sentences on a terminal, else JSON lines, without the libraries of a server."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime

from hardwon.errors import InvalidSetting

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_OF_CLIENTS = frozenset(
    {"HARDWON_API_KEY", "HARDWON_API_URL", "HARDWON_HOME", "HARDWON_LOG_LEVEL", "HARDWON_QUERY_DEADLINE_MS"}
)
"""Settings that are known without a look at the list of all, which takes a tenth of a second to load."""


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line of JSON."""
        line = {
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
        }
        return json.dumps(line)


class _SentenceFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a sentence; the fields of an event follow its name, as `EventLog` writes them."""
        from orchestrator.observability.log_sentence import format_log_sentence  # help texts need none

        event, _, fields = record.getMessage().partition(" ")
        sentence = format_log_sentence(event, record.levelname.lower(), {})
        return f"{sentence} ({fields})" if fields else sentence


def configure_client_logs() -> None:
    """Log from HARDWON_LOG_LEVEL (WARNING) on, and warn of variables that are not settings.

    Raises InvalidSetting for a level that does not exist.
    """
    name = (os.environ.get("HARDWON_LOG_LEVEL", "").strip() or "WARNING").upper()
    if name not in LEVELS:
        raise InvalidSetting("HARDWON_LOG_LEVEL", f"must be one of {', '.join(LEVELS)}, not {name!r}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_SentenceFormatter() if sys.stderr.isatty() else _JsonFormatter())
    ours = logging.getLogger("hardwon")
    ours.setLevel(name)
    ours.addHandler(handler)
    ours.propagate = False
    if any(variable.startswith("HARDWON_") and variable not in _OF_CLIENTS for variable in os.environ):
        from orchestrator.observability.logging import warn_of_unknown_settings

        warn_of_unknown_settings()
