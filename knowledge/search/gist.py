"""What a long error says went wrong: few of its lines.

Of a log or a stack trace most lines tell how the program got there. As a question or as a vector they outweigh both the
description of a failure and the one line that says what failed; another run of the same has others.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum

from knowledge.ends import both_ends
from knowledge.search.passing import without_passing
from knowledge.search.traces import read_trace

MOST_CHARS = 300
"""Characters of an error that are all read, and those kept of a longer one (docs/adr/0022: 600 find less)."""

_LONGEST_LINE = 130
"""Characters of a line that is one of several, both ends of a longer one: a reason stands at the end."""
_MOST_OF_A_LINE = 2_000
"""Bytes of a line that are looked at."""
_LONGEST_ALONE = 220
"""Characters of the one line that says it best."""
_LEAST = 60
"""Room for less of a line than this is left to a shorter one."""
_MOST_OTHERS = 2
"""Lines beside those that say it."""

_NAMED = re.compile(
    r"^(?:\w+\.)*\w*(?:Error|Exception|Failure|Fault|Panic)\b(?!\()|^E  |^Caused by\b|^npm ERR!|\bSIG[A-Z]{3,4}\b"
    r"|\b(?:ERROR|FATAL|PANIC|CRITICAL|SEVERE|ERR!)"
    r"|(?i:(?:^|[:\]] ?|\s)(?:fatal )?(?:error|panic)(?:\[\w+\]| [A-Z]+\d+)?:)"
    r"|(?i:\[(?:error|fatal|crit|emerg)\]|\s{2}error\s{2})"
)
"""A line that is there to say it: it begins with the name of an exception, or its level is that of an error."""

_SAYS = re.compile(
    r"(?i:\b(?:errors?|exception|fatal|fail(?:ed|ures?|s|ing)?|fault|panic(?:ked)?|aborted|crash(?:ed)?|killed|segfault|oom"
    r"|terminated|cannot|can't|couldn't|could not|unable|denied|refused|rejected|forbidden|timed? ?out|timeout|conflict"
    r"|not found|no such|invalid|illegal|unexpected|expected|undefined|unknown|unresolved|missing|mismatch|duplicate"
    r"|already exists|violat(?:es|ion)|exceeded|exhausted|insufficient|too (?:many|long|large|big)|truncated|overflow"
    r"|deadlock|out of|back ?off|unreachable|unsupported|not allowed)\b)"
)
"""A word for it in any line."""

_LOW = re.compile(
    r"(?:^|[\s\[|\"/:])(?:INFO|DEBUG|TRACE|LOG|NOTE|NOTICE|WARN(?:ING)?|PASS(?:ED)?|info|debug|warning|warn|note|ok)\b"
)
"""A line that says itself that it is no error."""

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_NONE_OF_IT = re.compile(r"(?i:\b0 (?:errors?|failures?|failed)\b|\b(?:errors?|failures?|failed):? ?0\b)")
_PLACE = re.compile(r"(?<!\S)\S*/\S*/\S*|(?<![\w-])[\w-]{1,80}\.[a-z]{1,4}\b")
"""A path, an address, a file: a word for a fault in its name says nothing."""
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_FRAME = re.compile(r"^[\s│┃|╷╵>*•●✕✖\u00d7]+")
_SPOKEN = re.compile(
    r'"(?:message|msg|err|error|exc|exception|exc_info|reason|detail|description|title)" ?: ?"((?:[^"\\]|\\.){1,2000})"'
)
"""What a line of a structured log says, in JSON."""
_OF_AN_ERROR = re.compile(r'"(?:level|severity|levelname)" ?: ?(?:"(?i:err(?:or)?|fatal|critical|alert)"|[56]0\b)')
_NUMBER = re.compile(r"(?<!\w)\d+")
_WORD = re.compile(r"\w")
_ANNOUNCES = 3
"""Words of a line that only says that something went wrong, at most: what did, the next one says."""


class _Worth(IntEnum):
    """How a line speaks of what went wrong, the most telling first."""

    NAMED = 0
    SAYS = 1
    SAYS_LOW = 2
    OTHER = 3


@dataclass(frozen=True, slots=True)
class _Line:
    """A line as it was told, what of it counts, and how it speaks of what went wrong."""

    told: str
    read: str
    worth: _Worth


def gist(error: str) -> str:
    """Return an error, of one longer than `MOST_CHARS` the lines that say what went wrong, in order.

    First come those whose purpose that is, then those that speak of it, of each kind by turns from the beginning and
    from the end: in a trace the cause is last, in a build first, and every log has lines of other errors. Then a few
    beside them. Where no line says it, both ends are kept. What recurs, what passes (moments, ids) and the way there of
    a stack trace is left out.
    """
    if len(error) <= MOST_CHARS:
        return error
    lines = _read(error)
    telling = _by_turns(lines)
    if not telling:
        return both_ends("\n".join(line.read for line in lines), MOST_CHARS)
    longest = _LONGEST_ALONE if _best_alone(lines) else _LONGEST_LINE
    kept: dict[int, str] = {}
    left = MOST_CHARS
    for place in (*telling, *_beside(telling, len(lines))):
        room = min(left, longest)
        longest = _LONGEST_LINE
        if len(lines[place].read) > room < _LEAST:
            continue
        kept[place] = both_ends(lines[place].read, room, " ")
        left -= len(kept[place]) + 1
    return "\n".join(kept[place] for place in sorted(kept))


def telling_lines(error: str, room: int, size: Callable[[str], int], without: Collection[str] = ()) -> list[str]:
    """Return the lines of an error that say what went wrong, as they stand in it and in order, each once.

    The most telling first, as for the gist, as many as have room by their `size`. Of a long one that has none, stays
    what the gist has of it. Lines of `without` are shown already.
    """
    lines = _read(error)
    kept: dict[int, str] = {}
    for place in _by_turns(lines):
        if lines[place].told in without:
            continue
        for shown in (lines[place].told, both_ends(lines[place].read, _LONGEST_LINE, " ")):
            if (taken := size(shown)) <= room:
                kept[place] = shown
                room -= taken
                break
    return [kept[place] for place in sorted(kept)]


def _read(error: str) -> list[_Line]:
    """Return the distinct lines of an error, but for the way there of a stack trace."""
    error = _COLOUR.sub("", error)
    trace = read_trace(error)
    distinct: dict[str, _Line] = {}
    announced = _Worth.OTHER
    for told in (trace.rest if trace else error).splitlines():
        said = both_ends(_spoken(told), _MOST_OF_A_LINE, " ")
        read = without_passing(_FRAME.sub("", said).strip()).removeprefix("_ ")
        if not _WORD.search(read) or (key := _NUMBER.sub("0", read)) in distinct:
            continue
        worth = _worth(read)
        distinct[key] = _Line(told, read, min(worth, announced))
        announced = worth if _announces(read) else _Worth.OTHER
    return list(distinct.values())


def _announces(line: str) -> bool:
    return line.endswith(":") or len(line.split()) <= _ANNOUNCES


def _spoken(line: str) -> str:
    """Return what a line says, where it is JSON."""
    if not line.lstrip().startswith("{"):
        return line
    said = " ".join(dict.fromkeys(found[1].partition("\\n")[0] for found in _SPOKEN.finditer(line)))
    return (f"error: {said}" if _OF_AN_ERROR.search(line) else said) or line


def _worth(line: str) -> _Worth:
    line = _NONE_OF_IT.sub("", line)
    if _NAMED.search(line):
        return _Worth.NAMED
    if not _SAYS.search(_CAMEL.sub(" ", _PLACE.sub(" ", line))):
        return _Worth.OTHER
    return _Worth.SAYS_LOW if _LOW.search(line) else _Worth.SAYS


def _by_turns(lines: Sequence[_Line]) -> list[int]:
    """Return the places of the lines that say what went wrong, the most telling kind first."""
    ordered: list[int] = []
    for kind in (_Worth.NAMED, _Worth.SAYS, _Worth.SAYS_LOW):
        if kind is _Worth.SAYS_LOW and ordered:
            break
        of_kind = deque(place for place, line in enumerate(lines) if line.worth is kind)
        while of_kind:
            ordered.append(of_kind.popleft())
            if of_kind:
                ordered.append(of_kind.pop())
    return ordered


def _best_alone(lines: Sequence[_Line]) -> bool:
    """Return whether one line says it better than all others."""
    best = min(line.worth for line in lines)
    return sum(line.worth is best for line in lines) == 1


def _beside(telling: Sequence[int], lines: int) -> list[int]:
    """Return the places next to such lines, behind them first: what was expected, the code that failed."""
    near = [place + step for step in (1, -1) for place in telling if 0 <= place + step < lines]
    return [place for place in dict.fromkeys(near) if place not in telling][:_MOST_OTHERS]
