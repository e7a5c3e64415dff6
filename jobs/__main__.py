"""python -m jobs: the scheduler, until told to stop. python -m jobs prune|sweep: one job once, for cron."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys

from jobs.scheduler import scheduling
from jobs.table import JOBS, run_job
from knowledge.errors import HardwonError
from knowledge.settings import KnowledgeSettings
from orchestrator import connect
from orchestrator.logs import configure_logs


async def _once(name: str, *, once_per_slot: bool) -> None:
    async with connect(KnowledgeSettings()) as knowledge:
        done = await run_job(knowledge, name, once_per_slot=once_per_slot)
    sys.stdout.write(f"{name}: {'already run in this slot' if done is None else f'{done} entries'}\n")


async def _always() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with connect(KnowledgeSettings()) as knowledge, scheduling(knowledge):
        sys.stderr.write("scheduler is running; stop it with Ctrl-C\n")
        await stop.wait()


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m jobs", description=__doc__)
    parser.add_argument(
        "job", nargs="?", choices=sorted(JOBS), help="run this job once, now; without it: the scheduler"
    )
    parser.add_argument(
        "--once-per-slot", action="store_true", help="do nothing where another process ran this slot already"
    )
    told = parser.parse_args()
    configure_logs()
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_once(told.job, once_per_slot=told.once_per_slot) if told.job else _always())
    except HardwonError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
