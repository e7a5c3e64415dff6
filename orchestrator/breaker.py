"""A circuit breaker: after failures in a row nothing is tried for a while, so that nobody waits for what is down."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cachetools import Cache, LRUCache

OPENS_AFTER = 3
"""Failures in a row that open the breaker."""
RESTS_SECONDS = 5.0
"""How long it stays open; then one call is let through, and its end decides."""
_MOST_KEPT = 1000
"""Workspaces whose failures a server remembers: those asked for last."""


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

    @property
    def open(self) -> bool:
        """Whether nothing is tried now."""
        return self._failures >= self.opens_after and self.clock() < self._closed_again

    def succeeded(self) -> None:
        """Note that a call succeeded: the breaker is closed."""
        self._failures = 0

    def failed(self, reason: str) -> None:
        """Note that a call failed."""
        self._failures += 1
        self._reason = reason
        self._closed_again = self.clock() + self.rests_seconds


@dataclass(frozen=True, slots=True)
class Breakers:
    """A breaker for each workspace: what fails in one, as another model does, is no reason to rest in others."""

    _by_workspace: LRUCache[str, CircuitBreaker] = field(default_factory=lambda: LRUCache(_MOST_KEPT))

    def of(self, workspace: str) -> CircuitBreaker:
        """Return the breaker of a workspace."""
        return self._by_workspace.setdefault(workspace, CircuitBreaker())

    def open(self) -> int:
        """Return in how many workspaces nothing is tried now."""
        kept = self._by_workspace  # read as a plain cache: to be counted is no use
        return sum(Cache.__getitem__(kept, workspace).open for workspace in kept)
