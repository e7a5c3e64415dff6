"""A text cut into its sentences and lines, each with its place; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from knowledge.documents.aligning import Span

_ABBREVIATED = (
    "mr mrs ms dr prof st vs etc e.g i.e cf fig no vol jr sr inc ltd co corp dept approx est al u.s u.k a.m p.m"
)
_SHORT_FORMS = frozenset(_ABBREVIATED.split())
_END = re.compile(
    r"(?<![.!?])[.!?]++[\"')\]\u201d\u2019]*+(?=\s++[\"'(\[\u201c\u2018`]*[A-Z0-9])|\n\s*\n|\n(?=\s*(?:[-*+#>|]|\d+[.)]\s|\S+\s*[:=]))"
)
_LINE = re.compile(r"[^\n]+")
_LONGEST = 700


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
    word = before.rsplit(None, 1)[-1].lower() if before.strip() else ""
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
