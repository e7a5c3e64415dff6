"""Transcripts of Copilot CLI, and opencode's database and lines."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.importers.sessions import copilot, opencode
from orchestrator.importers.sessions.formats import find_transcripts, read_sessions
from orchestrator.importers.sessions.steps import MAIN, Decider, Step, StepOutcome
from tests.unit.orchestrator.sessions import small_transcripts as small
from tests.unit.orchestrator.sessions.small_transcripts import (
    DIFF,
    FAILED,
    FOLDER,
    copilot_call,
    copilot_line,
    copilot_result,
    copilot_start,
    opencode_lines,
    opencode_part,
)


def of_copilot(*lines: str) -> Step:
    (step,) = copilot.read([copilot_start(), *lines]).steps
    return step


def of_opencode(**fields: object) -> Step:
    (step,) = opencode.read(opencode_lines(opencode_part("call_1", **fields))).steps  # type: ignore[arg-type]
    return step


def test_copilot_s_success_says_nothing_and_its_own_line_is_taken_off() -> None:
    text = f"{FAILED}\n<shellId: 3 completed with exit code 1>"
    step = of_copilot(copilot_call("1", command="pytest"), copilot_result("1", 1, text))
    assert (step.outcome, step.exit_code, step.text, step.folder) == (StepOutcome.FAILED, 1, FAILED, FOLDER)
    running = of_copilot(copilot_call("1", command="pytest"), copilot_result("1", None, "<shellId: 3 still running>"))
    assert running.outcome is StepOutcome.UNKNOWN
    assert of_copilot(copilot_call("1", command="pytest")).outcome is StepOutcome.UNKNOWN


def test_copilot_s_command_in_the_background_ends_where_its_output_is_read() -> None:
    session = copilot.read(
        [
            copilot_start(),
            copilot_call("1", command="pytest", mode="async"),
            copilot_result("1", None, "<command started in background with shellId: 4>"),
            copilot_call("2", command="make"),
            copilot_result("2", 0, "done\n<shellId: 5 completed with exit code 0>"),
            copilot_call("3", "read_bash", shellId="4", delay=8),
            copilot_result("3", 1, f"{FAILED}\n<shellId: 4 completed with exit code 1>"),
        ]
    )
    assert [(step.id, step.command, step.outcome, step.exit_code) for step in session.steps] == [
        ("1", "pytest", StepOutcome.FAILED, 1),
        ("2", "make", StepOutcome.OK, 0),
        ("3", None, StepOutcome.OK, None),
    ]
    assert session.steps[0].text == FAILED


def test_copilot_s_sub_agents_are_inside_and_results_are_joined_by_id() -> None:
    session = copilot.read(
        [
            copilot_start(),
            copilot_line("user.message", content="Mend it", transformedContent="Mend it", messageId="m"),
            copilot_call("1", "task", prompt="x"),
            copilot_call("2", agent="sub", command="pytest"),
            copilot_call("3", command="make"),
            copilot_result("3", 0, "done"),
            copilot_result("2", 1, FAILED, agent="sub"),
            copilot_line("tool.execution_complete", toolCallId="1", success=True, result={"content": "x"}),
        ]
    )
    assert [(step.id, step.agent, step.parent, step.outcome, step.task) for step in session.steps] == [
        ("1", MAIN, None, StepOutcome.OK, "m"),
        ("2", "sub", MAIN, StepOutcome.FAILED, "m"),
        ("3", MAIN, None, StepOutcome.OK, "m"),
    ]
    assert (session.version, session.prompts) == ("1.0.102", {"m": "Mend it"})


def test_copilot_s_edits_are_of_tools_that_edit_files_alone() -> None:
    path = f"{FOLDER}/cart.py"
    diff = f"\ndiff --git a{path} b{path}\nindex 0..0\n--- a{path}\n+++ b{path}\n{DIFF}"
    result = {"content": "x", "detailedContent": diff}
    call = copilot_call("1", "edit", path=path, old_str="1", new_str="2")
    done = copilot_line(
        "tool.execution_complete", toolCallId="1", success=True, result=result, fileEdits=[{"path": path}]
    )
    assert [(edit.path, edit.diff) for edit in of_copilot(call, done).edits] == [(path, DIFF.rstrip())]
    other = f"{FOLDER}/price.py"
    both = {"content": "x", "detailedContent": diff + diff.replace(path, other)}
    edits = of_copilot(
        call,
        copilot_line(
            "tool.execution_complete",
            toolCallId="1",
            success=True,
            result=both,
            fileEdits=[{"path": path}, {"path": other}],
        ),
    ).edits
    assert [edit.path for edit in edits] == [path, other]
    shown = copilot_line("tool.execution_complete", toolCallId="1", success=True, result=result)
    assert of_copilot(copilot_call("1", "view", path=path), shown).edits == ()
    failed = copilot_line(
        "tool.execution_complete", toolCallId="1", success=False, error={"message": "No match found", "code": "failure"}
    )
    step = of_copilot(call, failed)
    assert (step.outcome, step.edits) == (StepOutcome.TOOL_ERROR, ())


@pytest.mark.parametrize(
    ("kind", "source", "message", "decider", "reason"),
    [
        ("denied-no-approval-rule-and-could-not-request-from-user", "unattended_fallback", "no", Decider.NOBODY, "no"),
        (
            "denied-interactively-by-user",
            "human_response",
            "The user rejected this tool call.",
            Decider.PERSON,
            "use mv",
        ),
        ("denied-by-rules", "rule", "Denied: shell(rm)", Decider.RULE, "use mv"),
        (None, None, "Denied by preToolUse hook: use the attic", Decider.RULE, "use the attic"),
        (
            None,
            None,
            "denied due to the following rules: `shell(rm)`",
            Decider.RULE,
            "denied due to the following rules: `shell(rm)`",
        ),
        (None, None, "some other reason", Decider.NOBODY, "some other reason"),
    ],
)
def test_copilot_tells_who_denied_a_call(
    kind: str | None, source: str | None, message: str, decider: Decider, reason: str
) -> None:
    lines = [copilot_call("1", command="rm a")]
    if kind is not None:
        result = {"kind": kind, **({} if "could-not" in kind else {"feedback": "use mv"})}
        lines.append(copilot_line("permission.completed", toolCallId="1", result=result, decisionSource=source))
    error = {"message": message, "code": "denied"}
    lines.append(copilot_line("tool.execution_complete", toolCallId="1", success=False, error=error))
    step = of_copilot(*lines)
    assert (step.outcome, step.decided_by, step.reason) == (StepOutcome.DENIED, decider, reason)


def test_copilot_s_hooks_are_handed_out_once_and_unknown_events_are_counted() -> None:
    told = "Mend it\n\n<system_reminder>\nNOTE\n</system_reminder>"
    session = copilot.read(
        [
            copilot_start(),
            copilot_line("hook.end", hookType="userPromptSubmitted", output={"additionalContext": "NOTE"}),
            copilot_line("user.message", content="Mend it", transformedContent=told, messageId="m"),
            copilot_line("user.message", "sub", content="A task", messageId="n", source="agent-x"),
            copilot_line("hologram.shown"),
            json.dumps({"type": "tool.execution_start"}),
        ]
    )
    assert (session.handed_out, session.prompts) == (["NOTE"], {"m": "Mend it"})
    behind = 'Tool "bash" succeeded. Additional guidance from postToolUse hooks:\nNOTE two'
    text = f"{FAILED}\n<shellId: 3 completed with exit code 1>\n\n{behind}"
    after = copilot.read([copilot_start(), copilot_call("1", command="pytest"), copilot_result("1", 1, text)])
    assert (after.handed_out, after.steps[0].text) == (["NOTE two"], FAILED)
    assert dict(session.passed_over) == {"unknown type hologram.shown": 1, "unknown type tool.execution_start": 1}


def test_opencode_s_exit_code_is_in_the_metadata() -> None:
    step = of_opencode(input={"command": "pytest"}, output=FAILED, metadata={"exit": 1})
    assert (step.outcome, step.exit_code, step.text) == (StepOutcome.FAILED, 1, FAILED)
    none = of_opencode(input={"command": "true"}, output="(no output)", metadata={"exit": 0})
    assert (none.outcome, none.text) == (StepOutcome.OK, "")
    why = "shell tool terminated command after exceeding timeout 1000 ms."
    note = f"(no output)\n\n<shell_metadata>\n{why}\n</shell_metadata>"
    stopped = of_opencode(input={"command": "sleep 9"}, output=note, metadata={"exit": None})
    assert (stopped.outcome, stopped.text) == (StepOutcome.TOOL_ERROR, "")
    assert of_opencode(tool="invalid", input={}, output="no such tool").outcome is StepOutcome.TOOL_ERROR
    assert of_opencode(status="running", input={"command": "pytest"}).outcome is StepOutcome.UNKNOWN
    assert of_opencode(tool="wiki_page", input={}, output="text").is_outside


def test_opencode_s_edits_tell_the_project_s_folder() -> None:
    path = f"{FOLDER}/src/cart.py"
    diff = f"Index: {path}\n===\n--- {path}\n+++ {path}\n{DIFF}"
    step = of_opencode(
        tool="edit", input={"filePath": path}, output="done", title="src/cart.py", metadata={"diff": diff}
    )
    assert [(edit.path, edit.diff) for edit in step.edits] == [(path, DIFF.rstrip())]
    assert step.folder == FOLDER
    written = of_opencode(tool="write", input={"filePath": path, "content": "A = 1\n"}, output="done")
    assert [(edit.path, edit.diff) for edit in written.edits] == [(path, "@@\n+A = 1")]


RULES = '[{"permission":"*","action":"allow","pattern":"*"},{"permission":"bash","pattern":"rm *","action":"deny"}]'
REJECTED = "The user rejected permission to use this specific tool call"


@pytest.mark.parametrize(
    ("error", "decider", "reason"),
    [
        (f"The user has specified a rule which prevents you: {RULES}", Decider.RULE, "a rule denies bash rm *"),
        (f"{REJECTED}.", Decider.NOBODY, ""),
        (f"{REJECTED} with the following feedback: use mv", Decider.PERSON, "use mv"),
    ],
)
def test_opencode_tells_who_denied_a_call(error: str, decider: Decider, reason: str) -> None:
    step = of_opencode(status="error", input={"command": "rm a"}, error=error)
    assert (step.outcome, step.decided_by, step.reason) == (StepOutcome.DENIED, decider, reason)
    assert of_opencode(status="error", tool="edit", error="no match").outcome is StepOutcome.TOOL_ERROR


SCHEMA = """
    CREATE TABLE `session` (id text PRIMARY KEY, parent_id text, directory text, version text, permission text);
    CREATE TABLE `message` (id text PRIMARY KEY, session_id text, time_created integer, data text);
    CREATE TABLE `part` (id text PRIMARY KEY, message_id text, session_id text, time_created integer, data text);
"""
HEADLESS = '[{"permission":"question","pattern":"*","action":"deny"}]'


class Database:
    """A database as opencode has it, with one session and a sub-agent's, that stays open as opencode leaves it."""

    def __init__(self, path: Path, permission: str = HEADLESS) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.executescript(f"PRAGMA journal_mode=WAL; {SCHEMA}")
        for session, parent in (("ses_1", None), ("ses_2", "ses_1")):
            row = (session, parent, FOLDER, "1.18.33", permission)
            self.connection.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?)", row)
        messages = [
            ("msg_1", "ses_1", "user", None),
            ("msg_2", "ses_1", "assistant", "msg_1"),
            ("msg_3", "ses_2", "x", None),
        ]
        for number, (message, session, role, parent) in enumerate(messages):
            data = json.dumps({"role": role, "parentID": parent})
            self.connection.execute("INSERT INTO message VALUES (?, ?, ?, ?)", (message, session, number, data))
        self.add("msg_1", "ses_1", {"type": "text", "text": '"Mend it"'})

    def add(self, message: str, session: str, part: dict[str, object] | str) -> None:
        number = self.connection.execute("SELECT count(*) FROM part").fetchone()[0]
        data = part if isinstance(part, str) else json.dumps(part)
        self.connection.execute(
            "INSERT INTO part VALUES (?, ?, ?, ?, ?)", (f"prt_{number}", message, session, number, data)
        )


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "opencode.db")
    made.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with closing(made.connection):
        yield made


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {each.name: (each.read_bytes(), each.stat().st_mtime_ns) for each in folder.iterdir()}


def test_a_database_in_use_is_read_with_its_newest_changes_and_never_touched(
    database: Database, tmp_path: Path
) -> None:
    check = opencode_part("call_1", input={"command": "pytest"}, output=FAILED, metadata={"exit": 1})
    database.add("msg_2", "ses_1", check)
    sub = opencode_part("call_3", input={"command": "pytest a"}, output="x", metadata={"exit": 1})
    database.add("msg_3", "ses_2", sub)
    database.add(
        "msg_2", "ses_1", opencode_part("call_2", status="error", input={"command": "rm a"}, error=f"{REJECTED}.")
    )
    database.connection.execute("BEGIN EXCLUSIVE")  # a write that is not at its end, and locks all others out
    before = state(tmp_path)
    found = find_transcripts([tmp_path])
    assert [each.format.tool for each in found.transcripts] == ["opencode"]
    (session,) = read_sessions(found.transcripts, found.unread)
    assert (found.unread, state(tmp_path)) == ([], before)
    assert [(step.id, step.agent, step.parent, step.outcome) for step in session.steps] == [
        ("call_1", MAIN, None, StepOutcome.FAILED),
        ("call_2", MAIN, None, StepOutcome.DENIED),
        ("call_3", "ses_2", MAIN, StepOutcome.FAILED),
    ]
    assert session.steps[1].decided_by is Decider.NOBODY
    assert (session.folder, session.version, session.prompts) == (FOLDER, "1.18.33", {"msg_1": "Mend it"})
    assert {step.task for step in session.steps[:2]} == {"msg_1"}


def test_a_new_database_whose_tables_stand_in_its_log_alone_is_known(tmp_path: Path) -> None:
    made = Database(tmp_path / "opencode.db")
    with closing(made.connection):
        made.add("msg_2", "ses_1", opencode_part("call_1", input={"command": "pytest"}, metadata={"exit": 0}))
        assert b"CREATE TABLE" not in (tmp_path / "opencode.db").read_bytes()
        found = find_transcripts([tmp_path / "opencode.db"])
        (session,) = read_sessions(found.transcripts, found.unread)
        assert ([step.id for step in session.steps], found.unread) == (["call_1"], [])


def test_a_database_whose_news_stand_in_its_log_alone_has_changed(database: Database, tmp_path: Path) -> None:
    (before,) = find_transcripts([tmp_path]).transcripts
    database.add("msg_2", "ses_1", opencode_part("call_1", input={"command": "pytest"}, metadata={"exit": 0}))
    (after,) = find_transcripts([tmp_path]).transcripts
    assert before.path.stat().st_size == before.size, "the file itself is as it was"
    assert (after.size, after.modified_ns) > (before.size, before.modified_ns)


def test_a_database_at_rest_is_read_where_it_lies(database: Database, tmp_path: Path) -> None:
    database.add("msg_2", "ses_1", opencode_part("call_1", input={"command": "pytest"}, metadata={"exit": 0}))
    database.add("msg_2", "ses_1", "{")
    database.add("msg_2", "ses_1", "[1]")
    database.connection.close()
    before = state(tmp_path)
    folder_mode = tmp_path.stat().st_mode
    tmp_path.chmod(0o500)
    try:
        (session,) = opencode.read_database(tmp_path / "opencode.db")
    finally:
        tmp_path.chmod(folder_mode)
    assert state(tmp_path) == before
    assert [step.outcome for step in session.steps] == [StepOutcome.OK]
    assert dict(session.passed_over) == {"no JSON": 1, "no JSON object": 1}


def test_an_interactive_session_s_refusal_is_a_person_s(tmp_path: Path) -> None:
    made = Database(tmp_path / "opencode.db", permission="null")
    made.add("msg_2", "ses_1", opencode_part("call_1", status="error", input={"command": "rm a"}, error=f"{REJECTED}."))
    with closing(made.connection):
        (session,) = opencode.read_database(tmp_path / "opencode.db")
    assert session.steps[0].decided_by is Decider.PERSON


def test_a_database_s_session_and_its_lines_have_the_same_id(database: Database, tmp_path: Path) -> None:
    part = opencode_part("call_1", input={"command": "pytest"}, metadata={"exit": 0})
    database.add("msg_2", "ses_1", part)
    rows = [{"message_id": "msg_1", "role": "user", "data": {"type": "text", "text": "Mend it"}}]
    rows.append({"message_id": "msg_2", "role": "assistant", "data": part})
    printed = {"type": "tool_use", "sessionID": "ses_1", "part": {**part, "messageID": "msg_2"}}
    (session,) = opencode.read_database(tmp_path / "opencode.db")
    assert session.session_id == "msg_2"
    assert opencode.read(map(json.dumps, rows)).session_id == "msg_2"
    assert opencode.read([json.dumps(printed)]).session_id == "msg_2"


def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    path.write_bytes(b"SQLite format 3\0" + b"CREATE TABLE part (" * 40)
    found = find_transcripts([path])
    assert read_sessions(found.transcripts, found.unread) == []
    assert "not readable as opencode's database" in found.unread[0]


def test_a_line_of_the_small_transcripts_is_known_as_its_tool_s(tmp_path: Path) -> None:
    files = {
        "gemini-cli": small.gemini(),
        "qwen-code": [small.qwen_call("1")],
        "copilot-cli": [copilot_start()],
        "opencode": opencode_lines(opencode_part("call_1")),
    }
    for tool, lines in files.items():
        path = tmp_path / f"{tool}.jsonl"
        path.write_text("\n".join(lines) + "\n")
        assert [each.format.tool for each in find_transcripts([path]).transcripts] == [tool]
