"""Which patterns a context has: gate entries and one agent's word fill few of its places."""

from __future__ import annotations

from knowledge.models import EntryType
from orchestrator.context.builder import select_patterns
from tests.support.entries import pattern


def test_gate_entries_fill_one_of_three_places_while_others_fit() -> None:
    gates = [pattern(entry_type=EntryType.GATE_APPROVAL, solution=f"Approach {number}") for number in range(2)]
    failures = [pattern(solution=f"Step {number}") for number in range(3)]
    assert select_patterns([*gates, *failures], limit=3) == [gates[0], *failures[:2]]
    assert select_patterns([gates[0], failures[0], gates[1]], limit=3) == [gates[0], failures[0], gates[1]]
    assert select_patterns(gates, limit=3) == gates


def test_a_gate_entry_that_is_left_out_for_its_source_takes_no_place_of_another() -> None:
    failures = [pattern(source="agent-a"), pattern(solution="Step 1"), pattern(solution="Step 2")]
    again = pattern(source="agent-a", entry_type=EntryType.GATE_APPROVAL, solution="Approach 1")
    gate = pattern(entry_type=EntryType.GATE_REJECTION, solution="Approach 2")
    assert select_patterns([failures[0], again, gate, *failures[1:]], limit=3) == [failures[0], gate, failures[1]]


def test_what_is_to_be_done_is_told_once_while_others_fit() -> None:
    """A defect that three people had told in their words filled all places with one solution."""
    same = [pattern(solution=told) for told in ("Prune the images", "prune  the IMAGES", "Prune the images\n")]
    others = [pattern(solution="Do not prune the images"), pattern(solution="Buy a disk")]
    assert select_patterns([*same, *others], limit=3) == [same[0], *others]
    assert select_patterns([others[0], *same, others[1]], limit=3) == [others[0], same[0], others[1]]
    assert select_patterns([*same, others[0]], limit=3) == [*same[:2], others[0]]
    assert select_patterns([same[0], same[2]], limit=3) == [same[0]], (
        "nobody tries twice what is told twice to the letter"
    )
    verdicts = [pattern(entry_type=EntryType.GATE_APPROVAL, solution="As it was") for _ in range(2)]
    assert select_patterns(verdicts, limit=3) == verdicts, "they tell what passes"
    gates = [pattern(entry_type=EntryType.GATE_APPROVAL, solution=f"Approach {number}") for number in range(2)]
    assert select_patterns([*same[:2], *gates], limit=3) == [same[0], *gates]
