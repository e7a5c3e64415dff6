"""Regular expressions of entries' conditions, matched by RE2 in time linear in the text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import re2

MAX_CHARS = 200
"""Maximum number of characters of an expression."""

MAX_TEXT_CHARS = 20_000
"""Of a longer text, only the first and last half of this are searched."""

_MEMORY = 1 << 20
"""Maximum bytes of an expression's automaton; RE2 refuses one with too much repetition."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled regular expression."""

    compiled: re2._Regexp

    def matches(self, text: str) -> bool:
        """Return whether it matches anywhere in a text; of a long text, in its beginning or end."""
        if len(text) <= MAX_TEXT_CHARS:
            return self._matches(text)
        half = MAX_TEXT_CHARS // 2
        return self._matches(text[:half]) or self._matches(text[-half:])

    def _matches(self, text: str) -> bool:
        return self.compiled.search(text.encode("utf-8", "replace")) is not None


@lru_cache(maxsize=512)
def expression(source: str) -> Expression:
    """Compile a regular expression. Raises ValueError with the reason.

    The syntax is RE2's (https://github.com/google/re2/wiki/Syntax): Python's without back references and look-around.
    `^` and `$` match at the beginning and end of a line; `(?i)` in front ignores case.
    """
    if len(source) > MAX_CHARS:
        raise ValueError(f"has {len(source)} characters, more than the {MAX_CHARS} allowed")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return Expression(re2.compile(f"(?m){source}".encode(), options))
    except UnicodeEncodeError as error:
        raise ValueError("contains half of a character (a lone surrogate)") from error
    except re2.error as error:
        reason = error.args[0] if error.args else error
        why = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"is not a regular expression: {why}") from error
