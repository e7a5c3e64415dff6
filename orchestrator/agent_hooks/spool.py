"""The spool of hooks: one line of JSON for each event, to know which sessions have news and whether a hook has fired.

A line is `{"at": seconds since 1970, "tool", "event", "session_id", "transcript_path", "cwd"}`; fields that the tool
did not tell are empty. It is a wake-up and nothing more: what happened is read from the transcript.
Copilot and opencode do not tell where that is; it is looked for where they keep it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrator.agent_hooks.shim import hooks_folder

_NAMES = ("spool.jsonl.1", "spool.taken.jsonl", "spool.jsonl")
_FIRED = "fired.json"
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolLine:
    """One event that a hook noted."""

    at: int
    tool: str
    event: str
    session_id: str
    transcript_path: str
    cwd: str


def pending_sessions(
    home: Path, *, environment: Mapping[str, str] = os.environ, user_home: Path | None = None
) -> list[Path]:
    """Return the transcripts that have news since `clear_sessions`, each once, in the order of their first news.

    Events that come while these are read are left for the next call. A path that no longer exists is left out.
    """
    folder = hooks_folder(home)
    taken = folder / "spool.taken.jsonl"
    with suppress(OSError):
        for name in ("spool.jsonl.1", "spool.jsonl"):
            source = folder / name
            if not source.exists():
                continue
            if not taken.exists():
                source.rename(taken)
                continue
            aside = folder / ".spool.aside"  # renamed first: what a hook appends meanwhile goes into a new file
            source.rename(aside)
            with taken.open("ab") as file:
                file.write(aside.read_bytes())
            aside.unlink()
    user_home = Path.home() if user_home is None else user_home
    found = (_transcript_of(line, environment, user_home) for line in _read(taken))
    return [path for path in dict.fromkeys(found) if path is not None and path.is_absolute() and path.exists()]


def _transcript_of(line: SpoolLine, environment: Mapping[str, str], user_home: Path) -> Path | None:
    """Return the transcript of an event, as told, else where the tool keeps it; None where neither is known."""
    if line.transcript_path:
        return Path(line.transcript_path)
    if line.tool == "copilot" and _SESSION_ID.fullmatch(line.session_id):
        folder = environment.get("COPILOT_HOME", "").strip() or user_home / ".copilot"
        return Path(folder) / "session-state" / line.session_id / "events.jsonl"
    if line.tool == "opencode":
        folder = environment.get("XDG_DATA_HOME", "").strip() or user_home / ".local/share"
        return Path(folder) / "opencode" / "opencode.db"
    return None


def clear_sessions(home: Path) -> None:
    """Forget what `pending_sessions` returned; when each hook fired last stays known."""
    folder = hooks_folder(home)
    if not (folder / "spool.taken.jsonl").exists():
        return
    fired = last_fired(home)
    with suppress(OSError):
        temporary = folder / f".{_FIRED}"
        temporary.write_text(json.dumps([[tool, event, at] for (tool, event), at in fired.items()]), encoding="utf-8")
        temporary.chmod(0o600)
        temporary.replace(folder / _FIRED)
        (folder / "spool.taken.jsonl").unlink(missing_ok=True)


def last_fired(home: Path) -> dict[tuple[str, str], int]:
    """Return when each hook fired last, by tool and event, in seconds since 1970."""
    folder = hooks_folder(home)
    fired: dict[tuple[str, str], int] = {}
    with suppress(OSError, ValueError, TypeError):
        for tool, event, at in json.loads((folder / _FIRED).read_text("utf-8")):
            fired[str(tool), str(event)] = int(at)
    for name in _NAMES:
        for line in _read(folder / name):
            fired[line.tool, line.event] = max(line.at, fired.get((line.tool, line.event), 0))
    return fired


def _read(path: Path) -> Iterator[SpoolLine]:
    """Yield the lines of a spool; what is none is passed over."""
    with suppress(OSError), path.open("rb") as file:
        for line in file:
            with suppress(ValueError, TypeError):
                values = json.loads(line)
                yield SpoolLine(**{**values, "at": int(values["at"])})
