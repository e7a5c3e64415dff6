"""The clocks of this machine and of Postgres."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Self

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from hardwon.errors import Unavailable
from knowledge.adapters.postgres.engine.database import autocommit
from knowledge.ports import Clock, StoreClock

_WRITTEN = datetime(2026, 1, 1, tzinfo=UTC)


class SystemClock(Clock):
    """The machine's clock, in UTC."""

    def now(self) -> datetime:
        """Return the present moment."""
        return datetime.now(UTC)

    def check_set(self) -> Self:
        """Return itself. Raises Unavailable while the machine's clock is not set, as on some at their start."""
        if (now := self.now()) < _WRITTEN:
            raise Unavailable(
                f"the clock of this machine says {now:%Y-%m-%d}, when hardwon was not written yet: set it, as what is"
                " stored expires by it"
            )
        return self


class PostgresClock(StoreClock):
    """The clock of the machine that Postgres runs on."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def now(self) -> datetime:
        async with autocommit(self._engine) as connection:
            return (await connection.execute(sa.select(sa.func.now()))).scalar_one()
