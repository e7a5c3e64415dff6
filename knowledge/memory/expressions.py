"""Regular expressions that whoever captures an entry may write, matched by RE2: in time linear in the text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import re2

MAX_CHARS = 200
"""An expression has at most so many characters."""

MAX_TEXT_CHARS = 20_000
"""Of a longer text the first and the last half of this are looked at."""

_MEMORY = 1 << 20
"""Bytes an expression may take, its automaton included: RE2 refuses one that repeats too much."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A regular expression, ready to be looked for."""

    compiled: re2._Regexp

    def found_in(self, text: str) -> bool:
        """Whether it matches anywhere in a text; of a long one, in its beginning or its end."""
        if len(text) <= MAX_TEXT_CHARS:
            return self._matches(text)
        half = MAX_TEXT_CHARS // 2
        return self._matches(text[:half]) or self._matches(text[-half:])

    def _matches(self, text: str) -> bool:
        return self.compiled.search(text.encode("utf-8", "replace")) is not None


@lru_cache(maxsize=512)
def expression(source: str) -> Expression:
    """Return a regular expression. Raises ValueError, saying what is wrong with it.

    The syntax is RE2's (https://github.com/google/re2/wiki/Syntax): Python's without back references and look-around.
    `^` and `$` stand for the beginning and end of a line; `(?i)` in front ignores case.
    """
    if len(source) > MAX_CHARS:
        raise ValueError(f"has {len(source)} characters, more than the {MAX_CHARS} allowed")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return Expression(re2.compile(f"(?m){source}".encode(), options))
    except UnicodeEncodeError as error:
        raise ValueError("holds half of a character (a lone surrogate)") from error
    except re2.error as error:
        told = error.args[0] if error.args else error
        why = told.decode(errors="replace") if isinstance(told, bytes) else str(told)
        raise ValueError(f"is no regular expression: {why}") from error
