"""What a text must be to be stored, whichever field it is of."""

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
"""How many characters some fields hold."""


def check_text(field: str, value: object) -> None:
    """Raise InvalidInput, naming the field, unless the value is a text to store: not blank, no NUL, not too long."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be a text, not {type(value).__name__}")
    if not value.strip():
        raise InvalidInput(field, "is empty or blank")
    check_characters(field, value)
    longest = MAX_CHARS.get(field)
    if longest is not None and len(value) > longest:
        raise InvalidInput(field, f"has {len(value)} characters, more than the {longest} allowed")
    if longest is None and len(value) > MAX_TEXT_BYTES // 4 and (size := len(value.encode())) > MAX_TEXT_BYTES:
        raise InvalidInput(field, f"has {size:,} bytes, more than the {MAX_TEXT_BYTES:,} (64 KiB) allowed")
