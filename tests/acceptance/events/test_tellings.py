"""One failure that several tools tell, each in its own way, is one pattern with a success for each."""

from __future__ import annotations

import pytest

from knowledge.wiring.open import Knowledge
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared
from tests.unit.text.test_run_output import DIFFS, TELLINGS

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

CHECK = "python3 -m pytest -q"


async def tell(knowledge: Knowledge, number: int, output: str, diff: str) -> None:
    await knowledge.capture.capture_failure_solution(
        project_id=f"shop {number}",
        agent_type="coder",
        task_type="bugfix",
        failure_description=f"`{CHECK}` fails",
        error_message=output,
        solution_steps=diff,
        success_verified=True,
        verified_by=CHECK,
        task_id=CHECK,
        run_id=str(number),
    )


@pytest.mark.long
async def test_seven_tellings_of_one_failure_and_its_fix_are_one_pattern(knowledge: Knowledge) -> None:
    diffs = list(DIFFS.values())
    for number, output in enumerate(TELLINGS.values()):
        await tell(knowledge, number, output, diffs[number % len(diffs)])
    report = await knowledge.checkpoints.process_all()
    assert (report.founded, report.joined) == (1, len(TELLINGS) - 1)
    for question, error in (
        ("test_reserve_more_than_there_is", None),
        ("shop.stock.OutOfStock: bolt", None),
        ("The tests of the shop fail", TELLINGS["bare"].replace("/home/ann/", "/srv/ci/")),
    ):
        (pattern,) = await knowledge.queries.query_for_failure(question, error, min_relevance=0)
        assert (pattern.success_count, pattern.project_count) == (len(TELLINGS), len(TELLINGS))
    entry = await knowledge.capture.get(pattern.entry_ids[0])
    assert entry.error_message in TELLINGS.values(), "what was told is kept as told"


async def test_the_same_output_with_another_change_is_a_rival(knowledge: Knowledge) -> None:
    await tell(knowledge, 1, TELLINGS["bare"], DIFFS["git"])
    await tell(knowledge, 2, TELLINGS["labels around"], DIFFS["index"].replace("math.fsum", "decimal_sum"))
    assert (await knowledge.checkpoints.process_all()).founded == 2
