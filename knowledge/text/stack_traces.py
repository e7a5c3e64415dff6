"""Stack traces in a text: the innermost frame, and the text without the outer frames.

Crash reports are usually grouped by exception type and the innermost frames (so do Sentry and Mozilla). Supported:
traces of Python, pytest, Java, JavaScript, C#, Go and Rust.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_PYTEST = re.compile(r"^(?P<file>\S+\.\w+)(?P<line>:\d+): in (?P<function>\S+)$")
_PYTHON = re.compile(r"^File \"(?P<file>[^\"]+)\"(?P<line>, line \d+), in (?P<function>\S+)$")
_AT = re.compile(r"^at (?:async |new )?(?P<function>\S+?)(?: \[.*\])? ?\((?P<file>[^()]*?)(?P<line>(?::\d+){0,2})\)$")
_DOTNET = re.compile(r"^at (?P<function>[^\s(]+)\([^()]*(?:\([^()]*\)[^()]*)*\) in (?P<file>\S.*)(?P<line>:line \d+)$")
_AT_FILE = re.compile(r"^at (?:async )?(?P<file>\S*\.[a-z]\w{0,4}|node:\S+?)(?P<line>:\d+:\d+)$")
_RUST_CALL = re.compile(r"^\d+: (?P<function>\S.*)$")
_GO_FILE = re.compile(r"^(?P<file>\S+\.go)(?P<line>:\d+(?: \+0x[0-9a-f]+)?)$")
_GO_CALL = re.compile(r"^(?P<function>\S+)\([^()]*\)$|^(?P<starter>created by \S+)(?: in goroutine \d+)?$")
_GOROUTINE = re.compile(r"^goroutine \d+(?= \[)")
_RUNTIME = re.compile(r"panic$|runtime\.|rust_begin_unwind$|(?:core|std)::")
"""Frames of the Go and Rust runtimes, between the panic and its origin."""

_MARKERS = frozenset("^~ \t")


@dataclass(frozen=True, slots=True)
class Frame:
    """A call: the function, and its line of code, or the file if the trace shows no code."""

    function: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The innermost frame, and the text without repeated lines and without the headers of the outer frames.

    `full` is the whole text. Both omit line numbers, which change when code above is edited.
    """

    innermost: Frame
    rest: str
    full: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class _Header:
    """A frame, and its lines in the trace, each mapped to its text without line numbers."""

    frame: Frame
    lines: Mapping[str, str]
    innermost_first: bool = True


def read_trace(text: str) -> Trace | None:
    """Return the stack trace in a text, None where there is none."""
    lines = [line for line in (each.strip() for each in text.splitlines()) if line and not _MARKERS.issuperset(line)]
    around = zip(["", *lines], lines, [*lines[1:], ""], strict=False)
    headers = [header for each in around if (header := _header(*each))]
    if not headers:
        return None
    inner = _innermost(headers)
    stable = {line: stable_text for header in headers for line, stable_text in header.lines.items()}
    outer = stable.keys() - inner.lines.keys()
    full = [stable.get(line) or _GOROUTINE.sub("goroutine", line) for line in lines]
    rest = dict.fromkeys(stable_text for line, stable_text in zip(lines, full, strict=True) if line not in outer)
    return Trace(innermost=inner.frame, rest="\n".join(rest), full="\n".join(full))


def _innermost(headers: list[_Header]) -> _Header:
    if not headers[-1].innermost_first:
        return headers[-1]
    first = [header for header in headers if header.innermost_first]
    return next((header for header in first if not _RUNTIME.match(header.frame.function)), first[0])


def _header(before: str, line: str, after: str) -> _Header | None:
    """Return the frame whose header is a line, or a line and the one before it."""
    if match := _PYTEST.match(line) or _PYTHON.match(line):
        return _Header(Frame(match["function"], after), {line: _without_number(match)}, innermost_first=False)
    if match := _AT.match(line) or _DOTNET.match(line):
        return _Header(Frame(match["function"], match["file"]), {line: _without_number(match)})
    if match := _AT_FILE.match(line):
        call = _RUST_CALL.match(before)
        function = call["function"] if call else ""
        lines = {line: _without_number(match)}
        return _Header(Frame(function, match["file"]), lines | ({before: function} if call else {}))
    if (match := _GO_FILE.match(line)) and (call := _GO_CALL.match(before)):
        function = call["function"] or call["starter"]
        return _Header(Frame(function, match["file"]), {before: function, line: _without_number(match)})
    return None


def _without_number(header: re.Match[str]) -> str:
    """Return the header of a frame without its line number, the group `line` of all patterns."""
    begin, end = header.span("line")
    return header.string[:begin] + header.string[end:]
