"""Headings of Markdown, with leading `#` or underlined, outside of fences; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_SIGNED = re.compile(r"(#{1,6})[ \t]+([^ \t].*)")
_FENCE = re.compile(r"[ \t]{0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)")
_LINE_BELOW = re.compile(r" {0,3}(?:(={2,})|-{2,})[ \t]*")
BELOW = " > "
"""Separator of the headings, or sections of a configuration, above a text, outermost first."""
_NO_PARAGRAPH = re.compile(r"\s|[-*+>|]|\d{1,9}[.)][ \t]|<!--|=+[ \t]*$")


class Heading(NamedTuple):
    """A heading: offset of its line, depth from 1, and its words."""

    start: int
    depth: int
    title: str


def headings(text: str, begin: int = 0) -> Iterator[Heading]:
    """Yield the headings of a text from `begin` on. Only a paragraph of one line can be underlined."""
    fence = ""
    above: tuple[int, str] | None = None
    lone = True
    for at, line in text_lines(text, begin):
        found = _FENCE.match(line)
        if found and (not fence or (found[1].startswith(fence) and not found[2].strip())):
            fence = "" if fence else found[1]
            above, lone = None, True
            continue
        signed = None if fence else _SIGNED.match(line)
        below = _LINE_BELOW.fullmatch(line) if above and not fence else None
        if signed:
            yield Heading(at, len(signed[1]), without_closing(signed[2]))
        elif above and below:
            yield Heading(above[0], 1 if below[1] else 2, above[1].rstrip())
        paragraph = not (fence or signed or below or _NO_PARAGRAPH.match(line)) and bool(line)
        above = (at, line) if paragraph and lone else None
        lone = bool(signed or below) or not line.strip()


def text_lines(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the offset of each line, and the line."""
    while (end := text.find("\n", start)) >= 0:
        yield start, text[start:end]
        start = end + 1
    yield start, text[start:]


def without_closing(heading: str) -> str:
    """Return the words of a heading without closing `#` signs."""
    return heading.rstrip(" \t").rstrip("#").rstrip(" \t") or heading[:1]
