"""Selection of the patterns that a context shows, out of those that a query found; pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.memory.success import is_failing
from knowledge.memory.texts import normalise
from knowledge.models import EntryType, Pattern, PatternId


def select_patterns(found: Sequence[Pattern], *, limit: int) -> list[Pattern]:
    """Return the first `limit` patterns, in their order.

    While others fit, gate entries fill one of three places, and a pattern that repeats an earlier solution fills none.
    Patterns that rest on the key of one agent alone always fill at most one. Patterns known to fail are left out, and
    so are failures whose solution is literally that of an earlier one: an agent would try it twice.
    """
    working = [each for each in found if not is_failing(each.success_count, each.attempt_count)]
    candidates = _first_of_each_source(_drop_repeated_fixes(working))
    repeated = _find_same_solutions(candidates)
    gates = [
        pattern.pattern_id
        for pattern in candidates
        if pattern.entry_type is not EntryType.FAILURE_SOLUTION and pattern.pattern_id not in repeated
    ]
    demotions = dict.fromkeys(gates[max(1, limit // 3) :], 1) | dict.fromkeys(repeated, 2)
    places = sorted(candidates, key=lambda pattern: demotions.get(pattern.pattern_id, 0))[:limit]
    selected = {pattern.pattern_id for pattern in places}
    return [pattern for pattern in candidates if pattern.pattern_id in selected]


def _first_of_each_source(found: Sequence[Pattern]) -> list[Pattern]:
    """Return the patterns; of those that rest on the key of one agent alone, only the first."""
    sources: set[str] = set()
    patterns = []
    for pattern in found:
        if pattern.source is None or pattern.source not in sources:
            patterns.append(pattern)
        if pattern.source is not None:
            sources.add(pattern.source)
    return patterns


def _drop_repeated_fixes(found: Sequence[Pattern]) -> list[Pattern]:
    """Return the patterns without failures whose solution is exactly that of an earlier pattern.

    A gate's decision is kept: it says something by what was decided on, whatever the decision was.
    """
    first: dict[str, PatternId] = {}
    return [
        pattern
        for pattern in found
        if pattern.entry_type is not EntryType.FAILURE_SOLUTION
        or first.setdefault(solution_key(pattern), pattern.pattern_id) == pattern.pattern_id
    ]


def solution_key(pattern: Pattern) -> str:
    """Return the solution with its white space collapsed. Case is kept: `-d` and `-D` are two solutions."""
    return " ".join(pattern.solution.split())


def _find_same_solutions(found: Sequence[Pattern]) -> list[PatternId]:
    """Return the ids of patterns whose normalised solution is that of an earlier one."""
    first: dict[str, PatternId] = {}
    return [
        pattern.pattern_id
        for pattern in found
        if first.setdefault(normalise(pattern.solution), pattern.pattern_id) != pattern.pattern_id
    ]
