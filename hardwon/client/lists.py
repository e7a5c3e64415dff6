"""Lists for people over HTTP: entries and patterns filtered, sorted and counted."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Self

from pydantic import Field

from hardwon.client.fields import LAST, Limit
from hardwon.client.operations import Envelope, Operation, Service, Wire
from hardwon.models.entries import Entry
from hardwon.models.ids import EntryId, PatternId
from hardwon.models.lists import Attempt, ListedPattern, PatternFacets, PatternList, PatternSort, Trends
from hardwon.models.maps import PatternMap
from hardwon.models.patterns import MAX_RESULTS

_Project = Annotated[str | None, Wire(name="project", field="project"), Field(description="Only of this project.")]
_Agent = Annotated[
    str | None, Wire(name="agent", field="agent"), Field(description="Only those of this type of agent.")
]
_Technology = Annotated[str | None, Field(description="Only those of this technology.")]
_Words = Annotated[
    str | None,
    Field(description="Words, or their beginnings, that each occur in the stored texts, in any case; at most eight."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternPage(Envelope):
    """Patterns in the order asked for; the id of the last is where the next page begins.

    `total` and `facets` are of all pages, null unless requested; `is_capped`: there are more than were counted.
    """

    patterns: list[ListedPattern]
    total: int | None = None
    is_capped: bool = False
    facets: PatternFacets | None = None

    @classmethod
    def wrap(cls, value: PatternList) -> Self:
        """Return the answer for a page."""
        return cls(patterns=value, total=value.total, is_capped=value.is_capped, facets=value.facets)

    def unwrap(self) -> PatternList:
        """Return the page."""
        return PatternList(self.patterns, total=self.total, is_capped=self.is_capped, facets=self.facets)


class RemoteLists(Service, name="lists", tag="lists", scopes=("query",)):
    """`ListService` over HTTP."""

    @Operation("GET", "/v1/entries", operation_id="list_entries", problems=(404,), cursor="entry_id")
    async def entries(
        self,
        *,
        project_id: _Project = None,
        status: Annotated[str | None, Field(description="open, staged, embedded, dead or abandoned.")] = None,
        entry_type: Annotated[
            str | None,
            Wire(name="type", field="type"),
            Field(description="failure_solution, gate_rejection or gate_approval."),
        ] = None,
        technology: _Technology = None,
        agent_type: _Agent = None,
        q: _Words = None,
        since: Annotated[datetime | None, Field(description="Captured at this time or later.")] = None,
        until: Annotated[datetime | None, Field(description="Captured before this time.")] = None,
        limit: Limit = 50,
        after: Annotated[EntryId | None, LAST] = None,
    ) -> builtins.list[Entry]:
        """Return entries, the latest first; what waits for a review is not among them."""

    @Operation(
        "GET", "/v1/patterns", operation_id="list_patterns", problems=(404,), answer=PatternPage, cursor="pattern_id"
    )
    async def patterns(
        self,
        *,
        sort: Annotated[str, Field(description="seen, evidence, projects or problem.")] = PatternSort.SEEN,
        q: _Words = None,
        entry_type: Annotated[
            str | None,
            Wire(name="kind", field="kind"),
            Field(description="failure_solution, gate_rejection or gate_approval."),
        ] = None,
        technology: _Technology = None,
        agent_type: _Agent = None,
        project_id: _Project = None,
        trust: Annotated[str | None, Field(description="trusted or low_trust.")] = None,
        tag: Annotated[str | None, Field(description="Only those with this tag, in any case.")] = None,
        facets: Annotated[bool, Field(description="Count all pages, and the values of filters, too.")] = False,
        limit: Annotated[int, Field(ge=1, le=MAX_RESULTS)] = 20,
        after: Annotated[PatternId | None, LAST] = None,
    ) -> PatternList:
        """Return live patterns in an order, those behind `after`."""

    @Operation("GET", "/v1/patterns/{pattern_id}/attempts", operation_id="list_attempts")
    async def attempts(self, pattern_id: PatternId, *, limit: Limit = 100) -> builtins.list[Attempt]:
        """Return the attempts at a pattern, the latest first: whether each worked, in which task, and when."""

    @Operation("GET", "/v1/trends", operation_id="show_trends")
    async def trends(self, *, days: Annotated[int, Field(description="7, 30 or 90.", ge=1, le=90)] = 30) -> Trends:
        """Return counts of each of the last days: captures, contexts, first attempts with a hint and held out, lift."""


class RemoteMaps(Service, name="maps", tag="lists", scopes=("query",)):
    """`MapService` over HTTP."""

    @Operation("GET", "/v1/map", operation_id="show_map")
    async def show(
        self,
        *,
        group: Annotated[int | None, Field(description="Only the marks of this group.", ge=0, le=19)] = None,
        limit: Annotated[int, Field(description="Marks at most.", ge=1, le=10_000)] = 500,
    ) -> PatternMap:
        """Return the map of patterns, in which those that mean something alike lie together; made at checkpoints.

        All groups, named by the words that set them apart, and those patterns with the most successes.
        """
