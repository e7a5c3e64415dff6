"""Detection of prompt injection in a text. Pure, linear in its length; a suspicious text waits for a person's review.

No list of phrases is complete: this finds known ones, and a setting quarantines all that agents capture. The rules were
fitted to payloads written for the purpose, against real reports, reviews and test failures.
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

from hardwon.text.invisible import visible_text
from knowledge.memory.capture.deobfuscation import TooDeep, decode, fold_letters, respell
from knowledge.memory.capture.injection_rules import RULES

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
"""The fields of an entry whose text may appear in a context."""

UNREVIEWED: Final = "unreviewed"
HIDDEN: Final = "hidden-characters"


_TAGS = re.compile("[\U000e0020-\U000e007e]{4,}")
_ZERO_WIDTH = re.compile("(?<=[A-Za-z])[\u200b\u2060-\u2064\u00ad\u180e\ufeff](?=[A-Za-z])")
_DIRECTION_OVERRIDE = re.compile("[\u202d\u202e]")
_SPACED_LETTERS = re.compile(r"(?:\b[^\W\d_][ .\-_*/|+]{1,3}){9}[^\W\d_]\b")
_ROT13_WORDS = re.compile(r"\b(?:gur|naq|lbhe?|guvf|pbagrkg|vafgehpgvbaf?|cebzcg)\b")
_REVERSED_WORDS = re.compile(r"snoitcurtsni|erongi|tpmorp|drawssap")
_EMPHASIS = str.maketrans(dict.fromkeys("\"'`*_~>|#=+-", " "))
_FROM_TAGS = {0xE0000 + code: code for code in range(0x20, 0x7F)}
_MIN_SMUGGLED = 2


@cache
def _automaton() -> Any:
    """Return all rules compiled to one automaton, and the kind of each."""
    options = re2.Options()
    options.max_mem = 256 << 20
    options.log_errors = False
    rules = re2.Set.SearchSet(options)
    kinds = [kind for kind, patterns in RULES.items() for pattern in patterns if rules.Add(f"(?i){pattern}") >= 0]
    rules.Compile()
    return rules, kinds


def suspicions(text: str) -> tuple[str, ...]:
    """Return the kinds of injection found in a text, sorted; empty for most texts."""
    kinds = set()
    if not text.isascii() and _has_hidden_text(text):
        kinds.add(HIDDEN)
    if _SPACED_LETTERS.search(text):  # nobody who wants to be read spells a sentence letter by letter
        kinds.add(HIDDEN)
    try:
        for layer in chain([text], decode(text)):
            for reading in _readings(layer):
                kinds.update(_kinds(reading))
    except TooDeep:
        kinds.add(HIDDEN)
    return tuple(sorted(kinds))


def _has_hidden_text(text: str) -> bool:
    """Return whether a text holds what only machines read: split words, direction overrides, tag characters."""
    split = len(_ZERO_WIDTH.findall(text)) >= _MIN_SMUGGLED
    return split or bool(_DIRECTION_OVERRIDE.search(text)) or bool(_TAGS.search(text))


def _kinds(text: str) -> Iterator[str]:
    rules, kinds = _automaton()
    for number in rules.Match(text) or ():
        yield kinds[number]


def _readings(text: str) -> Iterator[str]:
    """Yield a text's possible readings: plain, and where there are signs of a disguise, without it."""
    plain = _plain_lines(visible_text(text))
    yield plain
    if not text.isascii() and (tagged := text.translate(_FROM_TAGS)) != text:
        yield _plain_lines(visible_text(tagged))
    if not text.isascii():
        plain = _plain_lines(fold_letters(visible_text(text)))
        yield plain
    yield " ".join(plain.translate(_EMPHASIS).split())  # across lines, through emphasis
    yield from respell(plain)
    if _ROT13_WORDS.search(plain):
        yield codecs.encode(plain, "rot13")
    if _REVERSED_WORDS.search(plain):
        yield plain[::-1]


def _plain_lines(text: str) -> str:
    """Return a text in lower case, with one space between words."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return "\n".join([" ".join(line.split()) for line in plain.lower().splitlines()])
