"""Does an entry join a pattern, or found one?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.minimal_pairs import minimal_pairs
from knowledge.memory.consolidation.comparison import TextComparer
from knowledge.memory.consolidation.decision import (
    MAX_COMPARED,
    Candidate,
    Embedding,
    Nearby,
    decide,
    find_missing,
    near_in_batch,
    nearest_founders,
)
from knowledge.memory.rules import embedding_text
from knowledge.memory.rules.similarity import Ground
from knowledge.models import (
    Decision,
    EntryId,
    EntryType,
    Founder,
    LinkKind,
    NewEntry,
    PatternId,
    TermStatistics,
    Vector,
    View,
    pattern_id_of,
)
from knowledge.text.bm25 import term_counts
from tests.support.entries import CART, failure, rejection, stored


def embedding(entry: NewEntry, entry_id: UUID | None = None) -> Embedding:
    kept = stored(entry, entry_id)
    told = embedding_text.views(kept)
    return Embedding(entry=kept, views=told, read=told, vectors={view: np.ones(2, dtype=np.float32) for view in told})


def decided(
    *embeddings: Embedding,
    known: dict[str, PatternId] | None = None,
    earlier: dict[EntryId, PatternId | None] | None = None,
    workspace: str = "default",
) -> list[Decision]:
    held: dict[EntryId, PatternId | None] = {each.entry.entry_id: None for each in embeddings}
    return decide(embeddings, held=held | (earlier or {}), existing=known or {}, workspace=workspace)


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
    (decision,) = decided(one, known={embedding_text.match_key(failure()): known})
    assert (decision.pattern_id, decision.founds) == (known, False)


def test_entries_of_one_batch_found_and_join_each_others_patterns() -> None:
    one, two = embedding(failure(), UUID(int=1)), embedding(failure(), UUID(int=2))
    decisions = decided(one, two, embedding(failure(solution_steps="Reject it")))
    assert [each.founds for each in decisions] == [True, False, True]
    assert decisions[0].pattern_id == decisions[1].pattern_id != decisions[2].pattern_id


def test_what_the_lease_no_longer_holds_is_not_decided() -> None:
    one, lost = embedding(failure()), embedding(failure(solution_steps="Reject it"))
    decisions = decide([lost, one], held={one.entry.entry_id: None}, existing={}, workspace="default")
    assert [each.entry for each in decisions] == [one.entry]


def test_a_decision_of_an_earlier_attempt_stands() -> None:
    """A retry never decides twice, also where a pattern with the same key came up meanwhile."""
    one, before, since = embedding(failure()), PatternId(uuid4()), PatternId(uuid4())
    (decision,) = decided(one, known={embedding_text.match_key(one.entry): since}, earlier={one.entry.entry_id: before})
    assert (decision.pattern_id, decision.founds) == (before, False)


def test_of_one_batch_the_earliest_captured_founds_then_the_lowest_id() -> None:
    late, early, low = (embedding(failure(), UUID(int=number)) for number in (3, 2, 1))
    late = replace(late, entry=replace(late.entry, captured_at=late.entry.captured_at + timedelta(seconds=1)))
    assert [each.founds for each in decided(late, early)] == [False, True]
    assert [each.founds for each in decided(early, low)] == [False, True]


def test_a_founder_still_founds_when_its_checkpoint_is_repeated() -> None:
    """Its words are counted at the end of a batch that went well, so a repetition must count them."""
    one, two = embedding(failure()), embedding(failure())
    own = pattern_id_of("default", one.entry.entry_id)
    repeated = decided(
        one,
        two,
        known={embedding_text.match_key(one.entry): own},
        earlier={one.entry.entry_id: own, two.entry.entry_id: own},
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
    together = {(embedding_text.match_key(each.entry), each.pattern_id) for each in decisions}
    assert len(together) == len({key for key, _ in together}) == 3
    assert sum(each.founds for each in decisions) == 3


LENIENT, FORCED = "Run git branch -d for each", "Run git branch -D for each"


def test_a_known_key_is_no_reason_to_join_where_the_resolution_is_put_otherwise() -> None:
    known, key = PatternId(uuid4()), embedding_text.match_key(failure(solution_steps=LENIENT))
    forced = embedding(failure(solution_steps=FORCED), UUID(int=1))
    again = embedding(failure(solution_steps=f" {FORCED}\n"), UUID(int=2))
    held = {each.entry.entry_id: None for each in (forced, again)}

    def found(*there: str) -> list[Decision]:
        resolutions = {known: there}
        return decide([forced, again], held=held, existing={key: known}, workspace="default", resolutions=resolutions)

    own = pattern_id_of("default", forced.entry.entry_id)
    assert [(each.pattern_id, each.match_key) for each in found(LENIENT)] == [(own, forced.wording_key)] * 2
    assert [each.pattern_id for each in found(LENIENT, FORCED)] == [known, known], "as an older release joined them"
    assert [each.pattern_id for each in found("Another")] == [known, known], "what it was founded with is gone"


MODULE = 'Module "shop._pricing" has no attribute "round_half_even"'
REPHRASED = "No attribute `round_half_even` in module `shop._pricing`"
PIN = "Pin shop below 3 in requirements.txt"
REWORDED = "Pin the shop below 3, in requirements.txt."
UPGRADE = "Upgrade shop, and call round_half_up"
SEEN = (MODULE, REPHRASED, CART, *(f"the {word} of the module has no attribute" for word in "abcdefgh"))


def toward(degrees: float) -> Vector:
    return np.array([math.cos(math.radians(degrees)), math.sin(math.radians(degrees))], dtype=np.float32)


def told(situation: str, resolution: str, *, at: float = 0.0, number: int | None = None, **further: Any) -> Embedding:
    kept = stored(
        failure(failure_description=situation, solution_steps=resolution, **further),
        UUID(int=number) if number is not None else None,
    )
    return Embedding(
        entry=kept,
        views=embedding_text.views(kept),
        read=embedding_text.as_embedded(kept),
        vectors={View.SITUATION: toward(at)},
    )


def comparing(model: str = "all-MiniLM-L6-v2") -> TextComparer:
    frequencies = Counter(term for text in SEEN for term in term_counts(text))
    return TextComparer(TermStatistics(documents=len(SEEN), frequencies=frequencies), model)


def candidate(situation: str, resolution: str, cosine: float = 0.8, name: int = 7, **further: Any) -> Candidate:
    defaults: dict[str, Any] = {
        "pattern_id": PatternId(UUID(int=name)),
        "entry_type": EntryType.FAILURE_SOLUTION,
        "situation": situation,
        "resolution": resolution,
        "situation_cosine": cosine,
    }
    return Candidate(**defaults | further)


def decided_near(batch: Sequence[Embedding], **known: Any) -> list[Decision]:
    held: dict[EntryId, PatternId | None] = {each.entry.entry_id: None for each in batch}
    return decide(batch, held=held, existing={}, workspace="default", nearby=around_of(batch, **known))


def around_of(batch: Sequence[Embedding], **known: Any) -> Nearby:
    return Nearby(within=near_in_batch(batch), **{"comparer": comparing()} | known)


def beside(entry: Embedding, *candidates: Candidate, degrees: float | None = 10, model: str | None = None) -> Decision:
    """Decide one entry among candidates; resolutions lie `degrees` from each other, unknown for None."""
    around = {entry.entry.solution_steps or "": toward(0)} | {
        each.resolution: toward(degrees or 0) for each in candidates if each.resolution != entry.entry.solution_steps
    }
    (decision,) = decided_near(
        [entry],
        comparer=comparing(model) if model else comparing(),
        candidates={entry.entry.entry_id: candidates},
        resolutions={} if degrees is None else around,
    )
    return decision


def test_an_entry_joins_the_pattern_that_tells_of_the_same_situation_and_resolution() -> None:
    decision = beside(told(REPHRASED, PIN), candidate(CART, PIN, name=3), candidate(MODULE, REWORDED))
    assert decision.pattern_id == UUID(int=7)
    assert not decision.founds
    assert decision.why == (f"situation: {Ground.SAME_PARTICULARS}", f"resolution: {Ground.SAME_WORDS}")
    assert decision.links == ()


def test_the_same_situation_with_another_resolution_founds_a_rival() -> None:
    """Rivals are never merged, and know of each other."""
    decision = beside(told(REPHRASED, PIN), candidate(MODULE, UPGRADE), degrees=80)
    assert decision.founds
    (link,) = decision.links
    assert (link.kind, link.pattern_id) == (LinkKind.RIVAL, UUID(int=7))
    assert f"situation: {Ground.SAME_PARTICULARS}" in link.why


def test_opposing_fixes_are_rivals_however_alike_their_words() -> None:
    decision = beside(
        told(MODULE, "Enable the cache in settings.py"),
        candidate(REPHRASED, "Disable the cache in settings.py"),
        degrees=1,
    )
    assert [link.kind for link in decision.links] == [LinkKind.RIVAL]
    assert any("resolution" in reason for reason in decision.links[0].why)


def test_a_likely_twin_is_proposed_and_not_joined() -> None:
    decision = beside(
        told("The login page hangs when the cookie is old", PIN),
        candidate("The login page hangs: the cookie is old, then", PIN, cosine=0.95),
    )
    assert decision.founds
    assert [link.kind for link in decision.links] == [LinkKind.TWIN]
    assert 0.5 < decision.links[0].probability < 0.95


def test_the_best_of_several_patterns_is_joined_whatever_their_order() -> None:
    better, worse = candidate(REPHRASED, PIN, cosine=1.0, name=9), candidate(MODULE, PIN, cosine=0.8, name=2)
    entry = told(REPHRASED + ".", PIN)
    assert beside(entry, better, worse).pattern_id == beside(entry, worse, better).pattern_id == UUID(int=9)


def test_entries_of_other_types_and_far_away_patterns_are_not_joined() -> None:
    assert beside(told(REPHRASED, PIN), candidate(MODULE, PIN, entry_type=EntryType.GATE_REJECTION)).founds
    assert beside(told(REPHRASED, PIN), candidate(MODULE, PIN, cosine=0.39)).founds


def test_entries_of_other_types_take_no_place_among_the_nearest() -> None:
    others = [candidate(MODULE, PIN, 0.99, name=20 + n, entry_type=EntryType.GATE_REJECTION) for n in range(9)]
    assert beside(told(REPHRASED, PIN), *others, candidate(MODULE, PIN)).pattern_id == UUID(int=7)


def test_under_a_model_that_nobody_measured_only_equal_texts_join() -> None:
    """A conservative fallback: no suggestion either."""
    decision = beside(told(REPHRASED, PIN), candidate(MODULE, PIN), model="a-model-nobody-measured")
    assert (decision.founds, decision.links) == (True, ())


def test_resolutions_in_other_words_are_asked_for_and_without_them_nothing_is_merged() -> None:
    entry, other = told(REPHRASED, PIN), candidate(MODULE, "Keep shop under 3: requirements.txt")
    nearby = around_of([entry], candidates={entry.entry.entry_id: [other]})
    wanted = find_missing([entry], workspace="default", nearby=nearby).resolutions
    assert set(wanted) == {PIN, other.resolution}
    assert [link.kind for link in beside(entry, other, degrees=None).links] == [LinkKind.TWIN]
    equal = replace(nearby, candidates={entry.entry.entry_id: [candidate(MODULE, PIN)]})
    assert find_missing([entry], workspace="default", nearby=equal).resolutions == []


def test_entries_of_a_batch_join_each_other_in_other_words() -> None:
    one, two, far = told(MODULE, PIN, number=1), told(REPHRASED, PIN, at=30, number=2), told(CART, PIN, at=90, number=3)
    decisions = decided_near([far, two, one])
    assert [each.founds for each in decisions] == [True, False, True]
    assert decisions[1].pattern_id == decisions[2].pattern_id


def test_a_pattern_does_not_drift_from_text_to_text() -> None:
    """The third is like the second, which joined; it is compared with the first, that founded."""
    chain = [
        told(MODULE, PIN, number=1),
        told(REPHRASED, PIN, at=60, number=2),
        told(REPHRASED + "!", PIN, at=120, number=3),
    ]
    assert [each.founds for each in decided_near(chain)] == [True, False, True]


BATCH = tuple(
    told(situation, resolution, at=10 * number, number=number, project_id=f"p{number}")
    for number, (situation, resolution) in enumerate(
        [(MODULE, PIN), (REPHRASED, PIN), (REPHRASED, UPGRADE), (MODULE, REWORDED), (CART, PIN), (MODULE + " now", PIN)]
    )
)


@given(st.permutations(BATCH))
def test_the_order_of_a_batch_changes_no_decision(batch: list[Embedding]) -> None:
    resolutions = {PIN: toward(0), REWORDED: toward(5), UPGRADE: toward(80)}
    found, first = (
        {
            each.entry.entry_id: (each.pattern_id, each.why, each.links)
            for each in decided_near(told_of, resolutions=resolutions)
        }
        for told_of in (batch, BATCH)
    )
    assert found == first


@given(st.permutations(range(9)))
def test_of_patterns_equally_near_few_are_compared_and_the_same_in_any_order(order: list[int]) -> None:
    """All that were as near as the last were compared with each: a batch of one situation with all before it."""
    founders = [
        Founder(pattern_id=PatternId(UUID(int=number)), words=failure(), situation=toward(0.001 if number else 5))
        for number in order
    ]
    (found,) = nearest_founders([told(MODULE, PIN)], founders)
    assert [each.pattern_id.int for each in found] == list(range(1, 1 + MAX_COMPARED))
    of_other_type = [Founder(pattern_id=each.pattern_id, words=rejection(), situation=toward(0)) for each in founders]
    assert nearest_founders([told(MODULE, PIN)], of_other_type) == [[]]


@settings(max_examples=15)
@given(
    st.sampled_from([MODULE, REPHRASED, "retry 3 of `pay_cart` is enabled in shop/cart.py: ValueError E501 since v2.1"])
)
def test_minimal_pairs_never_join(text: str) -> None:
    for pair in minimal_pairs([text, MODULE, CART]):
        assert beside(told(pair.changed, PIN), candidate(pair.text, PIN, cosine=0.99)).founds, pair
        assert beside(told(text, pair.changed), candidate(text + ".", pair.text, cosine=0.99), degrees=1).founds, pair
