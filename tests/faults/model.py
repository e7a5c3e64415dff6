"""What the stores must hold, in dictionaries: the model that a soak compares them with."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from knowledge.memory.retention import add_years
from knowledge.models import EntryId, EntryType, NewEntry

UNRESOLVED = timedelta(days=90)


@dataclass(kw_only=True)
class Known:
    """What the model knows of an entry."""

    told: NewEntry
    status: str
    captured_at: datetime
    expires_at: datetime | None = None

    @property
    def case(self) -> tuple[str, str]:
        """What entries of one pattern have in common: the numbers in the lessons' words."""
        return self.told.entry_type, self.told.failure_description or self.told.proposal or ""


class Diverged(AssertionError):
    """The stores hold something else than the model."""


@dataclass
class Model:
    """The entries as they must be."""

    entries: dict[EntryId, Known] = field(default_factory=dict)

    def captured(self, entry_id: EntryId, told: NewEntry, now: datetime) -> None:
        if entry_id not in self.entries:  # a repeated event is the entry that is there
            ready = told.solution_steps or told.revision_approach or told.approved_approach
            self.entries[entry_id] = Known(told=told, status="staged" if ready else "open", captured_at=now)

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
        gone = [i for i, known in self.entries.items() if known.expires_at and known.expires_at <= now]
        never = [
            i
            for i, known in self.entries.items()
            if known.status in {"open", "abandoned"} and known.captured_at < now - UNRESOLVED
        ]
        for entry_id in gone + never:
            del self.entries[entry_id]
        return len(gone)

    def statuses(self) -> Counter[str]:
        return Counter(known.status for known in self.entries.values())

    def counts(self) -> Counter[tuple[int, int]]:
        """Return how many patterns have how many successes in how many projects."""
        events: dict[tuple[str, str], set[tuple[str, str, str]]] = defaultdict(set)
        for entry_id, known in self.entries.items():
            if known.status == "embedded":
                told = known.told
                events[known.case].add((told.project_id, told.task_id or str(entry_id), told.run_id or ""))
        return Counter((len(of), len({project for project, _, _ in of})) for of in events.values())

    def evidence(self, failure: str) -> int:
        """Return how often a failure was solved, expired evidence too."""
        return len({(known.told.project_id, known.told.task_id, known.told.run_id) for known in self._behind(failure)})

    def successes(self, failure: str, now: datetime) -> int | None:
        """Return how often a failure was solved, None where no evidence of it is live."""
        live = any(known.expires_at and known.expires_at > now for known in self._behind(failure))
        return self.evidence(failure) if live else None

    def _behind(self, failure: str) -> list[Known]:
        case = (EntryType.FAILURE_SOLUTION, failure)
        return [known for known in self.entries.values() if known.status == "embedded" and known.case == case]

    def _of(self, project: str | None, status: str) -> list[Known]:
        return [k for k in self.entries.values() if k.status == status and project in {None, k.told.project_id}]

    @staticmethod
    def _vouched(known: Known) -> bool:
        return known.told.entry_type != EntryType.FAILURE_SOLUTION or known.told.verified_by is not None
