"""The time."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The time, so that a test can set it. Leases do not use it: they go by the database's clock."""

    of_machine: bool = False
    """Whether it is the clock of a machine, which may be wrong; one that somebody sets is right."""

    def now(self) -> datetime:
        """Return the present moment, aware, in UTC."""
        ...
