"""Events of the log as sentences, for a person who watches a terminal; programs and files get JSON lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

_EVENT = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")
"""The name of an event of ours; anything else is the message of a library."""
_TRACEBACK = "exception"
_TIMESTAMP = "timestamp"


def format_log_sentence(event: str, level: str, fields: Mapping[str, object]) -> str:
    """Return an event as one line: time, level, what happened, and its fields that are known.

    A traceback follows on its own lines.
    """
    shown = {
        name: value for name, value in fields.items() if value is not None and name not in {_TRACEBACK, _TIMESTAMP}
    }
    details = ", ".join(f"{name.replace('_', ' ')} {_printable(value)}" for name, value in shown.items())
    what = event.replace("_", " ") if _EVENT.fullmatch(event) else _printable(event)
    line = f"{_clock(fields.get(_TIMESTAMP))}{level}: {what}{f' ({details})' if details else ''}"
    return f"{line}\n{fields[_TRACEBACK]}" if fields.get(_TRACEBACK) else line


def _printable(value: object) -> str:
    """Return a value as text; escaped where it holds what would move a terminal's cursor or begin a line."""
    text = str(value)
    return text if text.isprintable() else repr(text)


def _clock(timestamp: object) -> str:
    """Return the local time of day of an ISO timestamp, and nothing without one."""
    if not isinstance(timestamp, str):
        return ""
    return f"{datetime.fromisoformat(timestamp).astimezone():%H:%M:%S} "
