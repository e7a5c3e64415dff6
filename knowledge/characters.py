"""Reject characters that Postgres cannot store or JSON cannot carry."""

from __future__ import annotations

import re

from knowledge.errors import InvalidInput

_SURROGATE = re.compile("[\ud800-\udfff]")


def check_characters(field: str, text: str) -> None:
    """Raise InvalidInput, naming the field, for a text with NUL or a lone surrogate."""
    if "\0" in text:
        raise InvalidInput(field, "holds a NUL character, which Postgres cannot store")
    check_unicode(field, text)


def check_unicode(field: str, text: str) -> None:
    """Raise InvalidInput, naming the field, for a lone surrogate, which cannot be encoded."""
    if _SURROGATE.search(text):
        raise InvalidInput(field, "holds a lone surrogate, which is not valid Unicode")
