"""Names in a generated text that its source does not have: numbers, codes, paths, quotes and identifiers.

A model may rephrase what it read in ordinary words, but must not name anything that it did not read.
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
"""Typographic and full-width characters, and their ASCII equivalents."""
_QUOTED = re.compile(r"(?<!`)`+([^`]+)`+|\"([^\"]+)\"")
_OPENS, _CLOSES = "([{<'\"*", ".,;:!?)]}>'\"*"
_WORD = r"[^\W\d_]+"
PLAIN_WORD = re.compile(rf"{_WORD}(?:['-]{_WORD})*")
LETTERS = re.compile(_WORD)
_ORDINARY = re.compile(r"[^\W\d_A-Z]+")
_ENDING = re.compile(r"'s$|\(e?s$")
_SHORT_FORMS = frozenset({"e.g", "i.e", "and/or"})
_DIGIT_MEETS_LETTER = re.compile(r"(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)")


def find_invented(text: str, original: str) -> Iterator[str]:
    """Yield the names in a text that its source does not have: quotes, and words with other characters than letters.

    These are numbers, versions, paths, options, error codes and identifiers. Words with inner capitals also count, in
    any case; ordinary words do not.
    """
    source = " ".join(normalize_typography(original).split())
    text = normalize_typography(text)
    for match in _QUOTED.finditer(text):
        quoted = " ".join(match[0].strip('`"').split())
        if not is_mentioned(quoted, source, flags=0 if match[1] else re.IGNORECASE):
            yield quoted
    for word in _QUOTED.sub(" ", text).split():
        token = _ENDING.sub("", word.lstrip(_OPENS).rstrip(_CLOSES))
        if not _has_letters(token) or token in _SHORT_FORMS:
            continue
        if "(" in token:
            token = token.partition("(")[0]
            if not is_mentioned(token, source):
                yield token
        elif PLAIN_WORD.fullmatch(token):
            yield from (
                part for part in LETTERS.findall(token) if not _is_ordinary(part) and not _is_mentioned(part, source)
            )
        elif not is_mentioned(token, source) and not _is_mentioned_in_parts(token, source):
            yield token


def normalize_typography(text: str) -> str:
    """Return a text in NFC with ASCII characters instead of typographic ones."""
    return unicodedata.normalize("NFC", text).translate(_SIGNS)


def _has_letters(token: str) -> bool:
    return any(map(str.isalnum, token))


def _is_ordinary(word: str) -> bool:
    """Return whether a word has no capital but the first."""
    return word[1:] == word[1:].lower()


def _is_mentioned(word: str, source: str) -> bool:
    forms = [word, word[:-1]] if word.endswith("s") and word[:-1].isupper() else [word]
    return any(is_mentioned(form, source, flags=re.IGNORECASE) for form in forms)


def _is_mentioned_in_parts(token: str, source: str) -> bool:
    """Return whether a token joins a source token to ordinary words by dashes, or source words by slashes."""
    inner = _without_edges(token)
    if inner != token and _has_letters(inner) and is_mentioned(inner, source):
        return True
    sides = token.split("/")
    return len(sides) > 1 and all(PLAIN_WORD.fullmatch(side) and _is_mentioned(side, source) for side in sides)


def _without_edges(token: str) -> str:
    """Return a token without the ordinary words that dashes join to its beginning and its end."""
    parts = token.split("-")
    first, end = 0, len(parts)
    while first < end - 1 and _ORDINARY.fullmatch(parts[first]):
        first += 1
    while end > first + 1 and _ORDINARY.fullmatch(parts[end - 1]) and re.search(r"\w$", parts[end - 2]):
        end -= 1
    return "-".join(parts[first:end])


def is_mentioned(token: str, source: str, *, flags: int = 0) -> bool:
    """Return whether a text has a token, not as part of a longer word or number; `10 ms` counts as `10ms`."""
    pattern = r"\s?".join(map(re.escape, _DIGIT_MEETS_LETTER.split(token)))
    before = r"(?<!\w)(?<!\d[.,])" if token[:1].isdigit() else r"(?<!\w)"
    after = r"(?!\w)(?![.,:]\d)" if token[-1:].isdigit() else r"(?!\w)"
    return re.search(before + pattern + after, source, flags) is not None
