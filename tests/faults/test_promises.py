"""The page of promises: what it names is there. The short forms of a flood (G18), the one-year rule (G12), attacks."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from knowledge.wiring.open import Knowledge
from tests.conftest import SetClock
from tests.faults.__main__ import chosen, read
from tests.faults.campaigns import KINDS, lost_share, report, run_campaigns
from tests.faults.flood import run
from tests.faults.years import live_through, moments

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")


def test_every_command_of_the_page_names_a_fault_of_the_long_form() -> None:
    names = re.findall(r"--only (G\d+)", PAGE)
    assert len(names) >= 8
    for name in names:
        assert chosen(read(["--only", name])), name


def test_every_test_of_the_page_is_there() -> None:
    for path in re.findall(r"tests/\w+/\w+\.py", PAGE):
        assert (ROOT / path).is_file(), path


@pytest.mark.parametrize("only", ["G99", "G7"])
def test_a_name_that_is_none_is_told_and_does_not_pass(only: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read(["--only", only])
    assert ended.value.code == 2
    assert "G13" in capsys.readouterr().err


@pytest.mark.harness
@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory of a process as Linux tells it")
def test_g18_a_flood_is_refused_in_time_and_what_was_acknowledged_is_there_once() -> None:
    """G18."""
    assert run(seconds=4, measured=1) == []


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


@pytest.mark.harness
@pytest.mark.long
async def test_no_campaign_by_a_key_that_may_only_capture_silences_or_displaces_a_trusted_exact_lesson(
    postgres_dsn: str,
) -> None:
    kinds = list(KINDS)
    outcomes = await run_campaigns(postgres_dsn, [(kinds[number % len(kinds)], number) for number in range(20)])
    assert lost_share(outcomes, "exact") == (0, 20), report(outcomes)
    assert all(outcome.quiet for outcome in outcomes), "nobody is named before the attack"
    named = [outcome.named for outcome in outcomes if outcome.kind == "poison: one capture"]
    assert named
    assert all(named)
