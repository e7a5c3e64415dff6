"""Arguments of tool calls: what a tool is for by its name, where it worked, and the changes that it was asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from hardwon.text.call_lines import editor_action, nested_arguments, snake_case
from orchestrator.importers.sessions.steps import (
    MAX_EDIT_BYTES,
    Edit,
    TextBudget,
    edits_of_diff,
    edits_of_replacement,
)

_FOLDERS = ("cwd", "workdir", "working_directory", "working_dir")
_PATHS = ("path", "file_path", "filepath", "filename", "file_name", "file", "target_file", "absolute_path")
_SURE_OLD = ("old_string", "old_str", "old_text")
_OLD = (*_SURE_OLD, "old", "search", "before")
_NEW = ("new_string", "new_str", "new_text", "new", "replace", "replacement", "after")
_CONTENTS = ("content", "contents", "file_text", "new_content", "insert_text", "new_str", "new_string", "text", "code")
_DIFFS = ("diff", "patch", "unified_diff", "input")
_CHECKS = re.compile(
    r"(?:(?:run|execute|exec|do|perform|start|invoke|launch)_)?"
    r"(?:(?:the|all|unit|integration|e2e|project|python|js|code|static|my|db|database|npm|pnpm|yarn|cargo|go|maven|mvn"
    r"|gradle|dotnet|docker)_)*"
    r"(?:tests?|test_suite|tests?_?runner|specs?|checks|lint|linter|linters|linting|type_?checks?|type_?checker|builds?"
    r"|check_(?:types|typing|style|format|formatting|lint)|compile|compiler|compilation|migrate(?:_db|_database)?|migrations?|pytest"
    r"|unittest|jest|vitest|mypy|ruff|eslint|tsc|ci|ci_pipeline)"
    r"(?:_(?:project|code|files?|suite|app|package|module|modules|all))?"
)
"""Match the whole name of a tool that tests, lints, checks types, builds or migrates, such as `run_tests`; ours.
`check_stock`, `test_connection` and `get_build` have other words, too. Settings name more."""
_EDITS = re.compile(
    r"(?:^|_)(?:(?:write|rewrite|overwrite|edit|create|save|update|replace|patch|insert|modify|append)(?:files?)?"
    r"|put|add|apply|editor)(?:_|$)"
)
"""Match a word in the name of a tool that changes files: `write_file`, `str_replace_editor`, but not `credit_card`."""
_LOOKS = re.compile(
    r"(?:get|list|read|show|find|search|describe|view|fetch|preview|review|explain|suggest|propose|plan|count|compare"
    r"|diff|validate|check|verify|open)(?:_|$)"
)
"""Match the first word in the name of a tool that looks at something, such as `review_patch`."""
_OUTSIDE = re.compile(r"web|brows|fetch|http|(?:^|_)url|internet|(?:^|_)mcp(?:_|$)")
"""Match a part of the name of a tool that reads what comes from outside of the machine: `web_search`, `mcp__x__y`."""


def is_check_name(tool: str) -> bool:
    """Return whether a tool's name says that it checks something."""
    return _CHECKS.fullmatch(snake_case(tool)) is not None


def is_outside_name(tool: str) -> bool:
    """Return whether a tool's name says that it reads text from outside of the machine."""
    return _OUTSIDE.search(snake_case(tool)) is not None


def find_folder(arguments: Any) -> str | None:
    """Return the folder that a call was to work in; None where it is not told."""
    found = (_member(each, _FOLDERS) for each in nested_arguments(arguments))
    return next((folder for folder in found if folder), None)


def find_edits(tool: str, arguments: Any, budget: TextBudget) -> tuple[Edit, ...]:
    """Return the changes of files that a call asked for, as far as its arguments tell them.

    Of a tool whose name says nothing of a change only an old and a new text of a file are one.
    """
    name = snake_case(tool)
    if _LOOKS.match(name):
        return ()
    edits = _EDITS.search(name) is not None
    for each in nested_arguments(arguments):
        action = editor_action(each)
        if action in {"view", "undo_edit"}:
            return ()
        found = _edits_of(each, budget, is_editor=edits or action is not None)
        if found:
            return found
    return ()


def _edits_of(arguments: Mapping[str, Any], budget: TextBudget, *, is_editor: bool) -> tuple[Edit, ...]:
    path = _member(arguments, _PATHS)
    diff = _member(arguments, _DIFFS)
    if is_editor and "\n@@" in f"\n{diff}":
        return edits_of_diff(diff, path, budget, MAX_EDIT_BYTES)
    old = next((arguments[name] for name in (_OLD if is_editor else _SURE_OLD) if _is_text(arguments, name)), None)
    new = next((arguments[name] for name in _NEW if _is_text(arguments, name)), None)
    if old is not None and new is not None:
        return edits_of_replacement(path, old, new, budget, MAX_EDIT_BYTES)
    content = _member(arguments, _CONTENTS) if is_editor else ""
    return edits_of_replacement(path, "", content, budget, MAX_EDIT_BYTES)


def _is_text(arguments: Mapping[str, Any], name: str) -> bool:
    return isinstance(arguments.get(name), str)


def _member(arguments: Mapping[str, Any], names: Iterable[str]) -> str:
    return next((arguments[name] for name in names if _is_text(arguments, name) and arguments[name]), "")
