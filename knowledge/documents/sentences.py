"""A text cut into its sentences and lines, each with its place; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from knowledge.documents.aligning import FULL_STOPS, Span

_ABBREVIATED = (
    "mr mrs ms dr prof st vs etc e.g i.e cf fig no vol jr sr inc ltd co corp dept approx est al u.s u.k a.m p.m"
)
_SHORT_FORMS = frozenset(_ABBREVIATED.split())
_END = re.compile(
    rf"[{FULL_STOPS}]++[\"')\]\u201d\u2019\u300d\u300f\uff09]*+"
    r"|(?<![.!?])[.!?]++[\"')\]\u201d\u2019]*+(?=\s++[\"'(\[\u201c\u2018`*_]*[A-Z0-9])|\n\s*\n"
    r"|\n(?=\s*(?:[-*+]\s|#{1,6}\s|[>|]|\d+[.)]\s|[^\s:=]+\s*(?::[ \t]+\S|=)))"
)
_LINE = re.compile(r"[^\n]+")
_LONGEST = 700
_LONGEST_NUMBER = 3


def sentences(text: str, *, by_line: bool = False) -> Iterator[Span]:
    """Yield where each sentence of a text stands; `by_line`: each line of a log, of code or of a config."""
    if by_line:
        yield from (_trimmed(text, *line.span()) for line in _LINE.finditer(text) if line[0].strip())
        return
    start = 0
    for end in _END.finditer(text):
        if end[0][:1] == "." and _ends_short_form(text[start : end.start()]):
            continue
        yield from _pieces(text, start, end.end())
        start = end.end()
    yield from _pieces(text, start, len(text))


def _ends_short_form(before: str) -> bool:
    """Return whether a point belongs to the word before it: to one cut short, a letter, or the number of an item."""
    word = before.rsplit(None, 1)[-1].lower() if before.strip() else ""
    if word.isdigit() and before.rpartition("\n")[2].strip() == word:
        return len(word) <= _LONGEST_NUMBER
    return word.strip("(\"'") in _SHORT_FORMS or (len(word) == 1 and word.isalpha())


def _pieces(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield a sentence, cut at line ends where it is longer than any sentence is."""
    if end - start <= _LONGEST:
        lines = [(start, end)]
    else:
        lines = [(start + line.start(), start + line.end()) for line in _LINE.finditer(text[start:end])]
    for begin, over in lines:
        if text[begin:over].strip():
            yield _trimmed(text, begin, over)


def _trimmed(text: str, start: int, end: int) -> Span:
    piece = text[start:end]
    return Span(start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip()))
