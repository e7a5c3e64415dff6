"""Success rate of a pattern with little evidence; pure."""

from __future__ import annotations

import math

MAX_FAILING_RATE = 0.25
"""Patterns that work no more often are not shown to agents. Ours: six failures without success, or eleven after one."""


def success_rate(successes: int, attempts: int) -> float:
    """Return a lower bound of the success rate: the mean of the Beta posterior less its standard deviation.

    The posterior of a uniform prior is Beta(s + 1, n - s + 1), with mean (s + 1) / (n + 2) (Laplace's rule of
    succession) and variance m (1 - m) / (n + 3). So 9 of 10 (0.73) comes before 1 of 1 (0.43), and 1 of 2 (0.28) last.
    """
    mean, deviation = _posterior(successes, attempts)
    return mean - deviation


def is_failing(successes: int, attempts: int) -> bool:
    """Return whether the upper bound of the success rate is below `MAX_FAILING_RATE`."""
    return sum(_posterior(successes, attempts)) < MAX_FAILING_RATE


def _posterior(successes: int, attempts: int) -> tuple[float, float]:
    mean = (successes + 1) / (attempts + 2)
    return mean, math.sqrt(mean * (1 - mean) / (attempts + 3))
