"""Decisions of people that are done after a grace period."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from hardwon.models.deeds import Deed, DeedId, DeedState


class DeedStore(Protocol):
    """The deeds of one workspace; at most one about a subject is not ended."""

    async def add(self, deed: Deed) -> Deed:
        """Store a deed; return it, or the one about the same subject that is not ended."""
        ...

    async def get(self, deed_id: DeedId) -> Deed:
        """Return a deed. Raises NotFound."""
        ...

    async def last_about(self, subject: UUID) -> Deed | None:
        """Return the last deed about a subject that was done, None if there is none."""
        ...

    async def list(self, *, state: DeedState | None, after: DeedId | None, limit: int) -> list[Deed]:
        """Return deeds, the latest first. Raises NotFound for an `after` that is gone."""
        ...

    async def claim(self, now: datetime, *, takeover_after: timedelta) -> Deed | None:
        """Return a deed that is due, which no other process then does; one that runs for too long died."""
        ...

    async def end(
        self, deed_id: DeedId, state: DeedState, now: datetime, *, by: str | None = None, error: str | None = None
    ) -> bool:
        """Record the end of a deed; return whether it was: one that waits can be undone, one that runs done or failed.

        Deeds that ended more than a month ago are deleted.
        """
        ...
