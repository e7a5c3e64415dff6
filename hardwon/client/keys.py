"""Keys over HTTP."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Self

from pydantic import Field

from hardwon.client.fields import LAST, Limit
from hardwon.client.operations import Envelope, Operation, Service, Wire
from hardwon.client.transport import KEYS_PATH
from hardwon.models.access import DEFAULT_OVERLAP, MAX_NAME_CHARS, ApiKey, NewKey, Scope

_ID: Final[Any] = Field(pattern="^[0-9a-f]{12}$")
_KeyId = Annotated[str, _ID, Field(description="The key's id, the part behind `hw_`.")]
_ScopeName = Annotated[str, Field(json_schema_extra={"enum": [*Scope]})]  # the service rejects others


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeKey(Envelope):
    """A new key; `secret` is what callers send, and is shown only now."""

    key_id: str
    secret: str
    name: str | None
    scopes: tuple[Scope, ...]
    workspace: str | None
    created_at: datetime
    expires_at: datetime | None

    @classmethod
    def wrap(cls, value: Any) -> Self:
        """Return a key with its secret."""
        new: NewKey = value
        key = new.key
        return cls(
            key_id=key.key_id,
            secret=new.secret,
            name=key.name,
            scopes=key.scopes,
            workspace=key.workspace,
            created_at=key.created_at,
            expires_at=key.expires_at,
        )

    def unwrap(self) -> NewKey:
        """Return the key with its secret."""
        key = {name: value for name, value in asdict(self).items() if name != "secret"}
        return NewKey(key=ApiKey(**key), secret=self.secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCount(Envelope):
    """A number of keys."""

    keys: int


class RemoteKeys(Service, name="keys", tag="keys", scopes=("admin",), authenticated=True):
    """`KeyService` over HTTP."""

    @Operation("POST", KEYS_PATH, operation_id="create_key", status=201, answer=MadeKey)
    async def create(
        self,
        scopes: Annotated[Collection[_ScopeName], Field(min_length=1, max_length=len(Scope))],
        *,
        workspace: Annotated[str | None, Field(min_length=1, max_length=200)],
        name: Annotated[str | None, Field(min_length=1, max_length=MAX_NAME_CHARS)] = None,
        expires_in: Annotated[timedelta | None, Wire(field="expires", minimum=timedelta(seconds=1))] = None,
    ) -> NewKey:
        """Create a key of one workspace, or of all (null), and show its secret, only now."""

    @Operation("GET", KEYS_PATH, operation_id="list_keys", cursor="key_id")
    async def list(self, *, after: Annotated[str | None, _ID, LAST] = None, limit: Limit = 100) -> Sequence[ApiKey]:
        """Return keys without their secrets, expired ones included, in the order of their ids."""

    @Operation("GET", f"{KEYS_PATH}/unusable", operation_id="count_unusable_keys", answer=KeyCount)
    async def count_unusable(self) -> int:
        """Return how many live keys do not work here, as they were made with another pepper."""

    @Operation(
        "POST",
        f"{KEYS_PATH}/{{key_id}}/rotation",
        operation_id="rotate_key",
        status=201,
        problems=(409,),
        answer=MadeKey,
    )
    async def rotate(
        self, key_id: _KeyId, *, overlap: Annotated[timedelta, Wire(field="overlap")] = DEFAULT_OVERLAP
    ) -> NewKey:
        """Create a key with the scopes and expiry of another, which stays valid for the overlap."""

    @Operation("DELETE", f"{KEYS_PATH}/{{key_id}}", operation_id="revoke_key")
    async def revoke(self, key_id: _KeyId) -> None:
        """Revoke a key for good."""
