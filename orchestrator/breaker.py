"""A circuit breaker: after failures in a row nothing is tried for a while, so that nobody waits for what is down."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

OPENS_AFTER = 3
"""Failures in a row that open the breaker."""
RESTS_SECONDS = 5.0
"""How long it stays open; then one call is let through, and its end decides."""


@dataclass(slots=True, kw_only=True)
class CircuitBreaker:
    """Counts failures in a row. Not for several threads."""

    opens_after: int = OPENS_AFTER
    rests_seconds: float = RESTS_SECONDS
    clock: Callable[[], float] = time.monotonic
    _failures: int = 0
    _closed_again: float = 0.0
    _reason: str = ""

    def resting(self) -> str | None:
        """Return why nothing may be tried now, or None where it may; after a rest one caller is let through."""
        if self._failures < self.opens_after:
            return None
        now = self.clock()
        if now < self._closed_again:
            return self._reason
        self._closed_again = now + self.rests_seconds
        return None

    def succeeded(self) -> None:
        """Note that a call succeeded: the breaker is closed."""
        self._failures = 0

    def failed(self, reason: str) -> None:
        """Note that a call failed."""
        self._failures += 1
        self._reason = reason
        self._closed_again = self.clock() + self.rests_seconds
