"""Split a text into sentences or lines, each with its span; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from knowledge.formats.headings import text_lines
from knowledge.text.alignment import FULL_STOPS, Span

_ABBREVIATED = (
    "mr mrs ms dr prof st vs etc e.g i.e cf fig no vol jr sr inc ltd co corp dept approx est al u.s u.k a.m p.m"
)
_SHORT_FORMS = frozenset(_ABBREVIATED.split())
_END = re.compile(
    rf"[{FULL_STOPS}]++[\"')\]\u201d\u2019\u300d\u300f\uff09]*+"
    r"|(?<![.!?])[.!?]++[\"')\]\u201d\u2019]*+(?=\s++[\"'(\[\u201c\u2018`*_]*[A-Z0-9])|\n\s*\n"
    r"|\n(?=\s*(?:[-*+]\s|#{1,6}\s|[>|]|\d+[.)]\s|[^\s:=]+\s*(?::[ \t]+\S|=)))"
)
_MAX_SENTENCE_CHARS = 700
_MAX_NUMBER_DIGITS = 3


def sentences(text: str, *, by_line: bool = False) -> Iterator[Span]:
    """Yield the span of each sentence of a text; `by_line`: of each line, as of a log, code or config."""
    if by_line:
        yield from (trim_span(text, at, at + len(line)) for at, line in text_lines(text) if line.strip())
        return
    start = 0
    for end in _END.finditer(text):
        if end[0][:1] == "." and _ends_short_form(text[start : end.start()]):
            continue
        yield from _pieces(text, start, end.end())
        start = end.end()
    yield from _pieces(text, start, len(text))


def _ends_short_form(before: str) -> bool:
    """Return whether a full stop belongs to the word before it: an abbreviation, an initial, or an item number."""
    word = before.rsplit(None, 1)[-1].lower() if before.strip() else ""
    if word.isdigit() and before.rpartition("\n")[2].strip() == word:
        return len(word) <= _MAX_NUMBER_DIGITS
    return word.strip("(\"'") in _SHORT_FORMS or (len(word) == 1 and word.isalpha())


def _pieces(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield a sentence, split into lines if it is too long."""
    if end - start <= _MAX_SENTENCE_CHARS:
        lines = [(start, end)]
    else:
        lines = [(start + at, start + at + len(line)) for at, line in text_lines(text[start:end])]
    for begin, over in lines:
        if text[begin:over].strip():
            yield trim_span(text, begin, over)


def trim_span(text: str, start: int, end: int) -> Span:
    """Return a span without the white space at its ends."""
    piece = text[start:end]
    return Span(start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip()))
