"""Reader of aider's chats: .aider.chat.history.md, with a copy of the terminal's text beside it if there is one.

Read with what 0.86.2 wrote. The history has the changes and the commits, but neither what a failing test put out nor
that it passed; the terminal has both. A text file in the same folder that names the same commits is that terminal's.
A test that fails is followed by "Added N lines of output to the chat."; one that passes, by nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.importers.sessions.steps import Edit, Session, Step, StepOutcome, TextBudget

TOOL = "aider"
_STARTED = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")
_VERSION = re.compile(r"Aider v(\d\S*)")
_COMMAND = re.compile(r"(?:\S*/)?aider(?: -|$)")
_COMMIT = re.compile(r"Commit ([0-9a-f]{7,40}) (.*)")
_APPLIED = re.compile(r"Applied edit to (.+)")
_ADDED = re.compile(r"Added \d+ lines? of output to the chat\.")
_FILE_NAME = re.compile(r"(?!```|\s)[^<>|*?`#]{1,300}")
_NO_OUTPUT = re.compile(
    r"(?:Attempt to fix (?:test|lint) errors\?|Tokens: |Add .* to the chat\?|Warning: |https?://\S+$|Cost: ).*"
)
_MAX_EDIT_BYTES = 16 * 1024
_MAX_PROMPT_BYTES = 4 * 1024
_MAX_LINE_CHARS = 1024 * 1024
_MAX_TERMINAL_BYTES = 64 * 1024 * 1024
_MAX_OUTPUT_LINES = 2000
_BETWEEN = "="
"""Mark between the old and the new text of a change, whose lines begin otherwise."""


@dataclass(slots=True, kw_only=True)
class _Round:
    """Changes up to a commit, and what the test behind it put out; `failed`: None where that is not told."""

    commit: str
    edits: list[Edit] = field(default_factory=list)
    task: str | None = None
    failed: bool | None = None
    text: str = ""


@dataclass(slots=True, kw_only=True)
class _Chat:
    session: Session
    budget: TextBudget = field(default_factory=TextBudget)
    started: datetime | None = None
    check: str | None = None
    tests_itself: bool = False
    edits: list[Edit] = field(default_factory=list)
    rounds: list[_Round] = field(default_factory=list)
    task: str | None = None
    block: list[str] | None = None
    named: str = ""


def read_database(path: Path) -> Iterator[Session]:
    """Yield the chats of a history. The terminal's text is looked for in its folder. Raises OSError."""
    chats = _read_history(_lines(path), folder=str(path.absolute().parent))
    commits = {each.commit: each for chat in chats for each in chat.rounds}
    if commits:
        for terminal in _terminals(path):
            _read_terminal(_lines(terminal), commits, {id(each): chat for chat in chats for each in chat.rounds})
    for chat in chats:
        chat.session.steps = _steps(chat)
        yield chat.session


def _lines(path: Path) -> Iterator[str]:
    with path.open("rb") as stream:
        while raw := stream.readline(_MAX_LINE_CHARS):
            yield raw.decode("utf-8", "replace").rstrip("\r\n")


def _terminals(path: Path) -> Iterator[Path]:
    """Yield the text files beside a history that begin as aider's output does."""
    for each in sorted(path.absolute().parent.iterdir()):
        if each.suffix not in {".txt", ".log"} and each.name != "typescript":
            continue
        try:
            if not each.is_file() or each.stat().st_size > _MAX_TERMINAL_BYTES:
                continue
            with each.open("rb") as stream:
                if _VERSION.search(stream.read(64 * 1024).decode("utf-8", "replace")):
                    yield each
        except OSError:
            continue


def _read_history(lines: Iterable[str], *, folder: str | None) -> list[_Chat]:
    chats: list[_Chat] = []
    for line in lines:
        if started := _STARTED.match(line):
            chats.append(_begin_chat(started[1], folder))
        elif chats:
            _read_line(chats[-1], line)
    for chat in chats:
        _leave_uncommitted(chat)
        digest = hashlib.sha256(f"{chat.session.session_id}|{chat.check}|{folder}".encode()).hexdigest()
        chat.session.session_id = f"{chat.session.session_id}-{digest[:8]}"
    return chats


def _leave_uncommitted(chat: _Chat) -> None:
    """Keep the changes that no commit follows, as with `--no-auto-commits`."""
    if chat.edits:
        chat.rounds.append(_Round(commit=f"uncommitted-{len(chat.rounds) + 1}", edits=chat.edits, task=chat.task))
        chat.edits = []


def _begin_chat(started: str, folder: str | None) -> _Chat:
    session = Session(tool=TOOL, session_id=started.replace(" ", "T").replace(":", ""), folder=folder)
    chat = _Chat(session=session)
    try:
        chat.started = datetime.fromisoformat(started).replace(tzinfo=UTC)
    except ValueError:
        session.passed_over["a time that is none"] += 1
    return chat


def _read_line(chat: _Chat, line: str) -> None:
    if chat.block is not None:
        _read_block(chat, chat.block, line)
    elif line.startswith("<<<<<<< SEARCH"):
        chat.block = []
    elif line.startswith("> "):
        _read_note(chat, line[2:].rstrip())
    elif line.startswith("#### "):
        _read_prompt(chat, line[5:].strip())
    elif not line.startswith("```") and _FILE_NAME.fullmatch(line.strip()):
        chat.named = line.strip()


def _read_block(chat: _Chat, block: list[str], line: str) -> None:
    """Read a change: the text that is looked for, then the one that replaces it."""
    if line.startswith(">>>>>>> REPLACE"):
        rows = "\n".join(["@@", *(row for row in block if row != _BETWEEN)])
        chat.edits.append(Edit(path=chat.named, diff=chat.budget.cut(rows, _MAX_EDIT_BYTES)))
        chat.block = None
    elif line == "=======":
        block.append(_BETWEEN)
    elif len(block) < _MAX_OUTPUT_LINES:
        block.append(f"{'+' if _BETWEEN in block else '-'}{line}")


def _read_note(chat: _Chat, note: str) -> None:
    if version := _VERSION.match(note):
        chat.session.version = version[1]
    elif _COMMAND.match(note):
        chat.check, chat.tests_itself = _read_arguments(note)
    elif applied := _APPLIED.match(note):
        known = [edit for edit in chat.edits if edit.path == applied[1]]
        if not known:
            chat.edits.append(Edit(path=applied[1], diff=""))
    elif commit := _COMMIT.match(note):
        chat.rounds.append(_Round(commit=commit[1], edits=chat.edits, task=chat.task))
        chat.edits = []
    elif _ADDED.match(note) and chat.rounds and chat.rounds[-1].failed is None:
        chat.rounds[-1].failed = True


def _read_arguments(line: str) -> tuple[str | None, bool]:
    """Return the test's command of aider's own command line, which is told without quotes."""
    words = line.split(" ")
    if "--test-cmd" not in words:
        return None, "--auto-test" in words
    rest = words[words.index("--test-cmd") + 1 :]
    end = next((at for at, word in enumerate(rest) if at and word.startswith("--")), len(rest))
    return " ".join(rest[:end]).strip("'\"") or None, "--auto-test" in words


def _read_prompt(chat: _Chat, text: str) -> None:
    _leave_uncommitted(chat)
    if text.startswith(("/run ", "/test")):
        chat.session.passed_over["a command of the user's, whose output is not told"] += 1
        return
    if text and not text.startswith("/"):
        chat.task = f"prompt-{len(chat.session.prompts) + 1}"
        chat.session.prompts[chat.task] = chat.budget.cut(text, _MAX_PROMPT_BYTES)


def _read_terminal(lines: Iterable[str], commits: dict[str, _Round], chats: dict[int, _Chat]) -> None:
    """Read what the test behind each commit put out, and whether it was added to the chat as it failed."""
    current: _Round | None = None
    output: list[str] = []

    def finish(*, failed: bool) -> None:
        if current is not None and chats[id(current)].tests_itself:
            text = "\n".join(output).strip("\n")
            if failed or (text and not current.failed):
                current.failed = failed
                current.text = chats[id(current)].budget.cut(text)

    for line in lines:
        if commit := _COMMIT.match(line):
            finish(failed=False)
            current, output = commits.get(commit[1]), []
        elif _ADDED.match(line):
            finish(failed=True)
            current, output = None, []
        elif current is not None and not _NO_OUTPUT.match(line) and len(output) < _MAX_OUTPUT_LINES:
            output.append(line)
    finish(failed=False)


def _steps(chat: _Chat) -> list[Step]:
    """Return a step for each commit, and one for the test behind it."""
    steps: list[Step] = []
    for each in chat.rounds:
        steps.append(
            Step(
                order=len(steps) + 1,
                id=each.commit,
                tool="edit",
                outcome=StepOutcome.OK,
                edits=tuple(each.edits),
                folder=chat.session.folder,
                task=each.task,
                at=chat.started,
            )
        )
        if chat.check is None or not chat.tests_itself:
            continue
        is_told = each.failed is not None and bool(each.text)
        outcome = StepOutcome.UNKNOWN
        if is_told:
            outcome = StepOutcome.FAILED if each.failed else StepOutcome.OK
        steps.append(
            Step(
                order=len(steps) + 1,
                id=f"{each.commit}-test",
                tool="test",
                command=chat.check,
                outcome=outcome,
                exit_code=0 if outcome is StepOutcome.OK else None,
                text=each.text,
                folder=chat.session.folder,
                task=each.task,
                at=chat.started,
            )
        )
    return steps
