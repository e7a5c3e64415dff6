"""Lists for people: patterns with what is seen of them at a glance, and counts by day."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum

from hardwon.models.patterns import Pattern
from hardwon.models.reports import Lift


class PatternSort(StrEnum):
    """The order of a list of patterns."""

    SEEN = "seen"
    """The last entry or outcome, the latest first."""
    EVIDENCE = "evidence"
    """Successes, the most first."""
    PROJECTS = "projects"
    """Projects in which it worked, the most first."""
    PROBLEM = "problem"
    """The text of the problem, by the alphabet."""


class TrustLevel(StrEnum):
    """The evidence of a pattern: of anyone trusted, or of agents' keys alone."""

    TRUSTED = "trusted"
    LOW_TRUST = "low_trust"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPattern(Pattern):
    """A pattern of a list. `outcomes`: its last 30 attempts, the oldest first: `w` for one that worked, `f` for one
    that failed. `last_seen_at`: the time of its last entry or outcome. `trusted`: not by agents' keys alone.
    """  # noqa: D205 - one sentence for each field

    last_seen_at: datetime
    outcomes: str
    trusted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternFacets:
    """Numbers of listed patterns by the values that they have, the most frequent first, 30 of each kind at most.

    A pattern that has several technologies, agents, projects or tags counts for each.
    """

    kind: Mapping[str, int]
    technology: Mapping[str, int]
    agent: Mapping[str, int]
    project: Mapping[str, int]
    trust: Mapping[str, int]
    tag: Mapping[str, int] = field(default_factory=dict)


class PatternList(list[ListedPattern]):
    """A page of patterns; `total` and `facets` are of all pages, None unless requested.

    `is_capped`: there are more than were counted.
    """

    def __init__(
        self,
        patterns: Iterable[ListedPattern] = (),
        *,
        total: int | None = None,
        is_capped: bool = False,
        facets: PatternFacets | None = None,
    ) -> None:
        super().__init__(patterns)
        self.total = total
        self.is_capped = is_capped
        self.facets = facets


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendCounts:
    """Counts of a time. `given`: contexts with patterns; `silent`: without any, by a rule; `held_out`: by chance.

    `hinted_worked` and the like: tasks by the result of their first attempt that was told, with a hint and held out.
    """

    captured: int = 0
    embedded: int = 0
    given: int = 0
    silent: int = 0
    held_out: int = 0
    degraded: int = 0
    hinted_worked: int = 0
    hinted_failed: int = 0
    held_out_worked: int = 0
    held_out_failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DayTrend:
    """The counts of a day in UTC."""

    day: date
    counts: TrendCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectTrend:
    """The captures of a project, and the first attempts at its tasks; other counts have no project."""

    project_id: str
    captured: int = 0
    hinted_worked: int = 0
    hinted_failed: int = 0
    held_out_worked: int = 0
    held_out_failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trends:
    """Counts of the last days, today included, each day that has none too; `lift`: of the first attempts in `total`.

    `projects`: the twelve with the most attempts, then captures.
    """

    days: int
    since: datetime
    daily: tuple[DayTrend, ...]
    total: TrendCounts
    lift: Lift
    projects: tuple[ProjectTrend, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt at a pattern: a distinct (project, task, run), whether it worked, and when that was last told.

    An entry without a task or run is its own: then `task_id` is its id, and `run_id` the hash of its content.
    """

    project_id: str
    task_id: str
    run_id: str
    worked: bool
    at: datetime
