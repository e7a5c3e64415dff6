"""Preparing what is captured: checked, without secrets, judged; long texts in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from uuid import uuid4

from knowledge.errors import InvalidInput
from knowledge.memory import redacting
from knowledge.memory.agents import kept_as
from knowledge.memory.applying import check_conditions
from knowledge.memory.limits import check_ids
from knowledge.memory.redacting import redacted, without_contexts
from knowledge.memory.suspicion import CONTEXT_FIELDS, UNREVIEWED, suspicions
from knowledge.memory.validation import content_hash, first_status, validate
from knowledge.models import AppliesWhen, Entry, EntryId, EntryStatus, EntryType, NewEntry, Provenance, Review
from knowledge.ports import Clock
from knowledge.turns import AT_ONCE

_FRAME = 300
"""Characters whose reading takes as long as what an entry takes by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparing:
    """Makes entries of what is told, for one workspace. `redaction`: without the secrets in their texts.

    `by`: who captures. Of what comes by a key of low trust, `review` says what waits for a person.
    """

    workspace: str
    clock: Clock
    redaction: bool
    by: Provenance
    review: Review

    async def prepared(self, entries: Sequence[NewEntry]) -> list[Entry | InvalidInput]:
        """Return entries that can be stored, without secrets and contexts that they quote; or what is wrong with one.

        All captures pass here. What is long is read in a thread, a slice at a time: of 15 MB it takes 10 s, and others
        have a context to get meanwhile.
        """
        if sum(map(_length, entries)) <= AT_ONCE:
            return [self._read(told) for told in entries]
        prepared: list[Entry | InvalidInput] = []
        for told in _slices(entries):
            prepared += await asyncio.to_thread(list, map(self._read, told))
        return prepared

    def as_stored(self, field: str, text: str) -> str:
        """Return a text of a resolution as it is stored. Raises InvalidInput."""
        return redacting.as_stored(field, text, redaction=self.redaction)

    def check_conditions(self, conditions: AppliesWhen) -> None:
        """Raise InvalidInput unless these conditions of a resolution can be stored."""
        check_conditions(conditions)
        if self.redaction:
            redacting.refuse_secrets(conditions)

    def judged(self, *told: str | None) -> Provenance:
        """Return who captures, with what in these texts is to be reviewed before anybody is shown them."""
        if not self.by.low_trust or self.review is Review.OFF:
            return self.by
        text = "\n".join(each for each in told if each)
        found = suspicions(text)
        if self.review is Review.EVERYTHING:
            found = found or (UNREVIEWED,)
        return replace(self.by, suspicions=found)

    def _read(self, told: NewEntry) -> Entry | InvalidInput:
        try:
            validate(told)
            told = without_contexts(told)
            told = redacted(told) if self.redaction else told
            entry = self._new(told)
            check_ids(workspace=self.workspace, project_id=entry.project_id, task_id=entry.task_id, run_id=entry.run_id)
        except InvalidInput as error:
            return error
        if told.workspace not in {None, self.workspace}:
            return InvalidInput("workspace", f"is {told.workspace!r}, but {self.workspace!r} is open")
        return entry

    def _new(self, entry: NewEntry) -> Entry:
        told = {field.name: getattr(entry, field.name) for field in fields(NewEntry)}
        told["idempotency_key"] = kept_as(entry.idempotency_key, self.by)
        by = self.judged(*(told[name] for name in CONTEXT_FIELDS))
        return Entry(
            **{**told, "workspace": self.workspace, "entry_type": EntryType(entry.entry_type)},
            entry_id=EntryId(uuid4()),
            status=EntryStatus.QUARANTINED if by.suspicions else first_status(entry),
            content_hash=content_hash(entry),
            captured_at=self.clock.now(),
            captured_by=by.key_id,
            agent_key=by.source,
            low_trust=by.low_trust,
            suspicions=by.suspicions,
        )


def _length(entry: NewEntry) -> int:
    """Return how many characters an entry has to be read: one that is not valid may hold anything."""
    texts = (getattr(entry, name) for name in CONTEXT_FIELDS)
    return sum(len(text) for text in texts if isinstance(text, str))


def _slices(entries: Sequence[NewEntry]) -> Iterator[Sequence[NewEntry]]:
    """Yield entries that are read in one go, in order: some, or one that is long."""
    start = length = 0
    for place, entry in enumerate(entries):
        length += _length(entry) + _FRAME
        if length > AT_ONCE:
            yield entries[start : place + 1]
            start, length = place + 1, 0
    yield entries[start:]
