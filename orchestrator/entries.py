"""Entries as JSON objects: parsed with errors that name the field, and serialised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from hardwon.coercion import REQUIRED, read_object, unknown_name
from hardwon.errors import InvalidInput
from hardwon.models.entries import AppliesWhen, CaptureOutcome, CaptureResult, Entry, EntryType, NewEntry
from hardwon.models.ids import EntryId
from hardwon.validation import NOT_AN_ID, kind_of
from knowledge.memory.rules.embedding_text import situation

_MAX_NAME_CHARS = 100
_KINDS: Final[Mapping[str, str]] = {
    "string": "a text",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "finite": "a number",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "dict": "an object",
    "mapping": "an object",
    "model": "an object",
    "dataclass": "an object",
    "uuid": "an id (a UUID)",
}
"""Kinds of values by the first word of a type of pydantic's errors."""
_KIND_ERRORS: Final = frozenset({"type", "parsing", "number", "from_float", "exact_type", "attributes_type"})
"""The rest of those types of errors that tell a value of another kind."""
_LIMITS: Final[Mapping[str, str]] = {
    "greater_than_equal": "must be at least {ge:g}",
    "greater_than": "must be more than {gt:g}",
    "less_than_equal": "must be at most {le:g}",
    "less_than": "must be less than {lt:g}",
    "too_long": "has {actual_length} items, more than the {max_length} allowed",
    "too_short": "has {actual_length} items, fewer than the {min_length} needed",
    "string_too_short": REQUIRED,
    "string_too_long": "has more than the {max_length} characters allowed",
}
"""Reasons by types of pydantic's errors."""


def parse_entry(payload: object) -> NewEntry:
    """Return the entry in a JSON object. Raises InvalidInput naming the field; the service checks required fields."""
    return read_object(NewEntry, payload, noun="entry")


def as_invalid_input(location: Sequence[int | str], details: Mapping[str, Any]) -> InvalidInput:
    """Convert an error of pydantic to InvalidInput; the name of the field is made printable, whatever was sent."""
    parts = [str(each) for each in location if not _is_member(each)]
    field = ".".join(parts).encode("utf-8", "backslashreplace").decode()[:_MAX_NAME_CHARS] or "entry"
    match details["type"]:
        case "missing" | "missing_argument" | "missing_keyword_only_argument":
            return InvalidInput(field, REQUIRED)
        case "unexpected_keyword_argument" | "extra_forbidden":
            return unknown_name(parts[-1], {}, at="".join(f"{each}." for each in parts[:-1]))
        case _:
            return InvalidInput(field, _reason(details))


def _is_member(part: int | str) -> bool:
    """Return whether a part of a location is not of the JSON, but a member of a union of types."""
    return isinstance(part, str) and ("[" in part or part in {"str", "int", "float", "bool", "list", "dict"})


def _reason(details: Mapping[str, Any]) -> str:
    """Return the reason of an error of pydantic in plain words, without the value."""
    kind, context = str(details["type"]), details.get("ctx", {})
    first, _, rest = kind.partition("_")
    if first in _KINDS and rest in _KIND_ERRORS:
        given = kind_of(details.get("input"))
        return NOT_AN_ID if first == "uuid" and given == "a text" else f"must be {_KINDS[first]}, not {given}"
    if kind in _LIMITS:
        return _LIMITS[kind].format(**context)
    if kind in {"enum", "literal_error"}:
        return f"must be one of {str(context['expected']).replace(' or ', ', ').replace(chr(39), '')}"
    return str(details["msg"]).removeprefix("Value error, ").replace("Input should", "must", 1)


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
        dead_ends: Sequence[str] = (),
        outside_text: bool = False,
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
    dead_ends: Sequence[str] = (),
    outside_text: bool = False,
) -> EntryId:
    """Resolve an open entry with a solution or a revision; return the id of the entry that holds the evidence.

    Raises InvalidInput unless exactly one of them is given, and for a solution without `verified_by`, and what capture
    raises.
    """
    if revision_approach is not None and solution_steps is None:
        for name, given in (("dead_ends", dead_ends), ("outside_text", outside_text)):
            if given:
                raise InvalidInput(name, "does not belong to the resolution of a gate_rejection")
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
        dead_ends=dead_ends,
        outside_text=outside_text,
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
