"""Redaction of the journal: every record of a question is stored without secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from hardwon.models.answers import Escalation, EscalationId, Event, EventId
from knowledge.documents.journal import Journal, NewEscalation
from knowledge.models import Embeddings, EmbeddingSpace
from knowledge.ports import ChatModel, Embedder
from knowledge.text.redaction import redact


class RedactingEmbedder(Embedder):
    """Redacts texts before they are embedded."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def efficient_batch_size(self) -> int | None:
        return self._embedder.efficient_batch_size

    async def space(self) -> EmbeddingSpace:
        return await self._embedder.space()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        return await self._embedder.embed([redact(text).text for text in texts], kind)

    def forget(self) -> None:
        self._embedder.forget()

    async def aclose(self) -> None:
        await self._embedder.aclose()


class RedactingChat(ChatModel):
    """Redacts texts before they are answered."""

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat

    @property
    def model(self) -> str:
        return self._chat.model

    async def answer(self, instructions: str, text: str, *, as_json: bool = False) -> str:
        return await self._chat.answer(instructions, redact(text).text, as_json=as_json)

    async def aclose(self) -> None:
        await self._chat.aclose()


class RedactingJournal(Journal):
    """Redacts texts, at any depth of a payload, before they are stored. Ids of sessions and steps stay."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def record(self, event: Event) -> None:
        await self._journal.record(replace(event, payload=_redact(event.payload)))

    async def events(
        self, *, name: str | None = None, session: str | None = None, limit: int = 100, after: EventId | None = None
    ) -> list[Event]:
        return await self._journal.events(name=name, session=session, limit=limit, after=after)

    async def review(self, event_id: EventId) -> None:
        await self._journal.review(event_id)

    async def escalate(self, new: NewEscalation, now: datetime) -> Escalation:
        redacted = replace(
            new,
            question=redact(new.question).text,
            transcript=[_redact(turn) for turn in new.transcript],
            suggested_fix=redact(new.suggested_fix).text,
        )
        return await self._journal.escalate(redacted, now)

    async def escalations(
        self, now: datetime, *, overdue: bool = False, limit: int = 100, after: EscalationId | None = None
    ) -> list[Escalation]:
        return await self._journal.escalations(now, overdue=overdue, limit=limit, after=after)

    async def close(self, escalation_id: EscalationId, now: datetime) -> None:
        await self._journal.close(escalation_id, now)

    async def feedback(self, answer_id: UUID, *, up: bool, comment: str | None, now: datetime) -> None:
        comment = None if comment is None else redact(comment).text
        await self._journal.feedback(answer_id, up=up, comment=comment, now=now)

    async def feedback_of(self, answer_id: UUID) -> tuple[bool, str | None] | None:
        return await self._journal.feedback_of(answer_id)

    async def prune(self, before: datetime, *, limit: int) -> int:
        return await self._journal.prune(before, limit=limit)


def _redact(value: Any) -> Any:
    """Return a payload with its texts redacted, keys included."""
    match value:
        case str():
            return redact(value).text
        case Mapping():
            return {_redact(key): _redact(part) for key, part in value.items()}
        case list() | tuple():
            return [_redact(each) for each in value]
        case _:
            return value
