"""Nodes of a stand-in cluster die, hang, fall behind and come back, in random order (G24)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.qdrant.process import Order, QdrantClusterProcess

PACE_SECONDS = 0.04
"""Mean time between two faults; one of `1 / PAUSES` is followed by a pause in which clients notice it."""
PAUSES = 0.15
PAUSE_SECONDS = 1.0
STALE_SECONDS = 0.25
"""Time for which a node that came back answers from before; clients reckon with twice as much."""
SLOW_SECONDS = 0.2
BLACKOUT = 0.4
"""Share of the faults that may take the last living node away: none lives after 7 of 100 faults then (measured)."""
_HARM = ("kill", "hang")
_HEALED_SECONDS = 30.0


@dataclass
class NodeFaults:
    """The faults of a cluster's nodes, and what they are now; `done` counts what was done to them."""

    cluster: QdrantClusterProcess
    rng: random.Random
    done: Counter[str] = field(default_factory=Counter)
    _states: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin with all alive."""
        self._states = ["alive"] * self.cluster.size

    @property
    def harms(self) -> int:
        """Kills and hangs so far."""
        return sum(self.done[action] for action in _HARM)

    async def harm(self, number: int) -> None:
        """Do random things until so many nodes were killed or hung."""
        goal = self.harms + number
        while self.harms < goal:
            await self._do(self._choose())
            pause = self.rng.uniform(0.0, PAUSE_SECONDS) if self.rng.random() < PAUSES else 0.0
            await asyncio.sleep(self.rng.expovariate(1 / PACE_SECONDS) + pause)

    async def heal(self) -> None:
        """Bring every node back, and wait until none lacks anything."""
        for node, state in enumerate(self._states):
            await self._do(Order(node=node, action="slow", seconds=0.0), count=False)
            if state != "alive":
                await self._do(self._revive(node))
        async with asyncio.timeout(_HEALED_SECONDS):
            while not await asyncio.to_thread(self.cluster.is_whole):  # noqa: ASYNC110 - another process knows
                await asyncio.sleep(0.05)
        self.done["healing"] += 1

    def _choose(self) -> Order:
        """Choose what to do to which node; mostly one node at least is left alive."""
        least = 0 if self.rng.random() < BLACKOUT else 1
        alive = [node for node, state in enumerate(self._states) if state == "alive"]
        down = [node for node, state in enumerate(self._states) if state != "alive"]
        choices: list[Callable[[], Order]] = []
        if len(alive) > least:
            choices += [lambda: self._harm(self.rng.choice(alive))] * 3
        if down:
            choices += [lambda: self._revive(self._choose_down(down))] * (2 if alive else 9)
        if alive:
            seconds = self.rng.choice((0.0, self.rng.uniform(0.0, SLOW_SECONDS)))
            choices.append(lambda: Order(node=self.rng.choice(alive), action="slow", seconds=seconds))
        return self.rng.choice(choices)()

    def _choose_down(self, down: list[int]) -> int:
        """Choose a node to revive: hanging ones hang longer, so that requests are held."""
        weights = [1 if self._states[node] == "hanging" else 3 for node in down]
        return self.rng.choices(down, weights)[0]

    def _harm(self, node: int) -> Order:
        return Order(node=node, action=self.rng.choice(_HARM))

    def _revive(self, node: int) -> Order:
        seconds = self.rng.choice((0.0, self.rng.uniform(0.0, STALE_SECONDS)))
        if self._states[node] == "dead":
            return Order(node=node, action="start", seconds=seconds)
        return Order(node=node, action="resume", seconds=seconds, held=self.rng.choice(("execute", "drop")))

    async def _do(self, order: Order, *, count: bool = True) -> None:
        await asyncio.to_thread(self.cluster.order, order)
        match order.action:
            case "kill":
                self._states[order.node] = "dead"
            case "hang":
                self._states[order.node] = "hanging"
            case "start" | "resume":
                self._states[order.node] = "alive"
        if count:
            self.done[f"resume, held requests {order.held}" if order.action == "resume" else order.action] += 1
            self.done["behind when back"] += order.action in {"start", "resume"} and order.seconds > 0
            self.done["none alive"] += "alive" not in self._states
