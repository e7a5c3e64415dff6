"""The spool of spans: a file a trace and caller, in which the steps of a run wait until the trace has ended.

A trace's spans come in several requests, children before parents. The files are of the form that any file of spans has,
so that `hardwon learn sessions` reads them, too. A caller reaches no trace of another caller.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hardwon.errors import StorageUnavailable
from orchestrator.importers.sessions.spans.otlp import ENDED, Span, redact_span, to_line

QUIET_SECONDS = 300.0
"""Time without news after which a trace whose first span never came counts as ended: its program was killed, or it
began in another service; ours."""
KEPT_SECONDS = 24 * 3600.0
"""Age at which the file of a conversation is removed, which may go on in another trace until then; ours."""
MAX_TRACE_BYTES = 8 * 1024 * 1024
MAX_CALLER_BYTES = 64 * 1024 * 1024
MAX_CALLER_TRACES = 5_000
MAX_CALLERS = 1_000
MAX_BYTES = 1024 * 1024 * 1024
"""Callers whose spans wait, and all bytes that wait; ours. A key of all workspaces, or one that passes on agents'
words, is as many callers as it names."""
_CALLER = "caller.json"
_COUNT_SECONDS = 10.0
_COUNT_ALL_SECONDS = 60.0
_NO_ROOM = "spans beyond the {} that may wait for the end of their traces"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCaller:
    """The caller whose spans are in a folder: a key, or None for whoever reaches the data directory."""

    workspace: str
    key_id: str | None


@dataclass(slots=True)
class _Usage:
    """The bytes and the traces of a caller; of the whole spool the bytes and the callers."""

    size: int
    traces: int
    counted_at: float


@dataclass(slots=True)
class SpanSpool:
    """The spool of a data directory."""

    folder: Path
    _usage: dict[Path, _Usage] = field(default_factory=dict)
    _whole: _Usage | None = None

    @classmethod
    def of_home(cls, home: Path) -> SpanSpool:
        """Return the spool of a data directory."""
        return cls(home / "spans")

    def append(self, caller: SpanCaller, spans: Sequence[Span], rejected: Counter[str]) -> int:
        """Add spans and return how many; `rejected`: number of tools' spans for which there is no room, by the reason.

        Spans of traces in which no tool was called so far are passed over. Raises StorageUnavailable.
        """
        by_trace: defaultdict[str, list[Span]] = defaultdict(list)
        for span in spans:
            by_trace[span.trace_id].append(span)
        folder = self._folder_of(caller)
        added = 0
        try:
            for trace_id, members in by_trace.items():
                path = folder / f"{trace_id}.jsonl"
                is_known = path.exists()
                if is_known or any(span.is_tool or span.is_note for span in members):
                    added += self._append_trace(caller, path, members, rejected, is_known=is_known)
        except OSError as error:
            raise StorageUnavailable(f"spans cannot be written to {folder}: {error.strerror or error}") from error
        return added

    def _append_trace(
        self, caller: SpanCaller, path: Path, spans: list[Span], rejected: Counter[str], *, is_known: bool
    ) -> int:
        is_ended = any(span.parent_id is None for span in spans)
        line = to_line([redact_span(span) for span in spans], is_ended=is_ended)
        whole, usage = self._usage_of_all(), self._usage_of(path.parent)
        is_new_caller = not (path.parent / _CALLER).exists()
        limits = {
            f"{MAX_BYTES // 1024 // 1024} MiB of all callers": whole.size + len(line) > MAX_BYTES,
            f"{MAX_CALLERS:,} callers": is_new_caller and whole.traces >= MAX_CALLERS,
            f"{MAX_TRACE_BYTES // 1024 // 1024} MiB of a trace": (
                (path.stat().st_size if is_known else 0) + len(line) > MAX_TRACE_BYTES
            ),
            f"{MAX_CALLER_BYTES // 1024 // 1024} MiB of a caller": usage.size + len(line) > MAX_CALLER_BYTES,
            f"{MAX_CALLER_TRACES:,} traces of a caller": not is_known and usage.traces >= MAX_CALLER_TRACES,
        }
        full = next((limit for limit, is_over in limits.items() if is_over), None)
        if full is not None:
            rejected[_NO_ROOM.format(full)] += sum(span.is_tool for span in spans)
            return 0
        if not is_known:
            _write_caller(path.parent, caller)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        try:
            if os.write(descriptor, line) != len(line):
                os.write(descriptor, b"\n")  # the next line is to be whole
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(descriptor)
        usage.size += len(line)
        usage.traces += not is_known
        whole.size += len(line)
        whole.traces += is_new_caller
        return len(spans)

    def _usage_of(self, folder: Path) -> _Usage:
        now = time.monotonic()
        usage = self._usage.get(folder)
        if usage is None or now - usage.counted_at > _COUNT_SECONDS:
            sizes = [size for _, size, _ in _files(folder)]
            usage = self._usage[folder] = _Usage(sum(sizes), len(sizes), now)
        return usage

    def _usage_of_all(self) -> _Usage:
        now = time.monotonic()
        if self._whole is None or now - self._whole.counted_at > _COUNT_ALL_SECONDS:
            folders = [folder for folder, _ in self.callers()]
            self._usage = {folder: usage for folder, usage in self._usage.items() if folder in folders}
            self._whole = _Usage(sum(size for folder in folders for _, size, _ in _files(folder)), len(folders), now)
        return self._whole

    def _folder_of(self, caller: SpanCaller) -> Path:
        name = json.dumps([caller.workspace, caller.key_id])
        return self.folder / hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def callers(self) -> Iterator[tuple[Path, SpanCaller]]:
        """Yield the folders of callers with the callers."""
        with suppress(OSError):
            for folder in sorted(self.folder.iterdir()):
                with suppress(OSError, ValueError, TypeError):
                    yield folder, SpanCaller(**json.loads((folder / _CALLER).read_text("utf-8")))

    def remove_old(self) -> None:
        """Remove the files that nothing was added to for `KEPT_SECONDS`."""
        for folder, _ in self.callers():
            remove_files(folder, older_than=time.time() - KEPT_SECONDS)


def ended_traces(folder: Path, known: Mapping[Path, tuple[int, int]]) -> dict[Path, tuple[int, int]]:
    """Return the files of a folder whose traces have ended, with size and time of change; `known`: some of them."""
    now = time.time()
    ended = {}
    for path, size, modified_ns in _files(folder):
        state = size, modified_ns
        if known.get(path) == state or now - modified_ns / 1e9 >= QUIET_SECONDS or _has_ended(path):
            ended[path] = state
    return ended


def remove_files(folder: Path, *, older_than: float) -> None:
    """Remove the files of a folder that were last changed before a time; the folder goes with the last one."""
    with suppress(OSError):
        for path, _, modified_ns in _files(folder):
            if modified_ns / 1e9 < older_than:
                path.unlink(missing_ok=True)
        if not any(True for _ in _files(folder)):
            (folder / _CALLER).unlink(missing_ok=True)
            folder.rmdir()


def _files(folder: Path) -> Iterator[tuple[Path, int, int]]:
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".jsonl"):
                facts = entry.stat()
                yield Path(entry.path), facts.st_size, facts.st_mtime_ns


def _has_ended(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(-len(ENDED), os.SEEK_END)
            return file.read() == ENDED
    except OSError:
        return False


def _write_caller(folder: Path, caller: SpanCaller) -> None:
    path = folder / _CALLER
    if path.exists():
        return
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = folder / f".{_CALLER}.{os.getpid()}"
    temporary.write_text(json.dumps({"workspace": caller.workspace, "key_id": caller.key_id}), encoding="utf-8")
    temporary.replace(path)
