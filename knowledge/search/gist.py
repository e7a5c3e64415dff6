"""What a long error says went wrong: few of its lines.

Of a log or a stack trace most lines tell how the program got there. As a question or as a vector they outweigh both the
description of a failure and the one line that says what failed; another run of the same has others.
"""

from __future__ import annotations

import re

from knowledge.ends import both_ends
from knowledge.search.passing import without_passing
from knowledge.search.traces import read_trace

MOST_CHARS = 300
"""Characters of an error that are all read, and those kept of a longer one (docs/evaluation.md: 600 find less)."""

_MOST_READ = 16_000
"""Bytes of an error that are looked through, of its beginning and its end: a question has no more."""
_LONGEST_LINE = 200
_BEFORE = 60
"""Characters of a longer line that are kept before the word that says what went wrong."""

_MOST_OTHERS = 2
"""Lines besides: of a stack trace the code that failed."""
_OTHER = 2

_NAMED = re.compile(
    r"^(?:\w+\.)*\w*(?:Error|Exception|Failure|Fault|Panic)\b(?!\()|^E  |^Caused by\b|^panic: |^npm ERR!"
    r"|\b(?:ERROR|FATAL|CRITICAL|SEVERE|ERR!)|(?i:(?:^|[:\]] ?)(?:fatal )?error(?:\[\w+\])?:)"
)
"""A line that is there to say it: it begins with the name of an exception, or its level is that of an error."""

_SAYS = re.compile(
    r"(?i:\b(?:errors?|exception|fatal|fail(?:ed|ures?|s|ing)?|panic(?:ked)?|aborted|crashed|killed|segfault|oom"
    r"|cannot|can't|couldn't|could not|unable|denied|refused|rejected|forbidden|timed? ?out|timeout|conflict"
    r"|not found|no such|invalid|illegal|unexpected|undefined|unknown|unresolved|missing|violat(?:es|ion)|exceeded)\b)"
    r"|[a-z](?:Error|Exception)\b"
)
"""A word for it in any line."""


def gist(error: str) -> str:
    """Return an error, of one longer than `MOST_CHARS` the lines that say what went wrong, in order.

    First come those whose purpose that is, then those that speak of it, the first ones before later ones, then the last
    few of the others. Where no line says it, both ends are kept. What recurs, and the way there of a stack trace, is
    left out.
    """
    if len(error) <= MOST_CHARS:
        return error
    error = both_ends(error, _MOST_READ)
    trace = read_trace(error)
    lines = _distinct(trace.rest if trace else error)
    ranks = [_rank(line) for line in lines]
    others = [place for place, rank in enumerate(ranks) if rank == _OTHER]
    if len(others) == len(lines):
        return both_ends("\n".join(lines), MOST_CHARS)
    ordered = sorted((rank, place) for place, rank in enumerate(ranks) if rank != _OTHER)
    kept: dict[int, str] = {}
    left = MOST_CHARS
    for place in [*(place for _, place in ordered), *others[: -_MOST_OTHERS - 1 : -1]]:
        line = _shortened(lines[place])
        if kept and len(line) > left:
            break
        kept[place] = line
        left -= len(line) + 1
    return "\n".join(kept[place] for place in sorted(kept))


def _distinct(text: str) -> list[str]:
    """Return the lines of a text, each once: moments and ids make no other line of it."""
    first: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        first.setdefault(without_passing(line), line)
    return list(first.values())


def _rank(line: str) -> int:
    return 0 if _NAMED.search(line) else 1 if _SAYS.search(line) else _OTHER


def _shortened(line: str) -> str:
    if len(line) <= _LONGEST_LINE:
        return line
    says = _NAMED.search(line) or _SAYS.search(line)
    if says is None:
        return both_ends(line, _LONGEST_LINE, " ")
    start = max(0, min(says.start() - _BEFORE, len(line) - _LONGEST_LINE))
    return line[start : start + _LONGEST_LINE]
