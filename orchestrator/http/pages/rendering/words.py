"""Times, kinds, states and records in the words and numbers of the pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from hardwon.models.lists import Attempt

KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "failure_solution": ("fix", "Failure solved"),
    "gate_rejection": ("rejection", "Gate rejection"),
    "gate_approval": ("approval", "First-time approval"),
}
"""The class and the words of each type of entry."""
TEXTS: Final[Mapping[str, str]] = {
    "task_description": "Task",
    "failure_description": "What failed",
    "error_message": "Error",
    "solution_steps": "What worked",
    "proposal": "Proposal",
    "human_feedback": "Feedback",
    "revision_approach": "Accepted revision",
    "approved_approach": "Approved approach",
    "when_to_try": "When to try",
}
"""The words of each text of an entry that a correction may replace, in the order of reading."""
REASONS: Final[Mapping[str, tuple[str, str, str]]] = {
    "spoke": ("good", "Hints given", "The best candidate was likely enough to help."),
    "nothing_near": ("quiet", "Silent", "Nothing that is stored is near this task."),
    "not_sure": ("quiet", "Silent", "Something was near, but it would more likely have misled the agent."),
    "agent_knows": ("quiet", "Silent", "Agents solve tasks like this one more often without a hint."),
    "held_out": ("held", "Held out", "By chance, so that tasks with and without hints can be compared."),
    "degraded": ("poor", "Too late", "A store did not answer in time: the agent got its task alone."),
}
"""The class, the words and the explanation of each rule that decides about a context."""
WITHHELD: Final[Mapping[str, str]] = {
    "not_sure": "less sure than the bar",
    "agent_knows": "agents solve such tasks by themselves",
    "held_out": "held out by chance",
}
_Z: Final = 1.96
"""Of a two-sided interval of 95 %."""
MAX_WEEKS: Final = 26


def describe_age(then: datetime, now: datetime) -> str:
    """Return how long ago a time is, in one short word, such as `3 h`."""
    return _describe_seconds(max(0.0, (now - then).total_seconds()))


def _describe_seconds(seconds: float) -> str:
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h"), (7_776_000, 86_400, "d")):
        if seconds < limit:
            return f"{max(1, round(seconds / size))} {unit}"
    return f"{round(seconds / 2_629_800)} mo"


def describe_span(span: timedelta) -> str:
    """Return a duration in one short word."""
    seconds = span.total_seconds()
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    return f"{seconds:.1f} s" if seconds < 10 else _describe_seconds(seconds)


def describe_day(then: datetime) -> str:
    """Return the day of a time, such as `5 Nov 2026`."""
    return f"{then.day} {then:%b %Y}"


def describe_bytes(size: float) -> str:
    """Return a size in the unit that suits it."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


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


def is_losing(successes: int, attempts: int) -> bool:
    """Return whether a pattern failed more often than it worked."""
    return attempts > 2 * successes


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
