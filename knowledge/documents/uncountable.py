"""Questions that ask of a log what counting its lines does not tell: "How many requests took more than 30 ms?"."""

from __future__ import annotations

import re
from typing import Final

from knowledge.documents.plain_words import MOMENT, unquoted

_UNIT: Final = (
    r"(?:ms|s|h|milli\w+|micro\w+|sec(?:ond)?s?|min(?:ute)?s?|hours?|days?|weeks?|[kmgt]i?b|(?:kilo|mega|giga)?bytes?"
    r"|percent)\b|%"
)
_AMOUNT: Final = rf"(?:\d|(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|half) (?:an? )?(?:{_UNIT}))"
_BEYOND: Final = (
    r"(?:more|less|fewer|over|above|under|below|up|worse|longer|shorter|slower|faster|higher|lower|greater|larger|bigger"
    r"|smaller|older|newer|later|earlier)\b"
)
_COMPARED: Final = re.compile(
    r"(?i)\b\w{1,20}er than\b|\b(?:more|less|worse) (?:(?:often|frequently|recently) )?than\b|\bat (?:least|most)\b"
    rf"|\b(?:over|above|under|below|beyond|up to|within|(?:min|max)imum of|between) {_AMOUNT}"
    rf"|\bexceed\w{{0,4}}(?: \w{{1,30}}){{0,3}} {_AMOUNT}|[<>\u2264\u2265]=? ?\d"
    rf"|\b(?:about|around|nearly|almost|approximately) [\d.,]{{1,20}} ?(?:{_UNIT})"
    rf"|\b\d[\d.,]{{0,20}} ?\w{{0,12}} (?:or|and) {_BEYOND}|\b(?-i:[A-Z]{{4,12}}) (?:or|and) {_BEYOND}"
)
_LACKED: Final = re.compile(
    r"(?i)\bnot\b(?! (?:just|only)\b| \w{1,40} (?:error|warning)s?\b)|n['\u2019]t \w{1,40} \S"
    r"|\bno (?:(?:such|other) )?(?:errors?|warnings?|failures?|exceptions?|problems?|(?-i:[A-Z]{4,12}))\b"
    r"|\b(?:except(?:ing)?|excluding|apart from|aside from|besides|instead of|neither|nor)\b|\bnon-\w"
    r"|\bwithout\b(?! (?:an? |any )?severit)"
)
_AGO: Final = re.compile(
    r"(?i)\b(?:in|during|over|within|for|of) the (?:last|past|previous) (?:\w{1,40} )?"
    r"(?:second|minute|hour|day|week|month|year)s?\b|\b(?:second|minute|hour|day|week|month|year)s? ago\b"
)
_KINDS: Final = (
    r"(?:(?:api|request|error|log|the|new|serious|main|actual)\s)?(?:errors?|warnings?|kinds?|types?|sorts?|messages?"
    r"|lines?|entries|entry|severit(?:y|ies)|levels?|problems?|failures?|(?-i:[A-Z]{4,12}s?))\b"
)
"""What is told apart already: the severities, and the kinds of lines by their templates."""
_PLACES: Final = r"(?:(?:api|request)\s)?(?:paths?|endpoints?|routes?|urls?)\b"
_OF_ERRORS: Final = re.compile(r"(?i)\b(?:errors?|warnings?)\b")
_GATHERED: Final = re.compile(
    r"(?i)\b(?:per|by each|for each|for every|grouped by|group by|broken down by|breakdown by) "
    rf"(?!{_KINDS}|{_PLACES})\w"
    rf"|\beach (?!of\b|{_KINDS}|{_PLACES})\w+|\b(?:hourly|daily|weekly|monthly)\b"
    rf"|\b(?:distinct|unique|different|various) (?!{_KINDS}|\w+ {_KINDS})\w"
    r"|\b(?:average|median|percentiles?|percentage|percent|ratio|proportion|standard deviation|p\d\d|throughput)\b"
    r"|\b(?:mean|total|max(?:imum)?|min(?:imum)?|sum of|amount of) (?:\w+ )?"
    r"(?:times?|duration|latency|response|size|bytes?|data|traffic)\b"
    r"|\b(?:error|success|failure|request) rates?\b|\brate of\b|\bsum of\b"
    r"|\b(?:longest|shortest|slowest|fastest|largest|smallest|highest|lowest|biggest|busiest|quietest|heaviest)\b"
    r"|\bhow (?:many|much) (?:[kmgt]i?b|(?:kilo|mega|giga)?bytes?|data|traffic|bandwidth|memory|time|milliseconds?|ms"
    r"|seconds?|minutes?|hours?|days?)\b|\bhow long\b"
    r"|\b(?:most|least) (?:frequent|common|often|popular|active|requested|visited|used|recurring)(?:ly)? "
    rf"(?!{_KINDS}|\w+ {_KINDS}|{_PLACES})\w"
    rf"|\b(?:which|what|whose) (?!(?:are|is|was|were|the|do|does|did|happened)\b|{_KINDS}|{_PLACES})\w+\b[^?!]{{0,60}}"
    r"\b(?:most|least|fewest)\b"
    rf"|\bwho\b[^?!]{{0,60}}\b(?:most|least|fewest)\b|\btop (?:\d+ )?(?!\d|{_KINDS}|{_PLACES})\w"
)
"""Asks what the lines come to together: by user or minute, apart from each other, on average, at most."""
_BUSIEST: Final = re.compile(
    rf"(?i)\b{_PLACES}[^?!]{{0,60}}\b(?:most|least|fewest)\b"
    rf"|\b(?:most|least|top|per|each|different|distinct|unique)\b[^?!]{{0,30}}\b{_PLACES}"
)


def is_uncountable(question: str) -> bool:
    """Return whether a question compares numbers, excludes something, counts back from now or gathers; no line tells.

    Errors are told by their kinds and by their paths.
    """
    told = " ".join(MOMENT.sub(" ", unquoted(question)).split())
    return gathers(question) or any(pattern.search(told) for pattern in (_COMPARED, _LACKED, _AGO))


def gathers(question: str) -> bool:
    """Return whether a question asks what lines come to together: by user or minute, on average, at most."""
    told = " ".join(MOMENT.sub(" ", unquoted(question)).split())
    if _BUSIEST.search(told) and not _OF_ERRORS.search(told):
        return True
    return _GATHERED.search(told) is not None
