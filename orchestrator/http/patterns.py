"""The routes of patterns: one of them, likely twins, and what a person joins and splits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar
from uuid import UUID

from fastapi import FastAPI, Query, Request, Response
from pydantic import Field

from knowledge.memory.grouping import MAX_SUGGESTIONS, PatternDetails, PatternPair
from knowledge.memory.query import MAX_RESULTS
from knowledge.models import EntryId, Pattern, PatternId
from orchestrator.http.opened import Open, performs
from orchestrator.http.paging import LAST, link_next

_MOST_SPLIT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinBody:
    """The pattern that becomes part of the one in the path."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    other: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitBody:
    """Entries of one pattern that are to leave it together."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    entry_ids: Annotated[list[UUID], Field(max_length=_MOST_SPLIT)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternPage:
    """Patterns in the order of their ids; the id of the last is where the next page begins."""

    patterns: list[Pattern]


def add_patterns(app: FastAPI) -> None:
    """Add the routes of patterns to an app."""
    _add_grouping(app)

    @app.get("/v1/patterns", tags=["patterns"])
    @performs("queries.browse")
    async def browse(
        knowledge: Open,
        request: Request,
        response: Response,
        after: Annotated[UUID | None, Query(description=LAST)] = None,
        limit: Annotated[int, Query(ge=1, le=MAX_RESULTS)] = 20,
    ) -> PatternPage:
        """Return live patterns in the order of their ids, from behind `after` on, for people to look through."""
        following = None if after is None else PatternId(after)
        found = await knowledge.queries.browse(after=following, limit=limit)
        if len(found) == limit:
            link_next(request, response, after=found[-1].pattern_id, limit=limit)
        return PatternPage(patterns=found)

    @app.get("/v1/patterns/{pattern_id}", tags=["patterns"])
    @performs("queries.get")
    async def get_pattern(pattern_id: UUID, knowledge: Open) -> Pattern:
        """Return a live pattern."""
        return await knowledge.queries.get(PatternId(pattern_id))

    @app.delete("/v1/patterns/{pattern_id}", status_code=204, tags=["patterns"])
    @performs("capture.delete_pattern", problems=(409,))
    async def delete_pattern(pattern_id: UUID, knowledge: Open) -> None:
        """Delete a pattern with all the entries that are evidence for it."""
        await knowledge.capture.delete_pattern(PatternId(pattern_id))


def _add_grouping(app: FastAPI) -> None:
    @app.get("/v1/patterns:suggest", tags=["patterns"])
    @performs("grouping.suggest", problems=(409,))
    async def suggest(
        knowledge: Open, limit: Annotated[int, Query(ge=1, le=MAX_SUGGESTIONS)] = 20
    ) -> list[PatternPair]:
        """Return patterns that are likely the same, for a person to join, the likeliest first."""
        return await knowledge.grouping.suggest(limit=limit)

    @app.get("/v1/patterns/{pattern_id}/details", tags=["patterns"])
    @performs("grouping.show", problems=(409,))
    async def show(pattern_id: UUID, knowledge: Open) -> PatternDetails:
        """Return a live pattern with its entries, likely twins and rivals."""
        return await knowledge.grouping.show(PatternId(pattern_id))

    @app.post("/v1/patterns/{pattern_id}/join", tags=["patterns"])
    @performs("grouping.join", problems=(409,))
    async def join(pattern_id: UUID, body: JoinBody, knowledge: Open) -> Pattern:
        """Make another pattern part of this one, for good."""
        return await knowledge.grouping.join(PatternId(pattern_id), PatternId(body.other))

    @app.post("/v1/patterns:split", status_code=201, tags=["patterns"])
    @performs("grouping.split", problems=(404, 409))
    async def split(body: SplitBody, knowledge: Open) -> Pattern:
        """Give entries of a pattern, and those with the same words, one of their own, for good."""
        return await knowledge.grouping.split([EntryId(entry_id) for entry_id in body.entry_ids])
