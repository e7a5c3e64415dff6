"""Redact secrets and personal data in texts before they are stored or sent to a provider."""

from knowledge.text.redaction.redactor import Redaction, redact, redact_together
from knowledge.text.redaction.rules import KINDS

__all__ = ["KINDS", "Redaction", "redact", "redact_together"]
