"""The routes of keys: made and shown once, listed without their secrets, rotated, revoked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar

from fastapi import FastAPI, Path, Query, Request, Response
from pydantic import Field

from knowledge.access.keys import DEFAULT_OVERLAP, LONGEST_NAME, ApiKey, NewKey
from knowledge.access.operations import Scope
from orchestrator.http.opened import Open, performs
from orchestrator.http.paging import LAST, Limit, link_next

_FORBID: dict[str, Any] = {"extra": "forbid"}
_LONGEST_SECONDS = 100 * 365 * 86_400
KeyId = Annotated[str, Path(pattern="^[0-9a-f]{12}$", description="The key's id, the part behind `hw_`.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBody:
    """What a key may do and where: a workspace, or null for all of them."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(Scope))]
    workspace: Annotated[str, Field(min_length=1, max_length=200)] | None
    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)] | None = None
    expires_in_seconds: Annotated[float, Field(ge=1, le=_LONGEST_SECONDS, strict=True)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationBody:
    """For how long the key that is replaced still opens."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    overlap_seconds: Annotated[float, Field(ge=0, le=_LONGEST_SECONDS, strict=True)] = DEFAULT_OVERLAP.total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeKey:
    """A key that was just made; `secret` is what callers send, and is shown this once."""

    key_id: str
    secret: str
    name: str | None
    scopes: list[Scope]
    workspace: str | None
    created_at: datetime
    expires_at: datetime | None


def add_keys(app: FastAPI) -> None:
    """Add the routes of keys to an app."""

    @app.post("/v1/keys", status_code=201, tags=["keys"])
    @performs("keys.create")
    async def create_key(body: KeyBody, knowledge: Open) -> MadeKey:
        """Make a key, and show it this once."""
        expires_in = None if body.expires_in_seconds is None else timedelta(seconds=body.expires_in_seconds)
        return _shown(
            await knowledge.keys.create(body.scopes, workspace=body.workspace, name=body.name, expires_in=expires_in)
        )

    @app.get("/v1/keys", tags=["keys"])
    @performs("keys.list")
    async def list_keys(
        knowledge: Open,
        request: Request,
        response: Response,
        after: Annotated[str | None, Query(pattern="^[0-9a-f]{12}$", description=LAST)] = None,
        limit: Limit = 100,
    ) -> list[ApiKey]:
        """Return keys without their secrets, ended ones included."""
        found = list(await knowledge.keys.list(after=after, limit=limit))
        if len(found) == limit:
            link_next(request, response, after=found[-1].key_id, limit=limit)
        return found

    @app.post("/v1/keys/{key_id}/rotation", status_code=201, tags=["keys"])
    @performs("keys.rotate", problems=(409,))
    async def rotate_key(key_id: KeyId, body: RotationBody, knowledge: Open) -> MadeKey:
        """Make a key that may what another may; that one still opens for the overlap."""
        return _shown(await knowledge.keys.rotate(key_id, overlap=timedelta(seconds=body.overlap_seconds)))

    @app.delete("/v1/keys/{key_id}", status_code=204, tags=["keys"])
    @performs("keys.revoke")
    async def revoke_key(key_id: KeyId, knowledge: Open) -> None:
        """End a key, for good."""
        await knowledge.keys.revoke(key_id)


def _shown(made: NewKey) -> MadeKey:
    key = made.key
    return MadeKey(
        key_id=key.key_id,
        secret=made.secret,
        name=key.name,
        scopes=list(key.scopes),
        workspace=key.workspace,
        created_at=key.created_at,
        expires_at=key.expires_at,
    )
