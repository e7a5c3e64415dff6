"""API keys in Postgres, sessions that were ended, and the tokens that workspaces spent."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from hardwon.models.access import ApiKey, Scope
from knowledge.access.keys import KeyHash, KeyStore
from knowledge.access.sessions import SessionStore
from knowledge.adapters.postgres.engine.database import Store, autocommit, transaction
from knowledge.adapters.postgres.memory_tables import api_keys, ended_sessions, spending
from knowledge.ports import SpendingStore

_K = api_keys.c


def _to_key(row: sa.Row[Any]) -> ApiKey:
    return ApiKey(
        key_id=row.id,
        name=row.name,
        scopes=tuple(Scope(scope) for scope in row.scopes),
        workspace=row.workspace,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        replaced_by=row.replaced_by,
        first_key=row.first_key,
        last_used_at=row.last_used_at,
    )


def _to_hash(row: sa.Row[Any]) -> KeyHash:
    return KeyHash(digest=row.secret_hash, pepper=row.pepper)


def _insert_key(key: ApiKey, hashed: KeyHash) -> sa.Insert:
    return sa.insert(api_keys).values(
        id=key.key_id,
        name=key.name,
        scopes=list(key.scopes),
        workspace=key.workspace,
        first_key=key.first_key,
        secret_hash=hashed.digest,
        pepper=hashed.pepper,
        created_at=key.created_at,
        expires_at=key.expires_at,
    )


class PostgresKeys(Store, KeyStore):
    """Keys of the whole store."""

    async def add(self, key: ApiKey, hashed: KeyHash) -> None:
        await self._write(_insert_key(key, hashed))

    async def find(self, key_id: str) -> tuple[ApiKey, KeyHash] | None:
        row = await self._first(sa.select(api_keys).where(_K.id == key_id))
        return None if row is None else (_to_key(row), _to_hash(row))

    async def find_all(self, key_ids: Collection[str]) -> dict[str, tuple[ApiKey, KeyHash]]:
        query = sa.select(api_keys).where(_K.id == sa.any_(sa.literal(list(key_ids), sa.ARRAY(_K.id.type))))
        return {row.id: (_to_key(row), _to_hash(row)) for row in await self._all(query)}

    async def list(self, workspace: str | None, *, after: str | None, limit: int) -> list[ApiKey]:
        query = sa.select(api_keys).order_by(_K.id).limit(limit)
        if workspace is not None:
            query = query.where(_K.workspace == workspace)
        if after is not None:
            query = query.where(_K.id > after)
        return [_to_key(row) for row in await self._all(query)]

    async def replace(self, key_id: str, key: ApiKey, hashed: KeyHash, *, expires_at: datetime) -> bool:
        ends = (
            sa.update(api_keys)
            .where(_K.id == key_id, _K.replaced_by.is_(None))
            .values(expires_at=sa.func.least(_K.expires_at, expires_at), replaced_by=key.key_id)  # ignores a NULL
        )
        async with transaction(self._engine) as connection:
            if not (await connection.execute(ends)).rowcount:
                return False
            await connection.execute(_insert_key(key, hashed))
        return True

    async def revoke(self, key_id: str, now: datetime) -> None:
        await self._set(key_id, revoked_at=sa.func.coalesce(_K.revoked_at, now))

    async def chain(self, key_id: str) -> tuple[str, ...]:
        first_id = sa.select(sa.func.coalesce(_K.first_key, _K.id)).where(_K.id == key_id).scalar_subquery()
        first = sa.select(sa.func.coalesce(first_id, key_id).label("first")).cte("first")
        others = sa.select(_K.id).join(first, _K.first_key == first.c.first)
        async with autocommit(self._engine) as connection:
            found = await connection.execute(sa.union(others, sa.select(first.c.first)))
            return tuple(sorted({key_id, *found.scalars()}))

    async def touch(self, key_id: str, used_at: datetime) -> None:
        await self._set(key_id, last_used_at=sa.func.greatest(_K.last_used_at, used_at))

    async def has_any(self) -> bool:
        return bool(await self._scalar(sa.select(sa.exists(sa.select(_K.id)))))

    async def count_with_other_pepper(self, pepper: str, now: datetime) -> int:
        live = (_K.revoked_at.is_(None), sa.or_(_K.expires_at.is_(None), _K.expires_at > now))
        query = sa.select(sa.func.count()).select_from(api_keys).where(_K.pepper != pepper, *live)
        return await self._scalar(query) or 0

    async def prune(self, before: datetime) -> int:
        last = sa.select(_K.id).order_by(_K.created_at.desc(), _K.id).limit(1).scalar_subquery()
        ended = sa.func.least(_K.revoked_at, _K.expires_at)  # ignores a NULL
        return await self._write(sa.delete(api_keys).where(ended < before, _K.id != last))

    async def _set(self, key_id: str, **values: Any) -> None:
        await self._write(sa.update(api_keys).where(_K.id == key_id).values(**values))


_X = ended_sessions.c
_MAX_SKEW: Final = timedelta(days=1)
"""Ended sessions are kept so much longer, ours: another server's clock may be behind."""


class PostgresSessions(Store, SessionStore):
    """Ended sessions of the whole store."""

    async def end(self, session_id: str, *, ends_at: datetime, now: datetime) -> None:
        new = insert(ended_sessions).values(session_id=session_id, ends_at=ends_at)
        async with transaction(self._engine) as connection:
            await connection.execute(new.on_conflict_do_nothing())
            await connection.execute(sa.delete(ended_sessions).where(_X.ends_at < now - _MAX_SKEW))

    async def has_ended(self, session_id: str) -> bool:
        return bool(await self._scalar(sa.select(sa.exists().where(_X.session_id == session_id))))


_S = spending.c


class PostgresSpending(Store, SpendingStore):
    """The tokens of one workspace."""

    def __init__(self, engine: AsyncEngine, workspace: str, budget: int | None) -> None:
        super().__init__(engine)
        self._workspace = workspace
        self._budget = budget

    @property
    def budget(self) -> int | None:
        return self._budget

    async def reserve(self, day: date, tokens: int) -> bool:
        new = insert(spending).values(workspace=self._workspace, day=_midnight(day), tokens=tokens)
        counted = new.on_conflict_do_update(
            index_elements=[_S.workspace, _S.day],
            set_={"tokens": _S.tokens + new.excluded.tokens},
            where=None if self._budget is None else _S.tokens < self._budget,
        ).returning(_S.tokens)
        return await self._scalar(counted) is not None

    async def correct(self, day: date, by: int) -> None:
        of_day = sa.update(spending).where(_S.workspace == self._workspace, _S.day == _midnight(day))
        await self._write(of_day.values(tokens=sa.func.greatest(_S.tokens + by, 0)))

    async def tokens_used(self, day: date) -> int:
        of_day = sa.select(_S.tokens).where(_S.workspace == self._workspace, _S.day == _midnight(day))
        return await self._scalar(of_day) or 0


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
