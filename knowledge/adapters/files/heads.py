"""Heads of a store, kept outside of Postgres: in the data directory, and where a setting says."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Final

import httpx

from hardwon.errors import InvalidInput, StorageUnavailable, WebhookUnavailable
from hardwon.models.seals import SealHead
from knowledge.ports import HeadKeeper

FILE: Final = "seal-head"
_TIMEOUT_SECONDS: Final = 10.0


class FileHeads(HeadKeeper):
    """Keeps the last head in the data directory, and each one elsewhere."""

    def __init__(self, home: Path, elsewhere: str | None) -> None:
        self._path = home / FILE
        self._elsewhere = elsewhere

    async def keep(self, head: SealHead) -> None:
        await asyncio.to_thread(self._replace, head)
        if self._elsewhere is None:
            return
        if self._elsewhere.startswith(("http://", "https://")):
            await _send(self._elsewhere, head)
        else:
            await asyncio.to_thread(_append, self._elsewhere, head)

    async def kept(self) -> SealHead | None:
        try:
            return SealHead.read(await asyncio.to_thread(self._path.read_text))
        except FileNotFoundError:
            return None
        except InvalidInput:
            raise StorageUnavailable(
                f"{self._path} is no head of a store: delete it, and compare with one that you kept elsewhere"
                " (hardwon audit verify --head)"
            ) from None

    def _replace(self, head: SealHead) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(prefix=f".{FILE}-", dir=self._path.parent)
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


async def _send(address: str, head: SealHead) -> None:
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS) as client:
            answer = await client.post(address, content=head.line(), headers={"Content-Type": "application/json"})
            answer.raise_for_status()
    except httpx.HTTPError as error:
        raise WebhookUnavailable(
            f"HARDWON_KEEP_HEADS: the address does not take heads ({type(error).__name__})"
        ) from error
