"""Does an entry join a pattern, or found one?"""

from __future__ import annotations

from uuid import UUID, uuid4

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from knowledge.memory import texts
from knowledge.memory.consolidation import Embedding, decide
from knowledge.models import Decision, EntryId, NewEntry, PatternId, View, pattern_id_of
from tests.support.entries import CART, failure, rejection, stored


def embedding(entry: NewEntry, entry_id: UUID | None = None) -> Embedding:
    kept = stored(entry, entry_id)
    return Embedding(entry=kept, vectors={view: np.ones(2, dtype=np.float32) for view in texts.views(kept)})


def decided(
    *embeddings: Embedding,
    known: dict[str, PatternId] | None = None,
    earlier: dict[EntryId, PatternId | None] | None = None,
    workspace: str = "default",
) -> list[Decision]:
    held: dict[EntryId, PatternId | None] = {each.entry.entry_id: None for each in embeddings}
    return decide(embeddings, held=held | (earlier or {}), known=known or {}, workspace=workspace)


def test_the_first_of_its_kind_founds_a_pattern_with_an_id_of_its_own() -> None:
    one = embedding(failure())
    (decision,) = decided(one)
    assert decision.founds
    assert decision.pattern_id == pattern_id_of("default", one.entry.entry_id)
    assert decided(one) == [decision], "decided again, it is the same pattern"
    assert decided(one, workspace="other")[0].pattern_id != decision.pattern_id


def test_the_same_situation_and_resolution_join_what_is_known() -> None:
    known = PatternId(uuid4())
    one = embedding(failure(failure_description=f" {CART.upper()}\n", project_id="another"))
    (decision,) = decided(one, known={texts.match_key(failure()): known})
    assert (decision.pattern_id, decision.founds) == (known, False)


def test_entries_of_one_batch_found_and_join_each_others_patterns() -> None:
    one, two, other = embedding(failure()), embedding(failure()), embedding(failure(solution_steps="Reject it"))
    decisions = decided(one, two, other)
    assert [each.founds for each in decisions] == [True, False, True]
    assert decisions[0].pattern_id == decisions[1].pattern_id != decisions[2].pattern_id


def test_what_the_lease_no_longer_holds_is_not_decided() -> None:
    one, lost = embedding(failure()), embedding(failure(solution_steps="Reject it"))
    decisions = decide([lost, one], held={one.entry.entry_id: None}, known={}, workspace="default")
    assert [each.entry for each in decisions] == [one.entry]


def test_a_decision_of_an_earlier_attempt_stands() -> None:
    """A retry never decides twice, also where a pattern with the same key came up meanwhile."""
    one, before, since = embedding(failure()), PatternId(uuid4()), PatternId(uuid4())
    (decision,) = decided(one, known={texts.match_key(one.entry): since}, earlier={one.entry.entry_id: before})
    assert (decision.pattern_id, decision.founds) == (before, False)


def test_a_founder_still_founds_when_its_checkpoint_is_repeated() -> None:
    """Its words are counted at the end of a batch that went well, so a repetition must count them."""
    one, two = embedding(failure()), embedding(failure())
    own = pattern_id_of("default", one.entry.entry_id)
    repeated = decided(
        one, two, known={texts.match_key(one.entry): own}, earlier={one.entry.entry_id: own, two.entry.entry_id: own}
    )
    assert [(each.pattern_id, each.founds) for each in repeated] == [(own, True), (own, False)]


def test_a_text_is_the_same_point_whatever_its_case_and_white_space() -> None:
    one, two = embedding(failure()), embedding(failure(failure_description=CART.lower().replace(" ", "\n")))
    first, second = decided(one, two)
    assert [point.point_id for point in first.points] == [point.point_id for point in second.points]


def test_an_entry_has_a_point_for_its_situation_and_one_for_its_task() -> None:
    (decision,) = decided(embedding(failure(task_description="Show the total of a cart")))
    assert [point.view for point in decision.points] == [View.SITUATION, View.TASK]
    assert len({point.point_id for point in decision.points}) == 2


@given(st.permutations([failure(), failure(), failure(solution_steps="Reject it"), rejection(), rejection()]))
def test_the_order_of_a_batch_does_not_change_who_belongs_together(entries: list[NewEntry]) -> None:
    decisions = decided(*(embedding(entry) for entry in entries))
    together = {(texts.match_key(each.entry), each.pattern_id) for each in decisions}
    assert len(together) == len({key for key, _ in together}) == 3
    assert sum(each.founds for each in decisions) == 3
