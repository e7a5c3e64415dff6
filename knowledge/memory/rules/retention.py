"""Retention by calendar years, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def add_years(moment: datetime, years: int) -> datetime:
    """Return the same time `years` calendar years later, in UTC; 29 February becomes the 28th where there is none.

    As Postgres does it (`timestamp + interval '1 year'`); computed once per embedding and stored in both stores.
    """
    utc = moment.astimezone(UTC)
    try:
        return utc.replace(year=utc.year + years)
    except ValueError:
        return utc.replace(year=utc.year + years, day=28)
