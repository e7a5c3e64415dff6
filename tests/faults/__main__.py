"""The long form: `python -m tests.faults --kills 500 --workers 8`; the seed is printed, and repeats the choices."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import queue
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import structlog

from benchmarks.asked import at_least_one
from knowledge.adapters.openai_endpoint import RetryPolicy
from knowledge.wiring import open_knowledge
from tests.conftest import SetClock
from tests.faults import kills
from tests.faults.durability import on_disk, survive
from tests.faults.ground import Ground, ground, make_template
from tests.faults.herd import Herd
from tests.faults.outages import Contexts, asked_while, asked_while_open, embedder_outage, staged
from tests.faults.races import races
from tests.faults.worker import GRACE_SECONDS
from tests.faults.years import ZONES, live_through, moments, years_that_differ
from tests.support.embedders import HashingEmbedder
from tests.support.faults import Mutant
from tests.support.openai_server import OpenAIServer
from tests.support.postgres import socket_of, throwaway_postgres
from tests.support.relay import Wire

Said = tuple[bool, str]
"""Whether all was well, and what there is to say of it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault, with choices of its own, so that the seed repeats it whatever else is run.

    `alone`: it measures milliseconds, so nothing runs beside it.
    """

    name: str
    do: Callable[[Lane, random.Random], Said]
    alone: bool = False


class Lane:
    """One fault after the other, beside others: most of the time a worker is waited for."""

    def __init__(self, dsn: str, given: argparse.Namespace) -> None:
        self._dsn = dsn
        self._given = given
        self._herd: Herd

    def run(self, faults: queue.Queue[Fault], failed: list[str]) -> None:
        """Do what is left to do, until nothing is; each says a line, and what failed is remembered."""
        with Herd() as self._herd:
            while True:
                try:
                    fault = faults.get_nowait()
                except queue.Empty:
                    return
                began = time.monotonic()
                try:
                    good, said = fault.do(self, random.Random(f"{self._given.seed} {fault.name}"))
                except Exception as error:  # noqa: BLE001 - the others go on, and this one has failed
                    good, said = False, f"{type(error).__name__}: {error}"[-2000:]
                if not good:
                    failed.append(fault.name)
                took = time.monotonic() - began
                print(f"{'ok  ' if good else 'FAIL'} {fault.name}: {said} [{took:.0f} s]", flush=True)  # noqa: T201

    def on(self, do: Callable[[Ground], Said], *, several: bool = False, **usual: object) -> Said:
        with ground(self._herd, self._dsn, several=several, **usual) as made:
            return do(made)

    def places(self, phase: str) -> Said:
        """Kill at each place, and look after each: what is found has one cause."""
        killed = 0
        for place, extra in kills.places(each=2, phases=[phase]):
            with ground(self._herd, self._dsn) as made:
                kills.kill_at(made, place, extra)
                truth = asyncio.run(made.truth())
                if not truth.sound:
                    return False, f"killed at {place}: {truth}"
            killed += 1
        return True, f"{killed} kills, 0 lost, 0 doubled"

    def kills(self, rng: random.Random, number: int, *, workers: int) -> Said:
        """Kill at random instants, and look at the end of it."""

        def on(made: Ground) -> Said:
            kills.kill_at_random(made, number, rng, workers=workers)
            truth = asyncio.run(made.truth())
            return truth.complete and (workers > 1 or truth.sound), f"{made.kills} kills, {truth}"

        return self.on(on, several=workers > 1, **({"cases": 200} if workers > 1 else {}))

    def members(self, rng: random.Random, number: int) -> Said:
        """Kill processes that share a data directory and keep it up."""

        def on(made: Ground) -> Said:
            with OpenAIServer(dims=64) as made.endpoint:
                kills.kill_members(made, number, rng)
                truth = asyncio.run(made.truth(rebuilding=True))
            kept_up = ", ".join(f"{name} {times}" for name, times in Counter(made.heard("kept")).most_common())
            return truth.sound, f"{made.kills} kills, {truth}; beside them {kept_up}"

        return self.on(on)

    def mutants(self) -> Said:
        """See whether each wrong checkpoint is found."""
        found = []
        for mutant in Mutant:
            with ground(self._herd, self._dsn) as made:
                tries, truth = kills.found_within(made, mutant)
            if truth.complete:
                return False, f"{mutant}: not found in {tries} kills"
            found.append(f"{mutant}: by kill {tries}")
        return True, "; ".join(found)

    def together(self, ratio: float, **asked: float) -> Said:
        """Run several checkpoints of the same entries at once."""

        def on(made: Ground) -> Said:
            done = kills.together(made, workers=self._given.workers, **asked)  # type: ignore[arg-type]
            good = done.truth.complete and done.embedded == asked["entries"] and done.calls <= ratio * done.fewest
            return good, f"{done.embedded} embedded by {done.calls} calls (least {done.fewest}), {done.truth}"

        return self.on(on, several=True, sharing=1)

    def races(self, rng: random.Random, rounds: int) -> Said:
        """Prune, checkpoint and delete at once."""

        async def race(made: Ground) -> tuple[list[str], int]:
            wrong: list[str] = []
            calls = 0
            async with races(made, rng.randrange(2**32)) as running:
                for _ in range(rounds):
                    truth = await running.round()
                    if not truth.sound:
                        wrong.append(str(truth))
                calls = running.calls
            return wrong, calls

        def on(made: Ground) -> Said:
            wrong, calls = asyncio.run(race(made))
            said = f"{rounds} rounds, {calls:,} calls each at a random moment, {len(wrong)} rounds wrong {wrong[:1]}"
            return not wrong, said

        return self.on(on)

    def terminated(self, rng: random.Random, times: int) -> Said:
        """End workers under load, politely."""

        def on(made: Ground) -> Said:
            slowest = 0.0
            for _ in range(times):
                slowest = max(slowest, kills.terminated(made, rng))
                if asyncio.run(made.leases()):
                    return False, "a lease was left"
            truth = asyncio.run(made.truth())
            return truth.sound and slowest <= GRACE_SECONDS, f"gone within {slowest:.2f} s, no lease left, {truth}"

        return self.on(on)

    def taken_over(self, lease_seconds: float) -> Said:
        """Kill the holder of a lease while another one waits for it."""

        def on(made: Ground) -> Said:
            seconds = kills.taken_over(made, lease_seconds=lease_seconds)
            return seconds <= lease_seconds + 5, f"{seconds:.2f} s after the kill"

        return self.on(on, several=True)

    def durable(self, rng: random.Random, instants: int) -> Said:
        """Kill clients and Postgres, with fsync on."""
        with on_disk(self._herd) as (made, server):
            found = survive(made, server, rng, instants=instants)
        return found.lost == 0, str(found)

    def outage(self, rng: random.Random, seconds: float) -> Said:
        """Have half of all calls of the embedder fail for a while, with the waits that are shipped."""

        def on(made: Ground) -> Said:
            outage = asyncio.run(
                embedder_outage(made.settings(), rng, seconds=seconds, retry_after=2.0, retry=RetryPolicy())
            )
            whole = (outage.embedded, outage.dead, outage.calls_too_early) == (outage.entries, 0, 0)
            return whole and outage.recovered <= 30, str(outage)

        return self.on(on)

    def contexts(self, calls: int) -> Said:
        """Ask for contexts while something is down; then while the breaker is open."""

        async def ask(made: Ground) -> Said:
            assert made.qdrant_url is not None
            port = int(made.qdrant_url.rpartition(":")[2])
            all_of = Contexts()
            async with staged(made.settings(), made.dsn, socket_of(made.dsn), port) as stage:
                gc.collect()
                gc.freeze()  # as a server does: a search for garbage took 0.2 s of CPU, twice that beside other work
                for part in stage.wires:
                    for wire in (Wire.REFUSE, Wire.HANG, Wire.DRIP):
                        all_of += await asked_while(stage, part, wire, calls=calls // 9 + 1, at_once=4)
                took = await asked_while_open(stage, calls=1000)
            in_time = (all_of.degraded, all_of.in_time) == (all_of.calls, all_of.calls)
            quick = sum(seconds <= 0.005 for seconds in took)
            said = (
                f"{all_of}; with the breaker open {quick} of {len(took)} within 5 ms, at most {1000 * max(took):.2f} ms"
            )
            return in_time and quick >= 0.99 * len(took), said

        return self.on(lambda made: asyncio.run(ask(made)), several=True)

    def years(self, rng: random.Random, dates: int, lives: int) -> Said:
        """Add years in every zone, and live through some."""
        wrong = [moment for moment in moments(rng, dates) if years_that_differ(moment)]

        async def live(made: Ground) -> Said:
            clock = SetClock()
            async with open_knowledge(made.settings(), embedder=HashingEmbedder(dims=64), clock=clock) as knowledge:
                kept = await live_through(knowledge, clock, moments(rng, lives), rng)
            good = (kept.early, kept.expired_shown, kept.missing, kept.deleted) == (0, 0, 0, lives) and not kept.late
            return good and not wrong, f"{dates} dates in {len(ZONES)} zones, {len(wrong)} wrong; {kept}"

        return self.on(lambda made: asyncio.run(live(made)))


def all_faults(given: argparse.Namespace) -> list[Fault]:
    """Return what is done, the longest first, and beside it what leaves it most of the machine.

    Two lanes then end at about the same time; beside each other the two longest took twice as long as alone.
    """
    each, eight = given.kills, given.workers
    half = each // 2
    return [
        Fault(f"G2, {each} kills, {eight} workers", lambda lane, rng: lane.kills(rng, each, workers=eight)),
        Fault("G5, an outage of 60 s", lambda lane, rng: lane.outage(rng, 60.0)),
        Fault("G1, 200 instants", lambda lane, rng: lane.durable(rng, 200)),
        Fault(f"G2, {half} random instants", lambda lane, rng: lane.kills(rng, half, workers=1)),
        Fault("G2, 100 kills of four that share a data directory", lambda lane, rng: lane.members(rng, 100)),
        Fault(f"G2, {each - half} more random instants", lambda lane, rng: lane.kills(rng, each - half, workers=1)),
        Fault("G13, races", lambda lane, rng: lane.races(rng, 100)),
        Fault("G2, before every named place", lambda lane, _: lane.places("before")),
        Fault("G2, after every named place", lambda lane, _: lane.places("after")),
        Fault("G16, SIGTERM 100 times", lambda lane, rng: lane.terminated(rng, 100)),
        Fault("G11, 1,000 contexts", lambda lane, _: lane.contexts(1000), alone=True),
        Fault("G12, 10,000 dates", lambda lane, rng: lane.years(rng, 10_000, 60)),
        Fault(
            "G4 (a), 10,000 entries",
            lambda lane, _: lane.together(1.05, entries=10_000, batch=64, lease_seconds=60.0, embed_seconds=0.01),
        ),
        Fault(
            "G4 (b), short leases",
            lambda lane, _: lane.together(2.0, entries=400, batch=8, lease_seconds=0.2, embed_seconds=0.5),
        ),
        Fault("G2, mutants", lambda lane, _: lane.mutants()),
        Fault("G17, takeover of a lease of 2 s", lambda lane, _: lane.taken_over(2.0)),
    ]


def chosen(given: argparse.Namespace) -> list[Fault]:
    """Return the faults that were asked for, none where no line begins so."""
    return [fault for fault in all_faults(given) if re.match(rf"{re.escape(given.only)}(?!\d)", fault.name)]


def read(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what was asked for. Ends with a usage error where that is nothing: it would have passed."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--kills", type=at_least_one, default=500)
    asked.add_argument("--workers", type=at_least_one, default=8)
    asked.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    asked.add_argument("--only", default="", help="the guarantee to test, such as G13, or the beginning of a line")
    asked.add_argument("--lanes", type=at_least_one, default=2, help="how many faults at once")
    given = asked.parse_args(arguments)
    if not chosen(given):
        names = ", ".join(sorted({fault.name.partition(",")[0] for fault in all_faults(given)}))
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
