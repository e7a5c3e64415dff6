"""One store on Postgres, and the steps of a checkpoint by hand, for the contracts of the ports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from knowledge.adapters.files.seal_files import find_keys
from knowledge.adapters.postgres.admin.integrity import seal_unsealed
from knowledge.adapters.postgres.admin.runs import PostgresJobs
from knowledge.adapters.postgres.engine.database import autocommit, make_engine, transaction
from knowledge.adapters.postgres.memory_tables import contexts, knowledge_staging
from knowledge.adapters.postgres.seals.ledger import use_seals
from knowledge.adapters.qdrant.edge import QdrantEdgeIndex
from knowledge.memory.rules import embedding_text
from knowledge.memory.rules.arms import known_keys, situation_key
from knowledge.memory.rules.entry_profile import build_profile
from knowledge.memory.rules.retention import add_years
from knowledge.models import (
    Decision,
    EmbeddingSpace,
    Entry,
    EntryId,
    PatternId,
    PointId,
    TextPoint,
    View,
    pattern_id_of,
    point_id_of,
)
from knowledge.ports import Claim, Clock, Embedder, JobStore, Selection, Stores
from knowledge.retrieval.calibration import default_calibration
from knowledge.settings import KnowledgeSettings
from knowledge.text.bm25 import DEFAULT_MEAN_TERMS
from knowledge.wiring.services import make_stores
from tests.support.embedders import hashed_bag
from tests.support.entries import NOON

_E = knowledge_staging.c
EVERYTHING = Selection()
MINUTE = timedelta(minutes=1)
SPACE = EmbeddingSpace(provider="test", model="old-model", revision="1", dims=8, max_tokens=64, fingerprint="test-old")
OTHER_SPACE = replace(SPACE, model="new-model", fingerprint="test-new")


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A store on Postgres and the embedded engine: the ports of each of its workspaces, its jobs."""

    engine: AsyncEngine
    index: QdrantEdgeIndex
    embedder: Embedder
    clock: Clock

    @property
    def jobs(self) -> JobStore:
        return PostgresJobs(self.engine)

    def of(self, workspace: str, budget: int | None = None) -> Stores:
        """Return the ports of a workspace, that may spend `budget` tokens a day."""
        settings = KnowledgeSettings(tokens_per_day=budget)
        return make_stores(settings, self.engine, workspace, index=self.index, embedder=self.embedder, clock=self.clock)

    async def recorded(self) -> list[Mapping[str, Any]]:
        """Return the contexts on record, of all workspaces."""
        async with autocommit(self.engine) as connection:
            return [dict(row) for row in (await connection.execute(sa.select(contexts))).mappings()]


async def claim_all(stores: Stores, *, lease: timedelta = MINUTE) -> Claim:
    return await stores.entries.claim(EVERYTHING, limit=1000, lease=lease)


def text_point(workspace: str, pattern_id: PatternId, text: str, view: View = View.SITUATION) -> TextPoint:
    return TextPoint(
        point_id=point_id_of(workspace, pattern_id, view, text), view=view, vector=hashed_bag(text, dims=SPACE.dims)
    )


def decision(
    workspace: str, entry: Entry, pattern_id: PatternId | None = None, *, points: Sequence[str] | None = None
) -> Decision:
    """Return the decision that an entry joins a pattern, or founds one; `points` are other texts than its own."""
    own = pattern_id_of(workspace, entry.entry_id)
    chosen = pattern_id or own
    told = embedding_text.views(entry) if points is None else {}
    return Decision(
        entry=entry,
        pattern_id=chosen,
        match_key=embedding_text.match_key(entry),
        founds=chosen == own,
        profile=build_profile(entry),
        situation_key=situation_key(embedding_text.situation(entry)),
        known_keys=known_keys(entry),
        points=tuple(text_point(workspace, chosen, text, view) for view, text in told.items())
        + tuple(text_point(workspace, chosen, text) for text in points or ()),
    )


async def decide(
    stores: Stores,
    claim: Claim,
    *,
    joins: PatternId | None = None,
    points: Sequence[str] | None = None,
    at: datetime = NOON,
    space: EmbeddingSpace = SPACE,
) -> tuple[dict[EntryId, PatternId], set[PointId]]:
    """Decide on what is claimed: by hand where `joins` is given, else by the same words; return patterns and points."""
    if await stores.spaces.bound() is None:
        await stores.spaces.bind(SPACE, mean_terms=DEFAULT_MEAN_TERMS, calibration=default_calibration(SPACE.model))
    async with stores.patterns.begin_decisions(claim.token) as deciding:
        held = await deciding.find_leased([entry.entry_id for entry in claim.entries])
        known = dict(await deciding.patterns_by_key([embedding_text.match_key(entry) for entry in claim.entries]))
        decisions = []
        for entry in claim.entries:
            if entry.entry_id in held:
                own = known.setdefault(embedding_text.match_key(entry), pattern_id_of(stores.workspace, entry.entry_id))
                chosen = held[entry.entry_id] or joins or own
                decisions.append(decision(stores.workspace, entry, chosen, points=points))
        kept = await deciding.write(decisions, space, embedded_at=at, expires_at=add_years(at, 1))
    return {each.entry.entry_id: each.pattern_id for each in decisions}, set(kept)


async def mark(stores: Stores, claim: Claim, *, at: datetime = NOON, space: EmbeddingSpace = SPACE) -> set[EntryId]:
    ids = [entry.entry_id for entry in claim.entries]
    return await stores.patterns.mark_embedded(claim.token, ids, space, embedded_at=at, expires_at=add_years(at, 1))


async def learn(
    stores: Stores,
    *entries: Entry,
    joins: PatternId | None = None,
    points: Sequence[str] | None = None,
    at: datetime = NOON,
) -> PatternId:
    """Store and embed entries, all the way; return the pattern of the last one."""
    await stores.entries.add(entries)
    claim = await claim_all(stores)
    patterns, _ = await decide(stores, claim, joins=joins, points=points, at=at)
    await mark(stores, claim, at=at)
    return patterns[entries[-1].entry_id]


def situation_point(stores: Stores, entry: Entry, pattern_id: PatternId | None = None) -> PointId:
    """Return the id that the point of an entry's situation has."""
    pattern_id = pattern_id or pattern_id_of(stores.workspace, entry.entry_id)
    return point_id_of(stores.workspace, pattern_id, View.SITUATION, embedding_text.situation(entry))


def numbered(number: int) -> EntryId:
    """Return an entry id; ids ascend with their numbers."""
    return EntryId(UUID(int=number))


async def repeated(settings: KnowledgeSettings, number: int, **changes: str) -> list[EntryId]:
    """Tell an entry that is there again so many times, each of a task of its own, with its pattern and its points.

    They are sealed, by the keys of the data directory.
    """
    columns = [each for each in knowledge_staging.c if each.computed is None]
    one = sa.select(knowledge_staging).order_by(_E.timestamp, _E.id).limit(1).subquery("one")
    new: dict[str, sa.ColumnElement[Any]] = {
        "id": sa.func.gen_random_uuid(),
        "task_id": sa.cast(sa.func.gen_random_uuid(), sa.Text),
        "idempotency_key": sa.null(),
        "seal": sa.null(),
    }
    new |= {name: sa.literal(text) for name, text in changes.items()}
    copies = sa.select(*(new.get(each.name, one.c[each.name]) for each in columns)).select_from(
        one.join(sa.func.generate_series(1, number).alias("times"), sa.true())
    )
    told = sa.insert(knowledge_staging).from_select([each.name for each in columns], copies).returning(_E.id)
    assert settings.database_url is not None
    engine = make_engine(settings.database_url.get_secret_value())
    keys = find_keys(settings.home, None)
    assert keys is not None
    ledger = use_seals(engine, keys)
    try:
        async with transaction(engine) as connection:
            ids = list((await connection.execute(told)).scalars())
            await seal_unsealed(connection, ledger, {})
            await connection.execute(sa.text("ANALYZE knowledge_staging"))
            return ids
    finally:
        await engine.dispose()


Counts = dict[tuple[str, str], int]
"""By workspace and name; without those that are 0."""

_COUNTED = sa.text("""
    SELECT workspace, 'entries.' || status AS name, count(*) AS total FROM knowledge_staging GROUP BY 1, 2
    UNION ALL SELECT workspace, 'patterns', count(*) FROM patterns WHERE success_count > 0 GROUP BY 1
    UNION ALL SELECT workspace, 'points', count(*) FROM points WHERE look_at IS NULL GROUP BY 1
    UNION ALL SELECT workspace, 'checkpoints', count(*) FROM checkpoints GROUP BY 1
    UNION ALL SELECT points.workspace, 'vectors.' || space, sum(length(vector))
        FROM vectors JOIN points ON points.id = vectors.point_id GROUP BY 1, 2
""")
_KEPT = sa.text("SELECT workspace, name, sum(change) AS total FROM counters GROUP BY 1, 2 HAVING sum(change) <> 0")


async def counted(engine: AsyncEngine) -> Counts:
    """Return the counts of all workspaces, counted."""
    return await _counts(engine, _COUNTED)


async def of_counters(engine: AsyncEngine) -> Counts:
    """Return the counts of all workspaces by the counters."""
    return await _counts(engine, _KEPT)


async def _counts(engine: AsyncEngine, query: sa.TextClause) -> Counts:
    async with autocommit(engine) as connection:
        return {(row.workspace, row.name): int(row.total) for row in await connection.execute(query)}
