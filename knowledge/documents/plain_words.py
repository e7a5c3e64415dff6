"""Errors and warnings that a question asks for in plain words: "What errors are in app.log?"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from knowledge.documents.models import Severity

_NAMED = re.compile(r"(?i)((?:\b[\w-]{1,60}\s{1,9}){0,3})\b(error|warning)s?\b")
_SOUGHT = re.compile(
    r"(?i)\b(?:what|which|any|all|every|each|list|show)\b[^?!]{0,60}\b(?:errors|warnings)\b"
    r"|\b(?:errors|warnings)\s+(?:(?:are|were|is|was|there|found)\s+){0,2}(?:in|from|of)\b"
)
_IN_GENERAL = re.compile(
    r"(?i)\b(?:can|could|may|might|should|would|why|how\s+(?:do|does|can|to)"
    r"|(?:mean|return|throw|rais|caus|fix|handl|avoid|prevent|solv)\w*)\b"
)
"""Asks what errors are like, and not which ones a log has."""
_MEANT: Final = {"error": (Severity.ERROR, Severity.CRITICAL), "warning": (Severity.WARN,)}
_NO_TOPIC: Final = re.compile(
    r"(?i)what|which|any|all|every|each|list|show|me|the|an?|of|did|do(?:es)?|first|last|and|or|many|how|when|are|were|is"
    r"|was|there|in|ha(?:ve|s|d)|with|for|from|to|number|count|total|th(?:e|o)se|such|our|my|its|latest|earliest|common"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainWords:
    """The severities that are meant, and the words that say what the entries are about, as in "payment errors".

    `sought`: it asks which there are, and not only when or how many.
    """

    severities: tuple[Severity, ...]
    topic: tuple[str, ...]
    sought: bool


def in_plain_words(question: str) -> PlainWords | None:
    """Return what a question asks of errors or warnings, None where it names neither."""
    found = _NAMED.search(question)
    if found is None:
        return None
    topic: list[str] = []
    for word in found[1].split():
        topic = [] if _NO_TOPIC.fullmatch(word) else [*topic, word]
    sought = _SOUGHT.search(question) is not None and _IN_GENERAL.search(question) is None
    return PlainWords(severities=_MEANT[found[2].lower()], topic=tuple(topic), sought=sought)
