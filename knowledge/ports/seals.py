"""Seals of a store: what vouches for its rows, and since when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol
from uuid import UUID

from hardwon.models.seals import SealHead, SealReport
from knowledge.models import EntryId


class SealStore(Protocol):
    """The chains and heads of a store, all workspaces included."""

    def verifies(self, head: SealHead) -> bool:
        """Return whether a head was sealed by a key that is known here."""

    async def last_head(self) -> SealHead | None:
        """Return the last head, None for a store that was never vouched for."""

    async def head(self, number: int) -> SealHead | None:
        """Return a head by its number."""

    async def counts(self) -> tuple[int, int]:
        """Return the numbers of links of all chains, and of rows of the audit log, as they are now."""

    async def take_head(self, now: datetime, *, reason: str | None = None) -> SealHead:
        """Store and return a head over all chains as they are now. `reason`: why the chain begins anew with it."""

    async def adopt(self, *, anew: bool) -> int:
        """Seal the rows that have no seal, with `anew` all of them, and begin their chains; return how many."""

    async def verify(self, workspace: str, *, progress: Callable[[int], None] | None = None) -> SealReport:
        """Compare every sealed row of a workspace with its seal, and all of them with the totals of the chains."""

    async def accept(self, workspace: str, entry_id: EntryId) -> str | None:
        """Seal an entry as it is now; return the SHA-256 of what is sealed, None if it verified already."""

    async def accept_totals(self, workspace: str) -> int:
        """Take the rows that are there now for all there are; return by how many rows that differs from the chains."""

    def use_new_key(self) -> str:
        """Seal by a new key from now on; return its name. Raises Conflict unless keys are in a file."""

    def refused(self, workspace: str) -> list[UUID]:
        """Return the entries that this process refused to show or embed, since it began."""

    def note_problems(self, problems: tuple[str, ...]) -> None:
        """Keep what the last check of the store found, for whoever asks how it is."""

    def problems(self) -> tuple[str, ...]:
        """Return what the last check of the store found."""


class HeadKeeper(Protocol):
    """Keeps heads outside of Postgres."""

    async def keep(self, head: SealHead) -> None:
        """Keep a head, wherever the settings say. Raises WebhookUnavailable or StorageUnavailable."""

    async def kept(self) -> SealHead | None:
        """Return the last head that was kept in the data directory."""
