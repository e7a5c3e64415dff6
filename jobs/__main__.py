"""python -m jobs: the scheduler, until it is stopped. python -m jobs JOB: that job once, for cron."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import Callable

from jobs.scheduler import STOP_GRACE_SECONDS, run_scheduler
from jobs.table import JOBS, run_job
from knowledge.errors import HardwonError
from knowledge.settings import KnowledgeSettings
from orchestrator import connect
from orchestrator.cli.signals import end_signals
from orchestrator.cli.streams import ensure_standard_streams
from orchestrator.logs import configure_logs, warn_of_unknown_settings


async def _run_once(name: str, *, once_per_slot: bool) -> None:
    job = asyncio.current_task()
    running = asyncio.Event()

    def stop() -> None:
        """Cancel at once before the job runs; a running job gets time to finish."""
        if job is not None:
            asyncio.get_running_loop().call_later(STOP_GRACE_SECONDS if running.is_set() else 0, job.cancel)

    _add_signal_handlers(stop)
    async with connect(KnowledgeSettings()) as knowledge:
        running.set()
        done = await run_job(knowledge, name, once_per_slot=once_per_slot)
    one, several = JOBS[name].item_names
    result = "already run in this slot, or under way" if done is None else f"{done} {one if done == 1 else several}"
    sys.stdout.write(f"{name}: {result}\n")


async def _run_always() -> None:
    scheduler = asyncio.current_task()
    _add_signal_handlers(lambda: scheduler.cancel() if scheduler else None)
    with contextlib.suppress(asyncio.CancelledError):
        async with connect(KnowledgeSettings()) as knowledge, run_scheduler(knowledge):
            sys.stderr.write("scheduler is running; stop it with Ctrl-C\n")
            await asyncio.Event().wait()


def _add_signal_handlers(stop: Callable[[], object]) -> None:
    for number in end_signals():
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, stop)


def main() -> int:
    """Run the command; return its exit code."""
    jobs = "\n".join(f"  {name:<12} {JOBS[name].description}" for name in JOBS)
    parser = argparse.ArgumentParser(
        prog="python -m jobs",
        description=__doc__,
        epilog=f"jobs:\n{jobs}\n\ndocs/operating.md says how often cron should run each.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "job", nargs="?", choices=sorted(JOBS), help="run this job once, now; without a name: the scheduler"
    )
    parser.add_argument(
        "--once-per-slot", action="store_true", help="do nothing if another process ran this slot already"
    )
    ensure_standard_streams()
    arguments = parser.parse_args()
    try:
        configure_logs()
        warn_of_unknown_settings()
        job = _run_once(arguments.job, once_per_slot=arguments.once_per_slot) if arguments.job else _run_always()
        asyncio.run(job)
        sys.stdout.flush()
    except asyncio.CancelledError:
        sys.stderr.write("stopped\n")
        return 1
    except HardwonError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except OSError as error:
        return _report_output_error(error)
    return 0


def _report_output_error(error: OSError) -> int:
    """Report on standard error that the result could not be written to standard output; return the exit code."""
    # buffered output would fail once more at exit
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.stderr.write(f"error: {error.strerror or error}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
