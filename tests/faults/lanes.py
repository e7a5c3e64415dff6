"""What is done to stores, one fault after the other, and what is said of each."""

from __future__ import annotations

import argparse
import asyncio
import queue
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from knowledge.adapters.llm.endpoint import RetryPolicy
from knowledge.wiring.open import open_knowledge
from tests.conftest import SetClock
from tests.faults import kills
from tests.faults.cluster.wounded import HARMS, TOLD_EVERY, Wounds, wounded
from tests.faults.durability import on_disk, survive
from tests.faults.figures import (
    Said,
    captured_with_and_without_index,
    first_starts,
    harmed_and_repaired,
    told_at_once,
)
from tests.faults.ground import Ground, ground
from tests.faults.herd import Herd
from tests.faults.outages import Contexts, asked_while, asked_while_open, embedder_outage, staged
from tests.faults.races import races
from tests.faults.worker import GRACE_SECONDS
from tests.faults.years import ZONES, live_through, moments, years_that_differ
from tests.support.embedders import HashingEmbedder
from tests.support.faults import Mutant
from tests.support.openai_server import OpenAIServer
from tests.support.postgres import socket_of
from tests.support.qdrant.process import QdrantClusterProcess
from tests.support.relay import Wire


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
                for part in stage.wires:
                    for wire in (Wire.REFUSE, Wire.HANG, Wire.DRIP):
                        all_of += await asked_while(stage, part, wire, calls=calls // 9 + 1, at_once=8)
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

    def one_key(self, clients: int, keys: int) -> Said:
        """Tell each event by many clients with one key, and another event with it."""
        return self.on(
            lambda made: asyncio.run(told_at_once(made.settings(), clients=clients, keys=keys)), several=True
        )

    def capture_alone(self, captures: int) -> Said:
        """Capture while the index refuses connections, and while it does not."""
        return self.on(
            lambda made: asyncio.run(captured_with_and_without_index(made.settings(), captures=captures)), several=True
        )

    def repaired(self, rng: random.Random, points: int, strangers: int) -> Said:
        """Harm an index in every way."""
        return self.on(
            lambda made: asyncio.run(harmed_and_repaired(made.settings(), rng, points=points, strangers=strangers))
        )

    def wounded(self, rng: random.Random, harms: int) -> Said:
        """Kill and hang nodes of a cluster while several clients work."""

        def tell(found: Wounds) -> None:
            done = found.faults["kill"] + found.faults["hang"]
            if done % TOLD_EVERY < HARMS:
                print(f"  {done} kills and hangs, whole: {found.whole}", flush=True)  # noqa: T201

        async def work(made: Ground, cluster: QdrantClusterProcess) -> Said:
            async with wounded(made.settings(), cluster, rng.randrange(2**32)) as running:
                found = await running.run(harms, tell)
            return found.whole, str(found)

        def on(made: Ground) -> Said:
            with QdrantClusterProcess(made.home / "cluster") as cluster:
                return asyncio.run(work(made, cluster))

        return self.on(on)

    def started(self, rounds: int, processes: int) -> Said:
        """Let many be the first."""
        return first_starts(self._dsn, rounds=rounds, processes=processes)
