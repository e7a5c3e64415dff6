"""The transcripts of coding agents: where they lie, which tool wrote one (by its content), and its reader."""

from __future__ import annotations

import json
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from hardwon.errors import InvalidInput
from orchestrator.importers.sessions import claude_code, codex, copilot, gemini, opencode, qwen
from orchestrator.importers.sessions.spans import reader as spans
from orchestrator.importers.sessions.steps import Session, parse_time

MAX_LINE_BYTES = 8 * 1024 * 1024
"""Longer lines are passed over: they hold pictures, or a file's whole content; ours."""
_HEAD_LINES = 40
_HEAD_BYTES = 256 * 1024
_SQLITE: Final = b"SQLite format 3\0"
_TABLE_OF_PARTS = re.compile(rb"CREATE TABLE [`\"']?part[`\"']?\s*\(")
_NAMES = re.compile(r".*\.(?:jsonl|db|sqlite3?)|.*aider.*\.md|(?:session|chat)-.*\.json")
_PASSED_OVER_FOLDERS = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", "tool-results"})
_MODULE = "orchestrator.importers.sessions."

Head = Sequence[Mapping[str, Any]]
Matcher = Callable[[Head, bytes], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """The transcripts of one tool: the module that reads them and what they are known by.

    The module has `read(lines)`, or, where `has_databases`, `read_database(path)`, which yields sessions: of files that
    hold several, or that are read together with those beside them.
    """

    tool: str
    module: str
    matches: Matcher
    has_databases: bool = False


def _is_database(raw: bytes) -> bool:
    return raw.startswith(_SQLITE) and _TABLE_OF_PARTS.search(raw) is not None


FORMATS: Final = (
    Format(tool="codex", module="codex", matches=lambda head, _: codex.matches(head)),
    Format(tool="gemini-cli", module="gemini", matches=lambda head, _: gemini.matches(head)),
    Format(tool="qwen-code", module="qwen", matches=lambda head, _: qwen.matches(head)),
    Format(tool="copilot-cli", module="copilot", matches=lambda head, _: copilot.matches(head)),
    Format(tool="claude-code", module="claude_code", matches=lambda head, _: claude_code.matches(head)),
    Format(tool="opencode", module="opencode", matches=lambda head, _: opencode.matches(head)),
    Format(tool="opencode", module="opencode", matches=lambda _, raw: _is_database(raw), has_databases=True),
    Format(tool="otel", module="spans.reader", matches=spans.matches, has_databases=True),
    Format(tool="aider", module="aider", matches=lambda _, raw: b"# aider chat started at" in raw, has_databases=True),
)
"""In the order in which they are asked: the fields of the later ones stand in the earlier ones too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """A file of a tool. `session_id`: of the session that it is a part of, as far as its beginning says.

    `size`, `modified_ns`: of a database with its log.
    """

    path: Path
    format: Format
    session_id: str
    size: int
    modified_ns: int

    @property
    def group(self) -> tuple[str, str]:
        """Key of the session: its files are read together."""
        return self.format.tool, self.session_id


@dataclass(slots=True, kw_only=True)
class Found:
    """The transcripts that were found; `unread`: files and folders that cannot be read, each with the reason."""

    transcripts: list[Transcript] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def default_places(environment: Mapping[str, str], home: Path) -> list[Path]:
    """Return the places where the tools keep their runs, as far as they exist."""

    def place(variable: str, default: str, inside: str) -> Path:
        given = environment.get(variable, "").strip()
        return (Path(given) if given else home / default) / inside

    data = environment.get("XDG_DATA_HOME", "").strip()
    places = [
        place("CLAUDE_CONFIG_DIR", ".claude", "projects"),
        place("CODEX_HOME", ".codex", "sessions"),
        place("CODEX_HOME", ".codex", "archived_sessions"),
        (Path(data) if data else home / ".local/share") / "opencode/opencode.db",
        home / ".gemini/tmp",
        home / ".qwen/projects",
        home / ".qwen/tmp",
        place("COPILOT_HOME", ".copilot", "session-state"),
        home / ".aider.chat.history.md",
    ]
    return [each for each in dict.fromkeys(places) if os.path.lexists(each)]


def parse_since(text: str, now: datetime) -> datetime:
    """Return the time that `7d`, `12h`, `2w` or a date means. Raises InvalidInput for `since`."""
    ago = re.fullmatch(r"(\d{1,5}) ?(h|d|w)", text.strip())
    if ago:
        hours = int(ago[1]) * {"h": 1, "d": 24, "w": 168}[ago[2]]
        return now - timedelta(hours=min(hours, 24 * 365 * 50))
    moment = parse_time(text.strip())
    if moment is None:
        raise InvalidInput("since", f"{text!r} is neither a time such as 7d, 12h or 2w nor a date such as 2026-01-31")
    return moment


def find_transcripts(places: Sequence[Path], *, since: datetime | None = None) -> Found:
    """Return the transcripts in files and folders, sorted by session. Files are only opened for reading.

    A file that is named is an error of the list `unread` where it is no transcript; of a folder it is passed over.
    """
    found = Found()
    for place in places:
        is_folder = place.is_dir()
        for path in _files_in(place, found) if is_folder else [place]:
            reasons = found.left_out.total()
            try:
                transcript = _examine(path, found)
            except OSError as error:
                found.unread.append(f"{path}: {error.strerror or error}")
                continue
            if transcript is not None:
                found.transcripts.append(transcript)
            elif not is_folder and found.left_out.total() == reasons:
                found.unread.append(f"{path}: no transcript of a known tool")
    unique = {each.path.resolve(): each for each in found.transcripts}
    found.transcripts = sorted(unique.values(), key=lambda each: (*each.group, str(each.path)))
    if since is not None:
        _drop_older(found, since)
    return found


def _drop_older(found: Found, since: datetime) -> None:
    """Leave out the sessions of which no file was written since then."""
    begin_ns = int(since.timestamp() * 1e9)
    written = {each.group for each in found.transcripts if each.modified_ns >= begin_ns}
    older = {each.group for each in found.transcripts} - written
    if older:
        found.left_out["older than --since"] += len(older)
        found.transcripts = [each for each in found.transcripts if each.group in written]


def _files_in(folder: Path, found: Found) -> Iterator[Path]:
    def tell(error: OSError) -> None:
        found.unread.append(f"{error.filename}: {error.strerror}")

    for parent, folders, files in os.walk(folder, onerror=tell):
        folders[:] = sorted(each for each in folders if each not in _PASSED_OVER_FOLDERS)
        yield from (Path(parent, name) for name in sorted(files) if _NAMES.fullmatch(name))


def _examine(path: Path, found: Found) -> Transcript | None:
    facts = path.stat()
    if not stat.S_ISREG(facts.st_mode):
        return None
    if facts.st_uid != os.geteuid():
        found.unread.append(f"{path}: belongs to another user")
        found.left_out["a session of another user"] += 1
        return None
    with path.open("rb") as stream:
        raw = stream.read(_HEAD_BYTES)
    if raw.startswith(_SQLITE):
        with suppress(OSError), _log_of(path).open("rb") as stream:  # that of a new database may hold all of it
            raw += stream.read(_HEAD_BYTES)
    head = _objects(raw)
    known = next((each for each in FORMATS if each.matches(head, raw)), None)
    if known is None:
        return None
    size, modified_ns = facts.st_size, facts.st_mtime_ns
    if _is_database(raw):
        with suppress(OSError):  # what is new may stand in SQLite's log alone
            log = _log_of(path).stat()
            size, modified_ns = size + log.st_size, max(modified_ns, log.st_mtime_ns)
    return Transcript(
        path=path,
        format=known,
        session_id=_session_id(known, head, path) or str(path),
        size=size,
        modified_ns=modified_ns,
    )


def _log_of(path: Path) -> Path:
    """Return the write-ahead log of a database."""
    return path.with_name(f"{path.name}-wal")


def _objects(raw: bytes) -> Head:
    objects = []
    for line in raw.split(b"\n")[:_HEAD_LINES]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            objects.append(value)
    return objects


def _session_id(known: Format, head: Head, path: Path) -> str | None:
    """Return the id of the session that a file belongs to, where several files may."""
    if known.tool in {"claude-code", "qwen-code"}:
        return next((each["sessionId"] for each in head if isinstance(each.get("sessionId"), str)), None)
    if known.tool == "gemini-cli":
        return gemini.session_id_of(head, path.parent.name)
    if known.tool == "opencode":
        return opencode.session_id_of(head)
    if known.tool == "otel":
        return spans.session_id_of(path)
    if known.tool == "codex":
        metas = (each["payload"] for each in head if each.get("type") == "session_meta")
        meta = next((each for each in metas if isinstance(each, Mapping)), {})
        names = ("session_id", "parent_thread_id", "id")
        return next((meta[name] for name in names if isinstance(meta.get(name), str)), None)
    return None


def read_sessions(transcripts: Sequence[Transcript], unread: list[str]) -> list[Session]:
    """Return the sessions of some transcripts; those of one session are one, with the steps of all in time.

    What cannot be read is added to `unread`, and the rest is read.
    """
    sessions: list[Session] = []
    for transcript in transcripts:
        try:
            sessions += _read(transcript)
        except (OSError, ValueError, ImportError) as error:
            unread.append(f"{transcript.path}: {getattr(error, 'strerror', None) or error}")
    return _join(sessions)


def _read(transcript: Transcript) -> Iterable[Session]:
    module = import_module(_MODULE + transcript.format.module)
    if transcript.format.has_databases:
        return list(module.read_database(transcript.path))
    passed_over: Counter[str] = Counter()
    session: Session = module.read(read_lines(transcript.path, passed_over))
    session.passed_over += passed_over
    if not session.session_id or transcript.format.tool == "gemini-cli":  # of a sub-agent's file the folder tells it
        session.session_id = transcript.session_id
    return [session]


def read_lines(path: Path, passed_over: Counter[str]) -> Iterator[str]:
    """Yield the lines of a file, one in memory at a time; half a line at its end is left for the next time."""
    with path.open("rb") as stream:
        while line := stream.readline(MAX_LINE_BYTES):
            if line.endswith(b"\n"):
                yield line.decode("utf-8", "replace")
                continue
            if len(line) == MAX_LINE_BYTES:
                while (more := stream.readline(MAX_LINE_BYTES)) and not more.endswith(b"\n"):
                    pass
                passed_over[f"line of more than {MAX_LINE_BYTES // 1024 // 1024} MiB"] += 1
            elif line.lstrip()[:1] not in {b"{", b"["} or _is_whole(line):
                yield line.decode("utf-8", "replace")
            else:
                passed_over["half a line, still being written"] += 1


def _is_whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _join(sessions: Sequence[Session]) -> list[Session]:
    """Return each session once, with the steps of its sub-agents' files among its own."""
    joined: dict[tuple[str, str], Session] = {}
    for session in sessions:
        whole = joined.setdefault((session.tool, session.session_id), session)
        if whole is session:
            continue
        known = {step.id for step in whole.steps}
        whole.steps += [step for step in session.steps if step.id not in known]
        whole.handed_out += session.handed_out
        whole.passed_over += session.passed_over
        whole.prompts = session.prompts | whole.prompts
        whole.folder = whole.folder or session.folder
        if all(step.at for step in whole.steps):
            whole.steps.sort(key=lambda step: (step.at.timestamp() if step.at else 0.0, step.agent, step.order))
        whole.steps = [replace(step, order=number) for number, step in enumerate(whole.steps, 1)]
    return list(joined.values())
