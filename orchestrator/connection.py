"""Ownership of the data directory: one process opens the stores, the others are its clients.

Programs, commands and jobs call `connect`. The first process becomes the owner: it opens the stores and serves the API
on a unix socket while it lives. The others are clients of that socket; when the owner leaves, the next process that
needs the stores becomes the owner.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import importlib
import os
import socket as sockets
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import httpx

from hardwon.client.knowledge_client import KnowledgeClient
from hardwon.client.transport import KEYS_PATH, LEAVING_HEADER, LIMITS, is_deletion
from hardwon.errors import HardwonError, OwnerUnavailable, StorageUnavailable, StoreInUse
from knowledge.adapters.owner_lock import Owner, read_owner
from knowledge.models import DEFAULT_WORKSPACE
from knowledge.runtime.logging import get_logger
from knowledge.settings import KnowledgeSettings

if TYPE_CHECKING:
    from knowledge.wiring.open import Knowledge

log = get_logger(__name__)

AnyKnowledge: TypeAlias = "Knowledge | KnowledgeClient"
"""The services, in process or over HTTP, with the same methods."""

OWNER_START_SECONDS = 60.0
"""Seconds that a client waits for an owner that is still starting; the first start creates a database."""
_WARN_AFTER_SECONDS = 3.0
"""Seconds after which a client logs whom it waits for."""
GRACE_SECONDS = 5
"""Seconds a leaving owner gives requests to finish; a client whose request was cut becomes the owner and repeats it."""
_SOCKET_URL = "http://hardwon"
_MAX_ATTEMPTS = 5
_OWNER_LEFT = "the owner of the data directory left before this was done: try again"
_OWNER_LEFT_WITH_KEY = (
    "the owner of the data directory left before it returned the new key: if hardwon keys list shows a key that was"
    " never used, nobody has its secret; revoke it, and create another"
)
_OWNERS_KEEP_LEAVING = "the owners of the data directory keep leaving: try again"
_OWNER_SILENT = (
    "{}, which owns the data directory, does not answer yet: it is starting, or it hangs; waiting up to {:g} s"
)
_BROKEN_CONNECTION = (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)


@asynccontextmanager
async def connect(
    settings: KnowledgeSettings | None = None, *, workspace: str = DEFAULT_WORKSPACE, warm: bool = True
) -> AsyncIterator[AnyKnowledge]:
    """Yield the services of a workspace, whichever process owns the stores; the methods are the same.

    With HARDWON_API_URL a client of that server; with a Qdrant server the stores themselves; else the owner of the data
    directory or a client of the owner. Unless `warm`, an owner loads the embedding model only with the first text.
    Raises StoreInUse if the owner serves no clients.
    """
    settings = settings or KnowledgeSettings()
    if settings.api_url:
        key = settings.api_key.get_secret_value() if settings.api_key else None
        bound = None if workspace == DEFAULT_WORKSPACE else workspace  # a key has a default workspace of its own
        async with KnowledgeClient(settings.api_url, key, workspace=bound, settings=settings) as client:
            yield client
        return
    async with Membership(settings, warm=warm) as membership:
        if membership.knowledge is not None:
            yield membership.knowledge.in_workspace(workspace)
            return
        transport = _OwnerTransport(membership)
        async with KnowledgeClient(
            _SOCKET_URL,
            workspace=workspace,
            settings=settings,
            transport=transport,
            place=f"the owner of {settings.home}",
        ) as client:
            yield client


class Membership:
    """The role of this process among those that use one data directory: its owner, or a client of the owner."""

    def __init__(self, settings: KnowledgeSettings, *, warm: bool = True) -> None:
        self._settings = settings
        self._warm = warm
        self._stack = AsyncExitStack()
        self._joining: asyncio.Task[None] | None = None
        self.knowledge: Knowledge | None = None
        self.socket: str | None = None

    async def __aenter__(self) -> Self:
        """Join."""
        try:
            await self.join()
        except BaseException:
            await self._leave()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        """Leave; as the owner, let requests finish and close the stores."""
        await self._leave()

    async def join(self, left: str | None = None) -> None:
        """Become the owner, or find the owner's socket. `left` is a socket that does not answer any more.

        Concurrent callers share one attempt, which goes on when one of them gives up: the deadline of a context is over
        long before stores are open. Raises what opening the stores raises; StoreInUse if the owner serves no clients
        or never starts to.
        """
        if self.knowledge is not None or (self.socket is not None and self.socket != left):
            return  # another task of this process was first
        if self._joining is None or self._joining.done():
            self._joining = asyncio.create_task(self._join())
            self._joining.add_done_callback(_log_failed_join)
        await asyncio.shield(self._joining)

    async def _leave(self) -> None:
        try:
            if self._joining is not None:
                self._joining.cancel()
                await asyncio.gather(self._joining, return_exceptions=True)
        finally:
            await self._stack.aclose()

    async def _join(self) -> None:
        began = asyncio.get_running_loop().time()
        silent: Owner | None = None
        warned = False
        while not await self._find_owner():
            try:
                await self._own()
            except StoreInUse:
                owner = read_owner(self._settings.home)
                # read twice: an owner that has just started may not have written its socket yet
                serves_nobody = owner is not None and owner.socket is None and owner == silent
                waited = asyncio.get_running_loop().time() - began
                if serves_nobody or waited > OWNER_START_SECONDS:
                    raise
                silent = owner
                if waited > _WARN_AFTER_SECONDS and not warned:
                    warned = True
                    log.warning(
                        "owner_awaited", reason=_OWNER_SILENT.format(owner or "another process", OWNER_START_SECONDS)
                    )
            else:
                return
            await asyncio.sleep(0.05)

    async def _own(self) -> None:
        """Open the stores and serve them; if that fails, nothing stays open."""
        settings = self._settings
        await asyncio.to_thread(_load_owner_modules)
        from knowledge.wiring.open import open_knowledge  # noqa: PLC0415 - loaded by now

        path = socket_path(settings.home) if settings.has_embedded_index else None
        async with AsyncExitStack() as opening:
            knowledge = await opening.enter_async_context(open_knowledge(settings, socket=path, warm=self._warm))
            if path is not None:
                await opening.enter_async_context(_serve_on_socket(knowledge, path))
                log.info("owner_serving", home=str(settings.home))
            self._stack.push_async_exit(opening.pop_all())
        self.knowledge, self.socket = knowledge, str(path or "")
        _collect_garbage()

    async def _find_owner(self) -> bool:
        """Return whether the owner's socket answers, and store its path."""
        owner = read_owner(self._settings.home) if self._settings.has_embedded_index else None
        if owner is None or owner.socket is None or not _is_socket_of(owner.socket, self._settings.home):
            return False
        transport = _socket_transport(owner.socket)
        async with KnowledgeClient(_SOCKET_URL, settings=self._settings, transport=transport) as client:
            if not await client.healthy():
                return False
        self.socket = owner.socket
        return True


def _load_owner_modules() -> None:
    """Import the modules of an owner, which takes a second: a client does so only when it becomes the owner."""
    importlib.import_module("knowledge.wiring.open")
    importlib.import_module("orchestrator.http.uvicorn")


def _log_failed_join(task: asyncio.Task[None]) -> None:
    """Retrieve the error of a join: all who waited for it may have given up."""
    if not task.cancelled() and (error := task.exception()):
        log.info("not_joined", reason=str(error) or type(error).__name__)


def _collect_garbage() -> None:
    """Run a full garbage collection after opening, not within the deadline of the first question.

    It takes 0.1 s (measured); Python runs the next one only after the heap grew by a quarter.
    """
    gc.collect()


def _socket_transport(path: str) -> httpx.AsyncHTTPTransport:
    return httpx.AsyncHTTPTransport(uds=path, verify=False, limits=LIMITS)  # no TLS here, and certificates load slowly


class _OwnerTransport(httpx.AsyncBaseTransport):
    """Sends requests to the current owner of the stores. A request that was cut is repeated, except for a new key."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._to: dict[str, httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not isinstance(request.stream, httpx.ByteStream):
            return await self._send_stream(request)
        cut = False  # True once the owner may have processed a request without a response
        for _ in range(_MAX_ATTEMPTS):
            if cut and (request.method, request.url.path) == ("POST", KEYS_PATH):
                raise OwnerUnavailable(_OWNER_LEFT_WITH_KEY)  # repeated, it would create a second key
            path = self._membership.socket or ""
            try:
                response = await self._transport_to(path).handle_async_request(request)
                if response.headers.get("content-type", "").endswith("json"):
                    await response.aread()  # here, where a response that is cut in the middle is requested again
            except _BROKEN_CONNECTION as error:
                cut = cut or not isinstance(error, httpx.ConnectError)
                await self._membership.join(left=path)
                continue
            if response.headers.get(LEAVING_HEADER):
                cut = True
                await response.aclose()
                await self._membership.join(left=path)
                continue
            if cut and is_deletion(request) and response.status_code == httpx.codes.NOT_FOUND:
                await response.aclose()
                return httpx.Response(httpx.codes.NO_CONTENT)  # the request that was cut had deleted it
            return response
        raise OwnerUnavailable(_OWNERS_KEEP_LEAVING)

    async def _send_stream(self, request: httpx.Request) -> httpx.Response:
        """Send a stream. It can be read only once, so it is sent again only if the connection was refused."""
        for _ in range(_MAX_ATTEMPTS):
            path = self._membership.socket or ""
            try:
                response = await self._transport_to(path).handle_async_request(request)
            except httpx.ConnectError:
                await self._membership.join(left=path)
                continue
            except _BROKEN_CONNECTION as error:
                raise OwnerUnavailable(_OWNER_LEFT) from error
            if response.headers.get(LEAVING_HEADER):
                await response.aclose()
                raise OwnerUnavailable(_OWNER_LEFT)
            return response
        raise OwnerUnavailable(_OWNERS_KEEP_LEAVING)

    def _transport_to(self, path: str) -> httpx.AsyncHTTPTransport:
        if path not in self._to:
            self._to[path] = _socket_transport(path)
        return self._to[path]

    async def aclose(self) -> None:
        for transport in self._to.values():
            await transport.aclose()


def socket_path(home: Path) -> Path:
    """Return the owner's socket: in the data directory, or in a private directory if that path is too long."""
    path = home / "hardwon.sock"
    if len(os.fsencode(path)) <= 100:  # Linux allows 107 bytes, macOS 103
        return path
    private = Path(tempfile.gettempdir()) / f"hardwon-{os.geteuid()}-{_home_digest(home)}"
    try:
        with contextlib.suppress(FileExistsError):
            private.mkdir(mode=0o700)
        state = private.lstat()
    except OSError as error:
        raise StorageUnavailable(
            f"no socket can be created in {private.parent} ({error.strerror}): set TMPDIR to a writable directory"
        ) from error
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o077:
        raise StorageUnavailable(f"{private} is not private to this user: remove it")
    return private / "hardwon.sock"


def _home_digest(home: Path) -> str:
    return hashlib.sha256(os.fsencode(home)).hexdigest()[:12]


def _is_socket_of(socket: str, home: Path) -> bool:
    """Return whether a socket belongs to a data directory, by any path of that directory.

    A copy of a directory that was in use names the socket of the original: requests for the copy would go there.
    """
    place = Path(socket).parent
    if place.name.rpartition("-")[2] in {_home_digest(home), _home_digest(home.resolve())}:
        return True
    with contextlib.suppress(OSError):
        return place.samefile(home)
    return False


@contextlib.contextmanager
def _listen_on_socket(path: Path) -> Iterator[sockets.socket]:
    """Listen on a unix socket that only this user (and root) can reach. The owner lock makes it ours alone.

    It is created in a private folder and moved once it is private itself: a umask would hold for all threads.
    """
    listener = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".s") as private:
            temporary = Path(private) / "s"  # no longer than `path`, which fits
            listener.bind(str(temporary))
            temporary.chmod(0o600)
            temporary.rename(path)
    except OSError as error:
        listener.close()
        advice = "remove the file at that path, or set HARDWON_HOME to a directory on a local file system"
        if not os.access(path.parent, os.W_OK | os.X_OK):
            advice = f"give {path.parent} to the user that runs this (chown -R, chmod u+rwx), or set HARDWON_HOME"
        raise StorageUnavailable(f"no socket can be created at {path} ({error.strerror}): {advice}") from error
    try:
        yield listener
    finally:
        path.unlink(missing_ok=True)
        listener.close()


@asynccontextmanager
async def _serve_on_socket(knowledge: Knowledge, path: Path) -> AsyncIterator[None]:
    """Serve the API on a unix socket for a block."""
    from orchestrator.http.uvicorn import serve_on  # noqa: PLC0415

    with _listen_on_socket(path) as listener:
        app = _LazyApp(knowledge)
        async with contextlib.aclosing(app), serve_on(app, listener, grace_seconds=GRACE_SECONDS):
            yield


class _LazyApp:
    """The API of an owner, built at the first request: most commands end before there is one."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._making = asyncio.Lock()
        self._app: Any = None
        self._is_made = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if not self._is_made:
            async with self._making:
                with contextlib.suppress(HardwonError):  # raised again when a text is embedded
                    await self._knowledge.warm_up()
                if not self._is_made:
                    self._app = await asyncio.to_thread(self._make)  # takes a second; the owner keeps working
                    self._is_made = True
        await self._app(scope, receive, send)

    async def aclose(self) -> None:
        """Stop indexing in the background."""
        if self._is_made:
            from orchestrator.http.routes.kb import stop_indexing  # noqa: PLC0415

            await stop_indexing(self._app)

    def _make(self) -> Any:
        from orchestrator.http.app import make_app  # noqa: PLC0415

        return make_app(self._knowledge)
