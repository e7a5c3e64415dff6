"""Which of the items of a list are told: all of a procedure, one step only where it answers by itself."""

from __future__ import annotations

import pytest

from hardwon.models.documents import DocumentType
from knowledge.documents.extraction.list_answers import with_whole_lists
from knowledge.documents.extraction.question_terms import Question
from knowledge.documents.extraction.sentence_scoring import read_sentences
from knowledge.documents.segmentation.procedures import MAX_STEPS_CHARS, find_numbered_lists
from knowledge.documents.verification.verify import Evidence
from knowledge.models import TermStatistics
from tests.support.answering import passage
from tests.support.cases import each_case, over, read_sample

PUMP = read_sample("listing_pump.txt")


def told(text: str, question: str, *chosen: str) -> list[str]:
    """Return what is told where these sentences were chosen."""
    found = [
        Evidence(
            passage(text, title="Pump", section="Pump > Flush the pump", document_type=DocumentType.MARKDOWN), text
        )
    ]
    every = read_sentences(Question(question, TermStatistics(documents=1, frequencies={})), found)
    by_hand = [next(each for each in every if each.told.startswith(begin) and not each.listed) for begin in chosen]
    return [each.told for each in with_whole_lists(by_hand, every, question, found)]


STEPS = PUMP[PUMP.index("{above}") + len("{above}") :].rstrip()
HOW = ["How do I flush the pump?", "Flush the pump"]


@pytest.mark.parametrize("above", ["", "Never do this alone.\n\n", "Do it so:\n\n"])
@pytest.mark.parametrize("question", HOW)
def test_asked_how_something_is_done_one_step_of_it_brings_all(question: str, above: str) -> None:
    (said,) = told(PUMP.format(above=above), question, "4. Flush")
    assert said.endswith(STEPS)


@over("question", ["Who has to write down what flushed?", "How do I open the drain?"])
def test_a_step_that_answers_by_itself_stays_alone(question: str) -> None:
    begin = "5. Write" if "write" in question else "2. Open"
    (said,) = told(PUMP.format(above=""), question, begin)
    assert said.startswith(begin)
    assert "1. Close" not in said


def test_several_steps_bring_all_whatever_is_asked() -> None:
    assert told(PUMP.format(above=""), "Who may wait?", "3. Wait", "1. Close") == [STEPS]
    assert told(PUMP.format(above=""), "Who may wait?", "- The alarm", "1. Close") == [STEPS]


def test_a_procedure_that_is_too_long_for_a_claim_takes_several_and_says_where_it_ends_before_its_end() -> None:
    steps = [f"{at}. Flush part {at} {'of the pump ' * 20}and wait." for at in range(1, 31)]
    text = "# Pump\n\n## Flush the pump\n\n" + "\n".join(steps)
    said = told(text, HOW[0], steps[2][:10])
    assert len(said) > 1
    assert all(len(each) <= MAX_STEPS_CHARS + 2 for each in said)
    whole = "\n".join(said)
    assert whole == "\n".join([*steps[: whole.count("Flush")], "\u2026"])


def test_steps_of_which_the_first_are_elsewhere_are_told_with_a_sign() -> None:
    text = "4. Close the inlet.\n5. Flush the pump.\n6. Write it down.\n"
    assert told(text, HOW[0], "5. Flush") == ["\u2026\n" + text.rstrip()]


@each_case
def test_numbered_lists_are_found_with_all_that_is_of_their_items(text: str, items: list[list[str]]) -> None:
    found = [[text[slice(*each)] for each in listed.items] for listed in find_numbered_lists(text)]
    assert found == items
