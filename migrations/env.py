"""Run by the alembic command line, or by the Postgres adapter with a connection of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from alembic import context
from sqlalchemy import Connection

from knowledge.adapters.postgres.document_tables import metadata
from knowledge.adapters.postgres.engine.database import make_engine


def run(connection: Connection | None = None, /, **options: Any) -> None:
    """Run the migrations on a connection, or print them as SQL without one."""
    context.configure(
        connection=connection,
        target_metadata=metadata,
        compare_type=True,
        compare_server_default=True,
        autogenerate_plugins=["alembic.autogenerate.*", "alembic.ext.checkconstraint_byname"],
        **options,
    )
    with context.begin_transaction():
        context.run_migrations()


async def online(dsn: str) -> None:
    """Run the migrations on the server at an address."""
    engine = make_engine(dsn)
    async with engine.begin() as connection:
        await connection.run_sync(run)
    await engine.dispose()


if context.is_offline_mode():
    run(dialect_name="postgresql", literal_binds=True)
elif (given := context.config.attributes.get("connection")) is not None:
    run(given)
elif dsn := context.config.get_main_option("sqlalchemy.url") or os.environ.get("HARDWON_DATABASE_URL"):
    asyncio.run(online(dsn))
else:
    sys.exit("set HARDWON_DATABASE_URL, or use `hardwon migrate`, which also knows the embedded Postgres")
