"""`hardwon jobs`: the list of jobs; one run, for cron, or the scheduler that runs all of them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from orchestrator.cli.support.one_call import OperationCommand, add_command
from orchestrator.cli.support.run import Json
from orchestrator.cli.support.signals import end_signals

jobs = typer.Typer(help="Run a job now, or the scheduler of all jobs.", no_args_is_help=True)


add_command(
    jobs,
    "list",
    OperationCommand(
        "list_jobs",
        "list_report:print_jobs",
        "Show the jobs with their schedules, last runs and next times.",
    ),
)


@jobs.command("run")
def run_jobs(
    name: Annotated[str | None, typer.Argument(help="Run this job once, now; without a name, the scheduler.")] = None,
    *,
    once_per_slot: Annotated[
        bool, typer.Option("--once-per-slot", help="Do nothing if another process ran this slot already.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a job once, for cron, or the scheduler until it is stopped."""
    import asyncio

    from jobs.table import JOBS

    if name is not None and name not in JOBS:
        known = "\n".join(f"  {job:<12} {JOBS[job].description}" for job in JOBS)
        raise typer.BadParameter(f"{name!r} is not a job. Jobs:\n{known}", param_hint="NAME")
    try:
        asyncio.run(_run_always() if name is None else _run_once(name, once_per_slot=once_per_slot, as_json=as_json))
    except asyncio.CancelledError:
        sys.stderr.write("stopped\n")
        sys.exit(1)


async def _run_once(name: str, *, once_per_slot: bool, as_json: bool) -> None:
    import asyncio

    from jobs.scheduler import STOP_GRACE_SECONDS
    from jobs.table import JOBS, run_job
    from orchestrator.cli.support.session import connect
    from orchestrator.cli.support.terminal import print_json

    job = asyncio.current_task()
    running = asyncio.Event()

    def stop() -> None:
        """Cancel at once before the job runs; a running job gets time to finish."""
        if job is not None:
            asyncio.get_running_loop().call_later(STOP_GRACE_SECONDS if running.is_set() else 0, job.cancel)

    _add_signal_handlers(stop)
    async with connect() as knowledge:
        running.set()
        done = await run_job(knowledge, name, once_per_slot=once_per_slot)
    if as_json:
        print_json({"job": name, "items": done})
        return
    one, several = JOBS[name].item_names
    result = "already run in this slot, or under way" if done is None else f"{done} {one if done == 1 else several}"
    sys.stdout.write(f"{name}: {result}\n")


async def _run_always() -> None:
    import asyncio

    from jobs.scheduler import run_scheduler
    from orchestrator.cli.support.session import connect

    scheduler = asyncio.current_task()
    _add_signal_handlers(lambda: scheduler.cancel() if scheduler else None)
    with contextlib.suppress(asyncio.CancelledError):
        async with connect() as knowledge, run_scheduler(knowledge):
            sys.stderr.write("scheduler is running; stop it with Ctrl-C\n")
            await asyncio.Event().wait()


def _add_signal_handlers(stop: Callable[[], object]) -> None:
    import asyncio

    for number in end_signals():
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, stop)
