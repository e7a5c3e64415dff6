"""API keys: shown once, stored as a keyed hash, rotated with an overlap, revoked for good."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

from pydantic import SecretStr

from hardwon.errors import AccessDenied, InvalidInput, InvalidSetting, NotFound, StorageUnavailable
from hardwon.event_log import get_logger
from hardwon.models.access import DEFAULT_OVERLAP, MAX_NAME_CHARS, ApiKey, NewKey, Scope
from hardwon.validation import as_integer, check_duration, check_texts
from knowledge.access.provenance import NO_AUDIT, Auditor

FILE = "key-pepper"
_MIN_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Pepper:
    """A pepper and its name, which identifies it and reveals nothing about its value."""

    value: bytes = field(repr=False)
    name: str


def load_pepper(home: Path, configured: SecretStr | None) -> Pepper:
    """Return the configured pepper, else that of the file in the data directory, which is created if missing.

    Raises InvalidSetting for one that is too short, StorageUnavailable for a file that is unusable or world-readable.
    """
    if configured is not None:
        value = configured.get_secret_value().strip().encode()  # stripped as the content of a file is
        if len(value) < _MIN_BYTES:
            raise InvalidSetting("HARDWON_KEY_PEPPER", f"give at least {_MIN_BYTES} random characters")
        return _pepper_from(value)
    path = home / FILE
    try:
        if not path.exists():
            _write_pepper(path)
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise StorageUnavailable(f"{path} can be read by other users: chmod 600 {path}")
            value = file.read().strip()
    except OSError as error:
        raise StorageUnavailable(f"{path} cannot be used ({error.strerror}): set HARDWON_KEY_PEPPER") from error
    if len(value) < _MIN_BYTES:
        raise StorageUnavailable(f"{path} is damaged: restore it from a backup, or delete it and create all keys again")
    return _pepper_from(value)


def _write_pepper(path: Path) -> None:
    """Write a new pepper atomically; of two concurrent writers the first wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(prefix=f".{FILE}-", dir=path.parent)  # 0600
    try:
        with os.fdopen(number, "w") as file:
            file.write(secrets.token_hex(_MIN_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink()


def describe_other_pepper(keys: int) -> str:
    """Return a message about keys that were made with another pepper, and the remedy."""
    return (
        f"keys that do not work because they were made with another pepper: {keys:,}. Restore the file {FILE} in the"
        " data directory, or the HARDWON_KEY_PEPPER, that they were made with, or revoke them and create new ones"
    )


def _pepper_from(value: bytes) -> Pepper:
    return Pepper(value=value, name=hashlib.sha256(b"hardwon key pepper\0" + value).hexdigest()[:12])


log = get_logger(__name__)
PREFIX: Final = "hw"
SECRET_BYTES: Final = 32
MAX_WORKSPACE_CHARS: Final = 200
MAX_PAGE: Final = 1000
_ID = re.compile(r"[0-9a-f]{12}")
_KEY = re.compile(r"hw_(?P<id>[0-9a-f]{12})_(?P<secret>[A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHash:
    """A secret under a pepper: HMAC-SHA-256. A random secret needs no slow hash. `pepper` names the pepper."""

    digest: bytes
    pepper: str


class KeyStore(Protocol):
    """Storage of all keys. `workspace` limits what is visible; None: everything."""

    async def add(self, key: ApiKey, hashed: KeyHash) -> None:
        """Store a new key."""

    async def find(self, key_id: str) -> tuple[ApiKey, KeyHash] | None:
        """Return a key and the hash of its secret, None if there is none."""

    async def find_all(self, key_ids: Collection[str]) -> dict[str, tuple[ApiKey, KeyHash]]:
        """Return the existing ones of some keys by id, with the hashes of their secrets, in one query."""

    async def list(self, workspace: str | None, *, after: str | None, limit: int) -> list[ApiKey]:
        """Return keys ordered by id, starting after `after`."""

    async def replace(self, key_id: str, key: ApiKey, hashed: KeyHash, *, expires_at: datetime) -> bool:
        """Store the successor of a key, which then expires at `expires_at`, unless it does so earlier.

        Atomic. Returns False and stores nothing if the key has a successor already.
        """

    async def revoke(self, key_id: str, now: datetime) -> None:
        """Revoke a key for good; the time of the first revocation is kept."""

    async def chain(self, key_id: str) -> tuple[str, ...]:
        """Return the ids of a key's whole rotation chain, ascending.

        For an unknown key: its own id, and those of the keys whose chain began with it.
        """

    async def touch(self, key_id: str, used_at: datetime) -> None:
        """Store when a key was used; never moves back."""

    async def has_any(self) -> bool:
        """Return whether there is any key, also an ended one."""

    async def count_with_other_pepper(self, pepper: str, now: datetime) -> int:
        """Return the number of live keys that were made with another pepper than the named one."""

    async def prune(self, before: datetime) -> int:
        """Delete the keys that ended before that time; return how many. The newest key always stays.

        For a store without any key is open to everyone on its machine, and one that had a key must never become that.
        """


class KeyCache(Protocol):
    """A short-lived cache of keys."""

    def invalidate(self, key_id: str) -> None:
        """Look a key up again at its next use."""


def parse_key(text: str) -> tuple[str, str] | None:
    """Return the id and the secret in a key's text, None if it is not a key."""
    match = _KEY.fullmatch(text)
    return None if match is None else (match["id"], match["secret"])


def hash_secret(pepper: Pepper, secret: str) -> KeyHash:
    """Return the hash to store of a secret."""
    return KeyHash(digest=hmac.digest(pepper.value, secret.encode(), hashlib.sha256), pepper=pepper.name)


async def is_revoked(store: KeyStore, key_id: str) -> bool:
    """Return whether a key was revoked, or ended so long ago that it is gone; never of the server's own key."""
    if not _ID.fullmatch(key_id):
        return False
    found = await store.find(key_id)
    return found is None or found[0].revoked_at is not None


def check_scopes(scopes: Collection[str]) -> tuple[Scope, ...]:
    """Return the distinct scopes in canonical order. Raises InvalidInput for none, or for an unknown one."""
    unknown = sorted(set(scopes) - set(Scope))
    if unknown or not scopes:
        reason = f"must be one of {', '.join(Scope)}, not {unknown[0]!r}" if unknown else "give at least one"
        raise InvalidInput("scope", reason)
    return tuple(scope for scope in Scope if scope in scopes)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyService:
    """Creates, lists, rotates and revokes keys, of the workspace `within` only, or of all if None."""

    store: KeyStore
    pepper: Callable[[], Pepper]
    clock: _Clock
    cache: KeyCache
    within: str | None = None
    audit: Auditor = NO_AUDIT

    async def count_unusable(self) -> int:
        """Return how many live keys do not work here, as they were made with another pepper.

        Raises AccessDenied for a key of one workspace: it may not learn of the keys of others.
        """
        if self.within is not None:
            raise AccessDenied("a key of one workspace cannot count the keys of all")
        if not await self.store.has_any():  # a pepper would be made to compare with
            return 0
        return await self.store.count_with_other_pepper(self.pepper().name, self.clock.now())

    async def create(
        self,
        scopes: Collection[str],
        *,
        workspace: str | None,
        name: str | None = None,
        expires_in: timedelta | None = None,
    ) -> NewKey:
        """Create a key for one workspace, or for all (None), and return it with its secret, which is shown only now.

        Raises InvalidInput for a wrong scope, name or lifetime, AccessDenied for another workspace than `within`.
        """
        if self.within is not None and workspace != self.within:
            raise AccessDenied("a key of one workspace can only create keys of that workspace")
        check_texts(workspace=workspace, name=name)
        if workspace is not None and (not workspace.strip() or len(workspace) > MAX_WORKSPACE_CHARS):
            raise InvalidInput("workspace", f"must not be blank or longer than {MAX_WORKSPACE_CHARS} characters")
        checked_scopes = check_scopes(scopes)
        if expires_in is not None:
            check_duration("expires", expires_in, least=timedelta(seconds=1))
        if name is not None and (not name.strip() or len(name) > MAX_NAME_CHARS or not name.isprintable()):
            raise InvalidInput("name", f"must be printable, not blank, and at most {MAX_NAME_CHARS} characters long")
        now = self.clock.now()
        expires_at = None if expires_in is None else now + expires_in
        return await self._add(
            ApiKey(
                key_id=secrets.token_hex(6),
                name=name,
                scopes=checked_scopes,
                workspace=workspace,
                created_at=now,
                expires_at=expires_at,
            )
        )

    async def list(self, *, after: str | None = None, limit: int = 100) -> Sequence[ApiKey]:
        """Return keys ordered by id, starting after `after`. Raises InvalidInput for a wrong limit."""
        as_integer("limit", limit, least=1, most=MAX_PAGE)
        check_texts(after=after)
        if after is not None and not _ID.fullmatch(after):
            raise InvalidInput("after", "is not the id of a key")
        return await self.store.list(self.within, after=after, limit=limit)

    async def rotate(self, key_id: str, *, overlap: timedelta = DEFAULT_OVERLAP) -> NewKey:
        """Create a key with the same scopes and lifetime; the old one stays valid for the overlap. Raises NotFound."""
        check_duration("overlap", overlap, least=timedelta(0))
        old = await self._find_visible(key_id)
        now = self.clock.now()
        if not old.is_live(now):
            raise NotFound(f"key {key_id} has ended: create another with hardwon keys create")
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
        if not await self.store.replace(key_id, new, hash_secret(self.pepper(), secret), expires_at=now + overlap):
            successor = (await self._find_visible(key_id)).replaced_by
            raise NotFound(
                f"key {key_id} was already rotated: rotate its successor {successor}, even if its secret is lost"
            )
        self.cache.invalidate(key_id)
        new_key = await self._finish_new_key(new, secret)
        await self.audit.record("key rotated", key=key_id, replaced_by=new.key_id)
        log.info("key_rotated", key_id=key_id, replaced_by=new.key_id)
        return new_key

    async def revoke(self, key_id: str) -> None:
        """Revoke a key for good: here at once, in other processes within seconds. Raises NotFound."""
        await self._find_visible(key_id)
        await self.store.revoke(key_id, self.clock.now())
        self.cache.invalidate(key_id)
        await self.audit.record("key revoked", key=key_id)
        log.info("key_revoked", key_id=key_id)

    async def prune(self, before: datetime) -> int:
        """Delete the keys of all workspaces that ended before that time; return how many. The audit log keeps them.

        The newest key stays, since a store without any key is open to everyone on its machine.
        """
        deleted = await self.store.prune(before)
        if deleted:
            await self.audit.record("ended keys pruned", keys=deleted)
            log.info("keys_pruned", keys=deleted)
        return deleted

    async def _add(self, key: ApiKey) -> NewKey:
        secret = secrets.token_urlsafe(SECRET_BYTES)
        await self.store.add(key, hash_secret(self.pepper(), secret))
        return await self._finish_new_key(key, secret)

    async def _finish_new_key(self, key: ApiKey, secret: str) -> NewKey:
        self.cache.invalidate(key.key_id)
        await self.audit.record("key made", key=key.key_id, scopes=",".join(key.scopes), of=key.workspace)
        log.info("key_made", key_id=key.key_id, scopes=list(key.scopes))
        return NewKey(key=key, secret=f"{PREFIX}_{key.key_id}_{secret}")

    async def _find_visible(self, key_id: object) -> ApiKey:
        found = await self.store.find(key_id) if isinstance(key_id, str) and _ID.fullmatch(key_id) else None
        if found is None or (self.within is not None and found[0].workspace != self.within):
            raise NotFound(f"there is no key {str(key_id)[:MAX_NAME_CHARS]} here: hardwon keys list shows them")
        return found[0]


class _Clock(Protocol):
    def now(self) -> datetime: ...
