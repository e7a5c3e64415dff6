"""Words of a question that say when and name no moment of a log: yesterday, around noon, after the restart; pure."""

from __future__ import annotations

import re
from typing import Final

_NAMES: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTHS: Final = dict(zip(_NAMES, range(1, 13), strict=True))

_UNITS: Final = r"(?:second|minute|hour|day|night|morning|evening|afternoon|week|weekend|month|quarter|year)s?"
_WEEKDAYS: Final = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_NAMED_MONTH: Final = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)"
)
_UNTOLD: Final = re.compile(
    r"(?i)\b(?:today|yesterday|tonight|tomorrow|recently|lately|overnight|noon|midday|midnight|mornings?|afternoons?"
    rf"|evenings?|nights?|weekends?|weekdays?|dawn|(?:{_WEEKDAYS})s?|on (?-i:Mon|Tue|Wed|Thu|Fri|Sat|Sun))\b(?!-)"
    r"|\b(?:this|last|past|previous|next|current|first|final|second|third|same|other|that) "
    rf"(?:[\w-]{{1,20}} )?{_UNITS}\b"
    rf"|\b(?:within|in|for|during) (?:an?|one|two|three|five|ten|\d{{1,4}}) {_UNITS}\b|\b{_UNITS} ago\b"
    rf"|\b(?:around|about|approximately|approx|roughly|circa|near|nearly|almost|shortly|just|soon|immediately|{_UNITS}),"
    rf"|\b{_UNITS} (?:before|after|past|since)\b"
    rf"|\b(?:in|of|during|since|until|till|before|after|from|early|late|mid) (?-i:{_NAMED_MONTH})\b"
    r"|\b(?:in|during|since|until|till|before|after|from) (?:19|20)\d\d\b(?![-/.:]|\s?(?:ms|m?sec|bytes?|[kmg]b))"
    r"|\bon (?:the )?\d{1,2}(?:st|nd|rd|th)\b"
    r"|\b(?:at|from|since|until|till|before|after|between) \d{1,2}(?:\.\d\d)?"
    r"(?=\Z|[?!.,]? ?\Z| ?(?:,|to\b|and\b|on\b|in\b|-))"
    r"|\b(?:since|after|before|until|till|during|while) "
    r"(?:the|an?|its|their|that|this|our|my|it|they|\w{2,20}ing)\b(?: \w{1,60})?"
    r"|(?<![\w.:])\d{1,2}:\d\d(?!\d)\w*|(?<![\w./:-])\d{1,2}[./]\d{1,2}[./]\d{2,4}(?![\w./:-])"
    r"|,{1,9} ?(?:(?-i:[A-Z]{1,4}T)\b|\w{1,20} time\b|or so\b|ish\b)"
)
"""A comma stands where a time that is understood was taken out."""


def untold_in(question: str) -> str:
    """Return the first words of a question that say when in a way that is not understood, nothing where none does.

    What it quotes, and the times that are understood, have to be taken out of it before.
    """
    found = _UNTOLD.search(" ".join(question.split()).replace(" ,", ","))
    return found[0].strip(" ,") if found else ""
