"""What of some passages can answer, and by which words: those of a sentence and of where it stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hardwon.models.documents import DocumentType
from knowledge.documents.extraction.question_terms import Question
from knowledge.documents.extraction.scope_conflicts import contradicts_question, names_version_or_date
from knowledge.documents.extraction.sentence_scoring import Sentence, read_sentences
from knowledge.documents.verification.verify import DraftClaim, Evidence, verify
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


QUEUES = """queues:
  - name: mails  # to all
    workers: 4
    retry:
      after: 10
  - workers: 2
    name: "invoices"
topics:
- id: news
  hosts:
    - harbour
- title: offers
"""
QUEUES_JSON = """{
  "name": "post",
  "queues": [
    {
      "name": "mails",
      "workers": 4
    },
    {
      "workers": 2,
      "retry": {
        "after": 10
      },
      "name": "invoices"
    }
  ]
}
"""
QUEUES_TOML = (
    '[[queues]]\nname = "mails"\nworkers = 4\n[[queues]]\nworkers = 2\nname = "invoices"\n[top]\nlimit = 100\n'
)


@pytest.mark.parametrize(
    ("text", "told"),
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
    written = [DraftClaim(text=each.told, quotes=((1, text[slice(*each.span)]),)) for each in found]
    assert len(verify(written, [source], "Which rate?").claims) == len(told)


NOTES = "# Pump 2\n\n## 2.1.0 (2025-03-04)\n\nIt drains at night.\n\n## 2.0.1\n\nIt drains by hand, unlike 1.9.\n"


def test_what_stands_below_another_version_than_is_asked_for_answers_nothing() -> None:
    """The notes of all versions are about the same, and those of the wrong one were quoted."""
    at_night, by_hand = "2.1.0 (2025-03-04): It drains at night.", "2.0.1: It drains by hand, unlike 1.9."
    assert [each.told for each in read(NOTES, "How does 2.1.0 drain?")] == [at_night]
    assert [each.told for each in read(NOTES, "How does 1.9 drain?")] == [by_hand]
    assert len(read(NOTES, "How does the pump drain?")) == len(read(NOTES, "How does it drain since 2.1?")) == 2


@pytest.mark.parametrize(
    ("question", "above"),
    [
        ("What is new in v2.1.0?", "2.0.1"),
        ("Who was there on 5 May 2025?", "Meeting of 2025-05-12"),
        ("Who was there on May 5th, 2025?", "Meeting, 12th of May 2025"),
        ("What was decided in March 2025?", "Minutes, Apr. 7, 2025"),
        ("What is new in Pump 2.1?", "Pump\n2.0 (2025-03-04)"),
        ("What was decided in March 2025?", "March 2024"),
        ("Which Python does Pump 3.x need?", "Installing Pump 2.x"),
        ("On which port does Pump 3.0 listen?", "Pump 2.x"),
        ("On which port does Pump 3 listen?", "Pump 2.4"),
        ("On which port does pump 3 listen?", "pump-2.4.md"),
        ("On which port does pump-3.1 listen?", "pump-2.4"),
        ("On which port does Pump 3 listen?", "Pump 2"),
        ("On which port does Pump 3.1 listen?", "Pump 2"),
        ("On which port does version 3 listen?", "Pump 2.4"),
        ("On which port does v3 listen?", "Pump > v2"),
        ("Is it closed on a Sunday?", "Open on Fridays"),
        ("Who enters the production plant?", "Entering staging"),
        ("How is it set up in prod?", "Staging"),
        ("How is it set up on Windows?", "Linux"),
        ("On which port does pump 3 listen?", "Pump notes\n[2.4.0] > Changed"),
    ],
)
def test_a_heading_of_another_version_or_day_is_apart(question: str, above: str) -> None:
    assert contradicts_question(question, above, "It was decided.")
    assert not contradicts_question(question, f"{above} and {question}", "It was decided.")
    assert not contradicts_question(question, above, f"See {question}")


@pytest.mark.parametrize(
    ("question", "above", "text", "is_apart"),
    [
        ("What was removed in 2.1?", "Pump\n2.1 > Fixed", "A leak is gone.", True),
        ("Which valves were added in 2.1?", "Pump\n2.1 > Bug fixes", "A leak is gone.", True),
        ("What was removed in 2.1?", "Pump\n2.1 > Removed", "The lever.", False),
        ("What was removed in 2.1?", "Pump\n2.1 > Changed", "The lever was removed.", False),
        ("What was removed in 2.1?", "Pump\n2.1", "The lever.", False),
        ("What was added to the tank?", "Pump\nFixed prices", "Salt.", False),
        ("Which version added the lever?", "Pump\n2.1 > Changed", "It has a lever.", False),
        ("What changed in 2.1?", "Pump\n2.1 > Fixed", "A leak is gone.", False),
        ("What is the maximum speed?", "Pump", "speed_min = 4", True),
        ("What is the maximum speed?", "Pump", "The minimum speed is 4.", True),
        ("What is the minimum speed?", "Pump", "maxSpeed: 4", True),
        ("What is the maximum speed?", "Pump", "speed_max = 9", False),
        ("What is the maximum speed?", "Pump", "The minimum is 4, and it runs up to 9.", False),
        ("What is the minimum speed?", "Pump", "It runs at 4 to 9, the highest at noon.", False),
        ("What is the maximum speed?", "Pump", "It is 9.", False),
        ("Who may enter production?", "Pump", "Anybody may enter staging.", True),
        ("Who may enter production?", "Production", "As in staging, anybody.", False),
        ("Who is paged as tertiary?", "Pump", "Ann is primary, Bob secondary.", True),
        ("Is it open on a Sunday?", "Pump", "It is closed on Mondays alone.", False),
        ("Does it run on Windows?", "Pump", "It runs on Linux alone.", False),
    ],
)
def test_a_change_of_another_kind_the_other_end_and_the_other_side_are_apart(
    question: str, above: str, text: str, *, is_apart: bool
) -> None:
    assert contradicts_question(question, above, text) is is_apart


def test_what_stands_below_a_version_or_a_day_is_told_with_it_and_quoted_as_it_stands() -> None:
    """What is asked by "Which version added it?" only the heading has."""
    (first, second) = read(NOTES, "Which version drains?")
    assert (first.told, NOTES[slice(*first.span)]) == ("2.1.0 (2025-03-04): It drains at night.", "It drains at night.")
    assert second.told.startswith("2.0.1: ")
    assert not any(
        names_version_or_date(heading) for heading in ("Changes", "2. Changes", "2.1 Upgrading", "Rules of 2025")
    )


def test_a_version_of_something_else_in_a_text_is_not_the_one_that_is_asked_for() -> None:
    text = "It needs Python 3.11 or newer."
    assert contradicts_question("Which Python does Pump 3.x need?", "Pump 2.x", text)
    assert not contradicts_question("Does it run on Python 3.11?", "Pump 2.x", text)


@pytest.mark.parametrize(
    ("question", "above"),
    [
        ("What is new in 2.1?", "2.1.4"),
        ("What is new since 2.0?", "2.1.4"),
        ("What is new in 2.1?", "Changes"),
        ("What is new?", "2.1.4"),
        ("Who was there on 5 May 2025?", "Meetings of May 2025"),
        ("Who was there in May 2025?", "2025-05-12"),
        ("Who was there before May 2025?", "2025-04-12"),
        ("Is the office open on 5 May 2025?", "Handbook of January 2025"),
        ("Does it run on Python 3.12?", "Pump 2.1"),
        ("How do I get to version 4.0?", "2.1 Upgrading"),
        ("How long is a day of 7.5 hours?", "Rules of 2025"),
        ("Which Python does Pump 2.x need?", "Installing Pump 2.x"),
        ("On which port does Pump 2.4.1 listen?", "Pump 2.x"),
        ("On which port does Pump 2.x listen?", "Pump 2.4"),
        ("On which port does Pump 2 listen?", "Pump 2.4"),
        ("On which port does v2 listen?", "pump-2.4"),
        ("On which port do 4 workers of Pump listen?", "Pump 2.4"),
        ("On which port does Pump 2.4 with 4 workers listen?", "Pump 2.4"),
        ("What happens in step 4?", "Pump 2.4"),
        ("What happens in Step 4?", "Step 3"),
        ("What is on page 4?", "Page 3"),
        ("Which pumps run on Debian 12?", "Pump 2.4"),
        ("Does Pump 2 need Debian 12?", "Pump 2.4"),
        ("What does RLY-4 mean?", "RLY-3"),
    ],
)
def test_a_heading_of_the_same_or_of_none_is_not_apart(question: str, above: str) -> None:
    assert not contradicts_question(question, above, "It was decided.")


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


def test_what_is_counted_weighs_more_than_what_is_said_of_it() -> None:
    pumps, hall = read("The pumps run.\n\nThe hall has doors.\n", "How many pumps are in the hall?")
    assert pumps.overlap > hall.overlap > 0


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


def test_a_row_tells_of_a_name_by_itself_and_not_by_the_rows_before_it() -> None:
    assert [each.told for each in read(PORTS.replace("inlet", "Elbe"), "What does the Elbe listen on?")] == [
        "pump: Elbe; listens on: 7001"
    ]


def test_what_is_asked_of_a_price_is_told_by_what_says_something_of_money() -> None:
    text = "The pump takes 4 minutes.\n\nThe pump takes 4 EUR.\n\nA pump is free of charge.\n"
    assert [each.told for each in read(text, "How much does a pump cost?")] == [
        "The pump takes 4 EUR.",
        "A pump is free of charge.",
    ]


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("What is the rate of the inlet pump?", ["pumps.inlet > rate = 40", "pumps.outlet > rate = 10"]),
        ("What is the rate of the sluice pump?", []),
        ("What are the volts of the outlet?", ["pumps.inlet > volts = 230"]),
    ],
)
def test_a_line_that_sets_something_else_is_left_out_where_what_is_asked_for_is_set_elsewhere(
    question: str, told: list[str]
) -> None:
    text = "[pumps.inlet]\nrate = 40\nvolts = 230\n\n[pumps.outlet]\nrate = 10\n"
    assert [each.told for each in read(text, question, DocumentType.CONFIG) if each.overlap] == told


def test_a_configuration_of_another_place_or_thing_than_is_asked_for_answers_nothing() -> None:
    text = "kind: Pump\nmetadata:\n  name: inlet\n  namespace: mill-prod\nspec:\n  rate: 40\n"
    assert not read(text, "What is the rate in staging?", DocumentType.CONFIG)
    assert not read(text, "What is the rate of the outlet pump?", DocumentType.CONFIG)
    assert read(text, "What is the rate in production?", DocumentType.CONFIG)
    assert read(text, "What is the rate of the inlet pump?", DocumentType.CONFIG)


def test_what_is_listed_under_its_own_name_with_all_that_is_asked_is_exact() -> None:
    rows = "| work | due | ticket |\n| --- | --- | --- |\n| oil it | Friday | PMP-7 |\n| paint it | Monday | PMP-8 |\n"
    assert [each.exact for each in read(rows, "When is PMP-8 due?")] == [False, True]
    assert not any(each.exact for each in read(rows, "When is PMP-8 sold?"))
    assert [
        each.exact for each in read("- `dry_run`: buys nothing.\n- `wet`: buys all.\n", "What does dry_run do?")
    ] == [
        True,
        False,
    ]
