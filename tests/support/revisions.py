"""Databases of an earlier revision of the schema, as a release before left them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import sqlalchemy as sa
from alembic import command

from knowledge.adapters.postgres.database import make_engine, transaction
from knowledge.adapters.postgres.migrating import alembic_config
from tests.support.postgres import create_database, drop_database


@asynccontextmanager
async def database_of(server_dsn: str, revision: str) -> AsyncIterator[str]:
    """Make an empty database of a revision; give its address, and drop it at the end."""

    def upgrade(connection: sa.Connection) -> None:
        config = alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, revision)

    dsn = await create_database(server_dsn)
    try:
        engine = make_engine(dsn)
        async with transaction(engine) as connection:
            await connection.run_sync(upgrade)
        await engine.dispose()
        yield dsn
    finally:
        await drop_database(dsn)
