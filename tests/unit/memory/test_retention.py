"""The one-year rule, by the calendar, in UTC, as Postgres counts it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import asyncpg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.memory.rules.retention import add_years
from tests.support.cases import each_case

ZONES = st.timezones() | st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(
    datetime(1990, 1, 1),  # noqa: DTZ001 - the strategy adds the zone
    datetime(2150, 1, 1),  # noqa: DTZ001 - the strategy adds the zone
    timezones=ZONES | st.just(UTC),
    allow_imaginary=False,
)
LEAP_DAYS = st.builds(
    datetime,
    st.sampled_from([2024, 2028, 2000, 2096]),
    st.just(2),
    st.sampled_from([28, 29]),
    st.integers(0, 23),
    st.integers(0, 59),
    tzinfo=st.just(UTC),
)


@each_case
def test_a_year_later_is_the_same_day_and_time_in_utc(start: str, years: int, end: str) -> None:
    assert add_years(datetime.fromisoformat(start), years) == datetime.fromisoformat(end)


@given(MOMENTS | LEAP_DAYS, st.integers(1, 100))
def test_nothing_expires_before_its_year_is_over_nor_a_day_after(moment: datetime, years: int) -> None:
    end = add_years(moment, years)
    utc = moment.astimezone(UTC)
    assert end.tzinfo is UTC
    assert end.year == utc.year + years
    assert end.timetz() == utc.timetz()
    assert (end.month, end.day) == (utc.month, utc.day) or ((utc.month, utc.day), end.day) == ((2, 29), 28)


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(moments=st.lists(MOMENTS | LEAP_DAYS, min_size=1, max_size=50), years=st.integers(1, 3))
def test_it_is_what_postgres_makes_of_it_in_utc(postgres_dsn: str, moments: list[datetime], years: int) -> None:
    """G12."""
    query = """
        SELECT (moment AT TIME ZONE 'UTC' + make_interval(years => $2)) AT TIME ZONE 'UTC'
        FROM unnest($1::timestamptz[]) WITH ORDINALITY AS given(moment, place) ORDER BY place
    """

    async def ask() -> list[datetime]:
        connection = await asyncpg.connect(postgres_dsn)
        try:
            return [row[0] for row in await connection.fetch(query, moments, years)]
        finally:
            await connection.close()

    assert asyncio.run(ask()) == [add_years(moment, years) for moment in moments]
