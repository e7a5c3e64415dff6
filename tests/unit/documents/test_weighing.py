"""What of some passages can answer, and by which words: those of a sentence and of where it stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hardwon.models.documents import DocumentType
from knowledge.documents.extraction.question_terms import Question
from knowledge.documents.extraction.sentence_scoring import Sentence, read_sentences
from knowledge.documents.verification.verify import DraftClaim, Evidence, verify
from knowledge.models import TermStatistics
from tests.support.answering import passage
from tests.support.cases import over, read_sample

ROLES = read_sample("weighing_roles.txt")


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


QUEUES = read_sample("weighing_queues.txt")
QUEUES_JSON = read_sample("weighing_queues_json.txt")
QUEUES_TOML = (
    '[[queues]]\nname = "mails"\nworkers = 4\n[[queues]]\nworkers = 2\nname = "invoices"\n[top]\nlimit = 100\n'
)


@over(
    "text, told",
    [
        (
            QUEUES,
            [
                "queues > - name: mails  # to all",
                "queues > mails > workers: 4",
                "queues > mails > retry > after: 10",
                "queues > - workers: 2",
                'queues > invoices > name: "invoices"',
                "topics > - id: news",
                "topics > news > hosts > - harbour",
                "topics > - title: offers",
            ],
        ),
        (
            QUEUES_JSON,
            [
                '"name": "post",',
                'queues > mails > "name": "mails",',
                'queues > mails > "workers": 4',
                'queues > invoices > "workers": 2,',
                'queues > invoices > retry > "after": 10',
                'queues > invoices > "name": "invoices"',
            ],
        ),
        (
            QUEUES_TOML,
            [
                'queues > mails > name = "mails"',
                "queues > mails > workers = 4",
                "queues > invoices > workers = 2",
                'queues > invoices > name = "invoices"',
                "top > limit = 100",
            ],
        ),
    ],
)
def test_a_line_of_a_configuration_is_told_with_its_sections_and_quoted_as_it_stands(
    text: str, told: list[str]
) -> None:
    found = read(text, "Which rate has the pump at night?", DocumentType.CONFIG)
    assert [each.told for each in found] == told
    source = Evidence(passage(text), text)
    written = [DraftClaim(text=each.told, quotes=((1, text[slice(*each.span)]),)) for each in found]
    assert len(verify(written, [source], "Which rate?").claims) == len(told)


NOTES = "# Pump 2\n\n## 2.1.0 (2025-03-04)\n\nIt drains at night.\n\n## 2.0.1\n\nIt drains by hand, unlike 1.9.\n"


def test_what_stands_below_another_version_than_is_asked_for_answers_nothing() -> None:
    """The notes of all versions are about the same, and those of the wrong one were quoted."""
    at_night, by_hand = "2.1.0 (2025-03-04): It drains at night.", "2.0.1: It drains by hand, unlike 1.9."
    assert [each.told for each in read(NOTES, "How does 2.1.0 drain?")] == [at_night]
    assert [each.told for each in read(NOTES, "How does 1.9 drain?")] == [by_hand]
    assert len(read(NOTES, "How does the pump drain?")) == len(read(NOTES, "How does it drain since 2.1?")) == 2


def test_what_stands_below_a_version_or_a_day_is_told_with_it_and_quoted_as_it_stands() -> None:
    """What is asked by "Which version added it?" only the heading has."""
    (first, second) = read(NOTES, "Which version drains?")
    assert (first.told, NOTES[slice(*first.span)]) == ("2.1.0 (2025-03-04): It drains at night.", "It drains at night.")
    assert second.told.startswith("2.0.1: ")


def test_a_sentence_without_blanks_is_no_single_word() -> None:
    found = read(
        "# 証明書\n\n有効期限は九十日です。更新は自動です。\n", "証明書の有効期限", title="証明書", section="証明書"
    )
    assert [each.told for each in found] == ["有効期限は九十日です。", "更新は自動です。"]
    assert found[0].overlap > found[1].overlap == 0


PORTS = "| pump | listens on |\n| --- | --- |\n| inlet | 7001 |\n| outlet | 7002 |\n"


def test_the_row_that_is_asked_for_is_known_by_its_first_cell_and_the_names_of_columns() -> None:
    inlet, outlet = read(PORTS, "What does the inlet listen on?")
    assert (inlet.keyed, inlet.overlap) == (True, 1.0)
    assert not outlet.keyed


def test_the_names_of_columns_are_no_answer_of_what_a_table_does_not_list() -> None:
    assert [each.overlap for each in read(PORTS, "What does the sluice listen on?")] == [0.0, 0.0]


VALVES = "The valve in Bremen is shut.\n\nThe valve in Kassel drips. It was mended twice.\n\n## Verden\n\nIt hums.\n"


def test_what_tells_nothing_of_a_name_that_is_asked_for_is_left_out() -> None:
    """Of one town it was said what holds of another."""
    assert [each.told for each in read(VALVES, "Is the valve in Kassel shut?")] == [
        "The valve in Kassel drips.",
        "It was mended twice.",
    ]
    assert [each.told for each in read(VALVES, "Does the valve in Verden hum?")] == ["It hums."]
    assert len(read(VALVES, "does the valve in kassel hum?")) == len(read(VALVES, "Does the valve hum?")) == 4
    assert not read(VALVES, "Is the valve in Celle shut?")
    assert len(read(VALVES, "Is the valve in Celle shut?", title="Valves of Celle")) == 4


def test_a_configuration_of_another_place_or_thing_than_is_asked_for_answers_nothing() -> None:
    text = "kind: Pump\nmetadata:\n  name: inlet\n  namespace: mill-prod\nspec:\n  rate: 40\n"
    assert not read(text, "What is the rate in staging?", DocumentType.CONFIG)
    assert not read(text, "What is the rate of the outlet pump?", DocumentType.CONFIG)
    assert read(text, "What is the rate in production?", DocumentType.CONFIG)
    assert read(text, "What is the rate of the inlet pump?", DocumentType.CONFIG)
