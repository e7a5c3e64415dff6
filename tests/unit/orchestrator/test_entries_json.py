"""Entries as JSON objects: there and back, and the name of what is wrong."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.client.entries import entry_to_json
from hardwon.errors import InvalidInput
from knowledge.models import AppliesWhen, EntryType, NewEntry
from orchestrator.entries import parse_entry
from tests.support.cases import over
from tests.support.entries import approval, failure, rejection

OPTIONAL = {entry_field.name for entry_field in fields(NewEntry)} - {
    "entry_type", "project_id", "success_verified", "applies_when", "dead_ends", "outside_text",
}  # fmt: skip
TEXTS = st.text(min_size=1).filter(lambda text: not text.isspace())
TOLD = {"entry_type": "failure_solution", "project_id": "web-shop"}


@given(
    st.builds(
        lambda entry_type, project, verified, dead_ends, rest: NewEntry(
            entry_type=entry_type, project_id=project, success_verified=verified, dead_ends=tuple(dead_ends), **rest
        ),
        st.sampled_from(EntryType),
        TEXTS,
        st.booleans(),
        st.lists(TEXTS, max_size=3),
        st.dictionaries(st.sampled_from(sorted(OPTIONAL)), TEXTS),
    )
)
def test_an_entry_comes_back_from_json_as_it_was(entry: NewEntry) -> None:
    assert parse_entry(json.loads(json.dumps(entry_to_json(entry)))) == entry


def test_conditions_are_an_object_without_what_was_not_told() -> None:
    entry = failure(applies_when=AppliesWhen(technology="python", version=">=3.10"))
    written = entry_to_json(entry)
    assert written["applies_when"] == {"technology": "python", "version": ">=3.10"}
    assert parse_entry(written) == entry


@over("entry", [failure(), rejection(), approval()])
def test_what_was_not_told_is_not_written(entry: NewEntry) -> None:
    written = entry_to_json(entry)
    assert None not in written.values()
    assert set(written) == {each.name for each in fields(NewEntry) if getattr(entry, each.name) not in (None, ())}
    assert isinstance(json.dumps(written), str)


def test_the_type_is_read_as_one_of_the_closed_set_and_verified_is_false_unless_told() -> None:
    """D22."""
    entry = parse_entry(TOLD)
    assert entry.entry_type is EntryType.FAILURE_SOLUTION
    assert entry.success_verified is False


@over(
    "told, name",
    [
        ({"project_id": "p"}, "entry_type"),
        ({"entry_type": "failure_solution"}, "project_id"),
        (TOLD | {"entry_type": "failure"}, "entry_type"),
        (TOLD | {"project_id": 5.5}, "project_id"),
        (TOLD | {"applies_when": "always"}, "applies_when"),
        (TOLD | {"applies_when": {"version": 3}}, "applies_when.version"),
        (TOLD | {"applies_when": {"weather": "fine"}}, "applies_when.weather"),
        (TOLD | {"project_id": None}, "project_id"),
        (TOLD | {"solution_steps": ["one", "two"]}, "solution_steps"),
        (TOLD | {"success_verified": "perhaps"}, "success_verified"),
        (TOLD | {"solution": "misspelt"}, "solution"),
        (TOLD | {"entry_id": "not for a caller to say"}, "entry_id"),
        ([], "entry"),
        ("text", "entry"),
        (None, "entry"),
    ],
)
def test_what_is_no_entry_is_refused_and_the_field_named(told: object, name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_entry(told)
    assert refused.value.field == name


@pytest.mark.long
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda j: st.lists(j) | st.dictionaries(st.text(), j)
    )
)
def test_no_json_breaks_the_reader(told: object) -> None:
    with suppress(InvalidInput):
        parse_entry(told)
