"""How well agent type, task type, technology and gate type of a pattern fit what is asked for; pure.

It ranks and never excludes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from knowledge.memory.technologies import usual_name
from knowledge.models import Evidence, Where

MISSING_FACTOR = 0.95
"""What a match counts for each field asked for that nobody told of it, as a gate's agent type."""

OTHER_FACTOR = 0.9
"""What it counts for each field that has another value.

Both are ours, and small on purpose, so that fields put alike evidence in order and turn no evidence over: three others
make 0.73, and that times the lower bound of 9 of 10 (0.73) is still above that of 1 of 1 (0.43), which times 0.73 is
still above that of 1 of 2 (0.28). From 0.84 down for one other value that would no longer hold.
"""

ENOUGH = 3
"""So many patterns that fit (fewer where fewer are asked for) others do not crowd out, and so many are looked for."""

_FIELDS = ("agent_type", "task_type", "technology", "gate_type")


def fit(evidence: Evidence, where: Where) -> float:
    """Return what a pattern counts by its fields, 0..1: 1 where all are as asked, and where nothing is asked."""
    factor = OTHER_FACTOR if evidence.of_project is False else 1.0
    for told, asked in _asked_and_told(evidence, where):
        if not told:
            factor *= MISSING_FACTOR
        elif asked not in told:
            factor *= OTHER_FACTOR
    return factor


def fits(evidence: Evidence, where: Where) -> bool:
    """Return whether no field that is asked for has only other values; one that nobody told fits."""
    return all(not told or asked in told for told, asked in _asked_and_told(evidence, where))


def _asked_and_told(evidence: Evidence, where: Where) -> Iterator[tuple[Collection[str], str]]:
    """Yield the values that are told of each field that is asked for, by any of its entries, and the one asked for.

    By their usual names, as conditions are compared.
    """
    for field in _FIELDS:
        asked = getattr(where, field)
        if asked is not None:
            told = (getattr(each, field) for each in evidence.circumstances)
            yield {usual_name(value) for value in told if value is not None}, usual_name(asked)
