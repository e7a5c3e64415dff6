"""Files outside of Postgres that vouch for a store: the keys of its seals, and the last head over its chains."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

import httpx
from pydantic import SecretStr

from hardwon.errors import InvalidInput, InvalidSetting, StorageUnavailable, WebhookUnavailable
from hardwon.models.seals import SealHead
from knowledge.access.seals import KEY_BYTES, SealKey, SealKeys
from knowledge.ports import HeadKeeper

KEYS_FILE: Final = "seal-keys"
HEAD_FILE: Final = "seal-head"
SETTING: Final = "HARDWON_SEAL_KEYS"
_TIMEOUT_SECONDS: Final = 10.0
_ADDRESSES: Final = ("http://", "https://")
_LAST_BYTES: Final = 1 << 16
"""Bytes at the end of a file of heads that are read: hundreds of lines."""


def find_keys(home: Path, configured: SecretStr | None) -> SealKeys | None:
    """Return the configured keys, else those of the file; None if there is neither.

    Raises InvalidSetting for keys that are too short, StorageUnavailable for a file that is unusable or readable by
    others.
    """
    if configured is not None:
        parts = [part.strip() for part in configured.get_secret_value().split(",")]
        if any(len(part) < KEY_BYTES for part in parts):
            raise InvalidSetting(
                SETTING,
                f"give at least {KEY_BYTES} random characters; several keys with commas between, the newest first",
            )
        return SealKeys.of([SealKey.of(part.encode()) for part in parts])
    path = home / KEYS_FILE
    try:
        if not path.exists():
            return None
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise StorageUnavailable(f"{path} can be read by other users: chmod 600 {path}")
            lines = file.read().split()
    except OSError as error:
        raise StorageUnavailable(f"{path} cannot be used ({error.strerror}): set {SETTING}") from error
    if not lines or any(len(line) < KEY_BYTES for line in lines):
        raise StorageUnavailable(f"{path} is damaged: restore it from where you keep a copy")
    return SealKeys.of([SealKey.of(line) for line in lines])


def make_keys(home: Path) -> SealKeys:
    """Return the keys of the file after a new one was put first; older seals still verify by the others."""
    path = home / KEYS_FILE
    before = path.read_bytes() if path.exists() else b""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(prefix=f".{KEYS_FILE}-", dir=path.parent)  # 0600
    try:
        with os.fdopen(number, "wb") as file:
            file.write(os.urandom(KEY_BYTES).hex().encode() + b"\n" + before)
            file.flush()
            os.fsync(file.fileno())
        if before:
            Path(name).rename(path)
        else:
            with contextlib.suppress(FileExistsError):  # of two first starts, the first wins
                os.link(name, path)
    finally:
        Path(name).unlink(missing_ok=True)
    made = find_keys(home, None)
    assert made is not None  # noqa: S101 - it was just written
    return made


class FileHeads(HeadKeeper):
    """Keeps the last head in the data directory, and each one elsewhere."""

    def __init__(self, home: Path, elsewhere: str | None) -> None:
        self._path = home / HEAD_FILE
        self._elsewhere = elsewhere

    async def keep(self, head: SealHead) -> None:
        await asyncio.to_thread(self._replace, head)
        if self._elsewhere is None:
            return
        if self._elsewhere.startswith(_ADDRESSES):
            await _send(self._elsewhere, head)
        else:
            await asyncio.to_thread(_append, self._elsewhere, head)

    async def last_head(self) -> SealHead | None:
        try:
            return SealHead.read(await asyncio.to_thread(self._path.read_text))
        except FileNotFoundError:
            return None
        except InvalidInput:
            raise StorageUnavailable(
                f"{self._path} is no head of a store: delete it, and compare with one that you kept elsewhere"
                " (hardwon audit verify --head)"
            ) from None

    async def last_head_elsewhere(self) -> SealHead | None:
        if self._elsewhere is None or self._elsewhere.startswith(_ADDRESSES):
            return None
        return await asyncio.to_thread(_read_last, self._elsewhere)

    def _replace(self, head: SealHead) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(prefix=f".{HEAD_FILE}-", dir=self._path.parent)
        with os.fdopen(number, "w") as file:
            file.write(head.line() + "\n")
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(self._path)


def _append(name: str, head: SealHead) -> None:
    path = Path(name).expanduser()
    try:
        with path.open("a") as file:
            file.write(head.line() + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StorageUnavailable(f"HARDWON_KEEP_HEADS: {path} cannot be written ({error.strerror})") from error


def _read_last(name: str) -> SealHead | None:
    path = Path(name).expanduser()
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageUnavailable(f"HARDWON_KEEP_HEADS: {path} cannot be read ({error.strerror})") from error
    for line in reversed(lines):
        with contextlib.suppress(InvalidInput):  # cut short by a kill or by where we began to read
            return SealHead.read(line)
    return None


async def _send(address: str, head: SealHead) -> None:
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS) as client:
            answer = await client.post(address, content=head.line(), headers={"Content-Type": "application/json"})
            answer.raise_for_status()
    except httpx.HTTPError as error:
        raise WebhookUnavailable(
            f"HARDWON_KEEP_HEADS: the address does not take heads ({type(error).__name__})"
        ) from error
