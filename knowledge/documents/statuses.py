"""Statuses of requests that a question names, as access logs have them: 404s, 5xx, server errors; pure."""

from __future__ import annotations

import re
from typing import Final

STATUS: Final = re.compile(r"\A[1-5]\d\d\Z")
CLASS: Final = re.compile(r"\A[1-5]xx\Z")
ANY: Final = '" xxx '
"""Is held by what has any status."""
_PLACED: Final = re.compile(r'\A" ([1-5](?:\d\d|xx)|xxx) \Z')
_NAMED: Final = re.compile(r"(?i)(?<![\w./:-])[1-5](?:\d\d|xx)(?:s|es)?(?![\w./:-]|\.\w)")
_CALLED: Final = tuple(
    (re.compile(rf"(?i)(?<![\w/-])(?:{words})(?![\w/-])"), told)
    for words, told in (
        (r"server(?:[ -]side)? errors?", "5xx"),
        (r"client(?:[ -]side)? errors?", "4xx"),
        (r"redirect(?:s|ed|ions?)?", "3xx"),
        (r"success(?:ful|fully|es)?|succeed(?:ed|s)?", "2xx"),
        (r"fail(?:ed|ing|s|ures?)?", "4xx and 5xx"),
    )
)
_ALWAYS: Final = 2
"""So many of the names mean a status even where lines name severities."""


def in_statuses(question: str, *, alone: bool) -> str:
    """Return a question put to an access log with its statuses by their numbers.

    `alone`: its lines name no severities, so that what failed has failed by its status.
    """
    told = _NAMED.search(question)
    for number, (called, status) in enumerate(_CALLED):
        if number < _ALWAYS or alone:
            question = called.sub("" if told else status, question)
    return question


def names_a_status(question: str) -> bool:
    """Return whether a question may name a status or a class of them."""
    return any(each.search(question) for each in (_NAMED, *(called for called, _ in _CALLED[:_ALWAYS])))


def placed(word: str) -> str:
    """Return a status as access logs have it, behind the quoted request; any other word as it is."""
    return f'" {word} ' if STATUS.match(word) or CLASS.match(word) else word


def pattern_of(term: str) -> str | None:
    """Return the regular expression of Postgres for a status where access logs have it, None for any other term."""
    found = _PLACED.match(term)
    if found is None:
        return None
    number = "[1-5][0-9][0-9]" if found[1] == "xxx" else found[1].replace("xx", "[0-9][0-9]")
    return rf'" {number}( |$)'


def status_told(term: str) -> str | None:
    """Return in words which status a term is, None for any other term."""
    found = _PLACED.match(term)
    if found is None:
        return None
    return f"status {found[1][0]}00-{found[1][0]}99" if found[1].endswith("xx") else f"status {found[1]}"
