"""Terms of a stored text as ranking compares them with a question: extracted once, kept with the entry.

A query then tokenises its question alone. A word is kept as its stem. Where the stem begins otherwise than the word
(`dying`, `die`) both are kept: which of them counts depends on the question (`TextTerms.words_for`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from knowledge.text.bm25 import MAX_CACHED_CHARS, chunks, stem, term_counts, words_and_whole

RULES = 2
"""Version of all that a profile is made by: these rules, the tokenizer and stemmer below them, and what is read of an
entry (`memory.rules.entry_profile`). A profile of another version is not used, so raise it with any change
(`tests/unit/text/test_term_profile.py` compares with profiles made before)."""

MAX_HEAD_CHARS = 1_200
"""Characters read from the start of a text. Time grows with them; more change nothing, 800 cost a point of hit@1."""

MAX_TAIL_CHARS = 600
"""Characters read from its end, too, where a log has its error."""

PREFIX = 3
"""A stem begins like its word, so a word with another prefix than all query terms cannot match any."""

_OPENING = 160
_EITHER = "\1"
"""Joins a word and its stem that begins otherwise. No word has such a character, a space or a line break."""


@dataclass(frozen=True)
class TextTerms:
    """The words of a text's two ends in order, its whole identifiers, the terms of its opening, and all term ids.

    Each is packed; `pack` and `unpack` are inverse.
    """

    packed_words: str
    packed_wholes: str
    packed_opening: str
    packed_ids: bytes

    @property
    def ids(self) -> frozenset[int]:
        """The ids of all terms of the whole text."""
        return frozenset(np.frombuffer(self.packed_ids, dtype="<u4").tolist())

    @property
    def wholes(self) -> Sequence[str]:
        """The whole identifiers."""
        return _split(self.packed_wholes)

    def words_for(self, prefixes: Collection[str]) -> list[str]:
        """Return the words in order, stemmed; `prefixes`: the beginnings of the terms that are looked for."""
        return _choose(self.packed_words, prefixes)

    def opening_for(self, prefixes: Collection[str]) -> list[str]:
        """Return the words and whole identifiers of the beginning."""
        return _choose(self.packed_opening, prefixes)

    def pack(self) -> bytes:
        """Return the terms as bytes."""
        lines = f"{self.packed_words}\n{self.packed_wholes}\n{self.packed_opening}"
        return lines.encode() + b"\0" + self.packed_ids


def unpack(packed: bytes) -> TextTerms:
    """Return the terms from bytes."""
    lines, ids = packed.split(b"\0", 1)
    words, wholes, opening = lines.decode().split("\n")
    return TextTerms(words, wholes, opening, ids)


def extract_terms(text: str, ids: Collection[int] | None = None) -> TextTerms:
    """Return the terms of a text; `ids`: those of the whole text, where they were counted before."""
    words, wholes = _pack_words(_ends(text))
    first_words, first_wholes = _pack_words(text[:_OPENING])
    return TextTerms(
        packed_words=words,
        packed_wholes=wholes,
        packed_opening=f"{first_words} {first_wholes}" if first_words and first_wholes else first_words or first_wholes,
        packed_ids=np.array(sorted(term_counts(text) if ids is None else ids), dtype="<u4").tobytes(),
    )


def _ends(text: str) -> str:
    return (
        text if len(text) <= MAX_HEAD_CHARS + MAX_TAIL_CHARS else f"{text[:MAX_HEAD_CHARS]}\n{text[-MAX_TAIL_CHARS:]}"
    )


def _pack_words(text: str) -> tuple[str, str]:
    """Return the words of a text in order, and its whole identifiers."""
    packed = [_pack_chunk(chunk) if len(chunk) <= MAX_CACHED_CHARS else _pack(chunk) for chunk in chunks(text)]
    return " ".join([words for words, _ in packed if words]), " ".join([whole for _, whole in packed if whole])


@lru_cache(maxsize=1 << 15)
def _pack_chunk(chunk: str) -> tuple[str, str]:
    return _pack(chunk)


def _pack(chunk: str) -> tuple[str, str]:
    words, whole = words_and_whole(chunk)
    return " ".join(map(_pack_word, words)), whole or ""


def _pack_word(word: str) -> str:
    stemmed = stem(word)
    return stemmed if stemmed[:PREFIX] == word[:PREFIX] else f"{word}{_EITHER}{stemmed}"


def _split(packed: str) -> list[str]:
    return packed.split(" ") if packed else []


def _choose(packed: str, prefixes: Collection[str]) -> list[str]:
    words = _split(packed)
    if _EITHER not in packed:
        return words
    return [_choose_word(word, prefixes) if _EITHER in word else word for word in words]


def _choose_word(word: str, prefixes: Collection[str]) -> str:
    written, stemmed = word.split(_EITHER)
    return stemmed if written[:PREFIX] in prefixes else written
