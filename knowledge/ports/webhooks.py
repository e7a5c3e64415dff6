"""Messages by webhook, over all workspaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookMessage:
    """A message: things of one kind that were noticed together in a workspace. `attempts`: those made before."""

    message_id: UUID
    workspace: str
    kind: str
    subjects: Sequence[UUID]
    noticed_at: datetime
    attempts: int


class WebhookStore(Protocol):
    """An outbox of messages that also remembers what was told: a thing is told once, as long as it is so."""

    async def notice(self, now: datetime) -> int:
        """Add messages on what was not noticed before, and forget what is so no longer; return how many things."""

    async def due(self, now: datetime) -> list[WebhookMessage]:
        """Return the messages that are due, the oldest first."""

    async def end(self, message_id: UUID, now: datetime, error: str | None) -> None:
        """Record that a message was delivered, or with an error, that it was given up."""

    async def postpone(self, message_id: UUID, until: datetime, error: str) -> None:
        """Record a failed attempt, and when the next one is due."""

    async def last_failure(self) -> str | None:
        """Return the error of a message that was tried and is not delivered, None without one."""
