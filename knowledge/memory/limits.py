"""What a text must be to be stored, whichever field it is of; and what an id, a flag and a relevance must be."""

from __future__ import annotations

from numbers import Real
from operator import index
from typing import SupportsIndex
from uuid import UUID

from knowledge.characters import check_characters
from knowledge.errors import InvalidInput

MAX_TEXT_BYTES = 64 * 1024
"""A text field holds at most this many bytes of UTF-8."""
_MAX_CHARS = {
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


def check_text(field: str, value: object) -> None:
    """Raise InvalidInput, naming the field, unless the value is a text to store: not blank, no NUL, not too long."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be a text, not {type(value).__name__}")
    if not value.strip():
        raise InvalidInput(field, "is empty or blank")
    check_characters(field, value)
    longest = _MAX_CHARS.get(field)
    if longest is not None and len(value) > longest:
        raise InvalidInput(field, f"has {len(value)} characters, more than the {longest} allowed")
    if longest is None and len(value) > MAX_TEXT_BYTES // 4 and (size := len(value.encode())) > MAX_TEXT_BYTES:
        raise InvalidInput(field, f"has {size:,} bytes, more than the {MAX_TEXT_BYTES:,} (64 KiB) allowed")


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


def as_relevance(field: str, told: object) -> float:
    """Return a number, of numpy too. Raises InvalidInput, naming the field, for what is not on the relevance scale."""
    if isinstance(told, bool) or not isinstance(told, Real):
        raise InvalidInput(field, f"must be a number, not {type(told).__name__}")
    if told < 0 or not told <= 1:  # not a number is neither
        raise InvalidInput(field, f"must be 0 to 1, not {told}")
    return float(told)
