"""What is another one each time that the same thing happens: moments, ids, addresses, names of temporary files.

Numbers that say what happened are none: versions, ports, codes of exits and errors, limits that somebody set.
"""

from __future__ import annotations

import re

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?(?![\w:])"
_PASSING = re.compile(
    rf"(?<![\w:.=])(?:\d{{4}}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z\b| ?[+-]\d\d:?\d\d\b)?"
    rf"|{_MONTH} [ \d]\d {_CLOCK}|\d\d/{_MONTH}/\d{{4}}:{_CLOCK}(?: [+-]\d{{4}})?|{_CLOCK})"
    r"|\b(?:0x(?!f{8})[0-9a-f]{9,16}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b"
    r"|(?P<address>\b(?:at |addr=|pc=|sp=))0x[0-9a-f]{5,}\b"
    r"|(?<![\w.-])(?![8c]0[0-9a-f]{6}\b)(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}(?![\w.-])"
    r"|(?P<folder>/tmp/)(?:tmp[\w.-]+|[\w.-]*?\d{5,}[\w.-]*)|(?P<proc>/proc/)\d+\b"
    r"|(?<![\w.])\d+(?:\.\d+ ?ms|\.\d\d+ ?s(?:ec(?:ond)?s?)?)\b"
    r"|(?P<number>\b(?:pid|process|thread|goroutine|job|connection)(?: id)?[ =:#-]{1,3})\d+(?![\w.:])",
    re.IGNORECASE,
)
"""A date alone is none, since versions of interfaces are dates; nor is a code of Windows, which begins with 8 or c."""


def without_passing(text: str) -> str:
    """Return a text with one mark in the place of each of these."""
    return _PASSING.sub(lambda found: f"{found[found.lastgroup] if found.lastgroup else ''}_", text)
