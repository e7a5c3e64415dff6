"""The score of the strict knowledge base, number by number."""

from __future__ import annotations

import pytest

from knowledge.documents.retrieval.keyword_score import KeywordDocument, KeywordQuestion, KeywordWeights, keyword_score
from tests.support.cases import over


def score(question: str, *, weights: KeywordWeights | None = None, **document: object) -> float:
    told = {"title": "", "text": "", **document}
    return keyword_score(KeywordQuestion(question), KeywordDocument(**told), weights or KeywordWeights())  # type: ignore[arg-type]


def test_a1_04_a1_06_a1_07_the_exact_query_in_a_title_earns_its_words_and_phrases_besides() -> None:
    assert score("github onboarding", title="GitHub onboarding guide") == pytest.approx(1.5 + 2 * 0.5 + 0.8)


def test_a1_05_a1_08_x_14_the_whole_query_in_a_content_counts_once_and_its_words() -> None:
    assert score("github onboarding", text="See the github onboarding page.") == pytest.approx(1.0 + 2 * 0.15)


def test_a1_06_words_of_a_title_count_each() -> None:
    assert score("rotate keys", title="Keys and locks") == pytest.approx(0.5)


def test_a1_07_two_words_that_follow_each_other_count_in_content_and_title() -> None:
    assert score("rotate service keys", text="the service keys expire") == pytest.approx(2 * 0.15 + 0.5)
    assert score("rotate service keys", title="About service keys") == pytest.approx(2 * 0.5 + 0.8)


def test_a1_08_each_word_of_a_content_counts_however_often_it_stands_there() -> None:
    assert score("rotate keys", text="keys keys keys") == pytest.approx(0.15)


def test_a1_09_a1_10_category_and_tags_count() -> None:
    assert score("deploy the gateway", category="deploy guides") == pytest.approx(0.3)
    assert score("deploy the gateway", tags=["gateway", "deploy", "other"]) == pytest.approx(2 * 0.25)


def test_a1_11_x_14_the_example_of_the_design_scores_4_6() -> None:
    assert score("github onboarding", title="GitHub Onboarding", text="github onboarding") == pytest.approx(4.6)


@over("question, text", [("ai", "We maintain it."), ("art", "Start the party"), ("in", "In it")])
def test_a1_08_a_word_is_no_part_of_a_word_and_a_stop_word_is_none(question: str, text: str) -> None:
    assert score(question, text=text) in {0.0, 1.0}  # the whole query may stand there
    assert score(f"{question} xyzzy", text=text) == 0.0


@over("question", ["What's the API's rate limit?", "What\u2019s the API\u2019s rate limit?"])
def test_a1_06_a1_08_a_word_that_owns_something_is_that_word(question: str) -> None:
    assert score(question, title="API") == pytest.approx(0.5)
    assert score(question, text="The API has a limit.") == pytest.approx(2 * 0.15)
    assert score("xyzzy API", text="What's in the API's log") == pytest.approx(0.15)


def test_a1_21_a1_22_an_address_is_a_word_like_any_other() -> None:
    assert score("https://x.example/a", text="see https://x.example/a now") == pytest.approx(1.0 + 2 * 0.15)


def test_a1_26_weights_are_settings() -> None:
    assert score("keys", text="keys", weights=KeywordWeights(word_in_content=2.0, query_in_content=0.0)) == 2.0


def test_a1_12_nothing_matches_nothing() -> None:
    assert score("elephants", title="Runbook", text="Restart the api.", category="ops", tags=["api"]) == 0.0


def test_writing_without_blanks_matches_in_parts() -> None:
    document = KeywordDocument(title="証明書の更新", text="証明書の有効期限は九十日です。")
    assert keyword_score(KeywordQuestion("有効期限はいつ"), document) > 0
    assert keyword_score(KeywordQuestion("証明書の更新"), document) > 1
    assert keyword_score(KeywordQuestion("社員食堂"), document) == 0
