"""What tells one database from every other, its copies on other servers included."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from knowledge.adapters.postgres.database import reading

_IDENTITY = sa.text("""
    SELECT (SELECT system_identifier FROM pg_control_system()) || '-' || oid
    FROM pg_database WHERE datname = current_database()
""")
"""A standby has its primary's, a restored dump another one; what copies the files of a server copies it."""


async def identity(engine: AsyncEngine) -> str:
    """Return the identity of a database: the number of its server's files, and its own among them."""
    async with reading(engine) as connection:
        return str(await connection.scalar(_IDENTITY))
