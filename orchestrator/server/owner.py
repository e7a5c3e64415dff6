"""The owner process of a data directory: it opens the stores and serves the API on a unix socket.

A caller starts it, detached, where it finds none (`hardwon.owner.launch`); it ends when nobody has asked it anything
for a while. `hardwon serve` is the same process in the foreground, which also listens on TCP and does not end.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import socket as sockets
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardwon.errors import HardwonError, InvalidInput, StorageUnavailable, StoreInUse
from hardwon.event_log import get_logger
from hardwon.owner.environment import settings_digest, store_settings
from hardwon.owner.launch import BUSY
from hardwon.owner.record import LOG_FILE, socket_path
from hardwon.settings import VERSION
from knowledge.adapters.owner_lock import OwnerLock, check_unowned, owner_lock

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from knowledge.settings import KnowledgeSettings
    from knowledge.wiring.open import Knowledge

log = get_logger(__name__)

IDLE_SECONDS = 600.0
"""Seconds without a request after which a detached owner ends."""
GRACE_SECONDS = 5
"""Seconds a leaving owner gives requests to finish; a client whose request was cut repeats it at the next owner."""
_CHECK_SECONDS = 2.0
"""Interval at which an owner looks whether it is still needed."""
_MAX_LOG_BYTES = 1_000_000
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
"""Requests that keep no owner alive."""


def main() -> None:
    """Become the owner of the data directory that is the first argument, or report why not to the second, a pipe."""
    home, report = Path(sys.argv[1]), int(sys.argv[2])
    if os.fork():
        os._exit(0)  # so that nobody has to reap the owner
    os.set_inheritable(report, False)  # noqa: FBT003 - not to Postgres, which would keep the caller waiting
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # of a terminal that the caller was started from
    os.chdir("/")
    try:
        check_unowned(home)  # before anything is loaded: several callers may start one at once
        from knowledge.settings import KnowledgeSettings  # noqa: PLC0415

        settings = KnowledgeSettings(home=home)  # a wrong one is named before anything is created
        record = describe_owner(detached=True)
        with owner_lock(home, command="hardwon owner", stage="its modules to load", **record) as lock:
            _redirect_output(home)
            asyncio.run(_serve_until_idle(lock, settings, report))
    except StoreInUse:
        _report(report, BUSY)
    except asyncio.CancelledError:
        pass
    except BaseException as error:
        _report(report, _describe_failure(error))
        if not isinstance(error, HardwonError):
            raise


def describe_owner(*, detached: bool) -> dict[str, Any]:
    """Return the fields of the record by which callers judge this owner."""
    settings = {**store_settings(os.environ), "digest": settings_digest(os.environ)}
    return {"version": VERSION, "detached": detached, "settings": settings}


def _redirect_output(home: Path) -> None:
    """Write standard output and standard error to the log file, if the disk takes it."""
    path = home / LOG_FILE
    with contextlib.suppress(OSError):
        fresh = path.exists() and path.stat().st_size > _MAX_LOG_BYTES
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if fresh else 0)
        descriptor = os.open(path, flags, 0o600)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.close(descriptor)


def _describe_failure(error: BaseException) -> str:
    told = {"title": type(error).__name__, "detail": str(error)}
    if isinstance(error, InvalidInput):
        told |= {"field": error.field, "detail": error.reason}
    return json.dumps(told)


def _report(descriptor: int, message: str) -> None:
    with contextlib.suppress(OSError):  # the caller may have gone
        os.write(descriptor, message.encode())


async def _serve_until_idle(lock: OwnerLock, settings: KnowledgeSettings, report: int) -> None:
    """Serve until nobody needs this owner, it is asked to end, or its data directory is gone."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - for the checker
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    from orchestrator.http.uvicorn import raise_file_limit  # noqa: PLC0415 - these take a second
    from orchestrator.observability.logging import configure_logs  # noqa: PLC0415

    configure_logs()
    raise_file_limit()
    home = settings.home
    activity = Activity()
    async with open_owner(settings, lock) as (knowledge, app):
        from jobs.scheduler import run_scheduler  # noqa: PLC0415
        from orchestrator.importers.sessions.checks import split_named  # noqa: PLC0415
        from orchestrator.server.session_learning import learn_from_hooks  # noqa: PLC0415

        learning = learn_from_hooks(knowledge, home, checks=split_named(settings.check_commands))
        async with run_scheduler(knowledge), serve_socket(activity.watch(app), lock, settings.home), learning:
            os.close(report)
            log.info("owner_serving", home=str(home))
            while lock.is_in_place(home) and not activity.is_over(IDLE_SECONDS, busy=bool(app.state.indexing)):  # noqa: ASYNC110
                await asyncio.sleep(_CHECK_SECONDS)
    log.info("owner_ended", home=str(home))


@asynccontextmanager
async def open_owner(settings: KnowledgeSettings, lock: OwnerLock | None) -> AsyncIterator[tuple[Knowledge, Any]]:
    """Open the stores and build the API over them, for whoever reaches the socket; both are warm."""
    from knowledge.wiring.open import open_knowledge  # noqa: PLC0415
    from orchestrator.http.app import make_app, warm_up  # noqa: PLC0415
    from orchestrator.http.routes.kb import stop_indexing  # noqa: PLC0415

    async with open_knowledge(settings, lock=lock) as knowledge:
        app = await asyncio.to_thread(make_app, knowledge)
        await warm_up(app)
        gc.collect()
        gc.freeze()  # none of it will be garbage: collecting it would take 0.1 s of a query's time
        try:
            yield knowledge, app
        finally:
            await stop_indexing(app)


class Activity:
    """Requests in progress, and the time of the last one."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._running = 0
        self._last = self._clock()

    def is_over(self, idle_seconds: float, *, busy: bool) -> bool:
        """Return whether nothing was asked for `idle_seconds`; `busy`: there is other work."""
        if busy or self._running:
            self._last = self._clock()
        return self._clock() - self._last > idle_seconds

    def watch(self, app: ASGIApp) -> ASGIApp:
        """Return an app that counts its requests here."""

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            if scope.get("path") in _PROBES:
                await app(scope, receive, send)
                return
            self._running += 1
            try:
                await app(scope, receive, send)
            finally:
                self._running -= 1
                self._last = self._clock()

        return counted


@asynccontextmanager
async def serve_socket(app: ASGIApp, lock: OwnerLock, home: Path) -> AsyncIterator[None]:
    """Serve an app on the unix socket of a data directory for a block, and record that."""
    from orchestrator.http.uvicorn import serve_on  # noqa: PLC0415

    path = socket_path(home)
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(listen_on_socket(path))
        await stack.enter_async_context(serve_on(app, listener, grace_seconds=GRACE_SECONDS))
        lock.write(socket=str(path), stage=None)
        yield


@contextlib.contextmanager
def listen_on_socket(path: Path) -> Iterator[sockets.socket]:
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


if __name__ == "__main__":
    main()
