"""A real store for suites that are not async: embedded Postgres, the bundled model, a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from knowledge.access.principals import Principal, Scope, Trust
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge

T = TypeVar("T")
_TIMEOUT_SECONDS = 300


class SyncStore:
    """Opens and closes a store of these settings, and runs its coroutines."""

    def __init__(self, settings: KnowledgeSettings) -> None:
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._opening: AbstractAsyncContextManager[Knowledge] | None = None
        self.open()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine returns."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_TIMEOUT_SECONDS)

    def open(self) -> None:
        """Start as a process does."""
        self._opening = open_knowledge(self._settings)
        self.knowledge = self.run(self._opening.__aenter__())

    def close(self) -> None:
        """End as a process does; Postgres ends as well."""
        if self._opening is not None:
            self.run(self._opening.__aexit__(None, None, None))
        self._opening = None

    def stop(self) -> None:
        """Close the store and end the loop."""
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)


def agent_of(knowledge: Knowledge) -> Knowledge:
    """Return the services as an agent has them, whose key may capture and nothing else."""
    return knowledge.for_principal(
        Principal(
            trust=Trust.KEY,
            scopes=frozenset({Scope.CAPTURE}),
            workspace=knowledge.workspace,
            key_id="agent",
        )
    )
