"""Where a quote stands in a text: exactly but for blanks, case and typesetting, or nearly, with what counts unchanged.

Measured on 1,265 sentences that people chose as evidence: each is found exactly. A sentence of another passage never
reaches 95 of rapidfuzz (0 of 1,991), but a quote with one number changed always does (359 of 359): so numbers, names of
code and words that turn a sentence round have to be equal besides.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from typing import NamedTuple

from rapidfuzz import fuzz

from knowledge.search.lexical import has_unspaced_script
from knowledge.search.naming import normalize_typography
from knowledge.search.tokens import TURNS
from knowledge.unseen import visible_text

ALIKE = 95.0
_LEAST_WORDS = 2
_LEAST_CHARS = 6
_LEAST_FUZZY_CHARS = 24
_LONGEST = 4_000
_EDGES = "*`_"
FULL_STOPS = r"\u3002\uff01\uff1f\uff61\u104b\u17d4"
"""Those of writing that has no blank behind them either."""
_TOKEN = re.compile(rf"[^\s{FULL_STOPS}]++[{FULL_STOPS}]+|\S+")
_PLAIN_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_PUNCTUATION = ".,;:!?()[]{}<>\"'`*"


class Span(NamedTuple):
    """Where characters stand in a text: from, and up to."""

    start: int
    end: int


class Plain:
    """A text as it is compared: one form of each sign, single blanks, no case; and where each character of it stood."""

    def __init__(self, text: str) -> None:
        pieces: list[str] = []
        self._starts: list[int] = []
        self._origins: list[Span] = []
        at = 0
        for token in _TOKEN.finditer(text):
            piece = _compared(token[0])
            if piece:
                self._starts.append(at)
                self._origins.append(Span(*token.span()))
                pieces.append(piece)
                at += len(piece) + 1
        self.text = " ".join(pieces)

    def origin(self, found: Span) -> Span:
        """Return where a span of the compared text stands in the text itself, in whole tokens."""
        first = bisect_right(self._starts, found.start) - 1
        last = bisect_right(self._starts, max(found.start, found.end - 1)) - 1
        return Span(self._origins[first].start, self._origins[last].end)

    def widened(self, start: int, end: int) -> Span:
        """Return a span of the compared text, widened to whole tokens."""
        first = bisect_right(self._starts, start) - 1
        after = self.text.find(" ", end - 1)
        return Span(self._starts[max(first, 0)], len(self.text) if after < 0 else after)


def _compared(token: str) -> str:
    plain = unicodedata.normalize("NFKC", normalize_typography(visible_text(token))).casefold()
    plain = "".join(plain.replace("``", '"').replace("''", '"').split())
    return plain.strip(_EDGES) or plain


def align(quote: str, source: Plain) -> Span | None:
    """Return where a quote stands in the text itself, None where it does not or says too little to be evidence."""
    asked = Plain(quote).text.strip("\"'. ")
    if len(asked) > _LONGEST or not _tells(asked):
        return None
    exact = _exact(asked, source.text)
    if exact is not None:
        return source.origin(exact)
    return _nearly(asked, source)


def _tells(asked: str) -> bool:
    """Return whether a quote says enough to be evidence: two words, or a longer one that is more than letters.

    Writing without blanks says it in one.
    """
    words = [word for word in asked.split() if any(map(str.isalnum, word))]
    if len(words) >= _LEAST_WORDS:
        return len(asked) >= _LEAST_CHARS
    return len(asked) >= _LEAST_CHARS and (has_unspaced_script(asked) or not _PLAIN_WORD.fullmatch(asked))


def _exact(asked: str, told: str) -> Span | None:
    """Return the first place where the quote stands between words and numbers, not within one."""
    start = told.find(asked)
    while start >= 0:
        end = start + len(asked)
        if _between(told, start, end):
            return Span(start, end)
        start = told.find(asked, start + 1)
    return None


def _between(told: str, start: int, end: int) -> bool:
    before, after = told[max(0, start - 2) : start], told[end : end + 2]
    first, last = told[start], told[end - 1]
    if first.isalnum() and before and (before[-1].isalnum() or before[-1] == "_"):
        return False
    if first.isdigit() and (
        before[-1:] in {"-", "+", "$"} or (len(before) == 2 and before[0].isdigit() and before[1] in ".,:")
    ):
        return False
    if last.isalnum() and after and (after[0].isalnum() or after[0] in "_%"):
        return False
    return not (last.isdigit() and len(after) == 2 and after[0] in ".,:" and after[1].isdigit())


def _nearly(asked: str, source: Plain) -> Span | None:
    if not _LEAST_FUZZY_CHARS <= len(asked) <= len(source.text):
        return None
    found = fuzz.partial_ratio_alignment(asked, source.text, score_cutoff=ALIKE)
    if found is None:
        return None
    span = source.widened(found.dest_start, found.dest_end)
    if fuzz.ratio(asked, source.text[span.start : span.end]) < ALIKE:
        return None
    if _counting(asked) != _counting(source.text[span.start : span.end]):
        return None
    return source.origin(span)


def _counting(text: str) -> Counter[str]:
    """Return what must be equal in two wordings of one sentence: what is more than letters, and what turns it round.

    Of writing without blanks that is all of it.
    """
    words = (word.strip(_PUNCTUATION) for word in text.split())
    return Counter(
        word
        for word in words
        if word and (word in TURNS or has_unspaced_script(word) or not _PLAIN_WORD.fullmatch(word))
    )
