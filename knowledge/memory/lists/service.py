"""Lists for people: what was captured and learned lately, filtered, searched and sorted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Final, TypeVar, overload

from hardwon.errors import InvalidInput
from hardwon.models.lists import (
    Attempt,
    DayTrend,
    ListedPattern,
    PatternList,
    PatternSort,
    ProjectTrend,
    TrendCounts,
    Trends,
    TrustLevel,
)
from hardwon.models.patterns import MAX_RESULTS
from hardwon.models.reports import Lift
from hardwon.validation import as_id, as_integer, check_characters, check_flag, check_text, kind_of
from knowledge.memory.query.service import get_live, to_pattern
from knowledge.memory.rules.hints import to_lift
from knowledge.memory.rules.validation import normalise_tag
from knowledge.models import Entry, EntryId, EntryStatus, EntryType, LiftCounts, Pattern, PatternId
from knowledge.ports import DayCounts, EntryQuery, PatternQuery, Stores

MAX_LISTED: Final = 1000
TREND_DAYS: Final = (7, 30, 90)
MAX_PROJECTS: Final = 12
"""Projects that are told apart; ours: as many small charts as a page has room for."""
_OF_PROJECTS: Final = frozenset(field.name for field in fields(ProjectTrend)) - {"project_id"}
_ATTEMPTS: Final = _OF_PROJECTS - {"captured"}
MAX_WORDS: Final = 8
"""Words of a search; ours."""
MAX_SEARCH_CHARS: Final = 200
_LISTED: Final = tuple(status for status in EntryStatus if status is not EntryStatus.QUARANTINED)
_Choice = TypeVar("_Choice", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListService:
    """Lists of one workspace."""

    stores: Stores

    async def entries(
        self,
        *,
        project_id: str | None = None,
        status: str | None = None,
        entry_type: str | None = None,
        technology: str | None = None,
        agent_type: str | None = None,
        q: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
        after: EntryId | None = None,
    ) -> list[Entry]:
        """Return entries, the latest first, those behind `after`; what waits for a review is not among them.

        `q`: words that each begin a word of the entry, in any case, with the signs within. Raises InvalidInput, naming
        the argument, or NotFound.
        """
        limit = as_integer("limit", limit, least=1, most=MAX_LISTED)
        query = EntryQuery(
            project_id=parse_optional("project", project_id, check_text),
            status=parse_choice("status", status, _LISTED),
            entry_type=parse_choice("type", entry_type, EntryType),
            technology=parse_optional("technology", technology, check_text),
            agent_type=parse_optional("agent", agent_type, check_text),
            since=_parse_time("since", since),
            until=_parse_time("until", until),
            words=parse_words("q", q),
        )
        return await self.stores.lists.entries(
            query, after=None if after is None else EntryId(as_id("after", after)), limit=limit
        )

    async def patterns(
        self,
        *,
        sort: str = PatternSort.SEEN,
        q: str | None = None,
        entry_type: str | None = None,
        technology: str | None = None,
        agent_type: str | None = None,
        project_id: str | None = None,
        trust: str | None = None,
        tag: str | None = None,
        facets: bool = False,
        limit: int = 20,
        after: PatternId | None = None,
    ) -> PatternList:
        """Return live patterns in an order, those behind `after`.

        `q`: words that each begin a word of one of its entries. `facets`: with the counts of all pages. Raises
        InvalidInput, naming the argument, or NotFound.
        """
        limit = as_integer("limit", limit, least=1, most=MAX_RESULTS)
        check_flag("facets", facets)
        query = PatternQuery(
            entry_type=parse_choice("kind", entry_type, EntryType),
            technology=parse_optional("technology", technology, check_text),
            agent_type=parse_optional("agent", agent_type, check_text),
            project_id=parse_optional("project", project_id, check_text),
            trust=parse_choice("trust", trust, TrustLevel),
            tag=None if tag is None else normalise_tag("tag", tag),
            words=parse_words("q", q),
        )
        page = await self.stores.lists.patterns(
            query,
            sort=parse_choice("sort", sort, PatternSort, default=PatternSort.SEEN),
            after=None if after is None else PatternId(as_id("after", after)),
            limit=limit,
            now=self.stores.clock.now(),
            with_facets=facets,
        )
        listed = (
            ListedPattern(
                **{field.name: getattr(pattern, field.name) for field in fields(Pattern)},
                last_seen_at=row.last_seen_at,
                outcomes=row.outcomes,
                trusted=row.trusted,
            )
            for row in page.rows
            for pattern in (to_pattern(row.evidence),)
        )
        return PatternList(listed, total=page.total, is_capped=page.is_capped, facets=page.facets)

    async def attempts(self, pattern_id: PatternId, *, limit: int = 100) -> list[Attempt]:
        """Return the attempts at a pattern, the latest first. Raises NotFound."""
        evidence = await get_live(self.stores, PatternId(as_id("pattern_id", pattern_id)))
        limit = as_integer("limit", limit, least=1, most=MAX_LISTED)
        return await self.stores.lists.attempts(evidence.pattern_id, limit=limit)

    async def trends(self, *, days: int = 30) -> Trends:
        """Return the counts of the last 7, 30 or 90 days, today (UTC) included. Raises InvalidInput."""
        if as_integer("days", days, least=1, most=max(TREND_DAYS)) not in TREND_DAYS:
            raise InvalidInput("days", f"must be one of {', '.join(map(str, TREND_DAYS))}")
        now = self.stores.clock.now().astimezone(UTC)
        since = now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=days - 1)
        return make_trends(await self.stores.lists.day_counts(since), since, days)


def is_sinking(outcomes: str) -> bool:
    """Return whether of the last attempts at a pattern more failed than worked, and its last one failed.

    `outcomes`: the oldest first, `w` for one that worked, `f` for one that failed.
    """
    last = outcomes[-4:]
    return last.endswith("f") and last.count("f") * 2 >= len(last)


def parse_optional(field: str, value: str | None, check: Callable[[str, object], None]) -> str | None:
    """Return a checked text, or None. Raises InvalidInput, naming the field."""
    if value is not None:
        check(field, value)
    return value


@overload
def parse_choice(field: str, value: str | None, choices: Iterable[_Choice]) -> _Choice | None: ...
@overload
def parse_choice(field: str, value: str | None, choices: Iterable[_Choice], *, default: _Choice) -> _Choice: ...
def parse_choice(
    field: str, value: str | None, choices: Iterable[_Choice], *, default: _Choice | None = None
) -> _Choice | None:
    """Return one of the choices, or the default for None. Raises InvalidInput, naming the field."""
    by_name = {str(choice): choice for choice in choices}
    if value is not None and value not in by_name:
        raise InvalidInput(field, f"must be one of {', '.join(by_name)}")
    return default if value is None else by_name[value]


def parse_words(field: str, text: str | None) -> tuple[str, ...]:
    """Return the words of a search. Raises InvalidInput, naming the field, for too many, or signs alone."""
    if text is None:
        return ()
    if not isinstance(text, str):
        raise InvalidInput(field, f"must be a text, not {kind_of(text)}")
    check_characters(field, text)
    if len(text) > MAX_SEARCH_CHARS:
        raise InvalidInput(field, f"has {len(text)} characters, more than the {MAX_SEARCH_CHARS} allowed")
    words = tuple(dict.fromkeys(text.split()))
    if len(words) > MAX_WORDS:
        raise InvalidInput(field, f"has {len(words)} words, more than the {MAX_WORDS} allowed")
    if words and not any(char.isalnum() or not char.isascii() for char in text):
        raise InvalidInput(field, "has no letter and no digit to look for")
    return words


def _parse_time(field: str, value: object) -> datetime | None:
    if value is None or (isinstance(value, datetime) and value.tzinfo is not None):
        return value
    raise InvalidInput(field, "must be a time with its zone, such as 2026-03-02T09:30:00Z")


def make_trends(counts: DayCounts, since: datetime, days: int) -> Trends:
    """Return the trends of some days from their counts; days without counts have zeros."""
    by_day: dict[date, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    by_project: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    total: dict[str, int] = defaultdict(int)
    for (day, project_id, name), number in counts.items():
        total[name] += number
        by_day[day][name] += number
        if project_id is not None and name in _OF_PROJECTS:
            by_project[project_id][name] += number
    first = since.date()
    return Trends(
        days=days,
        since=since,
        daily=tuple(
            DayTrend(day=day, counts=TrendCounts(**by_day[day]))
            for day in (first + timedelta(days=number) for number in range(days))
        ),
        total=TrendCounts(**total),
        lift=_lift_of(total),
        projects=tuple(
            ProjectTrend(project_id=project_id, **by_project[project_id])
            for project_id in sorted(by_project, key=lambda each: _rank(each, by_project[each]))[:MAX_PROJECTS]
        ),
    )


def _rank(project_id: str, sums: Mapping[str, int]) -> tuple[int, int, str]:
    """Return the sort key of a project: that with the most attempts first, then with the most captures."""
    return -sum(sums.get(name, 0) for name in _ATTEMPTS), -sums.get("captured", 0), project_id


def _lift_of(total: Mapping[str, int]) -> Lift:
    """Return the lift of the first attempts, with its interval."""
    hinted, held_out = total.get("hinted_worked", 0), total.get("held_out_worked", 0)
    return to_lift(
        LiftCounts(
            hinted=hinted + total.get("hinted_failed", 0),
            hinted_solved=hinted,
            held_out=held_out + total.get("held_out_failed", 0),
            held_out_solved=held_out,
        )
    )
