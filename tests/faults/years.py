"""The one-year rule (G12): moments in every zone, on 29 February, over changes of the clock, and clocks that step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from knowledge.memory.rules.retention import add_years
from knowledge.models import EntryId
from knowledge.wiring.open import Knowledge
from tests.conftest import SetClock
from tests.support.entries import failure

ZONES: Sequence[tzinfo] = tuple(
    ZoneInfo(name)
    for name in (
        "UTC", "Europe/London", "Europe/Berlin", "Europe/Moscow", "Europe/Lisbon", "Europe/Dublin", "Atlantic/Azores",
        "America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles", "America/Anchorage",
        "America/Halifax", "America/St_Johns", "America/Sao_Paulo", "America/Havana", "America/Santiago",
        "America/Caracas", "Africa/Cairo", "Africa/Casablanca", "Africa/Johannesburg", "Asia/Jerusalem", "Asia/Tehran",
        "Asia/Dubai", "Asia/Karachi", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Yangon", "Asia/Bangkok", "Asia/Shanghai",
        "Asia/Tokyo", "Australia/Perth", "Australia/Adelaide", "Australia/Sydney", "Australia/Lord_Howe",
        "Pacific/Auckland", "Pacific/Chatham", "Pacific/Apia", "Pacific/Kiritimati", "Pacific/Honolulu",
    )
)  # fmt: skip
DAY = timedelta(days=1)


def moments(rng: random.Random, number: int) -> list[datetime]:
    """Return moments in UTC: a third anywhere, a third about 29 February, a third within hours of a zone's change."""
    changes = _changes()
    found = []
    for place in range(number):
        match place % 3:
            case 0:
                moment = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=rng.randrange(100 * 365 * 86400))
            case 1:
                leap = rng.choice([2000, 2024, 2028, 2096])
                moment = datetime(leap, 2, 29, 12, tzinfo=UTC) + timedelta(seconds=rng.randrange(-2 * 86400, 2 * 86400))
            case _:
                moment = rng.choice(changes) + timedelta(seconds=rng.randrange(-3 * 3600, 3 * 3600))
        found.append(moment)
    return found


def _changes() -> list[datetime]:
    """Return the hours of 2024 to 2027 before which some zone changed its clocks."""
    found = []
    for zone in ZONES:
        at, offset = datetime(2024, 1, 1, tzinfo=UTC), None
        while at.year < 2028:
            now = at.astimezone(zone).utcoffset()
            if offset is not None and now != offset:
                found.append(at)
            offset, at = now, at + timedelta(hours=6)
    return found


def years_that_differ(moment: datetime) -> list[str]:
    """Return the zones in which a year from a moment is not the same date and time of UTC, or not the one moment."""
    after = add_years(moment, 1)
    day = 28 if (moment.month, moment.day) == (2, 29) else moment.day
    right = datetime(moment.year + 1, moment.month, day, moment.hour, moment.minute, moment.second, tzinfo=UTC)
    right = right.replace(microsecond=moment.microsecond)
    told = {str(zone): add_years(moment.astimezone(zone), 1) for zone in ZONES}
    wrong = [zone for zone, year in told.items() if year != right or year.utcoffset() != timedelta(0)]
    return wrong if after - moment >= 365 * DAY else [*wrong, "before 365 days"]


@dataclass(slots=True, kw_only=True)
class Kept:
    """What was kept and shown, by the reading of the clock at the time."""

    steps: int = 0
    early: int = 0
    expired_shown: int = 0
    missing: int = 0
    deleted: int = 0
    late: timedelta = timedelta(0)


async def live_through(knowledge: Knowledge, clock: SetClock, embedded: Sequence[datetime], rng: random.Random) -> Kept:
    """Embed an entry at each moment, by a clock that says it in some zone; then live on to the end of all of them.

    The clock steps by up to a day forth and back; after each step there is a query, after some a prune.
    """
    expires: dict[EntryId, datetime] = {}
    for number, moment in enumerate(sorted(embedded)):
        clock.time = moment.astimezone(ZONES[number % len(ZONES)])
        told = failure(failure_description=f"case {number} broke", run_id=f"R{number}", task_id=f"T{number}")
        expires[await knowledge.capture.capture(told)] = _year_later(moment)
        await knowledge.checkpoints.process_all()
    kept = Kept()
    left = dict(expires)
    for moment in sorted(expires.values()):
        for step in (-timedelta(microseconds=1), timedelta(0), DAY * rng.uniform(-1, 1), DAY):
            clock.time = (moment + step).astimezone(rng.choice(ZONES))
            await _look(knowledge, clock, left, kept)
            if rng.random() < 0.4 or step == DAY:
                await _prune(knowledge, clock, left, kept)
            kept.steps += 1
    return kept


async def _look(knowledge: Knowledge, clock: SetClock, left: dict[EntryId, datetime], kept: Kept) -> None:
    found = await knowledge.queries.query_for_failure("case broke", min_relevance=0, max_results=100)
    shown = {entry_id for pattern in found for entry_id in pattern.entry_ids}
    live = {entry_id for entry_id, expires in left.items() if expires > clock.time}
    kept.expired_shown += len(shown - live)
    kept.missing += len(live - shown) if len(live) <= 100 else 0


async def _prune(knowledge: Knowledge, clock: SetClock, left: dict[EntryId, datetime], kept: Kept) -> None:
    due = {entry_id for entry_id, expires in left.items() if expires <= clock.time}
    pruned = await knowledge.pruning.prune_old_knowledge()
    kept.early += max(0, pruned - len(due))
    kept.deleted += pruned
    for entry_id in due:
        del left[entry_id]
    bound = await knowledge.stores.spaces.bound()
    assert bound is not None
    points = await knowledge.stores.index.count(bound.space, knowledge.workspace)
    kept.early += max(0, len(left) - points)
    kept.late = max(kept.late, DAY if points > len(left) or pruned < len(due) else timedelta(0))


def _year_later(moment: datetime) -> datetime:
    leap = (moment.month, moment.day) == (2, 29)
    return moment.replace(year=moment.year + 1, day=28 if leap else moment.day)
