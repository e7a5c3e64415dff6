"""Words of a text: what counts as a term, and that the two sides of the product are BM25."""

from __future__ import annotations

import math
import zlib
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from knowledge.models import SparseVector, TermStatistics
from knowledge.text.bm25 import (
    DEFAULT_MEAN_TERMS,
    chunks,
    document_vector,
    inverse_document_frequency,
    mean_terms,
    query_vector,
    term_counts,
    term_id,
    terms,
)
from tests.support.cases import each_case, over

ANY_TEXT = st.text(st.characters(codec=None, categories=None))
"""Every character there is, lone surrogates and NUL included."""


@over(
    "text, whole, parts",
    [
        ("ModuleNotFoundError", "modulenotfounderror", {"modul", "error", "found"}),
        ("snake_case_name", "snake_case_name", {"snake", "case", "name"}),
        ("HTTPServer", "httpserver", {"http", "server"}),
        ("userIDs", "userids", {"user", "id"}),
        ("src/shop/cart.py", "src/shop/cart.py", {"src", "shop", "cart", "py"}),
        ("C:\\temp\\log.txt", "c:\\temp\\log.txt", {"c", "temp", "log", "txt"}),
        ("E1101", "e1101", {"e", "1101"}),
        ("TS2345:", "ts2345", {"ts", "2345"}),
        ("3.11.4", "3.11.4", {"3", "11", "4"}),
        ("numpy==2.1", "2.1", {"numpi", "2", "1"}),
        ("std::vector", "std::vector", {"std", "vector"}),
        ("user@example.org", "user@example.org", {"user", "exampl", "org"}),
    ],
)
def test_identifiers_codes_paths_and_versions_count_whole_and_split(text: str, whole: str, parts: set[str]) -> None:
    found = terms(text)
    assert whole in found
    assert parts <= set(found)


def test_a_plain_word_counts_once_by_its_stem() -> None:
    assert terms("failing") == terms("fails") == terms("FAILED.") == ["fail"]
    assert terms("PDFs") == terms("pdf") == terms("PDF") == ["pdf"]


def test_words_that_tell_nothing_apart_are_left_out() -> None:
    assert terms("What is it that they would have been?") == []
    assert terms("the cart is empty") == ["cart", "empti"]


def test_a_chunk_that_is_too_long_for_a_name_counts_in_parts_only() -> None:
    blob = "ab1" * 40
    assert blob not in terms(blob)
    assert set(terms(blob)) == {"ab", "1"}


@over("text", ["naïveté café", "переменная не найдена", "変数 が 見つかりません", "متغير غير معرف"])
def test_words_of_any_script_are_terms(text: str) -> None:
    assert len(terms(text)) >= 2


@each_case
def test_writing_without_blanks_counts_by_pairs_of_neighbours(told: str, asked: str) -> None:
    assert len(set(terms(told)) & set(terms(asked))) >= 2


def test_a_mark_belongs_to_its_character_and_other_writing_in_the_same_chunk_stays_whole() -> None:
    assert terms("เงิน") == ["เงิ", "งิน"]
    assert terms("請") == ["請"]
    assert terms("查看src/shop/cart.py文件") == ["查看", "src", "shop", "cart", "py", "文件", "src/shop/cart.py"]
    assert chunks("「3.11版本」へ") == ["3.11", "版本", "へ"]


def test_other_texts_have_the_terms_that_they_always_had() -> None:
    """So what is stored and what was measured of them stands."""
    texts = [
        "naïveté café E1101 src/shop/cart.py",
        "переменная не найдена",
        "배송 조회 페이지",
        "متغير غير معرف",
        "हिन्दी",
    ]
    found = [zlib.crc32(repr(sorted(term_counts(text).items())).encode()) for text in texts]
    assert found == [438290329, 1428035419, 2410759532, 1740232011, 2949299669]


@given(ANY_TEXT)
def test_any_text_has_counted_terms_that_are_unsigned_numbers(text: str) -> None:
    counts = term_counts(text)
    assert sum(counts.values()) == len(terms(text))
    assert all(0 <= index < 2**32 for index in counts)


@given(ANY_TEXT)
def test_case_does_not_matter_for_plain_words(text: str) -> None:
    plain = " ".join(word for word in text.split() if word.isascii() and word.isalpha())
    assert set(terms(plain.lower())) == set(terms(plain.upper()))


def test_the_number_of_a_term_is_the_same_in_every_process() -> None:
    assert term_id("modulenotfounderror") == 3050581009


BAG = st.dictionaries(st.integers(0, 2**32 - 1), st.integers(1, 50), max_size=20)


@given(BAG, BAG, BAG, st.integers(0, 10_000), st.floats(1, 500))
def test_the_product_of_the_two_sides_is_bm25(
    asked: dict[int, int], told: dict[int, int], seen: dict[int, int], documents: int, mean: float
) -> None:
    query, _ = query_vector(asked, TermStatistics(documents=documents, frequencies=seen))
    k1, b, length = 1.2, 0.75, sum(told.values())
    expected = 0.0
    for term in set(asked) & set(told) & set(seen):
        n, frequency = max(documents, seen[term]), told[term]
        idf = math.log(1 + (n - seen[term] + 0.5) / (seen[term] + 0.5))
        expected += asked[term] * idf * frequency * (k1 + 1) / (frequency + k1 * (1 - b + b * length / mean))
    assert math.isclose(_product(query, document_vector(told, mean)), expected, rel_tol=1e-9, abs_tol=1e-12)


@given(BAG, BAG, st.integers(0, 10_000))
def test_vectors_are_ascending_distinct_and_positive(asked: dict[int, int], seen: dict[int, int], number: int) -> None:
    query, weight = query_vector(asked, TermStatistics(documents=number, frequencies=seen))
    for vector in (query, document_vector(asked, DEFAULT_MEAN_TERMS)):
        assert list(vector.indices) == sorted(set(vector.indices))
        assert all(value > 0 for value in vector.values)
    assert math.isclose(weight, sum(query.values))


def test_words_never_seen_in_the_workspace_are_left_out_of_a_question() -> None:
    known = TermStatistics(documents=10, frequencies={1: 3})
    assert query_vector({1: 1, 2: 5}, known)[0].indices == (1,)
    assert query_vector({2: 5}, known) == (SparseVector(indices=(), values=()), 0)


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1, 10**6))
def test_a_rarer_word_weighs_more_and_none_less_than_nothing(documents: int, frequency: int, more: int) -> None:
    rare, common = (inverse_document_frequency(documents, each) for each in (frequency, frequency + more))
    assert rare > common >= 0 or frequency >= documents


def test_a_text_of_mean_length_with_every_word_once_scores_the_sum_of_the_weights() -> None:
    counts = dict.fromkeys(range(20), 1)
    query, weight = query_vector(counts, TermStatistics(documents=100, frequencies=dict.fromkeys(counts, 7)))
    assert math.isclose(_product(query, document_vector(counts, 20)), weight)


def test_the_mean_length_of_nothing_is_the_default() -> None:
    assert mean_terms([]) == mean_terms([Counter()]) == DEFAULT_MEAN_TERMS
    assert mean_terms([{1: 2, 2: 1}, {3: 1}]) == 2


def _product(query: SparseVector, document: SparseVector) -> float:
    weights = dict(zip(document.indices, document.values, strict=True))
    return sum(value * weights.get(index, 0) for index, value in zip(query.indices, query.values, strict=True))
