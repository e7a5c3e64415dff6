"""Verification of seals, heads over the chains, adoption of what was stored before, and acceptance by people."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from hardwon.errors import Conflict, NotFound, StoreAltered
from hardwon.event_log import get_logger
from hardwon.models.seals import MAX_ALTERED, SealHead, SealReport, describe_missing
from knowledge.access.seals import ChainLink, SealKeys, Total, canonical, total_of
from knowledge.adapters.postgres.admin.stored_texts import forget_derived
from knowledge.adapters.postgres.admin.verify import find_underived
from knowledge.adapters.postgres.engine.database import (
    Store,
    autocommit,
    engine_of_workspace,
    snapshot,
    transaction,
)
from knowledge.adapters.postgres.memory.counts import exclusive_transaction, recount
from knowledge.adapters.postgres.memory_tables import (
    audit_log,
    embedding_spaces,
    entry_profiles,
    knowledge_staging,
    lexicon,
    outcomes,
    patterns,
    projects,
    seal_chains,
    seal_heads,
    workspaces,
)
from knowledge.adapters.postgres.seals.entry_seals import SEALED_COLUMNS, entry_message, put_seals, verifies
from knowledge.adapters.postgres.seals.ledger import Ledger, ledger_of
from knowledge.adapters.postgres.seals.row_seals import SEALED_ROWS, row_verifies, seal_rows, select_sealed
from knowledge.memory.rules.entry_profile import build_profile
from knowledge.models import EntryId, EntryProfile, EntryTexts, EntryType
from knowledge.ports import SealStore
from knowledge.retrieval.term_profile import RULES
from knowledge.runtime.scheduling import yield_to_loop

log = get_logger(__name__)
_E = knowledge_staging.c
_K = seal_chains.c
_H = seal_heads.c
_PAGE = 500
_SLICE = 64
"""Rows verified before yielding to the event loop: 1 ms."""
_CAPTURED = len(SEALED_COLUMNS) - 1
_COUNTS = sa.select(
    sa.func.coalesce(sa.func.sum(_K.rows), 0),
    sa.func.coalesce(sa.func.sum(_K.number), 0),
    sa.select(sa.func.count()).select_from(audit_log).scalar_subquery(),
)
_EVER = datetime.max.replace(tzinfo=UTC)
_MISSING = sa.text("""
    SELECT workspace, sum(rows) AS missing FROM (
        SELECT workspace, rows FROM seal_chains
        UNION ALL SELECT workspace, -count(*) FROM knowledge_staging GROUP BY workspace
        UNION ALL SELECT workspace, -count(*) FROM outcomes GROUP BY workspace
    ) AS counted GROUP BY workspace HAVING sum(rows) <> 0
""")
_LOCK_WRITERS = sa.text("LOCK TABLE knowledge_staging, outcomes IN SHARE ROW EXCLUSIVE MODE")
_WORKSPACES = sa.union(sa.select(projects.c.workspace), sa.select(workspaces.c.workspace)).order_by("workspace")


async def read_last_head(engine: AsyncEngine) -> SealHead | None:
    """Return the last head of a store, unverified."""
    async with autocommit(engine) as connection:
        row = (await connection.execute(sa.select(seal_heads).order_by(_H.number.desc()).limit(1))).first()
    return None if row is None else _to_head(row)


class PostgresSeals(Store, SealStore):
    """The seals of a store."""

    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine)
        self._ledger: Ledger = ledger_of(engine)

    @property
    def _keys(self) -> SealKeys:
        assert self._ledger.keys is not None  # noqa: S101 - an engine without keys has no such store
        return self._ledger.keys

    async def last_head(self) -> SealHead | None:
        return await read_last_head(self._engine)

    async def head(self, number: int) -> SealHead | None:
        row = await self._first(sa.select(seal_heads).where(_H.number == number))
        return None if row is None else _to_head(row)

    async def counts(self) -> tuple[int, int]:
        _, links, decisions = await self._one(_COUNTS)
        return int(links), int(decisions)

    async def take_head(self, now: datetime, *, reason: str | None = None) -> SealHead:
        while True:
            last = await self.last_head()
            try:
                return await self._add_head(last, now, reason)
            except IntegrityError:  # another process took one just then
                continue

    async def _add_head(self, last: SealHead | None, now: datetime, reason: str | None) -> SealHead:
        async with transaction(self._engine) as connection:
            rows, links, decisions = (await connection.execute(_COUNTS)).one()
            details: dict[str, Any] = {
                "store": str(last.store if last else uuid4()),
                "rows": int(rows),
                "links": int(links),
                "decisions": int(decisions),
                "reason": reason,
            }
            values: dict[str, Any] = {
                "number": last.number + 1 if last else 1,
                "at": now,
                "details": json.dumps(details, sort_keys=True),
                "before": bytes.fromhex(last.seal) if last else b"",
            }
            values["seal"] = self._keys.seal(_head_message(**values))
            await connection.execute(sa.insert(seal_heads).values(values))
        return _head_of(**values)

    def verifies(self, head: SealHead) -> bool:
        """Return whether a head was sealed by a key that is known here."""
        details = {name: getattr(head, name) for name in ("rows", "links", "decisions", "reason")}
        text = json.dumps(details | {"store": str(head.store)}, sort_keys=True)
        message = _head_message(number=head.number, at=head.at, details=text, before=bytes.fromhex(head.before))
        return self._keys.verifies(message, bytes.fromhex(head.seal))

    async def adopt(self, *, anew: bool) -> int:
        self._ledger.forget_chains()
        if anew:
            for table in (seal_chains, knowledge_staging, *SEALED_ROWS):
                gone = sa.delete(table) if table is seal_chains else sa.update(table).values(seal=None)
                await self._write(gone)
        adopted = 0
        for workspace in await self._scalars(_WORKSPACES):
            done = True
            while done:
                async with transaction(self._engine) as connection:
                    rows = await _seal_page(connection, self._ledger, workspace)
                    adopted, done = adopted + rows, rows > 0
            async with transaction(self._engine) as connection:
                adopted += await _seal_other_rows(connection, workspace)
                found = await self._counted_total(connection, workspace)
                told, _ = await self._chains_total(connection, workspace)
                await self._ledger.record_change(connection, workspace, found - told)
            await self._recount(workspace)
        return adopted

    async def _recount(self, workspace: str) -> None:
        """Derive the counts of all patterns anew: those of before may be of an earlier release."""
        query = sa.select(patterns.c.id).where(patterns.c.workspace == workspace).order_by(patterns.c.id)
        ids = await self._scalars(query)
        for start in range(0, len(ids), _PAGE):
            async with exclusive_transaction(self._engine, workspace) as connection:
                await recount(connection, ids[start : start + _PAGE])

    async def _counted_total(self, connection: AsyncConnection, workspace: str) -> Total:
        """Return the total of what is counted: entries, outcomes, and counts of terms."""
        found = (await self._verify_rows(connection, workspace, outcomes))[0]
        async for page in _pages(connection, workspace):
            found += self._keys.total(row[_CAPTURED] for row in page)
            await yield_to_loop()
        return found + await self._terms_total(connection, workspace)

    async def _terms_total(self, connection: AsyncConnection, workspace: str) -> Total:
        query = sa.select(lexicon.c.term, lexicon.c.documents).where(lexicon.c.workspace == workspace)
        counts = {row.term: row.documents for row in await connection.execute(query)}
        return self._keys.term_total(workspace, counts)

    async def verify(self, workspace: str, *, thorough: bool = True) -> SealReport:
        first = await self._first(sa.select(seal_heads).order_by(_H.number).limit(1))
        found, altered, rows = Total(), list[EntryId](), 0
        others = await self._verify_heads()
        async with snapshot(engine_of_workspace(self._engine, workspace)) as connection:
            told, broken = await self._chains_total(connection, workspace)
            for table in SEALED_ROWS:
                of_table, wrong = await self._verify_rows(connection, workspace, table)
                found += of_table
                others += wrong
            found += await self._terms_total(connection, workspace)
            others += await find_underived(connection, workspace, first.at if first else _EVER)
            if thorough:
                others += await _find_other_profiles(connection, workspace)
            async for page in _pages(connection, workspace):
                rows += len(page)
                for place, row in enumerate(page):
                    if place % _SLICE == 0:
                        await yield_to_loop()
                    if not verifies(self._keys, workspace, row):
                        altered.append(EntryId(row.entry_id))
                found += self._keys.total(row[_CAPTURED] for row in page)
        missing = told.rows - found.rows
        return SealReport(
            rows=rows,
            since=first.at if first else None,
            altered=tuple(altered[:MAX_ALTERED]),
            rows_altered=len(altered) + len(others),
            rows_missing=missing,
            problems=(*_describe(workspace, altered, missing, broken, differs=told != found and not others), *others),
        )

    async def _verify_heads(self) -> list[str]:
        """Return the heads that do not verify, or do not follow the head before, in words.

        Those before one with which the chain began anew, as the key was lost, vouch for nothing.
        """
        problems: list[str] = []
        before = None
        for row in await self._all(sa.select(seal_heads).order_by(_H.number)):
            message = _head_message(number=row.number, at=row.at, details=row.details, before=row.before)
            follows = before is None or (before.number + 1, before.seal) == (row.number, row.before)
            if not follows or not self._keys.verifies(message, row.seal):
                problems.append(f"head {row.number} of the store is not as hardwon stored it")
            elif _to_head(row).reason is not None:
                problems.clear()
            before = row
        return problems

    async def _accept_rows(self, connection: AsyncConnection, workspace: str, table: sa.Table) -> None:
        """Seal rows of a table that do not verify as they are."""
        rows = (await connection.execute(select_sealed(table, workspace))).all()
        for row in rows:
            if not row_verifies(self._keys, table, workspace, row):
                mine = [column == getattr(row, f"primary_{column.name}") for column in table.primary_key]
                await seal_rows(connection, workspace, table, *mine)

    async def _verify_rows(
        self, connection: AsyncConnection, workspace: str, table: sa.Table
    ) -> tuple[Total, list[str]]:
        """Return the total of a table's rows, where they are counted, and those that do not verify, in words."""
        total, wrong = Total(), []
        sealed = SEALED_ROWS[table]
        streamed = await connection.stream(select_sealed(table, workspace), execution_options={"yield_per": _PAGE})
        async for page in streamed.partitions(_SLICE):
            await yield_to_loop()
            for row in page:
                if not row_verifies(self._keys, table, workspace, row):
                    named = f"a row of {table.name} of workspace {workspace}"
                    wrong.append(f"{named} is not as hardwon stored it: {row[0]}")
            if sealed.is_counted:
                total += self._keys.total(row[len(sealed.columns)] for row in page)
        return total, wrong

    async def _chains_total(self, connection: AsyncConnection, workspace: str) -> tuple[Total, int]:
        """Return the total of the chains of a workspace, and how many of them do not verify."""
        total, broken = Total(), 0
        for row in await connection.execute(sa.select(seal_chains).where(_K.workspace == workspace)):
            of_chain = total_of(self._keys, _to_link(row))
            total, broken = (total, broken + 1) if of_chain is None else (total + of_chain, broken)
        return total, broken

    async def accept(self, workspace: str, entry_id: EntryId) -> str | None:
        mine = sa.and_(_E.workspace == workspace, _E.id == entry_id)
        async with exclusive_transaction(engine_of_workspace(self._engine, workspace), workspace) as connection:
            row = (await connection.execute(sa.select(*SEALED_COLUMNS).where(mine).with_for_update())).first()
            if row is None:
                raise NotFound(f"there is no entry {entry_id} in workspace {workspace}")
            if verifies(self._keys, workspace, row):
                return None
            await _seal_entries(connection, self._ledger, workspace, [row])
            of_pattern = set() if row.pattern_id is None else {row.pattern_id}
            await forget_derived(connection, workspace, [entry_id], of_pattern)
            await recount(connection, of_pattern)
        self._ledger.refused[workspace].pop(entry_id, None)
        return hashlib.sha256(entry_message(workspace, row)).hexdigest()

    async def accept_totals(self, workspace: str) -> int:
        engine = engine_of_workspace(self._engine, workspace)
        async with transaction(engine) as connection:
            await connection.execute(sa.text("SET LOCAL lock_timeout = '10s'"))
            await connection.execute(_LOCK_WRITERS)
            for table in SEALED_ROWS:
                await self._accept_rows(connection, workspace, table)
            found = await self._counted_total(connection, workspace)
            told, _ = await self._chains_total(connection, workspace)
            await self._ledger.record_change(connection, workspace, found - told)
        return found.rows - told.rows

    def use_new_key(self) -> str:
        if self._ledger.renew is None:
            raise Conflict(
                "the keys are in HARDWON_SEAL_KEYS: put a new one first there, with a comma, and start again"
            )
        self._ledger.keys = self._ledger.renew()
        return self._keys.current.name.hex()

    async def count_missing(self) -> dict[str, int]:
        return {row.workspace: int(row.missing) for row in await self._all(_MISSING)}

    @property
    def altered(self) -> int:
        found = sum(map(len, self._ledger.problems.values()))
        return found + sum(map(len, self._ledger.refused.values()))

    def note_problems(self, workspace: str, problems: tuple[str, ...]) -> None:
        self._ledger.problems[workspace] = problems
        self._ledger.refused[workspace].clear()

    def problems(self, workspace: str) -> tuple[str, ...]:
        noted = dict.fromkeys((*self._ledger.problems.get("", ()), *self._ledger.problems.get(workspace, ())))
        refused = (_describe_altered(workspace, each) for each in list(self._ledger.refused[workspace])[:MAX_ALTERED])
        return tuple(noted | dict.fromkeys(refused))


async def _find_other_profiles(connection: AsyncConnection, workspace: str) -> list[str]:
    """Return the profiles by today's rules that are not those of their entries' texts, in words."""
    texts = [_E[name] for name in EntryTexts._fields]
    query = (
        sa.select(_E.id, *texts, *(entry_profiles.c[field.name] for field in fields(EntryProfile)))
        .join(entry_profiles, entry_profiles.c.entry_id == _E.id)
        .where(_E.workspace == workspace, entry_profiles.c.rules == RULES)
    )
    problems: list[str] = []
    streamed = await connection.stream(query, execution_options={"yield_per": _PAGE})
    async for page in streamed.partitions(_SLICE):
        others = await asyncio.to_thread(_other_profiles, page)
        problems += [f"the profile of entry {each} of workspace {workspace} does not follow" for each in others]
    return problems


def _other_profiles(page: Sequence[sa.Row[Any]]) -> list[UUID]:
    last = 1 + len(EntryTexts._fields)
    found = []
    for row in page:
        profile = build_profile(EntryTexts(*row[1:last])._replace(entry_type=EntryType(row.entry_type)))
        if tuple(getattr(profile, field.name) for field in fields(EntryProfile)) != tuple(row[last:]):
            found.append(row.id)
    return found


async def term_totals(connection: AsyncConnection, ledger: Ledger) -> dict[str, Total]:
    """Return the totals of the counts of terms, by workspace."""
    if ledger.keys is None:
        return {}
    counts: dict[str, dict[int, int]] = {}
    for row in await connection.execute(sa.select(lexicon)):
        counts.setdefault(row.workspace, {})[row.term] = row.documents
    return {workspace: ledger.keys.term_total(workspace, each) for workspace, each in counts.items()}


async def seal_unsealed(connection: AsyncConnection, ledger: Ledger, before: Mapping[str, Total]) -> None:
    """Seal all rows of the store that have no seal, in this transaction; `before`: the counts of terms at its start."""
    after = await term_totals(connection, ledger)
    for workspace in sorted(before.keys() | after.keys()):
        change = after.get(workspace, Total()) - before.get(workspace, Total())
        await ledger.record_change(connection, workspace, change)
    await seal_rows(connection, "", embedding_spaces)
    for workspace in (await connection.execute(_WORKSPACES)).scalars().all():
        while await _seal_page(connection, ledger, workspace):
            await yield_to_loop()
        await _seal_other_rows(connection, workspace)


async def _seal_page(connection: AsyncConnection, ledger: Ledger, workspace: str) -> int:
    bare = sa.select(*SEALED_COLUMNS).where(_E.workspace == workspace, _E.seal.is_(None)).order_by(_E.id)
    rows = (await connection.execute(bare.limit(_PAGE).with_for_update())).all()
    await _seal_entries(connection, ledger, workspace, rows)
    return len(rows)


async def _seal_other_rows(connection: AsyncConnection, workspace: str) -> int:
    return sum([await seal_rows(connection, workspace, table, table.c.seal.is_(None)) for table in SEALED_ROWS])


async def _seal_entries(
    connection: AsyncConnection, ledger: Ledger, workspace: str, rows: Sequence[sa.Row[Any]]
) -> None:
    """Seal rows of entries as they are, and count them, in place of the seals they have."""
    keys = ledger.keys
    if keys is None or not rows:
        return
    seals = [keys.seal(entry_message(workspace, row)) for row in rows]
    await put_seals(connection, [row.entry_id for row in rows], seals)
    await ledger.record(connection, workspace, added=seals, removed=[row[_CAPTURED] for row in rows])


async def _pages(connection: AsyncConnection, workspace: str) -> AsyncIterator[Sequence[sa.Row[Any]]]:
    """Yield the rows of all entries of a workspace, a page at a time."""
    query = sa.select(*SEALED_COLUMNS).where(_E.workspace == workspace).order_by(_E.id).limit(_PAGE)
    after: UUID | None = None
    while True:
        page = (await connection.execute(query if after is None else query.where(_E.id > after))).all()
        if not page:
            return
        yield page
        after = page[-1].entry_id


def _describe(workspace: str, altered: Sequence[EntryId], missing: int, broken: int, *, differs: bool) -> list[str]:
    problems = [_describe_altered(workspace, entry_id) for entry_id in altered[:MAX_ALTERED]]
    if len(altered) > MAX_ALTERED:
        problems.append(f"{len(altered) - MAX_ALTERED:,} more entries of workspace {workspace} are not either")
    if broken:
        problems.append(f"{broken:,} chains of workspace {workspace} were changed")
    if missing:
        problems.append(describe_missing(workspace, missing))
    elif differs and not altered and not broken:
        problems.append(f"entries, outcomes or counts of words of workspace {workspace} are not as hardwon left them")
    return problems


def _describe_altered(workspace: str, entry_id: UUID) -> str:
    return f"entry {entry_id} of workspace {workspace} is not as hardwon stored it"


def _to_link(row: sa.Row[Any]) -> ChainLink:
    return ChainLink(
        workspace=row.workspace,
        chain_id=row.id,
        number=row.number,
        rows=row.rows,
        masked=row.masked,
        seal=row.seal,
    )


def _head_message(*, number: int, at: datetime, details: str, before: bytes) -> bytes:
    return canonical("head", "", [number, at, details, before])


def _head_of(*, number: int, at: datetime, details: str, before: bytes, seal: bytes) -> SealHead:
    try:
        told = json.loads(details)
    except ValueError:
        raise StoreAltered(
            f"head {number} of the store is not as hardwon stored it: restore it from a backup"
        ) from None
    return SealHead(
        number=number,
        at=at,
        store=UUID(told["store"]),
        rows=told["rows"],
        links=told["links"],
        decisions=told["decisions"],
        reason=told["reason"],
        before=before.hex(),
        seal=seal.hex(),
    )


def _to_head(row: sa.Row[Any]) -> SealHead:
    return _head_of(number=row.number, at=row.at, details=row.details, before=row.before, seal=row.seal)
