"""The list of patterns: searched by meaning or by words, sorted, filtered, with the evidence of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from hardwon.errors import InvalidInput, NotFound
from hardwon.models.lists import PatternFacets, PatternSort
from hardwon.models.patterns import FoundPatterns, Pattern
from hardwon.validation import as_id
from knowledge.models import PatternId
from orchestrator.http.pages.shell import PageRequest

SHOWN: Final = 25
"""Patterns of a page, ours."""
LEAST_RELEVANCE: Final = 0.1
"""Nearness from which a search by meaning shows a pattern, ours: 0 is that of unrelated texts."""
RELEVANCE: Final = "relevance"
"""The order of what was searched by meaning."""
DONE: Final = {"deleted": "Deleted in half a minute, with its entries", "undone": "Taken back"}
_FILTERS: Final = ("kind", "technology", "agent", "project", "trust", "tag")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A page of patterns; `after` begins the next one. `total` is None where only the nearest were looked for."""

    patterns: Sequence[Pattern]
    total: int | None = None
    is_capped: bool = False
    facets: PatternFacets | None = None
    after: PatternId | None = None
    degraded: str | None = None


async def show_patterns(page: PageRequest) -> Response:
    """Show patterns: the nearest to a text, or a list of all that the filters let through."""
    text = page.parameter("q")
    sort = page.parameter("sort") or (RELEVANCE if text else PatternSort.SEEN)
    if sort not in {RELEVANCE, *PatternSort} or (sort == RELEVANCE and not text):
        raise InvalidInput("sort", f"must be one of {', '.join(PatternSort)}, or relevance with a text to search")
    chosen = {name: page.parameter(name) for name in _FILTERS}
    found = await _find_nearest(page, text or "") if sort == RELEVANCE else await _list(page, text, sort, chosen)
    return await page.render(
        "patterns.html",
        here="patterns",
        found=found,
        text=text,
        sort=sort,
        sorts={"problem": "ascending", "evidence": "descending", "projects": "descending", "seen": "descending"},
        chosen=chosen,
        done=page.notice(DONE),
        is_filtered=any(chosen.values()) or text is not None,
    )


async def _find_nearest(page: PageRequest, text: str) -> Found:
    """Return the patterns whose situations are nearest to a text, the nearest first."""
    found = await page.knowledge.queries.query_for_failure(text, max_results=SHOWN, min_relevance=LEAST_RELEVANCE)
    return Found(patterns=found, degraded=found.degraded if isinstance(found, FoundPatterns) else None)


async def _list(page: PageRequest, text: str | None, sort: str, chosen: dict[str, str | None]) -> Found:
    """Return a page of the patterns that the filters let through."""
    listed = await page.knowledge.lists.patterns(
        sort=sort,
        q=text,
        entry_type=chosen["kind"],
        technology=chosen["technology"],
        agent_type=chosen["agent"],
        project_id=chosen["project"],
        trust=chosen["trust"],
        tag=chosen["tag"],
        facets=True,
        limit=SHOWN + 1,
        after=_parse_after(page.parameter("after")),
    )
    shown = listed[:SHOWN]
    return Found(
        patterns=shown,
        total=listed.total,
        is_capped=listed.is_capped,
        facets=listed.facets,
        after=shown[-1].pattern_id if len(listed) > SHOWN else None,
    )


def _parse_after(text: str | None) -> PatternId | None:
    """Return the pattern that a page begins behind. Raises NotFound for what is no id."""
    try:
        return None if text is None else PatternId(as_id("after", text))
    except InvalidInput as error:
        raise NotFound("this page of the list does not exist: begin with the first") from error
