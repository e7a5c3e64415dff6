"""Patterns and their evidence: what is known of a failure or a gate, and how it is told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from knowledge.models.entries import AppliesWhen, Entry, EntryType
from knowledge.names import EntryId, PatternId

ERROR_NAME = r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]{0,60}(Error|Exception|Warning))(?![A-Za-z0-9_])"
"""An error by its name, such as `TypeError`: group 1. For Postgres and Python alike."""

ERROR_CODE = r"(?<![A-Za-z0-9_])(E[A-Z]{3,12}|[A-Z]{1,6}-?[0-9]{2,6})(?![A-Za-z0-9_])"
"""An error by its code, such as `ECONNREFUSED`, `E0308` or `ORA-00942`: group 1. For Postgres and Python alike."""

MOST_HEARD = 100
"""A pattern speaks, and is named, by at most so many of its entries, the most trusted, then the latest; all count."""

MAX_CIRCUMSTANCES = 20
"""A pattern tells of at most so many circumstances, the most frequent."""

MAX_RIVALS = 20
"""A pattern tells of at most so many rivals, those with the most evidence."""

MAX_WHEN_CHARS = 300
"""So much of each sentence of when to try is looked at for conditions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstance:
    """What so many entries of a pattern tell of where it worked. `error` is the name or code of the error."""

    entries: int
    agent_type: str | None = None
    technology: str | None = None
    task_type: str | None = None
    gate_type: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Distilled:
    """What a model wrote of a pattern in general, never in place of its words: which model, and when.

    An empty `when_not_to_try` says that the entries do not tell.
    """

    title: str
    problem: str
    when_to_try: str
    when_not_to_try: str
    model: str
    written_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Distillation:
    """A model's answer about a pattern: what it wrote, or why that was refused. Made of `entry_ids`, all live.

    `evidence`: how many embedded entries the pattern had then.
    """

    pattern_id: PatternId
    entry_ids: tuple[EntryId, ...]
    evidence: int
    model: str
    answered_at: datetime
    distilled: Distilled | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A live pattern with its counts and the words of its most trusted, then latest, evidence.

    `circumstances` are those of all its live entries, the most frequent first; `when_to_try` is as captured, of the
    most trusted, then latest, entry that tells it; `conditions` are those that its entries tell, each once, and
    `whens` the beginnings of their sentences of when to try: of both, low trust has no say beside what is trusted.
    `of_project` is whether any is of the project asked for, if one is.
    `rivals` are the patterns of the same situation with another resolution.
    """

    pattern_id: PatternId
    entry_type: EntryType
    words: Entry
    success_count: int
    attempt_count: int
    project_count: int
    founded_at: datetime
    entry_ids: tuple[EntryId, ...]
    circumstances: tuple[Circumstance, ...]
    when_to_try: str | None = None
    conditions: tuple[AppliesWhen, ...] = ()
    whens: tuple[str, ...] = ()
    of_project: bool | None = None
    rivals: tuple[PatternId, ...] = ()
    distilled: Distilled | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One way of resolving a situation, as an answer to a query.

    `relevance` is 0..1 (`knowledge.search.calibration`); `success_count` counts distinct (project, task, run).
    `rivals` are the patterns of the same situation with another resolution.
    `distilled` is a model's and stands beside the words. `source`: the key of an agent, where nobody that is trusted
    more speaks for it.
    """

    pattern_id: PatternId
    entry_type: EntryType
    problem: str
    solution: str
    when_to_try: str
    success_count: int
    attempt_count: int
    project_count: int
    relevance: float
    agent_type: str | None
    task_type: str | None
    technology: str | None
    gate_type: str | None
    entry_ids: tuple[EntryId, ...]
    founded_at: datetime
    rivals: tuple[PatternId, ...] = ()
    distilled: Distilled | None = None
    source: str | None = None
