"""Markup lines of Markdown and reStructuredText: invisible ones, list items and literal code; pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from knowledge.documents.parsing.markup import OPTION

ITEM = re.compile(r"[ \t]*(?:[-*+\u2022]|(\d{1,3})[.)])[ \t]+\S")
"""Begins an item of a list; its number, where it has one."""
_UNDERLINE = re.compile(r"[ \t]{0,3}([=~^\"'`*+#.:-])\1{2,}[ \t]*\n?")
_TAGS_OR_IMAGES = re.compile(
    r"(?:(?:[ \t]*+</?[A-Za-z][\w-]*+(?:\s[^<>]*+)?/?>)++"
    r"|(?:[ \t]*+\[?+!\[[^\]\n]*+\]\([^)\n]*+\)(?:\]\([^)\n]*+\))?+)++)[ \t]*\n?"
)
"""A line of tags alone, or of images alone."""
_COMMENT, _COMMENT_END = "<!--", "-->"
_DIRECTIVE = re.compile(r"[ \t]*\.\.[ \t]+(?!\[)(?:([\w-]+)::)?")
_OF_CODE = frozenset({"code-block", "code", "sourcecode", "doctest", "parsed-literal"})
_OF_WORDS = frozenset({
    "note", "warning", "tip", "important", "caution", "danger", "hint", "attention", "error", "seealso",
    "versionadded", "versionchanged", "deprecated",
})  # fmt: skip
_LITERAL = 4
"""Blanks by which code stands further in than the sentence that leads to it."""


class Literal:
    """Detects indented literal code, line by line."""

    def __init__(self) -> None:
        self._led: int | None = None
        """How far in a line has to stand to be code, where the last one led to some."""
        self._parted = False
        self._within = False

    def pass_over(self, text: str) -> None:
        """Take note of a line that is neither prose nor code."""
        directive = _DIRECTIVE.match(text)
        if directive and directive[1] in _OF_CODE:
            self._led, self._parted = indent(text) + 1, False

    def holds(self, text: str) -> bool:
        """Return whether the next line is of such code; a line without anything is of what stands around it."""
        told = text.rstrip()
        if not told:
            self._parted = True
            return self._within
        far = self._led is not None and indent(text) >= self._led
        self._within = far and (self._within or (self._parted and ITEM.match(text) is None))
        if not self._within:
            self._led = indent(text) + (1 if told.endswith("::") else _LITERAL) if told.endswith(":") else None
            self._parted = False
        return self._within


def indent(text: str) -> int:
    """Return how far in a line stands, in blanks."""
    spread = text.expandtabs(_LITERAL)
    return len(spread) - len(spread.lstrip())


def unread(lines: Sequence[str], code: Collection[int] = ()) -> frozenset[int]:
    """Return which lines are no text: headings with a line below them, comments, tags alone, and directives.

    `code`: the numbers of lines in fences, which are what they are. What is not ended is no comment.
    """
    found: set[int] = set()
    last_end = max((at for at, line in enumerate(lines) if _COMMENT_END in line and at not in code), default=-1)
    comment = directive = False
    for number, line in enumerate(lines):
        if number in code:
            directive = False
            continue
        told = line.strip()
        comment = comment or (told.startswith(_COMMENT) and number <= last_end)
        ended, _, after = told.partition(_COMMENT_END) if comment else ("", "", "")
        directive = (directive and OPTION.match(line) is not None) or _is_directive(line)
        if (comment and not after.strip()) or directive or _TAGS_OR_IMAGES.fullmatch(line):
            found.add(number)
        elif _is_underline(lines, number):
            above = number - 2 if number > 1 and _UNDERLINE.fullmatch(lines[number - 2]) else number - 1
            found.update(range(above, number + 1))
        comment = comment and ended == told
    return frozenset(found)


def _is_directive(line: str) -> bool:
    """Return whether a line is a directive without words for a reader."""
    found = _DIRECTIVE.match(line)
    return found is not None and not (found[1] in _OF_WORDS and line[found.end() :].strip())


def _is_underline(lines: Sequence[str], number: int) -> bool:
    """Return whether a line only marks the one before it as a heading."""
    if not number or not _UNDERLINE.fullmatch(lines[number]):
        return False
    heading = lines[number - 1].strip()
    alone = number == 1 or not lines[number - 2].strip() or _UNDERLINE.fullmatch(lines[number - 2])
    return bool(heading and alone) and not heading.endswith((".", ",", ";", ":")) and "|" not in heading
