"""Run ids: attempts are numbered anew each day, so that an id that comes again on another day is of another run."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from hardwon.validation import MAX_CHARS

_DAY = re.compile(r"@\d{4}-\d\d-\d\d")
_PREFIX_CHARS = MAX_CHARS["run_id"] - len("@2026-01-16")
_REPLAY = timedelta(hours=1)
"""Time after which the same run id on another day is another run; ours."""


def is_same_day(earlier: datetime, later: datetime) -> bool:
    """Return whether two times are of one day (UTC), or a moment apart: events are repeated at midnight."""
    return earlier.date() == later.date() or later - earlier < _REPLAY


def run_of_day(run_id: str, day: datetime) -> str:
    """Return the id of a run whose own id was used on another day."""
    return f"{run_id[:_PREFIX_CHARS]}@{day.date().isoformat()}"


def is_of_attempt(stored: str | None, run_id: str | None) -> bool:
    """Return whether a stored run is one of this id, on any day; without an id, none."""
    if run_id is None or stored is None:
        return stored is run_id
    return stored == run_id or bool(_DAY.fullmatch(stored.removeprefix(run_id[:_PREFIX_CHARS])))
