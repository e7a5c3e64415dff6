"""The state of the stores, the index and the jobs, and what an operator does about it."""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from starlette.responses import Response

from hardwon.context.deadline import run_within
from hardwon.errors import HardwonError, NotFound, StorageUnavailable
from hardwon.models.maintenance import IndexHealth
from jobs.scheduler import list_jobs
from jobs.table import JOBS, run_job
from orchestrator.http.pages.forms import read_form
from orchestrator.http.pages.shell import PageRequest

_Value = TypeVar("_Value")
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
    check, stats, (index, index_problem), jobs, dead, local_only = await asyncio.gather(
        _check_stores(page),
        knowledge.stats(),
        _find_index_health(page),
        _if_allowed(page, "list_jobs", lambda: list_jobs(knowledge)),
        _if_allowed(page, "upkeep.dead", lambda: knowledge.upkeep.dead(SHOWN_DEAD)),
        _if_allowed(page, "upkeep.local_only", lambda: knowledge.upkeep.local_only()),  # noqa: PLW0108 - as below
    )
    return await page.render(
        "health.html",
        here="health",
        check=check,
        stats=stats,
        dead_count=stats.entries.get("dead", 0),
        dead=stats.dead_entries if dead is None else dead,
        index=index,
        index_problem=index_problem,
        jobs=jobs,
        failing=[job.name for job in jobs or () if job.runs and job.runs[0].error],
        local_only=local_only,
        may_run=principal.may("run_job"),
        may_retry=principal.may("upkeep.retry_dead"),
        python=platform.python_version(),
        done=page.notice(DONE),
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


async def _if_allowed(page: PageRequest, operation: str, read: Callable[[], Awaitable[_Value]]) -> _Value | None:
    """Return what an operation reads, None for a caller who may not."""
    return await read() if page.principal.may(operation) else None


async def _find_index_health(page: PageRequest) -> tuple[IndexHealth | None, str | None]:
    """Return the state of the index, or why there is none: the rest of the page is what is needed then."""
    try:
        read = lambda: page.knowledge.upkeep.index_health()  # noqa: E731, PLW0108 - it is refused where it is looked up
        return await _if_allowed(page, "upkeep.index_health", read), None
    except HardwonError as error:
        return None, str(error)


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
