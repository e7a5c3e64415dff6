"""Stores that are wrong in one way, which the operations must notice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from qdrant_edge import FieldCondition, Filter
from sqlalchemy.ext.asyncio import AsyncEngine

from hardwon.errors import NotFound
from knowledge.adapters.postgres.document_tables import kb_documents
from knowledge.adapters.postgres.documents import passages
from knowledge.adapters.postgres.engine import connection, database, pooler
from knowledge.adapters.postgres.engine.connection import ServerConnector
from knowledge.adapters.postgres.engine.database import autocommit
from knowledge.adapters.postgres.memory.entries import PostgresEntries
from knowledge.adapters.postgres.memory.entry_rows import ENTRY_COLUMNS, to_entry
from knowledge.adapters.postgres.memory_tables import knowledge_staging
from knowledge.adapters.qdrant import edge, edge_search, passage_payloads
from knowledge.adapters.qdrant.payloads import TENANT
from knowledge.documents.access import Scope
from knowledge.documents.models import PassageWhere
from knowledge.models import Entry, EntryId


class Mutant(StrEnum):
    """A store that is wrong in one way."""

    INDEX = "the index is asked without the workspace"
    STATEMENT = "a statement forgets the workspace, and Postgres does not mind"
    GUARDED = "a statement forgets the workspace, and Postgres does mind"
    PASSAGES = "the index of passages is asked without the workspace"
    DOCUMENTS = "a statement on documents forgets the workspace, and Postgres does not mind"
    GUARDED_DOCUMENTS = "a statement on documents forgets the workspace, and Postgres does mind"
    SESSION = "behind a pooler, the workspace is set for a session that others get"
    LEFT_BEHIND = "behind a pooler, the workspace stays on a connection after the transaction"


CAUGHT = (Mutant.INDEX, Mutant.STATEMENT, Mutant.PASSAGES, Mutant.DOCUMENTS)
"""Those that leak."""
GUARDED = (Mutant.GUARDED, Mutant.GUARDED_DOCUMENTS)
"""Those that would, were there no row-level security."""


async def _get_any(self: PostgresEntries, entry_id: EntryId) -> Entry:
    """`PostgresEntries.get` without its workspace."""
    async with autocommit(self._engine) as connection:
        query = sa.select(*ENTRY_COLUMNS).where(knowledge_staging.c.id == entry_id)
        row = (await connection.execute(query)).first()
    if row is None:
        raise NotFound(str(entry_id))
    return to_entry(row)


def _within_any(_: str, *conditions: FieldCondition | Filter, without: object = ()) -> Filter:
    return Filter(must=list(conditions))


def _whole_store(engine: AsyncEngine, _: str) -> AsyncEngine:
    """Return the engine as the login has it, which is above all rules."""
    return engine


def _in_scope_of_any(scope: Scope, _: str) -> sa.ColumnElement[bool]:
    """`in_scope` without its workspace."""
    return kb_documents.c.partition == sa.any_(sa.literal(list(scope.partitions), sa.ARRAY(sa.Text)))


async def _own_session(self: ServerConnector) -> Any:
    """`ServerConnector.connect`, which takes whatever answers for a session of its own."""
    return await self._dial(connection._Keepalive)


_conditions = passage_payloads.conditions


def _conditions_of_any(where: PassageWhere) -> passage_payloads.Conditions:
    """`conditions` without its workspace."""
    found = _conditions(where)
    return replace(found, one_of=tuple(each for each in found.one_of if each[0] != TENANT))


_CHANGED: dict[Mutant, list[tuple[Any, str, Any]]] = {
    Mutant.INDEX: [(each, "workspace_filter", _within_any) for each in (edge, edge_search)],
    Mutant.STATEMENT: [(PostgresEntries, "get", _get_any), (database, "engine_of_workspace", _whole_store)],
    Mutant.GUARDED: [(PostgresEntries, "get", _get_any)],
    Mutant.PASSAGES: [(passage_payloads, "conditions", _conditions_of_any)],
    Mutant.DOCUMENTS: [
        (passages, "in_scope", _in_scope_of_any),
        (database, "engine_of_workspace", _whole_store),
    ],
    Mutant.GUARDED_DOCUMENTS: [(passages, "in_scope", _in_scope_of_any)],
    Mutant.SESSION: [(ServerConnector, "connect", _own_session)],
    Mutant.LEFT_BEHIND: [(pooler, "_SET", "set_config({name}, {value}, false)")],
}


@contextmanager
def mutated(mutant: Mutant | None) -> Iterator[None]:
    """Put a mutant in its place for a while."""
    changed = _CHANGED[mutant] if mutant else []
    kept = [(where, name, getattr(where, name)) for where, name, _ in changed]
    try:
        for where, name, wrong in changed:
            setattr(where, name, wrong)
        yield
    finally:
        for where, name, right in kept:
            setattr(where, name, right)
