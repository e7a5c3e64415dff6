"""A circuit breaker: after several failures in a row calls are refused for a while instead of waiting for a timeout."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cachetools import Cache, LRUCache

FAILURE_THRESHOLD = 3
"""Failures in a row that open the breaker."""
OPEN_SECONDS = 5.0
"""Seconds it stays open; then one trial call is let through, and its result decides."""
_MAX_WORKSPACES = 1000
"""Workspaces with a breaker; the least recently used ones are dropped."""


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


@dataclass(frozen=True, slots=True)
class Breakers:
    """A breaker for each workspace: a failure in one, such as its own model's, says nothing about the others."""

    _by_workspace: LRUCache[str, CircuitBreaker] = field(default_factory=lambda: LRUCache(_MAX_WORKSPACES))

    def for_workspace(self, workspace: str) -> CircuitBreaker:
        """Return the breaker of a workspace, created if it has none."""
        return self._by_workspace.setdefault(workspace, CircuitBreaker())

    def count_open(self) -> int:
        """Return the number of open breakers."""
        kept = self._by_workspace  # read as a plain cache: to be counted is no use
        return sum(Cache.__getitem__(kept, workspace).is_open for workspace in kept)
