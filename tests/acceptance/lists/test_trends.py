"""Daily counts: what was captured, embedded and handed out, and first attempts with a hint against those held out."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from hardwon.errors import InvalidInput
from hardwon.models.lists import TrendCounts
from knowledge.models import Context, ContextId, Pattern, Reason, Task
from knowledge.wiring.open import Knowledge
from tests.conftest import SetClock
from tests.support.clients import client_of, http_of
from tests.support.entries import failure, learn
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP


async def _attempt(
    knowledge: Knowledge, task_id: str, reason: Reason, *, worked: bool | None, pattern: Pattern | None = None
) -> None:
    """Hand out a context for a task, and report what came of it."""
    context = Context(
        context_id=ContextId(uuid4()), text="", patterns=() if pattern is None else (pattern,), reason=reason
    )
    task = Task(description="x", project_id="shop", task_id=task_id, run_id=str(uuid4()))
    await knowledge.contexts.record(context, task, "coder")
    if worked is None:
        return
    if pattern is None:
        await knowledge.outcomes.record_unaided(context.context_id, worked=worked)
    else:
        await knowledge.outcomes.record_outcome(context.context_id, pattern.pattern_id, worked=worked)


@pytest.mark.long
async def test_each_day_has_its_counts_and_only_first_attempts_are_compared(
    knowledge: Knowledge, clock: SetClock
) -> None:
    clock.move(timedelta(days=-20))
    await learn(knowledge, failure(failure_description="Too old for the last week"))
    clock.move(timedelta(days=20))
    await learn(knowledge, failure(), failure(project_id="tools"))
    (pattern, *_) = await knowledge.lists.patterns()
    await _attempt(knowledge, "T-1", Reason.SPOKE, worked=False, pattern=pattern)
    clock.move(timedelta(days=1))
    await _attempt(knowledge, "T-1", Reason.SPOKE, worked=True, pattern=pattern)
    await _attempt(knowledge, "T-2", Reason.SPOKE, worked=True, pattern=pattern)
    await _attempt(knowledge, "T-3", Reason.HELD_OUT, worked=False)
    await _attempt(knowledge, "T-4", Reason.NOT_SURE, worked=True)
    await _attempt(knowledge, "T-5", Reason.NOTHING_NEAR, worked=None)
    await _attempt(knowledge, "T-6", Reason.DEGRADED, worked=None)

    trends = await knowledge.lists.trends(days=7)
    today = TrendCounts(given=2, silent=2, held_out=1, degraded=1, hinted_worked=1, held_out_failed=1)
    yesterday = TrendCounts(captured=2, embedded=2, given=1, hinted_failed=1)
    assert [each.counts for each in trends.daily] == [TrendCounts()] * 5 + [yesterday, today]
    assert trends.daily[-1].day == clock.now().date()
    assert trends.daily[0].day == trends.since.date()
    assert trends.total == TrendCounts(
        captured=2,
        embedded=2,
        given=3,
        silent=2,
        held_out=1,
        degraded=1,
        hinted_worked=1,
        hinted_failed=1,
        held_out_failed=1,
    )
    assert (trends.lift.hinted, trends.lift.hinted_solved, trends.lift.held_out) == (2, 1, 1)
    assert trends.lift.lift == pytest.approx(0.5)
    assert trends.lift.low == pytest.approx(-0.4, abs=0.1)
    assert [(each.project_id, each.captured, each.hinted_worked) for each in trends.projects] == [
        ("shop", 0, 1),
        ("tools", 1, 0),
        ("web-shop", 1, 0),
    ]
    assert (await knowledge.lists.trends(days=30)).total.captured == 3


async def test_nothing_stored_is_zeros_and_no_lift(knowledge: Knowledge) -> None:
    trends = await knowledge.lists.trends(days=90)
    assert (len(trends.daily), trends.total, trends.lift.lift, trends.projects) == (90, TrendCounts(), None, ())


async def test_other_spans_are_refused_and_the_client_reads_the_same(knowledge: Knowledge) -> None:
    with pytest.raises(InvalidInput, match=r"^days: must be one of 7, 30, 90$"):
        await knowledge.lists.trends(days=8)
    async with client_of(knowledge) as client, http_of(knowledge) as http:
        assert await client.lists.trends(days=7) == await knowledge.lists.trends(days=7)
        for query in ({"days": 8}, {"days": "week"}, {"weeks": 1}):
            refused = await http.get("/v1/trends", params=query)
            assert (refused.status_code, refused.json()["field"]) == (422, *query)
