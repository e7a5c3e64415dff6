"""The first page: what was learned lately, whether it helps, what waits, what sinks; how to begin where nothing is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from hardwon.errors import InvalidInput
from hardwon.models.lists import DayTrend, PatternSort, TrendCounts, Trends
from knowledge.memory.lists.service import TREND_DAYS, is_sinking
from knowledge.models import Entry
from orchestrator.http.pages.shell import PageRequest, find_workspaces, page_address

MIN_TASKS: Final = 45
"""Tasks from which shares are compared, ours: with fewer the interval of a share is wider than 30 points."""
_LATEST: Final = 6
_LOOKED_THROUGH: Final = 25
"""Latest patterns among which sinking ones are looked for."""
_MEAN_DAYS: Final = 7


async def show_overview(page: PageRequest) -> Response:
    """Show the overview of some days, or how to begin."""
    days = page.parameter("days") or "30"
    if days not in {str(each) for each in TREND_DAYS}:
        raise InvalidInput("days", f"must be one of {', '.join(map(str, TREND_DAYS))}")
    knowledge = page.knowledge
    if not await knowledge.holds_anything():
        return await _show_beginning(page)
    trends, latest, carried, waiting = await asyncio.gather(
        knowledge.lists.trends(days=int(days)),
        knowledge.lists.patterns(sort=PatternSort.SEEN, limit=_LOOKED_THROUGH),
        knowledge.lists.patterns(sort=PatternSort.EVIDENCE, limit=_LATEST),
        _find_waiting(page),
    )
    total = trends.total
    return await page.render(
        "overview.html",
        here="",
        days=int(days),
        ranges=TREND_DAYS,
        trends=trends,
        total=total,
        contexts=total.given + total.silent + total.held_out + total.degraded,
        hinted=total.hinted_worked + total.hinted_failed,
        held_out=total.held_out_worked + total.held_out_failed,
        lines=_share_lines(trends),
        min_tasks=MIN_TASKS,
        latest=sorted(latest, key=lambda pattern: pattern.founded_at, reverse=True)[:_LATEST],
        carried=carried,
        sinking=[pattern for pattern in latest if is_sinking(pattern.outcomes)][:_LATEST],
        held=waiting[0],
        unsolved=waiting[1],
    )


async def _show_beginning(page: PageRequest) -> Response:
    """Show the first steps, and the workspaces that hold something."""
    others = await find_workspaces(page)
    return await page.render(
        "beginning.html", here="", others=[(name, page_address(name)) for name in others if name != page.workspace]
    )


async def _find_waiting(page: PageRequest) -> tuple[Sequence[Entry], Sequence[Entry]]:
    """Return the first of what waits for a review and of what waits for its resolution, as far as the caller may."""
    held: Sequence[Entry] = ()
    if page.principal.may("reviews.waiting"):
        held = await page.knowledge.reviews.waiting(limit=3)
    return held, await page.knowledge.capture.unresolved(limit=3)


def _share_lines(trends: Trends) -> Sequence[tuple[str, str, Sequence[float | None]]]:
    """Return the shares of tasks that passed at the first attempt, as means of a week, with and without hints."""
    lines = []
    for css, words, names in (
        ("good", "with", ("hinted_worked", "hinted_failed")),
        ("quiet", "without", ("held_out_worked", "held_out_failed")),
    ):
        shares = [
            _share(trends.daily[max(0, place - _MEAN_DAYS + 1) : place + 1], names)
            for place in range(len(trends.daily))
        ]
        last = next((share for share in reversed(shares) if share is not None), None)
        if last is not None:
            lines.append((css, f"{words} {last:.0%}", shares))
    return lines


def _share(days: Sequence[DayTrend], names: tuple[str, str]) -> float | None:
    """Return the share that worked over some days, None where nothing was told."""
    worked, failed = (sum(_count(day.counts, name) for day in days) for name in names)
    return worked / (worked + failed) if worked + failed else None


def _count(counts: TrendCounts, name: str) -> int:
    number: int = getattr(counts, name)
    return number
