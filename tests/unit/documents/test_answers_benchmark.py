"""What is printed of answers is what came of the questions."""

from __future__ import annotations

from benchmarks.answers import answers_table, reached
from orchestrator.evaluation.answer_quality import QuestionResult


def judged(*, answerable: bool, answered: bool, place: int | None = 1, follows: bool = False) -> QuestionResult:
    return QuestionResult(
        question_id="q",
        answerable=answerable,
        answered=answered,
        cited=frozenset({"a", "b"}) if answered else frozenset(),
        relevant=frozenset({"a"}) if answerable else frozenset(),
        dropped=0,
        sure=0.9 if answerable else 0.1,
        place=place,
        plain_place=None if follows else place,
        whole_place=2,
        in_conversation=follows,
        follows=follows,
        milliseconds=10,
        extractive=True,
        signs={},
    )


def test_each_side_of_abstention_is_counted_over_its_own_questions() -> None:
    found = [judged(answerable=True, answered=at < 9) for at in range(10)]
    found += [judged(answerable=False, answered=at < 1) for at in range(4)]
    told = answers_table({"clapnq": found})
    assert "| questions, of them unanswerable | 14, 4 |" in told
    assert "| false answers, of the unanswerable | 0.250 [" in told
    assert "| false refusals, of the answerable | 0.100 [" in told
    assert "| citations: precision | 0.500 [" in told
    assert "| citations: recall | 1.000 [" in told
    assert "| surer of the answerable (AUC) | 1.000 |" in told
    assert all(reached(found).values())
    assert not all(reached([*found, judged(answerable=False, answered=True)]).values())
