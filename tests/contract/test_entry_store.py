"""The contract of EntryStore: entries are stored once, resolved, claimed and let go of."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from hardwon.errors import NotFound, NotOpen
from knowledge.models import (
    AppliesWhen,
    CaptureOutcome,
    CaptureResult,
    Entry,
    EntryId,
    EntryStatus,
    EntryType,
    LeaseToken,
    NewEntry,
    Provenance,
)
from knowledge.ports import Claim, Selection, Stores
from tests.support.entries import NOON, approval, failure, rejection, stored
from tests.support.sharing import OF_ONE_LOOP
from tests.support.stores import EVERYTHING, MINUTE, Store, claim_all, numbered

pytestmark = OF_ONE_LOOP

HOUR = timedelta(hours=1)
MOMENT = timedelta(milliseconds=40)
CONDITIONS = AppliesWhen(technology="python", version=">=3.10", error="TypeError")


def staged(number: int = 1, **told: Any) -> Entry:
    """Return a staged failure of its own task; higher numbers were captured later."""
    entry = stored(failure(**{"task_id": f"T-{number}"} | told), numbered(number))
    return replace(entry, captured_at=NOON + number * HOUR)


def opened(entry: NewEntry | None = None, number: int = 1) -> Entry:
    """Return an open entry: a failure without solution unless another is given."""
    entry = entry or failure(solution_steps=None, success_verified=False, verified_by=None, task_id=f"T-{number}")
    return replace(stored(entry, numbered(number)), status=EntryStatus.OPEN)


def ids(entries: Sequence[Entry]) -> list[EntryId]:
    return [entry.entry_id for entry in entries]


async def outcomes(stores: Stores, *entries: Entry) -> list[CaptureOutcome]:
    return [answer.outcome for answer in await stores.entries.add(entries)]


# adding


async def test_an_entry_comes_back_as_it_was_told(stores: Stores) -> None:
    """D14: every field of it."""
    told = replace(
        stored(failure(error_message="E  TypeError", task_description="Sum a cart", when_to_try="Early", run_id="3")),
        idempotency_key="k",
        applies_when=CONDITIONS,
    )
    (answer,) = await stores.entries.add([told])
    assert (answer.outcome, answer.entry_id, answer.status) == (CaptureOutcome.ACCEPTED, told.entry_id, told.status)
    assert await stores.entries.get(told.entry_id) == replace(told, workspace="default")


@pytest.mark.parametrize("told", [rejection(), approval(), rejection(agent_type="coder", task_type="feature")])
async def test_a_gate_entry_is_stored_with_its_project_and_needs_no_agent(stores: Stores, told: NewEntry) -> None:
    """D12, D13."""
    entry = stored(told)
    assert await outcomes(stores, entry) == [CaptureOutcome.ACCEPTED]
    found = await stores.entries.get(entry.entry_id)
    assert (found.project_id, found.agent_type) == ("web-shop", told.agent_type)


async def test_what_a_batch_tells_again_is_a_duplicate_of_the_first_and_takes_no_key_from_it(stores: Stores) -> None:
    first, again = (replace(staged(number), idempotency_key="k") for number in (1, 2))
    again = replace(again, content_hash=first.content_hash, task_id=first.task_id)
    other = replace(staged(3, solution_steps="Another"), idempotency_key="k")
    answers = await stores.entries.add([first, other, again])
    assert [answer.outcome.value for answer in answers] == ["accepted", "refused", "duplicate"]
    assert answers[2].entry_id == first.entry_id


async def test_many_are_answered_in_their_order(stores: Stores) -> None:
    many = [staged(number, project_id=f"p{number % 3}") for number in range(1, 60)]
    answers = await stores.entries.add(many)
    assert [answer.entry_id for answer in answers] == ids(many)
    assert {answer.outcome for answer in answers} == {CaptureOutcome.ACCEPTED}
    assert await stores.entries.add([]) == []


async def test_the_same_key_with_the_same_body_is_a_duplicate_that_names_the_first(stores: Stores) -> None:
    """G3."""
    first = opened(failure(solution_steps=None, success_verified=False, idempotency_key="k"))
    await stores.entries.add([first])
    await stores.entries.resolve(first.entry_id, solution_steps="mend it", verified_by="pytest")
    again = replace(first, entry_id=numbered(2))
    (answer,) = await stores.entries.add([again])
    assert (answer.outcome, answer.entry_id) == (CaptureOutcome.DUPLICATE, first.entry_id)
    assert await stores.entries.find_duplicate(again) == answer
    assert await stores.entries.find_duplicate(staged(3)) is None
    assert answer.status is EntryStatus.STAGED, "what it is now, not what it was told as"
    assert await stores.entries.count_pending(EVERYTHING) == 1


@pytest.mark.parametrize("changed", [{"failure_description": "Another"}, {"task_id": "T-9"}, {"project_id": "other"}])
async def test_the_same_key_for_something_else_is_refused_and_names_the_first(
    stores: Stores, changed: dict[str, Any]
) -> None:
    """G3."""
    told = failure(idempotency_key="k", task_id="T-1")
    first = stored(told)
    other = stored(replace(told, **changed))
    await stores.entries.add([first])
    for batch in ([other], [staged(7), other]):
        answer = (await stores.entries.add(batch))[-1]
        assert (answer.outcome, answer.field) == (CaptureOutcome.REFUSED, "idempotency_key")
        assert answer.entry_id == first.entry_id
    with pytest.raises(NotFound):
        await stores.entries.get(other.entry_id)


@pytest.mark.parametrize("run_id", [None, "1"])
@pytest.mark.parametrize("task_id", [None, "T-1"])
async def test_the_same_event_is_a_duplicate_without_any_key(
    stores: Stores, task_id: str | None, run_id: str | None
) -> None:
    told = failure(task_id=task_id, run_id=run_id)
    first, again = stored(told), stored(told)
    assert await outcomes(stores, first) == [CaptureOutcome.ACCEPTED]
    for batch in ([again], [staged(7), again]):
        answer = (await stores.entries.add(batch))[-1]
        assert (answer.outcome, answer.entry_id) == (CaptureOutcome.DUPLICATE, first.entry_id)
    (keyed,) = await stores.entries.add([stored(replace(told, idempotency_key="late"))])
    assert (keyed.outcome, keyed.entry_id) == (CaptureOutcome.DUPLICATE, first.entry_id)


async def test_a_key_that_came_with_a_duplicate_is_kept_and_means_nothing_else_from_then_on(stores: Stores) -> None:
    """G3: who told an event anew, now with a key, and then something else with that key, was told that it is new."""
    told = failure(task_id="T-1")
    first, other = stored(told), stored(failure(task_id="T-2", idempotency_key="k"))
    for batch in ([first], [stored(replace(told, idempotency_key="k")), staged(7)]):
        assert (await stores.entries.add(batch))[0].entry_id == first.entry_id
    (refused,) = await stores.entries.add([other])
    assert (refused.outcome, refused.field, refused.entry_id) == ("refused", "idempotency_key", first.entry_id)
    assert (await stores.entries.get(first.entry_id)).idempotency_key == "k"
    (again,) = await stores.entries.add([stored(replace(told, idempotency_key="another"))])
    assert (again.outcome, again.entry_id) == (CaptureOutcome.DUPLICATE, first.entry_id)
    assert (await stores.entries.get(first.entry_id)).idempotency_key == "k", "the first one it had"


async def test_a_key_of_low_trust_gives_no_idempotency_key_to_what_others_told(stores: Stores) -> None:
    ours, theirs = failure(task_id="T-1"), failure(task_id="T-2")
    agent: dict[str, Any] = {"low_trust": True, "captured_by": "agent", "agent_key": "agent"}
    first, own = stored(ours), replace(stored(theirs), **agent)
    for told in (
        [first, own],
        [
            replace(stored(replace(each, idempotency_key=f"agent/{n}")), **agent)
            for n, each in enumerate((ours, theirs))
        ],
    ):
        answers = await stores.entries.add(told)
        assert [answer.entry_id for answer in answers] == [first.entry_id, own.entry_id]
    keys = [(await stores.entries.get(each.entry_id)).idempotency_key for each in (first, own)]
    assert keys == [None, "agent/1"]


async def test_in_a_batch_told_again_the_first_key_of_each_is_kept_and_is_of_nothing_else(stores: Stores) -> None:
    """G3."""
    told = [failure(task_id=f"T-{number}") for number in range(3)]
    first = [answer.entry_id for answer in await stores.entries.add([stored(entry) for entry in told])]
    with_keys = [(0, "k"), (0, "late"), (1, "k"), (2, None), (2, "own"), (1, "other")]
    batch = [stored(replace(told[number], idempotency_key=key)) for number, key in with_keys]
    answers = await stores.entries.add(batch)
    named = [(answer.outcome.value, first.index(answer.entry_id)) for answer in answers]
    assert named == [("duplicate", 0)] * 2 + [("refused", 0)] + [("duplicate", 2)] * 2 + [("duplicate", 1)]
    keys = [(await stores.entries.get(entry_id)).idempotency_key for entry_id in first if entry_id]
    assert keys == ["k", "other", "own"]


@pytest.mark.long
async def test_batches_that_tell_again_with_each_others_keys_do_not_hinder_each_other(stores: Stores) -> None:
    """G3, G4: each key is then of one entry."""
    for attempt in range(5):
        told = [failure(task_id=f"T-{attempt}-{number}") for number in range(40)]
        first = [answer.entry_id for answer in await stores.entries.add([stored(entry) for entry in told])]
        keys = [f"k{attempt}-{number}" for number in range(40)]
        batches = [
            [stored(replace(entry, idempotency_key=key)) for entry, key in zip(told, order, strict=True)]
            for order in (keys, keys[::-1])
        ]
        answers = await asyncio.gather(*(stores.entries.add(batch) for batch in batches))
        assert {answer.entry_id for batch in answers for answer in batch} == set(first)
        taken = [(await stores.entries.get(entry_id)).idempotency_key for entry_id in first if entry_id]
        assert len(set(taken) - {None}) == len([key for key in taken if key])


async def test_of_a_duplicate_and_something_new_with_one_key_at_once_one_has_it(stores: Stores) -> None:
    """G3."""
    for number in range(20):
        key, told = f"k{number}", failure(task_id=f"T-{number}")
        await stores.entries.add([stored(told)])
        repeated, new = stored(replace(told, idempotency_key=key)), stored(failure(task_id="new", idempotency_key=key))
        new = replace(new, task_id=f"new {number}")
        answers = await asyncio.gather(*(stores.entries.add([each]) for each in (repeated, new)))
        assert sorted(answer.outcome for (answer,) in answers) in (["duplicate", "refused"], ["accepted", "refused"])


@pytest.mark.parametrize(
    "changed", [{"task_id": "T-2"}, {"run_id": "2"}, {"project_id": "b"}, {"technology": "go"}, {"task_id": None}]
)
async def test_another_task_run_project_or_content_is_another_event(stores: Stores, changed: dict[str, Any]) -> None:
    told = failure(task_id="T-1", run_id="1")
    assert await outcomes(stores, stored(told), stored(replace(told, **changed))) == [CaptureOutcome.ACCEPTED] * 2


async def test_sixteen_clients_with_one_key_store_one_entry(stores: Stores) -> None:
    """G3."""
    clients = [stored(failure(idempotency_key="k", project_id="new")) for _ in range(16)]
    answers = [answer for (answer,) in await asyncio.gather(*(stores.entries.add([one]) for one in clients))]
    assert sorted(answer.outcome for answer in answers) == ["accepted"] + ["duplicate"] * 15
    assert len({answer.entry_id for answer in answers}) == 1


@pytest.mark.long
async def test_batches_with_the_same_events_in_opposite_orders_do_not_hinder_each_other(stores: Stores) -> None:
    """G3, G4: long ones, which go to Postgres in parts."""
    await stores.entries.add([stored(failure(task_id="earlier"))])  # else the second batch waits for the project
    for attempt in range(2):
        run = {"run_id": str(attempt)}
        ends = [[failure(task_id=f"{end}-{number}", **run) for number in range(5)] for end in "az"]
        middles = [[failure(task_id=f"m-{batch}-{number}", **run) for number in range(1000)] for batch in range(2)]
        orders = [[*ends[0], *middles[0], *ends[1]], [*ends[1], *middles[1], *ends[0]]]
        answers = await asyncio.gather(*(stores.entries.add([stored(entry) for entry in order]) for order in orders))
        assert tallied(answers) == {"accepted": 2010, "duplicate": 10}


async def test_single_captures_and_batches_of_a_new_project_do_not_hinder_each_other(stores: Stores) -> None:
    """G3, G4."""
    for attempt in range(3):
        told = [failure(project_id=f"new-{attempt}", task_id=str(number)) for number in range(40)]
        batches = [[stored(entry) for entry in told] for _ in range(2)]
        answers = await asyncio.gather(*map(stores.entries.add, batches + [[stored(entry)] for entry in told[::4]]))
        assert tallied(answers) == {"accepted": 40, "duplicate": 50}


def tallied(answers: Sequence[Sequence[CaptureResult]]) -> Counter[str]:
    return Counter(str(answer.outcome) for batch in answers for answer in batch)


async def test_a_deleted_entry_may_be_told_again(stores: Stores) -> None:
    first = stored(failure(idempotency_key="k"))
    await stores.entries.add([first])
    await stores.entries.delete(first.entry_id)
    again = replace(first, entry_id=numbered(2))
    assert await outcomes(stores, again) == [CaptureOutcome.ACCEPTED]
    with pytest.raises(NotFound):
        await stores.entries.delete(first.entry_id)


async def test_two_workspaces_never_meet(store: Store) -> None:
    """D44."""
    ours, theirs = store.of("ours").entries, store.of("theirs").entries
    entry, gate = staged(1, idempotency_key="k"), replace(opened(rejection(revision_approach=None), 2))
    unsolved = opened(number=3)
    await ours.add([entry, gate, unsolved])
    with pytest.raises(NotFound):
        await theirs.get(entry.entry_id)
    with pytest.raises(NotFound):
        await theirs.resolve(unsolved.entry_id, solution_steps="mend it", verified_by="pytest")
    with pytest.raises(NotFound):
        await theirs.delete(entry.entry_id)
    assert await theirs.find_rejection("web-shop", "design_review", None) is None
    assert not (await theirs.claim(EVERYTHING, limit=10, lease=MINUTE)).entries
    assert await theirs.count_pending(EVERYTHING) == 0
    assert await theirs.due_projects(NOON + 100 * HOUR) == []
    assert await theirs.abandon("web-shop", unvouched=True) == 0
    (answer,) = await theirs.add([replace(entry, entry_id=numbered(9))])
    assert answer.outcome is CaptureOutcome.ACCEPTED, "keys and events are a workspace's own"
    assert await ours.count_pending(EVERYTHING) == 1


# resolving


async def test_a_resolution_stages_an_open_failure_as_verified(stores: Stores) -> None:
    entry = opened()
    await stores.entries.add([entry])
    found = await stores.entries.resolve(
        entry.entry_id, solution_steps="mend it", verified_by="pytest", when_to_try="Early", applies_when=CONDITIONS
    )
    assert found == await stores.entries.get(entry.entry_id)
    assert found == replace(
        entry,
        workspace="default",
        status=EntryStatus.STAGED,
        success_verified=True,
        solution_steps="mend it",
        verified_by="pytest",
        when_to_try="Early",
        applies_when=CONDITIONS,
    )


async def test_dead_ends_of_a_resolution_replace_those_told_with_the_failure_and_none_leaves_them(
    stores: Stores,
) -> None:
    told = [replace(opened(number=number), dead_ends=("guess",)) for number in (1, 2)]
    await stores.entries.add(told)
    resolve = partial(stores.entries.resolve, solution_steps="mend it", verified_by="pytest")
    assert (await resolve(told[0].entry_id)).dead_ends == ("guess",)
    assert (await resolve(told[1].entry_id, dead_ends=("guess", "wait"))).dead_ends == ("guess", "wait")
    assert await stores.entries.find_dead_ends([]) == {}


async def test_conditions_told_with_a_failure_stay_unless_its_resolution_tells_others(stores: Stores) -> None:
    told = [replace(opened(number=number), applies_when=CONDITIONS) for number in (1, 2)]
    await stores.entries.add(told)
    others = AppliesWhen(tool="pytest")
    resolve = partial(stores.entries.resolve, solution_steps="mend it", verified_by="pytest")
    assert (await resolve(told[0].entry_id)).applies_when == CONDITIONS
    first = await resolve(told[1].entry_id, applies_when=others)
    assert first.applies_when == others
    assert await resolve(told[1].entry_id, applies_when=others) == first, "told again"
    assert await resolve(told[1].entry_id) == first
    with pytest.raises(NotOpen):
        await resolve(told[1].entry_id, applies_when=CONDITIONS)


async def test_a_resolution_stages_an_open_rejection_without_calling_it_verified(stores: Stores) -> None:
    """D21."""
    entry = opened(rejection(revision_approach=None))
    await stores.entries.add([entry])
    found = await stores.entries.resolve(entry.entry_id, revision_approach="Expand first")
    assert (found.status, found.revision_approach) == (EntryStatus.STAGED, "Expand first")
    assert not found.success_verified


async def test_the_same_resolution_again_changes_nothing_and_another_is_refused(stores: Stores) -> None:
    entry = opened()
    await stores.entries.add([entry])
    first = await stores.entries.resolve(entry.entry_id, solution_steps="mend it", verified_by="pytest")
    assert await stores.entries.resolve(entry.entry_id, solution_steps="mend it", verified_by="pytest") == first
    with pytest.raises(NotOpen, match="staged"):
        await stores.entries.resolve(entry.entry_id, solution_steps="break it", verified_by="pytest")
    assert await stores.entries.get(entry.entry_id) == first


async def test_of_two_resolutions_at_once_one_stands(stores: Stores) -> None:
    entry = opened()
    await stores.entries.add([entry])
    answers = await asyncio.gather(
        *(stores.entries.resolve(entry.entry_id, solution_steps=f"way {n}", verified_by="pytest") for n in range(8)),
        return_exceptions=True,
    )
    won = [answer for answer in answers if isinstance(answer, Entry)]
    assert len(won) == 1
    assert sum(isinstance(answer, NotOpen) for answer in answers) == 7
    assert await stores.entries.get(entry.entry_id) == won[0]


async def test_what_was_abandoned_or_never_was_cannot_be_resolved(stores: Stores) -> None:
    entry = opened()
    await stores.entries.add([entry])
    await stores.entries.abandon("web-shop", unvouched=False)
    with pytest.raises(NotOpen, match="abandoned"):
        await stores.entries.resolve(entry.entry_id, solution_steps="mend it", verified_by="pytest")
    with pytest.raises(NotFound):
        await stores.entries.resolve(EntryId(uuid4()), solution_steps="mend it", verified_by="pytest")


async def test_a_rejection_on_record_is_of_the_same_project_gate_and_task(stores: Stores) -> None:
    told = opened(rejection(revision_approach=None, task_id="T-1"))
    late = replace(told, entry_id=numbered(2), run_id="2", captured_at=NOON + HOUR)
    await stores.entries.add([late, told, stored(approval(task_id="T-2"), numbered(3))])
    on_record = stores.entries.find_rejection
    assert await on_record("web-shop", "design_review", "T-1") == told.entry_id, "the first one"
    assert await on_record("web-shop", "design_review", "T-2") is None, "an approval is none"
    assert await on_record("web-shop", "design_review", None) is None, "no task is not any task"
    assert await on_record("web-shop", "review", "T-1") is None
    assert await on_record("other", "design_review", "T-1") is None
    await stores.entries.add([opened(rejection(revision_approach=None), 4)])
    assert await on_record("web-shop", "design_review", None) == numbered(4)


async def test_what_waits_for_its_resolution_comes_in_pages_the_latest_first(stores: Stores) -> None:
    late = replace(opened(number=7), captured_at=NOON + HOUR)
    elsewhere = failure(solution_steps=None, success_verified=False, verified_by=None, project_id="other")
    await stores.entries.add([opened(number=3), opened(number=2), late, staged(4), opened(elsewhere, 5)])
    await stores.entries.add([opened(rejection(revision_approach=None), 6)])
    unresolved = stores.entries.unresolved
    everything = [numbered(number) for number in (7, 2, 3, 5, 6)]
    assert ids(await unresolved(limit=10)) == everything, "of one moment the ids decide"
    assert ids(await unresolved(limit=2)) == everything[:2]
    assert ids(await unresolved(limit=10, after=everything[1])) == everything[2:]
    assert ids(await unresolved(limit=10, project_id="other")) == [numbered(5)]
    with pytest.raises(NotFound):
        await unresolved(limit=10, after=EntryId(uuid4()))
    await stores.entries.resolve(late.entry_id, solution_steps="mend it", verified_by="pytest")
    await stores.entries.abandon("other", unvouched=False)
    assert ids(await unresolved(limit=10)) == [numbered(number) for number in (2, 3, 6)]
    assert ids(await unresolved(limit=10, after=late.entry_id)) == [numbered(number) for number in (2, 3, 6)]


async def test_the_entries_of_a_task_come_open_ones_first_then_the_latest(stores: Stores) -> None:
    waits = opened(number=4)
    await stores.entries.add(
        [
            staged(1, task_id="T-4"),
            staged(2, task_id="T-4", project_id="other"),
            staged(3, task_id="T-4", run_id="2"),
            waits,
            staged(5),
            stored(approval(task_id="T-4"), numbered(6)),
            stored(approval(gate_type="review"), numbered(7)),
            stored(approval(), numbered(8)),
        ]
    )
    of_task = stores.entries.entries_of_task
    found = await of_task("web-shop", "T-4", EntryType.FAILURE_SOLUTION)
    assert ids(found) == [numbered(4), numbered(3), numbered(1)]
    assert found[0] == replace(waits, workspace="default")
    assert ids(await of_task("web-shop", "T-4", EntryType.FAILURE_SOLUTION, limit=2)) == [numbered(4), numbered(3)]
    assert ids(await of_task("web-shop", None, EntryType.GATE_APPROVAL, gate_type="review")) == [numbered(7)]


# the lease


async def test_claims_take_the_oldest_first_up_to_their_limit_and_never_overlap(stores: Stores) -> None:
    same_moment = [replace(staged(number), captured_at=NOON) for number in (12, 11)]
    await stores.entries.add([staged(3), staged(1), *same_moment, staged(2), opened(number=5)])
    claims = [await stores.entries.claim(EVERYTHING, limit=2, lease=MINUTE) for _ in range(4)]
    assert [ids(claim.entries) for claim in claims] == [
        [numbered(11), numbered(12)],
        [numbered(1), numbered(2)],
        [numbered(3)],
        [],
    ]
    assert len({claim.token for claim in claims}) == 4
    assert {entry.attempts for claim in claims for entry in claim.entries} == {1}


async def test_eight_claimers_at_once_take_each_of_500_entries_once(stores: Stores) -> None:
    """G4, D24."""
    await stores.entries.add([staged(number) for number in range(500)])
    taken: list[EntryId] = []

    async def work() -> None:
        while entries := (await stores.entries.claim(EVERYTHING, limit=7, lease=MINUTE)).entries:
            taken.extend(ids(entries))
            await asyncio.sleep(0)

    await asyncio.gather(*(work() for _ in range(8)))
    assert sorted(taken) == [numbered(number) for number in range(500)]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), [1, 2, 3, 4]),
        (Selection(project_id="b"), [2]),
        (Selection(only_vouched=True), [1, 2, 4]),
        (Selection(captured_before=NOON + 2 * HOUR), [1]),
        (Selection(project_id="web-shop", only_vouched=True, captured_before=NOON + 4 * HOUR), [1]),
        (Selection(project_id="nowhere"), []),
    ],
)
async def test_a_claim_takes_what_its_selection_says(stores: Stores, selection: Selection, expected: list[int]) -> None:
    gate = replace(stored(rejection(), numbered(4)), captured_at=NOON + 4 * HOUR)
    await stores.entries.add(
        [staged(1), staged(2, project_id="b"), staged(3, verified_by=None), gate, opened(number=5)]
    )
    assert await stores.entries.count_pending(selection) == len(expected)
    claim = await stores.entries.claim(selection, limit=10, lease=MINUTE)
    assert ids(claim.entries) == [numbered(number) for number in expected]
    assert await stores.entries.count_pending(selection) == len(expected), "leased ones included"


async def test_a_lease_that_ran_out_is_taken_over_and_one_that_runs_is_not(stores: Stores) -> None:
    """G17."""
    await stores.entries.add([staged(1), staged(2)])
    await stores.entries.claim(EVERYTHING, limit=1, lease=MINUTE)
    lost = await stores.entries.claim(EVERYTHING, limit=1, lease=MOMENT)
    await asyncio.sleep(2 * MOMENT.total_seconds())
    taken_over = await claim_all(stores)
    assert ids(taken_over.entries) == ids(lost.entries) == [numbered(2)]
    assert taken_over.token != lost.token
    assert taken_over.entries[0].attempts == 2


async def test_a_stale_token_extends_releases_and_buries_nothing(stores: Stores) -> None:
    await stores.entries.add([staged(1), staged(2)])
    stale = await claim_all(stores, lease=MOMENT)
    await asyncio.sleep(2 * MOMENT.total_seconds())
    (taken,) = (await stores.entries.claim(EVERYTHING, limit=1, lease=MINUTE)).entries
    assert await stores.entries.extend(stale, MINUTE) == 1, "the other one nobody took"
    await stores.entries.release(stale)
    await stores.entries.bury(stale.token, taken.entry_id, "refused")
    assert (await stores.entries.get(taken.entry_id)).status is EntryStatus.STAGED
    assert ids((await claim_all(stores)).entries) == [numbered(2)], "what it did not hold is still leased"


async def test_what_is_released_can_be_claimed_at_once(stores: Stores) -> None:
    await stores.entries.add([staged(1), staged(2)])
    claim = await claim_all(stores)
    await stores.entries.release(claim)
    await stores.entries.release(Claim(token=LeaseToken(uuid4()), entries=()))
    assert ids((await claim_all(stores)).entries) == [numbered(1), numbered(2)]


async def test_a_buried_entry_is_dead_with_its_reason_and_never_claimed_again(stores: Stores) -> None:
    await stores.entries.add([staged(1), staged(2)])
    claim = await claim_all(stores, lease=MOMENT)
    await stores.entries.bury(claim.token, numbered(1), "too long")
    await stores.entries.bury(claim.token, EntryId(uuid4()), "not there")
    dead = await stores.entries.get(numbered(1))
    assert (dead.status, dead.dead_reason) == (EntryStatus.DEAD, "too long")
    await asyncio.sleep(2 * MOMENT.total_seconds())
    assert ids((await claim_all(stores)).entries) == [numbered(2)]
    assert await stores.entries.extend(claim, MINUTE) == 0


# abandoning, and what is due


@pytest.mark.parametrize(("unvouched", "gone"), [(False, {5}), (True, {3, 5})])
async def test_abandoning_takes_open_entries_and_what_nobody_vouches_for(
    stores: Stores,
    unvouched: bool,  # noqa: FBT001 - a parameter of the test
    gone: set[int],
) -> None:
    """D48."""
    gate = stored(rejection(), numbered(4))
    mine = [staged(1), staged(3, verified_by=None), gate, opened(number=5)]
    others = [staged(2, project_id="b", verified_by=None), replace(opened(number=6), project_id="b")]
    await stores.entries.add([*mine, *others])
    assert await stores.entries.abandon("web-shop", unvouched=unvouched) == len(gone)
    now = {entry.entry_id.int: (await stores.entries.get(entry.entry_id)).status for entry in [*mine, *others]}
    assert {number for number, status in now.items() if status is EntryStatus.ABANDONED} == gone
    assert await stores.entries.abandon("web-shop", unvouched=unvouched) == 0


async def test_abandoning_takes_the_lease_away(stores: Stores) -> None:
    await stores.entries.add([staged(1, verified_by=None)])
    claim = await claim_all(stores)
    assert await stores.entries.abandon("web-shop", unvouched=True) == 1
    assert await stores.entries.extend(claim, MINUTE) == 0


async def test_of_those_that_tell_a_failure_again_the_open_ones_are_abandoned(stores: Stores) -> None:
    await stores.entries.add([staged(1), opened(number=5), opened(number=6)])
    for gone in (1, 0):
        assert await stores.entries.abandon_repeated([EntryId(numbered(1)), EntryId(numbered(5))]) == gone
        statuses = [(await stores.entries.get(EntryId(numbered(number)))).status for number in (1, 5, 6)]
        assert statuses == [EntryStatus.STAGED, EntryStatus.ABANDONED, EntryStatus.OPEN]
    assert await stores.entries.abandon_repeated([]) == 0


async def test_due_projects_are_those_with_something_staged_for_long_enough(stores: Stores) -> None:
    """D45."""
    await stores.entries.add(
        [staged(1, project_id="b"), staged(2, project_id="a"), staged(3, project_id="late"), opened(number=4)]
    )
    assert await stores.entries.due_projects(NOON + 3 * HOUR) == ["a", "b"]
    assert await stores.entries.due_projects(NOON) == []


async def test_a_project_is_forgotten_once_nothing_of_it_is_left(store: Store) -> None:
    """D19."""
    ours, theirs = store.of("ours").entries, store.of("theirs").entries
    told = [staged(number, project_id="going", task_id=str(number)) for number in range(3)]
    await ours.add([*told, staged(9, project_id="staying")])
    await theirs.add([replace(told[0], entry_id=numbered(20))])
    assert await ours.ids_of_project("going", limit=2) == [told[0].entry_id, told[1].entry_id]
    assert not await ours.forget_project("going"), "entries are left"
    for entry in told:
        await ours.delete(entry.entry_id)
    assert await ours.ids_of_project("going", limit=2) == []
    assert await ours.forget_project("going")
    with pytest.raises(NotFound):
        await ours.ids_of_project("going", limit=2)
    assert (await store.of("ours").checkpoints.stats()).projects == 1
    assert await theirs.ids_of_project("going", limit=2) == [numbered(20)], "a workspace's own"


# low trust


@pytest.mark.parametrize(
    ("told_by", "solved_by", "source"),
    [
        (Provenance(key_id="boss"), Provenance(key_id="agent", low_trust=True), "agent"),
        (Provenance(), Provenance(key_id="agent", low_trust=True), "agent"),
        (Provenance(key_id="agent", low_trust=True), Provenance(key_id="boss"), "agent"),
        (Provenance(key_id="one", low_trust=True), Provenance(key_id="two", low_trust=True), "two"),
        (Provenance(key_id="boss"), Provenance(key_id="boss"), None),
    ],
)
async def test_an_entry_is_of_the_key_of_low_trust_that_told_or_resolved_it(
    store: Store, told_by: Provenance, solved_by: Provenance, source: str | None
) -> None:
    """T2, T4: one that an agent resolved for the key that had told it was of that key, and all agents were one."""
    entries = store.of("default").entries
    entry = replace(
        stored(failure(solution_steps=None, success_verified=False)),
        status=EntryStatus.OPEN,
        captured_by=told_by.key_id,
        agent_key=told_by.key_id if told_by.low_trust else None,
        low_trust=told_by.low_trust,
    )
    await entries.add([entry])
    resolved = await entries.resolve(entry.entry_id, solution_steps="Mend it", verified_by="pytest", by=solved_by)
    assert resolved.source == source
    assert (await entries.get(entry.entry_id)).source == source


@pytest.mark.parametrize("suspicions", [(), ("override",)])
async def test_a_trusted_resolution_takes_the_place_of_one_of_low_trust_until_it_is_embedded(
    store: Store, suspicions: tuple[str, ...]
) -> None:
    entries = store.of("default").entries
    entry = opened()
    await entries.add([entry])
    agent = Provenance(key_id="agent", low_trust=True, suspicions=suspicions)
    boss = Provenance(key_id="boss")
    told: dict[str, Any] = {"solution_steps": "mend it", "verified_by": "pytest"}
    assert await entries.overrule(entry.entry_id, "agent", **told, by=boss) is None, "it waits for its resolution"
    await entries.resolve(
        entry.entry_id,
        solution_steps="break it",
        verified_by="me",
        when_to_try="Always",
        by=agent,
        applies_when=CONDITIONS,
    )
    claim = await entries.claim(EVERYTHING, limit=1, lease=MINUTE)
    assert await entries.overrule(entry.entry_id, "another", **told, by=boss) is None
    replaced = await entries.overrule(entry.entry_id, "agent", **told, by=boss)
    assert replaced == await entries.get(entry.entry_id)
    assert (replaced.solution_steps, replaced.verified_by, replaced.when_to_try) == ("mend it", "pytest", None)
    assert replaced.applies_when is None
    assert (replaced.status, replaced.resolved_by, replaced.low_trust) == (EntryStatus.STAGED, "boss", False)
    assert (replaced.source, replaced.suspicions) == (None, ())
    assert await entries.extend(claim, MINUTE) == 0, "who embeds what it said before marks nothing"
    assert ids((await entries.claim(EVERYTHING, limit=1, lease=MINUTE)).entries) == [entry.entry_id]
    assert await entries.overrule(entry.entry_id, "boss", solution_steps="again", by=boss) is None


async def test_what_is_held_back_stays_so_when_it_is_resolved_and_takes_one_resolution(store: Store) -> None:
    entries = store.of("default").entries
    held_back = replace(
        stored(failure(solution_steps=None, success_verified=False)),
        status=EntryStatus.QUARANTINED,
        suspicions=("role",),
        low_trust=True,
    )
    await entries.add([held_back])
    resolved = await entries.resolve(held_back.entry_id, solution_steps="Mend it", verified_by="pytest")
    assert (resolved.status, resolved.suspicions) == (EntryStatus.QUARANTINED, ("role",))
    with pytest.raises(NotOpen):
        await entries.resolve(held_back.entry_id, solution_steps="Another way", verified_by="pytest")


async def test_the_latest_entries_of_a_key_are_those_that_wait_latest_first(stores: Stores) -> None:
    mine = [replace(staged(number), agent_key="agent", low_trust=True) for number in (1, 2, 3)]
    waiting = replace(opened(number=4), agent_key="agent", low_trust=True, captured_at=NOON + 4 * HOUR)
    others = replace(staged(5), agent_key="other", low_trust=True)
    await outcomes(stores, *mine, waiting, others, staged(6))
    latest = await stores.entries.latest_of_key("agent", limit=3)
    assert ids(latest) == [waiting.entry_id, mine[2].entry_id, mine[1].entry_id]
    assert await stores.entries.latest_of_key("nobody", limit=3) == []
