"""What the stores must hold, in dictionaries: the model that a soak compares them with."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from knowledge.memory.rules.retention import add_years
from knowledge.models import ContextId, EntryId, EntryType, NewEntry, PatternId, Task

UNRESOLVED = timedelta(days=90)

Case = tuple[str, str]
"""What entries of one pattern have in common: their type, and the numbers in the lessons' words."""

Run = tuple[str, str, str]
"""Project, task and run."""


def case_of(told: NewEntry) -> Case:
    """Return which pattern an entry is of."""
    return told.entry_type, told.failure_description or told.proposal or ""


@dataclass(kw_only=True)
class Known:
    """What the model knows of an entry; `key_id` is that of the agent's key that captured it."""

    told: NewEntry
    status: str
    captured_at: datetime
    expires_at: datetime | None = None
    key_id: str | None = None

    @property
    def case(self) -> Case:
        """Return which pattern it is of."""
        return case_of(self.told)


@dataclass(frozen=True, kw_only=True)
class HandedOut:
    """A context."""

    project_id: str
    task_id: str
    run_id: str
    patterns: tuple[PatternId, ...]
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What was told of a pattern in a run, by an entry or an outcome; `key_id` is that of an agent's key."""

    run: Run
    worked: bool
    at: datetime
    key_id: str | None
    context_id: ContextId | None = None


class Diverged(AssertionError):
    """The stores hold something else than the model."""


@dataclass
class Model:
    """The entries and outcomes as they must be; `patterns` are those that were handed out and are there."""

    entries: dict[EntryId, Known] = field(default_factory=dict)
    contexts: dict[ContextId, HandedOut] = field(default_factory=dict)
    patterns: dict[PatternId, Case] = field(default_factory=dict)
    outcomes: dict[tuple[PatternId, Run], Heard] = field(default_factory=dict)

    def captured(self, entry_id: EntryId, told: NewEntry, now: datetime, key_id: str | None = None) -> None:
        ready = told.solution_steps or told.revision_approach or told.approved_approach
        status = "staged" if ready else "open"
        known = self.entries.get(entry_id)
        if known is None:
            self.entries[entry_id] = Known(told=told, status=status, captured_at=now, key_id=key_id)
        elif key_id is None and known.status == "open":  # a repeated event is the entry that is there, and theirs now
            known.key_id = None
        elif key_id is None and known.status == "abandoned" and told.run_id is None:
            known.status, known.captured_at, known.key_id = status, now, None

    def embed(self, now: datetime, *, project: str | None = None, vouched: bool = False) -> int:
        taken = [known for known in self._of(project, "staged") if not vouched or self._vouched(known)]
        for known in taken:
            known.status, known.expires_at = "embedded", add_years(now, 1)
        return len(taken)

    def abandon(self, project: str, *, unvouched: bool) -> None:
        for known in self._of(project, "open"):
            known.status = "abandoned"
        for known in self._of(project, "staged"):
            if unvouched and not self._vouched(known):
                known.status = "abandoned"

    def prune(self, now: datetime) -> int:
        gone = self.expired(now)
        never = [
            i
            for i, known in self.entries.items()
            if known.status in {"open", "abandoned"} and known.captured_at < now - UNRESOLVED
        ]
        self.remove(gone + never)
        self._forget([i for i, context in self.contexts.items() if context.at < add_years(now, -1)])
        return len(gone)

    def expired(self, now: datetime) -> list[EntryId]:
        """Return the entries whose year is over by then."""
        return [i for i, known in self.entries.items() if known.expires_at and known.expires_at <= now]

    def remove(self, entry_ids: Collection[EntryId]) -> None:
        """Delete entries, and what is told of patterns that have none any more."""
        for entry_id in entry_ids:
            del self.entries[entry_id]
        there = {known.case for known in self.entries.values() if known.status == "embedded"}
        self.patterns = {i: case for i, case in self.patterns.items() if case in there}
        self.outcomes = {key: heard for key, heard in self.outcomes.items() if key[0] in self.patterns}

    def _forget(self, context_ids: Collection[ContextId]) -> None:
        for context_id in context_ids:
            del self.contexts[context_id]
        self.outcomes = {key: heard for key, heard in self.outcomes.items() if heard.context_id in self.contexts}

    def handed_out(self, context_id: ContextId, task: Task, patterns: Mapping[PatternId, Case], now: datetime) -> None:
        """Keep what a context held."""
        self.patterns |= patterns
        self.contexts[context_id] = HandedOut(
            project_id=task.project_id or "",
            task_id=task.task_id or "",
            run_id=task.run_id or "",
            patterns=tuple(patterns),
            at=now,
        )

    def tell(
        self, context_id: ContextId, pattern_id: PatternId, *, worked: bool, now: datetime, key_id: str | None = None
    ) -> bool:
        """Take an outcome; whether it can be, for pattern and context are there."""
        context = self.contexts.get(context_id)
        if context is None or pattern_id not in self.patterns:
            return False
        run = (context.project_id, context.task_id, context.run_id)
        heard = Heard(run=run, worked=worked, at=now, key_id=key_id, context_id=context_id)
        known = self.outcomes.get((pattern_id, run))
        if known is None or known.worked != worked or known.key_id is not None or key_id is None:
            self.outcomes[pattern_id, run] = heard
        return True

    def untold(self, context_id: ContextId) -> list[PatternId]:
        """Return the patterns of a context that are there and of which nothing was told."""
        context = self.contexts[context_id]
        run = (context.project_id, context.task_id, context.run_id)
        return [i for i in context.patterns if i in self.patterns and (i, run) not in self.outcomes]

    def revoke(self, key_id: str) -> tuple[list[EntryId], int]:
        """Take back what a key told; return its entries, and how many outcomes."""
        gone = [i for i, known in self.entries.items() if known.key_id == key_id]
        self.remove(gone)
        before = len(self.outcomes)
        self.outcomes = {key: heard for key, heard in self.outcomes.items() if heard.key_id != key_id}
        return gone, before - len(self.outcomes)

    def forget(self, project: str) -> list[EntryId]:
        """Delete a project; return its entries."""
        gone = [i for i, known in self.entries.items() if known.told.project_id == project]
        self.remove(gone)
        self._forget([i for i, context in self.contexts.items() if context.project_id == project])
        return gone

    def statuses(self) -> Counter[str]:
        return Counter(known.status for known in self.entries.values())

    def counts(self) -> Counter[tuple[int, int, int]]:
        """Return how many patterns have how many successes and attempts in how many projects."""
        by_case: dict[Case, list[Heard]] = defaultdict(list)
        for case, heard in self._heard():
            by_case[case].append(heard)
        return Counter(counted(heard) for heard in by_case.values())

    def _heard(self) -> Iterator[tuple[Case, Heard]]:
        """Yield all that is told of patterns."""
        for entry_id, known in self.entries.items():
            if known.status == "embedded":
                told = known.told
                run = (told.project_id, told.task_id or str(entry_id), told.run_id or "")
                yield known.case, Heard(run=run, worked=True, at=known.captured_at, key_id=known.key_id)
        for (pattern_id, _), heard in self.outcomes.items():
            yield self.patterns[pattern_id], heard

    def evidence(self, failure: str) -> int:
        """Return how often a failure was solved, expired evidence too."""
        asked = (EntryType.FAILURE_SOLUTION, failure)
        return counted([heard for case, heard in self._heard() if case == asked])[0]

    def successes(self, failure: str, now: datetime) -> int | None:
        """Return how often a failure was solved, None where no evidence of it is live."""
        live = any(known.expires_at and known.expires_at > now for known in self._behind(failure))
        return self.evidence(failure) if live else None

    def outlives(self, case: Case, without: Collection[EntryId]) -> bool:
        """Whether a pattern keeps some of its evidence without these entries."""
        return any(k.case == case and k.status == "embedded" and i not in without for i, k in self.entries.items())

    def told_of(self, case: Case) -> bool:
        """Whether there are outcomes of a pattern, or can be."""
        return case in self.patterns.values()

    def _behind(self, failure: str) -> list[Known]:
        case = (EntryType.FAILURE_SOLUTION, failure)
        return [known for known in self.entries.values() if known.status == "embedded" and known.case == case]

    def _of(self, project: str | None, status: str) -> list[Known]:
        return [k for k in self.entries.values() if k.status == status and project in {None, k.told.project_id}]

    @staticmethod
    def _vouched(known: Known) -> bool:
        return known.told.entry_type != EntryType.FAILURE_SOLUTION or known.told.verified_by is not None


def counted(heard: Collection[Heard]) -> tuple[int, int, int]:
    """Return successes, attempts and projects; of what an agent's key told only the first counts."""
    runs: dict[Run, bool] = {}
    keys: set[str] = set()
    for each in sorted(heard, key=lambda each: each.at):
        if each.key_id is None or each.key_id not in keys:
            runs[each.run] = runs.get(each.run, False) or each.worked
        if each.key_id is not None:
            keys.add(each.key_id)
    projects = {project for (project, _, _), worked in runs.items() if worked}
    return sum(runs.values()), len(runs), len(projects)
