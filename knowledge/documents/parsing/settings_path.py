"""The lines of a configuration, each with the names of the sections and of the items that it stands in; pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from knowledge.documents.parsing.sentences import sentences
from knowledge.formats.headings import BELOW
from knowledge.text.alignment import Span

_KEY = re.compile(r"\A(?:-[ \t]+)?[\"']?([\w.$/-]+)[\"']?[ \t]*[:=](?=\s|$|[\"'\w\[{])[ \t]*(.*)")
_REMARK = re.compile(r"\s#.*")
_SECTION = re.compile(r"\A\[+([^\[\]\",]+)\]+")
_OPENING = frozenset({"", "{", "[", "|", "|-", ">", ">-"})
"""What may stand behind the name of a section: of JSON, of YAML, and of text in YAML."""
_COMMENT = ("#", ";", "//")
_NAMES: Final = ("name", "id", "key", "title")
"""The settings of an item that say which one it is, the surest first; where it has none of them, its first one does."""
_MAX_NAME_CHARS: Final = 60


class ConfigLine(NamedTuple):
    """Span of a line without surrounding white space, and its text below the section names, separated by `>`."""

    span: Span
    told: str


class _Line(NamedTuple):
    span: Span
    text: str
    inset: int


class _Step(NamedTuple):
    """A part of a path: how far in it stands, its name, and whether it is an item of a list."""

    inset: int
    name: str
    item: bool = False


def config_lines(text: str) -> Iterator[ConfigLine]:
    """Yield the lines that set something, in order: no comments, names of sections or brackets alone.

    Sections are known by brackets around their names, or by how far in what they hold stands; the items of a list by
    what names each of them.
    """
    lines = list(_lines(text))
    path: list[_Step] = []
    for at, (span, line, inset) in enumerate(lines):
        if section := _SECTION.fullmatch(line):
            path = [_Step(-1, section[1].strip())]
            if line.startswith("[["):
                path += _item(-1, itertools.takewhile(lambda each: not _SECTION.fullmatch(each.text), lines[at + 1 :]))
            continue
        dash = line.startswith(("- ", "-\t"))
        path = [each for each in path if each.inset < inset or (dash and each.inset == inset and not each.item)]
        if line == "{" and inset:
            path += _item(inset, _children(lines, at))
        if not any(map(str.isalnum, line)):
            continue
        begin = len(line) - len(line[1:].lstrip(" \t")) if dash else 0
        first = _Line(span, line[begin:], inset + begin)
        item = _item(inset, itertools.chain([first], _children(lines, at))) if dash else []
        found = _KEY.match(line)
        if found and found[2] in _OPENING:
            path += [*item, _Step(first.inset, found[1])]
        else:
            yield ConfigLine(span, BELOW.join([*(each.name for each in path), line]))
            path += item


def _children(lines: Sequence[_Line], at: int) -> Iterator[_Line]:
    """Return the lines after one that stand further in than it."""
    return itertools.takewhile(lambda each: each.inset > lines[at].inset, itertools.islice(lines, at + 1, None))


def _item(inset: int, lines: Iterable[_Line]) -> list[_Step]:
    """Return the step of a path that an item is, whose lines these are; none where nothing says which one it is."""
    named: dict[str, str] = {}
    column = None
    for _, line, far in lines:
        column = far if column is None else column
        found = _KEY.match(line) if far == column else None
        if found and found[2] not in _OPENING:
            value = _REMARK.sub("", found[2]).rstrip(", \t").strip("\"'")
            if value and len(value) <= _MAX_NAME_CHARS and value[0] not in "[{&*!|>":
                named.setdefault(found[1].lower(), value)
    name = next((named[each] for each in (*_NAMES, *named) if each in named), None)
    return [] if name is None else [_Step(inset, name, item=True)]


def _lines(text: str) -> Iterator[_Line]:
    """Yield the lines that are no comments."""
    for span in sentences(text, by_line=True):
        line = text[span.start : span.end]
        if not line.startswith(_COMMENT):
            yield _Line(span, line, span.start - text.rfind("\n", 0, span.start) - 1)
