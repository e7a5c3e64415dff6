"""Which context was handed out for which task: what an outcome will be told of."""

from __future__ import annotations

from dataclasses import dataclass

from knowledge.models import Context, Task
from knowledge.ports import Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLog:
    """Keeps the ids of contexts and of the patterns in them; never their words."""

    stores: Stores

    async def record(self, context: Context, task: Task, agent_type: str) -> None:
        """Keep a context that holds patterns. Raises StorageUnavailable."""
        await self.stores.contexts.record(context, task, agent_type, self.stores.clock.now())
