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


def is_uncountable(question: str) -> bool:
    """Return whether a question compares numbers, excludes something or counts back from now; no line tells that."""
    told = " ".join(MOMENT.sub(" ", unquoted(question)).split())
    return any(pattern.search(told) for pattern in (_COMPARED, _LACKED, _AGO))
