"""Cache of answers. They cannot leak or go stale: the key holds the version of every partition they depend on.

Nor do their quotes outlive the documents: a change of a partition deletes the answers that depend on it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from pydantic import TypeAdapter

from knowledge.documents.models import Answer, PartitionVersion, Turn

_ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)


class AnswerCache(Protocol):
    """Answers of one workspace by their keys."""

    async def get(self, key: str) -> str | None:
        """Return the answer stored under a key, None if there is none or it is expired."""

    async def put(self, key: str, answer: str, versions: Sequence[PartitionVersion], *, lifetime: timedelta) -> None:
        """Store an answer for `lifetime`, replacing the one under its key.

        Nothing is stored if a partition that it depends on has another version by now, or is being changed.
        """

    async def purge(self) -> int:
        """Delete expired answers; return their number."""


def cache_key(
    *,
    profile: str,
    versions: Sequence[PartitionVersion],
    model: str,
    prompt_hash: str,
    k: int,
    question: str,
    conversation: Sequence[Turn],
    selection: str = "",
    settings: str = "",
) -> str:
    """Return the cache key of an answer: whatever could change the answer changes the key.

    `settings`: those that decide what is found; others are covered by the model, the prompt or the documents.
    """
    parts = [
        profile,
        sorted([each.partition, each.version] for each in versions),
        model,
        prompt_hash,
        k,
        " ".join(question.split()),
        [[turn.role, turn.content] for turn in conversation],
        selection,
        settings,
    ]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()


def dump_answer(answer: Answer) -> str:
    """Return an answer as stored JSON."""
    return _ANSWER.dump_json(answer).decode()


def load_answer(text: str) -> Answer:
    """Return an answer from stored JSON. Raises ValueError if another version of hardwon wrote it."""
    return _ANSWER.validate_json(text)
