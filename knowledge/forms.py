"""What a value from outside must be, whatever it is for: an id, a text, a flag, a number."""

from __future__ import annotations

from datetime import timedelta
from numbers import Real
from operator import index
from typing import SupportsIndex
from uuid import UUID

from knowledge.errors import InvalidInput

LONGEST_SPAN = timedelta(days=36_500)


def as_id(field: str, told: object) -> UUID:
    """Return an id, told as one or as its text, which is all that a file has of it. Raises InvalidInput, naming it."""
    if isinstance(told, UUID):
        return told
    if not isinstance(told, str):
        raise InvalidInput(field, f"must be an id (a UUID), not {type(told).__name__}")
    try:
        return UUID(told)
    except ValueError:
        raise InvalidInput(field, f"must be an id (a UUID), not {told[:50]!r}") from None


def check_named(**told: object) -> None:
    """Raise InvalidInput, naming the field, for what is neither a text nor left out."""
    for field, value in told.items():
        if value is not None and not isinstance(value, str):
            raise InvalidInput(field, f"must be a text, not {type(value).__name__}")


def check_flag(field: str, value: object) -> None:
    """Raise InvalidInput, naming the field, unless the value is true or false."""
    if not isinstance(value, bool):
        kind = type(value)  # with its module, as numpy has another bool
        named = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        raise InvalidInput(field, f"must be true or false, not {named}")


def as_whole(field: str, told: object, *, least: int, most: int) -> int:
    """Return a whole number, of numpy too. Raises InvalidInput, naming the field, for what is none in these bounds."""
    if isinstance(told, bool) or not isinstance(told, SupportsIndex):
        raise InvalidInput(field, f"must be a whole number, not {type(told).__name__}")
    try:
        whole = index(told)
    except TypeError:  # of numpy's arrays and flags
        raise InvalidInput(field, f"must be a whole number, not {type(told).__name__}") from None
    if not least <= whole <= most:
        raise InvalidInput(field, f"must be {least} to {most}, not {whole}")
    return whole


def check_span(field: str, span: object, *, least: timedelta) -> None:
    """Raise InvalidInput, naming the field, for what is no span of time, too short or beyond a hundred years."""
    if not isinstance(span, timedelta):
        raise InvalidInput(field, f"must be a span of time, not {type(span).__name__}")
    if not least <= span <= LONGEST_SPAN:
        raise InvalidInput(field, f"must be {'positive' if least else '0 or more'} and at most 100 years")


def as_relevance(field: str, told: object) -> float:
    """Return a number, of numpy too. Raises InvalidInput, naming the field, for what is not on the relevance scale."""
    if isinstance(told, bool) or not isinstance(told, Real):
        raise InvalidInput(field, f"must be a number, not {type(told).__name__}")
    if told < 0 or not told <= 1:  # not a number is neither
        raise InvalidInput(field, f"must be 0 to 1, not {told}")
    return float(told)
