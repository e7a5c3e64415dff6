"""The coding agents that have hooks: where their settings lie, which events are of use, and the form of an entry."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

SHIM_NAME = "hardwon-hook"
_SECONDS = 5
"""Longest time that a tool waits for a hook; the hook itself gives up long before."""


class Scope(StrEnum):
    """Settings of the user, or of the project of the current directory."""

    USER = "user"
    PROJECT = "project"


class Mode(StrEnum):
    """The use of an event: only to wake up, or also to give a context."""

    CAPTURE = "capture"
    INJECT = "inject"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """An event of a tool. `matcher`: only for calls of such tools of the agent."""

    name: str
    mode: Mode
    matcher: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookTool:
    """A coding agent.

    `user`: its settings in the home folder, or in the folder that the variable `folder` names. `is_own_file`: the file
    holds nothing but hooks of ours. `timeout`: as an entry says it, empty where the tool's unit is not known.
    """

    name: str
    title: str
    user: str
    project: str
    events: tuple[HookEvent, ...]
    folder: tuple[str, str] | None = None
    is_own_file: bool = False
    is_flat: bool = False
    timeout: Mapping[str, int]
    after_install: str = ""

    def settings_path(self, scope: Scope, *, home: Path, project: Path, environment: Mapping[str, str]) -> Path:
        """Return the file that the tool reads its hooks from."""
        if scope is Scope.PROJECT:
            return project / self.project
        if self.folder is not None and (given := environment.get(self.folder[0], "").strip()):
            return Path(given).expanduser() / Path(self.user).relative_to(self.folder[1])
        return home / self.user

    def entry(self, event: HookEvent, shim: Path) -> dict[str, Any]:
        """Return what the settings hold for an event."""
        line = hook_line(shim, self.name, event)
        if self.is_flat:
            return {"type": "command", "bash": line, **self.timeout}
        matcher = {} if event.matcher is None else {"matcher": event.matcher}
        return {**matcher, "hooks": [{"type": "command", "command": line, **self.timeout}]}


def hook_line(shim: Path, tool: str, event: HookEvent) -> str:
    """Return the command line of a hook: the same in every version, since Codex has each change reviewed.

    It ends with 0 also where the data directory is gone: another exit code may stop the agent.
    """
    return f"sh {shlex.quote(str(shim))} {tool} {event.name} {event.mode} 2>/dev/null; true"


def is_ours(entry: object) -> bool:
    """Return whether an entry of a settings file is a hook of ours, of whatever data directory."""
    if not isinstance(entry, dict):
        return False
    lines = [entry.get("bash"), *(each.get("command") for each in _commands(entry))]
    return any(isinstance(line, str) and f"/hooks/{SHIM_NAME}" in line for line in lines)


def _commands(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    hooks = entry.get("hooks")
    return [each for each in hooks if isinstance(each, dict)] if isinstance(hooks, list) else []


def _events(*, prompt: str, failure: tuple[str, str | None], sub_agent: str | None, ends: tuple[str, ...]) -> Any:
    found = [
        HookEvent(name=prompt, mode=Mode.INJECT),
        HookEvent(name=failure[0], mode=Mode.INJECT, matcher=failure[1]),
    ]
    if sub_agent is not None:
        found.append(HookEvent(name=sub_agent, mode=Mode.INJECT))
    return (*found, *(HookEvent(name=each, mode=Mode.CAPTURE) for each in ends))


_ENDS = ("SubagentStop", "Stop", "SessionEnd")
TOOLS: Mapping[str, HookTool] = {
    tool.name: tool
    for tool in (
        HookTool(
            name="claude-code",
            title="Claude Code",
            user=".claude/settings.json",
            project=".claude/settings.json",
            folder=("CLAUDE_CONFIG_DIR", ".claude"),
            events=_events(
                prompt="UserPromptSubmit",
                failure=("PostToolUseFailure", "Bash"),  # PostToolUse never fires for a command that failed
                sub_agent="SubagentStart",
                ends=_ENDS,
            ),
            timeout={"timeout": _SECONDS},
        ),
        HookTool(
            name="codex",
            title="Codex",
            user=".codex/hooks.json",
            project=".codex/hooks.json",
            folder=("CODEX_HOME", ".codex"),
            events=_events(
                prompt="UserPromptSubmit",
                failure=("PostToolUse", "Bash"),  # there is no event for failures alone
                sub_agent="SubagentStart",
                ends=_ENDS,
            ),
            timeout={"timeout": _SECONDS},
            after_install=(
                "Codex runs a new hook only once you have reviewed it, and says nothing until then: open /hooks in"
                " Codex and trust them. A project's hooks also need a project that Codex trusts."
            ),
        ),
        HookTool(
            name="gemini-cli",
            title="Gemini CLI",
            user=".gemini/settings.json",
            project=".gemini/settings.json",
            events=_events(
                prompt="BeforeAgent",
                failure=("AfterTool", "run_shell_command"),
                sub_agent=None,
                ends=("AfterAgent", "SessionEnd"),
            ),
            timeout={"timeout": 1000 * _SECONDS},
        ),
        HookTool(
            name="qwen-code",
            title="Qwen Code",
            user=".qwen/settings.json",
            project=".qwen/settings.json",
            events=_events(
                prompt="UserPromptSubmit",
                failure=("PostToolUseFailure", None),
                sub_agent="SubagentStart",
                ends=_ENDS,
            ),
            timeout={},
        ),
        HookTool(
            name="copilot",
            title="Copilot CLI",
            user=".copilot/hooks/hardwon.json",
            project=".github/hooks/hardwon.json",
            folder=("COPILOT_HOME", ".copilot"),
            is_own_file=True,
            is_flat=True,
            events=_events(
                prompt="userPromptSubmitted",
                failure=("postToolUse", None),  # a command that failed is a success with an exit code in its text
                sub_agent="subagentStart",
                ends=("subagentStop", "agentStop", "sessionEnd"),
            ),
            timeout={"timeoutSec": _SECONDS},
        ),
        HookTool(
            name="opencode",
            title="opencode",
            user=".config/opencode/plugins/hardwon.js",
            project=".opencode/plugins/hardwon.js",
            folder=("XDG_CONFIG_HOME", ".config"),
            is_own_file=True,
            events=(
                HookEvent(name="tool.execute.after", mode=Mode.INJECT),
                HookEvent(name="session.idle", mode=Mode.CAPTURE),
            ),
            timeout={},
        ),
    )
}
"""The tools by the names that are typed."""
