"""Ours against raw in one run: rounds in turn on the same machine, so that what slows one slows the other."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from statistics import median, quantiles

Timed = Callable[[int], Awaitable[float]]
"""One measurement, in seconds; the number tells one from another, so that no cache answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A ratio and its goal. `at_most`: whether the ratio is to stay below the goal, else above."""

    name: str
    ratio: float
    goal: float
    at_most: bool
    ours: str
    raw: str
    note: str = ""

    @property
    def reached(self) -> bool:
        """Whether the goal is reached."""
        return self.ratio <= self.goal if self.at_most else self.ratio >= self.goal


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The rounds of both sides, in seconds."""

    ours: list[list[float]]
    raw: list[list[float]]

    @staticmethod
    def median_of(rounds: list[list[float]]) -> float:
        """Return the median over the rounds of each round's median."""
        return median(median(times) for times in rounds)

    @property
    def ratio(self) -> float:
        """Return ours / raw."""
        return self.median_of(self.ours) / self.median_of(self.raw)

    @property
    def ratio_p95(self) -> float:
        """Return ours / raw at the 95th percentile of all times."""
        return _p95(self.ours) / _p95(self.raw)


def _p95(rounds: list[list[float]]) -> float:
    return quantiles([each for times in rounds for each in times], n=20)[-1]


async def interleaved(ours: Timed, raw: Timed, *, rounds: int, each: int, warm_up: int = 3) -> Times:
    """Measure both in turn, `each` times a round; who goes first changes from round to round."""
    times = Times(ours=[], raw=[])
    for number in range(warm_up):
        await ours(-1 - number)
        await raw(-1 - number)
    for turn in range(rounds):
        sides = [(ours, times.ours), (raw, times.raw)]
        for measure, kept in sides if turn % 2 == 0 else reversed(sides):
            kept.append([await measure(turn * each + number) for number in range(each)])
    return times


async def timed(work: Awaitable[object]) -> float:
    """Return the seconds some work takes."""
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


def ms(seconds: float) -> str:
    """Return seconds as milliseconds for people."""
    return f"{seconds * 1000:.2f} ms"
