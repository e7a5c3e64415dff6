"""Which of the patterns that were found a context has: they share a few places; pure."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.memory.success import is_failing
from knowledge.memory.texts import normalise
from knowledge.models import EntryType, Pattern, PatternId


def choose(found: Sequence[Pattern], *, limit: int) -> list[Pattern]:
    """Return the first `limit` patterns, in their order.

    While others fit, gate entries fill one of three places, and a pattern whose solution repeats an earlier one's fills
    none. Patterns that rest on one agent's key alone fill one, whatever else there is. Those known to fail fill none,
    nor do those of failures whose solution is an earlier one's to the letter: in order, it would be tried twice.
    """
    working = [each for each in found if not is_failing(each.success_count, each.attempt_count)]
    heard = _one_of_each_source(_without_repeated(working))
    repeated = _with_same_solution(heard)
    gates = [
        pattern.pattern_id
        for pattern in heard
        if pattern.entry_type is not EntryType.FAILURE_SOLUTION and pattern.pattern_id not in repeated
    ]
    later = dict.fromkeys(gates[max(1, limit // 3) :], 1) | dict.fromkeys(repeated, 2)
    places = sorted(heard, key=lambda pattern: later.get(pattern.pattern_id, 0))[:limit]
    chosen = {pattern.pattern_id for pattern in places}
    return [pattern for pattern in heard if pattern.pattern_id in chosen]


def _one_of_each_source(found: Sequence[Pattern]) -> list[Pattern]:
    """Return the patterns; of those that rest on one agent's key alone, only the first."""
    seen: set[str] = set()
    heard = []
    for pattern in found:
        if pattern.source is None or pattern.source not in seen:
            heard.append(pattern)
        if pattern.source is not None:
            seen.add(pattern.source)
    return heard


def _without_repeated(found: Sequence[Pattern]) -> list[Pattern]:
    """Return the patterns without those of failures that tell to do exactly what an earlier one does.

    What a gate decided says something by what it was about, whatever it was.
    """
    first: dict[str, PatternId] = {}
    return [
        pattern
        for pattern in found
        if pattern.entry_type is not EntryType.FAILURE_SOLUTION
        or first.setdefault(to_do(pattern), pattern.pattern_id) == pattern.pattern_id
    ]


def to_do(pattern: Pattern) -> str:
    """Return what a pattern tells to do, whatever its blanks: where case differs it may be two, as -d and -D are."""
    return " ".join(pattern.solution.split())


def _with_same_solution(found: Sequence[Pattern]) -> list[PatternId]:
    """Return the patterns whose solution is that of an earlier one."""
    first: dict[str, PatternId] = {}
    return [
        pattern.pattern_id
        for pattern in found
        if first.setdefault(normalise(pattern.solution), pattern.pattern_id) != pattern.pattern_id
    ]
