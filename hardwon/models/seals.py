"""Tamper evidence of a store: heads of its chains, and reports of verifications."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Final, Self
from uuid import UUID

from hardwon.errors import InvalidInput
from hardwon.models.ids import EntryId

MAX_ALTERED: Final = 100
"""Altered rows that a report names; it counts all of them."""


def describe_missing(workspace: str, missing: int) -> str:
    """Return the problem that so many rows more were stored than are there, fewer if negative."""
    became = "removed" if missing > 0 else "added"
    return f"{abs(missing):,} entries or outcomes of workspace {workspace} were {became} by other means than hardwon's"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealHead:
    """A head over all chains of a store.

    `store`: its id; `rows`, `links`, `decisions`: sealed rows, links of chains, and rows of the audit log at that time.
    `reason`: why the chain began anew. `before`: the seal of the head before.
    """

    number: int
    at: datetime
    store: UUID
    rows: int
    links: int
    decisions: int
    reason: str | None
    before: str
    seal: str

    def line(self) -> str:
        """Return the head as one line, to keep elsewhere or to print."""
        return json.dumps(asdict(self) | {"at": self.at.isoformat(), "store": str(self.store)}, sort_keys=True)

    @classmethod
    def read(cls, line: str) -> Self:
        """Return the head of a line. Raises InvalidInput."""
        try:
            told = json.loads(line)
            return cls(**told | {"at": datetime.fromisoformat(told["at"]), "store": UUID(told["store"])})
        except (ValueError, TypeError, KeyError, AttributeError):
            raise InvalidInput("head", "must be a line that `hardwon audit head` printed, whole") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Acceptance by a person of what was altered: an entry, or so many more rows than were counted."""

    entry_id: EntryId | None = None
    more_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SealReport:
    """The verification of a workspace's rows. `since`: from when on seals vouch.

    `altered`: the entries that are not as they were stored; `rows_altered` counts them and other such rows.
    `rows_missing`: so many more rows were stored than are there, fewer if negative. `problems`: all of it in words.
    """

    rows: int = 0
    since: datetime | None = None
    altered: tuple[EntryId, ...] = ()
    rows_altered: int = 0
    rows_missing: int = 0
    problems: tuple[str, ...] = field(default=())

    @property
    def is_intact(self) -> bool:
        """True if nothing was found."""
        return not self.problems
