"""python -m jobs: the scheduler, until told to stop. python -m jobs JOB: that job once, for cron."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import Callable

from jobs.scheduler import STOP_GRACE_SECONDS, scheduling
from jobs.table import JOBS, run_job
from knowledge.errors import HardwonError
from knowledge.settings import KnowledgeSettings
from orchestrator import connect
from orchestrator.cli.signals import end_signals
from orchestrator.cli.streams import keep_streams
from orchestrator.logs import configure_logs, warn_of_unknown_settings


async def _once(name: str, *, once_per_slot: bool) -> None:
    job = asyncio.current_task()
    running = asyncio.Event()

    def stop() -> None:
        """End at once what has not begun; a running job has its time to finish."""
        if job is not None:
            asyncio.get_running_loop().call_later(STOP_GRACE_SECONDS if running.is_set() else 0, job.cancel)

    _on_signals(stop)
    async with connect(KnowledgeSettings()) as knowledge:
        running.set()
        done = await run_job(knowledge, name, once_per_slot=once_per_slot)
    one, several = JOBS[name].of_what
    told = "already run in this slot, or under way" if done is None else f"{done} {one if done == 1 else several}"
    sys.stdout.write(f"{name}: {told}\n")


async def _always() -> None:
    scheduler = asyncio.current_task()
    _on_signals(lambda: scheduler.cancel() if scheduler else None)
    with contextlib.suppress(asyncio.CancelledError):
        async with connect(KnowledgeSettings()) as knowledge, scheduling(knowledge):
            sys.stderr.write("scheduler is running; stop it with Ctrl-C\n")
            await asyncio.Event().wait()


def _on_signals(stop: Callable[[], object]) -> None:
    for number in end_signals():
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, stop)


def main() -> int:
    """Run the command; return its exit code."""
    told = "\n".join(f"  {name:<12} {JOBS[name].does}" for name in JOBS)
    parser = argparse.ArgumentParser(
        prog="python -m jobs",
        description=__doc__,
        epilog=f"jobs:\n{told}\n\ndocs/operating.md says how often cron is to run each.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "job", nargs="?", choices=sorted(JOBS), help="run this job once, now; without it: the scheduler"
    )
    parser.add_argument(
        "--once-per-slot", action="store_true", help="do nothing where another process ran this slot already"
    )
    keep_streams()
    asked = parser.parse_args()
    try:
        configure_logs()
        warn_of_unknown_settings()
        asyncio.run(_once(asked.job, once_per_slot=asked.once_per_slot) if asked.job else _always())
        sys.stdout.flush()
    except asyncio.CancelledError:
        sys.stderr.write("stopped\n")
        return 1
    except HardwonError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except OSError as error:
        return _untold(error)
    return 0


def _untold(error: OSError) -> int:
    """Say why standard output has not what the job came to."""
    # what is still unwritten would fail once more at the exit
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.stderr.write(f"error: {error.strerror or error}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
