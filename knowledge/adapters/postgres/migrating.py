"""The schema, brought to this version by whichever process comes first."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncEngine

import migrations
from knowledge.adapters.postgres.database import reading, transaction
from knowledge.errors import StoreIncompatible

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATION_LOCK = 0x68617264
"""Key of the advisory lock under which one process migrates: "hard"."""

_FOLDER = Path(migrations.__file__).parent


@functools.cache
def head_revision() -> str:
    """Return the latest revision, read off the names of the scripts: loading Alembic to learn it takes longer."""
    return max(script.name.partition("_")[0] for script in (_FOLDER / "versions").glob("[0-9]*.py"))


def alembic_config() -> Config:
    """Return the configuration of the migrations as installed, wherever that is."""
    from alembic.config import Config  # noqa: PLC0415 - only where there is something to migrate

    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    return config


async def _revision(engine: AsyncEngine) -> str | None:
    try:
        async with reading(engine) as connection:
            found: str | None = await connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
            return found
    except ProgrammingError:
        return None  # an empty database has no such table


async def migrate(engine: AsyncEngine) -> bool:
    """Bring the schema to this version's head, once, however many processes call this together; say if it changed.

    Raises StoreIncompatible for a schema of a later hardwon.
    """
    if await _revision(engine) == head_revision():
        return False
    # The lock is polled, not waited for: a waiter inside pg_advisory_lock() holds a snapshot, and a
    # CREATE INDEX CONCURRENTLY in a migration would wait for that waiter: a deadlock.
    async with reading(engine) as lock:
        while not await lock.scalar(sa.select(sa.func.pg_try_advisory_lock(MIGRATION_LOCK))):  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.1)
        try:
            found = await _revision(engine)
            if found == head_revision():
                return False
            await _upgrade(engine, found)
            return True
        finally:
            await lock.execute(sa.select(sa.func.pg_advisory_unlock(MIGRATION_LOCK)))


async def _upgrade(engine: AsyncEngine, found: str | None) -> None:
    """Take one revision after the other, each in a transaction of its own.

    A revision locks the table it changes. One transaction over several would hold one table and wait for the next,
    which a process of the version before may hold while it waits for the first: a deadlock (seen).
    """
    from alembic import command  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    def upgrade(connection: sa.Connection) -> None:
        config = alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, "+1")

    try:
        while found != head_revision():
            async with transaction(engine) as connection:
                await connection.run_sync(upgrade)
            found = await _revision(engine)
    except CommandError as error:
        raise StoreIncompatible(
            f"the database schema ({found}) was made by a later hardwon: install that version"
        ) from error
