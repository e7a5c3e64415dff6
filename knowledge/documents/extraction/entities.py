"""Names and prices that a question asks for, and checks that a text mentions them; pure.

What is said of the EU answers nothing of the US, however many other words both share.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Final

_ASKS: Final = re.compile(
    r"\A\W*(?:and\s+|but\s+)?(?:(?:in|on|at|to|from|for|by|with|under|after|since|until|of)\s+)?(?:what|which|who|whom|whose"
    r"|how|when|where|why|is|are|was|were|do|does|did|can|could|may|must|should|will|has|have|had)\b",
    re.IGNORECASE,
)
"""How a question begins in English; in other languages a capital may say less."""
_WORD: Final = re.compile(r"[^\W_][\w+#.&/-]*")
_ENDS: Final = (".", "?", "!", ":")
_QUOTED: Final = re.compile(r"\"[^\"\n]*\"|`[^`\n]*`")
_PRICE_ASKED: Final = re.compile(
    r"\bhow\s+(?:much|expensive)\b.*\b(?:costs?|charged?|pay|paid|expensive)\b|\bwhat\b.{0,80}?\bcosts?\W*\Z"
    r"|\bwhat(?:'s|\s+is|\s+are|\s+was)\s+the\s+(?:[\w-]+\s+){0,2}(?:price|cost|fee)s?\s+(?:of|for|per)\b",
    re.IGNORECASE | re.DOTALL,
)
_PRICE_TOLD: Final = re.compile(
    r"[$\u20ac\u00a3\u00a5]|\b(?:eur|usd|gbp|chf|jpy|euros?|dollars?|pounds?|francs?|yen|cents?|credits?|free|gratis|nothing"
    r"|no\s+extra|included?|price[sd]?|pricing|prices|costs?|cheap\w*|expensive|fees?|charge[sd]?|pays?|paid|salary|budget)\b",
    re.IGNORECASE,
)
_LEAST_LETTERS: Final = 2
_STEM: Final = 4
_LONGEST_SHORT: Final = 5
_DATED: Final = (
    "january february march april may june july august september october november december jan feb mar apr jun jul aug"
    " sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday am pm utc gmt cet cest"
)
_NO_NAMES: Final = frozenset(_DATED.split()) | {"ok", "id", "ids", "faq", "vs"}
"""Times, of which others tell, and what is written with capitals though it names nothing."""
_FUNCTION: Final = "a an the of to in on at for by with from is are was were be do does did can my our your and or not"
_SMALL: Final = frozenset(_FUNCTION.split())
"""Words that have a capital only in a title, where every other word has one, too."""
_ALSO_WORDS: Final = frozenset({"us", "it", "or", "in", "is", "as", "am", "me", "no", "so", "do", "who"})
"""Names that in small letters are another word."""


def names_asked(question: str) -> tuple[tuple[str, ...], ...]:
    """Return the names in an English question, each as its words; none where every word has a capital."""
    if not _ASKS.match(question):
        return ()
    told = _QUOTED.sub(" . ", question)
    words = list(_WORD.finditer(told))
    begin = [at == 0 or told[: each.start()].rstrip().endswith(_ENDS) for at, each in enumerate(words)]
    inner = [each[0] for at, each in enumerate(words) if not begin[at] and len(each[0]) > 1]
    if any(each.istitle() and each.lower() in _SMALL for each in inner):
        return ()
    found: list[list[str]] = []
    last = -1
    for at, each in enumerate(words):
        if begin[at] or not _names(each[0]):
            continue
        name = each[0].rstrip(".-/&")
        if last == at - 1 and found and told[words[last].end() : each.start()].isspace():
            found[-1].append(name)
        else:
            found.append([name])
        last = at
    return tuple(tuple(each) for each in found)


def tells_of(text: str, name: tuple[str, ...]) -> bool:
    """Return whether a text has one of the words of a name, in whatever ending or case, or its initials."""
    return any(re.search(form, text) for word in name for form in _forms(word)) or (
        len(name) > 1 and re.search(rf"\b{re.escape(''.join(word[0] for word in name))}\b", text) is not None
    )


def asks_a_price(question: str) -> bool:
    """Return whether a question asks what something costs."""
    return _PRICE_ASKED.search(question) is not None


def tells_a_price(text: str) -> bool:
    """Return whether a text may say what something costs: it has a currency, or a word of prices."""
    return _PRICE_TOLD.search(text) is not None


def _names(word: str) -> bool:
    letters = "".join(filter(str.isalpha, word))
    known = word.rstrip(".").lower() in _NO_NAMES
    return len(letters) >= _LEAST_LETTERS and letters[0].isupper() and not known


def _forms(word: str) -> Iterator[str]:
    """Yield patterns of a word as a text may have it: with another ending, in parts, or written out."""
    plain = word.removesuffix("s") if word[:-1].isupper() else word
    case = "" if plain.lower() in _ALSO_WORDS else "(?i)"
    if len(plain) <= _STEM or plain.isupper():
        yield rf"{case}(?<![^\W\d_]){re.escape(plain)}(?:s|'s)?(?![^\W\d_])"
        yield rf"(?<![^\W\d_]){re.escape(plain.lower())}(?=[A-Z])|(?<=[a-z]){re.escape(plain.capitalize())}(?![a-z])"
    else:
        yield rf"(?i)(?<![^\W\d_]){re.escape(plain[: max(_STEM, len(plain) - 3)])}"
    letters = "".join(takewhile(str.isupper, plain))
    if letters == plain and len(plain) <= _LONGEST_SHORT:
        yield r"\b" + r"[\w'-]*[\s.-]+(?:(?i:of|and|the|for|in)\s+){0,2}".join(
            f"[{each}{each.lower()}]" for each in plain
        )
    for part in re.split(r"[-/.&_]", plain):
        if part != plain and len(part) >= _STEM:
            yield rf"(?i)(?<![^\W\d_]){re.escape(part)}"
