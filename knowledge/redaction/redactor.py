"""One text in, the same text with placeholders out. Pure, linear in the length of the text.

A text is seldom of any rule's concern, so one pass of all hints together says which rules to try. What a rule finds
becomes a placeholder that keeps the kind, `[redacted:email]`; nothing can be read in one, and no rule reads across one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

from knowledge.redaction.rule import HIDDEN, Automaton, Rule
from knowledge.redaction.rules import KINDS, RULES
from knowledge.unseen import seen

_PLACEHOLDER = re.compile(rb"\[redacted:([a-z-]+)\]")
_BYTE = bytes([HIDDEN])
_MOST_PASSES = 6
_REPEATED_FROM = 8
"""A secret of fewer bytes may be part of other words: where else it stands it is left."""
_WORDS = re.compile(rb"[A-Za-z]+(?:[_.-][A-Za-z]+)*")
"""A password that is a word, as that of postgres in many addresses, is one in the rest of the text."""
_MOST_REPEATED = 16
"""So many different ones of a rule are looked for elsewhere: a text of nothing else must not take ages."""
_MOST_KNOWN = 64
"""So many of texts that belong together."""

_LONG = 512
_LONGER = re.compile(rb"[^\s\"'\xff]*")
"""What a rule looks at of a value, and what belongs to one that goes on."""

_Span = tuple[int, int, int]
"""Where something to hide begins and ends, and the number of its rule."""


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and the kinds of what was taken out, in the order of the text."""

    text: str
    found: tuple[str, ...] = ()


def redact(text: str, *, keep_lines: bool = False) -> Redacted:
    """Return a text with a placeholder for each secret and each piece of personal data in it.

    Redacting again changes nothing. What only its surroundings give away (`password=...`) is taken out wherever else it
    stands in the text. Colours and what cannot be seen hide nothing, and go where they did. `keep_lines`: behind a
    placeholder stand the line breaks of what was taken out.
    """
    return _redacted_as_seen(text, {}, keep_lines=keep_lines)


def redact_together(texts: Sequence[str]) -> list[Redacted]:
    """Return texts that belong together as `redact` does, in order: what one gives away goes from the others, too."""
    known: dict[bytes, int] = {}
    told = [_redacted_as_seen(text, known, keep_lines=False) for text in texts]
    if len(texts) < 2 or not known:
        return told
    return [_redacted_as_seen(text, known, keep_lines=False) for text in texts]


def _redacted_as_seen(text: str, known: dict[bytes, int], *, keep_lines: bool) -> Redacted:
    told = _redacted(text, known, keep_lines=keep_lines)
    shown = seen(told.text)
    if shown is told.text:
        return told
    again = _redacted(shown, known, keep_lines=keep_lines)
    return Redacted(again.text, told.found + again.found) if again.found else told


def _redacted(text: str, known: dict[bytes, int], *, keep_lines: bool) -> Redacted:
    """Return a text without its secrets, and add those that may stand elsewhere to the known ones."""
    told = text.encode("utf-8", "surrogatepass")
    kinds: list[str] = []
    if b"[redacted:" in told:
        told, kinds = _hide_placeholders(told)
    before = len(kinds)
    new: list[bool] = [False] * before
    for _ in range(_MOST_PASSES):
        spans = _spans(told, known)
        if not spans:
            break
        told, kinds, new = _without(told, spans, kinds, new, keep_lines=keep_lines)
    if len(kinds) == before:
        return Redacted(text)
    pieces = told.split(_BYTE)
    shown = [pieces[0]]
    for kind, piece in zip(kinds, pieces[1:], strict=True):
        shown += [b"[redacted:", kind.encode(), b"]", piece]
    found = tuple(kind for kind, is_new in zip(kinds, new, strict=True) if is_new)
    return Redacted(b"".join(shown).decode("utf-8", "surrogatepass"), found)


@cache
def _hints() -> Automaton:
    """Return all rules' hints as one automaton; built when the first text comes."""
    return Automaton([rule.hint for rule in RULES])


def _hide_placeholders(told: bytes) -> tuple[bytes, list[str]]:
    """Return the bytes with each placeholder of ours as one byte that no text holds, and the kinds."""
    kinds: list[str] = []

    def hide(match: re.Match[bytes]) -> bytes:
        kind = match[1].decode()
        if kind not in KINDS:
            return match[0]
        kinds.append(kind)
        return _BYTE

    return _PLACEHOLDER.sub(hide, told), kinds


def _spans(told: bytes, known: dict[bytes, int]) -> list[_Span]:
    """Return what to hide, in order and apart, and add to what is known already."""
    found = list(_repeated(told, known)) if known else []
    for number in sorted(_hints().of(told)):
        of_rule = list(_of_rule(number, told))
        found += of_rule
        if of_rule and RULES[number].repeats:
            secrets = _telling(told, of_rule)
            found += _repeated(told, secrets)
            known.update(islice(secrets.items(), max(_MOST_KNOWN - len(known), 0)))
    return _apart(found) if len(found) > 1 else found


def _of_rule(number: int, told: bytes) -> Iterator[_Span]:
    rule = RULES[number]
    done = 0
    for match in rule.pattern.finditer(told):
        if match.start() < done:
            continue
        for start, last, lead, after in _values(rule, told, *match.span()):
            done = max(done, after)
            end = _checked(rule, told, start, last, lead)
            if end > start and not (rule.alone and (_joined(told, start - 1) or _joined(told, end))):
                done = max(done, end)
                yield start, end, number


def _checked(rule: Rule, told: bytes, start: int, last: int, lead: bytes) -> int:
    """Return where what is secret of a value ends, its start for nothing."""
    if rule.check is None:
        return last
    checked = rule.check(told[start:last], lead)
    rest = _LONGER.match(told, start + checked) if checked >= _LONG else None
    return rest.end() if rest else start + checked


def _values(rule: Rule, told: bytes, begin: int, end: int) -> Iterator[tuple[int, int, bytes, int]]:
    """Yield where what a rule found may be secret, what led to it, and up to where nothing else is to be found."""
    if rule.value is None:
        yield begin, end, told[max(begin - 1, 0) : begin], 0
        return
    while inner := rule.value.match(told, end):
        start, last = inner.span(inner.lastindex or 0)
        end = inner.end()
        yield start, last, told[begin:start], end if rule.each else 0
        if not rule.each:
            return


def _joined(told: bytes, position: int) -> bool:
    """Whether there is a letter, a digit or something hidden."""
    if not 0 <= position < len(told):
        return False
    byte = told[position]
    return 48 <= byte <= 57 or 65 <= byte <= 90 or 97 <= byte <= 122 or byte in {95, HIDDEN}


def _telling(told: bytes, found: Sequence[_Span]) -> dict[bytes, int]:
    """Return the secrets that are known again wherever they stand, also without their escapes, and their rules."""
    secrets = {
        told[start:end]: number
        for start, end, number in found
        if end - start >= _REPEATED_FROM and not _WORDS.fullmatch(told, start, end)
    }
    first = dict(islice(secrets.items(), _MOST_REPEATED))
    return first | {plain: first[each] for each in first if len(plain := _unescaped(each)) >= _REPEATED_FROM}


def _unescaped(secret: bytes) -> bytes:
    """Return what JSON, or JSON within JSON, says of a secret; itself where that has no escapes."""
    while b"\\" in secret:
        try:
            secret = str(json.loads(b'"%b"' % secret)).encode()
        except ValueError:
            break
    return secret


def _repeated(told: bytes, secrets: Mapping[bytes, int]) -> Iterator[_Span]:
    """Yield where in the text these secrets stand."""
    for secret, number in secrets.items():
        start = told.find(secret)
        while start >= 0:
            end = start + len(secret)
            if not _joined(told, start - 1) and not _joined(told, end):
                yield start, end, number
            start = told.find(secret, end)


def _apart(found: Sequence[_Span]) -> list[_Span]:
    """Return spans that do not overlap, in order.

    Of two that do, the rule that comes first says what both are, unless one is personal data: then that one is left.
    """
    kept: list[_Span] = []
    for start, end, number in sorted(found, key=lambda span: (span[0], -span[1], span[2])):
        if not kept or start >= kept[-1][1]:
            kept.append((start, end, number))
            continue
        first, last, other = kept[-1]
        if RULES[number].personal:
            continue
        if RULES[other].personal:
            kept[-1] = (start, end, number)
        else:
            kept[-1] = (first, max(last, end), min(number, other))
    return kept


def _without(
    told: bytes, spans: Sequence[_Span], kinds: Sequence[str], new: Sequence[bool], *, keep_lines: bool
) -> tuple[bytes, list[str], list[bool]]:
    """Return the bytes with the spans hidden, and the kinds of all that is hidden, in order."""
    pieces: list[bytes] = []
    all_kinds: list[str] = []
    all_new: list[bool] = []
    position = hidden = 0
    breaks = b""
    for start, end, number in [*spans, (len(told), len(told), -1)]:
        piece = breaks + told[position:start]
        pieces.append(piece)
        there = piece.count(_BYTE)
        all_kinds += kinds[hidden : hidden + there]
        all_new += new[hidden : hidden + there]
        hidden += there
        if number >= 0:
            all_kinds.append(RULES[number].kind)
            all_new.append(True)
            breaks = b"\n" * told.count(b"\n", start, end) if keep_lines else b""
        position = end
    return _BYTE.join(pieces), all_kinds, all_new
