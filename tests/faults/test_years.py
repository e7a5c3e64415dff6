"""The one-year rule, in the short form; `python -m tests.faults --only G12` is the long one."""

from __future__ import annotations

import random

import pytest

from knowledge.wiring.open import Knowledge
from tests.conftest import SetClock
from tests.faults.years import ZONES, live_through, moments, years_that_differ


def test_g12_a_year_is_the_same_moment_in_every_zone() -> None:
    """G12: 10,000 moments in 40 zones, on 29 February and over changes of the clocks."""
    assert len({str(zone) for zone in ZONES}) == 40
    found = moments(random.Random(12), 10_000)
    wrong = {moment: zones for moment in found if (zones := years_that_differ(moment))}
    assert wrong == {}
    assert sum((moment.month, moment.day) == (2, 29) for moment in found) > 500


@pytest.mark.harness
@pytest.mark.long
async def test_g12_a_clock_that_steps_deletes_nothing_early_and_shows_nothing_expired(
    knowledge: Knowledge, clock: SetClock
) -> None:
    """G12: by what the clock says at the time, in whatever zone it says it."""
    rng = random.Random(12)
    embedded = sorted(moments(rng, 3000))[:: 3000 // 10]
    kept = await live_through(knowledge, clock, embedded, rng)
    assert (kept.early, kept.expired_shown, kept.missing) == (0, 0, 0), kept
    assert (kept.deleted, kept.late.total_seconds()) == (len(embedded), 0), kept
