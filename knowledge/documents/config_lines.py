"""The lines of a configuration, each with the names of the sections that it stands in; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from knowledge.documents.aligning import Span
from knowledge.documents.sentences import sentences

_KEY = re.compile(r"\A(?:-[ \t]+)?[\"']?([\w.$/-]+)[\"']?[ \t]*[:=](?=\s|$|[\"'\w\[{])[ \t]*(.*)")
_SECTION = re.compile(r"\A\[+([^\[\]\",]+)\]+")
_OPENING = frozenset({"", "{", "[", "|", "|-", ">", ">-"})
"""What may stand behind the name of a section: of JSON, of YAML, and of text in YAML."""
_COMMENT = ("#", ";", "//")


class ConfigLine(NamedTuple):
    """Where a line stands, without the blanks around it, and its text below `>`-parted names of sections."""

    span: Span
    told: str


def config_lines(text: str) -> Iterator[ConfigLine]:
    """Yield the lines that set something, in order: no comments, names of sections or brackets alone.

    Sections are known by brackets around their names, or by how far in what they hold stands.
    """
    path: list[tuple[int, str]] = []
    for span in sentences(text, by_line=True):
        line = text[span.start : span.end]
        if line.startswith(_COMMENT) or not any(map(str.isalnum, line)):
            continue
        if section := _SECTION.fullmatch(line):
            path = [(-1, section[1].strip())]
            continue
        within = span.start - text.rfind("\n", 0, span.start) - 1
        path = [each for each in path if each[0] < within]
        found = _KEY.match(line)
        if found and found[2] in _OPENING:
            path.append((within, found[1]))
        else:
            yield ConfigLine(span, " > ".join([*(name for _, name in path), line]))
