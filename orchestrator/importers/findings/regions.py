"""Replacements of a fix in words, by the columns of their region: which text goes, and which one comes.

SARIF 2.1.0, 3.30: lines and columns begin at 1, an end column is the first one that is left alone, and an end at
column 1 means that the line before is the last one that goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

ColumnKind = Literal["bytes", "utf16CodeUnits", "unicodeCodePoints"]

_BRACKETS = {")": "(", "]": "[", "}": "{"}
_QUOTED = re.compile(r"""(["'`])(?:\\.|(?!\1).)*\1""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A region by lines and columns; without columns it is whole lines."""

    first_line: int
    last_line: int
    first_column: int | None = None
    end_column: int | None = None

    @property
    def is_insertion(self) -> bool:
        """True if nothing is deleted."""
        return self.first_line == self.last_line and self.end_column == (self.first_column or 1)

    @property
    def whole_lines(self) -> tuple[int, int] | None:
        """The first and last line, if the region is these lines and nothing else, their line breaks included."""
        if (self.first_column or 1) != 1 or self.is_insertion:
            return None
        if self.end_column == 1:
            return self.first_line, self.last_line - 1
        return (self.first_line, self.last_line) if self.end_column is None and self.first_column is None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The lines of a file before its fix, and the unit in which its tool counts columns; None if it does not say."""

    lines: Sequence[str]
    column_kind: ColumnKind | None = None
    counts_bytes: bool = False
    """The tool is known to count bytes without saying so."""


def describe_replacement(file: str, span: Span, text: str, source: Source | None = None) -> str:
    """Return a replacement in words: which text is replaced by which one, or which columns where the file is absent."""
    whole = span.whole_lines
    if whole is not None:
        lines = _join_lines(*whole)
        if not text:
            return f"{file} {lines}: delete{_quote_after(_lines_of(source, *whole))}"
        if span.end_column == 1 and not text.endswith("\n"):
            return f"{file}: replace {lines}, and the line break after, by {_quote(text)}"
        return f"{file} {lines}: replace with{_block(text)}"
    describe = _describe_insertion if span.is_insertion else _describe_columns
    return f"{file}: {describe(span, text, source)}"


def _describe_insertion(span: Span, text: str, source: Source | None) -> str:
    column = span.first_column or 1
    if column == 1:
        if text.endswith("\n"):
            return f"before line {span.first_line} insert{_block(text)}"
        return f"at the beginning of line {span.first_line} insert {_quote(text)}"
    before = _pick(source, span, lambda line, at, _: line[:at].strip()) if source else None
    place = f" after {_quote(before)}" if before else f" at column {column}"
    return f"in line {span.first_line}{place} insert {_quote(text)}"


def _describe_columns(span: Span, text: str, source: Source | None) -> str:
    old = read_span(span, source) if source else None
    verb = f"by {_quote(text)}" if text else ""
    if span.first_line == span.last_line:
        if old:
            return f"in line {span.first_line} {f'replace {_quote(old)} {verb}' if text else f'delete {_quote(old)}'}"
        first, end = span.first_column or 1, span.end_column
        columns = f"columns {first}-{end}" if end is not None else f"all from column {first}"
        return f"{'replace' if text else 'delete'} {columns} of line {span.first_line} {verb}".rstrip()
    lines = f"{span.first_line}-{span.last_line}"
    if old:
        return f"in lines {lines} {'replace' if text else 'delete'} {_quote(old)} {verb}".rstrip()
    end_place = f"column {span.end_column}" if span.end_column is not None else "its end"
    place = f"line {span.first_line} column {span.first_column or 1} to line {span.last_line} {end_place}"
    return f"{'replace' if text else 'delete'} {place} {verb}".rstrip()


def read_span(span: Span, source: Source) -> str | None:
    """Return the text of a region, None if the file has no such region or its tool's unit of columns is unclear."""
    if not 1 <= span.first_line <= span.last_line <= len(source.lines):
        return None
    readings = {kind: _slice(span, source, kind) for kind in _possible_kinds(source)}
    sensible = {kind: text for kind, text in readings.items() if text is not None}
    if len(set(sensible.values())) > 1:
        sensible = {kind: text for kind, text in sensible.items() if _is_sensible(span, source, kind, text)}
    if len(set(sensible.values())) > 1 and source.counts_bytes:
        sensible = {kind: text for kind, text in sensible.items() if kind == "bytes"}
    texts = set(sensible.values())
    return texts.pop() if len(texts) == 1 else None


def _possible_kinds(source: Source) -> Sequence[ColumnKind]:
    if source.column_kind is not None:
        return (source.column_kind,)
    return ("utf16CodeUnits", "unicodeCodePoints", "bytes")


def _pick(source: Source, span: Span, read: Callable[[str, int, ColumnKind], str]) -> str | None:
    """Return what `read` makes of the line and the index at the region's start, if all units agree on it."""
    if not 1 <= span.first_line <= len(source.lines):
        return None
    line, found = source.lines[span.first_line - 1], set()
    for kind in _possible_kinds(source):
        at = index_of_column(line, span.first_column or 1, kind)
        if at is not None:
            found.add(read(line, at, kind))
    return found.pop() if len(found) == 1 else None


def index_of_column(line: str, column: int, kind: ColumnKind) -> int | None:
    """Return the index of a column in a line; None if it is inside a character or more than one past the end."""
    if kind == "unicodeCodePoints":
        return column - 1 if 1 <= column <= len(line) + 1 else None
    encoding, width = ("utf-8", 1) if kind == "bytes" else ("utf-16-le", 2)
    encoded = line.encode(encoding, "surrogatepass")
    end = (column - 1) * width
    if not 0 <= end <= len(encoded):
        return None
    try:
        return len(encoded[:end].decode(encoding))
    except UnicodeDecodeError:
        return None


def _slice(span: Span, source: Source, kind: ColumnKind) -> str | None:
    first, last = source.lines[span.first_line - 1], source.lines[span.last_line - 1]
    start = index_of_column(first, span.first_column or 1, kind)
    end = len(last) if span.end_column is None else index_of_column(last, span.end_column, kind)
    if start is None or end is None:
        return None
    if span.first_line == span.last_line:
        return first[start:end] if start < end else None
    between = source.lines[span.first_line : span.last_line - 1]
    return "\n".join([first[start:], *between, last[:end]])


def _is_sensible(span: Span, source: Source, kind: ColumnKind, text: str) -> bool:
    """Return whether a region begins and ends between two tokens, with balanced brackets."""
    first, last = source.lines[span.first_line - 1], source.lines[span.last_line - 1]
    start = index_of_column(first, span.first_column or 1, kind) or 0
    end = len(last) if span.end_column is None else index_of_column(last, span.end_column, kind) or 0
    cuts_a_word = _is_inside_word(first, start) or _is_inside_word(last, end)
    return not cuts_a_word and text == text.strip() and _is_balanced(text)


def _is_inside_word(line: str, at: int) -> bool:
    return 0 < at < len(line) and _is_word(line[at - 1]) and _is_word(line[at])


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _is_balanced(text: str) -> bool:
    waiting: list[str] = []
    for character in _QUOTED.sub("", text):
        if character in _BRACKETS.values():
            waiting.append(character)
        elif character in _BRACKETS and (not waiting or waiting.pop() != _BRACKETS[character]):
            return False
    return not waiting


def apply_replacement(lines: Sequence[str], span: Span, text: str, kind: ColumnKind) -> str | None:
    """Return the file's text with a region replaced; None if the file has no such region.

    `lines` are without their line breaks; the last one is empty if the file ends in one.
    """
    end_line = span.last_line
    if not 1 <= span.first_line <= end_line <= len(lines):
        return None
    first, last = lines[span.first_line - 1], lines[end_line - 1]
    start = index_of_column(first, span.first_column or 1, kind)
    end = len(last) if span.end_column is None else index_of_column(last, span.end_column, kind)
    if start is None or end is None:
        return None
    before, after = lines[: span.first_line - 1], lines[end_line:]
    return "\n".join([*before, first[:start] + text + last[end:], *after])


def _lines_of(source: Source | None, first: int, last: int) -> str:
    if source is None or not 1 <= first <= last <= len(source.lines):
        return ""
    return "\n".join(source.lines[first - 1 : last])


def _join_lines(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first}-{last}"


def _quote_after(text: str) -> str:
    return f" {_quote(text.strip())}" if text.strip() else ""


def _block(text: str) -> str:
    return f"\n{text.rstrip()}"


def _quote(text: str) -> str:
    """Return text in backticks, or on lines of its own if it has several or backticks of its own."""
    if "\n" not in text and "`" not in text:
        return f"`{text}`"
    return f"\n```\n{text.strip(chr(10))}\n```\n"
