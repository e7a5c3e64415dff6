"""The list of jobs: schedules, what became of the last runs, and when each comes next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hardwon.errors import AccessDenied, Conflict, HardwonError, InvalidInput
from hardwon.models.access import Scope
from hardwon.models.maintenance import JobState
from jobs.scheduler import MAX_RUNS, list_jobs
from jobs.table import JOBS, run_job
from knowledge.access.principals import Principal, Trust
from knowledge.wiring.open import Knowledge
from tests.conftest import SetClock
from tests.support.clients import client_of
from tests.support.entries import capture, failure


async def _list(knowledge: Knowledge) -> dict[str, JobState]:
    return {job.name: job for job in await list_jobs(knowledge)}


async def test_jobs_have_schedules_and_next_times_before_they_ever_ran(knowledge: Knowledge, clock: SetClock) -> None:
    clock.time = datetime(2026, 1, 15, 12, 20, tzinfo=UTC)
    jobs = await _list(knowledge)
    assert jobs.keys() == JOBS.keys()
    assert all(job.runs == () for job in jobs.values())
    assert (jobs["sweep"].schedule, jobs["prune"].schedule) == ("15 * * * *", "0 3 * * *")
    assert jobs["index"].schedule == "*/10 * * * *"
    assert jobs["sweep"].next_run_at == datetime(2026, 1, 15, 13, 15, tzinfo=UTC)
    assert jobs["prune"].next_run_at == datetime(2026, 1, 16, 3, tzinfo=UTC)


@pytest.mark.long
async def test_runs_tell_what_they_dealt_with_and_failures_why(
    knowledge: Knowledge, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await capture(knowledge, failure())
    clock.move(timedelta(days=2))
    assert await run_job(knowledge, "sweep", once_per_slot=True) == 1
    assert await run_job(knowledge, "sweep", once_per_slot=True) is None
    (run,) = (await _list(knowledge))["sweep"].runs
    assert (run.dealt_with, run.error, run.attempts) == (1, None, 1)
    assert run.finished_at is not None
    assert run.finished_at >= run.began_at

    clock.move(timedelta(minutes=1))
    assert await run_job(knowledge, "sweep", once_per_slot=False) == 0, "a run out of turn"
    assert [each.dealt_with for each in (await _list(knowledge))["sweep"].runs] == [0, 1]

    async def fail(_: Knowledge) -> int:
        raise Conflict("the clock is ahead")

    monkeypatch.setattr(type(knowledge.pruning), "prune", lambda _: fail(knowledge))
    with pytest.raises(HardwonError):
        await run_job(knowledge, "prune", once_per_slot=True)
    (failed,) = (await _list(knowledge))["prune"].runs
    assert (failed.dealt_with, failed.error) == (None, "Conflict: the clock is ahead")
    async with client_of(knowledge) as client:
        assert await client.list_jobs() == await list_jobs(knowledge)


async def test_the_last_thirty_runs_are_listed_the_latest_first(knowledge: Knowledge, clock: SetClock) -> None:
    for number in range(MAX_RUNS + 2):
        clock.move(timedelta(minutes=10))
        tried = await knowledge.jobs.begin(
            "index", clock.now(), takeover_after=timedelta(1), retry_after=timedelta(1), tries=3
        )
        assert tried == 1
        await knowledge.jobs.finish("index", clock.now(), tried, None, number)
    assert [run.dealt_with for run in (await _list(knowledge))["index"].runs] == [*range(MAX_RUNS + 1, 1, -1)]


async def test_a_key_of_one_workspace_sees_no_jobs_which_are_of_all(knowledge: Knowledge) -> None:
    one = Principal(trust=Trust.KEY, scopes=frozenset({Scope.ADMIN}), workspace=knowledge.workspace, key_id="k")
    with pytest.raises((AccessDenied, InvalidInput)):
        await list_jobs(knowledge.for_principal(one))
