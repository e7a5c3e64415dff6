"""The long form: `python -m tests.faults --kills 500 --workers 8`; the seed is printed, and repeats the choices."""

from __future__ import annotations

import argparse
import asyncio
import logging
import queue
import random
import re
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog

from benchmarks.asked import at_least_one
from tests.faults.ground import make_template
from tests.faults.lanes import Fault, Lane
from tests.support.postgres import throwaway_postgres


def all_faults(given: argparse.Namespace) -> list[Fault]:
    """Return what is done, the longest first, and beside it what leaves it most of the machine.

    The lanes then end at about the same time; more than two took as long, and killed workers that had done less.
    """
    each, eight = given.kills, given.workers
    half = each // 2
    return [
        Fault(f"G2, {each} kills, {eight} workers", lambda lane, rng: lane.kills(rng, each, workers=eight)),
        Fault("G5, an outage of 60 s", lambda lane, rng: lane.outage(rng, 60.0)),
        Fault("G13, races", lambda lane, rng: lane.races(rng, 100)),
        Fault(f"G2, {half} random instants", lambda lane, rng: lane.kills(rng, half, workers=1)),
        Fault("G2, 200 kills of owners and of four callers", lambda lane, rng: lane.members(rng, 200)),
        Fault(f"G2, {each - half} more random instants", lambda lane, rng: lane.kills(rng, each - half, workers=1)),
        Fault("G1, 200 instants", lambda lane, rng: lane.durable(rng, 200)),
        Fault(
            "G4 (a), 10,000 entries",
            lambda lane, _: lane.together(1.05, entries=10_000, batch=64, lease_seconds=60.0, embed_seconds=0.01),
        ),
        Fault("G16, SIGTERM 100 times", lambda lane, rng: lane.terminated(rng, 100)),
        Fault("G2, before every named place", lambda lane, _: lane.places("before")),
        Fault("G2, after every named place", lambda lane, _: lane.places("after")),
        Fault("G12, 10,000 dates", lambda lane, rng: lane.years(rng, 10_000, 60)),
        Fault(
            "G4 (b), short leases",
            lambda lane, _: lane.together(2.0, entries=400, batch=8, lease_seconds=0.2, embed_seconds=0.5),
        ),
        Fault("G2, mutants", lambda lane, _: lane.mutants()),
        Fault("G17, takeover of a lease of 2 s", lambda lane, _: lane.taken_over(2.0)),
        Fault("G11, 1,000 contexts", lambda lane, _: lane.contexts(1000), alone=True),
    ]


def all_figures(given: argparse.Namespace) -> list[Fault]:
    """Return what is done besides where the whole figures are asked for: it takes longer than the rest may."""
    eight, harms = given.workers, 4 * given.kills
    return [
        Fault("G3, 16 clients with 1,000 keys", lambda lane, _: lane.one_key(16, 1000)),
        Fault("G9, capture without an index", lambda lane, _: lane.capture_alone(2000), alone=True),
        Fault("G14, 1,000 points harmed", lambda lane, rng: lane.repaired(rng, 1000, 250)),
        Fault(f"G24, {harms} kills and hangs of nodes", lambda lane, rng: lane.wounded(rng, harms)),
        Fault(f"G19, 50 first starts of {eight}", lambda lane, _: lane.started(50, eight)),
    ]


def chosen(given: argparse.Namespace) -> list[Fault]:
    """Return the faults that were asked for, none where no line begins so."""
    if not given.only:
        return all_figures(given) if given.figures else all_faults(given)
    every = [*all_faults(given), *all_figures(given)]
    return [fault for fault in every if re.match(rf"{re.escape(given.only)}(?!\d)", fault.name)]


def read(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what was asked for. Ends with a usage error where that is nothing: it would have passed."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--kills", type=at_least_one, default=500)
    asked.add_argument("--workers", type=at_least_one, default=8)
    asked.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    asked.add_argument("--only", default="", help="the guarantee to test, such as G13, or the beginning of a line")
    asked.add_argument(
        "--figures", action="store_true", help="what takes longer: G3, G9, G14, G19, G24 at their whole figures"
    )
    asked.add_argument("--lanes", type=at_least_one, default=2, help="how many faults at once")
    given = asked.parse_args(arguments)
    if not chosen(given):
        names = ", ".join(sorted({fault.name.partition(",")[0] for fault in [*all_faults(given), *all_figures(given)]}))
        asked.error(f"--only: no line begins with {given.only!r}, but with {names}; the rest is in `make test`")
    return given


def main() -> int:
    """Do all the harm there is, and say what came of it."""
    given = read()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    print(f"seed {given.seed}", flush=True)  # noqa: T201
    began = time.monotonic()
    together: queue.Queue[Fault] = queue.Queue()
    alone: queue.Queue[Fault] = queue.Queue()
    for fault in chosen(given):
        (alone if fault.alone else together).put(fault)
    failed: list[str] = []
    with throwaway_postgres() as server, ThreadPoolExecutor(given.lanes) as lanes:
        asyncio.run(make_template(server.dsn))
        for lane in [lanes.submit(Lane(server.dsn, given).run, together, failed) for _ in range(given.lanes)]:
            lane.result()
        Lane(server.dsn, given).run(alone, failed)
    print(f"{len(failed)} failed, {time.monotonic() - began:.0f} s in all")  # noqa: T201
    return min(len(failed), 1)


if __name__ == "__main__":
    sys.exit(main())
