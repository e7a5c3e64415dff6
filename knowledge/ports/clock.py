"""The time, on this machine and at the store."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The time, so that a test can set it. Leases do not use it: they go by the database's clock."""

    def now(self) -> datetime:
        """Return the present moment, aware, in UTC."""


class StoreClock(Protocol):
    """The time by the clock of the store, to compare this machine's clock with."""

    async def now(self) -> datetime:
        """Return the present moment, aware, in UTC."""
