"""Which matches are shown, and in which order."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.memory.rules.arms import LIKENESS_WEIGHT, Counts, order_score
from knowledge.memory.rules.facets import MISSING_FACTOR, OTHER_FACTOR
from knowledge.memory.rules.ranking import Match, counts_of_pattern, gate_quota, rank, rank_for_gate, strength
from knowledge.models import EntryType
from tests.support.cases import over
from tests.support.entries import HERE, NOON, approval, evidence, failure


def match(
    name: str, *, likeness: float = 0.0, score: float = 0.5, fit: float = 1.0, fits: bool = True, **counts: Any
) -> Match:
    """Return a match so many nats behind the likest, whose arm was tried in situations like this one alone."""
    words = counts.pop("words", None) or failure(solution_steps=f"{name * 2} did it")
    proof = evidence(name, words=words, **counts)
    found = Match(
        evidence=proof, relevance=0.8, score=score, point_id=HERE, likeness=likeness, fit=fit, fits=fits, arm=name
    )
    return tried(found, proof.success_count, proof.attempt_count)


def tried(found: Match, successes: int, attempts: int) -> Match:
    """Return a match with these counts."""
    proof = replace(found.evidence, success_count=successes, attempt_count=attempts)
    counts = counts_of_pattern(proof)
    return replace(found, evidence=proof, counts=counts, order=order_score(found.likeness, 0.0, counts))


def gate(name: str, **told: Any) -> Match:
    return match(name, words=approval(approved_approach=f"{name * 2} did it"), **told)


SAID = ("Treat a missing price as zero and log it", "Treat a missing price as zero and log it now", "Use cents")


@st.composite
def alike(draw: st.DrawFn) -> list[Match]:
    """Draw matches of distinct patterns, many of which repeat a resolution of another one, and some of which are
    rivals."""
    found = draw(matches(distinct=True))
    every = [each.evidence.pattern_id for each in found]
    pairs = draw(st.sets(st.tuples(st.sampled_from(every), st.sampled_from(every)), max_size=6)) if found else set()
    drawn = []
    for each in found:
        own = each.evidence.pattern_id
        words = each.evidence.words
        if (said := draw(st.sampled_from([None, *SAID]))) is not None:
            decided = words.approved_approach is not None
            words = replace(words, approved_approach=said) if decided else replace(words, solution_steps=said)
        rivals = {one for pair in pairs if own in pair for one in pair if one != own}
        drawn.append(replace(each, evidence=replace(each.evidence, words=words, rivals=tuple(sorted(rivals)))))
    return drawn


@st.composite
def matches(draw: st.DrawFn, *, distinct: bool = False) -> list[Match]:
    """Draw matches of few patterns and few values, so that ties and repetitions are common."""
    number = draw(st.integers(0, 12))
    drawn = []
    for position in range(number):
        name = str(position) if distinct else draw(st.sampled_from("abcdefgh"))
        successes = draw(st.integers(0, 6))
        drawn.append(
            match(
                name,
                words=approval(approved_approach=f"{name * 2} did it") if draw(st.booleans()) else None,
                likeness=draw(st.sampled_from([-30.0, -3.0, -2.5, -1.0, 0.0])),
                score=draw(st.sampled_from([0.3, 0.5, 0.9])),
                fit=draw(st.sampled_from([1.0, MISSING_FACTOR, OTHER_FACTOR, OTHER_FACTOR**3])),
                fits=draw(st.booleans()),
                success_count=successes,
                attempt_count=successes + draw(st.integers(0, 3)),
                project_count=draw(st.integers(1, 3)),
                founded_at=NOON - timedelta(days=draw(st.integers(0, 2))),
            )
        )
    return drawn


def ids(found: list[Match]) -> list[object]:
    return [each.evidence.pattern_id for each in found]


@given(matches(distinct=True) | alike(), st.integers(1, 6), st.randoms())
def test_ranking_ignores_the_order_of_its_input(found: list[Match], limit: int, chance: random.Random) -> None:
    shuffled = chance.sample(found, len(found))
    assert rank(found, limit=limit) == rank(shuffled, limit=limit)


@given(matches(), st.integers(1, 6))
def test_a_pattern_is_shown_once_in_its_best_light_and_none_is_missing(found: list[Match], limit: int) -> None:
    ranked = rank(found, limit=limit)
    assert len(ids(ranked)) == len(set(ids(ranked))) == min(limit, len(set(ids(found))))
    for shown in ranked:
        same = [each for each in found if each.evidence.pattern_id == shown.evidence.pattern_id]
        assert strength(shown) == max(map(strength, same))
    strengths = [strength(each) for each in ranked]
    assert strengths == sorted(strengths, reverse=True)


@given(matches(distinct=True) | alike(), st.integers(1, 6), st.data())
def test_one_more_success_never_lowers_a_rank(found: list[Match], limit: int, data: st.DataObject) -> None:
    """Not where others repeat its resolution, or are rivals of it or of each other, either."""
    if not found:
        return
    at = data.draw(st.integers(0, len(found) - 1))
    proof = found[at].evidence
    after = [*found[:at], tried(found[at], proof.success_count + 1, proof.attempt_count + 1), *found[at + 1 :]]
    places = [ids(rank(each, limit=limit)) for each in (found, after)]
    if proof.pattern_id in places[0]:
        assert places[1].index(proof.pattern_id) <= places[0].index(proof.pattern_id)


def test_of_copies_the_stronger_is_shown_however_many_there_are() -> None:
    """Only the first twice as many as are shown were compared: a copy after them stood before those among them."""
    told = [match(f"{n}", words=failure(solution_steps=SAID[0]), score=1 - n / 10) for n in range(6)]
    assert ids(rank(told, limit=2)) == ids(told[:2])
    last = tried(told[4], 2, 2)
    assert ids(rank([*told[:4], last, told[5]], limit=2)) == ids([last, told[0]])


def test_one_more_success_never_lowers_a_decision_that_fits_no_field_behind_a_weaker_one() -> None:
    """It was put off for its fields while decisions had places left, and stood behind all of them then."""
    first = gate("a", likeness=-1.08, success_count=5, attempt_count=8)
    weaker = gate("b", likeness=-1.0, fit=OTHER_FACTOR**3, success_count=3, attempt_count=6)
    solved = match("c", fit=OTHER_FACTOR**3, fits=False, success_count=6, attempt_count=6)
    for successes, places in ((2, "cadb"), (3, "cdab")):
        other = gate("d", likeness=-2.0, fit=OTHER_FACTOR, fits=False, success_count=successes, attempt_count=successes)
        ordered = sorted([first, weaker, solved, other], key=strength, reverse=True)
        assert "".join(each.arm for each in ordered) == places
        assert other.evidence.pattern_id in ids(rank([first, weaker, solved, other], limit=3))


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_no_evidence_lifts_what_is_unlike(successes: int, failures: int) -> None:
    """The situation decides first: ten nats are more than any record."""
    famous = match("a", likeness=-10.0, success_count=successes, attempt_count=successes + failures)
    assert strength(famous) < strength(match("b", success_count=0, attempt_count=3))


def test_strength_is_likeness_and_an_upper_bound_of_the_success_rate() -> None:
    bound = Counts(successes=3.0, failures=1.0).upper_bound
    alike = strength(match("a", success_count=3, attempt_count=4))
    assert alike == pytest.approx(bound)
    other = match("a", likeness=-2.0, success_count=3, attempt_count=4, fit=0.5)
    assert strength(other) == pytest.approx(bound * math.exp(-2 * LIKENESS_WEIGHT) * 0.5)


@given(
    matches(distinct=True),
    st.sampled_from([-3.0, -1.0, 0.0]),
    st.sampled_from([0.3, 0.9]),
    st.integers(1, 6),
    st.booleans(),
)
def test_among_any_others_evidence_alone_orders_what_is_equally_alike(
    others: list[Match],
    likeness: float,
    score: float,
    limit: int,
    fits: bool,  # noqa: FBT001
) -> None:
    """D32, D33: 1 of 1 never before 9 of 10, nor what failed before what was not tried; so for all."""
    records = {"proven": (9, 10), "untried": (1, 1), "failed": (1, 2), "failed again": (1, 3)}
    told = [
        match(name, likeness=likeness, score=score, fits=fits, success_count=worked, attempt_count=attempts)
        for name, (worked, attempts) in records.items()
    ]
    places = ids(rank([*others, *reversed(told)], limit=limit))
    shown = [each for each in ids(told) if each in places]
    assert shown == ids(told)[: len(shown)], "whoever is shown, all with more proof are"
    assert [places.index(each) for each in shown] == sorted(places.index(each) for each in shown)


@given(st.integers(1, 50), st.integers(0, 50))
def test_each_failure_lowers_a_pattern_and_the_first_puts_one_success_below_untried(ok: int, failed: int) -> None:
    """D33."""
    one, more = (match("a", success_count=ok, attempt_count=ok + failed + extra) for extra in (0, 1))
    assert strength(more) < strength(one)
    assert strength(match("b", success_count=1, attempt_count=2 + failed)) < strength(match("c"))


def test_near_copies_of_a_resolution_never_fill_the_places() -> None:
    """D34, D38."""
    told = "Treat a missing price as zero, then log the product and its shop for the people who keep the catalogue"
    copies = [match(f"copy {n}", words=failure(solution_steps=f"{told} {n}")) for n in range(6)]
    others = [match("other", likeness=-1.0), match("third", likeness=-1.5)]
    shown = ids(rank(copies + others, limit=3))
    assert shown[1:] == ids(others)
    assert shown[0] in ids(copies)
    assert len(rank(copies, limit=3)) == 3, "where there is nothing else, they are shown"


def test_a_rival_in_nearly_the_same_words_is_no_copy_but_further_ones_are() -> None:
    """It was left out as a copy: whoever tried the one was not told of the other."""
    told = "Set pool_size to {} in the options of the engine, then restart the service and its workers on all machines"
    sizes = [
        match(f"{size}", words=failure(solution_steps=told.format(size)), score=size / 100) for size in (20, 50, 80)
    ]
    every = {each.evidence.pattern_id for each in sizes}
    rivals = [
        replace(each, evidence=replace(each.evidence, rivals=tuple(every - {each.evidence.pattern_id})))
        for each in sizes
    ]
    others = [match("other", likeness=-0.5), match("third", likeness=-0.6)]
    assert ids(rank(rivals + others, limit=3)) == ids([rivals[2], rivals[1], others[0]])
    assert ids(rank(sizes + others, limit=3)) == ids([sizes[2], *others]), "two that are none are not told apart"


def test_ties_go_to_the_score_then_to_more_projects_then_to_the_older() -> None:
    nearer = match("nearer", score=0.6)
    wider = match("wider", project_count=2)
    older = match("older", founded_at=NOON - timedelta(days=1))
    younger = match("younger")
    found = rank([younger, older, wider, nearer], limit=4)
    assert ids(found) == ids([nearer, wider, older, younger])


@over("limit, quota", [(1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (10, 4)])
def test_gate_entries_have_two_of_five_places_and_one_of_three(limit: int, quota: int) -> None:
    assert gate_quota(limit) == quota


def test_gate_entries_leave_places_to_failures_that_fit_and_fill_what_is_left() -> None:
    gates = [gate(f"gate {n}") for n in range(4)]
    failures = [match(f"failure {n}", likeness=n / 10 - 3) for n in range(4)]
    shown = rank(gates + failures, limit=5)
    assert [each in gates for each in shown] == [True, True, False, False, False]
    assert len([each for each in rank(gates + failures[:1], limit=5) if each in gates]) == 4


@given(matches(distinct=True), st.integers(1, 6))
def test_whatever_comes_first_three_places_are_for_the_fields_asked_for(found: list[Match], limit: int) -> None:
    shown = rank(found, limit=limit)
    fitting = [each for each in found if each.fits and not each.evidence.words.gate_type]
    assert sum(each.fits for each in shown) >= min(3, limit - 1, len(fitting))
    strongest = max(found, key=strength, default=None)
    gates_only = all(each.evidence.words.gate_type for each in found)
    assert strongest is None or gates_only or strength(shown[0]) == strength(strongest)


@given(matches(distinct=True), st.integers(1, 6), st.randoms())
def test_a_gate_is_shown_its_own_decisions_first_and_of_both_kinds(
    found: list[Match], limit: int, chance: random.Random
) -> None:
    kinds = (EntryType.GATE_REJECTION, EntryType.GATE_APPROVAL)
    decided = [replace(each, evidence=replace(each.evidence, entry_type=chance.choice(kinds))) for each in found]
    shown = rank_for_gate(decided, limit=limit)
    own = [each for each in decided if each.fits]
    expected = min(limit, len(own) if len(own) >= min(3, limit) else len(decided))
    assert len(shown) == len(set(ids(shown))) == expected
    assert [each.fits for each in shown] == sorted((each.fits for each in shown), reverse=True)
    for kind in kinds:
        there = sum(each.evidence.entry_type is kind for each in own)
        of_kind = sum(each.evidence.entry_type is kind for each in shown if each.fits)
        assert of_kind >= min(there, gate_quota(limit) if limit > 1 else 0)


def test_a_gate_of_other_fields_takes_no_more_than_the_quota_either() -> None:
    others = [match("a", likeness=-1.0, fits=False), gate("b", likeness=-2.0, fits=False)]
    fitting = [gate("c", likeness=-3.0), gate("d", likeness=-3.0), match("e", likeness=-4.0)]
    last = match("f", likeness=-5.0, fits=False)
    assert ids(rank([*others, *fitting, last], limit=4)) == ids([others[0], fitting[0], fitting[2], last])


@given(matches(distinct=True), st.integers(1, 6))
def test_gate_entries_never_push_out_a_failure_beyond_their_quota(found: list[Match], limit: int) -> None:
    shown = rank(found, limit=limit)
    gates = [each for each in shown if each.evidence.words.gate_type]
    left_out = [each for each in found if each not in shown and not each.evidence.words.gate_type]
    assert len(gates) <= gate_quota(limit) or not left_out


def test_who_vouches_for_a_solution_decides_between_equals_and_turns_no_evidence_over() -> None:
    """A human's or a verifier's word before an agent's own; what failed once in two is not before one of these."""
    own = failure(verified_by=None)
    assert strength(match("a")) > strength(match("b", words=own))
    assert strength(gate("c")) == strength(match("a"))
    assert strength(match("d", words=own)) > strength(match("e", success_count=1, attempt_count=2))
    told = [match("a", words=own, score=0.9), match("b", score=0.5)]
    assert ids(rank(told, limit=2)) == ids(told[::-1])


def test_a_rival_stands_right_behind_the_better_of_the_two() -> None:
    one, other, third = match("one", success_count=5, attempt_count=5), match("other"), match("third", score=0.9)
    one = replace(one, evidence=replace(one.evidence, rivals=(other.evidence.pattern_id,)))
    other = replace(other, evidence=replace(other.evidence, rivals=(one.evidence.pattern_id,)))
    assert ids(rank([other, third, one], limit=3)) == ids([one, other, third])
    assert ids(rank([other, third, one], limit=1)) == ids([one])


@over("successes, attempts", [(0, 6), (1, 12), (2, 17), (6, 65)])
def test_what_many_attempts_say_does_not_work_is_known_to_fail_and_not_before(successes: int, attempts: int) -> None:
    assert match("a", success_count=successes, attempt_count=attempts).is_failing
    assert not match("a", success_count=successes + 1, attempt_count=attempts).is_failing or attempts == 65
    assert not match("a", success_count=successes, attempt_count=attempts // 2).is_failing


def test_what_fails_in_situations_like_this_one_is_failing_whatever_it_did_elsewhere() -> None:
    """And what fails everywhere, however little of it was here."""
    elsewhere = match("a", success_count=60, attempt_count=70)
    assert not elsewhere.is_failing
    assert replace(elsewhere, counts=Counts(failures=8.0)).is_failing
    failing = match("b", success_count=6, attempt_count=65)
    assert replace(failing, counts=Counts(successes=1.0)).is_failing
