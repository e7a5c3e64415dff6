"""Find the owner process of a data directory, or start one and wait until it serves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hardwon import errors, programs
from hardwon.errors import HardwonError, InvalidInput, InvalidSetting, OwnerUnavailable, StorageUnavailable, StoreInUse
from hardwon.event_log import get_logger
from hardwon.owner.environment import OwnerSettings, is_newer, settings_digest, store_settings
from hardwon.owner.record import LOG_FILE, Owner, is_socket_of, read_owner

log = get_logger(__name__)

START_SECONDS = 120.0
"""Longest wait for an owner that is starting; the first start creates a database, and a machine may be busy. Ours."""
SILENT_SECONDS = 20.0
"""Longest wait for an owner that accepts connections and does not answer; ours."""
WARN_AFTER_SECONDS = 3.0
"""Seconds after which a caller says what it waits for."""
LEAVE_SECONDS = 15.0
"""Longest wait for an owner that was asked to end, and lets requests finish; ours."""
_PROBE_SECONDS = 2.0
_RESPAWN_SECONDS = 2.0
"""Interval between starts while a recorded owner seems to live: its id may be another program's by now."""
_PROBE = b"GET /healthz HTTP/1.1\r\nHost: hardwon\r\nConnection: close\r\n\r\n"
BUSY = "busy"
"""Reported by a process that does not become the owner, as another one holds the lock."""
_OF_CALLER = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT", "PYDANTIC_DISABLE_PLUGINS")
"""Variables that an owner does not inherit: they lead Python elsewhere, or are for a short command."""


@dataclass(slots=True)
class _Child:
    """A process that was started to become the owner: the end of the pipe by which it reports a failure."""

    report: int
    received: bytes = b""

    def has_ended(self) -> bool:
        """Return whether it closed the pipe: it serves, or it ended."""
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self.report, 65536):
                self.received += piece
            os.close(self.report)
            return True
        return False


@dataclass(slots=True)
class _Search:
    """Progress of one search for an owner; times are of the event loop."""

    began: float
    next_start: float = 0.0
    told: bool = False
    silent_since: float | None = None
    serves_nobody: Owner | None = None


@dataclass(slots=True)
class OwnerLink:
    """The connection of a caller to the owner of a data directory, which it finds or starts.

    `on_wait` is called once with what a slow start waits for. `patience`: seconds to wait for an owner that is busy, so
    that it does not answer.
    """

    settings: OwnerSettings
    on_wait: Callable[[str], None] = lambda what: log.warning("owner_awaited", reason=what)
    patience: float = 0.0
    socket: str | None = None
    owner: Owner | None = None
    _finding: asyncio.Task[None] | None = field(default=None, init=False)
    _children: list[_Child] = field(default_factory=list, init=False)

    async def find(self, left: str | None = None) -> None:
        """Find the owner's socket, or start an owner. `left` is a socket that does not answer any more.

        Concurrent callers share one attempt, which goes on when one of them gives up: the deadline of a context is over
        before an owner has started. Raises InvalidSetting if the owner has other stores than the settings say,
        StoreInUse if it serves no clients or never starts to, and what starting one raises.
        """
        if self.socket is not None and self.socket != left and left is not None:
            return  # another task was first
        if self._finding is None or self._finding.done():
            self._finding = asyncio.create_task(self._find(first=left is None))
            self._finding.add_done_callback(_log_failure)
        await asyncio.shield(self._finding)

    def has_changed(self) -> bool:
        """Return whether the record names another owner than the one that was found."""
        recorded = read_owner(self.settings.home)
        return self.owner is not None and recorded is not None and recorded.pid != self.owner.pid

    async def aclose(self) -> None:
        """Stop looking. The owner goes on."""
        if self._finding is not None:
            self._finding.cancel()
            await asyncio.gather(self._finding, return_exceptions=True)
        for child in self._children:
            os.close(child.report)

    async def _find(self, *, first: bool) -> None:
        clock = asyncio.get_running_loop().time
        search = _Search(began=clock())
        while True:
            owner = read_owner(self.settings.home)
            answers = await self._ask(owner, search)
            if answers and owner is not None:
                _check_stores(self.settings, owner)  # also of the next one: it may have been started by somebody else
                if not (first and await self._is_replaced(owner)):
                    self.socket, self.owner = owner.socket, owner
                    return
            first = first and not answers
            if not answers:
                await self._start_if_needed(owner, search)
                self._check_time(owner, clock() - search.began, search)
                await asyncio.sleep(0.02)

    async def _ask(self, owner: Owner | None, search: _Search) -> bool:
        """Return whether an owner answers. Raises where one says nothing for long, or serves no other process."""
        now = asyncio.get_running_loop().time()
        home = self.settings.home
        if owner is not None and owner.socket is not None and is_socket_of(owner.socket, home):
            answered = await _probe(owner.socket)
            search.silent_since = search.silent_since or now if answered is None else None
            if search.silent_since is not None and now - search.silent_since > max(SILENT_SECONDS, self.patience):
                raise OwnerUnavailable(
                    f"{owner}, which owns {home}, accepts connections and does not answer: if it hangs, end it"
                    f" (kill -9 {owner.pid}) and try again; nothing that was stored is lost"
                )
            return bool(answered)
        if owner is not None and owner.socket is None and owner.stage is None and owner.is_alive():
            if owner == search.serves_nobody and now - search.began > 1:  # one that has just started may not say so yet
                raise StoreInUse(
                    f"the data directory {home} is in use by {owner}, which serves no other process: stop it, or set"
                    " HARDWON_HOME to another directory"
                )
            search.serves_nobody = search.serves_nobody or owner
        return False

    async def _start_if_needed(self, owner: Owner | None, search: _Search) -> None:
        """Start an owner unless one is starting, leaving or silent."""
        is_starting = self._check_children()
        now = asyncio.get_running_loop().time()
        may_live = owner is not None and owner.is_alive()
        if search.silent_since is None and not is_starting and not (may_live and now < search.next_start):
            search.next_start = now + _RESPAWN_SECONDS
            self._children.append(await asyncio.to_thread(_start, self.settings))

    def _check_time(self, owner: Owner | None, waited: float, search: _Search) -> None:
        """Say what a slow start waits for. Raises StoreInUse after too long."""
        if waited > START_SECONDS + self.patience:
            raise StoreInUse(
                f"the owner of {self.settings.home} ({owner or 'a new process'}) has not started within"
                f" {START_SECONDS:g} s; it waits for {_stage(owner)}. {self.settings.home / LOG_FILE} says more"
            )
        if waited > WARN_AFTER_SECONDS and not search.told:
            search.told = True
            what = f"which waits for {_stage(owner)}"
            if search.silent_since is not None:
                what = f"{owner}, which is busy"
            self.on_wait(f"waiting for the owner of {self.settings.home}, {what}")

    def _check_children(self) -> bool:
        """Return whether a process that was started may still become the owner. Raises the error of one that failed."""
        for child in list(self._children):
            if not child.has_ended():
                continue
            self._children.remove(child)
            if child.received and child.received != BUSY.encode():
                raise _parse_failure(child.received, self.settings.home)
        return bool(self._children)

    async def _is_replaced(self, owner: Owner) -> bool:
        """End an owner of an older version or with other settings than this caller's, if it was started by a caller.

        Return whether it was ended.
        """
        if owner.version is None or not owner.detached:
            return False
        ours = self.settings.environment
        if not is_newer(self.settings.version, owner.version) and owner.settings.get("digest") == settings_digest(ours):
            return False
        await end_owner(self.settings.home, owner)
        return True


async def end_owner(home: Path, owner: Owner) -> None:
    """Ask an owner to end, and wait until it has. Raises StoreInUse if it does not."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(owner.pid, signal.SIGTERM)
    clock = asyncio.get_running_loop().time
    until = clock() + LEAVE_SECONDS
    while (now := read_owner(home)) is not None and now.pid == owner.pid and owner.is_alive():
        if clock() > until:
            raise StoreInUse(f"{owner}, which owns {home}, was asked to end and has not: kill {owner.pid}")
        await asyncio.sleep(0.02)


def _stage(owner: Owner | None) -> str:
    return (owner.stage if owner is not None else None) or "Python to start"


async def _probe(path: str) -> bool | None:
    """Return whether an owner answers on a socket, None if it accepts the connection and says nothing."""
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                writer.write(_PROBE)
                return (await reader.read(12)).endswith(b" 200") or None
            finally:
                writer.close()
    except TimeoutError:
        return None
    except OSError:
        return False


def _check_stores(settings: OwnerSettings, owner: Owner) -> None:
    """Raise InvalidSetting, naming both values, where an owner has other stores than the settings say."""
    if owner.version is None:
        return
    ours, theirs = store_settings(settings.environment), owner.settings
    for variable, value in ours.items():
        if value != theirs.get(variable, ""):
            raise InvalidSetting(
                variable,
                f"is {value or 'not set'} here, and {owner}, which owns {settings.home}, has"
                f" {theirs.get(variable) or 'not set it'}: give both the same, end that process, or set HARDWON_HOME to"
                " another directory",
            )


def _start(settings: OwnerSettings) -> _Child:
    """Start a process that becomes the owner, or ends if another one is."""
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    environment = {name: value for name, value in settings.environment.items() if name not in _OF_CALLER}
    command = [_python(), "-P", programs.__file__, "orchestrator.server.owner", str(settings.home), str(theirs)]
    try:
        process = subprocess.Popen(  # noqa: S603 - our own program
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs,),
            start_new_session=True,
            env=environment,
        )
    except OSError as error:
        os.close(ours)
        raise StorageUnavailable(f"no owner can be started with {command[0]}: {error.strerror}") from error
    finally:
        os.close(theirs)
    process.wait()  # it forks and ends at once, so that nobody has to reap the owner
    return _Child(ours)


def _python() -> str:
    """Return the interpreter of this environment; a server that embeds Python is none itself."""
    if Path(sys.executable or "").name.startswith("python"):
        return sys.executable
    return str(Path(sys.prefix) / "bin" / "python3")


def _parse_failure(report: bytes, home: Path) -> HardwonError:
    """Return the error that an owner reported when it could not start."""
    try:
        told: Mapping[str, str] = json.loads(report)
        kind = getattr(errors, told["title"], None)
        if isinstance(kind, type) and issubclass(kind, InvalidInput):
            return kind(told["field"], told["detail"])
        if isinstance(kind, type) and issubclass(kind, HardwonError):
            return kind(told["detail"])
        return OwnerUnavailable(
            f"the owner of {home} could not start ({told['title']}: {told['detail']}): {home / LOG_FILE} says more"
        )
    except (ValueError, KeyError, TypeError):
        return OwnerUnavailable(f"the owner of {home} could not start: {home / LOG_FILE} says more")


def _log_failure(task: asyncio.Task[None]) -> None:
    """Retrieve the error of a search: all who waited for it may have given up."""
    if not task.cancelled() and (error := task.exception()):
        log.info("owner_not_found", reason=str(error) or type(error).__name__)
