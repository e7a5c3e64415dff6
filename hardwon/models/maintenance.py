"""Reports of verification, re-indexing and archives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from hardwon.models.ids import PointId
from hardwon.models.seals import SealReport

LEAST_RECALL: Final = 0.98
"""Recall of a search below which the index is reported; a sound one has 1.00 (docs/performance.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReembedReport:
    """Result of a change of model. `kept`: share of nearest neighbours that stayed near, 1 where texts were too few.

    `from_model`: None where nothing was embedded before. `forgotten`: models whose vectors were dropped.
    """

    from_model: str | None
    to_model: str
    embedded: int
    kept: float
    switched: bool
    forgotten: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """A model as named by an operator. None means as in the settings; a key is only sent to its own `base_url`."""

    model: str
    dims: Annotated[int | None, Field(ge=2, le=65536)] = None
    revision: str | None = None
    query_prefix: str | None = None
    document_prefix: str | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """Rows that an import found in the archive, and those of them that were new; `points`: points written to the index.

    `passages`: points of documents that were; `embedded`: texts, of either, that had no vector in the archive.
    """

    rows: Mapping[str, int]
    new: Mapping[str, int]
    points: int
    embedded: int
    passages: int = 0


class Fault(StrEnum):
    """Kinds of faults of a point in the index."""

    MISSING = "missing"
    ORPHAN = "orphan"
    STALE = "stale"
    MISMATCHED = "mismatched"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSample:
    """Recall of searches by sense under some conditions: the share of the 10 nearest points that they found.

    `collection`: patterns or passages. `conditions`: the fields that the searches were limited by.
    """

    collection: str
    conditions: str
    searches: int
    recall: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallReport:
    """Recall of the index against an exact search, for texts that it holds. `advice`: a sentence each."""

    samples: tuple[RecallSample, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def least(self) -> float:
        """The lowest recall of any sample, 1 where nothing was searched."""
        return min((sample.recall for sample in self.samples), default=1.0)

    @property
    def sound(self) -> bool:
        """True where searches find what they should, and there is nothing to do."""
        return self.least >= LEAST_RECALL and not self.advice


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """Differences between index and Postgres: points that are missing, have no row, another expiry, other content.

    `examples`: some ids of each. `repaired`: number of repaired points. `passages`: points of documents; `points`:
    those of entries. `recall`: that of the searches, where it was measured. `seals`: of the entries in Postgres.
    """

    points: int
    missing: int = 0
    orphan: int = 0
    stale: int = 0
    mismatched: int = 0
    passages: int = 0
    passages_missing: int = 0
    passages_orphan: int = 0
    repaired: int = 0
    examples: Mapping[str, tuple[PointId, ...]] = field(default_factory=dict)
    recall: RecallReport | None = None
    seals: SealReport | None = None

    @property
    def wrong(self) -> dict[str, int]:
        """Number of faulty points by kind."""
        counts = {fault.value: getattr(self, fault.value) for fault in Fault}
        counts |= {"passages missing": self.passages_missing, "passages orphan": self.passages_orphan}
        return {name: number for name, number in counts.items() if number}

    @property
    def sound(self) -> bool:
        """True where nothing differs, or every difference was repaired; an altered entry is never."""
        is_intact = self.seals is None or self.seals.is_intact
        return is_intact and sum(self.wrong.values()) == self.repaired


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildReport:
    """Result of a rebuild, or its cost where `dry_run`. `embedded`: texts without a stored vector.

    `passages`: points of documents; `points`: those of entries. `layout_changes`: what a new layout changes, in words.
    """

    points: int
    embedded: int
    dry_run: bool = False
    passages: int = 0
    layout_changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionReport:
    """Result of redacting what is stored again, or with `dry_run` what it would change.

    `kinds`: secrets found, by kind. `entries`, `documents`, `records`: rows with a secret, of entries, of documents,
    and of what else has texts; `merged`: entries that became the same as another one. `embedded`: entries and documents
    that were embedded, or wait for it where `postponed` says why. `audited`: decisions in the audit log with a secret,
    which stay as they are, since each row is sealed by the next one.
    """

    entries: int = 0
    documents: int = 0
    records: int = 0
    merged: int = 0
    embedded: int = 0
    audited: int = 0
    kinds: Mapping[str, int] = field(default_factory=dict)
    postponed: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionHealth:
    """A collection of the index. `replicas`: as configured; `least_replicas`: live ones of the shard that has fewest.

    `differs`: in which points it is not laid out as the settings ask. `unreadable`, `at_risk`: share of the points in
    shards without a live replica, and in those with a single one.
    """

    name: str
    points: int
    shards: int = 1
    replicas: int = 1
    least_replicas: int = 1
    unreadable: float = 0.0
    at_risk: float = 1.0
    differs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexHealth:
    """State of the vector index. `version`: of the server, None for the embedded engine.

    `nodes`: of the server's cluster, 1 without one, None where the key may not ask. `problems`: a sentence each, with
    what to do.
    """

    version: str | None = None
    nodes: int | None = 1
    dead_nodes: tuple[str, ...] = ()
    collections: tuple[CollectionHealth, ...] = ()
    problems: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """A run of a job: its last attempt, which still runs where it has no end; `dealt_with`: the number of items.

    `dealt_with` is None for runs of before revision 0036, and for those that failed.
    """

    began_at: datetime
    finished_at: datetime | None
    attempts: int
    dealt_with: int | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """A job with its schedule and last runs, the latest first. `schedule`: five fields of cron, in UTC.

    `next_run_at`: when the schedule has it next; a scheduler runs it up to a minute earlier or later. `item_names`:
    the singular and the plural of what it deals with.
    """

    name: str
    description: str
    schedule: str
    next_run_at: datetime
    item_names: tuple[str, str]
    runs: tuple[JobRun, ...]
