"""The chains of a process: each transaction that seals rows moves one of them on, and no other waits for it.

A chain is a row of `seal_chains`, taken from a list of free ones, or new. It goes back to the list after the commit,
and is left where nobody knows whether the commit was reached: its row is valid either way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.sql.dml import ReturningInsert

from hardwon.errors import StorageUnavailable
from knowledge.access.seals import SealKeys, Total, link
from knowledge.adapters.postgres.engine.database import after_commit, engine_data
from knowledge.adapters.postgres.memory_tables import seal_chains

_K = seal_chains.c
_LEDGER = "hardwon_ledger"
_MAX_REMEMBERED = 1024
"""Rows that verified: 8 MB at most. Ours."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain as this process left it; `number` 0 is one that is not stored yet."""

    chain_id: UUID
    number: int
    total: Total


@dataclass(frozen=True, slots=True)
class Move:
    """A chain that is about to be moved on, and the parameters of the statement that does it."""

    before: Chain
    after: Chain
    params: dict[str, Any]


def move_params(move: Move | None) -> dict[str, Any]:
    """Return the parameters of a statement that moves a chain on, if any."""
    return {} if move is None else move.params


def advance(new: Insert) -> ReturningInsert[Any]:
    """Return the statement that moves a chain on by one; it returns nothing where another process did."""
    values = {name: new.excluded[name] for name in ("number", "rows", "masked", "seal")}
    return new.on_conflict_do_update(
        index_elements=[_K.id], set_=values, where=_K.number == new.excluded.number - 1
    ).returning(_K.id)


_ADVANCE = advance(insert(seal_chains).values({column.name: sa.bindparam(f"chain_{column.name}") for column in _K}))


class Ledger:
    """The keys and the free chains of a process, by workspace. Without keys nothing is sealed or checked."""

    def __init__(self, keys: SealKeys | None = None, renew: Callable[[], SealKeys] | None = None) -> None:
        self.keys = keys
        self.renew = renew
        """Makes a new key that seals, where keys are in a file."""
        self.refused: dict[str, dict[UUID, None]] = defaultdict(dict)
        """The entries that did not verify when they were to be shown or embedded, by workspace."""
        self.refusals = 0
        self.problems: dict[str, tuple[str, ...]] = {}
        """What the last checks found, by workspace; "" for the store."""
        self.verified: dict[bytes | None, tuple[str, Sequence[Any]]] = {}
        """Rows of entries that verified, by their seals."""
        self._free: defaultdict[str, list[Chain]] = defaultdict(list)

    def remember(self, seal: bytes, verified: tuple[str, Sequence[Any]]) -> None:
        """Remember a row that verified; of many, the latest."""
        if len(self.verified) >= _MAX_REMEMBERED:
            del self.verified[next(iter(self.verified))]
        self.verified[seal] = verified

    def take(self, workspace: str, change: Total) -> Move:
        """Take a free chain, and return it as moved on by a change."""
        assert self.keys is not None  # noqa: S101 - the caller looked
        free = self._free[workspace]
        chain = free.pop() if free else Chain(uuid4(), 0, Total())
        return self.move(workspace, chain, change)

    def move(self, workspace: str, chain: Chain, change: Total) -> Move:
        """Return a chain as moved on by a change."""
        assert self.keys is not None  # noqa: S101 - the caller looked
        after = Chain(chain.chain_id, chain.number + 1, chain.total + change)
        told = link(self.keys, workspace, after.chain_id, after.number, after.total)
        params = {
            "chain_id": told.chain_id,
            "chain_workspace": workspace,
            "chain_number": told.number,
            "chain_rows": told.rows,
            "chain_masked": told.masked,
            "chain_seal": told.seal,
        }
        return Move(chain, after, params)

    def give_back(self, workspace: str, chain: Chain) -> None:
        """Free a chain after its last link was committed."""
        self._free[workspace].append(chain)

    def forget_chains(self) -> None:
        """Begin new chains from now on: those of before may be gone."""
        self._free.clear()

    async def record(
        self,
        connection: AsyncConnection,
        workspace: str,
        *,
        added: Iterable[bytes | None] = (),
        removed: Iterable[bytes | None] = (),
    ) -> None:
        """Count seals of rows as added and removed, in this transaction, which has to be one of `transaction`."""
        if self.keys is None:
            return
        await self.record_change(connection, workspace, self.keys.total(added) - self.keys.total(removed))

    async def record_change(self, connection: AsyncConnection, workspace: str, change: Total) -> None:
        """Move a chain of the workspace on by a change, in this transaction."""
        if self.keys is None or not change:
            return
        held = after_commit(connection)
        before = held.get(workspace)
        move = self.move(workspace, before, change) if before is not None else self.take(workspace, change)
        if (await connection.execute(_ADVANCE, move.params)).first() is None:
            raise StorageUnavailable(
                "another process moved a chain of this one on: is a copy of it running? Do it again; `hardwon verify`"
                " tells whether anything was changed"
            )
        held[workspace] = move.after
        held.release = self.give_back


def use_seals(engine: AsyncEngine, keys: SealKeys, *, renew: Callable[[], SealKeys] | None = None) -> Ledger:
    """Seal and check all that is written and shown by an engine, from now on."""
    ledger = Ledger(keys, renew)
    engine_data(engine)[_LEDGER] = ledger
    return ledger


def ledger_of(engine: AsyncEngine) -> Ledger:
    """Return the ledger of an engine, or of one of a workspace on the same connections."""
    ledger: Ledger = engine_data(engine).setdefault(_LEDGER, _UNUSED)
    return ledger


_UNUSED = Ledger()
