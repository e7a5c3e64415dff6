"""Secrets and personal data out of a text, before it is stored or leaves for a provider."""

from knowledge.redaction.redactor import Redacted, redact, redact_together
from knowledge.redaction.rules import KINDS

__all__ = ["KINDS", "Redacted", "redact", "redact_together"]
