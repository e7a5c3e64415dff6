"""Guards for git repositories: only the host that was named, only the folder that was named.

A server may name other addresses in its responses (redirects, packs elsewhere), and a folder others on the disk
(alternates, common directories, links). None is followed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import urllib3
from dulwich.errors import GitProtocolError, NotGitRepository
from urllib3.connection import HTTPSConnection
from urllib3.connectionpool import HTTPSConnectionPool

from knowledge.documents.ingestion.url_policy import is_inside

_GIT_ANSWERS: Final = "application/x-git-"
_MAX_CONFIG_BYTES: Final = 1_000_000


class OriginPools(urllib3.PoolManager):
    """Connections to one https:// origin alone, from which at most `most_bytes` are read."""

    def __init__(self, url: str, *, inside: bool, most_bytes: int) -> None:
        """Restrict to the origin of an address; `inside`: it may be an internal one."""
        super().__init__(retries=urllib3.Retry(total=0, redirect=0))
        self._origin = _origin(url)
        self._left = most_bytes
        self._most = most_bytes
        if not inside:
            self.pool_classes_by_scheme = {"https": _GuardedPool}

    def urlopen(self, method: str, url: str, redirect: bool = False, **options: Any) -> Any:  # type: ignore[override]  # noqa: FBT001, FBT002
        """Call the origin; raises GitProtocolError for any other one, and for a response that is not git's protocol."""
        del redirect  # redirects are never followed
        if _origin(url) != self._origin:
            raise GitProtocolError("it leads to another host, and only the one that was named may be fetched from")
        response = super().urlopen(method, url, redirect=False, **options)
        if response.status == 200 and not response.headers.get("Content-Type", "").startswith(_GIT_ANSWERS):
            response.close()
            raise GitProtocolError("it is not a git server that speaks the smart protocol")
        response.read = self._limit_bytes(response.read)  # type: ignore[method-assign]
        return response

    def _limit_bytes(self, read: Callable[..., bytes]) -> Callable[..., bytes]:
        def read_counting(*arguments: Any, **options: Any) -> bytes:
            data = read(*arguments, **options)
            self._left -= len(data)
            if self._left < 0:
                raise GitProtocolError(f"it has more than {self._most // 1_000_000} MB")
            return data

        return read_counting


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or 443


class _Guarded(HTTPSConnection):
    """A connection that is closed again if it leads to an internal address."""

    def _new_conn(self) -> socket.socket:
        connection = super()._new_conn()
        if is_inside([connection.getpeername()[0]]):
            connection.close()
            raise urllib3.exceptions.NewConnectionError(self, "internal addresses are not fetched")
        return connection


class _GuardedPool(HTTPSConnectionPool):
    ConnectionCls = _Guarded


def check_folder(folder: Path) -> Path:
    """Return the real path of a repository on this machine. Raises GitProtocolError if it is not all in its folder.

    Other files it names would be read with the rights of this process: other repositories' objects, any file.
    """
    root = folder.resolve(strict=True)
    hidden = root / ".git"
    control = hidden if os.path.lexists(hidden) else root
    if hidden.is_file():
        raise GitProtocolError("its .git names a folder elsewhere: name the repository that it belongs to")
    if not (control / "objects").is_dir():
        raise NotGitRepository(f"there is no repository at {folder}")
    for name in ("commondir", "objects/info/alternates"):
        if os.path.lexists(control / name):
            raise GitProtocolError(f"it has parts elsewhere ({name}): name a repository that is whole")
    for place, folders, files in os.walk(control):
        for name in (*folders, *files):
            found = Path(place, name)
            if found.is_symlink() and not found.resolve().is_relative_to(root):
                raise GitProtocolError("a link in it leads out of its folder")
    if control.is_symlink() and not control.resolve().is_relative_to(root):
        raise GitProtocolError("a link in it leads out of its folder")
    with (control / "config").open("rb") as config:
        if b"[include" in config.read(_MAX_CONFIG_BYTES).lower():
            raise GitProtocolError("its config includes other files")
    return root
