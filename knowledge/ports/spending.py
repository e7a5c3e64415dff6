"""Tokens that a workspace spends at endpoints."""

from __future__ import annotations

from datetime import date
from typing import Protocol


class SpendingStore(Protocol):
    """The tokens one workspace has spent at endpoints, by the day in UTC."""

    @property
    def budget(self) -> int | None:
        """The tokens it may spend a day; None: unlimited."""

    async def reserve(self, day: date, tokens: int) -> bool:
        """Count tokens for a day; return False, and count nothing, if the day's budget was spent before.

        The last call may exceed the budget; of several concurrent ones, one may.
        """

    async def correct(self, day: date, by: int) -> None:
        """Correct the count of a day by so many tokens, down to zero at least."""

    async def tokens_used(self, day: date) -> int:
        """Return the tokens counted for a day."""
