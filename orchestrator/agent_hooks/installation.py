"""Put our hooks into a coding agent's settings, beside those of others, and take away exactly ours."""

from __future__ import annotations

import difflib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hardwon.errors import InvalidInput
from orchestrator.agent_hooks import jsonc
from orchestrator.agent_hooks.hook_tools import HookTool, Scope, is_ours
from orchestrator.agent_hooks.shim import hooks_folder, render_plugin, shim_path, write_shim

_RECORD = "installed.json"
_EMPTY = frozenset({"", "{}"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of a settings file: its text before (None: there is no file) and after (None: it is to go)."""

    path: Path
    before: str | None
    after: str | None

    @property
    def is_nothing(self) -> bool:
        """True where the file stays as it is."""
        return self.before == self.after

    def diff(self) -> str:
        """Return the change as a unified diff."""
        lines = difflib.unified_diff(
            (self.before or "").splitlines(keepends=True),
            (self.after or "").splitlines(keepends=True),
            str(self.path) if self.before is not None else "/dev/null",
            str(self.path) if self.after is not None else "/dev/null",
        )
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of an installation: the data directory, the user's home, the project, and the environment."""

    data: Path
    home: Path
    project: Path
    environment: Mapping[str, str]

    def settings_path(self, tool: HookTool, scope: Scope) -> Path:
        """Return the settings file of a tool."""
        return tool.settings_path(scope, home=self.home, project=self.project, environment=self.environment)


def plan_install(tool: HookTool, scope: Scope, place: Place) -> Change:
    """Return the change that installs our hooks; nothing where they are there. Raises InvalidInput for the file."""
    path = place.settings_path(tool, scope)
    before = _read(path)
    if tool.name == "opencode":
        return Change(path=path, before=before, after=render_plugin(shim_path(place.data)))
    text = before if before is not None and before.strip() else '{\n  "version": 1\n}\n' if tool.is_flat else "{}\n"
    try:
        wanted = {event.name: tool.entry(event, shim_path(place.data)) for event in tool.events}
        text = _remove_ours(text, keep=wanted)
        present = {event for event, _, _ in _ours(text)}
        for event, entry in wanted.items():
            if event not in present:
                text = jsonc.append(text, ("hooks", event), entry)
    except jsonc.JsonError as error:
        raise InvalidInput("settings", f"{path} is not what {tool.title} reads ({error}): mend it first") from error
    return Change(path=path, before=before, after=text)


def plan_removal(tool: HookTool, scope: Scope, place: Place) -> Change:
    """Return the change that takes our hooks away, and the file if we made it. Raises InvalidInput for the file."""
    path = place.settings_path(tool, scope)
    before = _read(path)
    if before is None:
        return Change(path=path, before=None, after=None)
    if tool.is_own_file:
        return Change(path=path, before=before, after=None if "hardwon" in before else before)
    try:
        after = _remove_ours(before, keep={})
    except jsonc.JsonError as error:
        raise InvalidInput("settings", f"{path} is not what {tool.title} reads ({error}): mend it first") from error
    made_by_us = "".join(after.split()) in _EMPTY and str(path) in _created(place.data)
    return Change(path=path, before=before, after=None if made_by_us else after)


def installed_events(tool: HookTool, scope: Scope, place: Place) -> set[str]:
    """Return the events that our hooks are installed for. Raises InvalidInput for the file."""
    path = place.settings_path(tool, scope)
    text = _read(path)
    if text is None:
        return set()
    if tool.name == "opencode":
        return {event.name for event in tool.events} if "hardwon" in text else set()
    try:
        return {event for event, _, _ in _ours(text)}
    except jsonc.JsonError as error:
        raise InvalidInput("settings", f"{path} is not what {tool.title} reads ({error})") from error


def apply_change(change: Change, place: Place) -> Path | None:
    """Write a change, whole or not at all; return the backup of what was there, which is made once.

    The file keeps its mode; where it is a symbolic link, what it points to is written. Raises InvalidInput.
    """
    if change.is_nothing:
        return None
    target = Path(os.path.realpath(change.path))
    try:
        if change.after is None:
            target.unlink()
            return None
        write_shim(place.data)
        target.parent.mkdir(parents=True, exist_ok=True)
        backup = None
        if change.before is None:
            _note_created(place.data, change.path)
        else:
            backup = target.with_name(f"{target.name}.before-hardwon")
            if backup.exists():
                backup = None
            else:
                _write(backup, change.before, target.stat().st_mode & 0o777)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        _write(target, change.after, mode)
    except OSError as error:
        raise InvalidInput("settings", f"{error.filename or target} cannot be written: {error.strerror}") from error
    return backup


def _remove_ours(text: str, *, keep: Mapping[str, object]) -> str:
    """Return settings without our entries, but for those that are as they should be."""
    while True:
        stale = [(event, index) for event, index, entry in _ours(text) if keep.get(event) != entry]
        if not stale:
            return text
        event, index = stale[-1]
        text = jsonc.remove(text, ("hooks", event), index)


def _ours(text: str) -> Iterator[tuple[str, int, object]]:
    """Yield the event, the place and the value of our entries. Raises JsonError for what is no settings file."""
    if not text.strip():
        return
    settings = jsonc.parse(text).value
    if not isinstance(settings, dict):
        raise jsonc.JsonError("the whole is not an object")
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict):
        raise jsonc.JsonError("hooks is not an object")
    for event, entries in hooks.items():
        for index, entry in enumerate(entries if isinstance(entries, list) else []):
            if is_ours(entry):
                yield event, index, entry


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise InvalidInput("settings", f"{path} is not UTF-8: mend it first") from error
    except OSError as error:
        raise InvalidInput("settings", f"{path} cannot be read: {error.strerror}") from error


def _write(target: Path, text: str, mode: int) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(target)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def _created(data: Path) -> list[str]:
    with suppress(OSError, ValueError):
        paths: list[str] = json.loads((hooks_folder(data) / _RECORD).read_text("utf-8"))
        return paths
    return []


def _note_created(data: Path, path: Path) -> None:
    paths = sorted({*_created(data), str(path)})
    _write(hooks_folder(data) / _RECORD, json.dumps(paths), 0o600)
