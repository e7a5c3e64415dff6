"""API keys in a dict."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime

from knowledge.access.keys import ApiKey, KeyHash, KeyStore


@dataclass(slots=True)
class InMemoryKeys(KeyStore):
    """Keys of the whole store."""

    _kept: dict[str, tuple[ApiKey, KeyHash]] = field(default_factory=dict)

    async def add(self, key: ApiKey, hashed: KeyHash) -> None:
        self._kept[key.key_id] = (key, hashed)

    async def find(self, key_id: str) -> tuple[ApiKey, KeyHash] | None:
        return self._kept.get(key_id)

    async def find_all(self, key_ids: Collection[str]) -> dict[str, tuple[ApiKey, KeyHash]]:
        return {key_id: self._kept[key_id] for key_id in key_ids if key_id in self._kept}

    async def list(self, workspace: str | None, *, after: str | None, limit: int) -> list[ApiKey]:
        seen = (key for _, (key, _) in sorted(self._kept.items()) if workspace in {None, key.workspace})
        return [key for key in seen if after is None or key.key_id > after][:limit]

    async def replace(self, key_id: str, key: ApiKey, hashed: KeyHash, *, expires_at: datetime) -> bool:
        old = self._kept[key_id][0]
        if old.replaced_by is not None:
            return False
        ends = expires_at if old.expires_at is None else min(old.expires_at, expires_at)
        self._change(replace(old, expires_at=ends, replaced_by=key.key_id))
        await self.add(key, hashed)
        return True

    async def revoke(self, key_id: str, now: datetime) -> None:
        key = self._kept[key_id][0]
        self._change(replace(key, revoked_at=key.revoked_at or now))

    async def chain(self, key_id: str) -> tuple[str, ...]:
        known = self._kept.get(key_id)
        first = key_id if known is None else known[0].first_key or key_id
        return tuple(sorted({key_id, first, *(key.key_id for key, _ in self._kept.values() if key.first_key == first)}))

    async def touch(self, key_id: str, used_at: datetime) -> None:
        key = self._kept[key_id][0]
        self._change(replace(key, last_used_at=max(key.last_used_at or used_at, used_at)))

    async def any(self) -> bool:
        return bool(self._kept)

    async def of_others(self, pepper: str, now: datetime) -> int:
        return sum(hashed.pepper != pepper and key.live(now) for key, hashed in self._kept.values())

    async def prune(self, before: datetime) -> int:
        keys = sorted((key for key, _ in self._kept.values()), key=lambda key: key.key_id)
        keys.sort(key=lambda key: key.created_at, reverse=True)
        ends = {key.key_id: [at for at in (key.revoked_at, key.expires_at) if at is not None] for key in keys[1:]}
        gone = [key_id for key_id, moments in ends.items() if moments and min(moments) < before]
        for key_id in gone:
            del self._kept[key_id]
        return len(gone)

    def _change(self, key: ApiKey) -> None:
        self._kept[key.key_id] = (key, self._kept[key.key_id][1])
