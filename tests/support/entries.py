"""Entries, evidence, patterns, records and choices with everything told that a test does not care about."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4, uuid5

from knowledge.memory.rules.validation import content_hash
from knowledge.models import (
    PRIOR_WEIGHTS,
    Choice,
    Circumstance,
    Entry,
    EntryId,
    EntryStatus,
    EntryType,
    Evidence,
    NewEntry,
    Pattern,
    PatternId,
    PointId,
    ScoredCandidate,
    TrialRecord,
)
from knowledge.wiring.open import Knowledge

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
CART = "TypeError in the cart total when a price is None"
_NAMES = UUID(int=68)
HERE = PointId(UUID(int=1))
"""The point of the situation that a question is about."""


def failure(**told: Any) -> NewEntry:
    """Return a failure with a verified solution."""
    defaults: dict[str, Any] = {
        "entry_type": EntryType.FAILURE_SOLUTION,
        "project_id": "web-shop",
        "agent_type": "backend",
        "task_type": "bugfix",
        "technology": "python",
        "failure_description": CART,
        "solution_steps": "Treat a missing price as zero",
        "success_verified": True,
        "verified_by": "pytest",
    }
    return NewEntry(**defaults | told)


def rejection(**told: Any) -> NewEntry:
    """Return a gate rejection whose revision was accepted."""
    defaults: dict[str, Any] = {
        "entry_type": EntryType.GATE_REJECTION,
        "project_id": "web-shop",
        "gate_type": "design_review",
        "proposal": "Rename the orders table in place",
        "human_feedback": "There is no migration plan",
        "revision_approach": "Expand, migrate, contract",
    }
    return NewEntry(**defaults | told)


def approval(**told: Any) -> NewEntry:
    """Return a proposal that passed its gate at the first attempt."""
    defaults: dict[str, Any] = {
        "entry_type": EntryType.GATE_APPROVAL,
        "project_id": "web-shop",
        "gate_type": "design_review",
        "proposal": "Cache the product list in the browser",
        "approved_approach": "An ETag on the list, five minutes",
    }
    return NewEntry(**defaults | told)


def stored(entry: NewEntry, entry_id: UUID | None = None) -> Entry:
    """Return an entry as a store would give it."""
    return Entry(
        **{field.name: getattr(entry, field.name) for field in fields(NewEntry)},
        entry_id=EntryId(entry_id or uuid4()),
        status=EntryStatus.STAGED,
        content_hash=content_hash(entry),
        captured_at=NOON,
    )


def circumstance(words: NewEntry, entries: int = 1, *, error: str | None = None) -> Circumstance:
    """Return what entries like this one tell of where it worked."""
    return Circumstance(
        entries=entries,
        agent_type=words.agent_type,
        technology=words.technology,
        task_type=words.task_type,
        gate_type=words.gate_type,
        error=error,
    )


def evidence(name: str, *, words: NewEntry | None = None, **told: Any) -> Evidence:
    """Return the evidence of a pattern; the same name is the same pattern."""
    entry = stored(words or failure(), uuid5(_NAMES, name))
    defaults: dict[str, Any] = {
        "pattern_id": PatternId(uuid5(_NAMES, name)),
        "entry_type": entry.entry_type,
        "words": entry,
        "success_count": 1,
        "attempt_count": 1,
        "project_count": 1,
        "founded_at": NOON,
        "entry_ids": (entry.entry_id,),
        "circumstances": (circumstance(entry),),
        "when_to_try": entry.when_to_try,
        "conditions": (entry.applies_when,) if entry.applies_when else (),
    }
    return Evidence(**defaults | told)


def pattern(**told: Any) -> Pattern:
    """Return a pattern as a query answers it."""
    defaults: dict[str, Any] = {
        "pattern_id": PatternId(uuid4()),
        "entry_type": EntryType.FAILURE_SOLUTION,
        "problem": CART,
        "solution": "Treat a missing price as zero",
        "when_to_try": "When a bugfix task in python fails in this way.",
        "success_count": 1,
        "attempt_count": told.get("success_count", 1),
        "project_count": 1,
        "relevance": 0.9,
        "agent_type": "backend",
        "task_type": "bugfix",
        "technology": "python",
        "gate_type": None,
        "entry_ids": (EntryId(uuid4()),),
        "founded_at": NOON,
    }
    return Pattern(**defaults | told)


def trial(number: int = 0, *, worked: bool = True, **told: Any) -> TrialRecord:
    """Return the record of a trial; a later number is a later minute and another task."""
    defaults: dict[str, Any] = {
        "arm": "a",
        "point_id": HERE,
        "pattern_id": PatternId(UUID(int=2)),
        "situation": None,
        "is_exact": True,
        "low_trust": False,
        "reporter": None,
        "event": ("web-shop", f"T-{number}", ""),
        "recorded_at": NOON + timedelta(minutes=number),
    }
    return TrialRecord(worked=worked, **defaults | told)


def choice_of(*candidates: tuple[PatternId, str, float], **told: Any) -> Choice:
    """Return a choice among candidates: the pattern, its arm, and its likeness, the best candidate first."""
    defaults: dict[str, Any] = {
        "situation": "key",
        "exact": False,
        "confidence": 0.9,
        "level": 0.5,
        "margin": 0.05,
        "weights": PRIOR_WEIGHTS,
        "outcomes": 0,
        "base_rate": 0.5,
        "near_unaided": (0.0, 0.0),
        "features": (1.0, 2.0, 1.0, 0.5),
        "right": 0.75,
        "alone": 0.5,
        "candidates": tuple(
            ScoredCandidate(
                pattern_id=pattern_id,
                point_id=PointId(UUID(int=1000 + number)),
                arm=arm,
                likeness=likeness,
                weight=1.0,
                relevance=0.9,
                successes=1.23456,
                failures=0.0,
                factor=1.0,
                score=-0.5,
            )
            for number, (pattern_id, arm, likeness) in enumerate(candidates)
        ),
    }
    return Choice(**defaults | told)


async def capture(knowledge: Knowledge, *entries: NewEntry) -> list[EntryId]:
    """Capture entries one by one, as callers do; return their ids."""
    return [await knowledge.capture.capture(entry) for entry in entries]


async def learn(knowledge: Knowledge, *entries: NewEntry) -> list[EntryId]:
    """Capture entries and embed them at a checkpoint; return their ids."""
    ids = await capture(knowledge, *entries)
    await knowledge.checkpoints.process_all()
    return ids
