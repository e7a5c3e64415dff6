"""Tokens spent at endpoints, in Postgres: every process of a store counts in the same row."""

from __future__ import annotations

from datetime import UTC, date, datetime, time

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from knowledge.adapters.postgres.database import autocommit, transaction
from knowledge.adapters.postgres.tables import spending
from knowledge.ports import SpendingStore

_S = spending.c


class PostgresSpending(SpendingStore):
    """The tokens of one workspace."""

    def __init__(self, engine: AsyncEngine, workspace: str, budget: int | None) -> None:
        self._engine = engine
        self._workspace = workspace
        self._budget = budget

    @property
    def budget(self) -> int | None:
        return self._budget

    async def reserve(self, day: date, tokens: int) -> bool:
        new = insert(spending).values(workspace=self._workspace, day=_midnight(day), tokens=tokens)
        counted = new.on_conflict_do_update(
            index_elements=[_S.workspace, _S.day],
            set_={"tokens": _S.tokens + new.excluded.tokens},
            where=None if self._budget is None else _S.tokens < self._budget,
        ).returning(_S.tokens)
        async with transaction(self._engine) as connection:
            return await connection.scalar(counted) is not None

    async def correct(self, day: date, by: int) -> None:
        of_day = sa.update(spending).where(_S.workspace == self._workspace, _S.day == _midnight(day))
        async with transaction(self._engine) as connection:
            await connection.execute(of_day.values(tokens=sa.func.greatest(_S.tokens + by, 0)))

    async def tokens_used(self, day: date) -> int:
        of_day = sa.select(_S.tokens).where(_S.workspace == self._workspace, _S.day == _midnight(day))
        async with autocommit(self._engine) as connection:
            return await connection.scalar(of_day) or 0


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
