"""What of some passages can answer, and by which words: those of a sentence and of where it stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from knowledge.documents.models import DocumentType
from knowledge.documents.verifying import Evidence, Written, verify
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


YAML = "# of the plant\npump:\n  rate: 40\n  night:\n    rate: 10\n    run: |\n      drain --slow\nvalve:\n  - inlet\n"
INI = "[pump]\nrate = 40\n; by night\n[pump.night]\nrate = 10\n"
JSON = (
    '{\n  "pump": {\n    "rate": 40,\n    "hours": [\n      [1, 2]\n    ]\n  },\n  "night": {\n    "rate": 10\n  }\n}\n'
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (YAML, ["pump > rate: 40", "pump > night > rate: 10", "pump > night > run > drain --slow", "valve > - inlet"]),
        (INI, ["pump > rate = 40", "pump.night > rate = 10"]),
        (JSON, ['pump > "rate": 40,', "pump > hours > [1, 2]", 'night > "rate": 10']),
    ],
)
def test_a_line_of_a_configuration_is_told_with_its_sections_and_quoted_as_it_stands(
    text: str, told: list[str]
) -> None:
    found = read(text, "Which rate has the pump at night?", DocumentType.CONFIG)
    assert [each.told for each in found] == told
    source = Evidence(passage(text), text)
    written = [Written(text=each.told, quotes=((1, text[slice(*each.span)]),)) for each in found]
    assert len(verify(written, [source], "Which rate?").claims) == len(told)
