"""Builders of contexts in one process: they share a queue, and circuit breakers for each workspace."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from cachetools import Cache, LRUCache

from hardwon.context.builder import RemoteContexts
from hardwon.context.circuit_breaker import CircuitBreaker
from orchestrator.context.admission import DeadlineQueue
from orchestrator.context.builder import OpenKnowledge, OrchestratorContextBuilder

_MAX_WORKSPACES = 1000
"""Workspaces with breakers; the least recently used ones are dropped."""


@dataclass(frozen=True, slots=True)
class ContextBuilders:
    """Makes builders. A failure in one workspace, such as its own model's, says nothing about the others."""

    queue: DeadlineQueue = field(default_factory=DeadlineQueue)
    _breakers: LRUCache[str, tuple[CircuitBreaker, CircuitBreaker, CircuitBreaker]] = field(
        default_factory=lambda: LRUCache(_MAX_WORKSPACES)
    )

    def make(
        self, knowledge: OpenKnowledge | RemoteContexts, workspace: str, deadline: timedelta | None = None
    ) -> OrchestratorContextBuilder:
        """Return a builder over the services of a workspace. `deadline`: of a caller that says how long it waits."""
        new = CircuitBreaker(), CircuitBreaker(), CircuitBreaker()
        stores, embedding, index = self._breakers.setdefault(workspace, new)
        return OrchestratorContextBuilder(
            knowledge, stores, embedding=embedding, index=index, queue=self.queue, deadline=deadline
        )

    def count_open(self) -> int:
        """Return the number of workspaces with an open breaker."""
        kept = self._breakers  # read as a plain cache: to be counted is no use
        return sum(any(each.is_open for each in Cache.__getitem__(kept, workspace)) for workspace in kept)
