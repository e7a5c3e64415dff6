"""Entries: one captured learning moment each, its status and its provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, Self

from pydantic import StrictBool

from hardwon.models.ids import EntryId, PatternId


class EntryType(StrEnum):
    """The three learning moments."""

    FAILURE_SOLUTION = "failure_solution"
    GATE_REJECTION = "gate_rejection"
    GATE_APPROVAL = "gate_approval"


class EntryStatus(StrEnum):
    """Status of an entry. An entry under lease is `staged` with a lease that ends in the future."""

    OPEN = "open"
    STAGED = "staged"
    EMBEDDED = "embedded"
    DEAD = "dead"
    ABANDONED = "abandoned"
    QUARANTINED = "quarantined"
    """Waits for a person to approve it; neither embedded nor shown until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliesWhen:
    """Conditions under which a resolution applies. All must hold; a condition on an unknown fact does not exclude it.

    `technology`: its name; `version`: a PEP 440 range of versions of it, such as `>=3.10,<3.13`; `tool`: its name;
    `error`: a regular expression that matches the error message (allowed syntax: `knowledge.memory.rules.conditions`).
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    technology: str | None = None
    version: str | None = None
    tool: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntry:
    """One learning moment as a caller captures it; the fields are the same in Python, HTTP, JSON lines and SQL.

    `knowledge.memory.capture.service.validate` checks the fields that each entry type needs, and their limits.
    `dead_ends`: of a failure, what was tried before and did not help, a text each. `outside_text`: the run had read
    text from outside of the machine before, such as a web page, which may have told the agent what to do.
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
    dead_ends: tuple[str, ...] = ()
    outside_text: StrictBool = False
    task_id: str | None = None
    run_id: str | None = None
    idempotency_key: str | None = None

    def __post_init__(self) -> None:
        """Hold the texts of a list as a tuple."""
        given: object = self.dead_ends
        if isinstance(given, list):
            object.__setattr__(self, "dead_ends", tuple(given))


_OTHER_FIELDS = frozenset({"entry_type", "success_verified", "applies_when", "dead_ends", "outside_text"})
TEXT_FIELDS = tuple(each.name for each in fields(NewEntry) if each.name not in _OTHER_FIELDS)
"""The fields of an entry that hold one text each."""


class EntryTexts(NamedTuple):
    """The fields of an entry that its situation and its resolution are made of."""

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


class ReviewMode(StrEnum):
    """The entries captured with an agent's key that wait for a person's review."""

    SUSPICIOUS = "suspicious"
    """Entries with text that reads like instructions to its reader."""
    EVERYTHING = "everything"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Origin of an entry or outcome: the API key, whether it is an agent's (low trust), and reasons to review it.

    `first_key`: the first key of the rotation chain, if the key is the result of a rotation.
    """

    key_id: str | None = None
    first_key: str | None = None
    low_trust: bool = False
    suspicions: tuple[str, ...] = ()

    @property
    def source(self) -> str | None:
        """The low-trust key it is attributed to: the first key of the rotation chain; None if trusted."""
        return (self.first_key or self.key_id) if self.low_trust else None


TRUSTED = Provenance()
"""The process itself, and anyone with access to its data directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(NewEntry):
    """A stored entry. `content_hash` is the SHA-256 of what the caller sent, without later additions.

    `captured_by` and `resolved_by` are key ids, None where no key was needed. `low_trust`: at least one of them is an
    agent's key; `agent_key` is that key (the resolving one if both are; the first of its rotation chain).
    `suspicions`: the reasons why it is or was quarantined.
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
        """The low-trust key it came with, None if trusted; without `agent_key` (older versions), any key it has."""
        return (self.agent_key or self.captured_by or self.resolved_by or "") if self.low_trust else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryVersion:
    """Texts of an entry that a person's correction replaced; None for one that the entry did not have before.

    `replaced_by`: who corrected it, as in the audit log. `reason`: in their words.
    """

    number: int
    replaced_at: datetime
    replaced_by: str
    reason: str | None
    texts: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryDetails(Entry):
    """An entry with what corrections replaced in it, the latest first."""

    history: tuple[EntryVersion, ...] = ()

    @classmethod
    def of(cls, entry: Entry, history: tuple[EntryVersion, ...]) -> Self:
        """Return an entry with its history."""
        return cls(**{field.name: getattr(entry, field.name) for field in fields(Entry)}, history=history)


class CaptureOutcome(StrEnum):
    """Outcome of capturing one entry."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureResult:
    """Result of capturing one entry. A duplicate gives the id of the existing entry; a refusal gives the reason.

    `informed`: the agent had been shown patterns for the entry's task; of a duplicate: before its first capture, and
    the entry is staged.
    """

    outcome: CaptureOutcome
    entry_id: EntryId | None = None
    status: EntryStatus | None = None
    error: str | None = None
    field: str | None = None
    informed: bool = False
