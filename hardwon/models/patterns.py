"""Patterns and their evidence: what is known about a failure or a gate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hardwon.models.entries import AppliesWhen, Entry, EntryType
from hardwon.models.ids import EntryId, PatternId

ERROR_NAME = r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]{0,60}(Error|Exception|Warning))(?![A-Za-z0-9_])"
"""An error name such as `TypeError`, as group 1. The syntax works in Postgres and Python."""
ERROR_CODE = r"(?<![A-Za-z0-9_])(E[A-Z]{3,12}|[A-Z]{1,6}-?[0-9]{2,6})(?![A-Za-z0-9_])"
"""An error code such as `ECONNREFUSED`, `E0308` or `ORA-00942`, as group 1. The syntax works in Postgres and Python."""
MAX_SOURCE_ENTRIES = 100
"""Entries that a pattern's texts are taken from, the most trusted first, then the latest; all are counted."""
MAX_CIRCUMSTANCES = 20
"""Circumstances shown per pattern, the most frequent first."""
MAX_RIVALS = 20
"""Rivals shown per pattern, those with the most evidence first."""
MAX_WHEN_CHARS = 300
"""Characters of each `when_to_try` sentence that are searched for conditions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstance:
    """Circumstances shared by `entries` of a pattern's entries. `error` is the name or code of the error."""

    entries: int
    agent_type: str | None = None
    technology: str | None = None
    task_type: str | None = None
    gate_type: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DistilledText:
    """A chat model's general summary of a pattern, shown beside its own texts, with the model and the time.

    An empty `when_not_to_try` means that the entries do not say.
    """

    title: str
    problem: str
    when_to_try: str
    when_not_to_try: str
    model: str
    written_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Distillation:
    """A chat model's answer about a pattern: the summary, or the reason it was refused. Based on `entry_ids`, all live.

    `evidence`: number of embedded entries that the pattern had at that time.
    """

    pattern_id: PatternId
    entry_ids: tuple[EntryId, ...]
    evidence: int
    model: str
    answered_at: datetime
    distilled: DistilledText | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryProfile:
    """The terms of an entry's texts as ranking reads them, packed; `rules`: the version of the rules that made them."""

    rules: int
    arm_key: str
    situation: bytes
    task: bytes | None
    resolution: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A live pattern with its counts and the texts of its most trusted, then latest, entry.

    `circumstances` are those of all its live entries, the most frequent first. `when_to_try` is quoted from the most
    trusted, then latest, entry that has one. `conditions` are the distinct conditions of its entries, and `whens` the
    beginnings of their `when_to_try` sentences; both ignore low-trust entries where there are trusted ones.
    `of_project`: whether an entry belongs to the requested project, None if none was requested.
    `rivals` are the patterns of the same situation with another resolution. `tags`: a person's own words. `profile`: of
    `words`, None where none is stored.
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
    tags: tuple[str, ...] = ()
    distilled: DistilledText | None = None
    profile: EntryProfile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One way of resolving a situation, as the result of a query.

    `relevance` is 0..1 (`knowledge.retrieval.calibration`); `success_count` counts distinct (project, task, run).
    `rivals` are the patterns of the same situation with another resolution.
    `distilled` is a chat model's summary, beside the captured texts. `source`: the agent's key that it comes from,
    None if anyone more trusted supports it. `verify`: the command that showed that it works, if it was a command.
    `dead_ends`: what was tried in its situation and did not help; empty in answers to queries, and in contexts unless
    the task is tried again. `tags`: a person's own words, by which people find it; no agent's context shows them.
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
    distilled: DistilledText | None = None
    source: str | None = None
    verify: str | None = None
    dead_ends: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


MAX_TAGS = 10
"""Tags that a person may give a pattern, ours: two that were joined may have more."""
MAX_TAG_CHARS = 50
MAX_SUGGESTIONS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternPair:
    """Two related patterns, the one with more attempts first.

    `probability`: of their situations being the same, 0..1. `why`: the reasons for and against it, in words.
    """

    kind: LinkKind
    probability: float
    why: tuple[str, ...]
    patterns: tuple[Pattern, Pattern]


class FoundPatterns(list[Pattern]):
    """Patterns that a query found, best first. `degraded`: why some may be missing, None where the index was used."""

    def __init__(self, patterns: Iterable[Pattern] = (), *, degraded: str | None = None) -> None:
        super().__init__(patterns)
        self.degraded = degraded


KNOWN_ONLY = "found by the same text or error alone"
"""Start of `degraded` of an answer for which the index was not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternDetails:
    """A pattern with up to `MAX_SHOWN_ENTRIES` of its entries, oldest first, and its likely twins and rivals."""

    pattern: Pattern
    entries: tuple[Entry, ...]
    twins: tuple[PatternPair, ...]
    rivals: tuple[PatternPair, ...]


MAX_RESULTS = 100


class LinkKind(StrEnum):
    """Relation between two patterns.

    `rival`: another resolution of the same situation. `twin`: probably the same pattern. `apart`: a person decided
    that they are different patterns.
    """

    RIVAL = "rival"
    TWIN = "twin"
    APART = "apart"


def label(success_count: int) -> str:
    """Return the design's word for a number of successes."""
    if success_count >= 5:
        return "Most Common"
    return "Moderate" if success_count >= 3 else "Less Common"
