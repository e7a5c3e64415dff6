"""Words of a question that no document has, read as the words of what was found that they are misspellings of; pure.

Words and names differ by a letter, too: "contract" and "contact", "sharding" and "sharing", `vitest` and `vitess`. So a
word of the language is never read as another one. Any other may be one with two letters in each other's place, or with
one that is doubled or should be: that parts no two names. What differs by a letter otherwise has to be long,
neither a name nor an activity, and is read as a word of the language alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from knowledge.search.lexical import stem

Known = Callable[[str], bool]
"""Whether a word, in lower case, is one of the language."""

_LEAST_MISSED: Final = 6
"""Letters of a word of which one may be missing or too many."""
_LEAST_EXCHANGED: Final = 8
"""Letters of a word of which one may be another one."""
_MOST_READ: Final = 40_000
"""Characters of what was found that are looked through: a document given whole may have millions."""
_ASKED = re.compile(r"(?<![\w./:@#\\'`\"-])[A-Za-z][a-z]{4,29}(?![\w/:@#\\'`\"-]|\.\w)")
_HELD = re.compile(r"(?<![^\W\d_])[^\W\d_]{4,30}(?![^\W\d_])")


class Respelt(NamedTuple):
    """A question without its misspellings, and the words that were, each with the one that it was read as."""

    question: str
    words: tuple[tuple[str, str], ...]


def words_that_may_be_misspelt(question: str) -> list[str]:
    """Return the words of a question that are long enough, and no part of a name, an address or a quotation."""
    return list(dict.fromkeys(_ASKED.findall(question)))


def respelt(question: str, unheard: Iterable[str], texts: Iterable[str], known: Known) -> Respelt | None:
    """Return a question with each unheard word as the one word of the texts that it can be; None where none can."""
    doubtful = [word for word in unheard if not known(word.lower())]
    if not doubtful:
        return None
    held = {word.lower() for text in texts for word in _HELD.findall(text[:_MOST_READ])}
    found: list[tuple[str, str]] = []
    for word in doubtful:
        meant = {each for each in held if _can_be(word, each, known)}
        if len({stem(each) for each in meant}) == 1:
            found.append((word, min(meant, key=lambda each: (len(each), each))))
    for word, meant_word in found:
        question = re.sub(rf"(?<!\w){word}(?!\w)", meant_word, question)
    return Respelt(question, tuple(found)) if found else None


def _can_be(word: str, held: str, known: Known) -> bool:
    asked = word.lower()
    if asked[0] != held[0] or abs(len(asked) - len(held)) > 1 or asked == held:
        return False
    if _swapped(asked, held) or _doubled(asked, held) or _doubled(held, asked):
        return True
    least = _LEAST_EXCHANGED if len(asked) == len(held) else _LEAST_MISSED
    plain = word.islower() and not word.endswith("ing") and len(word) >= least
    return plain and _one_edit(asked, held) and known(held)


def _swapped(one: str, other: str) -> bool:
    return len(one) == len(other) and any(
        one[:at] + one[at + 1] + one[at] + one[at + 2 :] == other for at in range(1, len(one) - 1)
    )


def _doubled(short: str, long: str) -> bool:
    """Return whether a word is another one with a letter written twice."""
    return len(long) == len(short) + 1 and any(
        short[: at + 1] + short[at] + short[at + 1 :] == long for at in range(len(short))
    )


def _one_edit(one: str, other: str) -> bool:
    """Return whether two words are the same but for a letter that one lacks, or that is another one."""
    at = next((at for at, (mine, theirs) in enumerate(zip(one, other, strict=False)) if mine != theirs), len(one))
    rest = one[at + (len(one) >= len(other)) :], other[at + (len(other) >= len(one)) :]
    return rest[0] == rest[1]
