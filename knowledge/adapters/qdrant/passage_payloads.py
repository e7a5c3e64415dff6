"""Payloads, checks and filters of passages shared by both Qdrant adapters. Independent of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from hardwon.errors import InvalidInput
from knowledge.adapters.qdrant.payloads import TENANT, check_dense, check_lexical, format_time
from knowledge.documents.models import PassagePoint, PassageWhere
from knowledge.models import EmbeddingSpace

KEYWORDS: Final = ("partition", "document_id", "category", "severity")
TIMES: Final = ("ts", "until")
NUMBERS: Final = ("line_start", "line_end")


def own_space(space: EmbeddingSpace) -> EmbeddingSpace:
    """Return the space under the name of its collection of passages, which is separate from that of patterns."""
    return replace(space, fingerprint=f"documents_{space.fingerprint}")


def payload(point: PassagePoint) -> dict[str, str | int | list[str]]:
    """Return the filter fields of a point. Absent ones are left out."""
    fields: dict[str, str | int | list[str]] = {
        TENANT: point.workspace,
        "partition": point.partition,
        "document_id": str(point.document_id),
        "generation": point.generation,
        "line_start": point.line_start,
        "line_end": point.line_end,
    }
    if point.category:
        fields["category"] = point.category
    if point.severities:
        fields["severity"] = [str(severity) for severity in point.severities]
    if point.timestamp is not None:
        fields["ts"] = format_time(point.timestamp, "timestamp")
        fields["until"] = format_time(point.until or point.timestamp, "until")
    return fields


def check_batch(space: EmbeddingSpace, points: Sequence[PassagePoint]) -> None:
    """Raise InvalidInput, naming the point, if any of a batch cannot be stored."""
    for position, point in enumerate(points):
        if not isinstance(point.passage_id, UUID):
            raise InvalidInput(f"points[{position}].passage_id", "a passage's id is a UUID")
        check_dense(space, point.dense, f"points[{position}].dense")
        check_lexical(point.lexical, f"points[{position}].lexical")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """A `PassageWhere` as conditions on payload fields. `lines`: any of them in the point's; times: they overlap."""

    one_of: tuple[tuple[str, tuple[str, ...]], ...]
    since: datetime | None
    until: datetime | None
    lines: tuple[int, ...]

    @property
    def impossible(self) -> bool:
        """True if no point can match, because a field allows no value."""
        return any(not values for _, values in self.one_of)


def conditions(where: PassageWhere) -> Conditions:
    """Return the payload conditions of a search."""
    wanted = where.conditions
    one_of: list[tuple[str, tuple[str, ...]]] = [(TENANT, (where.workspace,)), ("partition", where.partitions)]
    if where.documents is not None:
        one_of.append(("document_id", tuple(sorted(map(str, where.documents)))))
    if wanted.document_ids:
        one_of.append(("document_id", tuple(sorted(map(str, wanted.document_ids)))))
    if wanted.severities:
        one_of.append(("severity", tuple(sorted(map(str, wanted.severities)))))
    return Conditions(one_of=tuple(one_of), since=wanted.since, until=wanted.until, lines=wanted.lines)
