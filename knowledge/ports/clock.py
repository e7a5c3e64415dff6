"""The time."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The time, so that a test can set it. Leases do not use it: they go by the database's clock."""

    def now(self) -> datetime:
        """Return the present moment, aware, in UTC."""
        ...
