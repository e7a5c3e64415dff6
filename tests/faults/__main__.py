"""The long form: `python -m tests.faults --kills 500 --workers 8`; the seed is printed, and repeats the choices."""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import signal
import sys
import time
from collections.abc import Callable

import structlog

from tests.faults import kills
from tests.faults.durability import on_disk, survive
from tests.faults.ground import Ground, ground, make_template
from tests.faults.herd import Herd
from tests.faults.races import races
from tests.faults.worker import GRACE_SECONDS
from tests.support.faults import Mutant
from tests.support.postgres import throwaway_postgres


class Faults:
    """Every kind of fault, one after the other; each says a line, and what failed is remembered."""

    def __init__(self, herd: Herd, dsn: str, rng: random.Random, given: argparse.Namespace) -> None:
        self._herd = herd
        self._dsn = dsn
        self._rng = rng
        self._given = given
        self.failed = 0

    def run(self) -> None:
        each = self._given.kills
        self._say("G2, every named place", self._places)
        self._say(f"G2, {each} random instants", self._on(lambda g: self._random(g, each, workers=1)))
        eight = self._given.workers
        self._say(
            f"G2, {each} kills, {eight} workers together",
            self._on(lambda g: self._random(g, each, workers=eight), several=True, cases=200),
        )
        for mutant in Mutant:
            self._say(f"G2, mutant: {mutant}", self._on(lambda g, m=mutant: self._mutant(g, m)))  # type: ignore[misc]
        together = {"workers": eight, "entries": 10_000, "batch": 64, "embed_seconds": 0.01}
        self._say(
            "G4 (a), 10,000 entries", self._on(lambda g: self._together(g, together, 1.05), several=True, sharing=1)
        )
        short = {"workers": eight, "entries": 400, "batch": 8, "lease_seconds": 0.2, "embed_seconds": 0.5}
        self._say("G4 (b), short leases", self._on(lambda g: self._together(g, short, 2.0), several=True, sharing=1))
        self._say("G13, 100 rounds of races", self._on(self._races))
        self._say("G16, SIGTERM 100 times", self._on(self._terminated))
        self._say("G17, takeover of a lease of 2 s", self._on(self._taken_over, several=True))
        self._say("G1, 200 instants", self._durable)

    def _say(self, name: str, do: Callable[[], tuple[bool, str]]) -> None:
        if not name.startswith(self._given.only):
            return
        began = time.monotonic()
        try:
            good, said = do()
        except AssertionError as error:
            good, said = False, str(error)[-2000:]
        self.failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {name}: {said} [{time.monotonic() - began:.0f} s]", flush=True)  # noqa: T201

    def _on(
        self, do: Callable[[Ground], tuple[bool, str]], *, several: bool = False, **usual: object
    ) -> Callable[[], tuple[bool, str]]:
        def on_ground() -> tuple[bool, str]:
            with ground(self._herd, self._dsn, several=several, **usual) as made:
                return do(made)

        return on_ground

    def _places(self) -> tuple[bool, str]:
        """Kill at each place on a store of its own, so that what is found has one cause."""
        killed = 0
        for place, extra in kills.places(each=2):
            with ground(self._herd, self._dsn) as made:
                kills.kill_at(made, place, extra)
                truth = asyncio.run(made.truth())
                if not truth.sound:
                    return False, f"killed at {place}: {truth}"
            killed += 1
        return True, f"{killed} kills, 0 lost, 0 doubled"

    def _random(self, made: Ground, number: int, *, workers: int) -> tuple[bool, str]:
        kills.kill_at_random(made, number, self._rng, workers=workers)
        truth = asyncio.run(made.truth())
        return truth.complete and (workers > 1 or truth.sound), f"{made.kills} kills, {truth}"

    def _mutant(self, made: Ground, mutant: Mutant) -> tuple[bool, str]:
        tries, truth = kills.found_within(made, mutant)
        counts = f"{len(truth.lost)} lost, {len(truth.doubled)} doubled, {len(truth.wrong)} wrong"
        return not truth.complete, f"found within {tries}: {counts}"

    def _together(self, made: Ground, asked: dict[str, float], ratio: float) -> tuple[bool, str]:
        done = kills.together(made, **{"lease_seconds": 60.0, **asked})  # type: ignore[arg-type]
        good = done.truth.complete and done.embedded == asked["entries"] and done.calls <= ratio * done.fewest
        return good, f"{done.embedded} embedded by {done.calls} calls (least {done.fewest}), {done.truth}"

    def _races(self, made: Ground) -> tuple[bool, str]:
        async def rounds() -> list[str]:
            wrong: list[str] = []
            async with races(made, self._rng.randrange(2**32)) as running:
                for _ in range(100):
                    truth = await running.round()
                    if not truth.sound:
                        wrong.append(str(truth))
            return wrong

        wrong = asyncio.run(rounds())
        return not wrong, f"100 rounds, {len(wrong)} with a loss, a resurrection or an orphan {wrong[:1]}"

    def _terminated(self, made: Ground) -> tuple[bool, str]:
        slowest = 0.0
        for _ in range(100):
            slowest = max(slowest, kills.terminated(made, self._rng))
            if asyncio.run(made.leases()):
                return False, "a lease was left"
        truth = asyncio.run(made.truth())
        return truth.sound and slowest <= GRACE_SECONDS, f"gone within {slowest:.2f} s, no lease left, {truth}"

    def _taken_over(self, made: Ground) -> tuple[bool, str]:
        seconds = kills.taken_over(made, lease_seconds=2.0)
        return seconds <= 7.0, f"after {seconds:.2f} s"

    def _durable(self) -> tuple[bool, str]:
        with on_disk(self._herd) as (made, server):
            found = survive(made, server, self._rng, instants=200)
        return found.lost == 0, str(found)


def main() -> int:
    """Do all the harm there is, and say what came of it."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--kills", type=int, default=500)
    asked.add_argument("--workers", type=int, default=8)
    asked.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    asked.add_argument("--only", default="", help="the guarantee to test, such as G13")
    given = asked.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    print(f"seed {given.seed}", flush=True)  # noqa: T201
    began = time.monotonic()
    with throwaway_postgres() as server, Herd() as herd:
        asyncio.run(make_template(server.dsn))
        faults = Faults(herd, server.dsn, random.Random(given.seed), given)
        faults.run()
    print(f"{faults.failed} failed, {time.monotonic() - began:.0f} s in all")  # noqa: T201
    return min(faults.failed, 1)


if __name__ == "__main__":
    sys.exit(main())
