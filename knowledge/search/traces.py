"""Stack traces in a text: where a program failed, by the innermost frame, and the text without the way there.

Crash reports are usually told apart by exception type and the innermost frames (so do Sentry's and Mozilla's grouping).
Read are Python's own traces, pytest's, and those of Java and JavaScript.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PYTEST = re.compile(r"^(\S+\.\w+):(\d+): in (\S+)$")
_PYTHON = re.compile(r"^File \"([^\"]+)\", line (\d+), in (\S+)$")
_AT = re.compile(r"^at (\S+?)(?: \[.*\])? ?\(([^()]*?)(?::\d+)*\)$")
_MARKERS = frozenset("^~ \t")


@dataclass(frozen=True, slots=True)
class Frame:
    """A call: the function, and the line of code it stood at, or the file where the trace shows no code."""

    function: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The innermost frame, and the text without repeated lines and without the headers of the outer frames."""

    innermost: Frame
    rest: str


def read_trace(text: str) -> Trace | None:
    """Return the stack trace in a text, None where there is none."""
    lines = [line for line in (each.strip() for each in text.splitlines()) if line and not _MARKERS.issuperset(line)]
    frames: list[Frame] = []
    headers: list[str] = []
    innermost_first = False
    for at, line in enumerate(lines):
        following = lines[at + 1] if at + 1 < len(lines) else ""
        if match := _PYTEST.match(line) or _PYTHON.match(line):
            frames.append(Frame(match.group(3), following))
        elif match := _AT.match(line):
            innermost_first = True
            frames.append(Frame(match.group(1), match.group(2)))
        else:
            continue
        headers.append(line)
    if not frames:
        return None
    inner = 0 if innermost_first else -1
    outer = set(headers) - {headers[inner]}
    rest = "\n".join(dict.fromkeys(line for line in lines if line not in outer))
    return Trace(innermost=frames[inner], rest=rest)
