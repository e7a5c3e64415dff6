"""The gist of a long error: the few lines that say what went wrong.

Most lines of a log or a stack trace describe how the program got there. In a query or an embedding they outweigh both
the description of the failure and the line that names the cause, and they differ between runs.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import IntEnum

from hardwon.text.truncation import truncate_middle
from knowledge.text.stack_traces import read_trace
from knowledge.text.volatile import mask_volatile

_MAX_CHARS_READ = 8_000
"""Characters read of a text, from both ends (our choice)."""
_CODE = re.compile(
    r"(?:^[ \t]*|\[|:\d{1,6}:(?:\d{1,6}:)? ?|(?i:\b(?:error|err|fatal|warning|exception|panic|code)\b)[ \t:#=(\[]{1,3})"
    r"(?P<kind>(?:ORA|TNS|PLS|RMAN)-(?=\d{5}\b)|[A-Z]{1,6}(?=\d{3,5}\b))(?P<number>\d{3,5})(?=[:\])]|[ \t]|$)",
    re.MULTILINE,
)
"""A code where errors are reported: at the start of a line, after a file position, in brackets, after a word such as
`error`. Elsewhere such strings may name anything: a ticket, a standard, a card."""
Codes = Mapping[str, AbstractSet[str]]


def error_codes(text: str) -> Codes:
    """Return the error codes in a text by kind, which is the letters before the number."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for code in _CODE.finditer(truncate_middle(text, _MAX_CHARS_READ)):
        found[code["kind"]].add(code["number"])
    return found


def is_different_error(query_codes: Codes, text_codes: Codes) -> bool:
    """Return whether two texts have codes of a common kind, but no code in common."""
    common = query_codes.keys() & text_codes.keys()
    return bool(common) and not any(query_codes[kind] & text_codes[kind] for kind in common)


MAX_CHARS = 300
"""Longest error that is used in full, and length of the gist of a longer one (docs/adr/0022: 600 finds less)."""
_MAX_LINE_CHARS = 130
"""Characters of one line among several; a longer one is cut in the middle, since the reason is often at its end."""
_MAX_LINE_READ = 2_000
"""Bytes of a line that are examined."""
_MAX_SINGLE_LINE_CHARS = 220
"""Characters of a line that is clearly the best one."""
_MIN_ROOM = 60
"""Lines are not cut shorter than this; the room is left to a shorter line."""
_MAX_NEIGHBOURS = 2
"""Neighbouring lines that are added, at most."""
_NAMED = re.compile(
    r"^(?:\w+\.)*\w*(?:Error|Exception|Failure|Fault|Panic)\b(?!\()|^E  |^Caused by\b|^npm ERR!|\bSIG[A-Z]{3,4}\b"
    r"|\b(?:ERROR|FATAL|PANIC|CRITICAL|SEVERE|ERR!)"
    r"|(?i:(?:^|[:\]] ?|\s)(?:fatal )?(?:error|panic)(?:\[\w+\]| [A-Z]+\d+)?:)"
    r"|(?i:\[(?:error|fatal|crit|emerg)\]|\s{2}error\s{2})"
)
"""A line that reports an error: it begins with an exception's name, or its log level is an error."""
_SAYS = re.compile(
    r"(?i:\b(?:errors?|exception|fatal|fail(?:ed|ures?|s|ing)?|fault|panic(?:ked)?|aborted|crash(?:ed)?|killed|segfault|oom"
    r"|terminated|cannot|can't|couldn't|could not|unable|denied|refused|rejected|forbidden|timed? ?out|timeout|conflict"
    r"|not found|no such|invalid|illegal|unexpected|expected|undefined|unknown|unresolved|missing|mismatch|duplicate"
    r"|already exists|violat(?:es|ion)|exceeded|exhausted|insufficient|too (?:many|long|large|big)|truncated|overflow"
    r"|deadlock|out of|back ?off|unreachable|unsupported|not allowed)\b)"
)
"""A word for a failure anywhere in a line."""
_LOW = re.compile(
    r"(?:^|[\s\[|\"/:])(?:INFO|DEBUG|TRACE|LOG|NOTE|NOTICE|WARN(?:ING)?|PASS(?:ED)?|info|debug|warning|warn|note|ok)\b"
)
"""A line whose log level is not an error."""
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_NO_FAILURES = re.compile(r"(?i:\b0 (?:errors?|failures?|failed)\b|\b(?:errors?|failures?|failed):? ?0\b)")
_PLACE = re.compile(r"(?<!\S)\S*/\S*/\S*|(?<![\w-])[\w-]{1,80}\.[a-z]{1,4}\b")
"""A path, URL or file, where a word for a failure means nothing."""
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_FRAME = re.compile(r"^[\s│┃|╷╵>*•●✕✖\u00d7]+")
_JSON_MESSAGE = re.compile(
    r'"(?:message|msg|err|error|exc|exception|exc_info|reason|detail|description|title)" ?: ?"((?:[^"\\]|\\.){1,2000})"'
)
"""The message in a line of a structured log, in JSON."""
_JSON_ERROR_LEVEL = re.compile(r'"(?:level|severity|levelname)" ?: ?(?:"(?i:err(?:or)?|fatal|critical|alert)"|[56]0\b)')
_NUMBER = re.compile(r"(?<!\w)\d+")
_WORD = re.compile(r"\w")
_MAX_HEADING_WORDS = 3
"""Words of a line that only announces an error, at most; the next line names it."""


_LOG_LINE = re.compile(
    r"\s{0,60}\[?(?:\d{4}[-/.]\d\d[-/.]\d\d[T _]|\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"
    r"|\d{1,12}\.\d{3,12}\])"
    r"|.{0,60}?(?<![A-Za-z'\"])(?:INFO|DEBUG|TRACE|WARN(?:ING)?|ERROR|FATAL|CRITICAL|SEVERE|NOTICE|ERR!)(?![A-Za-z])"
    r"|.{0,60}?(?:\blevel=|\[(?:info|debug|warn(?:ing)?|error|notice|fatal)\])|\s{0,60}\{\s{0,60}\"\w{1,60}\" ?:"
    r"|npm (?:warn|error|notice)\b|.{0,300}\"(?:GET|POST|PUT|PATCH|DELETE|HEAD) /\S{0,300} HTTP/"
    r"|#\d{1,9} (?:\d{1,9}\.\d|\[|DONE|CACHED)|> Task :|[=_-]{3}|E  |>  |\s{0,60}[✓✔✕✖\u00d7●○]\s"
    r"|\s{0,60}(?:PASS(?:ED)?|FAIL(?:ED)?|SKIP(?:PED)?|RUNS?|ok|not ok)\b|.{0,300}\b(?:PASSED|FAILED|SKIPPED|XFAIL)\b"
    r"|\S{1,200}\.\w{1,60}::\S|test \S{1,200} \.\.\. \w|\S{1,200}\.\w{1,60} [.FEsx]{2}|\S{1,200}:\d{1,9}(?::\d{1,9})?: "
    r"|[\w.]{1,120}(?:Error|Exception): "
    r"|\s{0,60}(?:at \S|File \"|Caused by:|Traceback \(|goroutine \d|\.{3} \d{1,9} more)"
    r"|\s{0,60}(?:Collecting|Downloading|Installing|Compiling|Building|Running|Checking|Resolving|Get:\d|Step \d+)\b"
)
"""A line as programs write it: with a time, a level, a test's result, a stack frame, a position, or a build's step."""
_MIN_LOG_LINES = 10
_MIN_LOG_CHARS = 2 * MAX_CHARS
_MIN_LOG_SHARE = 0.6
"""Our choices: prose with a few quoted lines is no log, and what an error's gist holds needs no shortening."""


def log_start(text: str) -> int | None:
    """Return where the log in a text begins that makes up most of its lines; None where there is none.

    A line that is indented deeper than the line of the log before it belongs to it.
    """
    if len(text) < _MIN_LOG_CHARS or text.count("\n") < _MIN_LOG_LINES:
        return None
    first: int | None = None
    place, logged, lines = 0, 0, 0
    indent: int | None = None
    for line in text.splitlines(keepends=True):
        if stripped := line.lstrip():
            depth = len(line) - len(stripped)
            if _LOG_LINE.match(line[:_MAX_LINE_READ]):
                indent = depth
                first = place if first is None else first
            elif indent is not None and depth <= indent:
                indent = None
            lines, logged = lines + 1, logged + (indent is not None)
        place += len(line)
    return first if logged >= max(_MIN_LOG_LINES, _MIN_LOG_SHARE * lines) else None


class _Worth(IntEnum):
    """Rank of a line by how clearly it names the error, the best first."""

    NAMED = 0
    SAYS = 1
    SAYS_LOW = 2
    OTHER = 3


@dataclass(frozen=True, slots=True)
class _Line:
    """A line: the original, the normalised text that counts, and its rank."""

    original: str
    text: str
    worth: _Worth


def gist(error: str) -> str:
    """Return an error, or, if it is longer than `MAX_CHARS`, the lines of it that say what went wrong, in order.

    Lines that report an error are preferred to those that mention one. Each kind is taken alternately from the
    beginning and the end: the cause is last in a trace, first in a build, and every log has lines of other errors. Then
    a few neighbouring lines are added. Without any such line both ends are kept. Repetitions, volatile parts and the
    outer frames of stack traces are left out.
    """
    if len(error) <= MAX_CHARS:
        return error
    lines = _read(error)
    selected = _rank_lines(lines)
    if not selected:
        return truncate_middle("\n".join(line.text for line in lines), MAX_CHARS)
    limit = _MAX_SINGLE_LINE_CHARS if _has_single_best(lines) else _MAX_LINE_CHARS
    excerpt: dict[int, str] = {}
    left = MAX_CHARS
    for index in (*selected, *_neighbours(selected, len(lines))):
        room = min(left, limit)
        limit = _MAX_LINE_CHARS
        if len(lines[index].text) > room < _MIN_ROOM:
            continue
        excerpt[index] = truncate_middle(lines[index].text, room, " ")
        left -= len(excerpt[index]) + 1
    return "\n".join(excerpt[index] for index in sorted(excerpt))


def error_lines(error: str, room: int, size: Callable[[str], int], without: Collection[str] = ()) -> list[str]:
    """Return the distinct lines of an error that say what went wrong, verbatim and in order.

    Selected by rank as for the gist, as many as fit into `room` by their `size`. A line that is too long is shortened
    as in the gist. Lines of `without` are excluded.
    """
    lines = _read(error)
    excerpt: dict[int, str] = {}
    for index in _rank_lines(lines):
        if lines[index].original in without:
            continue
        for shown in (lines[index].original, truncate_middle(lines[index].text, _MAX_LINE_CHARS, " ")):
            if (used := size(shown)) <= room:
                excerpt[index] = shown
                room -= used
                break
    return [excerpt[index] for index in sorted(excerpt)]


def _read(error: str) -> list[_Line]:
    """Return the distinct lines of an error, without the outer frames of a stack trace."""
    error = _COLOUR.sub("", error)
    trace = read_trace(error)
    distinct: dict[str, _Line] = {}
    inherited = _Worth.OTHER
    for original in (trace.rest if trace else error).splitlines():
        message = truncate_middle(_json_message(original), _MAX_LINE_READ, " ")
        text = mask_volatile(_FRAME.sub("", message).strip()).removeprefix("_ ")
        if not _WORD.search(text) or (key := _NUMBER.sub("0", text)) in distinct:
            continue
        worth = _worth(text)
        distinct[key] = _Line(original, text, min(worth, inherited))
        inherited = worth if _is_heading(text) else _Worth.OTHER
    return list(distinct.values())


def _is_heading(line: str) -> bool:
    return line.endswith(":") or len(line.split()) <= _MAX_HEADING_WORDS


def _json_message(line: str) -> str:
    """Return the message of a line in JSON, and other lines unchanged."""
    if not line.lstrip().startswith("{"):
        return line
    message = " ".join(dict.fromkeys(match[1].partition("\\n")[0] for match in _JSON_MESSAGE.finditer(line)))
    return (f"error: {message}" if _JSON_ERROR_LEVEL.search(line) else message) or line


def _worth(line: str) -> _Worth:
    line = _NO_FAILURES.sub("", line)
    if _NAMED.search(line):
        return _Worth.NAMED
    if not _SAYS.search(_CAMEL.sub(" ", _PLACE.sub(" ", line))):
        return _Worth.OTHER
    return _Worth.SAYS_LOW if _LOW.search(line) else _Worth.SAYS


def _rank_lines(lines: Sequence[_Line]) -> list[int]:
    """Return the indices of the lines that say what went wrong, the best kind first."""
    ordered: list[int] = []
    for kind in (_Worth.NAMED, _Worth.SAYS, _Worth.SAYS_LOW):
        if kind is _Worth.SAYS_LOW and ordered:
            break
        of_kind = deque(index for index, line in enumerate(lines) if line.worth is kind)
        while of_kind:
            ordered.append(of_kind.popleft())
            if of_kind:
                ordered.append(of_kind.pop())
    return ordered


def _has_single_best(lines: Sequence[_Line]) -> bool:
    """Return whether exactly one line has the best rank."""
    best = min(line.worth for line in lines)
    return sum(line.worth is best for line in lines) == 1


def _neighbours(selected: Sequence[int], lines: int) -> list[int]:
    """Return the indices next to the selected lines, following ones first: expected values, the failing code."""
    near = [index + step for step in (1, -1) for index in selected if 0 <= index + step < lines]
    return [index for index in dict.fromkeys(near) if index not in selected][:_MAX_NEIGHBOURS]


_MAX_SIGNATURE_LINES = 4
"""Lines of a signature; ours: a trace with its causes has two or three."""
_MAX_END_CHARS = 8_000
"""Characters read of a text, from each end."""
_MIN_SIGNATURE_WORDS = 2
"""Words of a signature: `AssertionError` alone is said of anything."""
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_HOST = re.compile(
    r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/'\"<>)\]]+|\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?|\blocalhost\b(?::\d+)?"
)
_DIRECTORY = re.compile(r"(?:\b[A-Za-z]:)?[\w.~@+-]{0,80}[/\\](?:[\w.~@+-]{1,80}[/\\])*")
_VARYING = re.compile(
    r"(?P<code>\b(?:code|status|errno|signal|exit(?:ed with)?|http(?:/\d(?:\.\d)?)?|sqlstate|error(?= \d{3,5}\b))"
    r"(?: code)?[ :=#(\[]{0,3}\d+)"
    r"|0x[0-9a-f]+|\b(?=[a-z]*\d)(?=\d*[a-z])[a-z0-9]{8,}\b(?!\.)|(?<=_)\d{2,}|(?<!\w)(?<!(?-i:[A-Z]{2})-)\d+(?:[.,:]\d+)*",
    re.IGNORECASE,
)
"""A number that is no code: a line, a port, a limit, an id that mixes letters and digits."""


def error_signature(error: str | None, description: str = "") -> str:
    """Return the lines that name an error, without what differs between two runs of it; empty where none does.

    Masked are directories, hosts, ids, addresses, times and numbers; names, messages, and the codes of errors stay.

    Of a description, which says more than its error, only lines that name one count.
    """
    if error and error.strip():
        _, lines = _best_lines(_both_ends(error))
    else:
        names_error, lines = _best_lines(_both_ends(description))
        lines = lines if names_error else []
    masked = dict.fromkeys(_mask_line(line) for line in lines[:_MAX_SIGNATURE_LINES])
    signature = "\n".join(line for line in masked if line)
    return signature if len(_LETTERS.findall(signature)) >= _MIN_SIGNATURE_WORDS else ""


def _best_lines(text: str) -> tuple[bool, list[str]]:
    """Return whether a text names an error, and its distinct lines that say best what went wrong, masked, in order.

    All lines of a text that says nothing of the kind.
    """
    lines = _read(text)
    best = min((line.worth for line in lines), default=_Worth.OTHER)
    return best is _Worth.NAMED, [line.text for line in lines if line.worth is best]


def _mask_line(line: str) -> str:
    line = _DIRECTORY.sub("", _HOST.sub("_", line))
    line = _VARYING.sub(lambda match: match["code"] or "0", line)
    return " ".join(line.casefold().split())


def _both_ends(text: str) -> str:
    return text if len(text) <= 2 * _MAX_END_CHARS else f"{text[:_MAX_END_CHARS]}\n{text[-_MAX_END_CHARS:]}"
