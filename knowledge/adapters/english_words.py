"""The 20,000 English words in the vocabulary of the bundled embedding model, which are spelt correctly."""

from __future__ import annotations

import json
from functools import cache
from typing import Final

from knowledge.adapters.local_embedder import bundled_model
from knowledge.errors import EmbedderUnavailable

_MIN_LETTERS: Final = 3
_ENDINGS: Final = ("s", "es", "d", "ed", "ing", "er", "r", "ly")


def is_english(word: str) -> bool:
    """Return whether a word in lower case, or its stem, is English; the words are read at the first call.

    Without the model's files every word is.
    """
    words = _words()
    if not words or word in words or f"{word}s" in words:
        return True
    stems = (word.removesuffix(ending) for ending in _ENDINGS if word.endswith(ending) and not word.endswith("ss"))
    return any(len(each) >= _MIN_LETTERS and not words.isdisjoint((each, f"{each}e", f"{each}s")) for each in stems)


@cache
def _words() -> frozenset[str]:
    try:
        tokenizer = json.loads(bundled_model().tokenizer.read_bytes())
    except (EmbedderUnavailable, OSError, ValueError):
        return frozenset()
    return frozenset(word for word in tokenizer["model"]["vocab"] if len(word) >= _MIN_LETTERS and word.isalpha())
