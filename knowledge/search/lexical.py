"""Words of a text as sparse vectors: identifiers, error codes, paths and version numbers count whole and split.

Chinese, Japanese, Thai, Lao, Burmese and Khmer have no blanks between words: of them each pair of neighbouring
characters stands for a word, as in Lucene's analyser, where the mark on a character belongs to it.

BM25 (Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework"): the document side of the product is
written into the stored vector, the inverse document frequency into the query's, so that an engine's dot product of the
two is the score. k1 and b are the usual ones; the mean length is fixed per collection.
"""

from __future__ import annotations

import itertools
import math
import re
import threading
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

import snowballstemmer

from knowledge.models import SparseVector, TermStatistics

K1 = 1.2
B = 0.75
DEFAULT_MEAN_TERMS = 80.0
"""Mean number of terms of a situation, used until a collection has its own (49-132 over our sets of real texts)."""

_CHUNK = re.compile(r"[^\W_](?:[\w.:/\\#@+-]*[\w])?|\w", re.UNICODE)
_WORD = re.compile(r"[^\W\d_]+|\d+", re.UNICODE)
_MARKS = (
    r"\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u1056-\u1059\u105e-\u1060"
    r"\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d\u17b4-\u17d3\u17dd\u3099\u309a\uff9e\uff9f"
)
_LETTERS = (
    r"\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd\u0ec0-\u0ec6\u0edc-\u0edf\u1000-\u102a\u103f"
    r"\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e\u1780-\u17b3\u17dc\u3005\u3007"
    r"\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\uff66-\uff9d\U00020000-\U0003ffff"
)
_UNSPACED = re.compile(rf"([{_LETTERS}{_MARKS}]+)")
"""Writing without blanks, but for its digits and punctuation."""
_CHARACTER = re.compile(rf"[{_LETTERS}{_MARKS}](?:[\u1039\u17d2][{_LETTERS}]|[{_MARKS}])*")
"""A character with its marks; below U+1039 and U+17D2 stands another one."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PLURAL = re.compile(r"(?<=[A-Z]{2})s(?![a-z0-9])")
"""The s of many URLs: no part of an identifier, and the stemmer leaves it where there is no vowel."""
_STOP_WORDS = (
    "a an and are as at be been but by can could did do does for from had has have he her his how i if in into is it"
    " its just me more most my no nor not of on or our out she should so some such than that the their them then there"
    " these they this those to too very was we were what when where which while who will with would you your"
)
_STOP = frozenset(_STOP_WORDS.split())
_MAX_WHOLE = 80
_LONGEST_KEPT = 40
"""Longer ones, such as encoded bytes, hardly repeat and would fill the memory."""

_local = threading.local()


@lru_cache(maxsize=1 << 15)
def _kept_stem(word: str) -> str:
    return _stem(word)


def stem(word: str) -> str:
    """Return the stem of a word in lower case. Kept, as words repeat: the stemmer takes 50 microseconds for each."""
    return _kept_stem(word) if len(word) <= _LONGEST_KEPT else _stem(word)


def _stem(word: str) -> str:
    stemmer = getattr(_local, "stemmer", None)
    if stemmer is None:
        stemmer = _local.stemmer = snowballstemmer.stemmer("english")
    stemmed: str = stemmer.stemWord(word)
    return stemmed


@lru_cache(maxsize=1 << 15)
def _kept_parts(chunk: str) -> tuple[tuple[str, ...], str | None]:
    return _parts(chunk)


def _parts(chunk: str) -> tuple[tuple[str, ...], str | None]:
    if unspaced(chunk):
        return (chunk,), None
    parts = tuple(part.lower() for piece in _CAMEL.split(_PLURAL.sub("", chunk)) for part in _WORD.findall(piece))
    whole = chunk.lower() if len(parts) > 1 and len(chunk) <= _MAX_WHOLE else None
    return tuple(part for part in parts if part not in _STOP), whole


def chunks(text: str) -> list[str]:
    """Return what stands between blanks and punctuation, in order; of writing without blanks the pairs."""
    if not unspaced(text):
        return _CHUNK.findall(text)
    parts = enumerate(_UNSPACED.split(text))
    return [chunk for at, part in parts for chunk in (_pairs(part) if at % 2 else _CHUNK.findall(part))]


def unspaced(text: str) -> bool:
    """Return whether any of a text is in writing without blanks between words."""
    return not text.isascii() and _UNSPACED.search(text) is not None


def _pairs(run: str) -> list[str]:
    characters = _CHARACTER.findall(run)
    return [one + other for one, other in itertools.pairwise(characters)] or characters


def words_and_whole(chunk: str) -> tuple[tuple[str, ...], str | None]:
    """Return the words of a chunk, in lower case and without stop words, and the whole where it is an identifier."""
    return _kept_parts(chunk) if len(chunk) <= _LONGEST_KEPT else _parts(chunk)


def words_and_wholes(text: str) -> tuple[list[str], list[str]]:
    """Return the words of a text in order, in lower case and without stop words, and its whole identifiers."""
    words: list[str] = []
    wholes: list[str] = []
    for chunk in chunks(text):
        parts, whole = words_and_whole(chunk)
        words += parts
        if whole is not None:
            wholes.append(whole)
    return words, wholes


@lru_cache(maxsize=1 << 15)
def _kept_ids(chunk: str) -> tuple[int, ...]:
    return _ids(chunk)


def _ids(chunk: str) -> tuple[int, ...]:
    words, whole = words_and_whole(chunk)
    ids = tuple(term_id(stem(word)) for word in words)
    return ids if whole is None else (*ids, term_id(whole))


def _ids_of(chunk: str) -> tuple[int, ...]:
    return _kept_ids(chunk) if len(chunk) <= _LONGEST_KEPT else _ids(chunk)


def terms(text: str) -> list[str]:
    """Return the terms of a text in order: stemmed words, and whole identifiers beside their parts."""
    words, wholes = words_and_wholes(text)
    return [stem(word) for word in words] + wholes


def term_id(term: str) -> int:
    """Return the number of a term: CRC-32, unsigned. Two of 100,000 terms share one about once in a store."""
    return zlib.crc32(term.encode())


def term_counts(text: str) -> Counter[int]:
    """Return how often each term id occurs in a text."""
    return Counter(itertools.chain.from_iterable(map(_ids_of, chunks(text))))


def document_vector(
    counts: Mapping[int, int], mean_terms: float, *, gist: Mapping[int, int] | None = None
) -> SparseVector:
    """Return the stored side of BM25: saturated term frequencies, normalised by length.

    `gist`: how often terms occur in the part that tells what the text is about. They count as in a text that is no
    longer than that, as a field of BM25F (Robertson, Zaragoza and Taylor 2004) has a length of its own; so that a long
    text is found by its gist, and by the rest as any long text is.
    """
    weights = _saturated(counts, mean_terms)
    if gist:
        weights |= {i: max(weights[i], weight) for i, weight in _saturated(gist, mean_terms).items() if i in weights}
    indices = tuple(sorted(weights))
    return SparseVector(indices=indices, values=tuple(weights[i] for i in indices))


def _saturated(counts: Mapping[int, int], mean_terms: float) -> dict[int, float]:
    norm = K1 * (1 - B + B * sum(counts.values()) / mean_terms)
    return {i: count * (K1 + 1) / (count + norm) for i, count in counts.items()}


def inverse_document_frequency(documents: int, frequency: int) -> float:
    """Return ln(1 + (N - n + 0.5) / (n + 0.5)), the never negative form that Lucene and Qdrant use."""
    return math.log1p((max(documents, frequency) - frequency + 0.5) / (frequency + 0.5))


def query_vector(counts: Mapping[int, int], statistics: TermStatistics) -> tuple[SparseVector, float]:
    """Return the asking side of BM25, and the sum of its weights.

    Words never seen in the workspace are left out: no text can match them, so they tell nothing apart. A stored
    vector's dot product with this one is its BM25 score; a text of mean length with every word once scores the sum.
    """
    known = sorted(index for index in counts if statistics.frequencies.get(index))
    weights = tuple(
        counts[index] * inverse_document_frequency(statistics.documents, statistics.frequencies[index])
        for index in known
    )
    return SparseVector(indices=tuple(known), values=weights), sum(weights)


def mean_terms(counted: Iterable[Mapping[int, int]]) -> float:
    """Return the mean number of terms of some counted texts, or the default where there are none."""
    lengths = [sum(counts.values()) for counts in counted]
    return sum(lengths) / len(lengths) if lengths and sum(lengths) else DEFAULT_MEAN_TERMS
