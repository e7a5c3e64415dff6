"""Which forms of a question's words a text may have, and which of its words only ask."""

from __future__ import annotations

from knowledge.documents.extraction.inflection import forms_of, terms_counted
from knowledge.text.bm25 import term_counts
from tests.support.cases import each_case


def lacking(question: str, text: str) -> int:
    """Return how many words of a question a text does not have in any form."""
    told = term_counts(text)
    return sum(not any(form in told for form in forms) for forms in forms_of(question).values())


@each_case
def test_a_text_may_say_it_in_another_form_and_need_not_say_what_only_asks(question: str, text: str) -> None:
    assert lacking(question, text) == 0


@each_case
def test_other_words_have_to_be_said(question: str, text: str) -> None:
    assert lacking(question, text) > 0


def test_what_is_counted_is_the_word_behind_how_many() -> None:
    assert terms_counted("How many hosts are there?") == set(term_counts("hosts"))
    assert terms_counted("How much is it?") == terms_counted("Which hosts are there?") == set()
