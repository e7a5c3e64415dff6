"""Changes: what a step edited, or which commands it ran that changed something, as a short text without folders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hardwon.text.truncation import truncate_middle
from orchestrator.importers.sessions.checks import Check, quote_word
from orchestrator.importers.sessions.shell.programs import find_change
from orchestrator.importers.sessions.shell.words import split_commands
from orchestrator.importers.sessions.steps import Step, StepOutcome

MAX_BYTES = 4 * 1024
"""Longest text of a solution's changes; the last ones are kept."""
_MAX_COMMAND_BYTES = 1500
_CONTEXT_LINES = 1
_TEST_FILE = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__|__snapshots__|e2e|cypress|testdata|fixtures)/"
    r"|(?:^|/)(?:test_[^/]*|[^/]*[_.-](?:tests?|spec)\.\w+|conftest\.py|[^/]*(?:Test|Tests|IT|Spec)\.\w+|[^/]*\.snap)$"
)
_CHECK_SETTINGS = re.compile(
    r"(?:^|/)(?:\.eslintrc[^/]*|eslint\.config\.\w+|\.eslintignore|\.?ruff\.toml|\.flake8|\.pylintrc|mypy\.ini|pytest\.ini"
    r"|tox\.ini|noxfile\.py|\.rubocop\.yml|\.golangci\.ya?ml|\.pre-commit-config\.yaml|\.prettierignore|\.stylelintrc[^/]*)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of files or surroundings. `text`: how it is shown. `is_of_check`: of tests or a linter's settings alone.

    `order`: of its step. `program`: the one that made it, of a command.
    """

    order: int
    text: str
    files: tuple[str, ...] = ()
    is_of_check: bool = False
    program: str = ""


def changes_of(step: Step, *, root: str | None, check: Check | None = None) -> list[Change]:
    """Return what a step changed: nothing where it did not succeed. In `check`'s own line only what runs before it."""
    if step.outcome is not StepOutcome.OK and (check is None or step.outcome is not StepOutcome.FAILED):
        return []
    changes = [
        Change(
            order=step.order,
            text=_render_edit(relative_path(edit.path, root), edit.diff),
            files=(relative_path(edit.path, root),),
            is_of_check=is_of_check(relative_path(edit.path, root)),
        )
        for edit in step.edits
    ]
    return [*changes, *_changes_of_command(step, root, check)] if step.command and not step.is_call else changes


def _changes_of_command(step: Step, root: str | None, check: Check | None) -> Iterator[Change]:
    command = step.command or ""
    for each in split_commands(command):
        found = find_change(each)
        if found is None or (check is not None and not found[0]):  # the output of a check is no change
            continue
        if check is not None and step.outcome is StepOutcome.FAILED and found[0] in check.programs:
            continue
        files = tuple(relative_path(file, root) for file in found[1])
        shown = " ".join(map(quote_word, each.words)) if "\n" not in command or check is not None else command
        yield Change(
            order=step.order,
            text=f"$ {truncate_middle(shown.strip(), _MAX_COMMAND_BYTES, ' [...] ')}",
            files=files,
            is_of_check=bool(files) and all(map(is_of_check, files)),
            program=found[0],
        )
        if "\n" in command and check is None:
            return


def is_of_check(file: str) -> bool:
    """Return whether a file is a test, or the settings of a linter or test runner: to change it proves nothing."""
    return bool(_TEST_FILE.search(file) or _CHECK_SETTINGS.search(file))


def relative_path(path: str, root: str | None) -> str:
    """Return a path relative to the session's folder, as far as it lies inside."""
    if root and path.startswith(root.rstrip("/") + "/"):
        return path[len(root.rstrip("/")) + 1 :]
    return path.removeprefix("./")


def render_changes(changes: Sequence[Change]) -> str:
    """Return the texts of changes in order, the last ones where they are more than `MAX_BYTES` together."""
    texts: list[str] = []
    room = MAX_BYTES
    for text in reversed(list(dict.fromkeys(change.text for change in changes))):
        size = len(text.encode()) + 1
        if size > room:
            if not texts or room > MAX_BYTES // 4:
                texts.append(truncate_middle(text, room - 1, "\n[...]\n"))
            break
        texts.append(text)
        room -= size
    return "\n".join(reversed(texts))


def _render_edit(path: str, diff: str) -> str:
    return f"{path}:\n{_trim(diff)}" if diff else path


def _trim(diff: str) -> str:
    """Return the changed lines of a diff with one line around them, without headers and places."""
    rows: list[str] = []
    in_header = "\n@@" in f"\n{diff}"
    for line in diff.splitlines():
        if line.startswith("@@"):
            in_header = False
            rows.append("@@")
        elif line.startswith(("diff --git ", "Index: ")):
            in_header = True
        elif not in_header and not line.startswith("\\ "):
            rows.append(line)
    kept = {
        near
        for at, row in enumerate(rows)
        if row[:1] in {"+", "-"}
        for near in range(max(0, at - _CONTEXT_LINES), min(len(rows), at + _CONTEXT_LINES + 1))
    }
    shown = [row for at, row in enumerate(rows) if at in kept and row != "@@"]
    return "\n".join(shown)
