"""Prepare new entries: validate, redact, look for suspicious text. Long texts are processed in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any
from uuid import uuid4

from hardwon.coercion import read_object
from hardwon.errors import InvalidInput
from knowledge.memory.capture import redaction as redacting
from knowledge.memory.capture.injection import CONTEXT_FIELDS, UNREVIEWED, suspicions
from knowledge.memory.capture.redaction import redact_entry, remove_contexts
from knowledge.memory.capture.trust import agent_idempotency_key
from knowledge.memory.rules.conditions import check_conditions
from knowledge.memory.rules.validation import check_dead_ends, check_ids, content_hash, first_status, validate
from knowledge.models import AppliesWhen, Entry, EntryId, EntryStatus, EntryType, NewEntry, Provenance, ReviewMode
from knowledge.ports import Clock
from knowledge.runtime.scheduling import MAX_INLINE_CHARS

_ENTRY_OVERHEAD = 300
"""The fixed cost of preparing an entry, as the number of characters that take as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPreparer:
    """Builds entries of one workspace from new ones.

    `redaction`: remove secrets from texts. `by`: who captures. `review`: the captures of low-trust keys that are
    quarantined.
    """

    workspace: str
    clock: Clock
    redaction: bool
    by: Provenance
    review: ReviewMode

    @property
    def looks_for_orders(self) -> bool:
        """True if the texts of the caller are looked through for orders."""
        return self.by.low_trust and self.review is not ReviewMode.OFF

    async def prepare(self, given: Sequence[NewEntry | Mapping[str, Any]]) -> list[Entry | InvalidInput]:
        """Return for each new entry an entry without secrets and quoted contexts, or the reason it is invalid.

        All captures pass here. Long input runs in a thread, batch by batch: 15 MB take 10 s, and other requests must
        be served meanwhile.
        """
        entries = [_read(each) for each in given]
        if sum(map(_length, entries)) <= MAX_INLINE_CHARS:
            return [self._prepare_one(each) for each in entries]
        prepared: list[Entry | InvalidInput] = []
        for each in _batches(entries):
            prepared += await asyncio.to_thread(list, map(self._prepare_one, each))
        return prepared

    def clean_text(self, field: str, text: str) -> str:
        """Return a resolution's text without quoted contexts and secrets. Raises InvalidInput."""
        return redacting.clean_text(field, text, redaction=self.redaction)

    def clean_dead_ends(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Return the dead ends of a resolution without quoted contexts and secrets. Raises InvalidInput."""
        check_dead_ends(texts)
        return redacting.cut_dead_ends([self.clean_text("dead_ends", text) for text in texts])

    def check_conditions(self, conditions: AppliesWhen) -> None:
        """Raise InvalidInput unless these conditions of a resolution can be stored."""
        check_conditions(conditions)
        if self.redaction:
            redacting.refuse_secrets(conditions)

    def assess(self, *texts: str | None) -> Provenance:
        """Return the provenance with the suspicions that these texts raise; they are shown only after review."""
        if not self.looks_for_orders:
            return self.by
        text = "\n".join(part for part in texts if part)
        suspected = suspicions(text)
        if self.review is ReviewMode.EVERYTHING:
            suspected = suspected or (UNREVIEWED,)
        return replace(self.by, suspicions=suspected)

    def _prepare_one(self, new: NewEntry | InvalidInput) -> Entry | InvalidInput:
        if isinstance(new, InvalidInput):
            return new
        try:
            validate(new)
            new = remove_contexts(new)
            new = redact_entry(new) if self.redaction else new
            entry = self._build_entry(new)
            check_ids(workspace=self.workspace, project_id=entry.project_id, task_id=entry.task_id, run_id=entry.run_id)
        except InvalidInput as error:
            return error
        if new.workspace not in {None, self.workspace}:
            return InvalidInput("workspace", f"is {new.workspace!r}, but {self.workspace!r} is open")
        return entry

    def _build_entry(self, entry: NewEntry) -> Entry:
        values = {field.name: getattr(entry, field.name) for field in fields(NewEntry)}
        values["idempotency_key"] = agent_idempotency_key(entry.idempotency_key, self.by)
        by = self.assess(*(values[name] for name in CONTEXT_FIELDS), *entry.dead_ends)
        return Entry(
            **{**values, "workspace": self.workspace, "entry_type": EntryType(entry.entry_type)},
            entry_id=EntryId(uuid4()),
            status=EntryStatus.QUARANTINED if by.suspicions else first_status(entry),
            content_hash=content_hash(entry),
            captured_at=self.clock.now(),
            captured_by=by.key_id,
            agent_key=by.source,
            low_trust=by.low_trust,
            suspicions=by.suspicions,
        )


def _read(given: NewEntry | Mapping[str, Any]) -> NewEntry | InvalidInput:
    """Return an entry as every door reads it, or the reason it is invalid."""
    try:
        return read_object(NewEntry, given, noun="entry")
    except InvalidInput as error:
        return error


def _length(entry: NewEntry | InvalidInput) -> int:
    """Return the number of characters in an entry's texts."""
    if isinstance(entry, InvalidInput):
        return 0
    texts = (getattr(entry, name) for name in CONTEXT_FIELDS)
    return sum(len(text) for text in (*texts, *entry.dead_ends) if isinstance(text, str))


def _batches(entries: Sequence[NewEntry | InvalidInput]) -> Iterator[Sequence[NewEntry | InvalidInput]]:
    """Yield the entries in order, in batches of about `AT_ONCE` characters or one long entry."""
    start = length = 0
    for place, entry in enumerate(entries):
        length += _length(entry) + _ENTRY_OVERHEAD
        if length > MAX_INLINE_CHARS:
            yield entries[start : place + 1]
            start, length = place + 1, 0
    yield entries[start:]
