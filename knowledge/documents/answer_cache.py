"""Answers kept for a while. They cannot leak or go stale: the key holds the version of every partition they rest on.

Nor do their quotes outlive the documents: whatever changes a partition deletes the answers that rest on it.
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
        """Return what is kept under a key and not past its time."""
        ...

    async def put(self, key: str, answer: str, versions: Sequence[PartitionVersion], *, lifetime: timedelta) -> None:
        """Keep an answer for so long, in place of what was kept under its key.

        Nothing is kept where one of the partitions that it rests on is of another version by now, or just changes.
        """
        ...

    async def purge(self) -> int:
        """Delete what is past its time; return how many."""
        ...


def key_of(
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
    """Return the key of an answer: whatever could change it changes the key.

    `settings`: those that decide what is found. What else is set is of the model, the prompt or the documents.
    """
    told = [
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
    return hashlib.sha256(json.dumps(told, ensure_ascii=False).encode()).hexdigest()


def packed(answer: Answer) -> str:
    """Return an answer as it is kept."""
    return _ANSWER.dump_json(answer).decode()


def unpacked(text: str) -> Answer:
    """Return a kept answer. Raises ValueError where another version of hardwon kept it."""
    return _ANSWER.validate_json(text)
