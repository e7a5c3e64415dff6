"""Codes that compilers, databases and linters give their errors: of one kind, another code is another error; pure.

To a model `TS2304` and `TS2322`, or `ORA-01017` and `ORA-00942`, are nearly the same words.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from knowledge.ends import both_ends

_MOST_READ = 8_000
"""Characters of a text that are read, its ends; ours."""
_CODE = re.compile(
    r"(?:^[ \t]*|\[|:\d{1,6}:(?:\d{1,6}:)? ?|(?i:\b(?:error|err|fatal|warning|exception|panic|code)\b)[ \t:#=(\[]{1,3})"
    r"(?P<kind>(?:ORA|TNS|PLS|RMAN)-(?=\d{5}\b)|[A-Z]{1,6}(?=\d{3,5}\b))(?P<number>\d{3,5})(?=[:\])]|[ \t]|$)",
    re.MULTILINE,
)
"""A code where an error stands: at the beginning of a line, after a place in a file, in brackets, after a word for one.
Elsewhere such words name anything: a ticket, a standard, a card."""

Codes = Mapping[str, AbstractSet[str]]


def error_codes(text: str) -> Codes:
    """Return the codes of the errors that a text tells of, by their kind: the letters before the number."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for code in _CODE.finditer(both_ends(text, _MOST_READ)):
        found[code["kind"]].add(code["number"])
    return found


def is_another(asked: Codes, told: Codes) -> bool:
    """Return whether two texts tell of codes of the same kind, and of none that is the same."""
    common = asked.keys() & told.keys()
    return bool(common) and not any(asked[kind] & told[kind] for kind in common)
