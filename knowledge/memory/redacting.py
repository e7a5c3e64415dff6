"""What of an entry is left out before it is stored, of every text that a person or an agent wrote. Ids are left.

Secrets, and contexts that were handed out: told back in a text, they would come back as lessons of their own.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from knowledge.errors import InvalidInput
from knowledge.logs import get_logger
from knowledge.memory.limits import check_text
from knowledge.memory.validation import validate
from knowledge.models import AppliesWhen, NewEntry
from knowledge.names import CONTEXT_CLOSING, CONTEXT_OPENING
from knowledge.redaction import Redacted, redact, redact_together

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

_OF_TASK = "task_description"
"""What a context says of the task stays here: it is what this field is for."""


def without_contexts(entry: NewEntry) -> NewEntry:
    """Return a valid entry without contexts that its texts quote. Raises InvalidInput where one has nothing else."""
    told = {name: value for name in TEXTS if (value := getattr(entry, name)) is not None}
    changed: dict[str, Any] = {
        name: text for name, value in told.items() if (text := _without_context(name, value)) is not value
    }
    return replace(entry, **changed) if changed else entry


def _without_context(field: str, text: str) -> str:
    kept, rest = "", text
    while CONTEXT_OPENING in rest:
        before, _, after = rest.partition(CONTEXT_OPENING)
        _, closing, after = after.partition(CONTEXT_CLOSING)
        if not closing:
            break
        kept, rest = kept + (before if field == _OF_TASK else _without_task(before)), after
    if rest is text:
        return text
    told = (kept + rest).strip()
    if not re.search(r"\w", told):
        raise InvalidInput(
            field, "holds nothing but a context that was handed out: tell what happened, or what was done"
        )
    return told


def _without_task(before: str) -> str:
    """Return what stands before a block, without the paragraph about the task that a context begins with."""
    above, blank, last = before.removesuffix("\n\n").rpartition("\n\n")
    return above + blank if before.endswith("\n\n") and last.lstrip().startswith("Task: ") else before


def redacted(entry: NewEntry) -> NewEntry:
    """Return a valid entry with its texts redacted, a secret that one of them gives away in the others as well.

    Raises InvalidInput where that makes one too long, and for a secret in the expression of `applies_when`, which would
    mean something else without.
    """
    told = {name: value for name in TEXTS if (value := getattr(entry, name)) is not None}
    without = redact_together(list(told.values()))
    changed: dict[str, Any] = {
        name: _told_of(name, each) for name, each in zip(told, without, strict=True) if each.text is not told[name]
    }
    if entry.applies_when:
        refuse_secrets(entry.applies_when)
    if not changed:
        return entry
    entry = replace(entry, **changed)
    validate(entry)
    return entry


def refuse_secrets(conditions: AppliesWhen) -> None:
    """Raise InvalidInput for a secret in the expression of conditions."""
    if conditions.error and (found := redact(conditions.error).found):
        raise InvalidInput("applies_when", f"error holds what looks like a secret ({found[0]}): write it without")


def as_stored(field: str, text: str, *, redaction: bool) -> str:
    """Return a text of a resolution as it is stored. Raises InvalidInput."""
    check_text(field, text)
    text = _without_context(field, text)
    told = _without(field, text) if redaction else text
    if told is not text:
        check_text(field, told)
    return told


def _without(field: str, text: str) -> str:
    return _told_of(field, redact(text))


def _told_of(field: str, told: Redacted) -> str:
    if told.found:
        log.info("text_redacted", field=field, kinds=sorted(set(told.found)))
    return told.text
