"""Who owns the data directory, and how everybody else works beside it.

`connect` is what a program, a command and a job call. The first becomes the owner: it opens the stores and serves the
API on a unix socket while it lives. The others are clients of that socket; when the owner leaves, whoever needs the
stores next becomes the owner and goes on.
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

from knowledge.adapters.owner_lock import Owner, read_owner
from knowledge.errors import HardwonError, OwnerUnavailable, StorageUnavailable, StoreInUse
from knowledge.logs import get_logger
from knowledge.models import DEFAULT_WORKSPACE
from knowledge.settings import KnowledgeSettings
from orchestrator.client.calls import KEYS_PATH, LEAVING_HEADER, LIMITS, removes
from orchestrator.client.knowledge_client import KnowledgeClient

if TYPE_CHECKING:
    from knowledge.wiring import Knowledge

log = get_logger(__name__)

AnyKnowledge: TypeAlias = "Knowledge | KnowledgeClient"
"""The services, in process or over HTTP: same methods."""

PATIENCE_SECONDS = 60.0
"""How long a client waits for an owner that is still starting; a first start makes a database."""
_TOLD_AFTER_SECONDS = 3.0
"""After this long a client says whom it waits for."""
GRACE_SECONDS = 5
"""How long a leaving owner lets requests finish; a client whose request was cut goes on as the owner itself."""
_OVER_SOCKET = "http://hardwon"
_TRIES = 5
_LEFT = "the owner of the data directory left before this was done: do it again"
_MADE_A_KEY = (
    "the owner of the data directory left before it told the key that it made: where hardwon keys list shows one that"
    " was never used, nobody has its secret; revoke it, and make another"
)
_KEEP_LEAVING = "the owners of the data directory keep leaving: try again"
_AWAITED = (
    "{}, which owns the data directory, does not answer yet: it is starting, or it hangs; it is waited for up to {:g} s"
)
_CUT = (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)


@asynccontextmanager
async def connect(
    settings: KnowledgeSettings | None = None, *, workspace: str = DEFAULT_WORKSPACE, warm: bool = True
) -> AsyncIterator[AnyKnowledge]:
    """Give the services of a workspace, whoever owns the stores; same methods either way.

    With HARDWON_API_URL a client of that server; with a Qdrant server the stores themselves; else the owner of the data
    directory or a client of the owner. Unless `warm`, an owner loads what embeds with the first text: for
    who embeds none. Raises StoreInUse where the owner serves nobody.
    """
    settings = settings or KnowledgeSettings()
    if settings.api_url:
        key = settings.api_key.get_secret_value() if settings.api_key else None
        named = None if workspace == DEFAULT_WORKSPACE else workspace  # the default of a key is its own
        async with KnowledgeClient(settings.api_url, key, workspace=named, settings=settings) as client:
            yield client
        return
    async with Membership(settings, warm=warm) as membership:
        if membership.knowledge is not None:
            yield membership.knowledge.in_workspace(workspace)
            return
        transport = _FollowOwner(membership)
        async with KnowledgeClient(
            _OVER_SOCKET,
            workspace=workspace,
            settings=settings,
            transport=transport,
            place=f"the owner of {settings.home}",
        ) as client:
            yield client


class Membership:
    """This process among those that use one data directory: its owner, or a client of the owner."""

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

        All who ask at a time wait for the same; it goes on where one of them waits no longer, as a context's deadline
        is over long before stores are open. Raises what opening the stores raises; StoreInUse where the owner serves
        nobody or never begins to.
        """
        if self.knowledge is not None or (self.socket is not None and self.socket != left):
            return  # another task of this process was first
        if self._joining is None or self._joining.done():
            self._joining = asyncio.create_task(self._join())
            self._joining.add_done_callback(_noted)
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
        told = False
        while not await self._found():
            try:
                await self._own()
            except StoreInUse:
                owner = read_owner(self._settings.home)
                # looked at twice: an owner that has just come may not have written itself down yet
                serves_nobody = owner is not None and owner.socket is None and owner == silent
                waited = asyncio.get_running_loop().time() - began
                if serves_nobody or waited > PATIENCE_SECONDS:
                    raise
                silent = owner
                if waited > _TOLD_AFTER_SECONDS and not told:
                    told = True
                    log.warning("owner_awaited", reason=_AWAITED.format(owner or "another process", PATIENCE_SECONDS))
            else:
                return
            await asyncio.sleep(0.05)

    async def _own(self) -> None:
        """Open the stores and serve them; nothing stays open where that is broken off."""
        settings = self._settings
        await asyncio.to_thread(_load)
        from knowledge.wiring import open_knowledge  # noqa: PLC0415 - loaded by now

        path = socket_path(settings.home) if settings.has_embedded_index else None
        async with AsyncExitStack() as opening:
            knowledge = await opening.enter_async_context(open_knowledge(settings, socket=path, warm=self._warm))
            if path is not None:
                await opening.enter_async_context(_serving(knowledge, path))
                log.info("owner_serving", home=str(settings.home))
            self._stack.push_async_exit(opening.pop_all())
        self.knowledge, self.socket = knowledge, str(path or "")
        _collect()

    async def _found(self) -> bool:
        """Return whether the owner's socket answers, and remember it."""
        owner = read_owner(self._settings.home) if self._settings.has_embedded_index else None
        if owner is None or owner.socket is None or not _is_of(owner.socket, self._settings.home):
            return False
        transport = _to_socket(owner.socket)
        async with KnowledgeClient(_OVER_SOCKET, settings=self._settings, transport=transport) as client:
            if not await client.healthy():
                return False
        self.socket = owner.socket
        return True


def _load() -> None:
    """Load what an owner needs, which takes a second: a client never does, until it becomes one."""
    importlib.import_module("knowledge.wiring")
    importlib.import_module("orchestrator.http.serving")


def _noted(joined: asyncio.Task[None]) -> None:
    """Look at how joining ended: whoever waited for it may wait no longer."""
    if not joined.cancelled() and (error := joined.exception()):
        log.info("not_joined", reason=str(error) or type(error).__name__)


def _collect() -> None:
    """Look for garbage among all that opening has made now, not within the deadline of the first question.

    It takes 0.1 s (measured), and Python does it again only when a quarter more is there.
    """
    gc.collect()


def _to_socket(path: str) -> httpx.AsyncHTTPTransport:
    return httpx.AsyncHTTPTransport(uds=path, verify=False, limits=LIMITS)  # no TLS here, and certificates load slowly


class _FollowOwner(httpx.AsyncBaseTransport):
    """Requests to whoever owns the stores. But for a new key all may be repeated, so one that was cut is."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._to: dict[str, httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not isinstance(request.stream, httpx.ByteStream):
            return await self._once(request)
        cut = False  # whether one of the requests may have been done
        for _ in range(_TRIES):
            if cut and (request.method, request.url.path) == ("POST", KEYS_PATH):
                raise OwnerUnavailable(_MADE_A_KEY)  # another one would not be this one
            path = self._membership.socket or ""
            try:
                response = await self._to_owner(path).handle_async_request(request)
                if response.headers.get("content-type", "").endswith("json"):
                    await response.aread()  # here, where an answer that is cut in the middle is asked for again
            except _CUT as error:
                cut = cut or not isinstance(error, httpx.ConnectError)
                await self._membership.join(left=path)
                continue
            if response.headers.get(LEAVING_HEADER):
                cut = True
                await response.aclose()
                await self._membership.join(left=path)
                continue
            if cut and removes(request) and response.status_code == httpx.codes.NOT_FOUND:
                await response.aclose()
                return httpx.Response(httpx.codes.NO_CONTENT)  # the one that was cut had done it
            return response
        raise OwnerUnavailable(_KEEP_LEAVING)

    async def _once(self, request: httpx.Request) -> httpx.Response:
        """Send a stream: it can be read once only, so that it is repeated only where nobody took any of it."""
        for _ in range(_TRIES):
            path = self._membership.socket or ""
            try:
                response = await self._to_owner(path).handle_async_request(request)
            except httpx.ConnectError:
                await self._membership.join(left=path)
                continue
            except _CUT as error:
                raise OwnerUnavailable(_LEFT) from error
            if response.headers.get(LEAVING_HEADER):
                await response.aclose()
                raise OwnerUnavailable(_LEFT)
            return response
        raise OwnerUnavailable(_KEEP_LEAVING)

    def _to_owner(self, path: str) -> httpx.AsyncHTTPTransport:
        if path not in self._to:
            self._to[path] = _to_socket(path)
        return self._to[path]

    async def aclose(self) -> None:
        for transport in self._to.values():
            await transport.aclose()


def socket_path(home: Path) -> Path:
    """Return where an owner serves: in the data directory, or in a private directory where that path is too long."""
    path = home / "hardwon.sock"
    if len(os.fsencode(path)) <= 100:  # Linux allows 107 bytes, macOS 103
        return path
    private = Path(tempfile.gettempdir()) / f"hardwon-{os.geteuid()}-{_digest(home)}"
    try:
        with contextlib.suppress(FileExistsError):
            private.mkdir(mode=0o700)
        state = private.lstat()
    except OSError as error:
        raise StorageUnavailable(
            f"there is no place for a socket in {private.parent} ({error.strerror}): set TMPDIR to a directory of yours"
        ) from error
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o077:
        raise StorageUnavailable(f"{private} is not private to this user: remove it")
    return private / "hardwon.sock"


def _digest(home: Path) -> str:
    return hashlib.sha256(os.fsencode(home)).hexdigest()[:12]


def _is_of(socket: str, home: Path) -> bool:
    """Return whether a socket is that of a data directory, by whichever of its paths its owner knows it.

    A copy of one that was in use names the socket of the original: what was meant for the copy would be done there.
    """
    place = Path(socket).parent
    if place.name.rpartition("-")[2] in {_digest(home), _digest(home.resolve())}:
        return True
    with contextlib.suppress(OSError):
        return place.samefile(home)
    return False


@contextlib.contextmanager
def _listening(path: Path) -> Iterator[sockets.socket]:
    """Listen on a unix socket that only this user (and root) can reach. The owner lock makes it ours alone.

    It is made in a folder that is private, and moved when it is so itself: a umask would be that of all threads.
    """
    listener = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".s") as private:
            made = Path(private) / "s"  # no longer than the path, for which there is room
            listener.bind(str(made))
            made.chmod(0o600)
            made.rename(path)
    except OSError as error:
        listener.close()
        advice = "remove what is there, or set HARDWON_HOME to a directory on a local file system"
        if not os.access(path.parent, os.W_OK | os.X_OK):
            advice = f"give {path.parent} to the user that runs this (chown -R, chmod u+rwx), or set HARDWON_HOME"
        raise StorageUnavailable(f"no socket can be made at {path} ({error.strerror}): {advice}") from error
    try:
        yield listener
    finally:
        path.unlink(missing_ok=True)
        listener.close()


@asynccontextmanager
async def _serving(knowledge: Knowledge, path: Path) -> AsyncIterator[None]:
    """Serve the API on a unix socket for a block."""
    from orchestrator.http.serving import serve_on  # noqa: PLC0415

    with _listening(path) as listener:
        made = _MadeWhenAsked(knowledge)
        async with contextlib.aclosing(made), serve_on(made, listener, grace_seconds=GRACE_SECONDS):
            yield


class _MadeWhenAsked:
    """The API of an owner, made when somebody first asks: most commands have ended before anybody does."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._making = asyncio.Lock()
        self._app: Any = None
        self._made = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if not self._made:
            async with self._making:
                with contextlib.suppress(HardwonError):  # told to whoever has a text embedded
                    await self._knowledge.warm_up()
                if not self._made:
                    self._app = await asyncio.to_thread(self._make)  # it takes a second, and the owner works on
                    self._made = True
        await self._app(scope, receive, send)

    async def aclose(self) -> None:
        """End what goes on in the background."""
        if self._made:
            from orchestrator.http.kb import stop_indexing  # noqa: PLC0415

            await stop_indexing(self._app)

    def _make(self) -> Any:
        from orchestrator.http.app import make_app  # noqa: PLC0415

        return make_app(self._knowledge)
