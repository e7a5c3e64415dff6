"""The embedding spaces of a store, and the lexicon of a workspace, in Postgres."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from knowledge.adapters.embedding_space import mean_cosine
from knowledge.adapters.postgres.document_tables import kb_chunks, kb_vectors
from knowledge.adapters.postgres.engine.database import CompiledQuery, WorkspaceStore, autocommit, transaction
from knowledge.adapters.postgres.memory.entry_rows import select_supporting_entry, supports_point, to_entry
from knowledge.adapters.postgres.memory_tables import embedding_spaces, lexicon, points, vectors, workspaces
from knowledge.adapters.postgres.seals.ledger import ledger_of
from knowledge.adapters.postgres.seals.row_seals import seal_rows
from knowledge.models import BoundSpace, Calibration, EmbeddingSpace, Entry, TermStatistics, Vector, View
from knowledge.ports import SpaceStore
from knowledge.retrieval.space_mismatch import space_mismatch

_S = embedding_spaces.c
_L = lexicon.c
SWITCH_LOCK = 0x73776974
"""Advisory lock for switching spaces: shared by each marking, reconciliation and regrouping, exclusive for a switch."""
TRY_SPACE = sa.select(sa.func.pg_try_advisory_xact_lock_shared(SWITCH_LOCK))
"""Keeps the space in use until the transaction ends; false during a switch."""
HOLD_SPACE = sa.select(sa.func.pg_advisory_xact_lock_shared(SWITCH_LOCK))
"""Keeps the space in use until the transaction ends; waits for a switch."""

_PROBES = np.dtype("<f4")
_DOCUMENTS = -1
"""The term whose row counts the situations themselves; real terms are not negative."""


def select_spaces() -> sa.Select[Any]:
    """Select all spaces, for `to_bound`."""
    return sa.select(_S.fingerprint, _S.space, _S.mean_terms, _S.calibration, _S.probes)


def select_collection() -> sa.Select[Any]:
    """Select the name of the collection in use, as `EmbeddingSpace.collection` has it."""
    layout = sa.func.coalesce("_" + sa.func.nullif(_S.space["layout"].astext, "0"), "")
    return sa.select(_S.fingerprint + layout).where(_S.active)


def to_bound(row: sa.Row[Any]) -> BoundSpace:
    """Convert a row of `select_spaces`."""
    return _to_bound(row.space, row.mean_terms, row.calibration, row.probes)


def _to_bound(
    space: Mapping[str, Any], mean_terms: float, calibration: Mapping[str, Any], probes: bytes | None
) -> BoundSpace:
    embedding_space = EmbeddingSpace(**space)
    return BoundSpace(
        space=embedding_space,
        mean_terms=mean_terms,
        calibration=Calibration(**calibration),
        unrelated_cosine=None if probes is None else mean_cosine(_to_vectors(probes, embedding_space)),
    )


@lru_cache(maxsize=8)  # each question reads the same row
def bound_of_json(space: str, mean_terms: float, calibration: str, probes: bytes | None) -> BoundSpace:
    """Convert the columns of a space, JSON as text."""
    return _to_bound(json.loads(space), mean_terms, json.loads(calibration), probes)


def statistics_of(frequencies: dict[int, int]) -> TermStatistics:
    """Convert the rows of `select_frequencies`; takes the row of the documents out."""
    return TermStatistics(documents=frequencies.pop(_DOCUMENTS, 0), frequencies=frequencies)


def select_frequencies() -> sa.Select[Any]:
    """Select the frequencies of terms, and the number of documents; parameters as `frequency_params` returns them."""
    return sa.select(_L.term, _L.documents).where(
        _L.workspace == sa.bindparam("workspace", type_=sa.Text),
        _L.term == sa.any_(sa.bindparam("terms", type_=sa.ARRAY(sa.BigInteger))),
    )


def frequency_params(workspace: str, terms: Sequence[int]) -> dict[str, Any]:
    """Return the parameters of `select_frequencies`."""
    return {"workspace": workspace, "terms": [*terms, _DOCUMENTS]}


def _to_vectors(data: bytes, space: EmbeddingSpace) -> Vector:
    return np.frombuffer(data, dtype=_PROBES).reshape(-1, space.dims)


def read_vectors(rows: Sequence[bytes], space: EmbeddingSpace) -> Vector:
    """Return embeddings stored as float16, (n, dims)."""
    return np.frombuffer(b"".join(rows), dtype=np.float16).astype(np.float32).reshape(len(rows), space.dims)


# Built once: compiling such a statement, or finding it compiled, takes longer than Postgres takes for a row.
_BOUND = select_spaces().where(_S.active)
_LOCAL_ONLY = sa.select(workspaces.c.local_only).where(
    workspaces.c.workspace == sa.bindparam("workspace", type_=sa.Text)
)
_STATISTICS = CompiledQuery(select_frequencies())


class PostgresSpaces(WorkspaceStore, SpaceStore):
    """Spaces of the whole store, with the term statistics of one workspace."""

    async def bound(self) -> BoundSpace | None:
        row = await self._first(_BOUND)
        return None if row is None else to_bound(row)

    async def bind(self, space: EmbeddingSpace, *, mean_terms: float, calibration: Calibration) -> BoundSpace:
        async with transaction(self._store) as connection:
            lock = sa.func.hashtextextended("hardwon/bind", 0)
            await connection.execute(sa.select(sa.func.pg_advisory_xact_lock(lock)))
            row = (await connection.execute(select_spaces().where(_S.active))).first()
            if row is not None and row.fingerprint == space.fingerprint:
                return to_bound(row)
            if row is not None:
                await self._unbind_unused(connection, to_bound(row).space, space)
            new = insert(embedding_spaces).values(
                fingerprint=space.fingerprint,
                space=asdict(space),
                mean_terms=mean_terms,
                calibration=asdict(calibration),
                active=True,
            )
            await connection.execute(
                new.on_conflict_do_update(
                    index_elements=[_S.fingerprint],
                    set_={
                        "active": True,
                        "mean_terms": mean_terms,
                        "calibration": asdict(calibration),
                        "probes": None,
                    },
                )
            )
            await seal_rows(connection, "", embedding_spaces)
            return to_bound((await connection.execute(select_spaces().where(_S.active))).one())

    @staticmethod
    async def _unbind_unused(connection: AsyncConnection, old: EmbeddingSpace, new: EmbeddingSpace) -> None:
        of_patterns = sa.exists().where(vectors.c.point_id == points.c.id, supports_point())
        of_documents = sa.exists().where(
            kb_vectors.c.space == old.fingerprint, kb_chunks.c.text_hash == kb_vectors.c.text_hash
        )
        if await connection.scalar(sa.select(sa.or_(of_patterns, of_documents))):
            raise space_mismatch(old, new)
        await connection.execute(sa.update(embedding_spaces).where(_S.active).values(active=False))

    async def recalibrate(self, space: EmbeddingSpace, calibration: Calibration) -> None:
        update = sa.update(embedding_spaces).where(_S.fingerprint == space.fingerprint)
        async with transaction(self._store) as connection:
            await connection.execute(update.values(calibration=asdict(calibration)))
            await seal_rows(connection, "", embedding_spaces, _S.fingerprint == space.fingerprint)

    async def probes(self, space: EmbeddingSpace) -> Vector | None:
        async with autocommit(self._store) as connection:
            data = await connection.scalar(sa.select(_S.probes).where(_S.fingerprint == space.fingerprint))
        return None if data is None else _to_vectors(data, space)

    async def keep_probes(self, space: EmbeddingSpace, vectors: Vector) -> bool:
        update = sa.update(embedding_spaces).where(_S.fingerprint == space.fingerprint)
        probes = sa.func.coalesce(_S.probes, vectors.astype(_PROBES).tobytes())
        async with transaction(self._store) as connection:
            done = await connection.execute(update.values(probes=probes))
            await seal_rows(connection, "", embedding_spaces, _S.fingerprint == space.fingerprint)
        return done.rowcount > 0

    async def local_only(self) -> bool:
        async with autocommit(self._engine) as connection:
            return bool(await connection.scalar(_LOCAL_ONLY, {"workspace": self._workspace}))

    async def keep_local(self, *, on: bool) -> None:
        new = insert(workspaces).values(workspace=self._workspace, local_only=on)
        async with transaction(self._engine) as connection:
            on_conflict = new.on_conflict_do_update(index_elements=[workspaces.c.workspace], set_={"local_only": on})
            await connection.execute(on_conflict)
            await seal_rows(connection, self._workspace, workspaces)

    async def statistics(self, terms: Sequence[int]) -> TermStatistics:
        return statistics_of(dict(await self._fetch(_STATISTICS, frequency_params(self._workspace, terms))))

    async def list_spaces(self) -> list[EmbeddingSpace]:
        query = select_spaces().order_by(_S.active.desc(), _S.bound_at)
        return [to_bound(row).space for row in await self._all(query)]

    async def sample_situations(self, space: EmbeddingSpace, limit: int) -> tuple[list[Entry], Vector]:
        words = select_supporting_entry()
        query = (
            sa.select(vectors.c.vector, words)
            .select_from(points)
            .join(vectors, sa.and_(vectors.c.point_id == points.c.id, vectors.c.space == space.fingerprint))
            .join(words, sa.true())
            .where(points.c.workspace == self._workspace, points.c.view == View.SITUATION)
            .order_by(points.c.id)  # ids are hashes: the first ones are a fair sample
            .limit(limit)
        )
        rows = await self._all(query)
        return [to_entry(row) for row in rows], read_vectors([row.vector for row in rows], space)

    async def sample_in_both(self, one: EmbeddingSpace, other: EmbeddingSpace, limit: int) -> tuple[Vector, Vector]:
        again = vectors.alias("again")
        both = (
            sa.select(vectors.c.vector.label("one"), again.c.vector.label("other"))
            .select_from(points)
            .join(vectors, sa.and_(vectors.c.point_id == points.c.id, vectors.c.space == one.fingerprint))
            .join(again, sa.and_(again.c.point_id == points.c.id, again.c.space == other.fingerprint))
            .where(points.c.workspace == self._workspace, points.c.view == View.SITUATION)
            .order_by(points.c.id)  # ids are hashes: the first ones are a fair sample
            .limit(limit)
        )
        rows = await self._all(both)
        return read_vectors([row.one for row in rows], one), read_vectors([row.other for row in rows], other)


async def add_terms(
    connection: AsyncConnection, workspace: str, frequencies: Mapping[int, int], documents: int
) -> None:
    """Add to the term statistics of a workspace."""
    counts = {**frequencies, _DOCUMENTS: documents}
    ordered = sorted(counts)  # in one order, so that two checkpoints never deadlock
    rows = sa.select(
        sa.literal(workspace),
        sa.func.unnest(sa.literal(ordered, sa.ARRAY(sa.BigInteger))),
        sa.func.unnest(sa.literal([counts[term] for term in ordered], sa.ARRAY(sa.BigInteger))),
    )
    new = insert(lexicon).from_select(["workspace", "term", "documents"], rows)
    add = new.on_conflict_do_update(
        index_elements=[_L.workspace, _L.term], set_={"documents": _L.documents + new.excluded.documents}
    )
    await connection.execute(add)
    ledger = ledger_of(connection.engine)
    if ledger.keys is not None:
        await ledger.record_change(connection, workspace, ledger.keys.term_total(workspace, counts))
