"""Kills at every named place and at random instants, of one worker and of several, and what is left afterwards."""

from __future__ import annotations

import asyncio
import math
import random
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.faults.ground import Ground, wait_until
from tests.faults.truth import Truth
from tests.support.cases import load_tables
from tests.support.faults import Mutant
from tests.support.folders import end_owner

ONCE = (
    "spaces.bind",
    "entries.add",
    "checkpoints.start",
    "index.ensure",
    "points.count_words",
    "checkpoints.finish",
)
"""Passed once in the life of a worker; the first one once in the life of a store, so it comes first."""
OFTEN = tuple(load_tables("kills")["OFTEN"])
_SLOW = {"embed_seconds": 0.25, "lease_seconds": 0.3}
_POISONED = {"poisoned": True}
_DELETED = {
    "sharing": 1,
    # a single batch in each checkpoint, and checkpoints one after the other: an entry that is deleted in another batch,
    # whose point was not taken back yet, would be a second fault
    "batch": 1000,
    "forever": True,
    "lease_seconds": 1.0,
    "trips": {"deciding.commit:after:1": "delete", "deciding.commit:after:2": "delete"},
}
RARE: dict[str, dict[str, Any]] = {
    "entries.extend": _SLOW,
    "entries.bury": _POISONED,
    "points.mark_dirty": _DELETED,
    "index.delete": _DELETED,
    "entries.release": _DELETED,
}
"""Passed only where something else goes wrong, too."""
ORPHANS = ("points.mark_dirty:before:1", "points.mark_dirty:after:1", "index.delete:before:1")
"""A worker killed there was about to take back the point of an entry that had been deleted while it was embedded:
the point stays, shown by no query, until it is looked at again a day later, or until `verify --repair`."""


def places(*, each: int, phases: Sequence[str] = ("before", "after")) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every named place, up to the so-manieth passing of each, with what it takes to get there."""
    for name in (*ONCE, *OFTEN, *RARE):
        for phase in phases:
            for nth in range(1, 2 if name in ONCE else each + 1):
                place = f"{name}:{phase}:{nth}"
                if f"{name}:{phase}:1" not in ORPHANS:
                    yield place, RARE.get(name, {})


def kill_at(ground: Ground, place: str, extra: dict[str, Any]) -> None:
    """Have a worker killed at a place; one that never gets there fails."""
    trips = {**extra.get("trips", {}), place: "kill"}
    worker = ground.run(**extra | {"trips": trips})
    assert worker.code == -signal.SIGKILL, f"no worker ever came to {place}: it ended with {worker.code}"


def kill_at_random(ground: Ground, kills: int, rng: random.Random, *, workers: int = 1) -> None:
    """Kill all workers at once, at a random instant of their lives, until so many were killed.

    One time in five that is while they open the stores, else while they work.
    """
    until = ground.kills + kills
    while ground.kills < until:
        before = len(ground.heard("ready"))
        running = [ground.start(captures=6, forever=True) for _ in range(workers)]
        if rng.random() < 0.8:
            ground.wait_for("ready", before + workers)
        time.sleep(rng.uniform(0.0, 0.4))
        ground.kill(*running)


def kill_members(ground: Ground, kills: int, rng: random.Random, *, members: int = 4) -> None:
    """Kill the owner of a data directory, every other time, and processes that share it, until so many were killed.

    Another one comes for each; at the end all are killed.
    """
    running = [ground.start(captures=3) for _ in range(members)]
    until = ground.kills + kills
    while ground.kills < until:
        told = {word: len(ground.heard(word)) for word in ("captured", "keeping")}
        time.sleep(rng.uniform(0.0, 0.6))
        if going_on := rng.choice((None, *told)):  # whoever is left goes on
            ground.wait_for(going_on, told[going_on] + 1)
        if rng.random() < 0.5:
            ground.kills += end_owner(ground.home, signal.SIGKILL) is not None
            continue
        gone = rng.choice(running)
        ground.kill(gone)
        running.remove(gone)
        running.append(ground.start(captures=3))
    ground.kill(*running)
    end_owner(ground.home, signal.SIGKILL)


def found_within(ground: Ground, mutant: Mutant, *, kills: int = 6) -> tuple[int, Truth]:
    """Do to a wrong checkpoint what finds it, until it is found or so many times went by; return how many, and what."""
    truth = asyncio.run(ground.truth())
    for number in range(1, kills + 1):
        _provoke(ground, mutant)
        truth = asyncio.run(ground.truth())
        if not truth.complete:
            return number, truth
    return kills, truth


def _provoke(ground: Ground, mutant: Mutant) -> None:
    match mutant:
        case Mutant.MARKS_FIRST:
            ground.run(mutant=mutant, trips={"patterns.mark_embedded:after:1": "kill"})
        case Mutant.RANDOM_IDS:
            ground.run(mutant=mutant, sharing=1, trips={"index.upsert:after:1": "kill"})
        case Mutant.NO_TAKING_BACK:
            ground.run(mutant=mutant, sharing=1, trips={"deciding.commit:after:1": "delete"})
        case Mutant.NO_TOKEN:
            ground.run(mutant=mutant, sharing=1, trips={"index.upsert:after:1": "abandon"})


def overtaken(ground: Ground, *, place: str, **job: Any) -> None:
    """Let a worker hang at a place until its lease is over and another one did its work; then it goes on.

    With a single batch: else the next one may be in the middle of its decision, which is another place.
    """
    slow = ground.start(trips={place: "stop"}, **{"batch": 10, **job})
    wait_until(lambda: slow.stopped or not slow.alive, f"no worker came to {place}")
    assert slow.alive, f"the worker ended and never came to {place}"
    ground.run(captures=2)
    slow.send(signal.SIGCONT)
    assert slow.wait() == 0, ground.herd.errors()


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """What several checkpoints at once did."""

    embedded: int
    calls: int
    fewest: int
    seconds: float
    truth: Truth


def together(ground: Ground, *, workers: int, entries: int, batch: int, **job: Any) -> Together:
    """Stage entries, then have several processes run a checkpoint of all of them at the same moment."""
    ground.run(captures=entries, checkpoints=False)
    go = ground.home / "go"
    before = len(ground.heard("ready"))
    waiting = [ground.start(captures=0, batch=batch, wait_for=str(go), **job) for _ in range(workers)]
    ground.wait_for("ready", before + workers)
    began = time.monotonic()
    go.touch()
    for worker in waiting:
        assert worker.wait() == 0, ground.herd.errors()
    seconds = time.monotonic() - began
    return Together(
        embedded=sum(map(int, ground.heard("embedded"))),
        calls=sum(map(int, ground.heard("calls"))),
        fewest=math.ceil(entries / batch),
        seconds=seconds,
        truth=asyncio.run(ground.truth()),
    )


def taken_over(ground: Ground, *, lease_seconds: float) -> float:
    """Kill a worker that holds a lease while another checkpoint waits for it; return seconds until all is embedded."""
    holder = ground.start(lease_seconds=lease_seconds, batch=10, trips={"embedder.embed:before:1": "stop"})
    wait_until(lambda: holder.stopped, "the worker never claimed")
    waiting = ground.start(captures=1, lease_seconds=lease_seconds)
    ground.wait_for("captured", 11)
    began = time.monotonic()
    ground.kill(holder)
    assert waiting.wait() == 0, ground.herd.errors()
    seconds = time.monotonic() - began
    assert int(ground.heard("embedded")[-1]) == 11
    return seconds


def terminated(ground: Ground, rng: random.Random) -> float:
    """Send SIGTERM to a worker under load; return seconds until it was gone. It must leave no lease behind."""
    before = len(ground.heard("ready"))
    worker = ground.start(captures=6, forever=True, lease_seconds=60.0, embed_seconds=0.02)
    ground.wait_for("ready", before + 1)
    time.sleep(rng.uniform(0.0, 0.4))
    began = time.monotonic()
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0, ground.herd.errors()
    return time.monotonic() - began
