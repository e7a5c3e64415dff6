"""All rules, in the order in which they win."""

from __future__ import annotations

from typing import Final

from knowledge.redaction.assigned import ASSIGNED
from knowledge.redaction.personal import PERSONAL
from knowledge.redaction.tokens import TOKENS
from knowledge.redaction.wrapped import WRAPPED

RULES: Final = (*TOKENS, *WRAPPED, *ASSIGNED, *PERSONAL)
KINDS: Final = frozenset(rule.kind for rule in RULES)
"""Kinds that occur in placeholders."""
