"""Entries as JSON objects: parsed with errors that name the field, and serialised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from hardwon.errors import InvalidInput
from hardwon.models.entries import AppliesWhen, CaptureOutcome, CaptureResult, Entry, EntryType, NewEntry
from hardwon.models.ids import EntryId
from knowledge.memory.rules.embedding_text import situation

_NEW_ENTRY = TypeAdapter(NewEntry)
_CONDITIONS = TypeAdapter(AppliesWhen)
_MAX_NAME_CHARS = 100


def parse_entry(payload: object) -> NewEntry:
    """Return the entry in a JSON object. Raises InvalidInput naming the field; the service checks required fields."""
    if not isinstance(payload, Mapping):
        raise InvalidInput("entry", f"must be a JSON object, not {type(payload).__name__}")
    try:
        return _NEW_ENTRY.validate_python(dict(payload))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise as_invalid_input(first["loc"], dict(first)) from error


def as_invalid_input(location: Sequence[int | str], details: Mapping[str, Any]) -> InvalidInput:
    """Convert an error of pydantic to InvalidInput; the name of the field is made printable, whatever was sent."""
    field = ".".join(map(str, location)).encode("utf-8", "backslashreplace").decode()[:_MAX_NAME_CHARS] or "entry"
    match details["type"]:
        case "missing" | "missing_argument" | "missing_keyword_only_argument":
            return InvalidInput(field, "is required")
        case "unexpected_keyword_argument" | "extra_forbidden":
            return InvalidInput(field, "is not known here")
        case _:
            return InvalidInput(field, details["msg"])


def parse_conditions(payload: Mapping[str, object]) -> AppliesWhen:
    """Return the conditions in a JSON object. Raises InvalidInput naming the field."""
    try:
        return _CONDITIONS.validate_python(dict(payload))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise as_invalid_input(("applies_when", *first["loc"]), dict(first)) from error


def text_to_resolve(entry: Entry) -> str:
    """Return the text that needs a resolution: the feedback of a gate rejection, else the situation."""
    feedback = entry.entry_type is EntryType.GATE_REJECTION and entry.human_feedback
    return feedback or situation(entry)


class EntryResolver(Protocol):
    """The part of a capture service that resolves entries, in process or over HTTP."""

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

    async def resolve_gate_rejection(
        self,
        entry_id: EntryId,
        *,
        revision_approach: str,
        verified_by: str | None = None,
        when_to_try: str | None = None,
        applies_when: AppliesWhen | None = None,
    ) -> EntryId:
        """Give an open rejection the accepted revision."""


async def resolve_entry(
    capture: EntryResolver,
    entry_id: EntryId,
    *,
    solution_steps: str | None,
    revision_approach: str | None,
    verified_by: str | None,
    when_to_try: str | None,
    applies_when: AppliesWhen | None = None,
) -> EntryId:
    """Resolve an open entry with a solution or a revision; return the id of the entry that holds the evidence.

    Raises InvalidInput unless exactly one of them is given, and for a solution without `verified_by`, and what capture
    raises.
    """
    if revision_approach is not None and solution_steps is None:
        return await capture.resolve_gate_rejection(
            entry_id,
            revision_approach=revision_approach,
            verified_by=verified_by,
            when_to_try=when_to_try,
            applies_when=applies_when,
        )
    if solution_steps is None or revision_approach is not None:
        raise InvalidInput(
            "solution_steps", "give either solution_steps (a failure) or revision_approach (a rejection)"
        )
    if verified_by is None:
        raise InvalidInput("verified_by", "is required: name the test or check that showed that the solution works")
    return await capture.resolve_failure(
        entry_id,
        solution_steps=solution_steps,
        verified_by=verified_by,
        when_to_try=when_to_try,
        applies_when=applies_when,
    )


class BatchCapture(Protocol):
    """The part of a capture service that takes many entries, in process or over HTTP."""

    async def capture_all(self, entries: Sequence[NewEntry]) -> list[CaptureResult]:
        """Capture many entries, each on its own, in order."""


async def capture_rows(capture: BatchCapture, rows: Iterable[object]) -> list[CaptureResult]:
    """Capture JSON objects, each on its own, in order; one that is not an entry is refused, naming the field."""
    answers: list[CaptureResult | None] = []
    entries: list[NewEntry] = []
    for row in rows:
        try:
            entries.append(row if isinstance(row, NewEntry) else parse_entry(row))
            answers.append(None)
        except InvalidInput as error:
            answers.append(CaptureResult(outcome=CaptureOutcome.REFUSED, field=error.field, error=error.reason))
    stored = iter(await capture.capture_all(entries) if entries else ())
    return [answer or next(stored) for answer in answers]
