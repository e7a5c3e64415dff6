"""Run a command exactly as it would run alone, and keep the ends of its output.

The command inherits standard input, the process group and every other descriptor, so that Ctrl-C, job control and a
make jobserver reach it as ever. Of its output, a regular file is left to the command and read afterwards; a pipe stays
a pipe and a terminal a terminal (a pty of ours, with the size and modes of the real one), and what comes is written on
at once. Where a background child still holds the output when the command has ended, a process is left behind that
writes on what comes, as the child would have done.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import select
import signal
import stat
import sys
import termios
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

HEAD_BYTES = 32 * 1024
TAIL_BYTES = 96 * 1024
"""Ends of the output that are kept; ours. What is stored of them is less, after secrets were removed."""
_READ_BYTES = 64 * 1024
_DRAIN_BYTES = 1024 * 1024
"""Largest capacity of a pipe without privileges (Linux, pipe-max-size): more than that came after the end."""
_OUTPUTS = (1, 2)
_STOPS = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
_NOT_PASSED_ON = frozenset(
    {signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
    | {signal.SIGTRAP, signal.SIGSYS, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGXCPU, signal.SIGTTIN, signal.SIGTTOU}
)
"""Signals of our own faults, and of our own writing: they are no message to the command."""
_ENDING = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP})
_FROM_KEYBOARD = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP})
_COERCED_LOCALES = frozenset({"C.UTF-8", "C.utf8", "UTF-8"})


@dataclass(slots=True)
class OutputEnds:
    """The beginning and the end of an output, in the order in which it came."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    dropped: int = 0

    def add(self, data: bytes) -> None:
        """Keep what fits."""
        room = HEAD_BYTES - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self.tail += data
        if (excess := len(self.tail) - TAIL_BYTES) > TAIL_BYTES:  # not at each read: it moves what stays
            del self.tail[:excess]
            self.dropped += excess

    def pieces(self) -> tuple[bytes, bytes]:
        """Return the beginning, and the end where it does not follow from the beginning."""
        dropped = self.dropped + max(0, len(self.tail) - TAIL_BYTES)
        tail = bytes(self.tail[-TAIL_BYTES:])
        return (bytes(self.head), tail) if dropped else (bytes(self.head) + tail, b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of a command: its exit code, or the signal that killed it, and the ends of its output.

    `started_at`: by the clock of file systems, in seconds.
    """

    exit_code: int | None
    signal: int | None
    output: OutputEnds
    started_at: float

    @classmethod
    def from_status(cls, status: int, output: OutputEnds, started_at: float) -> Ending:
        """Read the status of `waitpid`."""
        return cls(
            started_at=started_at,
            exit_code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            output=output,
        )

    @property
    def shell_code(self) -> int:
        """The exit code that a shell reports for it."""
        return self.exit_code if self.exit_code is not None else 128 + (self.signal or 0)


@dataclass(slots=True)
class _Channel:
    """A pipe or pty whose other end the command writes to, and the descriptor of ours that it stands for."""

    source: int
    given: int
    destination: int
    descriptors: list[int]
    is_terminal: bool
    is_open: bool = True

    def close(self) -> None:
        if self.is_open:
            os.close(self.source)
            self.is_open = False


@dataclass(frozen=True, slots=True)
class _File:
    """A regular file that the command writes to itself, opened to read what it wrote."""

    reader: int
    start: int

    def read_ends(self, output: OutputEnds) -> None:
        """Add what was written since the command began."""
        end = os.fstat(self.reader).st_size
        middle = max(self.start, end - TAIL_BYTES)
        with contextlib.suppress(OSError):
            output.add(os.pread(self.reader, min(HEAD_BYTES, end - self.start), self.start))
            rest = max(middle, self.start + HEAD_BYTES)
            if rest < end:
                output.dropped += rest - self.start - HEAD_BYTES
                output.add(os.pread(self.reader, end - rest, rest))


def run_unchanged(command: Sequence[str]) -> Ending:
    """Run a command to its end. From then on a signal that would end this process ends it as the command ended.

    Raises OSError where the command cannot be started.
    """
    started_at = time.time()
    channels, files = _plan_outputs()
    watched = _watched_signals()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would hide how the command ends
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        pid = _start(command, channels, before)
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for channel in channels:
            channel.close()
        raise
    finally:
        for channel in channels:
            os.close(channel.given)
    wake, woken = os.pipe()
    child = _Child(pid=pid, signals=watched, terminals=[each for each in channels if each.is_terminal], woken=woken)
    child.start()
    output = OutputEnds()
    _copy_until(wake, channels, output)
    _leave_rest(channels, output)
    for file in files:
        file.read_ends(output)
    ending = Ending.from_status(child.status, output, started_at)
    child.ending = ending
    for number in _ENDING & watched:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: end_as(ending))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)  # what is started from now on is to hear signals
    return ending


def end_as(ending: Ending) -> NoReturn:
    """End this process as the command ended: with its exit code, or by its signal."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    if ending.signal is not None:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        _raise_default(ending.signal)
    os._exit(ending.shell_code)


def _raise_default(number: int) -> None:
    """Send this process a signal that has its default effect."""
    with contextlib.suppress(OSError, ValueError):  # of SIGKILL and SIGSTOP it is fixed
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)


def _watched_signals() -> set[signal.Signals]:
    return {signal.Signals(each) for each in signal.valid_signals() if _is_named(each)} - set(_NOT_PASSED_ON)


def _is_named(number: int) -> bool:
    return any(number == each for each in signal.Signals)


def _plan_outputs() -> tuple[list[_Channel], list[_File]]:
    """Return the channels of standard output and error, one for both where both are the same, and the files."""
    channels: dict[tuple[int, ...], _Channel] = {}
    files: dict[tuple[int, ...], _File] = {}
    for descriptor in _OUTPUTS:
        try:
            state = os.fstat(descriptor)
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        except OSError:
            continue
        if flags & os.O_ACCMODE == os.O_RDONLY:
            continue  # nobody can write there, so nothing comes
        identity = (state.st_dev, state.st_ino)
        if identity in channels:
            channels[identity].descriptors.append(descriptor)
        elif identity not in files:
            if stat.S_ISREG(state.st_mode) and (file := _open_file(descriptor, flags, state.st_size)) is not None:
                files[identity] = file
            else:
                channels[identity] = _open_channel(descriptor)
    return list(channels.values()), list(files.values())


def _open_file(descriptor: int, flags: int, size: int) -> _File | None:
    """Return the file behind a descriptor; None where the system opens none by its descriptor for reading."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        with contextlib.suppress(OSError):
            reader = os.open(f"{folder}/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
            if fcntl.fcntl(reader, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
                return _File(reader, size if flags & os.O_APPEND else os.lseek(descriptor, 0, os.SEEK_CUR))
            os.close(reader)
    return None


def _open_channel(descriptor: int) -> _Channel:
    if not os.isatty(descriptor):
        source, given = os.pipe()
        return _Channel(source, given, descriptor, [descriptor], is_terminal=False)
    source, given = os.openpty()
    with contextlib.suppress(termios.error):
        modes = termios.tcgetattr(descriptor)
        modes[1] &= ~termios.OPOST  # the real terminal does what it does to output; twice would double each return
        termios.tcsetattr(given, termios.TCSANOW, modes)
    channel = _Channel(source, given, descriptor, [descriptor], is_terminal=True)
    _copy_size(channel)
    return channel


def _copy_size(channel: _Channel) -> None:
    with contextlib.suppress(OSError):
        size = fcntl.ioctl(channel.destination, termios.TIOCGWINSZ, bytes(8))
        fcntl.ioctl(channel.source, termios.TIOCSWINSZ, size)


def _start(command: Sequence[str], channels: Sequence[_Channel], mask: Collection[int]) -> int:
    actions = [
        (os.POSIX_SPAWN_DUP2, channel.given, descriptor) for channel in channels for descriptor in channel.descriptors
    ]
    return os.posix_spawnp(
        command[0],
        list(command),
        _original_environment(),
        file_actions=actions,
        setsigmask=mask,
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores both
    )


def _original_environment() -> Mapping[str, str]:
    """Return the environment that this process was started with, without what Python and hardwon have set since."""
    environment = dict(os.environ)
    try:
        block = Path("/proc/self/environ").read_bytes()
    except OSError:
        return environment
    first = {os.fsdecode(name) for name, _, _ in (line.partition(b"=") for line in block.split(b"\0"))}
    if environment.get("LC_CTYPE") in _COERCED_LOCALES and "LC_CTYPE" not in first:
        del environment["LC_CTYPE"]  # PEP 538
    if "PYDANTIC_DISABLE_PLUGINS" not in first:
        environment.pop("PYDANTIC_DISABLE_PLUGINS", None)
    return environment


@dataclass(slots=True, kw_only=True)
class _Child:
    """The command under way: a thread passes on signals, stops when it stops, and learns how it ended."""

    pid: int
    signals: set[signal.Signals]
    terminals: Sequence[_Channel]
    woken: int
    status: int = 0
    has_ended: bool = False
    ending: Ending | None = None

    def start(self) -> None:
        """Start the thread; when the command has ended, the other end of `woken` is closed."""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            number, is_from_kernel = _wait_for_signal(self.signals)
            if number == signal.SIGCHLD:
                self._check()
            elif self.has_ended:
                self._react_alone(number)
            elif number == signal.SIGWINCH:
                for terminal in self.terminals:
                    _copy_size(terminal)
                if self.terminals or not is_from_kernel:
                    self._send(number)  # once more: the first came before the pty had the size
            elif number == signal.SIGCONT or not is_from_kernel:
                self._send(number)

    def _react_alone(self, number: int) -> None:
        """React to a signal after the command has ended: as it would have, or by its end where that is known."""
        if signal.getsignal(number) is signal.SIG_IGN:
            return
        if self.ending is not None and number in _ENDING:
            end_as(self.ending)
        _raise_default(number)

    def _check(self) -> None:
        """Notice an end, and stop where the command has stopped."""
        while not self.has_ended:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                self._stop(os.WSTOPSIG(status))
                continue
            self.status, self.has_ended = status, True
            os.close(self.woken)

    def _stop(self, number: int) -> None:
        """Stop this process by the signal that stopped the command, and let it go on when this process does."""
        if number in _STOPS:
            # Sent while it is blocked, it is one with the job's own stop: two would need two continuations.
            os.kill(os.getpid(), number)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
            signal.pthread_sigmask(signal.SIG_BLOCK, {number} & self.signals)
        else:
            os.kill(os.getpid(), signal.SIGSTOP)
        for terminal in self.terminals:
            _copy_size(terminal)
        self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, number)


def _wait_for_signal(signals: set[signal.Signals]) -> tuple[int, bool]:
    """Return the next of these signals, and whether the kernel sent it: then the command has it, too."""
    if hasattr(signal, "sigwaitinfo"):
        while True:
            with contextlib.suppress(InterruptedError):
                info = signal.sigwaitinfo(signals)
                return info.si_signo, info.si_code > 0
    number = signal.sigwait(signals)
    return number, number in _FROM_KEYBOARD and any(map(os.isatty, range(3)))


def _copy_until(wake: int, channels: Sequence[_Channel], output: OutputEnds) -> None:
    """Write on what comes until the command has ended."""
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    for channel in channels:
        poll.register(channel.source, select.POLLIN)
    by_source = {channel.source: channel for channel in channels}
    while True:
        ready = [number for number, _ in poll.poll()]
        for number in sorted(ready):
            if number != wake and not _copy_once(by_source[number], output):
                poll.unregister(number)
                by_source[number].close()
        if wake in ready:
            os.close(wake)
            return


def _copy_once(channel: _Channel, output: OutputEnds | None) -> bool:
    """Write on one piece; return whether more may come, and somebody reads it."""
    try:
        data = os.read(channel.source, _READ_BYTES)
    except OSError:  # EIO: nobody holds the other end of a pty any more
        return False
    if not data:
        return False
    if output is not None:
        output.add(data)
    return _write_all(channel.destination, data)


def _write_all(descriptor: int, data: bytes) -> bool:
    """Write all of it; return False where nobody reads it."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:  # somebody else made it non-blocking
            select.select([], [descriptor], [])
        except OSError:
            return False
    return True


def _leave_rest(channels: Sequence[_Channel], output: OutputEnds) -> None:
    """Write on what was left in the channels; leave a process for those that others still hold."""
    held = [channel for channel in channels if channel.is_open and _drain(channel, output)]
    if held and os.fork() == 0:
        try:
            _relay(held)
        finally:
            os._exit(0)
    for channel in held:
        channel.close()


def _drain(channel: _Channel, output: OutputEnds) -> bool:
    """Write on what a channel holds; return whether somebody still holds its other end."""
    for _ in range(_DRAIN_BYTES // _READ_BYTES):
        if not select.select([channel.source], [], [], 0)[0]:
            break
        if not _copy_once(channel, output):
            channel.close()
            return False
    return True


def _relay(channels: Sequence[_Channel]) -> None:
    """Write on what background children put out, until none holds a channel any more."""
    ignored = {signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP, signal.SIGTTOU}
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    kept = {each for channel in channels for each in (channel.source, channel.destination)}
    for descriptor in _open_descriptors():
        if descriptor not in kept:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    open_channels = {channel.source: channel for channel in channels}
    while open_channels:
        for source in select.select(list(open_channels), [], [])[0]:
            if not _copy_once(open_channels[source], None):
                open_channels.pop(source).close()


def _open_descriptors() -> Iterator[int]:
    for folder in ("/proc/self/fd", "/dev/fd"):
        with contextlib.suppress(OSError):
            yield from [int(name) for name in os.listdir(folder)]  # noqa: PTH208 - names, not paths
            return
    yield from range(256)
