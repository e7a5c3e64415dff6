"""What of an entry is redacted, before it is stored: every text that a person or an agent wrote. Ids are left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from knowledge.errors import InvalidInput
from knowledge.logs import get_logger
from knowledge.memory.limits import check_text
from knowledge.memory.validation import validate
from knowledge.models import NewEntry
from knowledge.redaction import redact

log = get_logger(__name__)

TEXTS = (
    "task_description",
    "failure_description",
    "error_message",
    "solution_steps",
    "proposal",
    "human_feedback",
    "revision_approach",
    "approved_approach",
    "when_to_try",
    "verified_by",
)


def redacted(entry: NewEntry) -> NewEntry:
    """Return a valid entry with its texts redacted.

    Raises InvalidInput where that makes one too long, and for a secret in the expression of `applies_when`, which would
    mean something else without.
    """
    told = {name: value for name in TEXTS if (value := getattr(entry, name)) is not None}
    changed: dict[str, Any] = {
        name: text for name, value in told.items() if (text := _without(name, value)) is not value
    }
    if entry.applies_when and entry.applies_when.error and (found := redact(entry.applies_when.error).found):
        raise InvalidInput("applies_when", f"error holds what looks like a secret ({found[0]}): write it without")
    if not changed:
        return entry
    entry = replace(entry, **changed)
    validate(entry)
    return entry


def as_stored(field: str, text: str, *, redaction: bool) -> str:
    """Return a text of a resolution as it is stored. Raises InvalidInput."""
    check_text(field, text)
    told = _without(field, text) if redaction else text
    if told is not text:
        check_text(field, told)
    return told


def _without(field: str, text: str) -> str:
    told = redact(text)
    if told.found:
        log.info("text_redacted", field=field, kinds=sorted(set(told.found)))
    return told.text
