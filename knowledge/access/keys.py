"""API keys: made and shown once, kept as a keyed hash, rotated with an overlap, revoked for good."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from knowledge.access.operations import Scope
from knowledge.access.pepper import Pepper
from knowledge.errors import AccessDenied, InvalidInput, NotFound
from knowledge.forms import as_whole, check_named, check_span
from knowledge.logs import get_logger
from knowledge.provenance import UNHEARD, Auditor

log = get_logger(__name__)

PREFIX: Final = "hw"
SECRET_BYTES: Final = 32
LONGEST_NAME: Final = 100
LONGEST_WORKSPACE: Final = 200
MAX_PAGE: Final = 1000
DEFAULT_OVERLAP: Final = timedelta(hours=24)
_ID = re.compile(r"[0-9a-f]{12}")
_KEY = re.compile(r"hw_(?P<id>[0-9a-f]{12})_(?P<secret>[A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as it is kept: without its secret. `workspace` None: of all workspaces.

    `last_used_at` is late by a minute at most; `replaced_by` is the key that a rotation put in its place. `first_key`:
    of one that a rotation made, the key with which the rotations began, for they are all one caller's.
    """

    key_id: str
    name: str | None
    scopes: tuple[Scope, ...]
    workspace: str | None
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    replaced_by: str | None = None
    first_key: str | None = None
    last_used_at: datetime | None = None

    def live(self, now: datetime) -> bool:
        """Return whether the key opens anything at a moment."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key that was just made, and its text, which is shown this once and kept nowhere."""

    key: ApiKey
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHash:
    """A secret under a pepper: HMAC-SHA-256. A random secret needs no slow hash. `pepper` names the pepper."""

    digest: bytes
    pepper: str


class KeyStore(Protocol):
    """Keeps keys of the whole store. `workspace` bounds what is seen: None sees all."""

    async def add(self, key: ApiKey, hashed: KeyHash) -> None:
        """Keep a new key."""
        ...

    async def find(self, key_id: str) -> tuple[ApiKey, KeyHash] | None:
        """Return a key and the hash of its secret, None if there is none."""
        ...

    async def find_all(self, key_ids: Collection[str]) -> dict[str, tuple[ApiKey, KeyHash]]:
        """Return those of some keys that there are, by their ids, with the hashes of their secrets; in one step."""
        ...

    async def list(self, workspace: str | None, *, after: str | None, limit: int) -> list[ApiKey]:
        """Return keys in the order of their ids, from behind `after` on."""
        ...

    async def replace(self, key_id: str, key: ApiKey, hashed: KeyHash, *, expires_at: datetime) -> bool:
        """Keep a new key in the place of one, which ends at a moment, if it does not end before.

        In one step; False, and nothing is kept, where another one has taken its place.
        """
        ...

    async def revoke(self, key_id: str, now: datetime) -> None:
        """End a key, for good. The first time counts."""
        ...

    async def chain(self, key_id: str) -> tuple[str, ...]:
        """Return the ids of the keys that rotations made of one another, ascending: this one, the first, all others.

        Of a key that is unknown, its own, and those of keys that began with it.
        """
        ...

    async def touch(self, key_id: str, used_at: datetime) -> None:
        """Note when a key was used; never moves back."""
        ...

    async def any(self) -> bool:
        """Return whether a key was ever made, a dead one included."""
        ...

    async def of_others(self, pepper: str, now: datetime) -> int:
        """Return how many keys that have not ended were made with another pepper than that of this name."""
        ...

    async def prune(self, before: datetime) -> int:
        """Delete the keys that ended before a moment; return how many. The last one that was made stays.

        For a store that had a key never is as one that had none, which is open to its own machine.
        """
        ...


class Forgets(Protocol):
    """Whoever remembers keys for a moment, and is told of a change."""

    def forget(self, key_id: str) -> None:
        """Look a key up anew at its next use."""
        ...


def parse(text: str) -> tuple[str, str] | None:
    """Return the id and the secret of a key's text, None if it has not the form of one."""
    found = _KEY.fullmatch(text)
    return None if found is None else (found["id"], found["secret"])


def hashed(pepper: Pepper, secret: str) -> KeyHash:
    """Return what is kept of a secret."""
    return KeyHash(digest=hmac.digest(pepper.value, secret.encode(), hashlib.sha256), pepper=pepper.name)


def check_scopes(scopes: Collection[str]) -> tuple[Scope, ...]:
    """Return scopes, each once, in their order. Raises InvalidInput for none, or one that does not exist."""
    unknown = sorted(set(scopes) - set(Scope))
    if unknown or not scopes:
        told = f"must be of {', '.join(Scope)}, not {unknown[0]!r}" if unknown else "give at least one"
        raise InvalidInput("scope", told)
    return tuple(scope for scope in Scope if scope in scopes)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyService:
    """Makes, shows and ends keys. `within` is the workspace whose keys it sees and makes; None: those of all."""

    store: KeyStore
    pepper: Callable[[], Pepper]
    clock: _Clock
    memory: Forgets
    within: str | None = None
    audit: Auditor = UNHEARD

    async def create(
        self,
        scopes: Collection[str],
        *,
        workspace: str | None,
        name: str | None = None,
        expires_in: timedelta | None = None,
    ) -> NewKey:
        """Make a key of one workspace, or of all (None), and return it with its secret, this once.

        Raises InvalidInput for a wrong scope, name or time, AccessDenied for a workspace other than one's own.
        """
        if self.within is not None and workspace != self.within:
            raise AccessDenied("a key of one workspace makes keys of that workspace only")
        check_named(workspace=workspace, name=name)
        if workspace is not None and (not workspace.strip() or len(workspace) > LONGEST_WORKSPACE):
            raise InvalidInput("workspace", f"must not be blank, nor have more than {LONGEST_WORKSPACE} characters")
        chosen = check_scopes(scopes)
        if expires_in is not None:
            check_span("expires", expires_in, least=timedelta(seconds=1))
        if name is not None and (not name.strip() or len(name) > LONGEST_NAME or not name.isprintable()):
            raise InvalidInput("name", f"must be printable, not blank and of at most {LONGEST_NAME} characters")
        now = self.clock.now()
        expires_at = None if expires_in is None else now + expires_in
        return await self._add(
            ApiKey(
                key_id=secrets.token_hex(6),
                name=name,
                scopes=chosen,
                workspace=workspace,
                created_at=now,
                expires_at=expires_at,
            )
        )

    async def list(self, *, after: str | None = None, limit: int = 100) -> Sequence[ApiKey]:
        """Return keys in the order of their ids, from behind `after` on. Raises InvalidInput for a wrong limit."""
        as_whole("limit", limit, least=1, most=MAX_PAGE)
        check_named(after=after)
        if after is not None and not _ID.fullmatch(after):
            raise InvalidInput("after", "is no id of a key")
        return await self.store.list(self.within, after=after, limit=limit)

    async def rotate(self, key_id: str, *, overlap: timedelta = DEFAULT_OVERLAP) -> NewKey:
        """Make a key that may what another may, for as long; that one goes on for the overlap. Raises NotFound."""
        check_span("overlap", overlap, least=timedelta(0))
        old = await self._seen(key_id)
        now = self.clock.now()
        if not old.live(now):
            raise NotFound(f"key {key_id} has ended: make another with hardwon keys create")
        lifetime = None if old.expires_at is None else old.expires_at - old.created_at
        new = replace(
            old,
            key_id=secrets.token_hex(6),
            first_key=old.first_key or old.key_id,
            created_at=now,
            expires_at=None if lifetime is None else now + lifetime,
            last_used_at=None,
        )
        secret = secrets.token_urlsafe(SECRET_BYTES)
        if not await self.store.replace(key_id, new, hashed(self.pepper(), secret), expires_at=now + overlap):
            by = (await self._seen(key_id)).replaced_by
            raise NotFound(
                f"key {key_id} was rotated already: rotate {by}, which took its place, also where nobody has its secret"
            )
        self.memory.forget(key_id)
        made = await self._made(new, secret)
        await self.audit.note("key rotated", key=key_id, replaced_by=new.key_id)
        log.info("key_rotated", key_id=key_id, replaced_by=new.key_id)
        return made

    async def revoke(self, key_id: str) -> None:
        """End a key, for good: here at once, in other processes within seconds. Raises NotFound."""
        await self._seen(key_id)
        await self.store.revoke(key_id, self.clock.now())
        self.memory.forget(key_id)
        await self.audit.note("key revoked", key=key_id)
        log.info("key_revoked", key_id=key_id)

    async def prune(self, before: datetime) -> int:
        """Delete the keys of all workspaces that ended before a moment; return how many. The audit log still has them.

        The last one that was made stays: else the store would count as one that never had a key.
        """
        gone = await self.store.prune(before)
        if gone:
            await self.audit.note("ended keys pruned", keys=gone)
            log.info("keys_pruned", keys=gone)
        return gone

    async def _add(self, key: ApiKey) -> NewKey:
        secret = secrets.token_urlsafe(SECRET_BYTES)
        await self.store.add(key, hashed(self.pepper(), secret))
        return await self._made(key, secret)

    async def _made(self, key: ApiKey, secret: str) -> NewKey:
        self.memory.forget(key.key_id)
        await self.audit.note("key made", key=key.key_id, scopes=",".join(key.scopes), of=key.workspace)
        log.info("key_made", key_id=key.key_id, scopes=list(key.scopes))
        return NewKey(key=key, secret=f"{PREFIX}_{key.key_id}_{secret}")

    async def _seen(self, key_id: object) -> ApiKey:
        found = await self.store.find(key_id) if isinstance(key_id, str) and _ID.fullmatch(key_id) else None
        if found is None or (self.within is not None and found[0].workspace != self.within):
            raise NotFound(f"there is no key {str(key_id)[:LONGEST_NAME]} here: hardwon keys list shows them")
        return found[0]


class _Clock(Protocol):
    def now(self) -> datetime: ...
