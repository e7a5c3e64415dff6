"""The labelled requests: wordings of ours, texts of installed packages."""

from __future__ import annotations

from benchmarks.requests import CHECKED, FITTED, by_heading, by_wording, lexical_places, read_heading, read_requests


def test_there_are_enough_requests_each_of_a_documented_symbol_in_two_wordings() -> None:
    fitted, checked = read_requests(FITTED), read_requests(CHECKED)

    assert len(fitted) + len(checked) >= 150
    assert min(len(fitted), len(checked)) >= 80
    assert not {each.symbol for each in fitted} & {each.symbol for each in checked}
    wordings = [wording for each in (*fitted, *checked) for wording in each.wordings]
    assert len(set(wordings)) == len(wordings)


def test_the_heading_is_the_first_paragraph_that_is_no_signature() -> None:
    def documented() -> None:
        """documented(a, b) -> None

        Add one to the other.

        More of it.
        """

    assert read_heading(documented) == "Add one to the other."


def test_each_query_has_its_own_entry_among_the_others() -> None:
    requests = read_requests(("git",))
    headings = by_heading("git", requests).labelled
    tasks = by_wording("git", requests, 0, failed=True)

    assert len(headings.queries) == 2 * len(requests)
    assert len(headings.documents) > 2 * len(requests), "other functions of the package stand between them"
    assert tasks.labelled.queries == [each.wordings[1] for each in requests]
    assert all(tasks.situations)
    assert len(lexical_places(tasks.labelled)) == len(requests)
