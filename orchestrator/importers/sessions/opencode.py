"""Reader of opencode's runs: ~/.local/share/opencode/opencode.db, or JSON lines of its parts.

Read with what 1.18.33 wrote. A command that fails is `completed`, with its exit code in the metadata. A run without a
person (`opencode run`) says that the user rejected what nobody was asked for; such a session forbids its questions. The
database is never opened where it lies, as SQLite writes beside it: it is read as an immutable file, or, with changes
that are not in it yet, as a copy.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from orchestrator.importers.sessions.steps import (
    MAIN,
    MAX_EDIT_BYTES,
    MAX_OTHER_BYTES,
    MAX_PROMPT_BYTES,
    Decider,
    Edit,
    Session,
    Step,
    StepOutcome,
    TextBudget,
    edits_of_diff,
    edits_of_replacement,
    parse_objects,
    text_of,
)

TOOL = "opencode"
_SHELL = "bash"
_OUTSIDE = frozenset({"webfetch", "websearch", "codesearch"})
_LOOKS = frozenset({"grep", "glob", "list"})
_BUILT_IN = frozenset({"read", "edit", "write", "multiedit", "patch", "apply_patch", "task", "todowrite", "todoread"})
_BUILT_IN_TOO = frozenset({"skill", "question", "lsp", "plan_enter", "plan_exit", "batch", "invalid"})
_RULE = re.compile(r"\AThe user has specified a rule which prevents\b[^\[]*")
_REJECTED = re.compile(r"\AThe user rejected permission\b")
_FEEDBACK = re.compile(r"\AThe user rejected permission[^:]*feedback: ?(.*)", re.DOTALL)
_DISMISSED = re.compile(r"\A(?:The user dismissed|Tool execution aborted)")
_METADATA = re.compile(r"\n*<(shell_metadata|bash_metadata)>\n?(.*?)</\1>\s*\Z", re.DOTALL)
_MAX_PART_BYTES = 8 * 1024 * 1024
_COPIES = 3


@dataclass(slots=True, kw_only=True)
class _Reading:
    session: Session
    budget: TextBudget = field(default_factory=TextBudget)
    steps: dict[str, Step] = field(default_factory=dict)
    is_headless: bool = True
    agent: str = MAIN
    parent: str | None = None
    task: str | None = None


def matches(lines: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the first objects of a file are parts of a run of opencode."""
    return any(
        isinstance(each.get("part"), Mapping) or ("message_id" in each and isinstance(each.get("data"), Mapping))
        for each in lines
    )


def session_id_of(lines: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the id of the first answer, which is in the database, in an export of it and in what `run` prints."""
    for line in lines:
        part = line.get("part")
        message = part.get("messageID") if isinstance(part, Mapping) else line.get("message_id")
        if isinstance(message, str) and line.get("role") != "user":
            return message
    return None


def read(lines: Iterable[str]) -> Session:
    """Return the steps of JSON lines: what `opencode run --format json` prints, or rows of the table of parts."""
    reading = _Reading(session=Session(tool=TOOL, session_id=""))
    for line in parse_objects(lines, reading.session.passed_over):
        reading.session.session_id = reading.session.session_id or session_id_of([line]) or ""
        part = line.get("part") if "part" in line else line.get("data")
        if isinstance(part, Mapping):
            _read_part(reading, part, role=text_of(line.get("role")), message=text_of(line.get("message_id")))
        elif text_of(line.get("type")) not in {"error", "text"}:
            reading.session.passed_over["unknown kind of line"] += 1
    reading.session.steps = _in_order(reading)
    return reading.session


def read_database(path: Path) -> Iterator[Session]:
    """Yield the sessions of a database, sub-agents' inside of those they belong to. Raises OSError."""
    try:
        with _open_copy(path) as connection:
            yield from _read_sessions(connection)
    except sqlite3.Error as error:
        raise OSError(f"not readable as opencode's database: {error}") from error


@contextmanager
def _open_copy(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading without a lock and without a file beside it."""
    for _ in range(_COPIES):
        before = _state(path)
        if set(before) == {path.name}:
            with closing(_connect(path)) as connection:
                yield connection
            return
        with TemporaryDirectory(prefix="hardwon-") as folder:
            for name in before:
                shutil.copyfile(path.with_name(name), Path(folder, name))
            if _state(path) != before:  # it was written to meanwhile
                continue
            with closing(sqlite3.connect(Path(folder, path.name))) as connection:
                connection.text_factory = _decode
                yield connection
            return
    raise OSError("it is being written all the time: try again later")


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)
    connection.text_factory = _decode
    return connection


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _state(path: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of a database's file and of those that hold changes which are not in it yet."""
    found: dict[str, tuple[int, int]] = {}
    for name in (path.name, f"{path.name}-wal", f"{path.name}-journal"):
        try:
            facts = path.with_name(name).stat()
        except FileNotFoundError:
            continue
        if facts.st_size or name == path.name:
            found[name] = (facts.st_size, facts.st_mtime_ns)
    return found


def _read_sessions(connection: sqlite3.Connection) -> Iterator[Session]:
    cursor = connection.execute("SELECT * FROM session")
    names = [column[0] for column in cursor.description]
    found = (dict(zip(names, row, strict=True)) for row in cursor)
    wanted = ("id", "parent_id", "directory", "version", "permission")
    rows = [tuple(row.get(name) for name in wanted) for row in found]
    known = {text_of(row[0]): row for row in rows if isinstance(row[0], str)}
    families: dict[str, list[str]] = {}
    for session_id in known:
        families.setdefault(_root(session_id, known), []).append(session_id)
    for root, members in sorted(families.items()):
        _, _, folder, version, permission = known[root]
        session = Session(tool=TOOL, session_id=root, folder=text_of(folder) or None, version=text_of(version) or None)
        reading = _Reading(session=session, is_headless=_is_headless(permission))
        for member in sorted(members, key=lambda each: (each != root, each)):
            parent = text_of(known[member][1])
            reading.agent = MAIN if member == root else member
            reading.parent = None if member == root else MAIN if parent == root else parent
            reading.task = None
            _read_parts(connection, reading, member)
        session.steps = _in_order(reading)
        yield session


def _root(session_id: str, known: Mapping[str, tuple[Any, ...]]) -> str:
    seen = {session_id}
    while (parent := text_of(known[session_id][1])) in known and parent not in seen:
        seen.add(parent)
        session_id = parent
    return session_id


def _is_headless(permission: object) -> bool:
    """Return whether a session forbids questions to its user, as `opencode run` does."""
    try:
        rules = json.loads(text_of(permission) or "[]")
    except (ValueError, RecursionError):
        return False
    return any(
        isinstance(rule, dict) and rule.get("permission") == "question" and rule.get("action") == "deny"
        for rule in (rules if isinstance(rules, list) else [])
    )


_PARTS = """
    SELECT part.message_id, json_extract(message.data, '$.role'), json_extract(message.data, '$.parentID'),
           CASE WHEN length(part.data) <= ? THEN part.data END
    FROM part LEFT JOIN message ON message.id = part.message_id AND json_valid(message.data)
    WHERE part.session_id = ? ORDER BY part.time_created, part.id
"""


def _read_parts(connection: sqlite3.Connection, reading: _Reading, session_id: str) -> None:
    passed_over = reading.session.passed_over
    is_first = reading.agent == MAIN
    for message, role, parent, data in connection.execute(_PARTS, (_MAX_PART_BYTES, session_id)):
        if data is None:
            passed_over[f"part of more than {_MAX_PART_BYTES // 1024 // 1024} MiB"] += 1
            continue
        if is_first and role != "user" and isinstance(message, str):
            reading.session.session_id, is_first = message, False
        for part in parse_objects([text_of(data)], passed_over):
            if role != "user" and reading.agent == MAIN:
                reading.task = text_of(parent) or reading.task
            _read_part(reading, part, role=text_of(role), message=text_of(message))


def _read_part(reading: _Reading, part: Mapping[str, Any], *, role: str, message: str) -> None:
    kind = part.get("type")
    if kind == "text" and role == "user" and reading.agent == MAIN and part.get("synthetic") is not True:
        text = text_of(part.get("text")).strip().strip('"')
        if text and not text.startswith("<"):
            reading.task = message or reading.task
            if reading.task:
                reading.session.prompts.setdefault(reading.task, reading.budget.cut(text, MAX_PROMPT_BYTES))
    if kind != "tool":
        return
    call_id, state = text_of(part.get("callID")), part.get("state")
    if not call_id or not isinstance(state, Mapping):
        reading.session.passed_over["a call without its id or state"] += 1
        return
    arguments = state.get("input")
    arguments = arguments if isinstance(arguments, Mapping) else {}
    tool, before = text_of(part.get("tool")) or "?", reading.steps.get(call_id)
    reading.session.folder = reading.session.folder or _folder_of(arguments, state)
    command = text_of(arguments.get("command")) if tool == _SHELL else ""
    reading.steps[call_id] = Step(
        order=before.order if before else len(reading.steps) + 1,
        id=call_id,
        agent=reading.agent,
        parent=reading.parent,
        tool=tool,
        command=reading.budget.cut(command, MAX_EDIT_BYTES) or None,
        folder=text_of(arguments.get("workdir")) or None,
        task=reading.task,
        at=_time(state.get("time")),
        **_values(reading, tool, arguments, state),
    )


def _values(reading: _Reading, tool: str, arguments: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call came to."""
    status, metadata = state.get("status"), state.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    error = text_of(state.get("error"))
    if status == "error":
        decision = _decision(reading, error)
        if decision:
            return {"outcome": StepOutcome.DENIED, "edits": _edits_of_arguments(reading, arguments), **decision}
        return {"outcome": StepOutcome.TOOL_ERROR, "text": reading.budget.cut(error, MAX_OTHER_BYTES)}
    if status != "completed":
        return {"outcome": StepOutcome.UNKNOWN}
    text = text_of(state.get("output"))
    if tool == _SHELL:
        return _values_of_command(reading, text, metadata)
    if tool == "invalid":
        return {"outcome": StepOutcome.TOOL_ERROR, "text": reading.budget.cut(text, MAX_OTHER_BYTES)}
    path = text_of(arguments.get("filePath")) or text_of(metadata.get("filepath"))
    told = edits_of_diff(text_of(metadata.get("diff")), path, reading.budget, MAX_EDIT_BYTES)
    known = _BUILT_IN | _BUILT_IN_TOO | _LOOKS
    return {
        "outcome": StepOutcome.OK,
        "text": reading.budget.cut(text, MAX_OTHER_BYTES),
        "edits": told or _edits_of_arguments(reading, arguments),
        "is_outside": tool in _OUTSIDE or (tool not in known and "_" in tool),
        "is_search": tool in _LOOKS and text.lstrip().lower().startswith("no "),
    }


def _values_of_command(reading: _Reading, text: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    note = _METADATA.search(text)
    output = _METADATA.sub("", text)
    output = reading.budget.cut("" if output.strip() == "(no output)" else output)
    code = metadata.get("exit")
    if note is not None and re.search(r"timeout|aborted|terminated", note[2]):
        return {"outcome": StepOutcome.TOOL_ERROR, "text": output[:MAX_OTHER_BYTES]}
    if not isinstance(code, int) or isinstance(code, bool):
        return {"outcome": StepOutcome.UNKNOWN, "text": output}
    return {"outcome": StepOutcome.OK if code == 0 else StepOutcome.FAILED, "exit_code": code, "text": output}


def _edits_of_arguments(reading: _Reading, arguments: Mapping[str, Any]) -> tuple[Edit, ...]:
    """Return the change that was asked for."""
    path = text_of(arguments.get("filePath"))
    old = text_of(arguments.get("oldString"))
    new = text_of(arguments.get("newString")) or text_of(arguments.get("content"))
    return edits_of_replacement(path, old, new, reading.budget, MAX_EDIT_BYTES)


def _decision(reading: _Reading, error: str) -> dict[str, Any]:
    """Return who denied a call, and with which words; nothing where nobody did. Only a person gives feedback."""
    if ruled := _RULE.match(error):
        return {"decided_by": Decider.RULE, "reason": _name_rules(error[ruled.end() :]) or ruled[0].strip()}
    if said := _FEEDBACK.match(error):
        return {"decided_by": Decider.PERSON, "reason": said[1].strip()[:MAX_OTHER_BYTES]}
    if _REJECTED.match(error) or _DISMISSED.match(error):
        is_person = not reading.is_headless and not _DISMISSED.match(error)
        return {"decided_by": Decider.PERSON if is_person else Decider.NOBODY, "reason": ""}
    return {}


def _name_rules(text: str) -> str:
    """Return the rules that deny something, of those that opencode tells with a denial."""
    try:
        rules = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    denied = [
        f"{text_of(rule.get('permission'))} {text_of(rule.get('pattern'))}".strip()
        for rule in (rules if isinstance(rules, list) else [])
        if isinstance(rule, dict) and rule.get("action") == "deny"
    ]
    return f"a rule denies {', '.join(denied[-3:])}"[:MAX_OTHER_BYTES] if denied else ""


def _in_order(reading: _Reading) -> list[Step]:
    """Return the steps in the order in which they began, sub-agents' among those of the main one."""
    steps = list(reading.steps.values())
    if all(step.at for step in steps):
        steps.sort(key=lambda step: (step.at.timestamp() if step.at else 0.0, step.order))
    folder = reading.session.folder
    return [replace(step, order=number, folder=step.folder or folder) for number, step in enumerate(steps, 1)]


def _folder_of(arguments: Mapping[str, Any], state: Mapping[str, Any]) -> str | None:
    """Return the project's folder, of a call that names a file and has its path inside the project as its title."""
    path, title = text_of(arguments.get("filePath")), text_of(state.get("title"))
    return path.removesuffix(f"/{title}") or None if title and path.endswith(f"/{title}") else None


def _time(value: object) -> datetime | None:
    start = value.get("start") if isinstance(value, Mapping) else None
    if not isinstance(start, int | float) or isinstance(start, bool):
        return None
    try:
        return datetime.fromtimestamp(start / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
