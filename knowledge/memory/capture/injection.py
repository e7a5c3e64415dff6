"""Detection of prompt injection in a text. Pure, linear in its length; a suspicious text waits for a person's review.

No list of phrases is complete: this finds known ones, and a setting quarantines all that agents capture. The rules were
fitted to payloads written for the purpose, against real reports, reviews and test failures.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final

import re2

from hardwon.text.invisible import visible_text
from knowledge.memory.capture.deobfuscation import (
    HYPHENED,
    LEET,
    RUNS,
    decode,
    fold_letters,
    has_hidden_text,
    respell,
    reveal,
)
from knowledge.memory.capture.injection_rules import RULES
from knowledge.memory.capture.orders.foreign_orders import OTHER_LANGUAGE, expressions, has_order, sentences
from knowledge.memory.capture.orders.order_rules import SIGNS, SOURCE_RULES, TURN_RULES, Rule

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


_SPACED_LETTERS = re.compile(r"(?:\b[^\W\d_][ .\-_*/|+]{1,3}){9}[^\W\d_]\b")
_EMPHASIS = str.maketrans(dict.fromkeys("\"'`*_~>|#=+-", " "))
_MAX_DEPTH: Final = 4
"""Maximum number of nested encodings that are decoded."""


def _compile(patterns: Iterable[str]) -> Any:
    """Return expressions compiled to one automaton."""
    options = re2.Options()
    options.max_mem = 256 << 20
    options.log_errors = False
    compiled = re2.Set.SearchSet(options)
    for pattern in patterns:
        compiled.Add(f"(?i){pattern}")
    compiled.Compile()
    return compiled


@cache
def _phrases() -> tuple[Any, Sequence[str]]:
    """Return the expressions that need no signs as one automaton, and the kind of each."""
    return (
        _compile(pattern for patterns in RULES.values() for pattern in patterns),
        [kind for kind, patterns in RULES.items() for _ in patterns],
    )


_DISGUISES: Final[Mapping[str, str]] = {
    "spaced": r"(?:\pL[ .\-_*/|+]{1,3}){9}\pL",
    "leet": LEET,
    "hyphened": HYPHENED,
    "run": "|".join(RUNS),
    "rot13": r"\b(?:gur|naq|lbhe?|guvf|pbagrkg|vafgehpgvbaf?|cebzcg|vtaber|frperg|gbxra|cnffjbeq|fraq|nyjnlf|arire)\b",
    "reversed": r"snoitcurtsni|erongi|tpmorp|drawssap|sterces",
}
"""What a disguised text has: small expressions, looked for together with the signs of rules."""
_BITS: Final = {name: 1 << place for place, name in enumerate([*_DISGUISES, *SIGNS])}
_DISGUISED: Final = (1 << len(_DISGUISES)) - 1
_ALL_BITS: Final = (1 << len(_BITS)) - 1


@cache
def _signs() -> Any:
    """Return all signs and the words of languages as one automaton."""
    return _compile([*_DISGUISES.values(), *SIGNS.values(), *expressions()])


def _find_signs(text: str) -> int:
    """Return the signs of a text in lower case as bits, the words of languages above the others."""
    found = 0
    for place in _signs().Match(text) or ():
        found |= 1 << place
    return found


@cache
def _rules() -> Sequence[tuple[int, Rule]]:
    """Return the rules with their signs as bits."""
    return [(sum(_BITS[name] for name in rule.signs), rule) for rule in (*SOURCE_RULES, *TURN_RULES)]


@lru_cache(maxsize=4096)
def _candidates(signs: int) -> Sequence[Rule]:
    """Return the rules all of whose signs are among these."""
    return [rule for needed, rule in _rules() if signs & needed == needed]


@cache
def _expression(pattern: str) -> tuple[Any, Any]:
    """Return an expression for looking whether a text matches, which is fast, and for finding where."""
    return _compile([pattern]), re2.compile(f"(?i){pattern}")


def suspicions(text: str) -> tuple[str, ...]:
    """Return the kinds of injection found in a text, sorted; empty for most texts."""
    kinds: set[str] = set()
    if not text.isascii() and has_hidden_text(text):
        kinds.add(HIDDEN)
    for depth in range(_MAX_DEPTH + 1):
        signs = _judge(text, kinds)
        text = decode(text, has_runs=bool(signs & _BITS["run"]))
        if not text:
            break
        if depth == _MAX_DEPTH:
            kinds.add(HIDDEN)
    return tuple(sorted(kinds))


def _judge(text: str, kinds: set[str]) -> int:
    """Add the kinds of injection in one layer of a text to `kinds`; return the signs of its plain reading."""
    visible = visible_text(text)
    plain = _plain_lines(visible)
    signs = _judge_reading(plain, kinds)
    if signs & _BITS["spaced"] and _SPACED_LETTERS.search(text):
        kinds.add(HIDDEN)  # nobody who wants to be read spells a sentence letter by letter
    for reading in _readings(text, visible, plain, signs):
        _judge_reading(reading, kinds)
    return signs


def _judge_reading(text: str, kinds: set[str]) -> int:
    """Add the kinds of injection in a text in lower case to `kinds`; return its signs."""
    compiled, phrase_kinds = _phrases()
    kinds.update([phrase_kinds[number] for number in compiled.Match(text) or ()])
    signs = _find_signs(text)
    for rule in _candidates(signs & _ALL_BITS):
        if rule.kind not in kinds and _has_match(rule, text):
            kinds.add(rule.kind)
    if has_order(signs >> len(_BITS)) and any(has_order(_find_signs(each) >> len(_BITS)) for each in sentences(text)):
        kinds.add(OTHER_LANGUAGE)
    return signs


def _has_match(rule: Rule, text: str) -> bool:
    """Return whether a rule matches a text in lower case, and not only where it is exempt."""
    compiled, expression = _expression(rule.pattern)
    if not compiled.Match(text):
        return False
    is_exempt = rule.is_exempt
    return is_exempt is None or not all(is_exempt(text, *match.span()) for match in expression.finditer(text))


def _readings(text: str, visible: str, plain: str, signs: int) -> Iterator[str]:
    """Yield the readings of a text without the disguises of which it shows signs."""
    if not text.isascii():
        if (revealed := reveal(text)) != text:
            yield _plain_lines(visible_text(revealed))
        folded = _plain_lines(fold_letters(visible))
        if folded != plain:
            plain = folded
            yield plain
            signs |= _find_signs(plain) & _DISGUISED
    joined = " ".join(plain.translate(_EMPHASIS).split())  # across lines, through emphasis
    if joined != plain:
        yield joined
    yield from respell(plain, leet=bool(signs & _BITS["leet"]), hyphened=bool(signs & _BITS["hyphened"]))
    if signs & _BITS["rot13"]:
        yield codecs.encode(plain, "rot13")
    if signs & _BITS["reversed"]:
        yield plain[::-1]


def _plain_lines(text: str) -> str:
    """Return a text in lower case, with one space between words."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return "\n".join([" ".join(line.split()) for line in plain.lower().splitlines()])
