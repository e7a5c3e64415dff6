"""Fit a text that is too long into a field, without leaving half a secret in it."""

from __future__ import annotations

from hardwon.text.truncation import truncate_middle
from hardwon.validation import MAX_TEXT_BYTES
from knowledge.text.redaction import redact

_TRUNCATED_BYTES = MAX_TEXT_BYTES - MAX_TEXT_BYTES // 16
"""Length to which a text that is too long is cut: redaction may make it longer again."""
_SCANNED_BYTES = 8 * MAX_TEXT_BYTES


def fit_ends(text: str, note: str) -> str:
    """Return the text, or as much of its beginning and end as fits into a text field, with `note` on a line between.

    Secrets are redacted first: half a secret would not be recognised. They are searched for far beyond the part that
    is kept, as far as a secret may be long.
    """
    if len(text.encode()) <= MAX_TEXT_BYTES:
        return text
    between = f"\n[{note}]\n"
    return truncate_middle(redact(truncate_middle(text, _SCANNED_BYTES, between)).text, _TRUNCATED_BYTES, between)
