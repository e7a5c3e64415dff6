"""The routes that capture and resolve entries; the other routes of entries come from the table of operations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar
from uuid import UUID

from fastapi import FastAPI, Header

from hardwon.client.arguments import field_values, lenient
from hardwon.client.entries import BatchAnswer, EntryCreated
from hardwon.coercion import is_absent
from hardwon.errors import InvalidInput
from knowledge.models import AppliesWhen, EntryId, NewEntry
from orchestrator.entries import capture_rows, resolve_entry
from orchestrator.http.operation_route import CallerKnowledge, performs

MAX_BATCH = 1000

_FORBID: dict[str, Any] = {"extra": "forbid"}

IdempotencyKey = Annotated[
    str | None,
    Header(max_length=200, description="The caller's name for this event; repeated, nothing is stored."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchBody:
    """Entries to capture, as `POST /v1/entries` takes them, each on its own."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    entries: list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionBody:
    """A resolution: `solution_steps` and `verified_by` for a failure, `revision_approach` for a rejection.

    `dead_ends`: what was tried for the failure before and did not help. `outside_text`: the run had read text from
    outside of the machine before the solution.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    solution_steps: str | None = None
    revision_approach: str | None = None
    verified_by: str | None = None
    when_to_try: str | None = None
    applies_when: AppliesWhen | None = None
    dead_ends: tuple[str, ...] = ()
    outside_text: bool = False


def add_entries(app: FastAPI) -> None:
    """Add the routes of entries to an app."""

    @app.post("/v1/entries", status_code=201, tags=["entries"])
    @performs("capture.capture", problems=(409,))
    async def capture(
        entry: Annotated[NewEntry, lenient(NewEntry)],
        knowledge: CallerKnowledge,
        idempotency_key: IdempotencyKey = None,
    ) -> EntryCreated:
        """Capture one entry. An Idempotency-Key sets the field `idempotency_key`: repeated, nothing is stored."""
        if idempotency_key is not None and not is_absent(idempotency_key):
            entry = _set_key(entry, idempotency_key)
        return EntryCreated(entry_id=await knowledge.capture.capture(entry))

    @app.post("/v1/entries:batch", tags=["entries"])
    @performs("capture.capture_all")
    async def capture_all(body: Annotated[BatchBody, lenient(BatchBody)], knowledge: CallerKnowledge) -> BatchAnswer:
        """Capture up to 1000 entries, each on its own: a refused one has its reason and stops no other."""
        if len(body.entries) > MAX_BATCH:
            raise InvalidInput("entries", f"holds {len(body.entries)}, more than the {MAX_BATCH} allowed at a time")
        return BatchAnswer(answers=await capture_rows(knowledge.capture, body.entries))

    @app.post("/v1/entries/{entry_id}/resolution", tags=["entries"])
    @performs("capture.resolve_failure", problems=(409,))
    async def resolve(
        entry_id: UUID, body: Annotated[ResolutionBody, lenient(ResolutionBody)], knowledge: CallerKnowledge
    ) -> EntryCreated:
        """Give an open entry its resolution and stage it."""
        resolved = await resolve_entry(knowledge.capture, EntryId(entry_id), **field_values(body))
        return EntryCreated(entry_id=resolved)


def _set_key(entry: NewEntry, idempotency_key: str) -> NewEntry:
    if entry.idempotency_key not in {None, idempotency_key}:
        raise InvalidInput("idempotency_key", "differs from the header Idempotency-Key: give one of them")
    return replace(entry, idempotency_key=idempotency_key)
