"""Which of the patterns that were found a context has: they share a few places; pure."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.memory.success import is_failing
from knowledge.memory.texts import normalised
from knowledge.models import EntryType, Pattern, PatternId


def choose(found: Sequence[Pattern], *, limit: int) -> list[Pattern]:
    """Return the first `limit` patterns, in their order.

    While others fit, gate entries fill one of three places, and a pattern whose solution repeats an earlier one's fills
    none. Patterns that rest on one agent's key alone fill one, whatever else there is; those known to fail, none.
    """
    heard = _one_of_each_source([each for each in found if not is_failing(each.success_count, each.attempt_count)])
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


def _with_same_solution(found: Sequence[Pattern]) -> list[PatternId]:
    """Return the patterns whose solution is that of an earlier one."""
    first: dict[str, PatternId] = {}
    return [
        pattern.pattern_id
        for pattern in found
        if first.setdefault(normalised(pattern.solution), pattern.pattern_id) != pattern.pattern_id
    ]
