"""Stable identifier of a database: system identifier and OID."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from knowledge.adapters.postgres.database import autocommit

_IDENTITY = sa.text("""
    SELECT (SELECT system_identifier FROM pg_control_system()) || '-' || oid
    FROM pg_database WHERE datname = current_database()
""")
"""A standby shares its primary's; a restored dump has another one; a copy of a server's files has the same."""


async def identity(engine: AsyncEngine) -> str:
    """Return the identifier of a database: that of its server's files, and its OID."""
    async with autocommit(engine) as connection:
        return str(await connection.scalar(_IDENTITY))
