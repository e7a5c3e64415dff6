"""Row-level security: rows of a workspace are visible to it alone, whatever a statement forgets.

A connection for a workspace sets `hardwon.workspace` and takes a role that owns no table. One without a workspace works
on the whole store, as migrations, exports, jobs and the release before do; the role may not.
"""

from __future__ import annotations

from typing import Final

import asyncpg
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from knowledge.adapters.postgres.engine.database import autocommit, transaction
from knowledge.models import RowSecurity

OF_WORKSPACE: Final = (
    "(workspace = current_setting('hardwon.workspace', true)"
    " OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'))"
)
WORKSPACE_TABLES: Final = (
    "projects",
    "workspaces",
    "spending",
    "knowledge_staging",
    "entry_profiles",
    "entry_versions",
    "entry_words",
    "patterns",
    "pattern_maps",
    "pattern_places",
    "points",
    "match_keys",
    "links",
    "checkpoints",
    "contexts",
    "deeds",
    "webhook_events",
    "outcomes",
    "records",
    "lexicon",
    "counters",
    "audit_log",
    "seal_chains",
    "kb_partitions",
    "kb_grants",
    "kb_sources",
    "kb_documents",
    "kb_vectors",
    "kb_terms",
    "kb_scales",
    "answer_cache",
    "qa_events",
    "escalations",
    "answer_feedback",
)
"""Tables with a workspace column."""
NOT_FORCED: Final = "entry_words"
"""The table that its owner's view reads past the policy, with the same condition (`search_words`)."""

PARENT_CONDITIONS: Final = {
    "vectors": "(EXISTS (SELECT 1 FROM points WHERE points.id = vectors.point_id))",
    "distillations": "(EXISTS (SELECT 1 FROM patterns WHERE patterns.id = distillations.pattern_id))",
    "distilled_from": "(EXISTS (SELECT 1 FROM patterns WHERE patterns.id = distilled_from.pattern_id))",
    "kb_versions": "(EXISTS (SELECT 1 FROM kb_documents WHERE kb_documents.id = kb_versions.document_id))",
    "kb_chunks": "(EXISTS (SELECT 1 FROM kb_documents WHERE kb_documents.id = kb_chunks.document_id))",
    "kb_lines": "(EXISTS (SELECT 1 FROM kb_documents WHERE kb_documents.id = kb_lines.document_id))",
}
"""Tables without one: the workspace is that of the parent row, which must be visible."""

_ALL = "SELECT, INSERT, UPDATE, DELETE"
_NO_DELETE = "SELECT, INSERT, UPDATE"
GRANTS: Final = {
    **dict.fromkeys((*WORKSPACE_TABLES, *PARENT_CONDITIONS), _ALL),
    "embedding_spaces": "SELECT",
    "entry_search": "SELECT",
    "audit_log": "SELECT, INSERT",
    "seal_chains": "SELECT, INSERT, UPDATE",
    **dict.fromkeys(("qa_events", "escalations", "answer_feedback"), _NO_DELETE),
}
"""Rights of the application's role."""


def policies() -> list[str]:
    """Return the statements that protect the tables; FORCE applies to their owner too."""
    statements = []
    for table, condition in {**dict.fromkeys(WORKSPACE_TABLES, OF_WORKSPACE), **PARENT_CONDITIONS}.items():
        statements += [
            f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
            *([] if table == NOT_FORCED else [f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY"]),
            f"CREATE POLICY of_workspace ON {table} USING {condition} WITH CHECK {condition}",
        ]
    return statements


_STATE = sa.text("""
    SELECT role.oid IS NOT NULL AS there,
        coalesce(pg_has_role(session_user, role.oid,
            CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END), false)
            AS ours,
        me.rolsuper OR me.rolbypassrls AS bypasses
    FROM pg_roles me LEFT JOIN pg_roles role ON role.rolname = 'hardwon_app'
    WHERE me.rolname = session_user
""")
_COUNT_MISSING_RIGHTS = sa.text("""
    SELECT count(*) FROM unnest(CAST(:tables AS text[]), CAST(:rights AS text[])) AS asked(name, rights)
    CROSS JOIN LATERAL unnest(string_to_array(asked.rights, ', ')) AS may
    WHERE NOT has_table_privilege('hardwon_app', asked.name, may)
""")
_LOCK_RIGHTS = sa.text("SELECT pg_advisory_xact_lock(hashtextextended('hardwon/rights', 0))")
_GRANT = "GRANT %(rights)s ON %(name)s TO hardwon_app"
_GRANT_SCHEMA = "DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO hardwon_app', current_schema()); END $$"
_ALREADY_EXISTS = ("42710", "23505")
_NOT_ALLOWED = "42501"


async def ensure_role(engine: AsyncEngine) -> bool:
    """Create the application's role if it is missing, and grant its rights; return whether connections can take it.

    Roles belong to the whole server: another database may have created it. If the user may not create roles, nothing is
    changed, and False is returned: rows are then separated only by the workspace in each statement.
    """
    async with autocommit(engine) as connection:
        state = (await connection.execute(_STATE)).one()
        if state.ours and not await _lacks_rights(connection):
            return True
    try:
        if not state.there:
            await _make_role(engine)
        async with transaction(engine) as connection:
            await connection.execute(_LOCK_RIGHTS)
            if not state.ours:
                await connection.execute(sa.text("GRANT hardwon_app TO CURRENT_USER"))
            for table, rights in GRANTS.items():
                await connection.execute(sa.DDL(_GRANT, context={"rights": rights, "name": table}))  # type: ignore[no-untyped-call]
            await _grant_schema(connection)
    except DBAPIError as error:
        if _code(error) != _NOT_ALLOWED:
            raise
        return False
    async with autocommit(engine) as connection:
        return bool((await connection.execute(_STATE)).one().ours)


async def _grant_schema(connection: AsyncConnection) -> None:
    """Let the role use the tables' schema, if not everybody may (as in `public`)."""
    may = "SELECT has_schema_privilege('hardwon_app', current_schema(), 'USAGE')"
    if not await connection.scalar(sa.text(may)):
        await connection.execute(sa.text(_GRANT_SCHEMA))


async def _lacks_rights(connection: AsyncConnection) -> bool:
    params = {"tables": list(GRANTS), "rights": list(GRANTS.values())}
    return bool(await connection.scalar(_COUNT_MISSING_RIGHTS, params))


async def _make_role(engine: AsyncEngine) -> None:
    try:
        async with transaction(engine) as connection:
            await connection.execute(sa.text("CREATE ROLE hardwon_app NOLOGIN"))
    except DBAPIError as error:
        if _code(error) not in _ALREADY_EXISTS:  # created by another database of this server
            raise


def _code(error: DBAPIError) -> str | None:
    cause: BaseException | None = error.orig
    while cause is not None and not isinstance(cause, asyncpg.PostgresError):
        cause = cause.__cause__
    return None if cause is None else cause.sqlstate


async def row_security(engine: AsyncEngine) -> RowSecurity:
    """Return the degree to which Postgres separates the workspaces of a store."""
    async with autocommit(engine) as connection:
        state = (await connection.execute(_STATE)).one()
        if state.ours and not await _lacks_rights(connection):
            return RowSecurity.BY_ROLE
    return RowSecurity.NONE if state.bypasses else RowSecurity.BY_NAME
