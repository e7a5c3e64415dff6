"""Keys over HTTP, with the names and arguments they have in process."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from knowledge.access.keys import DEFAULT_OVERLAP, ApiKey, NewKey
from knowledge.access.operations import Scope
from knowledge.forms import check_span
from orchestrator.client.calls import KEYS_PATH, Api, in_path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    key_id: str
    secret: str
    name: str | None
    scopes: tuple[Scope, ...]
    workspace: str | None
    created_at: datetime
    expires_at: datetime | None

    def key(self) -> NewKey:
        key = ApiKey(
            key_id=self.key_id,
            name=self.name,
            scopes=self.scopes,
            workspace=self.workspace,
            created_at=self.created_at,
            expires_at=self.expires_at,
        )
        return NewKey(key=key, secret=self.secret)


@dataclass(frozen=True, slots=True)
class RemoteKeys:
    """`KeyService` over HTTP."""

    api: Api

    async def create(
        self,
        scopes: Collection[str],
        *,
        workspace: str | None,
        name: str | None = None,
        expires_in: timedelta | None = None,
    ) -> NewKey:
        """Make a key of one workspace, or of all (None), and return it with its secret, this once."""
        if expires_in is not None:
            check_span("expires", expires_in, least=timedelta(seconds=1))
        body = {
            "scopes": list(scopes),
            "workspace": workspace,
            "name": name,
            "expires_in_seconds": None if expires_in is None else expires_in.total_seconds(),
        }
        return (await self.api.call("POST", KEYS_PATH, _Made, body=body)).key()

    async def list(self, *, after: str | None = None, limit: int = 100) -> Sequence[ApiKey]:
        """Return keys in the order of their ids, from behind `after` on."""
        params = {"limit": limit} | ({} if after is None else {"after": after})
        return await self.api.call("GET", KEYS_PATH, list[ApiKey], params=params)

    async def rotate(self, key_id: str, *, overlap: timedelta = DEFAULT_OVERLAP) -> NewKey:
        """Make a key that may what another may, for as long; that one goes on for the overlap."""
        check_span("overlap", overlap, least=timedelta(0))
        body = {"overlap_seconds": overlap.total_seconds()}
        return (await self.api.call("POST", f"/v1/keys/{in_path('key_id', key_id)}/rotation", _Made, body=body)).key()

    async def revoke(self, key_id: str) -> None:
        """End a key, for good."""
        await self.api.send("DELETE", f"/v1/keys/{in_path('key_id', key_id)}")
