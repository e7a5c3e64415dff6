"""Entries out of JSON lines: our own form, and the neutral form of a stream of failures, reviews and approvals."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.client.entries import entry_to_json
from hardwon.errors import InvalidInput
from knowledge.memory.rules.validation import first_status, validate
from knowledge.models import EntryType, NewEntry
from orchestrator.importers.jsonl import read_lines
from tests.support.cases import load_tables, over
from tests.support.entries import approval, failure, rejection

ROOT = Path(__file__).resolve().parents[3]
STREAM = ROOT.parent / "shared/data/main_job_entries/entries.jsonl"
FAILURE = load_tables("test_learn_jsonl")["FAILURE"]
REVIEW = {
    "id": "e-2",
    "type": "gate_rejection",
    "task": "change to cart.py",
    "output": "price = None",
    "feedback": "a price is never None",
    "revision": "price = Decimal(0)",
    "category": "defect",
    "source": "reviews",
}
APPROVAL = {"id": "e-3", "type": "approval", "task": "Cache the list", "output": "An ETag", "note": None, "source": "r"}


def one(told: dict[str, Any]) -> NewEntry:
    """Return the entry of a line that is one."""
    ((number, entry),) = read_lines([json.dumps(told)])
    assert number == 1
    assert isinstance(entry, NewEntry), entry
    validate(entry)
    return entry


def wrong(line: str) -> InvalidInput:
    """Return what is wrong with a line that is no entry."""
    ((_, error),) = read_lines([line])
    assert isinstance(error, InvalidInput), error
    return error


@over("entry", [failure(), rejection(), approval()])
def test_a_line_in_our_own_form_is_the_entry_it_says(entry: NewEntry) -> None:
    assert one(entry_to_json(entry)) == entry


def test_a_failure_of_the_neutral_form_is_mapped_field_by_field() -> None:
    assert one(FAILURE) == NewEntry(
        entry_type=EntryType.FAILURE_SOLUTION,
        project_id="web-shop",
        task_id="e-1",
        agent_type="coder",
        task_type="bugfix",
        technology="py",
        task_description="Show the total of a cart",
        failure_description=str(FAILURE["failure"]),
        error_message="E   TypeError: price is None\nE   at line 7\ncart.py:7",
        solution_steps="Treat a missing price as zero",
        success_verified=True,
        verified_by="web-shop",
    )


@over("verified, success_verified, verified_by", [(True, True, "web-shop"), (None, True, None), (False, False, None)])
def test_only_what_was_rerun_names_a_verifier_and_what_failed_again_stays_open(
    *, verified: bool | None, success_verified: bool, verified_by: str | None
) -> None:
    """D22."""
    entry = one(FAILURE | {"verified": verified})
    assert (entry.success_verified, entry.verified_by) == (success_verified, verified_by)
    assert first_status(entry) == ("staged" if success_verified else "open")


def test_a_failure_without_language_or_error_lines_has_python_and_no_error_message() -> None:
    entry = one(FAILURE | {"language": None, "failure": "It is wrong\n  E is no mark here\nEh?"})
    assert (entry.technology, entry.error_message) == ("python", None)


def test_a_review_of_the_neutral_form_is_mapped_field_by_field() -> None:
    assert one(REVIEW) == NewEntry(
        entry_type=EntryType.GATE_REJECTION,
        project_id="reviews",
        task_id="e-2",
        gate_type="review",
        proposal="change to cart.py\nprice = None",
        human_feedback="a price is never None",
        revision_approach="price = Decimal(0)",
    )


@over("revision", [None, ""])
def test_a_review_without_a_revision_stays_open(revision: str | None) -> None:
    """D21."""
    entry = one(REVIEW | {"revision": revision})
    assert entry.revision_approach is None
    assert first_status(entry) == "open"


def test_a_review_without_feedback_is_refused_by_name() -> None:
    ((_, entry),) = read_lines([json.dumps(REVIEW | {"feedback": None})])
    assert isinstance(entry, NewEntry)
    with pytest.raises(InvalidInput, match="human_feedback"):
        validate(entry)


def test_an_approval_of_the_neutral_form_is_mapped_field_by_field() -> None:
    assert one(APPROVAL) == NewEntry(
        entry_type=EntryType.GATE_APPROVAL,
        project_id="r",
        task_id="e-3",
        gate_type="review",
        task_description="Cache the list",
        proposal="Cache the list",
        approved_approach="An ETag",
    )


@over(
    "line, name",
    [
        ("{", "line"),
        ("nonsense", "line"),
        ("[" * 100_000, "line"),
        ('"\ud800"', "line"),
        ("[1, 2]", "entry"),
        ('"text"', "entry"),
        ("{}", "entry_type"),
        ('{"type": "rumour"}', "type"),
        ('{"type": null}', "type"),
        ('{"type": "failure"}', "project_id"),
        (json.dumps(REVIEW | {"source": 5.5}), "project_id"),
        (json.dumps(REVIEW | {"output": ["a", "b"]}), "proposal"),
        (json.dumps(entry_to_json(failure()) | {"id": "e-1"}), "id"),
    ],
)
def test_a_line_that_is_no_entry_says_what_is_wrong_with_it(line: str, name: str) -> None:
    assert wrong(line).field == name


def test_blank_lines_are_passed_over_and_the_others_keep_their_numbers() -> None:
    lines = ["\n", json.dumps(FAILURE), "   \n", "{\n", json.dumps(APPROVAL) + "\n"]
    assert [(number, type(entry)) for number, entry in read_lines(lines)] == [
        (2, NewEntry),
        (4, InvalidInput),
        (5, NewEntry),
    ]


JSON = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.text(max_size=3), max_size=2)


@given(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["failure", "gate_rejection", "approval"]) | JSON},
        optional=dict.fromkeys([*FAILURE.keys() - {"type"}, "output", "feedback", "revision"], JSON),
    ),
    st.text(st.characters(codec=None, categories=None)),
)
def test_no_line_stops_the_rest(told: dict[str, Any], nonsense: str) -> None:
    lines = [nonsense.replace("\n", " ") or "-", json.dumps(told), json.dumps(FAILURE)]
    assert [number for number, _ in read_lines(lines)][-2:] == [2, 3]


@pytest.mark.skipif(not STREAM.exists(), reason=f"the stream of real entries is not at {STREAM}")
def test_the_stream_of_real_entries_is_taken_but_for_what_lacks_feedback() -> None:
    lines = STREAM.read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    expected = Counter(expected_of(record) for record in records)
    entries = [entry for _, entry in read_lines(lines)]
    found = Counter(became(entry) for entry in entries if isinstance(entry, NewEntry))
    print(f"{len(records)} real entries: {dict(found)}")  # noqa: T201 - the counts are asked for
    assert found == expected
    assert found["refused"] > 0 < found["open"]


def became(entry: NewEntry) -> str:
    """Return the status of an entry, or that it is refused; only for want of feedback is any."""
    if entry.entry_type is EntryType.GATE_REJECTION and entry.human_feedback is None:
        with pytest.raises(InvalidInput, match="human_feedback"):
            validate(entry)
        return "refused"
    validate(entry)
    return first_status(entry).value


def expected_of(record: dict[str, Any]) -> str:
    """Return what is to become of a record of the stream."""
    match record["type"]:
        case "gate_rejection" if not record["feedback"]:
            return "refused"
        case "gate_rejection" if not record["revision"]:
            return "open"
        case "failure" if record["verified"] is False:
            return "open"
        case _:
            return "staged"
