"""Conditions for the words of a search: an index answers for embedded entries, and the few others are read."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import TSQUERY, TSVECTOR
from sqlalchemy.dialects.postgresql import UUID as UUID_TYPE
from sqlalchemy.ext.asyncio import AsyncConnection

from knowledge.adapters.postgres.engine.search_words import MAX_WORD_CHARS, SEARCHED
from knowledge.adapters.postgres.memory.counts import is_any_of
from knowledge.adapters.postgres.memory_tables import knowledge_staging
from knowledge.models import EntryStatus

_E = knowledge_staging.c
_SEARCH: Final = sa.table(
    "entry_search",
    sa.column("entry_id", UUID_TYPE(as_uuid=True)),
    sa.column("workspace", sa.String),
    sa.column("pattern_id", UUID_TYPE(as_uuid=True)),
    sa.column("words", TSVECTOR),
)
_S = _SEARCH.c
_ESCAPE: Final = "\\"
_WHOLE: Final = re.compile(rf"[a-z0-9]{{1,{MAX_WORD_CHARS}}}", re.IGNORECASE)
"""Words that are one word for the index, too."""
_NOT_EMBEDDED: Final = sa.or_(
    # each by itself and spelt out, for the partial indexes
    *(_E.status == sa.literal(each.value, literal_execute=True) for each in EntryStatus if each != EntryStatus.EMBEDDED)
)
_FEW: Final = 1000
"""Entries that are looked up by their ids; ours: of more, a list finds a page sooner in its own order."""


async def read_entries_with(
    connection: AsyncConnection,
    workspace: str,
    words: Sequence[str],
    *,
    ordered: sa.Select[*tuple[Any, ...]],
    status: EntryStatus | None,
    limit: int,
) -> Sequence[sa.Row[*tuple[Any, ...]]]:
    """Return the first entries of a query, of a status or of any, that have all the words."""

    async def read(*conditions: sa.ColumnElement[bool]) -> Sequence[sa.Row[*tuple[Any, ...]]]:
        return (await connection.execute(ordered.where(*conditions).limit(_spell_out(limit)))).all()

    unindexed = (*_occur(words), _words_of_entry().bool_op("@@")(_query(workspace, words)))
    if status is not None and status is not EntryStatus.EMBEDDED:
        return await read(*unindexed)
    by_index = sa.select(_S.entry_id).where(*_match(workspace, words))
    others = sa.select(_E.id).where(_E.workspace == workspace, _NOT_EMBEDDED, *unindexed)
    found: list[UUID] = []
    for part in (by_index, others):
        if len(found) <= _FEW:
            found += (await connection.execute(part.limit(_spell_out(_FEW + 1)))).scalars().all()
    typed = tuple(_occur(words, only_typed=True))
    if len(found) <= _FEW:
        return await read(is_any_of(_E.id, found), *typed)
    others_match = sa.and_(_E.status != EntryStatus.EMBEDDED, *unindexed)
    of_row = sa.select(_S.words.bool_op("@@")(_query(workspace, words))).where(_S.entry_id == _E.id)
    first = (await connection.execute(ordered.with_only_columns(_E.id).limit(_spell_out(_FEW)))).scalars().all()
    matches = sa.or_(sa.and_(of_row.correlate(knowledge_staging).scalar_subquery(), *typed), others_match)
    rows = await read(is_any_of(_E.id, first), matches)
    if len(rows) == limit or len(first) < _FEW:  # words that many have, or all that may have them
        return rows
    # not IN, which Postgres would ask for each row anew where it expects the answer to be large
    indexed = by_index.where(_S.entry_id == _E.id).correlate(knowledge_staging).exists()
    return await read(sa.or_(sa.and_(indexed, *typed), others_match))


async def patterns_with(connection: AsyncConnection, workspace: str, words: Sequence[str]) -> Sequence[UUID]:
    """Return the patterns that have an embedded entry with all the words."""
    query = sa.select(_S.pattern_id).where(*_match(workspace, words)).distinct()
    typed = list(_occur(words, only_typed=True))
    if typed:
        query = query.join_from(_SEARCH, knowledge_staging, _E.id == _S.entry_id).where(*typed)
    return (await connection.execute(query)).scalars().all()


def _query(workspace: str, words: Sequence[str]) -> sa.ScalarSelect[str]:
    """Return the query of the index, as a subquery: a generic plan would evaluate the call for each row."""
    return sa.select(sa.func.search_query(workspace, " ".join(words), type_=TSQUERY)).scalar_subquery()


def _spell_out(limit: int) -> sa.BindParameter[int]:
    """Return a limit that a generic plan knows: it would take a parameter for a tenth of all rows."""
    return sa.literal(limit, literal_execute=True)


def _match(workspace: str, words: Sequence[str]) -> tuple[sa.ColumnElement[bool], ...]:
    return _S.workspace == workspace, _S.words.bool_op("@@")(_query(workspace, words))


def _words_of_entry() -> sa.Function[str]:
    texts = sa.func.concat_ws(" ", *(_E[name] for name in SEARCHED))
    return sa.func.search_words(_E.workspace, texts, type_=TSVECTOR)


def _occur(words: Sequence[str], *, only_typed: bool = False) -> Iterator[sa.ColumnElement[bool]]:
    """Yield a condition for each word: it occurs in a text, in any case, without the signs around it.

    `only_typed`: for those words alone that the index takes for several, or cuts.
    """
    for word in (each.strip(string.punctuation) or each for each in words):
        if not (only_typed and _WHOLE.fullmatch(word)):
            escaped = word.replace(_ESCAPE, _ESCAPE * 2).replace("%", f"{_ESCAPE}%").replace("_", f"{_ESCAPE}_")
            yield sa.or_(*(_E[name].ilike(f"%{escaped}%", escape=_ESCAPE) for name in SEARCHED))
