"""What a text names that another does not: its numbers, codes, paths, quotes and names of code; pure.

A model may put what it read in its own ordinary words, and may name nothing that it did not read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_SIGNS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011", "-"),
        **dict.fromkeys("\u2013\u2014\u2026\u3001\u3002\u300c\u300d\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f", " "),
    }
)
"""What typesetting, and the scripts that leave no blanks, have for the signs of a keyboard."""
_QUOTED = re.compile(r"(?<!`)`+([^`]+)`+|\"([^\"]+)\"")
_OPENS, _CLOSES = "([{<'\"*", ".,;:!?)]}>'\"*"
_WORD = r"[^\W\d_]+"
_PLAIN = re.compile(rf"{_WORD}(?:['-]{_WORD})*")
_PARTS = re.compile(_WORD)
_ORDINARY = re.compile(r"[^\W\d_A-Z]+")
_ENDING = re.compile(r"'s$|\(e?s$")
_SHORT_FORMS = frozenset({"e.g", "i.e", "and/or"})
_DIGIT_MEETS_LETTER = re.compile(r"(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)")


def invented(written: str, told: str) -> Iterator[str]:
    """Yield what a text names that another does not: what it quotes, and every word that is more than letters.

    That is each number, version, path, option, error code and name of code. So are words with capitals inside, which
    may stand in any case; ordinary words are free.
    """
    said = " ".join(plainly(told).split())
    written = plainly(written)
    for found in _QUOTED.finditer(written):
        quoted = " ".join(found[0].strip('`"').split())
        if not stands_in(quoted, said, flags=0 if found[1] else re.IGNORECASE):
            yield quoted
    for word in _QUOTED.sub(" ", written).split():
        token = _ENDING.sub("", word.lstrip(_OPENS).rstrip(_CLOSES))
        if not _has_letters(token) or token in _SHORT_FORMS:
            continue
        if "(" in token:
            token = token.partition("(")[0]
            if not stands_in(token, said):
                yield token
        elif _PLAIN.fullmatch(token):
            yield from (part for part in _PARTS.findall(token) if not _ordinary(part) and not _known(part, said))
        elif not stands_in(token, said) and not _words_around(token, said):
            yield token


def plainly(text: str) -> str:
    """Return a text with the signs of a keyboard for those of typesetting, composed."""
    return unicodedata.normalize("NFC", text).translate(_SIGNS)


def _has_letters(token: str) -> bool:
    return any(map(str.isalnum, token))


def _ordinary(word: str) -> bool:
    """Whether a word is written as words are: no capital but the first."""
    return word[1:] == word[1:].lower()


def _known(word: str, said: str) -> bool:
    forms = [word, word[:-1]] if word.endswith("s") and word[:-1].isupper() else [word]
    return any(stands_in(form, said, flags=re.IGNORECASE) for form in forms)


def _words_around(token: str, said: str) -> bool:
    """Whether a token is what is told with ordinary words around it, or known words on both sides of a stroke."""
    inner = _without_edges(token)
    if inner != token and _has_letters(inner) and stands_in(inner, said):
        return True
    sides = token.split("/")
    return len(sides) > 1 and all(_PLAIN.fullmatch(side) and _known(side, said) for side in sides)


def _without_edges(token: str) -> str:
    """Return a token without the ordinary words that strokes join to its beginning and its end."""
    parts = token.split("-")
    first, end = 0, len(parts)
    while first < end - 1 and _ORDINARY.fullmatch(parts[first]):
        first += 1
    while end > first + 1 and _ORDINARY.fullmatch(parts[end - 1]) and re.search(r"\w$", parts[end - 2]):
        end -= 1
    return "-".join(parts[first:end])


def stands_in(token: str, said: str, *, flags: int = 0) -> bool:
    """Whether a token stands in a text, not as a part of a longer word or number; `10ms` stands in `10 ms`."""
    pattern = r"\s?".join(map(re.escape, _DIGIT_MEETS_LETTER.split(token)))
    before = r"(?<!\w)(?<!\d[.,])" if token[:1].isdigit() else r"(?<!\w)"
    after = r"(?!\w)(?![.,:]\d)" if token[-1:].isdigit() else r"(?!\w)"
    return re.search(before + pattern + after, said, flags) is not None
