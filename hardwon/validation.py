"""Validate values from outside: ids, texts, flags, numbers, durations."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta
from numbers import Real
from operator import index
from typing import SupportsIndex
from uuid import UUID

from hardwon.errors import InvalidInput

_SURROGATE = re.compile("[\ud800-\udfff]")


def kind_of(value: object) -> str:
    """Return the kind of a value in the words of JSON, for messages: callers of a server know no Python."""
    for kinds, name in _KINDS:
        if isinstance(value, kinds):
            return name
    return "an object" if is_dataclass(value) else "a value of another kind"


_KINDS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((type(None),), "null"),
    ((bool,), "true or false"),
    ((Real,), "a number"),
    ((str,), "a text"),
    ((bytes, bytearray), "bytes"),
    ((UUID,), "an id"),
    ((datetime, date, time), "a time"),
    ((timedelta,), "a duration"),
    ((Mapping,), "an object"),
    ((Collection,), "a list"),
)


def check_characters(field: str, text: str) -> None:
    """Raise InvalidInput, naming the field, for a text with NUL or a lone surrogate."""
    if "\0" in text:
        raise InvalidInput(field, "holds a NUL character, which Postgres cannot store")
    check_unicode(field, text)


def check_unicode(field: str, text: str) -> None:
    """Raise InvalidInput, naming the field, for a lone surrogate, which cannot be encoded."""
    if _SURROGATE.search(text):
        raise InvalidInput(field, "holds a lone surrogate, which is not valid Unicode")


MAX_DURATION = timedelta(days=36_500)


NOT_AN_ID = "must be an id (a UUID), not another text"


def as_id(field: str, value: object) -> UUID:
    """Return a UUID from a UUID or its text. Raises InvalidInput, naming the field."""
    if isinstance(value, UUID):
        return value
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be an id (a UUID), not {kind_of(value)}")
    try:
        return UUID(value)
    except ValueError:
        raise InvalidInput(field, NOT_AN_ID) from None


def check_texts(**values: object) -> None:
    """Raise InvalidInput, naming the field, for a value that is neither a text nor None."""
    for field, value in values.items():
        if value is not None and not isinstance(value, str):
            raise InvalidInput(field, f"must be a text, not {kind_of(value)}")


def check_flag(field: str, value: object) -> None:
    """Raise InvalidInput, naming the field, unless the value is true or false."""
    if not isinstance(value, bool):
        raise InvalidInput(field, f"must be true or false, not {kind_of(value)}")


def as_integer(field: str, value: object, *, least: int, most: int) -> int:
    """Return an int, from numpy's integers too. Raises InvalidInput, naming the field, outside these bounds."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise InvalidInput(field, f"must be a whole number, not {kind_of(value)}")
    try:
        number = index(value)
    except TypeError:  # numpy's arrays and flags
        raise InvalidInput(field, f"must be a whole number, not {kind_of(value)}") from None
    if not least <= number <= most:
        raise InvalidInput(field, f"must be {least} to {most}, not {number}")
    return number


def check_duration(field: str, span: object, *, least: timedelta) -> None:
    """Raise InvalidInput, naming the field, unless it is a timedelta from `least` to a hundred years."""
    if not isinstance(span, timedelta):
        raise InvalidInput(field, f"must be a duration (timedelta), not {kind_of(span)}")
    if not least <= span <= MAX_DURATION:
        raise InvalidInput(field, f"must be {'positive' if least else '0 or more'} and at most 100 years")


def as_relevance(field: str, value: object) -> float:
    """Return a float from 0 to 1, from numpy's numbers too. Raises InvalidInput, naming the field."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidInput(field, f"must be a number, not {kind_of(value)}")
    if value < 0 or not value <= 1:  # NaN is neither
        raise InvalidInput(field, f"must be 0 to 1, not {value}")
    return float(value)


MAX_TEXT_BYTES = 64 * 1024
"""A text field holds at most this many bytes of UTF-8."""
MAX_CHARS = {
    "project_id": 200,
    "workspace": 200,
    "agent_type": 100,
    "task_type": 100,
    "technology": 100,
    "gate_type": 50,
    "verified_by": 500,
    "task_id": 200,
    "run_id": 200,
    "idempotency_key": 200,
    "revision": 100,
    "query_prefix": 200,
    "document_prefix": 200,
}
"""Maximum number of characters of some fields."""


def check_text(field: str, value: object) -> None:
    """Raise InvalidInput, naming the field, unless the value is text: not blank, without NUL, not too long."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be a text, not {kind_of(value)}")
    if not value.strip():
        raise InvalidInput(field, "is empty or blank")
    check_characters(field, value)
    max_chars = MAX_CHARS.get(field)
    if max_chars is not None and len(value) > max_chars:
        raise InvalidInput(field, f"has {len(value)} characters, more than the {max_chars} allowed")
    if max_chars is None and len(value) > MAX_TEXT_BYTES // 4 and (size := len(value.encode())) > MAX_TEXT_BYTES:
        raise InvalidInput(field, f"has {size:,} bytes, more than the {MAX_TEXT_BYTES:,} (64 KiB) allowed")
