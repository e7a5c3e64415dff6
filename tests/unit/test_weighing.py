"""What of some passages can answer, and by which words: those of a sentence and of where it stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from knowledge.documents.models import DocumentType
from knowledge.documents.verifying import Evidence
from knowledge.documents.weighing import Question, Sentence, read_sentences
from knowledge.models import TermStatistics
from tests.support.answering import passage

ROLES = """# Roles

Everyone may read.

## Night shift

It opens the inlet.

## Day shift

It opens the inlet.
It closes the outlet.
"""


def read(text: str, asked: str, kind: DocumentType = DocumentType.MARKDOWN, **known: Any) -> list[Sentence]:
    found = replace(passage(text, **known), document_type=kind)
    return read_sentences(Question(asked, TermStatistics(documents=1, frequencies={})), [Evidence(found, text)])


def test_a_sentence_is_compared_with_the_heading_that_it_stands_below() -> None:
    found = read(ROLES, "What does the day shift open?", title="Roles", section="Roles")
    assert [each.text for each in found] == [
        "Everyone may read.",
        "Night shift: It opens the inlet.",
        "Day shift: It opens the inlet.",
        "Day shift: It closes the outlet.",
    ]
    assert [each.told for each in found][1:3] == ["It opens the inlet."] * 2
    assert max(found, key=lambda each: each.overlap) is found[2]


def test_a_passage_from_within_a_section_is_read_below_its_innermost_heading() -> None:
    found = read("It waits.\n", "Who waits?", title="Roles", section="Roles > Shifts > Night shift", char_start=900)
    assert [each.text for each in found] == ["Night shift: It waits."]


def test_front_matter_is_no_heading() -> None:
    found = read("---\ntitle: Roles\n---\nIt waits.\n", "Who waits?", title="Roles")
    assert [each.text for each in found] == ["It waits."]
