"""Captures over HTTP: what `knowledge.capture` is in process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

from knowledge.errors import InvalidInput
from knowledge.forms import as_id, as_whole
from knowledge.memory.applying import check_conditions
from knowledge.memory.capture import MAX_LISTED, KnowledgeCaptureService
from knowledge.memory.validation import validate
from knowledge.models import AppliesWhen, Captured, CaptureOutcome, Entry, EntryId, NewEntry, PatternId
from knowledge.ports import Progress
from orchestrator.client.calls import Api, given, watched
from orchestrator.entries import write_conditions, write_entry

_BATCH = 500
_BATCH_BYTES = 8 * 1024 * 1024
"""Half of what the server takes in a body."""
_RETURNED = TypeVar("_RETURNED")
_TOLD = ParamSpec("_TOLD")


def _as_in_process(
    method: Callable[Concatenate[KnowledgeCaptureService, _TOLD], _RETURNED],
) -> Callable[Concatenate[Any, _TOLD], _RETURNED]:
    """Return a method that only makes an entry and calls `capture`, which is what differs over HTTP."""
    return method


@dataclass(frozen=True, slots=True)
class RemoteCapture:
    """`KnowledgeCaptureService` over HTTP."""

    api: Api

    capture_failure_solution = _as_in_process(KnowledgeCaptureService.capture_failure_solution)
    capture_gate_rejection = _as_in_process(KnowledgeCaptureService.capture_gate_rejection)
    capture_gate_approval = _as_in_process(KnowledgeCaptureService.capture_gate_approval)

    async def resolve_failure(
        self,
        entry_id: EntryId,
        *,
        solution_steps: str,
        verified_by: str,
        when_to_try: str | None = None,
        applies_when: AppliesWhen | None = None,
    ) -> EntryId:
        """Give an open failure its verified solution."""
        told = {"solution_steps": solution_steps, "verified_by": verified_by, "when_to_try": when_to_try}
        return await self._resolve(entry_id, told, applies_when)

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
        told = {"revision_approach": revision_approach, "verified_by": verified_by, "when_to_try": when_to_try}
        return await self._resolve(entry_id, told, applies_when)

    async def _resolve(
        self, entry_id: EntryId, told: Mapping[str, str | None], applies_when: AppliesWhen | None
    ) -> EntryId:
        body: dict[str, Any] = dict(told)
        if applies_when is not None:
            check_conditions(applies_when)
            body["applies_when"] = write_conditions(applies_when)
        answer = await self.api.call(
            "POST", f"/v1/entries/{as_id('entry_id', entry_id)}/resolution", dict[str, EntryId], body=body
        )
        return answer["entry_id"]

    async def capture(self, entry: NewEntry) -> EntryId:
        """Capture one entry of any type."""
        validate(entry)
        answer = await self.api.call("POST", "/v1/entries", dict[str, EntryId], body=write_entry(entry))
        return answer["entry_id"]

    async def capture_all(self, entries: Sequence[NewEntry]) -> list[Captured]:
        """Capture many entries, each on its own, in order. What is refused whatever is stored never leaves."""
        answers = [_refusal(entry) for entry in entries]
        stored: list[Captured] = []
        good = (write_entry(entry) for entry, answer in zip(entries, answers, strict=True) if answer is None)
        for batch in _batches(good):
            told = await self.api.call("POST", "/v1/entries:batch", dict[str, list[Captured]], body={"entries": batch})
            stored += told["answers"]
        following = iter(stored)
        return [answer or next(following) for answer in answers]

    async def get(self, entry_id: EntryId) -> Entry:
        """Return an entry."""
        return await self.api.call("GET", f"/v1/entries/{as_id('entry_id', entry_id)}", Entry)

    async def unresolved(
        self, *, project_id: str | None = None, limit: int = 20, after: EntryId | None = None
    ) -> list[Entry]:
        """Return entries that wait for their resolution, the latest first, from behind `after` on."""
        most = as_whole("limit", limit, least=1, most=MAX_LISTED)  # in an address a number and its text are the same
        asked = given(project_id=project_id, limit=most, after=None if after is None else as_id("after", after))
        return await self.api.call("GET", "/v1/unresolved", list[Entry], params=asked)

    async def delete(self, entry_id: EntryId) -> None:
        """Delete an entry everywhere."""
        await self.api.send("DELETE", f"/v1/entries/{as_id('entry_id', entry_id)}")

    async def delete_pattern(self, pattern_id: PatternId) -> None:
        """Delete a pattern with all the entries that are evidence for it."""
        await self.api.send("DELETE", f"/v1/patterns/{as_id('pattern_id', pattern_id)}")

    async def delete_project(self, project_id: str, *, progress: Progress | None = None) -> int:
        """Delete a project everywhere; return how many entries went."""
        async with watched(self.api, progress) as named:
            params = {**named, "project_id": project_id}
            return await self.api.removed("/v1/projects", "entries", params=params, timeout_seconds=None)


def _refusal(entry: NewEntry) -> Captured | None:
    try:
        validate(entry)
    except InvalidInput as error:
        return Captured(outcome=CaptureOutcome.REFUSED, field=error.field, error=error.reason)
    return None


def _batches(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in order, in batches that the server takes."""
    batch: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        weight = len(json.dumps(row))
        if batch and (len(batch) >= _BATCH or size + weight > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += weight
    if batch:
        yield batch
