"""Replace secrets in a text by placeholders; in time linear in the length of the text.

Most texts match no rule, so one pass over the hints of all rules decides which rules to try. A match is replaced by a
placeholder with its kind, `[redacted:email]`; no rule matches inside or across a placeholder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

from hardwon.text.invisible import visible_text
from knowledge.text.redaction.rule import HIDDEN, Automaton, Rule, compile_pattern
from knowledge.text.redaction.rules import KINDS, RULES

_PLACEHOLDER = re.compile(rb"\[redacted:([a-z-]+)\]")
_BYTE = bytes([HIDDEN])
_MAX_PASSES = 6
_MIN_REPEATED_BYTES = 8
"""Shorter secrets may be parts of other words, so their other occurrences stay."""
_WORDS = re.compile(rb"[A-Za-z]+(?:[_.-][A-Za-z]+)*")
"""A password that is an ordinary word, such as `postgres` in many URLs; its other occurrences stay."""
_MAX_REPEATED = 16
"""Secrets per rule whose other occurrences are searched, to bound the time for texts full of secrets."""
_MAX_SHARED = 64
"""Secrets shared between texts that belong together, at most."""

MAY_BE_INVISIBLE = compile_pattern(
    r"[\x00-\x08\x0e-\x1b\x1f\x7f]|\xc2[\x80-\x84\x86-\x9f\xad]|\xcd\x8f|\xd8\x9c|\xe1(?:\x85[\x9f\xa0]|\x9e[\xb4\xb5]"
    r"|\xa0[\x8b-\x8f])|\xe2(?:\x80[\x8b-\x8f\xaa-\xae]|\x81[\xa0-\xaf]|\xa0\x80)|\xe3\x85\xa4|\xed[\xa0-\xbf]"
    r"|\xef(?:\xb7[\x90-\xaf]|\xb8[\x80-\x8f]|\xbb\xbf|\xbe\xa0|\xbf[\xb0-\xbb\xbe\xbf])|\xf0(?:\x93[\x90\x91]|\x9b\xb2|\x9d\x85)"
    r"|[\xf0-\xf4][\x80-\xbf]\xbf[\xbe\xbf]|\xf3\xa0"
)
"""Bytes of each character that `visible_text` strips, and of few others."""

_LONG = 512
_LONGER = re.compile(rb"[^\s\"'\xff]*")
"""The longest value that a rule examines, and the rest of a longer one."""

_Span = tuple[int, int, int]
"""Start and end of a secret, and the number of its rule."""


@dataclass(frozen=True, slots=True)
class Redaction:
    """A text without its secrets, and the kinds of the removed ones, in the order of the text."""

    text: str
    found: tuple[str, ...] = ()


def redact(text: str, *, keep_lines: bool = False) -> Redaction:
    """Return a text with a placeholder for each secret and each piece of personal data in it.

    Idempotent. A secret that is recognised by its context (`password=...`) is also removed elsewhere in the text.
    Colour codes and invisible characters do not hide a secret; they are removed where they did. `keep_lines`: keep the
    line breaks of removed secrets, behind the placeholder.
    """
    return _redact_visible(text, {}, keep_lines=keep_lines)


def redact_together(texts: Sequence[str]) -> list[Redaction]:
    """Redact texts that belong together, in order: a secret recognised in one is also removed from the others."""
    shared: dict[bytes, int] = {}
    redactions = [_redact_visible(text, shared, keep_lines=False) for text in texts]
    if len(texts) < 2 or not shared:
        return redactions
    return [_redact_visible(text, shared, keep_lines=False) for text in texts]


def _redact_visible(text: str, shared: dict[bytes, int], *, keep_lines: bool) -> Redaction:
    first = _redact(text, shared, keep_lines=keep_lines)
    if not text.isascii() and not MAY_BE_INVISIBLE.search(text.encode("utf-8", "surrogatepass")):
        return first  # a fifth of what visible_text costs
    visible = visible_text(first.text)
    if visible is first.text:
        return first
    second = _redact(visible, shared, keep_lines=keep_lines)
    return Redaction(second.text, first.found + second.found) if second.found else first


def _redact(text: str, shared: dict[bytes, int], *, keep_lines: bool) -> Redaction:
    """Return a text without its secrets, and add those that may occur elsewhere to `shared`."""
    data = text.encode("utf-8", "surrogatepass")
    kinds: list[str] = []
    if b"[redacted:" in data:
        data, kinds = _hide_placeholders(data)
    before = len(kinds)
    new: list[bool] = [False] * before
    for _ in range(_MAX_PASSES):
        spans = _find_spans(data, shared)
        if not spans:
            break
        data, kinds, new = _hide_spans(data, spans, kinds, new, keep_lines=keep_lines)
    if len(kinds) == before:
        return Redaction(text)
    pieces = data.split(_BYTE)
    redacted = [pieces[0]]
    for kind, piece in zip(kinds, pieces[1:], strict=True):
        redacted += [b"[redacted:", kind.encode(), b"]", piece]
    found = tuple(kind for kind, is_new in zip(kinds, new, strict=True) if is_new)
    return Redaction(b"".join(redacted).decode("utf-8", "surrogatepass"), found)


@cache
def _hints() -> tuple[tuple[Automaton, tuple[int, ...]], ...]:
    """Return automata of the rules' hints with the numbers of the rules, built at first use.

    Two, of contexts and of what is recognised by its own form: the states of one for all would be the product of
    theirs. They would not fit into its memory after some thousand texts, and a pass would take twenty times as long
    (findings/re2-set-slows-down-without-a-word.sh).
    """
    groups: dict[bool, list[int]] = {}
    for number, rule in enumerate(RULES):
        groups.setdefault(rule.value is None or rule.personal, []).append(number)
    return tuple((Automaton([RULES[number].hint for number in group]), tuple(group)) for group in groups.values())


def _hinted(data: bytes) -> list[int]:
    """Return the numbers of the rules whose hint matches, ascending."""
    return sorted(numbers[place] for automaton, numbers in _hints() for place in automaton.of(data))


def _hide_placeholders(data: bytes) -> tuple[bytes, list[str]]:
    """Return the data with each placeholder replaced by a byte that no text has, and their kinds."""
    kinds: list[str] = []

    def hide(match: re.Match[bytes]) -> bytes:
        kind = match[1].decode()
        if kind not in KINDS:
            return match[0]
        kinds.append(kind)
        return _BYTE

    return _PLACEHOLDER.sub(hide, data), kinds


def _find_spans(data: bytes, shared: dict[bytes, int]) -> list[_Span]:
    """Return the spans to hide, in order and without overlaps, and add new secrets to `shared`."""
    found = list(_find_repeated(data, shared)) if shared else []
    for number in _hinted(data):
        of_rule = list(_find_by_rule(number, data))
        found += of_rule
        if of_rule and RULES[number].repeats:
            secrets = _repeatable_secrets(data, of_rule)
            found += _find_repeated(data, secrets)
            shared.update(islice(secrets.items(), max(_MAX_SHARED - len(shared), 0)))
    return _merge_overlaps(found) if len(found) > 1 else found


def _find_by_rule(number: int, data: bytes) -> Iterator[_Span]:
    rule = RULES[number]
    done = 0
    for match in rule.pattern.finditer(data):
        if match.start() < done:
            continue
        for start, last, lead, after in _values(rule, data, *match.span()):
            done = max(done, after)
            end = _secret_end(rule, data, start, last, lead)
            if end > start and not (rule.alone and (_is_joined(data, start - 1) or _is_joined(data, end))):
                done = max(done, end)
                yield start, end, number


def _secret_end(rule: Rule, data: bytes, start: int, last: int, lead: bytes) -> int:
    """Return the end of the secret part of a value; its start if nothing is secret."""
    if rule.check is None:
        return last
    checked = rule.check(data[start:last], lead)
    rest = _LONGER.match(data, start + checked) if checked >= _LONG else None
    return rest.end() if rest else start + checked


def _values(rule: Rule, data: bytes, begin: int, end: int) -> Iterator[tuple[int, int, bytes, int]]:
    """Yield the candidates in a match: start, end, the bytes that lead to it, and where the search goes on."""
    if rule.value is None:
        yield begin, end, data[max(begin - 1, 0) : begin], 0
        return
    while inner := rule.value.match(data, end):
        start, last = inner.span(inner.lastindex or 0)
        end = inner.end()
        yield start, last, data[begin:start], end if rule.each else 0
        if not rule.each:
            return


def _is_joined(data: bytes, position: int) -> bool:
    """Return whether a position has a letter, a digit, an underscore or a hidden secret."""
    if not 0 <= position < len(data):
        return False
    byte = data[position]
    return 48 <= byte <= 57 or 65 <= byte <= 90 or 97 <= byte <= 122 or byte in {95, HIDDEN}


def _repeatable_secrets(data: bytes, found: Sequence[_Span]) -> dict[bytes, int]:
    """Return the secrets to search in the rest of the text, also without their escapes, with their rules."""
    secrets = {
        data[start:end]: number
        for start, end, number in found
        if end - start >= _MIN_REPEATED_BYTES and not _WORDS.fullmatch(data, start, end)
    }
    first = dict(islice(secrets.items(), _MAX_REPEATED))
    return first | {plain: first[each] for each in first if len(plain := _unescape(each)) >= _MIN_REPEATED_BYTES}


def _unescape(secret: bytes) -> bytes:
    """Return a secret with the escapes of JSON, also nested JSON, resolved."""
    while b"\\" in secret:
        try:
            secret = str(json.loads(b'"%b"' % secret)).encode()
        except ValueError:
            break
    return secret


def _find_repeated(data: bytes, secrets: Mapping[bytes, int]) -> Iterator[_Span]:
    """Yield the occurrences of secrets."""
    for secret, number in secrets.items():
        start = data.find(secret)
        while start >= 0:
            end = start + len(secret)
            if not _is_joined(data, start - 1) and not _is_joined(data, end):
                yield start, end, number
            start = data.find(secret, end)


def _merge_overlaps(found: Sequence[_Span]) -> list[_Span]:
    """Return spans without overlaps, in order.

    Two overlapping spans are merged under the rule that comes first; personal data gives way to a secret.
    """
    merged: list[_Span] = []
    for start, end, number in sorted(found, key=lambda span: (span[0], -span[1], span[2])):
        if not merged or start >= merged[-1][1]:
            merged.append((start, end, number))
            continue
        first, last, other = merged[-1]
        if RULES[number].personal:
            continue
        if RULES[other].personal:
            merged[-1] = (start, end, number)
        else:
            merged[-1] = (first, max(last, end), min(number, other))
    return merged


def _hide_spans(
    data: bytes, spans: Sequence[_Span], kinds: Sequence[str], new: Sequence[bool], *, keep_lines: bool
) -> tuple[bytes, list[str], list[bool]]:
    """Return the data with the spans hidden, the kinds of all hidden secrets in order, and which are new."""
    pieces: list[bytes] = []
    all_kinds: list[str] = []
    all_new: list[bool] = []
    position = hidden = 0
    breaks = b""
    for start, end, number in [*spans, (len(data), len(data), -1)]:
        piece = breaks + data[position:start]
        pieces.append(piece)
        count = piece.count(_BYTE)
        all_kinds += kinds[hidden : hidden + count]
        all_new += new[hidden : hidden + count]
        hidden += count
        if number >= 0:
            all_kinds.append(RULES[number].kind)
            all_new.append(True)
            breaks = b"\n" * data.count(b"\n", start, end) if keep_lines else b""
        position = end
    return _BYTE.join(pieces), all_kinds, all_new
