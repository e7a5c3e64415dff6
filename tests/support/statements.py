"""The SQL of the tests, put together once a process: each test has an engine of its own, and would do it again."""

from __future__ import annotations

from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.engine import Engine
from sqlalchemy.util import LRUCache

_MOST = 5_000


def keep_statements() -> None:
    """Have all engines of this process share what their statements came to: they speak one dialect to one server."""
    kept: LRUCache[object, object] = LRUCache(_MOST)
    # a statement is looked up by its dialect, too, and each engine has one of its own
    setattr(PGDialect_asyncpg, "__hash__", lambda _: hash(PGDialect_asyncpg))  # noqa: B010 - this process is the tests'
    setattr(PGDialect_asyncpg, "__eq__", lambda one, other: type(one) is type(other))  # noqa: B010
    setattr(Engine, "_compiled_cache", property(lambda _: kept, lambda _, __: None))  # noqa: B010
