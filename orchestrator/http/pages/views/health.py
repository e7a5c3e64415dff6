"""The state of the stores, the index and the jobs, and what an operator does about it."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from hardwon.context.deadline import run_within
from hardwon.errors import HardwonError, NotFound, StorageUnavailable
from hardwon.models.maintenance import IndexHealth, JobState
from jobs.scheduler import list_jobs
from jobs.table import JOBS, run_job
from orchestrator.http.pages.forms import read_form
from orchestrator.http.pages.shell import PageRequest

READY_SECONDS: Final = 5.0
SHOWN_DEAD: Final = 20
DONE: Final = {"ran": "The job ran", "retried": "Staged again: the next checkpoint tries them"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The answer of the stores to one look: what is wrong, None where nothing is, and how long it took."""

    problem: str | None
    milliseconds: float


async def show_health(page: PageRequest) -> Response:
    """Show whether everything answers, and what needs somebody."""
    knowledge, principal = page.knowledge, page.principal
    check = await _check_stores(page)
    stats = await knowledge.stats()
    index: IndexHealth | None = None
    index_problem: str | None = None
    if principal.may("upkeep.index_health"):
        try:
            index = await knowledge.upkeep.index_health()
        except HardwonError as error:  # the rest of this page is what is needed now
            index_problem = str(error)
    jobs: list[JobState] | None = await list_jobs(knowledge) if principal.may("list_jobs") else None
    dead = await knowledge.upkeep.dead(SHOWN_DEAD) if principal.may("upkeep.dead") else stats.dead_entries
    return await page.render(
        "health.html",
        here="health",
        check=check,
        stats=stats,
        dead_count=stats.entries.get("dead", 0),
        dead=dead,
        index=index,
        index_problem=index_problem,
        jobs=jobs,
        failing=[job.name for job in jobs or () if job.runs and job.runs[0].error],
        local_only=await knowledge.upkeep.local_only() if principal.may("upkeep.local_only") else None,
        may_run=principal.may("run_job"),
        may_retry=principal.may("upkeep.retry_dead"),
        python=platform.python_version(),
        done=DONE.get(page.parameter("done") or ""),
    )


async def run_one_job(page: PageRequest) -> Response:
    """Run a job now, and come back."""
    await read_form(page.request)
    name = page.path[2]
    if name not in JOBS:
        raise NotFound(f"there is no job {name}")
    await run_job(page.knowledge, name, once_per_slot=False)
    return page.redirect("health", done="ran")


async def retry_dead(page: PageRequest) -> Response:
    """Stage dead entries again."""
    await read_form(page.request)
    await page.knowledge.upkeep.retry_dead()
    return page.redirect("health", done="retried")


async def _check_stores(page: PageRequest) -> Check:
    began = time.perf_counter()
    problem = None
    try:
        await run_within(READY_SECONDS, page.knowledge.ready())
    except TimeoutError:
        problem = str(StorageUnavailable(f"the stores have not answered within {READY_SECONDS:.0f} s"))
    except HardwonError as error:
        problem = str(error)
    return Check(problem=problem, milliseconds=1000 * (time.perf_counter() - began))
