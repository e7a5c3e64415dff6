"""The normal form of a coding agent's run: its steps, each with what was done and what came of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from hardwon.text.truncation import truncate_middle

MAIN = "main"
"""The agent that the session belongs to; sub-agents have ids of their own."""


class StepOutcome(StrEnum):
    """The result of a step.

    `denied`: a person, a rule or the mode of the run forbade it. `tool_error`: the tool itself could not do it (an edit
    without a match, an unknown tool, a time limit), so nothing was tried. `unknown`: the transcript does not say.
    """

    OK = "ok"
    FAILED = "failed"
    DENIED = "denied"
    TOOL_ERROR = "tool_error"
    UNKNOWN = "unknown"


class Decider(StrEnum):
    """Who denied a step. `nobody`: the run has no person, and its mode denied it; that teaches nothing."""

    PERSON = "person"
    RULE = "rule"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change of a file: its path as the tool told it, and the changed lines in the form of a unified diff's hunks."""

    path: str
    diff: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that an agent did.

    `order`: increasing within a session, in the order in which steps began. `id`: the tool call's own, the same however
    often the transcript repeats it. `command`: of a shell, or `is_call`. `exit_code`: None where it is not told.
    `text`: what the step put out, without the tool's own wrapper lines. `reason`: the words of a denial. `is_search`:
    the tool says that it only looked for something, so that finding nothing is no failure. `is_outside`: `text` comes
    from outside of the machine (a web page, a server of tools). `proposal`: what was to be done, where it is neither a
    command nor an edit, such as a plan. `folder`: where it was done, if another than the session's. `is_call`:
    `command` is the call of a tool that is no shell, so that it checks only where `is_check` or a setting says so.
    """

    order: int
    id: str
    agent: str = MAIN
    parent: str | None = None
    tool: str
    command: str | None = None
    outcome: StepOutcome
    exit_code: int | None = None
    text: str = ""
    edits: tuple[Edit, ...] = ()
    decided_by: Decider | None = None
    reason: str = ""
    is_search: bool = False
    is_outside: bool = False
    proposal: str = ""
    folder: str | None = None
    is_call: bool = False
    is_check: bool = False
    task: str | None = None
    at: datetime | None = None


@dataclass(slots=True, kw_only=True)
class Session:
    """A run of a coding agent. `folder`: where it worked, as told. `task` of a step: the prompt's or turn's id.

    `handed_out`: texts that hooks put into the agent's context, to tell our own words from the agent's. `passed_over`:
    number of lines by the reason why they are no part of it (half a line, an unknown type). `prompts`: by task.
    `project`: where the run names it. `may_hide_changes`: not all that the agent changed need be among the steps.
    """

    tool: str
    session_id: str
    folder: str | None = None
    version: str | None = None
    parent_id: str | None = None
    steps: list[Step] = field(default_factory=list)
    handed_out: list[str] = field(default_factory=list)
    prompts: dict[str, str] = field(default_factory=dict)
    passed_over: Counter[str] = field(default_factory=Counter)
    project: str | None = None
    may_hide_changes: bool = False


MAX_EDIT_BYTES = 16 * 1024
MAX_OTHER_BYTES = 400
MAX_PROMPT_BYTES = 4 * 1024
"""Limits of an edit, of the output of what is no command, and of a prompt in a transcript; ours."""
_TEXT_BYTES = 8 * 1024
_SESSION_BYTES = 24 * 1024 * 1024
_SCARCE_BYTES = 1024


@dataclass(slots=True)
class TextBudget:
    """Limits the memory of a session's texts: each is cut, and shorter once they are many together; ours."""

    used: int = 0

    def cut(self, text: str, limit: int = _TEXT_BYTES) -> str:
        """Return the text, without its middle where it is long: what went wrong stands at an end."""
        shown = truncate_middle(text, _SCARCE_BYTES if self.used > _SESSION_BYTES else limit, "\n[...]\n")
        self.used += len(shown)
        return shown


def text_of(value: object) -> str:
    """Return a value that is a text; empty for anything else."""
    return value if isinstance(value, str) else ""


def hunk_of_replacement(old: str, new: str) -> str:
    """Return the hunk of a unified diff that replaces a text by another; empty where both are."""
    rows = [*(f"-{row}" for row in old.splitlines()), *(f"+{row}" for row in new.splitlines())]
    return "\n".join(["@@", *rows]) if rows else ""


def edits_of_replacement(path: str, old: str, new: str, budget: TextBudget, limit: int) -> tuple[Edit, ...]:
    """Return the change of a file that a tool told as an old and a new text; nothing without a path and a text."""
    if not path or not (old or new):
        return ()
    return (Edit(path=path, diff=budget.cut(hunk_of_replacement(old, new), limit)),)


def parse_objects(lines: Iterable[str], passed_over: Counter[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects of lines; count the lines that hold none."""
    for line in lines:
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            passed_over["no JSON"] += 1
            continue
        if isinstance(value, dict):
            yield _replace_surrogates(value) if _SURROGATE.search(line) else value
        else:
            passed_over["no JSON object"] += 1


def parse_time(text: object) -> datetime | None:
    """Return an aware time of ISO 8601; None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _replace_surrogates(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object without halves of characters, which JSON can hold and no other text."""
    try:
        replaced = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return replaced if isinstance(replaced, dict) else {}


_FILES = re.compile(r"^(?=diff --git |Index: )", re.MULTILINE)
_NEW_PATH = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)", re.MULTILINE)


def edits_of_diff(diff: str, path: str, budget: TextBudget, limit: int) -> tuple[Edit, ...]:
    """Return the changes in a unified diff of one file, `path`, or of several, whose headers name them."""
    parts = [part for part in _FILES.split(diff) if "\n@@" in f"\n{part}"]
    edits = []
    for part in parts:
        head, _, hunks = f"\n{part}".partition("\n@@")
        named = _NEW_PATH.search(head)
        file = path if named is None or (path and len(parts) == 1) else named[1]
        edits.append(Edit(path=file or "file", diff=budget.cut(f"@@{hunks.rstrip()}", limit)))
    return tuple(edits)
