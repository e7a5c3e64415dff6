"""A circuit breaker: after several failures in a row calls are refused for a while instead of waiting for a timeout."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

FAILURE_THRESHOLD = 3
"""Failures in a row that open the breaker."""
OPEN_SECONDS = 5.0
"""Seconds it stays open; then one trial call is let through, and its result decides."""


@dataclass(slots=True, kw_only=True)
class CircuitBreaker:
    """Counts failures in a row. Not thread-safe."""

    failure_threshold: int = FAILURE_THRESHOLD
    open_seconds: float = OPEN_SECONDS
    clock: Callable[[], float] = time.monotonic
    _failures: int = 0
    _open_until: float = 0.0
    _reason: str = ""

    def refusal_reason(self) -> str | None:
        """Return why a call is refused now, or None if it may go ahead; after the open time one caller may."""
        if self._failures < self.failure_threshold:
            return None
        now = self.clock()
        if now < self._open_until:
            return self._reason
        self._open_until = now + self.open_seconds
        return None

    @property
    def is_open(self) -> bool:
        """True while calls are refused."""
        return self._failures >= self.failure_threshold and self.clock() < self._open_until

    def record_success(self) -> None:
        """Close the breaker."""
        self._failures = 0

    def record_failure(self, reason: str) -> None:
        """Count a failed call; enough of them in a row open the breaker."""
        self._failures += 1
        self._reason = reason
        self._open_until = self.clock() + self.open_seconds
