"""Entries as JSON objects: read with errors that name the field, written back the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from knowledge.errors import InvalidInput
from knowledge.memory.texts import situation
from knowledge.models import AppliesWhen, CaptureOutcome, CaptureResult, Entry, EntryId, EntryType, NewEntry

_NEW_ENTRY = TypeAdapter(NewEntry)
_CONDITIONS = TypeAdapter(AppliesWhen)
_LONGEST_NAME = 100


def read_entry(told: object) -> NewEntry:
    """Return a JSON object as an entry. Raises InvalidInput naming the field; what it needs the service checks."""
    if not isinstance(told, Mapping):
        raise InvalidInput("entry", f"must be a JSON object, not {type(told).__name__}")
    try:
        return _NEW_ENTRY.validate_python(dict(told))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise in_our_words(first["loc"], dict(first)) from error


def in_our_words(place: Sequence[int | str], found: Mapping[str, Any]) -> InvalidInput:
    """Return what pydantic found at a place as our error: the field's name can be shown whatever the caller wrote."""
    field = ".".join(map(str, place)).encode("utf-8", "backslashreplace").decode()[:_LONGEST_NAME] or "entry"
    match found["type"]:
        case "missing" | "missing_argument" | "missing_keyword_only_argument":
            return InvalidInput(field, "is required")
        case "unexpected_keyword_argument" | "extra_forbidden":
            return InvalidInput(field, "is not known here")
        case _:
            return InvalidInput(field, found["msg"])


def write_entry(entry: NewEntry) -> dict[str, Any]:
    """Return an entry as a JSON object, without what was not told."""
    told: dict[str, Any] = {name: value for name, value in asdict(entry).items() if value is not None}
    if entry.applies_when is not None:
        told["applies_when"] = write_conditions(entry.applies_when)
    return told


def read_conditions(told: Mapping[str, object]) -> AppliesWhen:
    """Return a JSON object as conditions. Raises InvalidInput naming the field."""
    try:
        return _CONDITIONS.validate_python(dict(told))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise in_our_words(("applies_when", *first["loc"]), dict(first)) from error


def write_conditions(conditions: AppliesWhen) -> dict[str, Any]:
    """Return conditions as a JSON object, without what was not told."""
    return {name: value for name, value in asdict(conditions).items() if value is not None}


def to_be_resolved(entry: Entry) -> str:
    """Return what has to be resolved: what a person said against a proposal, rather than the proposal."""
    objected = entry.entry_type is EntryType.GATE_REJECTION and entry.human_feedback
    return objected or situation(entry)


class Resolves(Protocol):
    """A capture service, in process or over HTTP."""

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
        ...

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
        ...


async def resolve_entry(
    capture: Resolves,
    entry_id: EntryId,
    *,
    solution_steps: str | None,
    revision_approach: str | None,
    verified_by: str | None,
    when_to_try: str | None,
    applies_when: AppliesWhen | None = None,
) -> EntryId:
    """Give an open entry what resolves it, told as the one field or the other; return whose evidence it is.

    Raises InvalidInput unless it is one of the two, and for a solution that nothing verified, and what capture raises.
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
        raise InvalidInput("verified_by", "is required: what showed that the solution works?")
    return await capture.resolve_failure(
        entry_id,
        solution_steps=solution_steps,
        verified_by=verified_by,
        when_to_try=when_to_try,
        applies_when=applies_when,
    )


class CapturesAll(Protocol):
    """A capture service, in process or over HTTP."""

    async def capture_all(self, entries: Sequence[NewEntry]) -> list[CaptureResult]:
        """Capture many entries, each on its own, in order."""
        ...


async def capture_rows(capture: CapturesAll, rows: Iterable[object]) -> list[CaptureResult]:
    """Capture JSON objects, each on its own, in order; one that is no entry is refused by name, as the others are."""
    answers: list[CaptureResult | None] = []
    entries: list[NewEntry] = []
    for row in rows:
        try:
            entries.append(row if isinstance(row, NewEntry) else read_entry(row))
            answers.append(None)
        except InvalidInput as error:
            answers.append(CaptureResult(outcome=CaptureOutcome.REFUSED, field=error.field, error=error.reason))
    stored = iter(await capture.capture_all(entries) if entries else ())
    return [answer or next(stored) for answer in answers]
