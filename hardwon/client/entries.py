"""Captures over HTTP, with the methods of `knowledge.capture` in process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from hardwon.capture import EntryCapture
from hardwon.client.fields import LAST, Limit
from hardwon.client.operations import Envelope, Operation, Service
from hardwon.client.transport import BATCH_PATH
from hardwon.coercion import coerce_arguments, read_object
from hardwon.errors import InvalidInput
from hardwon.models.entries import (
    TEXT_FIELDS,
    AppliesWhen,
    CaptureOutcome,
    CaptureResult,
    Entry,
    EntryDetails,
    NewEntry,
)
from hardwon.models.ids import EntryId, PatternId
from hardwon.models.reports import Progress
from hardwon.validation import as_id, check_text

_BATCH = 500
_BATCH_BYTES = 8 * 1024 * 1024
"""Half of the largest body of the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryCreated(Envelope):
    """The id of a captured entry; for a repeated event, the existing one."""

    entry_id: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAnswer(Envelope):
    """An answer for each entry, in order."""

    answers: list[CaptureResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted(Envelope):
    """The number of deleted entries."""

    entries: int


class RemoteCapture(EntryCapture, Service, name="capture", tag="entries", scopes=("query",)):
    """`KnowledgeCaptureService` over HTTP."""

    @coerce_arguments
    async def resolve_failure(
        self,
        entry_id: EntryId,
        *,
        solution_steps: str,
        verified_by: str,
        when_to_try: str | None = None,
        applies_when: AppliesWhen | None = None,
        dead_ends: Sequence[str] = (),
        outside_text: bool = False,
    ) -> EntryId:
        """Give an open failure its verified solution."""
        body: dict[str, Any] = {"solution_steps": solution_steps, "verified_by": verified_by}
        body |= {"when_to_try": when_to_try, "dead_ends": [*dead_ends], "outside_text": outside_text}
        return await self._resolve(entry_id, body, applies_when)

    @coerce_arguments
    async def resolve_gate_rejection(
        self,
        entry_id: EntryId,
        *,
        revision_approach: str,
        verified_by: str | None = None,
        when_to_try: str | None = None,
        applies_when: AppliesWhen | None = None,
    ) -> EntryId:
        """Give an open rejection the revision that was accepted."""
        body = {"revision_approach": revision_approach, "verified_by": verified_by, "when_to_try": when_to_try}
        return await self._resolve(entry_id, body, applies_when)

    async def _resolve(self, entry_id: EntryId, texts: Mapping[str, Any], applies_when: AppliesWhen | None) -> EntryId:
        body: dict[str, Any] = dict(texts)
        if applies_when is not None:
            body["applies_when"] = conditions_to_json(applies_when)
        path = f"/v1/entries/{as_id('entry_id', entry_id)}/resolution"
        return (await self._api.call("POST", path, EntryCreated, body=body)).entry_id

    async def capture(self, entry: NewEntry | Mapping[str, Any]) -> EntryId:
        """Capture one entry of any type."""
        entry = read_object(NewEntry, entry, noun="entry")
        _check_texts(entry)
        return (await self._api.call("POST", "/v1/entries", EntryCreated, body=entry_to_json(entry))).entry_id

    async def capture_all(self, entries: Sequence[NewEntry | Mapping[str, Any]]) -> list[CaptureResult]:
        """Capture many entries, each on its own, in order. Entries with invalid texts are never sent."""
        read = [_read(entry) for entry in entries]
        answers = [each if isinstance(each, CaptureResult) else None for each in read]
        stored: list[CaptureResult] = []
        for batch in _batches(entry_to_json(each) for each in read if isinstance(each, NewEntry)):
            stored += (await self._api.call("POST", BATCH_PATH, BatchAnswer, body={"entries": batch})).answers
        following = iter(stored)
        return [answer or next(following) for answer in answers]

    @Operation("GET", "/v1/entries/{entry_id}", operation_id="get_entry")
    async def get(self, entry_id: EntryId) -> EntryDetails:
        """Return an entry, with the texts that corrections replaced."""

    @Operation("GET", "/v1/unresolved", operation_id="list_unresolved", problems=(404,), cursor="entry_id")
    async def unresolved(
        self, *, project_id: str | None = None, limit: Limit = 20, after: Annotated[EntryId | None, LAST] = None
    ) -> list[Entry]:
        """Return entries that wait for their resolution, of a project or of all, the latest first."""

    @Operation("DELETE", "/v1/entries/{entry_id}", operation_id="delete_entry", scopes=("admin",), problems=(409,))
    async def delete(self, entry_id: EntryId) -> None:
        """Delete an entry everywhere."""

    @Operation("DELETE", "/v1/patterns/{pattern_id}", tag="patterns", scopes=("admin",), problems=(409,))
    async def delete_pattern(self, pattern_id: PatternId) -> None:
        """Delete a pattern with all the entries that are evidence for it."""

    # the project is in the query, since its id may hold characters that a path may not
    @Operation("DELETE", "/v1/projects", scopes=("admin",), problems=(404, 409), answer=Deleted)
    async def delete_project(self, project_id: str, *, progress: Progress | None = None) -> int:
        """Delete a project everywhere, with its entries and all that rests on them alone; return their number."""


def _check_texts(entry: NewEntry) -> None:
    """Raise InvalidInput for a text that the server refuses by itself or that would exceed its limit on bodies."""
    for name in TEXT_FIELDS:
        if (text := getattr(entry, name)) is not None:
            check_text(name, text)


def _read(given: NewEntry | Mapping[str, Any]) -> NewEntry | CaptureResult:
    """Return the entry, or its refusal."""
    try:
        entry = read_object(NewEntry, given, noun="entry")
        _check_texts(entry)
    except InvalidInput as error:
        return CaptureResult(outcome=CaptureOutcome.REFUSED, field=error.field, error=error.reason)
    return entry


def _batches(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in order, in batches within the server's limits."""
    batch: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        row_size = len(json.dumps(row))
        if batch and (len(batch) >= _BATCH or size + row_size > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += row_size
    if batch:
        yield batch


def entry_to_json(entry: NewEntry) -> dict[str, Any]:
    """Return an entry as a JSON object, without fields that are None."""
    body: dict[str, Any] = {name: value for name, value in asdict(entry).items() if value is not None and value != ()}
    if entry.applies_when is not None:
        body["applies_when"] = conditions_to_json(entry.applies_when)
    return body


def conditions_to_json(conditions: AppliesWhen) -> dict[str, Any]:
    """Return conditions as a JSON object, without fields that are None."""
    return {name: value for name, value in asdict(conditions).items() if value is not None}
