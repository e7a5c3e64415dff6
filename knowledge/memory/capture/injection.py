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
from knowledge.memory.capture.orders.nearby_rules import NEARBY_RULES, NEARBY_SIGNS
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
_QUOTES = str.maketrans(dict.fromkeys("\"'`*", " "))
_MIN_SIGNS: Final = 3
"""Signs in a text, of which an order over several lines has at least these in them; fewer are not read again joined."""
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
"""What a disguised text has; looked for in the plain reading alone."""
_DISGUISE_BITS: Final = {name: 1 << place for place, name in enumerate(_DISGUISES)}
_EVERY_SIGN: Final = {**SIGNS, **NEARBY_SIGNS}
_SIGN_BITS: Final = {name: 1 << place for place, name in enumerate(_EVERY_SIGN)}
_ALL_SIGNS: Final = (1 << len(_SIGN_BITS)) - 1


@cache
def _disguises() -> Any:
    return _compile(_DISGUISES.values())


@cache
def _signs() -> Any:
    """Return all signs of rules and the words of languages as one automaton."""
    return _compile([*_EVERY_SIGN.values(), *expressions()])


_BITS: Final = [1 << place for place in range(1024)]


def _find_bits(compiled: Any, text: str) -> int:
    """Return the places of the expressions that match as bits."""
    return sum(map(_BITS.__getitem__, compiled.Match(text) or ()))


@cache
def _rules() -> Sequence[tuple[int, Rule]]:
    """Return the rules with their signs as bits."""
    return [
        (sum(_SIGN_BITS[name] for name in rule.signs), rule) for rule in (*SOURCE_RULES, *TURN_RULES, *NEARBY_RULES)
    ]


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
        disguises = _judge(text, kinds)
        text = decode(text, has_runs=bool(disguises & _DISGUISE_BITS["run"]))
        if not text:
            break
        if depth == _MAX_DEPTH:
            kinds.add(HIDDEN)
    return tuple(sorted(kinds))


def _judge(text: str, kinds: set[str]) -> int:
    """Add the kinds of injection in one layer of a text to `kinds`; return its disguises as bits."""
    visible = visible_text(text)
    plain = folded = _plain_lines(visible)
    readings = [plain]
    if not text.isascii():
        if (revealed := reveal(text)) != text:
            readings.append(_plain_lines(visible_text(revealed)))
        if (folded := _plain_lines(fold_letters(visible))) != plain:
            readings.append(folded)
    disguises = _find_bits(_disguises(), folded)
    if disguises & _DISGUISE_BITS["spaced"] and _SPACED_LETTERS.search(text):
        kinds.add(HIDDEN)  # nobody who wants to be read spells a sentence letter by letter
    if disguises & _DISGUISE_BITS["rot13"]:
        readings.append(codecs.encode(folded, "rot13"))
    if disguises & _DISGUISE_BITS["reversed"]:
        readings.append(folded[::-1])
    most_signs = 0
    for reading in readings:
        _judge_phrases(reading, kinds)
        most_signs = max(most_signs, _judge_structures(reading, kinds))
    if most_signs >= _MIN_SIGNS and (joined := " ".join(folded.translate(_QUOTES).split())) != folded:
        _judge_structures(joined, kinds)
    for reading in _respelled_readings(folded, disguises):
        _judge_phrases(reading, kinds)
    return disguises


def _judge_phrases(text: str, kinds: set[str]) -> None:
    """Add the kinds of the phrases in a text in lower case to `kinds`."""
    compiled, phrase_kinds = _phrases()
    kinds.update([phrase_kinds[number] for number in compiled.Match(text) or ()])


def _judge_structures(text: str, kinds: set[str]) -> int:
    """Add the kinds of the structures in a text in lower case to `kinds`; return the number of signs in it."""
    signs = _find_bits(_signs(), text)
    for rule in _candidates(signs & _ALL_SIGNS):
        if rule.kind not in kinds and _has_match(rule, text):
            kinds.add(rule.kind)
    if _has_foreign_order(signs) and any(_has_foreign_order(_find_bits(_signs(), each)) for each in sentences(text)):
        kinds.add(OTHER_LANGUAGE)
    return signs.bit_count()


def _has_foreign_order(signs: int) -> bool:
    return has_order(signs >> len(_SIGN_BITS))


def _has_match(rule: Rule, text: str) -> bool:
    """Return whether a rule matches a text in lower case, and not only where it is exempt."""
    compiled, expression = _expression(rule.pattern)
    if not compiled.Match(text):
        return False
    is_exempt = rule.is_exempt
    return is_exempt is None or not all(is_exempt(text, *match.span()) for match in expression.finditer(text))


def _respelled_readings(plain: str, disguises: int) -> Iterator[str]:
    """Yield readings in which addresses and paths do not survive: without emphasis, with letters for digits, joined."""
    if (bare := " ".join(plain.translate(_EMPHASIS).split())) != plain:  # across lines, through emphasis
        yield bare
    yield from respell(
        plain,
        leet=bool(disguises & _DISGUISE_BITS["leet"]),
        hyphened=bool(disguises & _DISGUISE_BITS["hyphened"]),
    )


def _plain_lines(text: str) -> str:
    """Return a text in lower case, with one space between words."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return "\n".join([" ".join(line.split()) for line in plain.lower().splitlines()])
