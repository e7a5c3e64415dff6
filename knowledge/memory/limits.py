"""Limits of stored texts: characters, length, and the bytes of ids."""

from __future__ import annotations

from knowledge.characters import check_characters
from knowledge.errors import InvalidInput

MAX_TEXT_BYTES = 64 * 1024
"""A text field holds at most this many bytes of UTF-8."""
MAX_CHARS = {
    "project_id": 200,
    "workspace": 200,
    "agent_type": 100,
    "task_type": 100,
    "technology": 100,
    "gate_type": 50,
    "verified_by": 500,
    "task_id": 200,
    "run_id": 200,
    "idempotency_key": 200,
    "revision": 100,
    "query_prefix": 200,
    "document_prefix": 200,
}
"""Maximum number of characters of some fields."""

MAX_IDS_BYTES = 2600
"""Maximum bytes of UTF-8 of workspace, project, task and run together: they form one key in Postgres, which holds
2,704 bytes with its overhead. 200 characters each are fewer, except outside the BMP."""


def check_text(field: str, value: object) -> None:
    """Raise InvalidInput, naming the field, unless the value is text: not blank, without NUL, not too long."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be a text, not {type(value).__name__}")
    if not value.strip():
        raise InvalidInput(field, "is empty or blank")
    check_characters(field, value)
    max_chars = MAX_CHARS.get(field)
    if max_chars is not None and len(value) > max_chars:
        raise InvalidInput(field, f"has {len(value)} characters, more than the {max_chars} allowed")
    if max_chars is None and len(value) > MAX_TEXT_BYTES // 4 and (size := len(value.encode())) > MAX_TEXT_BYTES:
        raise InvalidInput(field, f"has {size:,} bytes, more than the {MAX_TEXT_BYTES:,} (64 KiB) allowed")


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
