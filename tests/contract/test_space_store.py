"""The contract of SpaceStore: one space is bound, and terms are counted."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from hardwon.errors import SpaceMismatch
from knowledge.adapters.embedding_space import mean_cosine
from knowledge.models import BoundSpace, Entry, pattern_id_of
from knowledge.ports import SpaceStore, Stores
from knowledge.retrieval.calibration import default_calibration
from tests.support.embedders import hashed_bag
from tests.support.entries import failure, stored
from tests.support.sharing import OF_ONE_LOOP
from tests.support.stores import OTHER_SPACE, SPACE, Store, claim_all, decide, learn, numbered, situation_point

pytestmark = OF_ONE_LOOP

CALIBRATION = default_calibration(SPACE.model)


def told(number: int) -> Entry:
    text = f"Failure number {number}"
    return stored(failure(failure_description=text, task_description=f"Task {number}"), numbered(number))


async def bind(spaces: SpaceStore, mean_terms: float = 20.0) -> BoundSpace:
    return await spaces.bind(SPACE, mean_terms=mean_terms, calibration=CALIBRATION)


async def bind_other(spaces: SpaceStore) -> BoundSpace:
    return await spaces.bind(OTHER_SPACE, mean_terms=30.0, calibration=CALIBRATION)


# what is decided of a workspace


async def test_a_workspace_is_local_only_once_that_was_said_and_until_it_is_lifted(store: Store) -> None:
    ours, theirs = store.of("ours").spaces, store.of("theirs").spaces
    assert not await ours.local_only()
    for on in (True, True, False, True):
        await ours.keep_local(on=on)
        assert await ours.local_only() is on
    assert not await theirs.local_only()


# which space is in use


async def test_an_empty_store_is_in_no_space(stores: Stores) -> None:
    assert await stores.spaces.bound() is None


async def test_the_first_to_bind_says_what_stands(store: Store) -> None:
    first = await bind(store.of("ours").spaces, 20.0)
    assert first == BoundSpace(space=SPACE, mean_terms=20.0, calibration=CALIBRATION)
    assert await bind(store.of("theirs").spaces, 99.0) == first, "a space is the whole store's"
    assert await store.of("theirs").spaces.bound() == first


async def test_of_eight_that_bind_at_once_one_says_what_stands(stores: Stores) -> None:
    """G19, D43."""
    answers = await asyncio.gather(*(bind(stores.spaces, float(number)) for number in range(1, 9)))
    assert [answer for answer in answers if answer != answers[0]] == []
    assert await stores.spaces.bound() == answers[0]


async def test_two_models_that_start_at_once_leave_one_in_use(stores: Stores) -> None:
    """G22: binding is free while nothing was embedded."""
    await asyncio.gather(*(step(stores.spaces) for step in (bind, bind_other) for _ in range(4)))
    bound = await stores.spaces.bound()
    assert bound is not None
    assert bound.space in {SPACE, OTHER_SPACE}


async def test_once_something_was_embedded_another_model_is_refused_with_what_to_do(store: Store) -> None:
    """G22, D42: whichever workspace it was in, and though it was not marked yet."""
    stores = store.of("ours")
    await bind(stores.spaces)
    await stores.entries.add([told(1)])
    await decide(stores, await claim_all(stores))
    with pytest.raises(SpaceMismatch) as refusal:
        await bind_other(store.of("theirs").spaces)
    assert "`hardwon reembed --model new-model`" in str(refusal.value)
    assert "old-model" in str(refusal.value)
    bound = await stores.spaces.bound()
    assert bound is not None
    assert bound.space == SPACE
    assert await bind(stores.spaces) == bound


async def test_while_nothing_is_embedded_another_model_may_be_bound(stores: Stores) -> None:
    await bind(stores.spaces)
    assert await bind_other(stores.spaces) == await stores.spaces.bound()
    again = await bind(stores.spaces, 40.0)
    assert (again.space, again.mean_terms) == (SPACE, 40.0)
    assert await stores.spaces.bound() == again


async def test_when_everything_embedded_is_gone_another_model_may_be_bound(stores: Stores) -> None:
    await bind(stores.spaces)
    await learn(stores, told(1))
    await stores.entries.delete(numbered(1))
    assert (await bind_other(stores.spaces)).space == OTHER_SPACE


async def test_a_space_is_recalibrated_and_no_other(stores: Stores) -> None:
    before = await bind(stores.spaces)
    measured = replace(CALIBRATION, unrelated=CALIBRATION.unrelated - 0.01, measured=True)
    await stores.spaces.recalibrate(OTHER_SPACE, measured)
    assert await stores.spaces.bound() == before
    await stores.spaces.recalibrate(SPACE, measured)
    assert await stores.spaces.bound() == replace(before, calibration=measured)


# what a model is known by


async def test_what_a_model_made_of_its_probes_is_kept_once_for_the_whole_store(store: Store) -> None:
    ours, theirs = store.of("ours").spaces, store.of("theirs").spaces
    first, later = np.eye(3, SPACE.dims, dtype=np.float32), np.ones((3, SPACE.dims), dtype=np.float32)
    assert not await ours.keep_probes(SPACE, first), "the space is not written down"
    await bind(ours)
    assert await ours.probes(SPACE) is None
    assert await ours.keep_probes(SPACE, first)
    assert await theirs.keep_probes(SPACE, later)
    kept = await theirs.probes(SPACE)
    bound = await ours.bound()
    assert bound is not None
    assert bound.unrelated_cosine == pytest.approx(mean_cosine(first))
    assert kept is not None
    assert (kept.dtype.name, kept.tolist()) == ("float32", first.tolist())
    assert await ours.probes(OTHER_SPACE) is None
    assert (await ours.bound()) == await bind(theirs)


async def test_a_model_that_is_bound_anew_while_nothing_is_embedded_has_no_probes_yet(stores: Stores) -> None:
    await bind(stores.spaces)
    await stores.spaces.keep_probes(SPACE, np.eye(2, SPACE.dims, dtype=np.float32))
    await bind_other(stores.spaces)
    await bind(stores.spaces)
    assert await stores.spaces.probes(SPACE) is None


# how common terms are


# a sample of situations


async def test_a_sample_is_of_situations_with_their_vectors(stores: Stores) -> None:
    await bind(stores.spaces)
    entries = [told(number) for number in range(1, 9)]
    await learn(stores, *entries)
    sample, vectors = await stores.spaces.sample_situations(SPACE, 100)
    assert {entry.entry_id for entry in sample} == {entry.entry_id for entry in entries}, "no task description is one"
    assert [entry.entry_id for entry in sample] == [
        entry.entry_id for entry in sorted(entries, key=lambda entry: situation_point(stores, entry))
    ], "by the ids of the points, which are hashes"
    assert (vectors.dtype.name, vectors.shape) == ("float32", (8, SPACE.dims))
    for entry, vector in zip(sample, vectors, strict=True):
        assert np.allclose(vector, hashed_bag(entry.failure_description or "", dims=SPACE.dims), atol=1e-3)
    fewer, their_vectors = await stores.spaces.sample_situations(SPACE, 3)
    assert (fewer, their_vectors.tolist()) == (sample[:3], vectors[:3].tolist())


async def test_a_sample_is_of_one_workspace_and_one_space(store: Store) -> None:
    """D44, G22."""
    await learn(store.of("ours"), told(1))
    for stores, space in ((store.of("theirs"), SPACE), (store.of("ours"), OTHER_SPACE)):
        sample, vectors = await stores.spaces.sample_situations(space, 10)
        assert (sample, vectors.shape) == ([], (0, SPACE.dims))


async def test_a_sample_in_two_spaces_is_of_the_same_situations_row_by_row(store: Store) -> None:
    """G22: it is what a change of model is judged by."""
    stores = store.of("ours")
    await bind(stores.spaces)
    await learn(stores, *(told(number) for number in range(1, 9)))
    _, vectors = await stores.spaces.sample_situations(SPACE, 100)
    one, other = await stores.spaces.sample_in_both(SPACE, SPACE, 5)
    assert one.tolist() == other.tolist() == vectors[:5].tolist()
    assert one.dtype.name == "float32"
    for asked, first, second in (("ours", SPACE, OTHER_SPACE), ("ours", OTHER_SPACE, SPACE), ("theirs", SPACE, SPACE)):
        none, nothing = await store.of(asked).spaces.sample_in_both(first, second, 5)
        assert (none.shape, nothing.shape) == ((0, first.dims), (0, second.dims))


async def test_a_point_that_several_entries_share_stands_for_one_that_is_left(stores: Stores) -> None:
    founder = told(1)
    pattern = pattern_id_of(stores.workspace, founder.entry_id)
    second = replace(founder, entry_id=numbered(2), run_id="2")
    await learn(stores, founder, second)
    for gone, left in ((numbered(1), [numbered(2)]), (numbered(2), [])):
        await stores.entries.delete(gone)
        sample, _ = await stores.spaces.sample_situations(SPACE, 10)
        assert [entry.entry_id for entry in sample] == left
    assert await stores.points.find_existing([situation_point(stores, founder, pattern)]) == set()
