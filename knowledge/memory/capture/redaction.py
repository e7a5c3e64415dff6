"""Removal of secrets and quoted contexts from every text of an entry before it is stored. Ids are left as they are.

A context that was handed out and is quoted in a text would come back as a new lesson.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hardwon.errors import InvalidInput
from hardwon.event_log import get_logger
from hardwon.models.ids import CONTEXT_CLOSING, CONTEXT_OPENING
from hardwon.text.truncation import truncate_middle
from hardwon.validation import check_text
from knowledge.memory.rules.validation import MAX_DEAD_END_BYTES, validate
from knowledge.models import AppliesWhen, NewEntry
from knowledge.text.redaction import Redaction, redact, redact_together

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

_TASK_FIELD = "task_description"
"""The field that keeps a context's paragraph about the task: that is what the field is for."""


def remove_contexts(entry: NewEntry) -> NewEntry:
    """Return a valid entry without the contexts its texts quote. Raises InvalidInput for a text with nothing else."""
    texts = {name: value for name in TEXTS if (value := getattr(entry, name)) is not None}
    changed: dict[str, Any] = {
        name: text for name, value in texts.items() if (text := _remove_contexts(name, value)) is not value
    }
    if entry.dead_ends:
        changed["dead_ends"] = tuple(_remove_contexts("dead_ends", text) for text in entry.dead_ends)
    return replace(entry, **changed) if changed else entry


def _remove_contexts(field: str, text: str) -> str:
    result, rest = "", text
    while CONTEXT_OPENING in rest:
        before, _, after = rest.partition(CONTEXT_OPENING)
        _, closing, after = after.partition(CONTEXT_CLOSING)
        if not closing:
            break
        result, rest = result + (before if field == _TASK_FIELD else _remove_task_paragraph(before)), after
    if rest is text:
        return text
    remaining = (result + rest).strip()
    if not re.search(r"\w", remaining):
        raise InvalidInput(
            field, "holds nothing but a context that was handed out: describe what happened or what was done"
        )
    return remaining


def _remove_task_paragraph(before: str) -> str:
    """Return the text before a context's block without the paragraph about the task that opens the context."""
    above, blank, last = before.removesuffix("\n\n").rpartition("\n\n")
    return above + blank if before.endswith("\n\n") and last.lstrip().startswith("Task: ") else before


def redact_entry(entry: NewEntry) -> NewEntry:
    """Return a valid entry with its texts redacted; a secret found in one of them is redacted in all.

    Raises InvalidInput where a text becomes too long, and for a secret in the expression of `applies_when`: redacted,
    it would match something else.
    """
    texts = {name: value for name in TEXTS if (value := getattr(entry, name)) is not None}
    redacted_texts = redact_together([*texts.values(), *entry.dead_ends])
    changed: dict[str, Any] = {
        name: _log_redaction(name, redacted)
        for name, redacted in zip(texts, redacted_texts, strict=False)
        if redacted.text is not texts[name]
    }
    tried = tuple(_log_redaction("dead_ends", redacted) for redacted in redacted_texts[len(texts) :])
    if tried != entry.dead_ends:
        changed["dead_ends"] = cut_dead_ends(tried)
    if entry.applies_when:
        refuse_secrets(entry.applies_when)
    if not changed:
        return entry
    entry = replace(entry, **changed)
    validate(entry)
    return entry


def cut_dead_ends(texts: Sequence[str]) -> tuple[str, ...]:
    """Return dead ends within their limit: a placeholder may be longer than what it stands for."""
    return tuple(truncate_middle(text, MAX_DEAD_END_BYTES, "\n[...]\n") for text in texts)


def refuse_secrets(conditions: AppliesWhen) -> None:
    """Raise InvalidInput where the `error` expression of conditions contains a secret."""
    if conditions.error and (found := redact(conditions.error).found):
        raise InvalidInput("applies_when", f"error contains what looks like a secret ({found[0]}): remove it")


def clean_text(field: str, text: str, *, redaction: bool) -> str:
    """Return a resolution's text without quoted contexts and, with `redaction`, secrets. Raises InvalidInput."""
    check_text(field, text)
    text = _remove_contexts(field, text)
    cleaned = _redact_text(field, text) if redaction else text
    if cleaned is not text:
        check_text(field, cleaned)
    return cleaned


def _redact_text(field: str, text: str) -> str:
    return _log_redaction(field, redact(text))


def _log_redaction(field: str, redacted: Redaction) -> str:
    if redacted.found:
        log.info("text_redacted", field=field, kinds=sorted(set(redacted.found)))
    return redacted.text
