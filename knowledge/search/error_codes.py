"""Error codes of compilers, databases and linters; two different codes of one kind are different errors.

To an embedding model `TS2304` and `TS2322`, or `ORA-01017` and `ORA-00942`, are nearly the same.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from knowledge.ends import truncate_middle

_MAX_CHARS_READ = 8_000
"""Characters read of a text, from both ends (our choice)."""
_CODE = re.compile(
    r"(?:^[ \t]*|\[|:\d{1,6}:(?:\d{1,6}:)? ?|(?i:\b(?:error|err|fatal|warning|exception|panic|code)\b)[ \t:#=(\[]{1,3})"
    r"(?P<kind>(?:ORA|TNS|PLS|RMAN)-(?=\d{5}\b)|[A-Z]{1,6}(?=\d{3,5}\b))(?P<number>\d{3,5})(?=[:\])]|[ \t]|$)",
    re.MULTILINE,
)
"""A code where errors are reported: at the start of a line, after a file position, in brackets, after a word such as
`error`. Elsewhere such strings may name anything: a ticket, a standard, a card."""

Codes = Mapping[str, AbstractSet[str]]


def error_codes(text: str) -> Codes:
    """Return the error codes in a text by kind, which is the letters before the number."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for code in _CODE.finditer(truncate_middle(text, _MAX_CHARS_READ)):
        found[code["kind"]].add(code["number"])
    return found


def is_different_error(query_codes: Codes, text_codes: Codes) -> bool:
    """Return whether two texts have codes of a common kind, but no code in common."""
    common = query_codes.keys() & text_codes.keys()
    return bool(common) and not any(query_codes[kind] & text_codes[kind] for kind in common)
