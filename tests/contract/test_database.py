"""Errors of the database: said in our words, or without the words that are stored."""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from knowledge.adapters.postgres.database import make_engine, reading, transaction

SECRET = "hunter2 was the password"


Opening = Callable[[AsyncEngine], AbstractAsyncContextManager[AsyncConnection]]

TABLE = "create temporary table if not exists told (text text primary key, number int check (number > 0))"


@pytest.fixture
async def engine(postgres_dsn: str) -> AsyncIterator[AsyncEngine]:
    engine = make_engine(postgres_dsn)
    yield engine
    await engine.dispose()


async def fails(engine: AsyncEngine, opening: Opening, statement: str) -> None:
    async with opening(engine) as connection:
        await connection.execute(sa.text(TABLE))
        await connection.execute(sa.text(statement), {"text": SECRET})


@pytest.mark.parametrize("opening", [transaction, reading])
@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("insert into told values (:text, 1), (:text, 2)", "unique constraint"),
        ("insert into told values (:text, -1)", "check constraint"),
        ("insert into told values ('x', cast(:text as integer) + 1)", "invalid input for query argument"),
        ("select nothing from told where text = :text", "does not exist"),
    ],
)
async def test_no_error_repeats_what_is_stored(
    engine: AsyncEngine, opening: Opening, statement: str, says: str
) -> None:
    """G8: an error that is nobody's fault but ours is raised as it is, and its trace is logged."""
    with pytest.raises(DBAPIError, match=says) as raised:
        await fails(engine, opening, statement)
    assert "hunter2" not in "".join(traceback.format_exception(raised.value))
    assert "hunter2" not in repr(raised.value)
