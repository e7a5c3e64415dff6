"""Validate values from outside: ids, texts, flags, numbers, durations."""

from __future__ import annotations

from datetime import timedelta
from numbers import Real
from operator import index
from typing import SupportsIndex
from uuid import UUID

from knowledge.errors import InvalidInput

MAX_DURATION = timedelta(days=36_500)


def as_id(field: str, value: object) -> UUID:
    """Return a UUID from a UUID or its text. Raises InvalidInput, naming the field."""
    if isinstance(value, UUID):
        return value
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be an id (a UUID), not {type(value).__name__}")
    try:
        return UUID(value)
    except ValueError:
        raise InvalidInput(field, f"must be an id (a UUID), not {value[:50]!r}") from None


def check_texts(**values: object) -> None:
    """Raise InvalidInput, naming the field, for a value that is neither a text nor None."""
    for field, value in values.items():
        if value is not None and not isinstance(value, str):
            raise InvalidInput(field, f"must be a text, not {type(value).__name__}")


def check_flag(field: str, value: object) -> None:
    """Raise InvalidInput, naming the field, unless the value is true or false."""
    if not isinstance(value, bool):
        kind = type(value)  # with its module, as numpy has another bool
        name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        raise InvalidInput(field, f"must be true or false, not {name}")


def as_integer(field: str, value: object, *, least: int, most: int) -> int:
    """Return an int, from numpy's integers too. Raises InvalidInput, naming the field, outside these bounds."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise InvalidInput(field, f"must be a whole number, not {type(value).__name__}")
    try:
        number = index(value)
    except TypeError:  # numpy's arrays and flags
        raise InvalidInput(field, f"must be a whole number, not {type(value).__name__}") from None
    if not least <= number <= most:
        raise InvalidInput(field, f"must be {least} to {most}, not {number}")
    return number


def check_duration(field: str, span: object, *, least: timedelta) -> None:
    """Raise InvalidInput, naming the field, unless it is a timedelta from `least` to a hundred years."""
    if not isinstance(span, timedelta):
        raise InvalidInput(field, f"must be a duration (timedelta), not {type(span).__name__}")
    if not least <= span <= MAX_DURATION:
        raise InvalidInput(field, f"must be {'positive' if least else '0 or more'} and at most 100 years")


def as_relevance(field: str, value: object) -> float:
    """Return a float from 0 to 1, from numpy's numbers too. Raises InvalidInput, naming the field."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidInput(field, f"must be a number, not {type(value).__name__}")
    if value < 0 or not value <= 1:  # NaN is neither
        raise InvalidInput(field, f"must be 0 to 1, not {value}")
    return float(value)
