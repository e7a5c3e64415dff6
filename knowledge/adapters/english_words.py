"""The words of English that the bundled embedding model knows whole, 20,000: they are spelt as they should be."""

from __future__ import annotations

import json
from functools import cache
from typing import Final

from knowledge.adapters.local_embedder import bundled_model
from knowledge.errors import EmbedderUnavailable

_LEAST_LETTERS: Final = 3
_ENDINGS: Final = ("s", "es", "d", "ed", "ing", "er", "r", "ly")


def is_english(word: str) -> bool:
    """Return whether a word in lower case, or what it is an inflection of, is one; read at the first question.

    Without the model's files every word is one.
    """
    words = _words()
    if not words or word in words or f"{word}s" in words:
        return True
    stems = (word.removesuffix(ending) for ending in _ENDINGS if word.endswith(ending) and not word.endswith("ss"))
    return any(len(each) >= _LEAST_LETTERS and not words.isdisjoint((each, f"{each}e", f"{each}s")) for each in stems)


@cache
def _words() -> frozenset[str]:
    try:
        told = json.loads(bundled_model().tokenizer.read_bytes())
    except (EmbedderUnavailable, OSError, ValueError):
        return frozenset()
    return frozenset(word for word in told["model"]["vocab"] if len(word) >= _LEAST_LETTERS and word.isalpha())
