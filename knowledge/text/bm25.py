"""Sparse vectors of a text's terms: identifiers, error codes, paths and versions count both whole and split.

Chinese, Japanese, Thai, Lao, Burmese and Khmer have no spaces between words, so bigrams of characters serve as words,
as in Lucene's CJK analyser; combining marks belong to their character.

BM25 (Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework"): the stored vector has the term frequency
part, the query vector the inverse document frequency, so that their dot product is the score. k1 and b have their usual
values; the mean length is fixed per collection.
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
"""Mean number of terms of a situation, until a collection has its own (49-132 in our sets of real texts)."""

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
"""Runs of scripts without spaces, except for digits and punctuation."""
_CHARACTER = re.compile(rf"[{_LETTERS}{_MARKS}](?:[\u1039\u17d2][{_LETTERS}]|[{_MARKS}])*")
"""A character with its marks; U+1039 and U+17D2 stack another one below it."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PLURAL = re.compile(r"(?<=[A-Z]{2})s(?![a-z0-9])")
"""The plural s of acronyms such as `URLs`, which the stemmer keeps if there is no vowel."""
_STOP_WORDS = (
    "a an and are as at be been but by can could did do does for from had has have he her his how i if in into is it"
    " its just me more most my no nor not of on or our out she should so some such than that the their them then there"
    " these they this those to too very was we were what when where which while who will with would you your"
)
_STOP = frozenset(_STOP_WORDS.split())
_MAX_WHOLE_CHARS = 80
MAX_CACHED_CHARS = 40
"""Longer chunks, such as encoded bytes, seldom repeat and would fill the caches."""

_local = threading.local()


@lru_cache(maxsize=1 << 15)
def _stem_with_cache(word: str) -> str:
    return _stem(word)


def stem(word: str) -> str:
    """Return the stem of a word in lower case; cached, since the stemmer takes 50 microseconds per word."""
    return _stem_with_cache(word) if len(word) <= MAX_CACHED_CHARS else _stem(word)


def _stem(word: str) -> str:
    stemmer = getattr(_local, "stemmer", None)
    if stemmer is None:
        stemmer = _local.stemmer = snowballstemmer.stemmer("english")
    stemmed: str = stemmer.stemWord(word)
    return stemmed


@lru_cache(maxsize=1 << 15)
def _parts_with_cache(chunk: str) -> tuple[tuple[str, ...], str | None]:
    return _parts(chunk)


def _parts(chunk: str) -> tuple[tuple[str, ...], str | None]:
    if has_unspaced_script(chunk):
        return (chunk,), None
    parts = tuple(part.lower() for piece in _CAMEL.split(_PLURAL.sub("", chunk)) for part in _WORD.findall(piece))
    whole = chunk.lower() if len(parts) > 1 and len(chunk) <= _MAX_WHOLE_CHARS else None
    return tuple(part for part in parts if part not in _STOP), whole


def chunks(text: str) -> list[str]:
    """Return the chunks between spaces and punctuation, in order; bigrams for scripts without spaces."""
    if not has_unspaced_script(text):
        return _CHUNK.findall(text)
    parts = enumerate(_UNSPACED.split(text))
    return [chunk for at, part in parts for chunk in (_pairs(part) if at % 2 else _CHUNK.findall(part))]


def has_unspaced_script(text: str) -> bool:
    """Return whether a text has characters of a script without spaces between words."""
    return not text.isascii() and _UNSPACED.search(text) is not None


def _pairs(run: str) -> list[str]:
    characters = _CHARACTER.findall(run)
    return [one + other for one, other in itertools.pairwise(characters)] or characters


def words_and_whole(chunk: str) -> tuple[tuple[str, ...], str | None]:
    """Return the lower-case words of a chunk without stop words, and the whole chunk if it is an identifier."""
    return _parts_with_cache(chunk) if len(chunk) <= MAX_CACHED_CHARS else _parts(chunk)


def words_and_wholes(text: str) -> tuple[list[str], list[str]]:
    """Return the lower-case words of a text in order, without stop words, and its whole identifiers."""
    words: list[str] = []
    wholes: list[str] = []
    for chunk in chunks(text):
        parts, whole = words_and_whole(chunk)
        words += parts
        if whole is not None:
            wholes.append(whole)
    return words, wholes


@lru_cache(maxsize=1 << 15)
def _ids_with_cache(chunk: str) -> tuple[int, ...]:
    return _ids(chunk)


def _ids(chunk: str) -> tuple[int, ...]:
    words, whole = words_and_whole(chunk)
    ids = tuple(term_id(stem(word)) for word in words)
    return ids if whole is None else (*ids, term_id(whole))


def _ids_of(chunk: str) -> tuple[int, ...]:
    return _ids_with_cache(chunk) if len(chunk) <= MAX_CACHED_CHARS else _ids(chunk)


def terms(text: str) -> list[str]:
    """Return the terms of a text: its stemmed words in order, then its whole identifiers."""
    words, wholes = words_and_wholes(text)
    return [stem(word) for word in words] + wholes


def term_id(term: str) -> int:
    """Return the id of a term: its CRC-32, unsigned. Expect about one collision among 100,000 terms."""
    return zlib.crc32(term.encode())


def term_counts(text: str) -> Counter[int]:
    """Return the frequency of each term id in a text."""
    return Counter(itertools.chain.from_iterable(map(_ids_of, chunks(text))))


def document_vector(
    counts: Mapping[int, int], mean_terms: float, *, gist: Mapping[int, int] | None = None
) -> SparseVector:
    """Return the stored side of BM25: saturated term frequencies, normalised by length.

    `gist`: term frequencies of the part that says what the text is about. They are normalised by the length of that
    part, as a field of BM25F (Robertson, Zaragoza and Taylor 2004) is, so that a long text is found by its gist as well
    as a short one.
    """
    weights = _document_weights(counts, mean_terms)
    if gist:
        weights |= {
            i: max(weights[i], weight) for i, weight in _document_weights(gist, mean_terms).items() if i in weights
        }
    indices = tuple(sorted(weights))
    return SparseVector(indices=indices, values=tuple(weights[i] for i in indices))


def _document_weights(counts: Mapping[int, int], mean_terms: float) -> dict[int, float]:
    norm = K1 * (1 - B + B * sum(counts.values()) / mean_terms)
    return {i: count * (K1 + 1) / (count + norm) for i, count in counts.items()}


def inverse_document_frequency(documents: int, frequency: int) -> float:
    """Return ln(1 + (N - n + 0.5) / (n + 0.5)), the never negative form that Lucene and Qdrant use."""
    return math.log1p((max(documents, frequency) - frequency + 0.5) / (frequency + 0.5))


def query_vector(counts: Mapping[int, int], statistics: TermStatistics) -> tuple[SparseVector, float]:
    """Return the query side of BM25, and the sum of its weights.

    Terms that do not occur in the workspace are left out, since no text can match them. The dot product with a stored
    vector is its BM25 score; a text of mean length that has every term once scores the sum.
    """
    indices = sorted(index for index in counts if statistics.frequencies.get(index))
    weights = tuple(
        counts[index] * inverse_document_frequency(statistics.documents, statistics.frequencies[index])
        for index in indices
    )
    return SparseVector(indices=tuple(indices), values=weights), sum(weights)


def mean_terms(texts: Iterable[Mapping[int, int]]) -> float:
    """Return the mean number of terms of texts, given their term counts; the default for none."""
    lengths = [sum(counts.values()) for counts in texts]
    return sum(lengths) / len(lengths) if lengths and sum(lengths) else DEFAULT_MEAN_TERMS
