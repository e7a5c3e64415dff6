"""What the words of a question ask of passages beside its sense: severities, moments, line numbers, names of files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from knowledge.documents.asked_times import AskedTime, Calendar, asked_time
from knowledge.documents.log_lines import severity_named
from knowledge.documents.models import Document, Severity, Wanted

_LINES = re.compile(
    r"(?i)\blines?\s+(?:number\s+|no\.?\s*|#\s*)?(\d{1,9})(?:\s*(?:-|to|through|until|and)\s*(\d{1,9}))?"
)
_SEVERITY = re.compile(
    r"\b(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|SEVERE|CRIT|CRITICAL|FATAL|ALERT|EMERG|PANIC)[sS]?\b"
    r"|(?i:\b(critical|fatal|warning|debug|info)s?[ -](?:entries|entry|lines?|messages?|logs?|events?|level)\b)"
    r"|(?i:\b(?:severity|level)\s*(?:=|:|is|of)?\s*(critical|fatal|error|warning|warn|info|debug)\b)"
)
_QUOTED = re.compile(r"\"[^\"\n]*\"|(?<!\w)'[^'\n]*'(?!\w)|`[^`\n]*`")
_OF_ENTRIES = re.compile(r"\s{0,9}(?i:entries|entry|lines?|messages?|logs?|events?|level)\b")
_FILE = re.compile(r"[\w-]\.[A-Za-z]\w{0,9}\b")
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d")
"""A day as logs have it: one in words may as well be of what a document tells, which names no moments to look by."""
_MOST_LINES: Final = 50


def wanted(question: str, documents: Iterable[Document] = ()) -> Wanted:
    """Return what a question asks of passages. Documents count that it names by file name or uri."""
    lines = _lines(question)
    time = asked_time(question, Calendar(), led=True) if _ISO.search(question) else AskedTime()
    return Wanted(
        severities=severities(question),
        since=time.since,
        until=time.until,
        lines=lines,
        document_ids=frozenset(each.document_id for each in documents if names(question, each)),
    )


def names_a_file(question: str) -> bool:
    """Return whether something in a question may be the name of a file: it is worth looking which there are."""
    return _FILE.search(question) is not None


def names(question: str, document: Document) -> bool:
    """Return whether a question names a document: by a file name with an ending, or by its whole uri."""
    told = question.lower()
    whole = {document.uri.lower(), document.name.lower()}
    return any("." in name.strip(".") and _stands_alone(name, told) for name in whole)


def severities(question: str) -> frozenset[Severity]:
    """Return the severities a question names: in capitals, or in words where it is clear that entries are meant.

    What it quotes is text that is looked for, in whatever entries.
    """

    def unless_of_entries(quoted: re.Match[str]) -> str:
        return quoted[0] if _OF_ENTRIES.match(question, quoted.end()) else " "

    told = _QUOTED.sub(unless_of_entries, question)
    found = (next(filter(None, match.groups())) for match in _SEVERITY.finditer(told))
    return frozenset(severity for name in found if (severity := severity_named(name)))


def _stands_alone(name: str, told: str) -> bool:
    at = told.find(name)
    while at >= 0:
        before, after = told[at - 1 : at] if at else "", told[at + len(name) : at + len(name) + 1]
        if not (before.isalnum() or before in {"_", "-"} or after.isalnum() or after in {"_", "-"}):
            return True
        at = told.find(name, at + 1)
    return False


def _lines(question: str) -> tuple[int, ...]:
    found: list[int] = []
    for match in _LINES.finditer(question):
        first, last = int(match[1]), int(match[2] or match[1])
        found += range(first, min(max(first, last), first + _MOST_LINES) + 1)
    return tuple(sorted(set(found)))[:_MOST_LINES]
