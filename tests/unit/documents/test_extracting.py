"""What says that passages answer a question: of the best one with all of the sentences, and of each by itself."""

from __future__ import annotations

from knowledge.documents.extraction.extractor import BUNDLED, Signs, signs_by_passage, signs_of
from knowledge.documents.extraction.sentence_scoring import Sentence
from knowledge.text.alignment import Span


def sentence(source: int, *, beyond: float, keyed: bool = False) -> Sentence:
    return Sentence(source=source, place=0, text="", told="", span=Span(0, 0), overlap=0.5, beyond=beyond, keyed=keyed)


def test_a_later_passage_answers_by_its_own_signs_where_the_best_one_does_not() -> None:
    weighed, worths, cosines = [sentence(1, beyond=0.0), sentence(2, beyond=0.9)], [0.4, 0.6], [0.4, 0.5]
    together = signs_of(weighed, worths, 0.45, first=1)
    first, later = signs_by_passage(weighed, worths, cosines, {1: 0.45, 2: 0.44, 3: 0.43})
    assert together == Signs(passage=0.45, sentence=0.6, beyond_title=0.0)
    assert (first, later) == (Signs(0.45, 0.4, 0.0), Signs(0.44, 0.6, 0.9))
    assert BUNDLED.chance(together) < BUNDLED.level < BUNDLED.chance(later)


def test_a_row_about_what_is_asked_is_as_near_as_itself_and_not_as_its_passage() -> None:
    (signs,) = signs_by_passage([sentence(1, beyond=0.5, keyed=True)], [0.6], [0.7], {1: 0.2})
    assert signs.passage == 0.7
