"""Volatile parts of a text, which differ in each run: timestamps, ids, memory addresses, temporary files.

Numbers that describe what happened are not volatile: versions, ports, exit and error codes, limits.
"""

from __future__ import annotations

import re

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?(?![\w:])"
_VOLATILE = re.compile(
    rf"(?<!\w)(?:(?<![:.=])(?:\d{{4}}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z\b| ?[+-]\d\d:?\d\d\b)?"
    rf"|{_MONTH} [ \d]\d {_CLOCK}|\d\d/{_MONTH}/\d{{4}}:{_CLOCK}(?: [+-]\d{{4}})?|{_CLOCK})"
    r"|(?:0x(?!f{8})[0-9a-f]{9,16}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b"
    r"|(?P<address>at |addr=|pc=|sp=)0x[0-9a-f]{5,}\b"
    r"|(?<![.-])(?![8c]0[0-9a-f]{6}\b)(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}(?![\w.-])"
    r"|(?<!\.)\d+(?:\.\d+ ?ms|\.\d\d+ ?s(?:ec(?:ond)?s?)?)\b"
    r"|(?P<number>(?:pid|process|thread|goroutine|job|connection)(?: id)?[ =:#-]{1,3})\d+(?![\w.:]))"
    r"|(?P<folder>/tmp/)(?:tmp[\w.-]+|[\w.-]*?\d{5,}[\w.-]*)|(?P<proc>/proc/)\d+\b",
    re.IGNORECASE,
)
"""No match: dates without a time, since API versions are dates; Windows error codes, which begin with 8 or c."""


def mask_volatile(text: str) -> str:
    """Return a text with each volatile part replaced by `_`."""
    return _VOLATILE.sub(lambda match: f"{match[match.lastgroup] if match.lastgroup else ''}_", text)
