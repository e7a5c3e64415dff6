"""Aider's chats, with the terminal's text and without it."""

from __future__ import annotations

from pathlib import Path

from orchestrator.importers.sessions import aider
from orchestrator.importers.sessions.formats import find_transcripts, read_sessions
from orchestrator.importers.sessions.pairing import LessonKind, pair
from orchestrator.importers.sessions.steps import StepOutcome


def change(old: str, new: str, commit: str, *, failed: bool) -> list[str]:
    added = ["> Added 4 lines of output to the chat.  ", "> Attempt to fix test errors? (Y)es/(N)o [Yes]: y  "]
    return [
        "cart.py",
        "```python",
        "<<<<<<< SEARCH",
        f"    return {old}",
        "=======",
        f"    return {new}",
        ">>>>>>> REPLACE",
        "```",
        "",
        "> Tokens: 10 sent, 5 received.  ",
        "> Applied edit to cart.py  ",
        f"> Commit {commit} fix: the price  ",
        *(added if failed else []),
    ]


def chat(day: int, *changes: list[str], options: str = "--auto-test --test-cmd pytest -q --yes-always") -> list[str]:
    return [
        "",
        f"# aider chat started at 2026-11-{day} 04:08:30",
        "",
        f"> /usr/bin/aider --model x {options} --message Mend it cart.py  ",
        "> Aider v0.86.2  ",
        "",
        "#### Mend it  ",
        "",
        *(line for each in changes for line in each),
    ]


HISTORY = [
    *chat(26, change("0", "1", "aaaaaa1", failed=True), change("1", "2", "aaaaaa2", failed=True),
          change("2", "3", "aaaaaa3", failed=False)),
    *chat(27, change("5", "6", "bbbbbb1", failed=False)),
]  # fmt: skip
TERMINAL = """Aider v0.86.2
Applied edit to cart.py
Commit aaaaaa1 fix: the price
E   TypeError: no price
1 failed in 0.1s
Added 4 lines of output to the chat.
Tokens: 10 sent, 5 received.
Commit aaaaaa2 fix: the price
E   TypeError: no price
1 failed in 0.1s
Added 4 lines of output to the chat.
Commit aaaaaa3 fix: the price
1 passed in 0.1s
"""


def write(folder: Path, terminal: str | None) -> Path:
    path = folder / ".aider.chat.history.md"
    path.write_text("\n".join(HISTORY) + "\n")
    if terminal is not None:
        (folder / "terminal.txt").write_text(terminal)
    return path


def test_a_chat_with_the_terminal_s_text_teaches_what_mended_the_test(tmp_path: Path) -> None:
    write(tmp_path, TERMINAL)
    found = find_transcripts([tmp_path])
    first, second = read_sessions(found.transcripts, found.unread)
    assert found.unread == []
    assert [(step.id, step.command, step.outcome, step.exit_code) for step in first.steps] == [
        ("aaaaaa1", None, StepOutcome.OK, None),
        ("aaaaaa1-test", "pytest -q", StepOutcome.FAILED, None),
        ("aaaaaa2", None, StepOutcome.OK, None),
        ("aaaaaa2-test", "pytest -q", StepOutcome.FAILED, None),
        ("aaaaaa3", None, StepOutcome.OK, None),
        ("aaaaaa3-test", "pytest -q", StepOutcome.OK, 0),
    ]
    assert first.steps[1].text == "E   TypeError: no price\n1 failed in 0.1s"
    assert first.steps[0].edits[0].diff == "@@\n-    return 0\n+    return 1"
    assert (first.version, first.folder, first.prompts) == ("0.86.2", str(tmp_path), {"prompt-1": "Mend it"})
    (fix,) = pair(first).lessons
    assert (fix.kind, fix.solution) == (LessonKind.FIX, "cart.py:\n-    return 2\n+    return 3")
    assert fix.dead_ends == ("cart.py:\n-    return 1\n+    return 2",)
    assert second.session_id != first.session_id
    assert [step.outcome for step in second.steps] == [StepOutcome.OK, StepOutcome.UNKNOWN]


def test_a_chat_without_the_terminal_s_text_teaches_nothing(tmp_path: Path) -> None:
    sessions = list(aider.read_database(write(tmp_path, None)))
    assert [len(session.steps) for session in sessions] == [6, 2]
    assert not any(pair(session).lessons for session in sessions)
    (tmp_path / "notes.txt").write_text(TERMINAL.replace("aaaaaa", "cccccc"))
    assert not any(pair(session).lessons for session in aider.read_database(tmp_path / ".aider.chat.history.md"))


def test_a_test_that_aider_does_not_run_itself_is_no_proof(tmp_path: Path) -> None:
    path = tmp_path / ".aider.chat.history.md"
    lines = chat(26, change("0", "1", "aaaaaa1", failed=False), options="--test-cmd pytest --yes-always")
    path.write_text("\n".join(lines))
    (tmp_path / "terminal.txt").write_text(TERMINAL)
    (session,) = aider.read_database(path)
    assert [step.id for step in session.steps] == ["aaaaaa1"]


def test_changes_without_a_commit_and_commands_of_the_user_are_kept_apart(tmp_path: Path) -> None:
    path = tmp_path / ".aider.chat.history.md"
    lines = change("0", "1", "x", failed=False)[:-1]
    path.write_text("\n".join([*chat(26, lines), "#### /run pytest  ", "> Applied edit to b.py  "]))
    (session,) = aider.read_database(path)
    changed = [(step.id, [edit.path for edit in step.edits]) for step in session.steps if step.edits]
    assert changed == [("uncommitted-1", ["cart.py"]), ("uncommitted-2", ["b.py"])]
    assert session.passed_over.total() == 1
