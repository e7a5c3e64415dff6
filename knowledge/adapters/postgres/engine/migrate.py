"""Migration of the schema to this version, by whichever process comes first."""

from __future__ import annotations

import asyncio
import functools
import random
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from hardwon.errors import StorageUnavailable, StoreIncompatible
from hardwon.event_log import get_logger
from knowledge.adapters.postgres.engine.connection import CONNECT_SECONDS, first_line
from knowledge.adapters.postgres.engine.database import APPLICATION_ROLE, autocommit, transaction
from knowledge.adapters.postgres.engine.row_security import ensure_role

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

log = get_logger(__name__)

MIGRATION_LOCK = 0x68617264
"""Key of the advisory lock for migrations: "hard"."""

_LOCK_MS = 300
"""Lock timeout of a migration, which may hold other locks meanwhile."""
_PATIENCE_SECONDS = 60
_WARN_AFTER_SECONDS = 3.0
"""Time after which a warning is logged that Postgres does not answer yet; ours."""
_NO_ANSWER_YET = (
    f"Postgres accepts a connection and does not answer yet; waiting for up to {CONNECT_SECONDS} s: is it Postgres,"
    " and is HARDWON_DATABASE_URL right?"
)
_LAST_WITH_OLDER_REVISIONS = "7e69ee7"
"""The last commit that migrates schemas from before revision 0026."""
_LOCK_NOT_AVAILABLE = "55P03"
_NOT_ALLOWED = frozenset({"42501", "3F000"})
"""The user may not change the schema, or has no schema to create tables in."""


@functools.cache
def head_revision(scripts: Path) -> str:
    """Return the latest revision, from the names of the scripts: loading Alembic for it takes longer."""
    return max(script.name.partition("_")[0] for script in (scripts / "versions").glob("[0-9]*.py"))


def alembic_config(scripts: Path) -> Config:
    """Return the configuration of the migrations in a folder."""
    from alembic.config import Config  # noqa: PLC0415 - only if there is something to migrate

    config = Config()
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    return config


async def schema_revision(connection: AsyncConnection) -> str | None:
    """Return the revision of the schema, None for an empty database."""
    if await connection.scalar(sa.text("SELECT to_regclass('alembic_version')")) is None:
        return None
    found: str | None = await connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    return found


async def _current_revision(engine: AsyncEngine) -> str | None:
    async with autocommit(engine) as connection:
        return await schema_revision(connection)


async def migrate(engine: AsyncEngine, scripts: Path) -> bool:
    """Migrate the schema to the head of `scripts`, once for any number of processes; return whether it changed.

    Grants the rights of the application's role. Raises StoreIncompatible for a schema of a later hardwon, and for one
    from before the baseline.
    """
    late = functools.partial(log.warning, "postgres_awaited", reason=_NO_ANSWER_YET)
    warning = asyncio.get_running_loop().call_later(_WARN_AFTER_SECONDS, late)
    try:
        found = await _current_revision(engine)
    finally:
        warning.cancel()
    changed = found != head_revision(scripts) and await _migrate(engine, scripts)
    if not await ensure_role(engine):
        log.info("rows_guarded_by_name_only", role=APPLICATION_ROLE)
    return changed


async def _migrate(engine: AsyncEngine, folder: Path) -> bool:
    """Apply each revision in a transaction of its own, so that their locks do not add up.

    Return whether this call applied the last one: others may have applied some of them meanwhile.
    """
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    give_up_at = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
    while True:
        match await _try_next(engine, folder):
            case _Step.DONE:
                return False
            case _Step.APPLIED_LAST:
                return True
            case _Step.APPLIED:
                give_up_at = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
            case _Step.ANOTHER_MIGRATES:
                give_up_at = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
                await asyncio.sleep(0.1)
            case _Step.LOCKED:
                if asyncio.get_running_loop().time() > give_up_at:
                    found = await _current_revision(engine)
                    revision = _next_revision(ScriptDirectory.from_config(alembic_config(folder)), found)
                    raise StorageUnavailable(
                        f"others hold tables that revision {revision} changes, and have not let go of them for"
                        f" {_PATIENCE_SECONDS} s: end their long transactions, and start again"
                    )
                await asyncio.sleep(random.uniform(0.05, 0.2))  # noqa: S311 - lets those that wait go first


def _next_revision(scripts: ScriptDirectory, found: str | None) -> str:
    from alembic.script.revision import RevisionError  # noqa: PLC0415

    head = head_revision(Path(scripts.dir))
    try:
        return [script.revision for script in scripts.iterate_revisions(head, found or "base")][-1]
    except RevisionError as error:
        message = f"the database schema (revision {found}) was made by a later hardwon: install that version"
        if found is not None and found < head:
            message = (
                f"the database schema (revision {found}) is too old for this hardwon: open it once with commit"
                f" {_LAST_WITH_OLDER_REVISIONS}, then with this version"
            )
        raise StoreIncompatible(message) from error


class _Step(Enum):
    """The end of an attempt to apply the next revision."""

    APPLIED = auto()
    APPLIED_LAST = auto()
    DONE = auto()
    ANOTHER_MIGRATES = auto()
    LOCKED = auto()
    """A table was locked; nothing was changed."""


async def _try_next(engine: AsyncEngine, folder: Path) -> _Step:
    """Apply the next revision, if there is one, while no other process applies one.

    The lock of the transaction is polled, not waited for: a waiter holds a snapshot, and a CREATE INDEX CONCURRENTLY in
    a migration would wait for that waiter: a deadlock. A lock of the session would not last behind a pooler.

    Another process may hold a table that this waits for, and wait for one that this holds. The lock timeout is shorter
    than deadlock_timeout (1 s), after which Postgres would abort one of the two.
    """
    from alembic.runtime.environment import EnvironmentContext  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    scripts, head = ScriptDirectory.from_config(alembic_config(folder)), head_revision(folder)

    def ahead(revision: str, found: Any, _: object) -> Any:
        return scripts._upgrade_revs(revision, found)  # noqa: SLF001 - as `alembic upgrade` does, with the same scripts

    def upgrade(connection: sa.Connection, revision: str) -> None:
        config = alembic_config(folder)
        config.attributes["connection"] = connection
        with EnvironmentContext(config, scripts, fn=functools.partial(ahead, revision), destination_rev=revision):
            scripts.run_env()

    try:
        async with transaction(engine) as connection:
            await connection.execute(sa.select(sa.func.set_config("lock_timeout", str(_LOCK_MS), sa.true())))
            if not await connection.scalar(sa.select(sa.func.pg_try_advisory_xact_lock(MIGRATION_LOCK))):
                return _Step.ANOTHER_MIGRATES
            if (found := await schema_revision(connection)) == head:
                return _Step.DONE
            revision = _next_revision(scripts, found)
            await connection.run_sync(upgrade, revision)
    except (DBAPIError, StorageUnavailable) as error:
        cause = error.__cause__ if isinstance(error, StorageUnavailable) else error
        orig = cause.orig if isinstance(cause, DBAPIError) else None
        code = getattr(orig, "sqlstate", None)
        if code in _NOT_ALLOWED:
            message = first_line((orig and orig.__cause__) or error)
            raise StorageUnavailable(
                f"Postgres does not let the user of HARDWON_DATABASE_URL make tables ({message}): have an administrator"
                " make that user the owner of the database"
            ) from error
        if code != _LOCK_NOT_AVAILABLE:
            raise
        return _Step.LOCKED
    return _Step.APPLIED_LAST if revision == head else _Step.APPLIED
