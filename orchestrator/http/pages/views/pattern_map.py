"""The map of patterns: marks that are links, groups with names, one group at a time where there are many."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from hardwon.errors import InvalidInput, NotFound
from hardwon.models.maps import MapGroup, MapMark, PatternMap
from orchestrator.http.pages.rendering.words import KINDS, is_losing
from orchestrator.http.pages.shell import PageRequest

SHOWN: Final = 190
"""Marks of a page, ours: with scripts and styles it stays under 120 kB."""
_MARGIN: Final = 6
"""Percent of the picture around the marks, for those at its edge and for names."""
_CHARACTER_WIDTH, _NAME_HEIGHT = 1.1, 4.5
"""Percent of the picture that a character of a name, and a name, take, roughly."""
_HEADING: Final = re.compile(r"^\s*#{1,6} .*\n+", re.MULTILINE)
_MAX_SCALE: Final = 2.6


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnMark:
    """A mark with its place in percent and its size."""

    mark: MapMark
    left: float
    top: float
    scale: float
    is_dim: bool

    @property
    def name(self) -> str:
        """Return the beginning of the problem, without the headings that many have in common."""
        return _HEADING.sub("", self.mark.problem) or self.mark.problem

    @property
    def is_losing(self) -> bool:
        """Return whether it failed more often than it worked."""
        return is_losing(self.mark.success_count, self.mark.attempt_count)


async def show_map(page: PageRequest) -> Response:
    """Show the map, or one group of it."""
    kinds = [kind for kind in page.request.query_params.getlist("kind") if kind]
    if unknown := set(kinds) - set(KINDS):
        raise InvalidInput("kind", f"must be one of {', '.join(KINDS)}, not {min(unknown)}")
    number = _parse_group(page.parameter("group"))
    shown = await page.knowledge.maps.show(group=number, limit=SHOWN)
    group = next((each for each in shown.groups if each.number == number), None)
    if number is not None and group is None and shown.made_at is not None:
        raise NotFound("this group is not on the map any more: it was made anew since")
    drawn = draw_marks(shown.marks, kinds)
    return await page.render(
        "map.html",
        here="map",
        map=shown,
        drawn=drawn,
        group=group,
        names=place_names(shown, drawn) if group is None else (),
        kinds=kinds or list(KINDS),
        total=shown.total if group is None else group.patterns,
    )


def _parse_group(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 2):
        raise NotFound("there is no such group on the map")
    return int(text)


def draw_marks(marks: Sequence[MapMark], kinds: Sequence[str]) -> list[DrawnMark]:
    """Return the marks spread over the picture; those of other kinds than asked for are dim."""
    lefts, tops = _spread([mark.x for mark in marks]), _spread([mark.y for mark in marks])
    return [
        DrawnMark(
            mark=mark,
            left=left,
            top=top,
            scale=min(_MAX_SCALE, 0.7 + 0.3 * math.log2(1 + mark.success_count)),
            is_dim=bool(kinds) and mark.entry_type not in kinds,
        )
        for mark, left, top in zip(marks, lefts, tops, strict=True)
    ]


def _spread(values: Sequence[float]) -> list[float]:
    """Return places in percent, half by value and half by rank, so that those of one group fill the picture, too."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if high <= low:
        return [50.0 for _ in values]
    rank = {value: place for place, value in enumerate(sorted(set(values)))}
    last = max(1, len(rank) - 1)
    size = (100 - 2 * _MARGIN) / 2
    return [_MARGIN + size * ((value - low) / (high - low) + rank[value] / last) for value in values]


def place_names(shown: PatternMap, drawn: Sequence[DrawnMark]) -> list[tuple[str, float, float]]:
    """Return the names that have room, each with its place above its marks; large groups first."""
    placed: list[tuple[str, float, float]] = []
    for group in shown.groups:
        own = [mark for mark in drawn if mark.mark.group == group.number]
        if not own or not group.terms:
            continue
        name = name_of(group)
        half = _half_width(name)
        left = min(99 - half, max(1 + half, sum(mark.left for mark in own) / len(own)))
        tops = sorted(mark.top for mark in own)
        top = max(4.0, tops[len(tops) // 8] - _NAME_HEIGHT / 2)
        if all(abs(left - x) > half + _half_width(other) or abs(top - y) > _NAME_HEIGHT for other, x, y in placed):
            placed.append((name, left, top))
    return placed


def _half_width(name: str) -> float:
    """Return half the width of a name in percent of the picture, roughly."""
    return min(48.0, _CHARACTER_WIDTH * len(name) / 2)


def name_of(group: MapGroup) -> str:
    """Return the name of a group."""
    return " · ".join(group.terms)
