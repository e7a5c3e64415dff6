"""Logging of our entry points: events with ids, one JSON line each, on standard error. Libraries configure nothing."""

from __future__ import annotations

import logging
import os
import sys

import structlog


def configure_logs(*, level: int | None = None) -> None:
    """Log to standard error from `level` on; HARDWON_LOG_LEVEL (WARNING) where none is given."""
    named = logging.getLevelNamesMapping().get(os.environ.get("HARDWON_LOG_LEVEL", "WARNING").upper(), logging.WARNING)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.dict_tracebacks,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(named if level is None else level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
