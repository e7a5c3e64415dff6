"""What a text may be made of, whatever it is for: what Postgres can store and JSON can carry."""

from __future__ import annotations

import re

from knowledge.errors import InvalidInput

_SURROGATE = re.compile("[\ud800-\udfff]")


def check_characters(field: str, text: str) -> None:
    """Raise InvalidInput, naming the field, for a text that cannot be stored: with NUL, or half a character."""
    if "\0" in text:
        raise InvalidInput(field, "holds a NUL character, which Postgres cannot store")
    check_unicode(field, text)


def check_unicode(field: str, text: str) -> None:
    """Raise InvalidInput, naming the field, for half a character, which nothing can store or send."""
    if _SURROGATE.search(text):
        raise InvalidInput(field, "holds a lone surrogate, which is no Unicode text")
