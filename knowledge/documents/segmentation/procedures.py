"""The numbered lists of a text, each with its items: one step of a procedure does harm without the others; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from knowledge.documents.parsing.headings import text_lines
from knowledge.documents.segmentation.blocks import HEADING
from knowledge.documents.segmentation.markdown import ITEM, indent
from knowledge.text.alignment import Span

MAX_STEPS_CHARS: Final = 1_100
"""Characters of a numbered list that are told at once, in whole items: a claim takes little more."""

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_MAX_GAP_CHARS: Final = 400
"""Characters that may stand between two steps and further out than they do, such as a command: ours."""
_MIN_ITEMS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemList:
    """Spans of all items of a list; `first` and `last` are None for bullets."""

    items: tuple[Span, ...]
    first: int | None = None
    last: int | None = None

    @property
    def is_numbered(self) -> bool:
        """True if the items are ordered steps."""
        return self.first is not None

    def item(self, at: int) -> int | None:
        """Return the number, from 0, of the item that a place is in."""
        return next((number for number, each in enumerate(self.items) if each.start <= at < each.end), None)

    def end_within(self, start: int, most: int) -> int:
        """Return where what is told from a place on ends, in whole items; that place where no item is short enough."""
        return max((each.end for each in self.items if each.end - start <= most), default=start)


class _Kind(Enum):
    """Kind of a line; one set apart belongs to a step only if it is indented further."""

    HEADING = "heading"
    CODE = "code"
    APART = "apart"
    OTHER = "other"


@dataclass(slots=True)
class _Open:
    """A list that is being read."""

    inset: int
    numbers: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    end: int = 0
    """Of what surely is of the last item."""
    loose: int | None = None
    """Where something began that is of it only if the next number comes."""

    def goes_on(self, number: int, at: int) -> bool:
        """Return whether an item as far in is the next one of this list."""
        if self.loose is not None:
            return number == self.numbers[-1] + 1 and at - self.loose <= _MAX_GAP_CHARS
        return number in {self.numbers[-1], self.numbers[-1] + 1}

    def begin(self, number: int, at: int, end: int) -> None:
        """Begin the next step."""
        self.numbers.append(number)
        self.starts.append(at)
        self.end, self.loose = end, None

    def follow(self, at: int, line: str, kind: _Kind) -> None:
        """Take note of a line that begins no step."""
        if self.loose is not None:
            return
        if kind is _Kind.APART and indent(line) <= self.inset:
            self.loose = at
        else:
            self.end = at + len(line.rstrip())

    def item_lists(self, text: str) -> Iterator[ItemList]:
        """Yield the list, where it is one: of a lone item only a number after the first says so."""
        if len(self.starts) < _MIN_ITEMS and self.numbers[0] < _MIN_ITEMS:
            return
        ends = [*(len(text[:at].rstrip()) for at in self.starts[1:]), self.end]
        yield ItemList(
            items=tuple(map(Span, self.starts, ends)),
            first=self.numbers[0],
            last=max(self.numbers[0] + len(self.starts) - 1, self.numbers[-1]),
        )


def find_numbered_lists(text: str) -> Iterator[ItemList]:
    """Yield the numbered lists of a text, in order; what is listed within an item is of it. One item alone is none.

    But it is where its number is not the first, as where a passage was cut from the middle of a list. A list goes on
    over what stands further out, such as a command, where the next number comes soon after it.
    """
    now: _Open | None = None
    for at, line, kind in _kinds(text):
        number = ITEM.match(line) if kind is _Kind.OTHER else None
        if kind is _Kind.HEADING:
            if now:
                yield from now.item_lists(text)
            now = None
        elif number and (now is None or indent(line) <= now.inset + 1):
            if now and not (abs(indent(line) - now.inset) <= 1 and now.goes_on(int(number[1]), at)):
                yield from now.item_lists(text)
                now = None
            now = now or _Open(indent(line))
            now.begin(int(number[1]), at + len(line) - len(line.lstrip()), at + len(line.rstrip()))
        elif now:
            now.follow(at, line, kind)
    if now:
        yield from now.item_lists(text)


def _kinds(text: str) -> Iterator[tuple[int, str, _Kind]]:
    """Yield the lines that are not empty, each with where it begins and what it is."""
    fence = ""
    parted = False
    for at, line in text_lines(text):
        if not line.strip():
            parted = True
            continue
        bound = _FENCE.match(line)
        if fence:
            kind = _Kind.CODE
            fence = "" if bound and bound[1].startswith(fence) else fence
        elif bound:
            kind, fence = _Kind.APART, bound[1]
        elif HEADING.match(line):
            kind = _Kind.HEADING
        else:
            item = ITEM.match(line)
            apart = not item[1] if item else parted
            kind = _Kind.APART if apart else _Kind.OTHER
        yield at, line, kind
        parted = False
