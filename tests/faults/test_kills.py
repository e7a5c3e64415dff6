"""Kills of workers, in the short form; `python -m tests.faults` is the long one."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import pytest

from knowledge.memory.index.reconcile import GRACE
from tests.faults import kills
from tests.faults.ground import Ground
from tests.faults.worker import GRACE_SECONDS
from tests.support.faults import Mutant
from tests.support.openai_server import OpenAIServer

pytestmark = pytest.mark.long  # each starts workers and kills them


@pytest.mark.harness
@pytest.mark.timeout(180)
def test_g2_a_kill_at_any_named_place_loses_and_doubles_nothing(alone: Ground) -> None:
    """G2. Before a place is after the one before it, or nearly; the long form kills at both."""
    killed = 0
    for place, extra in kills.places(each=1, phases=["after"]):
        kills.kill_at(alone, place, extra)
        killed += 1
    truth = asyncio.run(alone.truth())
    assert truth.sound, truth
    assert (alone.kills, truth.acknowledged > 150) == (killed, True)


def test_g2_kills_at_random_instants_lose_and_double_nothing(alone: Ground) -> None:
    """G2."""
    kills.kill_at_random(alone, 10, random.Random(2))
    truth = asyncio.run(alone.truth())
    assert truth.sound, truth
    assert truth.acknowledged > 0


@pytest.mark.harness
@pytest.mark.timeout(180)
def test_g2_eight_workers_killed_together_lose_and_double_nothing(shared: Ground) -> None:
    """G2. They share patterns, too."""
    shared.usual["cases"] = 40
    kills.kill_at_random(shared, 16, random.Random(8), workers=8)
    truth = asyncio.run(shared.truth())
    assert truth.complete, truth
    assert truth.acknowledged > 0


@pytest.mark.parametrize("mutant", Mutant)
def test_g2_a_checkpoint_that_is_wrong_is_found_within_few_kills(mutant: Mutant, alone: Ground) -> None:
    """G2. The harness bites."""
    tries, truth = kills.found_within(alone, mutant)
    assert not truth.complete, f"{mutant}: not found in {tries} kills"


@pytest.mark.parametrize(
    "place",
    ["embedder.embed:before:1", "index.upsert:before:1", "index.upsert:after:1", "patterns.mark_embedded:before:1"],
)
def test_a_worker_that_hangs_until_another_took_over_does_no_harm(place: str, shared: Ground) -> None:
    """G4. The lease is over, the work done, and the slow one comes late."""
    kills.overtaken(shared, place=place)
    truth = asyncio.run(shared.truth())
    assert truth.sound, truth


@pytest.mark.timeout(180)
def test_g2_processes_that_share_a_data_directory_are_killed_and_lose_nothing(alone: Ground) -> None:
    """G2. The owner every other time: the next one takes over, and what was asked of the one before is asked again.

    They rebuild, repair, prune and delete as well.
    """
    with OpenAIServer(dims=64) as alone.endpoint:
        kills.kill_members(alone, 8, random.Random(2))
        truth = asyncio.run(alone.truth(rebuilding=True))
    assert truth.acknowledged >= 8
    assert truth.sound, truth


@pytest.mark.parametrize("place", kills.ORPHANS)
def test_g13_a_kill_before_a_deleted_entry_is_taken_back_is_mended_within_a_day(place: str, alone: Ground) -> None:
    """G13. Two faults at once: the entry is deleted while it is embedded, and the worker dies before it takes back."""
    kills.kill_at(alone, place, kills.RARE["index.delete"])
    truth = asyncio.run(alone.truth(later=GRACE + timedelta(hours=1)))
    assert truth.sound, truth


@pytest.mark.harness
@pytest.mark.timeout(180)
def test_g4_eight_checkpoints_at_once_embed_each_entry_once(shared: Ground) -> None:
    """G4 (a). No entry twice, and no more calls than one checkpoint would make, but for 5 %: two may share the last."""
    shared.usual["sharing"] = 1
    done = kills.together(shared, workers=8, entries=512, batch=16, lease_seconds=60.0, embed_seconds=0.01)
    assert done.truth.sound, done.truth
    assert (done.embedded, done.truth.embedded) == (512, 512)
    assert done.calls <= 1.05 * done.fewest


@pytest.mark.harness
@pytest.mark.timeout(180)
def test_g4_a_lease_shorter_than_embedding_doubles_nothing(shared: Ground) -> None:
    """G4 (b). A checkpoint says that it is alive, so nobody takes over what it is embedding."""
    done = kills.together(shared, workers=4, entries=64, batch=8, lease_seconds=0.2, embed_seconds=0.5)
    assert done.truth.complete, done.truth
    assert (done.embedded, done.truth.embedded) == (64, 64)


def test_g17_the_lease_of_a_killed_worker_is_taken_over_by_a_checkpoint_that_waits(shared: Ground) -> None:
    """G17. Within the lease and 5 s."""
    assert kills.taken_over(shared, lease_seconds=1.0) <= 1.0 + 5.0
    assert asyncio.run(shared.truth()).sound


def test_g16_a_worker_that_is_told_to_end_does_so_in_grace_and_leaves_no_lease(alone: Ground) -> None:
    """G16."""
    rng = random.Random(16)
    for _ in range(4):
        assert kills.terminated(alone, rng) <= GRACE_SECONDS
        assert asyncio.run(alone.leases()) == 0
    truth = asyncio.run(alone.truth())
    assert truth.sound, truth
