"""Which words of a question are misspelt, and as which of the words that were found they are read."""

from __future__ import annotations

from knowledge.adapters.embedding.local import is_english
from knowledge.documents.retrieval.spelling import correct_spelling, correctable_words
from tests.support.cases import each_case


def read(question: str, *texts: str) -> str | None:
    found = correct_spelling(question, correctable_words(question), texts, is_english)
    return found and found.question


@each_case
def test_a_misspelt_word_is_read_as_the_one_that_was_found(question: str, text: str, meant: str) -> None:
    assert read(question, text) == meant


@each_case
def test_another_word_or_name_is_no_misspelling(question: str, text: str) -> None:
    assert read(question, text) is None


def test_a_word_that_can_be_two_is_left_as_it_is() -> None:
    assert read("Who holds the postion?", "The position holds.") == "Who holds the position?"
    assert read("Who holds the postion?", "The position of the potion.") is None
