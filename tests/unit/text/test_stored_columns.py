"""Every column that may hold a text is redacted again, or it is said here why not."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from knowledge.adapters.postgres.admin.stored_texts import DERIVED, RECORDS, redact_value
from knowledge.adapters.postgres.document_tables import metadata
from knowledge.memory.capture.redaction import TEXTS

_OF_DOCUMENTS = {
    "kb_documents": {"uri", "name", "text_hashes"},
    "kb_versions": {"title", "category", "tags", "text", "notes"},
    "kb_chunks": {"text", "section", "function", "severities"},  # written anew with the version
    "kb_lines": {"template", "text"},
}
"""What a redacted version replaces."""
_WITHOUT_TEXTS = {
    "knowledge_staging": {"suspicions"},  # names of rules
    # names, which are not redacted in entries either, and what is derived of an entry with each rewrite
    "patterns": {"technologies", "agents", "projects", "problem_start"},
    "match_keys": {"why"},
    "links": {"why"},
    "distillations": {"model"},
    "contexts": {"choice", "near"},  # numbers, and our own words
    "embedding_spaces": {"space", "calibration"},
    "answer_cache": {"partitions"},
    "kb_documents": {"mark"},  # of git
    "kb_sources": {"url", "subdir", "globs"},  # addresses with a password are refused
    "pattern_maps": {"state"},  # a hash
    "deeds": {"error"},  # our own words
    "webhook_events": {"error"},  # our own words
    "job_run": {"error"},  # of the store, and gone after a month
    "seal_heads": {"details"},  # numbers, and the reason of an administrator's setting; each is sealed by the next one
    "audit_log": {"details"},  # counted: each row is sealed by the next one
}


def test_every_column_with_texts_is_redacted_again_or_has_a_reason() -> None:
    covered: dict[str, set[str]] = {"knowledge_staging": {*TEXTS, "dead_ends", "applies_when", "error_signature"}}
    for columns in (
        {table.name: set(names) for table, names in {**RECORDS, **DERIVED}.items()},
        _OF_DOCUMENTS,
        _WITHOUT_TEXTS,
    ):
        for table, names in columns.items():
            covered.setdefault(table, set()).update(names)
    left = {
        f"{table.name}.{column.name}"
        for table in metadata.sorted_tables
        for column in table.c
        if _holds_text(column) and column.name not in covered.get(table.name, ())
    }
    assert left == set()


def test_a_text_anywhere_in_json_is_redacted_and_the_rest_stays() -> None:
    value = {"a": ["x", {"b": "x"}], "x": 1, "c": None}
    assert redact_value(value, lambda text: text.replace("x", "y")) == {"a": ["y", {"b": "y"}], "x": 1, "c": None}


def _holds_text(column: sa.Column[object]) -> bool:
    kind = column.type.item_type if isinstance(column.type, sa.ARRAY) else column.type
    return isinstance(kind, (sa.Text, JSONB))
