"""All rules, in the order in which they win."""

from __future__ import annotations

from typing import Final

from knowledge.text.redaction.api_keys import TOKENS, WRAPPED
from knowledge.text.redaction.assignments import ASSIGNED
from knowledge.text.redaction.pii import PERSONAL

RULES: Final = (*TOKENS, *WRAPPED, *ASSIGNED, *PERSONAL)
KINDS: Final = frozenset(rule.kind for rule in RULES)
"""Kinds that occur in placeholders."""
