"""Does a text give orders to whoever is shown it? Pure, linear in its length; what is found waits for a person.

No list of phrases is ever whole: this keeps away what is known, and a setting keeps back all that agents tell. What it
knows was fitted to payloads written for the purpose, against real reports, reviews and test failures.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Any, Final

import re2

from knowledge.memory.disguises import TooDeep, decoded, folded, respelt
from knowledge.memory.orders import RULES
from knowledge.unseen import seen

CONTEXT_FIELDS: Final = (
    "failure_description",
    "error_message",
    "solution_steps",
    "proposal",
    "human_feedback",
    "revision_approach",
    "approved_approach",
    "task_description",
    "when_to_try",
    "verified_by",
    "agent_type",
    "task_type",
    "technology",
    "gate_type",
)
"""The fields of an entry whose text may stand in a context."""

UNREVIEWED: Final = "unreviewed"
HIDDEN: Final = "hidden-characters"


_TAGS = re.compile("[\U000e0020-\U000e007e]{4,}")
_SMUGGLED = re.compile("(?<=[A-Za-z])[\u200b\u2060-\u2064\u00ad\u180e\ufeff](?=[A-Za-z])")
_TURNED = re.compile("[\u202d\u202e]")
_SPACED = re.compile(r"(?:\b[^\W\d_][ .\-_*/|+]{1,3}){9}[^\W\d_]\b")
_ROTATED = re.compile(r"\b(?:gur|naq|lbhe?|guvf|pbagrkg|vafgehpgvbaf?|cebzcg)\b")
_REVERSED = re.compile(r"snoitcurtsni|erongi|tpmorp|drawssap")
_MARKS = str.maketrans(dict.fromkeys("\"'`*_~>|#=+-", " "))
_FROM_TAGS = {0xE0000 + code: code for code in range(0x20, 0x7F)}
_HIDDEN_LEAST = 2


@cache
def _automaton() -> Any:
    """Return all rules as one automaton, and the kind of each."""
    options = re2.Options()
    options.max_mem = 256 << 20
    options.log_errors = False
    rules = re2.Set.SearchSet(options)
    kinds = [kind for kind, patterns in RULES.items() for pattern in patterns if rules.Add(f"(?i){pattern}") >= 0]
    rules.Compile()
    return rules, kinds


def suspicions(text: str) -> tuple[str, ...]:
    """Return the kinds of what gives orders in a text, sorted; none is what most texts have."""
    found = set()
    if not text.isascii() and _hidden(text):
        found.add(HIDDEN)
    if _SPACED.search(text):  # nobody spells a sentence who wants it read
        found.add(HIDDEN)
    try:
        for told in chain([text], decoded(text)):
            for reading in _readings(told):
                found.update(_kinds(reading))
    except TooDeep:
        found.add(HIDDEN)
    return tuple(sorted(found))


def _hidden(text: str) -> bool:
    """Return whether a text holds what only machines read: split words, letters turned round, tags."""
    split = len(_SMUGGLED.findall(text)) >= _HIDDEN_LEAST
    return split or bool(_TURNED.search(text)) or bool(_TAGS.search(text))


def _kinds(text: str) -> Iterator[str]:
    rules, kinds = _automaton()
    for number in rules.Match(text) or ():
        yield kinds[number]


def _readings(text: str) -> Iterator[str]:
    """Yield a text as it may be meant: plain, and where there are signs of it, spelt out, disguised."""
    plain = _lines(seen(text))
    yield plain
    if not text.isascii() and (told := text.translate(_FROM_TAGS)) != text:
        yield _lines(seen(told))
    if not text.isascii():
        plain = _lines(folded(seen(text)))
        yield plain
    yield " ".join(plain.translate(_MARKS).split())  # across lines, through emphasis
    yield from respelt(plain)
    if _ROTATED.search(plain):
        yield codecs.encode(plain, "rot13")
    if _REVERSED.search(plain):
        yield plain[::-1]


def _lines(text: str) -> str:
    """Return a text in plain small letters, with one blank between words."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return "\n".join([" ".join(line.split()) for line in plain.lower().splitlines()])
