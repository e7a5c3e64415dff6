"""Work that is long lets others have the event loop: else one question makes everybody's context late."""

from __future__ import annotations

from typing import Any

import pytest

from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge
from orchestrator.qa.wrappers import AnswerFromCaseEvidence
from tests.support.documents import ADMIN, put
from tests.support.entries import failure
from tests.support.lag import lag
from tests.support.stores import repeated

MOST = 0.3
"""Seconds; on a quiet machine a tenth of it. Each of these took 0.4 to 17 s."""

LINES = [
    f"2026-01-01T00:{n // 60:02}:{n % 60:02}Z ERROR part {n} of the order is not there " + "x y z " * 30
    for n in range(1000)
]
FOLDERS = {
    "many lines of many logs": ({f"{n}.log": "\n".join(LINES[:60]) for n in range(50)}, "What is on lines 1 to 50?"),
    "all lines of several logs": ({f"{n}.log": "\n".join(LINES) for n in range(5)}, "Show all ERROR entries"),
    "a page of letters": ({"page.md": "# widget frobnication\n\n" + "a\n" * 10_000}, "What is the frobnication of a?"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", FOLDERS)
async def test_a_question_of_long_documents_holds_up_nobody(knowledge: Knowledge, name: str) -> None:
    files, question = FOLDERS[name]
    for uri, text in files.items():
        await put(knowledge, uri, text.encode(), "case", "1")
    while (await knowledge.documents.indexing.run()).indexed:
        pass
    async with lag() as seen:
        answer = await AnswerFromCaseEvidence(knowledge.answering, ADMIN).answer("1", question)
    assert seen.worst < MOST
    if name != "a page of letters":
        assert len(answer.claims) > 100


@pytest.mark.long
async def test_a_solution_of_many_long_failures_holds_up_nobody(knowledge: Knowledge) -> None:
    task: dict[str, Any] = {"project_id": "web-shop", "task_id": "T-1"}
    frame = '  File "/srv/app/part{0}.py", line {1}, in call{0}\n    return nothing{0}(told, {1})\n'
    for run in range(60):
        trace = "Traceback (most recent call last):\n" + "".join(frame.format(n, n + run) for n in range(600))
        await knowledge.capture.capture(
            failure(
                **task, run_id=f"{run}", solution_steps=None, success_verified=False, verified_by=None,
                failure_description=f"the nightly run {run} failed", error_message=f"{trace}KeyError: {run}",
            )
        )  # fmt: skip
    async with lag() as seen:
        kept = await knowledge.events.task_solved(**task, solution_steps="Keep the price", verified_by="pytest")
    assert len(kept.entry_ids) == 1, "60 runs that failed alike"
    assert seen.worst < MOST


@pytest.mark.long
async def test_a_split_and_a_join_of_a_large_pattern_hold_up_nobody(
    knowledge: Knowledge, settings: KnowledgeSettings
) -> None:
    """Each entry was compared with each that was to leave: 18 s for 4,000, and no split at all of 8,000."""
    await knowledge.capture.capture(failure())
    await knowledge.checkpoints.process_all()
    await repeated(settings, 1_499)
    (leaving, *_) = await repeated(settings, 1_500, solution_steps="Refuse the cart and tell the shop")
    async with lag() as seen:
        split = await knowledge.grouping.split([leaving])
    assert seen.computed < MOST
    assert split.attempt_count == 1_500
    (other,) = [each.pattern_id for each in await knowledge.lists.patterns() if each.pattern_id != split.pattern_id]
    async with lag() as seen:
        joined = await knowledge.grouping.join(other, split.pattern_id)
    assert seen.computed < MOST
    assert joined.attempt_count == 3_000
    assert (await knowledge.upkeep.verify()).wrong == {}  # copies have no trials of their own
