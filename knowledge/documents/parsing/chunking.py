"""Split documents into passages with positions, each kind of document at its own boundaries. Pure.

Lengths are estimated tokens: four characters each, three in text with much punctuation.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Final

from hardwon.models.documents import DocumentType, LogLine, Severity
from knowledge.documents.models import Chunk
from knowledge.documents.parsing.decode import MAX_NAME_CHARS, front_matter_end
from knowledge.documents.ports import ParsedDocument
from knowledge.formats.csv_tables import tables
from knowledge.formats.headings import BELOW, headings, text_lines

CHUNK_TOKENS: Final = 512
OVERLAP_TOKENS: Final = 128
_PROSE_CHARS_PER_TOKEN: Final = 4
_DENSE_CHARS_PER_TOKEN: Final = 3

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|\n+")
_DEFINITION = re.compile(
    r"(?:export\s+|default\s+|public\s+|private\s+|protected\s+|static\s+|abstract\s+|final\s+|async\s+|pub(?:\([^)]*\))?\s+)*"
    r"(?:def|class|function|func|fn|interface|struct|enum|impl|trait|module|namespace|object|sub|procedure"
    r"|CREATE(?: OR REPLACE)? (?:TABLE|FUNCTION|VIEW|INDEX|PROCEDURE))\s+(?:\([^)]*\)\s*)?([\w.$]+(?:::\w+)*)"
)
_DECORATIONS = ("@", "#", "//", "/*", "*", "--")
_BRACKETED = re.compile(r"^\[++([^\]\n]+)\]+[ \t]*$", re.MULTILINE)
_DOCUMENT = re.compile(r"---(?:\s|$)")
_SECTION = re.compile(r"\[++([^\]]+)\]+\s*$|([A-Za-z_][\w.-]*)\s*[:={]|\s{0,2}\"([^\"]+)\"\s*:\s*[\[{]")

_CutPoints = Callable[[str], Iterator[tuple[int, bool]]]
"""Yields offsets where a text may be cut, and whether the piece that ends there must stay whole."""


@dataclass(frozen=True, slots=True)
class _Block:
    """A contiguous part of a text."""

    start: int
    end: int
    section: str | None = None
    function: str | None = None
    whole: bool = False
    """It ends a document of several in a file."""
    lines: Sequence[LogLine] = ()
    """The lines of a log that it stands for."""


def split_document(
    parsed: ParsedDocument, lines: Sequence[LogLine] = (), *, tokens: int = CHUNK_TOKENS, most: int | None = None
) -> tuple[Chunk, ...]:
    """Return the passages of a document, or the first `most`, at most `tokens` long each, in the order of the text.

    `lines` are those of a log, which has a passage for each template of its entries: the first one of that kind, with
    the times of all. Other passages hold together the whole text, except for white space between them and the front
    matter of Markdown.
    """
    text = parsed.text
    match parsed.document_type:
        case DocumentType.LOG:
            spans = _kinds_of_entries(lines, tokens * _DENSE_CHARS_PER_TOKEN)
        case DocumentType.MARKDOWN:
            spans = _split_long_blocks(text, _sections(text), tokens * _PROSE_CHARS_PER_TOKEN, _sentences_and_rows)
        case DocumentType.CODE:
            spans = _split_long_blocks(text, _definitions(text), tokens * _DENSE_CHARS_PER_TOKEN, _line_ends)
        case DocumentType.CONFIG:
            spans = _split_long_blocks(
                text, _merge_small(_settings(text), tokens), tokens * _DENSE_CHARS_PER_TOKEN, _line_ends
            )
        case DocumentType.TEXT:
            spans = _split_long_blocks(text, [_Block(0, len(text))], tokens * _PROSE_CHARS_PER_TOKEN, _sentences)
    return tuple(islice(_chunks(parsed, spans), most))


def _chunks(parsed: ParsedDocument, spans: Iterable[_Block]) -> Iterator[Chunk]:
    text = parsed.text
    line, at, ordinal, page = 1, 0, 0, 0
    columns = _columns(parsed)
    for block in spans:
        start, end = _trim(text, block.start, block.end)
        if start >= end:
            continue
        line, at = line + text.count("\n", at, start) if start >= at else line - text.count("\n", start, at), start
        while page < len(parsed.pages) and parsed.pages[page] <= start:
            page += 1
        last = line + text.count("\n", start, end)
        chunk = Chunk(
            text=text[start:end],
            ordinal=ordinal,
            char_start=start,
            char_end=end,
            line_start=line,
            line_end=last,
            section=block.section,
            function=block.function or columns(start),
            page=page or None,
        )
        yield _with_times(chunk, block.lines) if block.lines else chunk
        ordinal += 1


def _columns(parsed: ParsedDocument) -> Callable[[int], str | None]:
    """Return a function from an offset within a table to the names of the columns: rows say little without them."""
    known = list(tables(parsed.text)) if parsed.document_type is DocumentType.MARKDOWN else []
    starts = [each.start for each in known]

    def of(start: int) -> str | None:
        at = bisect_right(starts, start) - 1
        found = known[at] if at >= 0 else None
        if found is None or start >= found.end or (start == found.start and not found.bare):
            return None
        return found.columns[:MAX_NAME_CHARS]

    return of


def _with_times(chunk: Chunk, lines: Sequence[LogLine]) -> Chunk:
    times = [line.timestamp for line in lines if line.timestamp is not None]
    severities = {line.severity for line in lines if line.severity is not None}
    return replace(
        chunk,
        timestamp=min(times, default=None),
        until=max(times, default=None),
        severities=tuple(severity for severity in Severity if severity in severities),
    )


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without blank lines around it; the indentation of the first line stays."""
    piece = text[start:end]
    end -= len(piece) - len(piece.rstrip())
    lead = len(piece) - len(piece.lstrip())
    return start + (piece.rfind("\n", 0, lead) + 1 if lead else 0), end


def _split_long_blocks(text: str, blocks: Iterable[_Block], longest: int, ends: _CutPoints) -> Iterator[_Block]:
    """Yield blocks, long ones split at the ends of sentences or lines, with an overlap of a quarter."""
    overlap = longest * OVERLAP_TOKENS // CHUNK_TOKENS
    for block in blocks:
        if block.end - block.start <= longest:
            yield block
            continue
        marks = array("q", [block.start])  # many, where all lines are empty
        marks.extend(block.start + end for end in _find_cut_points(ends, text[block.start : block.end], longest))
        first = 0
        while first < len(marks) - 1:
            last = first + 1
            while last < len(marks) - 1 and marks[last + 1] - marks[first] <= longest:
                last += 1
            yield replace(block, start=marks[first], end=marks[last])
            if last == len(marks) - 1:
                break
            following = last
            while following - 1 > first and marks[last] - marks[following - 1] <= overlap:
                following -= 1
            first = following


def _find_cut_points(ends: _CutPoints, text: str, longest: int) -> Iterator[int]:
    """Yield the ends of the pieces of a text, ascending, its own last.

    A piece has at most a quarter of `longest` characters; one that must stay whole at most `longest`.
    """
    before = 0
    for end, whole in chain(ends(text), [(len(text), False)]):
        piece = longest if whole else max(1, longest // 4)
        while end - before > piece:
            blank = text.rfind(" ", before + piece // 2, before + piece)
            before = blank + 1 if blank > before else before + piece
            yield before
        if end > before:
            before = end
            yield before


def _sentences(text: str) -> Iterator[tuple[int, bool]]:
    return ((found.end(), False) for found in _SENTENCE_END.finditer(text))


def _sentences_and_rows(text: str) -> Iterator[tuple[int, bool]]:
    """Yield the ends of sentences and of the rows of tables, which must stay whole."""
    for at, line in text_lines(text):
        stripped = line.strip(" \t")
        row = len(stripped) > 1 and stripped.startswith("|") and stripped.endswith("|")
        if not row:
            yield from ((at + found.end(), False) for found in _SENTENCE_END.finditer(line))
        yield min(at + len(line) + 1, len(text)), row


def _line_ends(text: str) -> Iterator[tuple[int, bool]]:
    return ((found.end(), False) for found in re.finditer("\n", text))


def _sections(text: str) -> Iterator[_Block]:
    """Yield the sections of Markdown with the path of their headings."""
    path: list[tuple[int, str]] = []
    start, name = front_matter_end(text), None
    for at, depth, title in headings(text, start):
        if text[start:at].strip():
            yield _Block(start, at, section=name)
        path = [*(each for each in path if each[0] < depth), (depth, title[:MAX_NAME_CHARS])]
        start, name = at, _path([title for _, title in path])
    if text[start:].strip():
        yield _Block(start, len(text), section=name)


def _path(titles: Sequence[str]) -> str:
    """Return a path of headings, without the outermost ones if it is too long."""
    path = BELOW.join(titles)
    return path if len(path) <= MAX_NAME_CHARS else _path(titles[1:])


def _definitions(text: str) -> Iterator[_Block]:
    """Yield the definitions of code with their names, including decorators and comments directly above."""
    start, name, outer, above = 0, None, "", None
    for at, line in text_lines(text):
        stripped = line.lstrip()
        found, indent = _DEFINITION.match(stripped), len(line) - len(stripped)
        if found is None or indent > 4:
            decorates = stripped.startswith(_DECORATIONS)
            above = (at if above is None else above) if decorates else None
            continue
        begin, above = at if above is None else above, None
        if text[start:begin].strip():
            yield _Block(start, begin, function=name)
        own = found[1][:MAX_NAME_CHARS]
        outer = own if indent == 0 else outer
        start, name = begin, own if indent == 0 or not outer else f"{outer}.{own}"[:MAX_NAME_CHARS]
    if text[start:].strip():
        yield _Block(start, len(text), function=name)


def _settings(text: str) -> Iterator[_Block]:
    """Yield the top-level sections of a configuration: those in brackets, else its top-level keys."""
    start, name = 0, None
    bracketed = _BRACKETED.search(text) is not None
    for at, line in text_lines(text):
        if _DOCUMENT.match(line):  # another document of the same file begins: nothing of it belongs to the one before
            if text[start:at].strip():
                yield _Block(start, at, section=name, whole=True)
            start, name = at, None
            continue
        found = _SECTION.match(line)
        inner = name is not None and line.startswith(" ") and found is not None and not found[3]
        if found is None or inner or (bracketed and not found[1]):
            continue
        if text[start:at].strip():
            yield _Block(start, at, section=name)
            start = at
        name = (found[1] or found[2] or found[3])[:MAX_NAME_CHARS]
    if text[start:].strip():
        yield _Block(start, len(text), section=name)


def _merge_small(blocks: Iterable[_Block], tokens: int) -> Iterator[_Block]:
    """Yield blocks with small adjacent sections merged, with all their names."""
    enough = tokens * _DENSE_CHARS_PER_TOKEN // 4
    pending: list[_Block] = []
    for block in blocks:
        pending.append(block)
        if block.whole or block.end - pending[0].start >= enough:
            yield _merge_blocks(pending)
            pending = []
    if pending:
        yield _merge_blocks(pending)


def _merge_blocks(blocks: Sequence[_Block]) -> _Block:
    names = list(dict.fromkeys(block.section for block in blocks if block.section))
    return _Block(blocks[0].start, blocks[-1].end, section=", ".join(names) or None)


def _kinds_of_entries(lines: Sequence[LogLine], longest: int) -> Iterator[_Block]:
    """Yield the first entry of each kind, with the lines of all that are like it, in the order of the text."""
    kinds: dict[tuple[str, ...], tuple[int, int]] = {}
    alike: dict[tuple[str, ...], list[LogLine]] = defaultdict(list)
    for start, entry in _entries(lines):
        kind = tuple(line.template for line in entry[:2])
        kinds.setdefault(kind, (start, start + sum(len(line.text) + 1 for line in entry) - 1))
        alike[kind] += entry
    for kind, (start, end) in kinds.items():
        for at in range(start, end, longest):  # an entry may be longer than a passage
            yield _Block(at, min(at + longest, end), lines=alike[kind])


def _entries(lines: Sequence[LogLine]) -> Iterator[tuple[int, list[LogLine]]]:
    """Yield the entries of a log with their offsets: a line with a time, and those below it without one.

    Where most lines have no time, each line is an entry.
    """
    timed = 2 * sum(line.timestamp is not None for line in lines) > len(lines)
    entry: list[LogLine] = []
    start = at = 0
    for line in lines:
        if entry and (line.timestamp is not None or not timed):
            yield start, entry
            entry, start = [], at
        entry.append(line)
        at += len(line.text) + 1
    if entry:
        yield start, entry
