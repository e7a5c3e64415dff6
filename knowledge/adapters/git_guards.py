"""What a git repository may lead to: nothing but the host it was asked of, nothing but the folder that was named.

A server names other addresses in what it answers (redirects, packs elsewhere), and a folder others on the disk
(alternates, common directories, links). Neither was allowed by anybody, so none is followed.
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

from knowledge.documents.fetching import is_inside

_GIT_ANSWERS: Final = "application/x-git-"
_MOST_CONFIG: Final = 1_000_000


class Pools(urllib3.PoolManager):
    """Connections to one https:// origin alone, from which so many bytes are taken at most."""

    def __init__(self, url: str, *, inside: bool, most_bytes: int) -> None:
        """Hold to the origin of an address; `inside`: it may lie inside."""
        super().__init__(retries=urllib3.Retry(total=0, redirect=0))
        self._origin = _origin(url)
        self._left = most_bytes
        self._most = most_bytes
        if not inside:
            self.pool_classes_by_scheme = {"https": _GuardedPool}

    def urlopen(self, method: str, url: str, redirect: bool = False, **told: Any) -> Any:  # type: ignore[override]  # noqa: FBT001, FBT002
        """Ask the origin; raises GitProtocolError for any other, and for an answer that is not git's own protocol."""
        del redirect  # to where, nobody allowed
        if _origin(url) != self._origin:
            raise GitProtocolError("it leads to another host, and only the one that was named may be fetched from")
        response = super().urlopen(method, url, redirect=False, **told)
        if response.status == 200 and not response.headers.get("Content-Type", "").startswith(_GIT_ANSWERS):
            response.close()
            raise GitProtocolError("it is no git server that speaks the smart protocol")
        response.read = self._counting(response.read)  # type: ignore[method-assign]
        return response

    def _counting(self, read: Callable[..., bytes]) -> Callable[..., bytes]:
        def counted(*told: Any, **more: Any) -> bytes:
            data = read(*told, **more)
            self._left -= len(data)
            if self._left < 0:
                raise GitProtocolError(f"it has more than {self._most // 1_000_000} MB")
            return data

        return counted


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or 443


class _Guarded(HTTPSConnection):
    """A connection that is closed again where it leads inside."""

    def _new_conn(self) -> socket.socket:
        made = super()._new_conn()
        if is_inside([made.getpeername()[0]]):
            made.close()
            raise urllib3.exceptions.NewConnectionError(self, "it lies inside: internal addresses are not fetched")
        return made


class _GuardedPool(HTTPSConnectionPool):
    ConnectionCls = _Guarded


def check_folder(folder: Path) -> Path:
    """Return the real path of a repository on this machine. Raises GitProtocolError where it is not all in its folder.

    What else its files name would be read with the rights of this process: other repositories' objects, any file.
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
        if b"[include" in config.read(_MOST_CONFIG).lower():
            raise GitProtocolError("its config includes other files")
    return root
