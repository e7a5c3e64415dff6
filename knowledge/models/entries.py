"""What is captured: an entry from its capture to its end, and who told it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from pydantic import StrictBool

from knowledge.names import EntryId, PatternId


class EntryType(StrEnum):
    """The three learning moments."""

    FAILURE_SOLUTION = "failure_solution"
    GATE_REJECTION = "gate_rejection"
    GATE_APPROVAL = "gate_approval"


class EntryStatus(StrEnum):
    """Where an entry is in its life. A leased entry is `staged` with a lease in the future."""

    OPEN = "open"
    STAGED = "staged"
    EMBEDDED = "embedded"
    DEAD = "dead"
    ABANDONED = "abandoned"
    QUARANTINED = "quarantined"
    """Held back until a person approves it: neither embedded nor shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliesWhen:
    """When a resolution applies at all; all that is told must hold, and what is not known does not stand against it.

    `technology` by its name; `version`: a range of versions of that, as `>=3.10,<3.13` (PEP 440); `tool` by its name;
    `error`: a regular expression that the error message matches (those allowed: `knowledge.memory.expressions`).
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    technology: str | None = None
    version: str | None = None
    tool: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntry:
    """One learning moment as a caller tells it: the fields of `interface` in Python, HTTP, JSON lines and SQL alike.

    Which fields an entry type needs, and their limits: `knowledge.memory.capture.validate`.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    entry_type: EntryType
    project_id: str
    workspace: str | None = None
    agent_type: str | None = None
    task_type: str | None = None
    technology: str | None = None
    task_description: str | None = None
    failure_description: str | None = None
    error_message: str | None = None
    solution_steps: str | None = None
    success_verified: StrictBool = False
    verified_by: str | None = None
    gate_type: str | None = None
    proposal: str | None = None
    human_feedback: str | None = None
    revision_approach: str | None = None
    approved_approach: str | None = None
    when_to_try: str | None = None
    applies_when: AppliesWhen | None = None
    task_id: str | None = None
    run_id: str | None = None
    idempotency_key: str | None = None


class Words(NamedTuple):
    """What of an entry its situation and its resolution are made of."""

    entry_type: EntryType
    task_description: str | None
    failure_description: str | None
    error_message: str | None
    solution_steps: str | None
    gate_type: str | None
    proposal: str | None
    human_feedback: str | None
    revision_approach: str | None
    approved_approach: str | None


class Review(StrEnum):
    """What of the entries by agents' keys waits for a person."""

    SUSPICIOUS = "suspicious"
    """What reads like instructions to whoever is shown it."""
    EVERYTHING = "everything"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Who told something: by which key, whether that is an agent's, and what in it has to be reviewed first.

    `first_key`: that which rotations made the key of, if any did.
    """

    key_id: str | None = None
    first_key: str | None = None
    low_trust: bool = False
    suspicions: tuple[str, ...] = ()

    @property
    def source(self) -> str | None:
        """The key of low trust that what is told counts as told by: the first one, however often it was rotated."""
        return (self.first_key or self.key_id) if self.low_trust else None


TRUSTED = Provenance()
"""The process itself, and whoever reaches its data directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(NewEntry):
    """A stored entry. `content_hash` is the sha256 of what the caller told, whatever was added later.

    `captured_by` and `resolved_by` are ids of keys, None where none was needed. `low_trust`: one of the two is an
    agent's; `agent_key` is that one, of two that which resolved it, and of one that was rotated the first it was made
    of. `suspicions`: why it is quarantined, or was.
    """

    entry_id: EntryId
    status: EntryStatus
    content_hash: str
    captured_at: datetime
    attempts: int = 0
    dead_reason: str | None = None
    pattern_id: PatternId | None = None
    embedded_at: datetime | None = None
    expires_at: datetime | None = None
    captured_by: str | None = None
    resolved_by: str | None = None
    agent_key: str | None = None
    low_trust: bool = False
    suspicions: tuple[str, ...] = ()

    @property
    def source(self) -> str | None:
        """The key of low trust that it came by, if it did; of a version before, which did not keep it, any there is."""
        return (self.agent_key or self.captured_by or self.resolved_by or "") if self.low_trust else None


class CaptureOutcome(StrEnum):
    """What became of one entry of a capture."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """The answer to one captured entry. A duplicate names the entry that is already there; a refusal says why.

    `informed`: patterns had been handed out for the entry's task; of a duplicate, before it was told, and it is staged.
    """

    outcome: CaptureOutcome
    entry_id: EntryId | None = None
    status: EntryStatus | None = None
    error: str | None = None
    field: str | None = None
    informed: bool = False
