"""A process of the release before revision 0002, by the statements it sent: it knows neither `counted` nor `look_at`.

What it did otherwise than we do: words were counted after the mark, for points that had no embedded entry before; a
deletion took the points that rested on its entry alone from the index first, then deleted their rows; a pattern
without entries went at once, and its points with it. Its statements stand here as SQL, so that no change of ours
changes them. Names, ids, texts and points are what they were, so those are made by our own code.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import numpy as np

from knowledge.adapters.postgres.rows import to_row
from knowledge.memory import texts
from knowledge.memory.points import to_point
from knowledge.memory.retention import add_years
from knowledge.models import BoundSpace, Entry, EntryId, NewEntry, PatternId, PointId, View, pattern_id_of, point_id_of
from knowledge.ports import Clock, VectorIndex
from knowledge.search.calibration import default_calibration
from knowledge.search.lexical import DEFAULT_MEAN_TERMS, term_counts
from tests.support.embedders import HashingEmbedder
from tests.support.entries import stored

WORKSPACE = "default"
_DOCUMENTS = -1

BIND = (
    "INSERT INTO embedding_spaces (fingerprint, space, mean_terms, calibration, active) VALUES ($1, $2, $3, $4, true)"
    " ON CONFLICT DO NOTHING"
)
PROJECT = "INSERT INTO projects (workspace, project_id) VALUES ($1, $2) ON CONFLICT DO NOTHING"
CLAIM = """
    WITH due AS (
        SELECT id FROM knowledge_staging
        WHERE workspace = $1 AND status = 'staged' AND (lease_until IS NULL OR lease_until < now())
        ORDER BY timestamp, id LIMIT 8 FOR UPDATE SKIP LOCKED
    )
    UPDATE knowledge_staging SET lease_token = $2, lease_until = now() + $3::interval, attempts = attempts + 1
    FROM due WHERE knowledge_staging.id = due.id RETURNING knowledge_staging.id
"""
ALONE = "SELECT pg_advisory_xact_lock(hashtextextended('hardwon/decide/' || $1, 0))"
HELD = "SELECT id, pattern_id FROM knowledge_staging WHERE id = ANY($1) AND lease_token = $2 ORDER BY id FOR UPDATE"
KNOWN = "SELECT id FROM patterns WHERE workspace = $1 AND match_key = $2"
FOUND = (
    "INSERT INTO patterns (id, workspace, entry_type, match_key, founding_entry_id, founded_at)"
    " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING"
)
POINT = (
    "INSERT INTO points (id, workspace, pattern_id, view, embedded_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)"
    " ON CONFLICT (id) DO UPDATE SET embedded_at = excluded.embedded_at,"
    " expires_at = greatest(points.expires_at, excluded.expires_at)"
)
VECTOR = (
    "INSERT INTO vectors (point_id, space, vector) VALUES ($1, $2, $3)"
    " ON CONFLICT (point_id, space) DO UPDATE SET vector = excluded.vector"
)
LINK = "UPDATE knowledge_staging SET pattern_id = $2, point_ids = $3 WHERE id = $1 AND lease_token = $4"
SETTLED = """
    SELECT points.id FROM points WHERE points.workspace = $1 AND points.id = ANY($2) AND EXISTS (
        SELECT 1 FROM knowledge_staging e
        WHERE e.pattern_id = points.pattern_id AND points.id = ANY(e.point_ids) AND e.status = 'embedded')
"""
MARK = """
    UPDATE knowledge_staging
    SET status = 'embedded', embedded_at = $3, expires_at = $4, lease_token = NULL, lease_until = NULL
    WHERE id = ANY($1) AND lease_token = $2 AND pattern_id IS NOT NULL RETURNING id, pattern_id
"""
LOCK_PATTERNS = "SELECT id FROM patterns WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE"
RECOUNT = """
    WITH counted AS (
        SELECT p.id, count(e.id) AS entries,
            count(DISTINCT (e.project_id, coalesce(e.task_id, e.id::text), coalesce(e.run_id, e.content_hash)))
                FILTER (WHERE e.status = 'embedded') AS successes,
            count(DISTINCT e.project_id) FILTER (WHERE e.status = 'embedded') AS projects
        FROM patterns p LEFT JOIN knowledge_staging e ON e.pattern_id = p.id WHERE p.id = ANY($1) GROUP BY p.id
    ), gone AS (DELETE FROM patterns USING counted WHERE patterns.id = counted.id AND counted.entries = 0)
    UPDATE patterns
    SET success_count = counted.successes, attempt_count = counted.successes, project_count = counted.projects
    FROM counted WHERE patterns.id = counted.id AND counted.entries > 0
"""
COUNT = (
    "INSERT INTO lexicon (workspace, term, documents) SELECT $1, unnest($2::bigint[]), unnest($3::bigint[])"
    " ON CONFLICT (workspace, term) DO UPDATE SET documents = lexicon.documents + excluded.documents"
)
SOLE = """
    SELECT mine.id FROM (
        SELECT unnest(point_ids) AS id, pattern_id FROM knowledge_staging WHERE workspace = $1 AND id = $2
    ) mine WHERE NOT EXISTS (
        SELECT 1 FROM knowledge_staging o
        WHERE o.pattern_id = mine.pattern_id AND o.id <> $2 AND mine.id = ANY(o.point_ids))
"""


class OldRelease:
    """One process of it, on a connection of its own."""

    def __init__(
        self, connection: asyncpg.Connection[Any], index: VectorIndex, embedder: HashingEmbedder, clock: Clock
    ) -> None:
        self._connection = connection
        self._index = index
        self._embedder = embedder
        self._clock = clock
        self._entries: dict[UUID, Entry] = {}

    async def bind(self) -> BoundSpace:
        """Bind the embedding space, once in the life of a store."""
        space = await self._embedder.space()
        self.bound = BoundSpace(
            space=space, mean_terms=DEFAULT_MEAN_TERMS, calibration=default_calibration(space.model)
        )
        given = json.dumps(asdict(space)), DEFAULT_MEAN_TERMS, json.dumps(asdict(self.bound.calibration))
        await self._connection.execute(BIND, space.fingerprint, *given)
        await self._index.ensure(space)
        return self.bound

    async def capture(self, told: NewEntry) -> EntryId:
        entry = stored(told)
        row = to_row(entry) | {"workspace": WORKSPACE}
        for later in ("applies_when", "captured_by", "resolved_by", "agent_key", "low_trust", "suspicions"):
            del row[later]  # columns of later releases
        names, places = ", ".join(row), ", ".join(f"${number}" for number in range(1, len(row) + 1))
        async with self._connection.transaction():
            await self._connection.execute(PROJECT, WORKSPACE, told.project_id)
            await self._connection.execute(
                f"INSERT INTO knowledge_staging ({names}) VALUES ({places})", *(_plain(value) for value in row.values())
            )
        self._entries[entry.entry_id] = entry
        return entry.entry_id

    async def checkpoint(self) -> int:
        """Embed a batch of its own entries; those of others it leaves to them."""
        token = uuid4()
        claimed = await self._connection.fetch(CLAIM, WORKSPACE, token, timedelta(seconds=60))
        mine = [self._entries[row["id"]] for row in claimed if row["id"] in self._entries]
        at = self._clock.now()
        expires = add_years(at, 1)
        found: dict[UUID, tuple[Entry, View, Any]] = {}
        async with self._connection.transaction():
            await self._connection.execute(ALONE, WORKSPACE)
            await self._connection.fetch(HELD, [entry.entry_id for entry in mine], token)
            for entry in mine:
                found |= await self._decide(entry, token, at, expires)
        settled = {row["id"] for row in await self._connection.fetch(SETTLED, WORKSPACE, list(found))}
        written = [
            to_point(
                entry,
                view,
                workspace=WORKSPACE,
                point_id=PointId(point_id),
                vector=vector,
                counts=term_counts(texts.views(entry)[view]),
                gist=None,
                mean_terms=self.bound.mean_terms,
                embedded_at=at,
                expires_at=expires,
            )
            for point_id, (entry, view, vector) in found.items()
        ]
        await self._index.upsert(self.bound.space, written)
        async with self._connection.transaction():
            marked = await self._connection.fetch(MARK, [entry.entry_id for entry in mine], token, at, expires)
            await self._recount({row["pattern_id"] for row in marked})
        await self._connection.execute(
            "UPDATE knowledge_staging SET lease_token = NULL, lease_until = NULL WHERE lease_token = $1", token
        )
        await self._count([texts.views(found[i][0])[found[i][1]] for i in sorted(set(found) - settled)])
        return len(marked)

    async def _decide(self, entry: Entry, token: UUID, at: Any, expires: Any) -> dict[UUID, tuple[Entry, View, Any]]:
        views = texts.views(entry)
        embedded = await self._embedder.embed(list(views.values()), "document")
        key, own = texts.match_key(entry), pattern_id_of(WORKSPACE, entry.entry_id)
        pattern = PatternId(await self._connection.fetchval(KNOWN, WORKSPACE, key) or own)
        if pattern == own:
            await self._connection.execute(FOUND, own, WORKSPACE, entry.entry_type.value, key, entry.entry_id, at)
        found: dict[UUID, tuple[Entry, View, Any]] = {}
        for (view, text), vector in zip(views.items(), embedded.vectors, strict=True):
            point = point_id_of(WORKSPACE, pattern, view, texts.normalise(text))
            await self._connection.execute(POINT, point, WORKSPACE, pattern, view.value, at, expires)
            half = vector.astype(np.float16).tobytes()
            await self._connection.execute(VECTOR, point, self.bound.space.fingerprint, half)
            found[point] = (entry, view, vector)
        await self._connection.execute(LINK, entry.entry_id, pattern, list(found), token)
        return found

    async def delete(self, entry_id: EntryId) -> None:
        sole = [PointId(row["id"]) for row in await self._connection.fetch(SOLE, WORKSPACE, entry_id)]
        await self._index.delete(self.bound.space, sole)
        async with self._connection.transaction():
            await self._connection.execute(ALONE, WORKSPACE)
            sole = [PointId(row["id"]) for row in await self._connection.fetch(SOLE, WORKSPACE, entry_id)]
            await self._connection.execute("DELETE FROM points WHERE id = ANY($1)", sole)
            gone = "DELETE FROM knowledge_staging WHERE workspace = $1 AND id = $2 RETURNING pattern_id"
            pattern = await self._connection.fetchval(gone, WORKSPACE, entry_id)
            await self._recount({pattern} - {None})

    async def _recount(self, patterns: set[UUID]) -> None:
        await self._connection.fetch(LOCK_PATTERNS, sorted(patterns))
        await self._connection.execute(RECOUNT, sorted(patterns))

    async def _count(self, told: list[str]) -> None:
        counts = Counter(term for text in told for term in term_counts(text))
        if told:
            counts[_DOCUMENTS] = len(told)
            terms = sorted(counts)
            await self._connection.execute(COUNT, WORKSPACE, terms, [counts[term] for term in terms])


def _plain(value: object) -> object:
    return getattr(value, "value", value)
