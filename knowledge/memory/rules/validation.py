"""Validation of new entries, done in full before anything is stored, and of tags."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from hashlib import sha256

from hardwon.errors import InvalidInput
from hardwon.models.entries import TEXT_FIELDS
from hardwon.models.patterns import MAX_TAG_CHARS
from hardwon.validation import check_characters, check_flag, check_text, kind_of
from knowledge.memory.rules.conditions import check_conditions
from knowledge.models import EntryStatus, EntryType, NewEntry

MAX_IDS_BYTES = 2600
"""Maximum bytes of UTF-8 of workspace, project, task and run together: they form one key in Postgres, which holds
2,704 bytes with its overhead. 200 characters each are fewer, except outside the BMP."""


def check_ids(*, workspace: str, project_id: str, task_id: str | None, run_id: str | None) -> None:
    """Raise InvalidInput, naming the longest id but the workspace, unless these ids fit into one key."""
    ids = {"project_id": project_id, "task_id": task_id or "", "run_id": run_id or ""}
    sizes = {name: len(value.encode()) for name, value in ids.items()}
    total = len(workspace.encode()) + sum(sizes.values())
    if total > MAX_IDS_BYTES:
        longest = max(sizes, key=sizes.__getitem__)
        raise InvalidInput(
            longest,
            f"has {sizes[longest]:,} bytes, and workspace, project_id, task_id and run_id have {total:,} together,"
            f" more than the {MAX_IDS_BYTES:,} allowed",
        )


_REQUIRED_FIELDS = {
    EntryType.FAILURE_SOLUTION: ("project_id", "agent_type", "failure_description"),
    EntryType.GATE_REJECTION: ("project_id", "gate_type", "human_feedback"),
    EntryType.GATE_APPROVAL: ("project_id", "gate_type", "approved_approach"),
}
_COMMON_FIELDS = {"entry_type", "project_id", "workspace", "agent_type", "task_type", "technology"} | {
    "task_description", "when_to_try", "applies_when", "task_id", "run_id", "idempotency_key", "verified_by",
    "success_verified", "outside_text",
}  # fmt: skip
_TYPE_FIELDS = {
    EntryType.FAILURE_SOLUTION: {"failure_description", "error_message", "solution_steps"},
    EntryType.GATE_REJECTION: {"gate_type", "proposal", "human_feedback", "revision_approach"},
    EntryType.GATE_APPROVAL: {"gate_type", "proposal", "approved_approach"},
}
MAX_DEAD_ENDS = 5
"""Dead ends that an entry holds: of more attempts, the last ones say most; ours."""
MAX_DEAD_END_BYTES = 4 * 1024
"""A dead end holds at most this many bytes of UTF-8, as a solution from a session does."""


def validate(entry: NewEntry) -> None:
    """Raise InvalidInput, naming the first invalid field, unless the entry can be stored."""
    try:
        entry_type = EntryType(entry.entry_type)
    except ValueError:
        raise InvalidInput("entry_type", f"must be one of {', '.join(EntryType)}, not {entry.entry_type!r}") from None
    for name in _REQUIRED_FIELDS[entry_type]:
        if getattr(entry, name) is None:
            raise InvalidInput(name, f"is required for a {entry_type}")
    for name in TEXT_FIELDS:
        value = getattr(entry, name)
        if value is None:
            continue
        if name not in _COMMON_FIELDS and name not in _TYPE_FIELDS[entry_type]:
            raise InvalidInput(name, f"does not belong to a {entry_type}")
        check_text(name, value)
    if entry.applies_when is not None:
        check_conditions(entry.applies_when)
    check_flag("success_verified", entry.success_verified)
    check_flag("outside_text", entry.outside_text)
    if entry.dead_ends and entry_type is not EntryType.FAILURE_SOLUTION:
        raise InvalidInput("dead_ends", f"does not belong to a {entry_type}")
    check_dead_ends(entry.dead_ends)


def check_dead_ends(texts: Sequence[str]) -> None:
    """Raise InvalidInput unless these dead ends can be stored."""
    if not isinstance(texts, (list, tuple)):
        raise InvalidInput("dead_ends", f"must be a list of texts, not {kind_of(texts)}")
    if len(texts) > MAX_DEAD_ENDS:
        raise InvalidInput("dead_ends", f"holds {len(texts)} texts, more than the {MAX_DEAD_ENDS} allowed")
    for text in texts:
        check_text("dead_ends", text)
        if (size := len(text.encode())) > MAX_DEAD_END_BYTES:
            raise InvalidInput("dead_ends", f"holds a text of {size:,} bytes, more than the 4,096 allowed")


def first_status(entry: NewEntry) -> EntryStatus:
    """Return the initial status: staged where there is a resolution and, for a failure, it is verified; else open."""
    match entry.entry_type:
        case EntryType.FAILURE_SOLUTION:
            ready = entry.solution_steps is not None and entry.success_verified
        case EntryType.GATE_REJECTION:
            ready = entry.revision_approach is not None
        case EntryType.GATE_APPROVAL:
            ready = True
    return EntryStatus.STAGED if ready else EntryStatus.OPEN


_NOT_HASHED_FIELDS = {"workspace", "project_id", "task_id", "run_id", "idempotency_key", "dead_ends", "outside_text"}
_HASHED_FIELDS = tuple(field.name for field in fields(NewEntry) if field.name not in _NOT_HASHED_FIELDS)


def content_hash(entry: NewEntry) -> str:
    """Return the sha256 of an entry's content: all but workspace, project, task, run, key and what a run adds later.

    A failure that is told again with more attempts, or after text from outside was read, is the same event.
    """
    content = {name: value for name in _HASHED_FIELDS if (value := getattr(entry, name)) is not None}
    if entry.applies_when is not None:
        content["applies_when"] = asdict(entry.applies_when)
    return sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


_SHOWN_CHARS = 30
"""Characters of a refused tag that its error quotes, ours."""


def normalise_tag(field: str, tag: object, *, clean: Callable[[str], str] = str) -> str:
    """Return a tag in small letters, composed, with single spaces; `clean` redacts it before its length is checked.

    Raises InvalidInput, naming the field and quoting the tag: for a blank or long one, with an invisible character, or
    with a comma, which lists of tags are split at.
    """
    if not isinstance(tag, str):
        raise InvalidInput(field, f"has {kind_of(tag)}: each tag must be a text")
    check_characters(field, tag)
    shown = f"{tag[:_SHOWN_CHARS]}…" if len(tag) > _SHOWN_CHARS else tag
    words = " ".join(tag.split())
    if not words:
        raise InvalidInput(field, "has a blank tag: give a word, or leave it out")
    if not words.isprintable():
        raise InvalidInput(field, f"has an invisible character in {shown!r}")
    if "," in words:
        raise InvalidInput(field, f"has a comma in {shown!r}: give each tag by itself")
    normal = unicodedata.normalize("NFC", " ".join(clean(words).split()).lower())
    if len(normal) > MAX_TAG_CHARS:
        raise InvalidInput(field, f"has {shown!r} of {len(normal)} characters, more than the {MAX_TAG_CHARS} of a tag")
    return normal
