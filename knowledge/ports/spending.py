"""What a workspace spends at endpoints."""

from __future__ import annotations

from datetime import date
from typing import Protocol


class SpendingStore(Protocol):
    """The tokens one workspace has spent at endpoints, by the day in UTC."""

    @property
    def budget(self) -> int | None:
        """The tokens it may spend a day; None: any number."""
        ...

    async def reserve(self, day: date, tokens: int) -> bool:
        """Count tokens for a day; return False, and count nothing, where the budget of the day was spent before.

        The last one may go beyond the budget; of several at once, one.
        """
        ...

    async def correct(self, day: date, by: int) -> None:
        """Count so many tokens more for a day, or fewer, to none at least."""
        ...

    async def spent(self, day: date) -> int:
        """Return the tokens that were counted for a day."""
        ...
