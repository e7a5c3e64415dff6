"""The short form of `python -m tests.isolation`: no operation sees another workspace, and mutants are caught (T7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.isolation.leaks import Leak
from tests.isolation.life import one_store
from tests.isolation.mutants import CAUGHT, GUARDED, Mutant, mutated

pytestmark = pytest.mark.long


@pytest.mark.harness
async def test_t7_random_operations_see_their_own_workspace_alone(database_url: str, home: Path) -> None:
    async with one_store(database_url, home, workspaces=12, seed=1) as life:
        await life.live(800)
    assert len(life.done) >= 18, "every kind of operation was done"


@pytest.mark.parametrize("mutant", CAUGHT)
async def test_t7_a_store_that_forgets_the_workspace_is_caught(database_url: str, home: Path, mutant: Mutant) -> None:
    with mutated(mutant), pytest.raises(Leak):
        async with one_store(database_url, home, workspaces=6, seed=2) as life:
            await life.live(600)


@pytest.mark.parametrize("mutant", GUARDED)
async def test_t7_a_statement_that_forgets_the_workspace_still_sees_its_own_alone(
    database_url: str, home: Path, mutant: Mutant
) -> None:
    with mutated(mutant):
        async with one_store(database_url, home, workspaces=6, seed=2) as life:
            await life.live(150)
