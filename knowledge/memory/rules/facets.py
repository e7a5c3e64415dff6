"""Fit of a pattern's agent type, task type, technology and gate type to a query; pure.

It ranks and never excludes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from knowledge.memory.rules.versions import canonical_name
from knowledge.models import Evidence, PointFilter

MISSING_FACTOR = 0.95
"""Factor for each requested field that the pattern does not have, such as a gate's agent type."""

OTHER_FACTOR = 0.9
"""Factor for each requested field with another value.

Both are ours, and close to 1 on purpose, so that fields order patterns of similar evidence and weigh little beside it:
one other value is as 0.7 nats of likeness, and three, which make 0.73, are as one failure and not as two: the bound of
1 of 1 (0.90) times that is below the bound of 1 of 2 (0.72), and above that of 1 of 3 (0.60), though the solution is
unverified, too. At 0.88 and below for one other value that would no longer hold.
"""

MIN_FITTING = 3
"""Patterns that fit (fewer where fewer are requested) which others do not displace, and which a search looks for."""

_FIELDS = ("agent_type", "task_type", "technology", "gate_type")


def fit(evidence: Evidence, where: PointFilter) -> float:
    """Return the factor of a pattern's fields, 0..1; 1 where all match or none is requested."""
    factor = OTHER_FACTOR if evidence.of_project is False else 1.0
    for values, requested in _field_values(evidence, where):
        if not values:
            factor *= MISSING_FACTOR
        elif requested not in values:
            factor *= OTHER_FACTOR
    return factor


def fits(evidence: Evidence, where: PointFilter) -> bool:
    """Return whether every requested field is missing in the pattern or has the requested value."""
    return all(not values or requested in values for values, requested in _field_values(evidence, where))


def _field_values(evidence: Evidence, where: PointFilter) -> Iterator[tuple[Collection[str], str]]:
    """Yield, for each requested field, the values of the pattern's entries and the requested one.

    By canonical names, as conditions are compared.
    """
    for field in _FIELDS:
        requested = getattr(where, field)
        if requested is not None:
            values = (getattr(each, field) for each in evidence.circumstances)
            yield {canonical_name(value) for value in values if value is not None}, canonical_name(requested)
