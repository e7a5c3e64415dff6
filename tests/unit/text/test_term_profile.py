"""Terms of stored texts: packed and unpacked alike, and those of before as long as their version is the same."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.retrieval.term_profile import RULES, TextTerms, extract_terms, unpack
from knowledge.text.bm25 import term_counts

SAMPLES = (
    "",
    "ModuleNotFoundError: No module named 'app.core' when the URLs of get_user2 are dying",
    "データベース接続が失敗しました。 pip install psycopg2-binary==2.9.9",
    "skies cried " * 400 + "\nE   AssertionError: assert CamelCaseName == 'x'",
)


def parts(terms: TextTerms) -> tuple[object, ...]:
    prefixes = {"dyi", "ski"}
    return terms.words_for(prefixes), terms.opening_for(prefixes), list(terms.wholes), terms.ids


@pytest.mark.parametrize("text", SAMPLES)
def test_packed_terms_are_unpacked_alike(text: str) -> None:
    terms = extract_terms(text)
    assert parts(unpack(terms.pack())) == parts(terms)
    assert terms.ids == term_counts(text).keys()


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_any_text_is_packed(text: str) -> None:
    terms = extract_terms(text)
    assert parts(unpack(terms.pack())) == parts(terms)


def test_a_stem_that_begins_otherwise_counts_only_where_the_question_has_a_word_of_that_beginning() -> None:
    terms = extract_terms("a dying process")
    assert terms.words_for({"die"}) == ["dying", "process"]
    assert terms.words_for({"die", "dyi"}) == ["die", "process"]


def test_the_terms_of_texts_change_only_with_the_version_of_the_rules() -> None:
    packed = sha256(b"".join(extract_terms(text).pack() for text in SAMPLES)).hexdigest()
    assert (RULES, packed[:16]) == (1, "55ff41a9d46b1b67"), "raise RULES, and put the new hash here"
