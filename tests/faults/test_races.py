"""Races, durability and the soak, in the short form."""

from __future__ import annotations

import random

import pytest

from tests.faults.durability import on_disk, survive
from tests.faults.ground import Ground
from tests.faults.herd import Herd
from tests.faults.races import races
from tests.faults.soak import Soak


async def test_g13_prune_checkpoints_and_deletions_at_once_lose_and_bring_back_nothing(alone: Ground) -> None:
    """G13. Orphans in the index: tests/faults/test_known_gaps.py."""
    async with races(alone, seed=13) as running:
        for _ in range(6):
            truth = await running.round()
            assert not truth.lost, truth
            assert not [said for said in truth.wrong if "verify" not in said], truth
            await running.repaired()


@pytest.mark.timeout(180)
def test_g1_an_acknowledged_capture_survives_the_death_of_its_client_and_of_postgres(herd: Herd) -> None:
    """G1."""
    with on_disk(herd) as (ground, server):
        found = survive(ground, server, random.Random(1), instants=12)
    assert found.lost == 0, found
    assert (found.clients, found.servers) == (8, 4)
    assert found.acknowledged >= 12


async def test_g23_a_soak_of_random_operations_leaves_what_the_model_says(alone: Ground) -> None:
    """G23."""
    soak = Soak(alone, random.Random(23))
    await soak.walk(300)
    assert min(soak.did[name] for name in ("capture", "resolve", "query", "checkpoint", "delete", "prune")) > 0
