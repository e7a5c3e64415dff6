"""The record of a pattern in numbers: the share that works, its interval, and its attempts by week."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from hardwon.models.lists import Attempt

_Z: Final = 1.96
"""Of a two-sided interval of 95 %."""
MAX_WEEKS: Final = 26


def likely_share(successes: int, attempts: int) -> tuple[float, float, float]:
    """Return how likely a pattern works again, and the 95 % interval, in percent.

    The mean is that of a uniform prior, (s + 1) / (n + 2); the interval is Wilson's score interval (1927).
    """
    mean = (successes + 1) / (attempts + 2)
    if not attempts:
        return 100 * mean, 0.0, 100.0
    share, square = successes / attempts, _Z * _Z
    middle = (share + square / (2 * attempts)) / (1 + square / attempts)
    half = _Z / (1 + square / attempts) * math.sqrt(share * (1 - share) / attempts + square / (4 * attempts**2))
    return 100 * mean, 100 * max(0.0, middle - half), 100 * min(1.0, middle + half)


def outcome_letters(attempts: Sequence[Attempt], limit: int = 30) -> str:
    """Return a letter for each of the latest attempts, the oldest first, as lists of patterns have them."""
    return "".join("w" if attempt.worked else "f" for attempt in reversed(attempts[:limit]))


def count_weeks(attempts: Sequence[Attempt], now: datetime) -> list[tuple[str, int, int]]:
    """Return the first day of each week that has attempts or lies between, with those that worked and that failed."""
    if not attempts:
        return []
    first = min(attempt.at for attempt in attempts)
    weeks = min(MAX_WEEKS, max(6, (now - first) // timedelta(days=7) + 1))
    counts = [[0, 0] for _ in range(weeks)]
    for attempt in attempts:
        ago = max(0, (now - attempt.at) // timedelta(days=7))
        if ago < weeks:
            counts[weeks - 1 - ago][0 if attempt.worked else 1] += 1
    starts = [now - timedelta(days=7 * (weeks - place)) for place in range(weeks)]
    return [(f"{start.day} {start:%b}", worked, failed) for start, (worked, failed) in zip(starts, counts, strict=True)]
