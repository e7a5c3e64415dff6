"""The command `hardwon`, as people and scripts use it: beside a running server, and on its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import click
import pytest
import typer
from typer.testing import CliRunner

from hardwon.errors import HardwonError, InvalidInput, InvalidSetting
from orchestrator.cli.commands.root import app
from tests.support.cases import case_by_case
from tests.support.folders import end_owner
from tests.support.loaded import heavy, loaded, ours
from tests.support.openai_server import OpenAIServer
from tests.support.postgres import create_database, drop_database
from tests.support.processes import HARDWON, SECONDS, Commands, answers, embedding_by, entry, lines, until

REAL_ENTRIES = Path(__file__).resolve().parents[4] / "shared/data/main_job_entries/entries.jsonl"


def every_command() -> dict[tuple[str, ...], click.Command]:
    """Return the commands that do something, by what is typed."""
    found: dict[tuple[str, ...], Any] = {}

    def walk(command: Any, typed: tuple[str, ...]) -> None:
        for name, each in getattr(command, "commands", {}).items():
            walk(each, (*typed, name))
        if not hasattr(command, "commands"):
            found[typed] = command

    walk(typer.main.get_command(app), ())
    return found


@pytest.mark.long
def test_a_command_beside_a_server_loads_neither_stores_nor_documents(beside: Commands) -> None:
    modules = loaded("from orchestrator.cli.commands.root import main; main()", "stats", **beside.environment())
    assert not heavy(modules)
    services = {name for name in ours(modules) if name.startswith("orchestrator.client.")}
    assert services <= {f"orchestrator.client.{name}" for name in ("calls", "fields", "knowledge_client", "table")}


@pytest.mark.long
def test_a_command_loads_no_store_no_model_and_no_server(commands: Commands) -> None:
    program = "from hardwon import programs; programs._run('orchestrator.cli')"
    modules = loaded(program, "query", "task", "x", **commands.environment())
    assert "hardwon.connection" in modules
    server = {"alembic", "asyncpg", "fastapi", "knowledge.wiring", "numpy", "onnxruntime", "openai", "sqlalchemy"}
    assert sorted(modules & server) == []


def test_every_command_tells_its_help_and_takes_json() -> None:
    commands = every_command()
    assert {("capture",), ("query", "task"), ("learn", "git"), ("evaluate", "retrieval")} <= set(commands)
    for typed in commands:
        told = CliRunner().invoke(app, [*typed, "--help"])
        assert told.exit_code == 0, typed
        assert told.stdout.startswith("Usage: "), typed
        assert ("--json" in told.stdout) is (typed != ("mcp",)), typed  # which speaks JSON anyway


def test_the_installed_command_lists_all_its_commands_and_says_nothing_else(beside: Commands) -> None:
    told = beside.run("--help")
    assert (told.returncode, told.stderr) == (0, "")
    for typed in every_command():
        assert f"\n  {typed[0]} " in told.stdout, typed


C = str(UUID(int=1))


@pytest.mark.parametrize(
    "typed",
    [
        ["nonsense"],
        ["query", "nonsense", "x"],
        ["capture"],
        ["stats", "--nonsense"],
        ["context", "a task"],
        ["query", "task", "x", "--max-results", "0"],
        ["query", "task", "x", "--max-results", "many"],
        ["query", "failure", "x", "--min-relevance", "2"],
        ["checkpoint", "--type", "nonsense"],
        ["checkpoint", "--project", "p", "--all"],
        ["checkpoint", "--type", "cancellation"],
        ["outcome", C, C, "--worked", "--failed"],
        ["outcome", C, C],
        ["query", "task", "x", "--fact", "version=1", "--fact", "version=2"],
        ["context", "a task", "--agent", "a", "--fact", "version=1", "--fact", "version=2"],
        ["serve", "--port", "70000"],
        ["learn", "git", ".", "--limit", "0"],
        ["learn", "junit", "a.xml", "b.xml", "--solution", "x", "--diff", "y"],
        ["learn", "junit", "a.xml"],
        ["learn", "junit", "a.xml", "b.xml", "--before", "c.xml"],
    ],
)
def test_a_usage_error_is_told_on_standard_error_with_exit_code_2(typed: list[str]) -> None:
    told = CliRunner().invoke(app, typed)
    assert (told.exit_code, told.stdout) == (2, "")
    assert told.stderr.startswith("Usage: ")


def test_who_learns_nothing_is_told_what_would_have_been_learned(beside: Commands, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    made = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*made, "commit", "-q", "--allow-empty", "-m", "begin"], check=True)
    ended = beside.run("learn", "git", tmp_path)
    assert ended.stdout.endswith("0 accepted, 0 duplicate, 0 refused\n")
    assert "no commit says that it fixes something (fix, bug" in ended.stderr
    assert "left out: 1 without changes" in ended.stderr
    assert "there is no line to capture" in beside.run("capture", "-").stderr


def test_importers_and_upkeep_print_one_json_document_too(beside: Commands, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    made = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", "init", "-q", repository], check=True)
    for text, message in (("x = 1\n", "begin"), ("x = 2\n", "fix: the total was wrong by one")):
        (repository / "a.py").write_text(text)
        subprocess.run([*made, "add", "."], check=True)
        subprocess.run([*made, "commit", "-q", "-m", message], check=True)
    learned = beside.here("learn", "git", repository, "--workspace", "learn")
    assert learned["accepted"] == 1
    assert sum(learned["left_out"].values()) == 1, "the first commit"

    finding = {"ruleId": "R1", "message": {"text": "an unused name"}}
    report = {"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "lint"}}, "results": [finding]}]}
    (tmp_path / "report.sarif").write_text(json.dumps(report))
    assert beside.here("learn", "sarif", tmp_path / "report.sarif", "--workspace", "learn")["open"] == 1

    for name, told in (("before.xml", "<failure>E</failure>"), ("after.xml", "")):
        (tmp_path / name).write_text(f'<testsuite><testcase name="test_total">{told}</testcase></testsuite>')
    mended = ("learn", "junit", tmp_path / "before.xml", tmp_path / "after.xml", "--workspace", "learn")
    assert beside.here(*mended, "--project", "shop")["open"] == 1
    assert beside.here(*mended, "--project", "shop", "--solution", "mend it")["accepted"] == 1
    options = (
        "--before",
        tmp_path / "after.xml",
        "--before",
        tmp_path / "before.xml",
        "--after",
        tmp_path / "before.xml",
    )
    left = beside.here("learn", "junit", *options, "--workspace", "learn", "--project", "shop")
    assert (left["accepted"], left["left_out"], left["unread"]) == (0, {"still_fails": 1}, [])

    of = {"pull_request_url": "https://api.github.com/repos/shop/cart/pulls/7", "state": "CHANGES_REQUESTED"}
    (tmp_path / "reviews.json").write_text(json.dumps([{**of, "id": 1, "body": "No floats"}, {**of, "id": 2}]))
    decided = beside.here("learn", "reviews", tmp_path / "reviews.json", "--workspace", "learn")
    assert (decided["open"], decided["refused"]) == (1, 1)
    assert beside.here("migrate") == {"changed": False}


def test_an_error_is_one_sentence_on_standard_error_with_exit_code_1(beside: Commands, tmp_path: Path) -> None:
    assert beside.refused("query", "failure", " ", "--json") == "failure_description: is required"
    assert "cannot be read" in beside.refused("evaluate", "retrieval", tmp_path)


def test_errors_name_what_was_given(beside: Commands, tmp_path: Path) -> None:
    for typed, named in (
        (("query", "task", "x", "--workspace", " "), "workspace: is empty or blank"),
        (("learn", "git", tmp_path), str(tmp_path)),
        (("learn", "sarif", tmp_path / "none.sarif"), "none.sarif"),
        (("learn", "junit", tmp_path / "none.xml", tmp_path / "none.xml"), "none.xml"),
        (("learn", "reviews", tmp_path / "none.json"), "none.json"),
    ):
        with pytest.raises(HardwonError, match=named):
            beside.here(*typed)


@pytest.mark.long
def test_people_read_results_on_standard_output_and_progress_on_standard_error(beside: Commands) -> None:
    workspace = ("--workspace", "people")
    captured = beside.run("capture", "-", *workspace, told=lines([entry(), {"entry_type": "poem"}]))
    named, counted = captured.stdout.splitlines()
    assert (captured.returncode, counted) == (1, "1 accepted, 0 duplicate, 1 refused")
    assert re.fullmatch(r"line 1 accepted: [0-9a-f-]{36} \(staged\)", named)
    assert captured.stderr.splitlines()[0] == "Capturing"
    assert captured.stderr.splitlines()[1].startswith("line 2 refused: ")
    embedded = beside.run("checkpoint", *workspace)
    assert embedded.stdout == "1 embedded (1 new pattern, 0 joined one)\n"
    assert embedded.stderr.startswith("Embedding\n")
    shown = CliRunner(env=beside.environment())
    asked = shown.invoke(app, ["query", "failure", "empty cart", "--min-relevance", "0", *workspace])
    assert "Solution: treat a missing price as zero" in asked.stdout
    assert asked.stderr == ""


@pytest.mark.long
def test_refused_lines_are_named_with_their_field_and_do_not_stop_the_rest(beside: Commands, tmp_path: Path) -> None:
    big = 64 * 1024
    numbered: list[tuple[str | bytes, Any]] = [
        (lines([entry()]), None),
        ("\n", ...),
        ("not json\n", "line"),
        (b"\xff\xfe\n", "line"),
        ("[1]\n", "entry"),
        ("{}\n", "entry_type"),
        (lines([{"entry_type": "poem"}]), "entry_type"),
        (lines([entry(failure_description="a\ud800b")]), "failure_description"),
        (lines([entry(failure_description="x" * (big + 1))]), "failure_description"),
        (lines([entry(failure_description="x" * big, task_id="1")]), None),
        (lines([entry(**{"un\ud800heard": 1})]), "un\\ud800heard"),
        ("[" * 100_000 + "]" * 100_000 + "\n", "line"),
        ('{"entry_type":' * 100_000 + "1" + "}" * 100_000 + "\n", "line"),
        ('{"project_id": ' + "9" * 5_000 + "}\n", "line"),
        ('"' + "x" * 5_000_000 + '"\n', "line"),
        (lines([entry(task_id="2")]), None),
    ]
    file = tmp_path / "mixed.jsonl"
    file.write_bytes(b"".join(text.encode() if isinstance(text, str) else text for text, _ in numbered))
    expected = {at: field for at, (_, field) in enumerate(numbered, 1) if field is not ...}

    told = beside.here("capture", file, "--workspace", "mixed")
    assert {answer["line"]: answer.get("field") for answer in told["entries"]} == expected
    assert all(answer["error"] for answer in told["entries"] if answer["outcome"] == "refused")
    assert (told["accepted"], told["refused"]) == (3, len(expected) - 3)

    again = beside.json("capture", "-", "--workspace", "mixed", told=file.read_bytes())
    assert (again["accepted"], again["duplicate"]) == (0, 3)
    assert beside.here("stats", "--workspace", "mixed")["entries"] == {"staged": 3}


@pytest.mark.long
def test_entries_that_fill_more_than_one_request_are_all_stored(beside: Commands, tmp_path: Path) -> None:
    text = "x" * 65_000
    told = (entry(failure_description=text, error_message=text, task_id=str(n)) for n in range(200))
    (tmp_path / "large.jsonl").write_text(lines(told))
    assert beside.here("capture", tmp_path / "large.jsonl", "--workspace", "large")["accepted"] == 200


@pytest.mark.parametrize(
    ("file", "reason"), [("none.jsonl", "No such file"), (".", "Is a directory"), ("/proc/self/mem", "Input/output")]
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(home: Path, file: str, reason: str) -> None:
    """Before any store is opened: none of them is made here."""
    with pytest.raises(InvalidInput, match=f"cannot be read: {reason}") as refused:
        Commands(home).here("capture", file)
    assert refused.value.field == file
    assert not list(home.iterdir())


@pytest.mark.long
def test_text_is_utf_8_whatever_the_locale_says(beside: Commands) -> None:
    workspace = ("--workspace", "locale")
    told = "\ufeff" + json.dumps(entry(failure_description="Größe → 0", project_id="ü"), ensure_ascii=False)
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    assert beside.json("capture", "-", *workspace, told=told, **ascii_only)["accepted"] == 1
    assert beside.json("capture", "-", *workspace, told=told)["duplicate"] == 1
    beside.here("checkpoint", *workspace)
    asked = ("query", "failure", "Groesse", "--min-relevance", "0", *workspace)
    assert beside.json(*asked, **ascii_only)["patterns"][0]["problem"] == "Größe → 0"
    assert "Gr\\xf6\\xdfe" in beside.run(*asked, **ascii_only).stdout


@pytest.mark.long
def test_output_that_nobody_reads_to_its_end_is_no_error(beside: Commands) -> None:
    told = lines([{"entry_type": "poem"}] * 5_000)
    with tempfile.TemporaryFile("w+") as standard_input:
        standard_input.write(told)
        standard_input.seek(0)
        with subprocess.Popen(
            [HARDWON, "capture", "-", "--json"],
            stdin=standard_input,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=beside.environment(),
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == b"{\n"
            process.stdout.close()
            assert process.stderr.read() == b""


@pytest.mark.long
@case_by_case
def test_a_stream_that_was_closed_is_told_in_one_sentence(beside: Commands, command: str, code: int, said: str) -> None:
    """As supervisors start programs; it was a trace."""
    typed = command.format(hardwon=HARDWON, python=sys.executable)
    done = subprocess.run(["sh", "-c", typed], stderr=subprocess.PIPE, env=beside.environment(), check=False, text=True)
    assert (done.returncode, done.stderr) == (code, said)


@pytest.mark.long
@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-"])
def test_g21_work_is_done_whatever_becomes_of_what_is_told_beside_it(beside: Commands, where: str) -> None:
    """G21. A disk of logs that was full stopped checkpoints, captures and the server, which keep theirs elsewhere."""
    told = lines([entry(project_id="beside", run_id=where)])
    typed = f"{HARDWON} capture - --workspace quiet {where} && {HARDWON} checkpoint --workspace quiet {where}"
    done = subprocess.run(
        ["sh", "-c", typed], input=told, stdout=subprocess.PIPE, env=beside.environment(), check=False, text=True
    )
    assert done.returncode == 0
    assert "1 accepted" in done.stdout
    assert "1 embedded" in done.stdout


@pytest.mark.long
def test_tens_of_thousands_of_lines_pass_through_in_little_memory(beside: Commands, tmp_path: Path) -> None:
    """G18: what is read is held a batch at a time, and so are the answers."""

    def most_memory_kb(count: int) -> int:
        file = tmp_path / "many.jsonl"
        with file.open("w") as written:
            for number in range(count):
                written.write(json.dumps(entry(unheard_of="x" * 800, task_id=str(number))) + "\n")
        with (tmp_path / "answers.json").open("wb") as out:
            process = subprocess.Popen([HARDWON, "capture", file, "--json"], stdout=out, env=beside.environment())
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 1, "all are refused"
        assert json.loads((tmp_path / "answers.json").read_bytes())["refused"] == count
        return used.ru_maxrss if sys.platform == "linux" else used.ru_maxrss // 1024

    assert resource.getpagesize()  # the module is there: this is a POSIX test
    assert most_memory_kb(40_000) - most_memory_kb(1_000) < 15_000, "all of it at once would be 40,000 and more"


@pytest.mark.long
def test_lines_of_a_pipe_are_stored_before_it_ends_and_ctrl_c_ends_the_waiting(commands: Commands) -> None:
    with commands.start("capture", "-", "--json") as capturing:
        for number in range(200):  # a batch
            capturing.say(json.dumps(entry(task_id=str(number))))
        until(lambda: answers(commands.home / "hardwon.sock"), seconds=SECONDS)
        until(
            lambda: commands.owner("GET", "/v1/stats")["entries"] == {"staged": 200}
        )  # while the owner waits for more
        began = time.monotonic()
        assert capturing.end(signal.SIGINT) == (130, "", "stopped\n")
        assert time.monotonic() - began < 15
    assert commands.json("stats")["entries"] == {"staged": 200}


@pytest.mark.long
@pytest.mark.skipif(not REAL_ENTRIES.exists(), reason="the stream of real entries is not beside this checkout")
def test_a_stream_of_real_entries_is_taken_whole_and_once(beside: Commands) -> None:
    rows = [json.loads(line) for line in REAL_ENTRIES.read_text(encoding="utf-8").splitlines()]
    kept: Counter[bool] = Counter()
    for row in rows:
        needed = {"failure": "failure", "gate_rejection": "feedback", "approval": "output"}[row["type"]]
        kept[bool((row.get(needed) or "").strip())] += 1

    told = beside.here("capture", REAL_ENTRIES, "--workspace", "real")
    counts = {name: told[name] for name in ("accepted", "duplicate", "refused", "open")}
    sys.stdout.write(f"{counts}\n")
    refused = [answer for answer in told["entries"] if answer["outcome"] == "refused"]
    assert len(refused) == kept[False], refused[:3]
    assert told["accepted"] + told["duplicate"] == kept[True]

    again = beside.here("capture", REAL_ENTRIES, "--workspace", "real")
    assert (again["accepted"], again["duplicate"]) == (0, kept[True])
    assert sum(beside.here("stats", "--workspace", "real")["entries"].values()) == told["accepted"]


@pytest.mark.harness
@pytest.mark.long
def test_retrieval_is_measured_in_a_throwaway_data_directory(beside: Commands, tmp_path: Path) -> None:
    """A record that joined another's pattern, with which it shares text and resolution, is found with it."""
    corpus = [("a", "the cart total is wrong"), ("b", "the login page hangs"), ("c", "dates are off by one")]
    corpus += [("the page", "the page is blank"), ("the  page", "the page is blank")]
    (tmp_path / "corpus.jsonl").write_text(lines({"id": id_, "text": text} for id_, text in corpus))
    (tmp_path / "queries.jsonl").write_text(lines({"id": f"q{id_}", "text": text} for id_, text in corpus))
    (tmp_path / "qrels.jsonl").write_text(lines({"query_id": f"q{id_}", "relevant_ids": [id_]} for id_, _ in corpus))
    told = beside.json("evaluate", "retrieval", tmp_path)
    assert told.pop("query_p50_ms") > 0
    assert told == {
        "queries": 5, "documents": 5, "hit_at_1": 1.0, "hit_at_3": 1.0, "hit_at_10": 1.0, "mrr_at_10": 1.0,
    }  # fmt: skip
    assert "corpus" not in beside.here("stats")


@case_by_case
def test_a_labelled_set_that_is_not_in_form_is_refused_with_its_file_line_and_field(
    beside: Commands, tmp_path: Path, file: str, row: object, said: str
) -> None:
    """Somebody's own set: a field by another name was a trace, a text in place of a list a wrong figure."""
    (tmp_path / "corpus.jsonl").write_text(lines([{"id": "a", "text": "the cart total is wrong"}]))
    (tmp_path / "queries.jsonl").write_text(lines([{"id": "q", "text": "cart total"}]))
    (tmp_path / "qrels.jsonl").write_text(lines([{"query_id": "q", "relevant_ids": ["a"]}]))
    (tmp_path / file).write_text(lines([row]))
    assert said in beside.refused("evaluate", "retrieval", tmp_path)


def test_the_doctor_names_what_is_well_and_what_is_not(beside: Commands) -> None:
    well = beside.here("doctor")
    assert well["well"] is True
    assert [finding["what"] for finding in well["findings"]] == [
        "settings",
        "extras",
        "embedder",
        "stores",
        "clocks",
        "keys",
        "workspaces",
        "seals",
        "index",
        "recall",
        "webhook",
        "backups",
        "a question",
    ]

    def ill(*typed: str, **settings: str) -> str:
        done = CliRunner(env=beside.environment(**settings)).invoke(app, ["doctor", *typed])
        assert (done.exit_code, done.stderr) == (1, "")
        return done.stdout

    told = ill(HARDWON_EMBEDDING_API_KEY="no").splitlines()
    marks = {line.split(":")[0][4:].strip(): line[:4].strip() for line in told}
    names = (
        *("settings", "extras", "stores", "clocks", "keys", "workspaces"),
        *("seals", "index", "recall", "webhook", "backups", "a question"),
    )
    well = dict.fromkeys(names, "ok")
    assert marks == well | {"embedder": "FAIL"}
    broken = ill("--json", HARDWON_TASK_RELEVANCE="7")
    assert json.loads(broken)["well"] is False
    assert "HARDWON_TASK_RELEVANCE" in broken


@pytest.mark.long
def test_a_checkpoint_that_fails_says_why_once(commands: Commands) -> None:
    """The reason was printed twice, first as a line of JSON."""
    commands.json("capture", "-", told=lines([entry()]))
    failed = commands.run("checkpoint", HARDWON_EMBEDDING_API_KEY="another")
    heading, said = failed.stderr.splitlines()
    assert (failed.returncode, failed.stdout, heading) == (1, "", "Embedding")
    assert said.startswith("error: The embedding endpoint ")
    assert "refuses the key (401): set HARDWON_EMBEDDING_API_KEY" in said


@pytest.mark.long
def test_the_doctor_finds_that_the_index_has_fewer_points_than_there_are_patterns(commands: Commands) -> None:
    """One that others with an index of their own share a Postgres with, or that was restored, looked well."""
    told = [entry(task_id=f"{n}", failure_description=f"part {n} fell", solution_steps=f"mend {n}") for n in range(3)]
    commands.json("capture", "-", told=lines(told))
    commands.json("checkpoint")
    drop = (
        "import asyncio\n"
        "from knowledge import open_knowledge\n"
        "async def main():\n"
        "    async with open_knowledge() as k:\n"
        "        space = (await k.stores.spaces.bound()).space\n"
        "        ids = await k.stores.index.ids(space, 'default', after=None, limit=1)\n"
        "        await k.stores.index.delete(space, ids)\n"
        "asyncio.run(main())\n"
    )
    end_owner(commands.home)
    assert commands.python(drop).returncode == 0
    found = {each["what"]: each for each in json.loads(commands.run("doctor", "--json").stdout)["findings"]}
    assert found["stores"]["well"] is False
    assert "the index lacks some" in found["stores"]["said"]
    commands.json("verify", "--repair")
    assert commands.json("doctor")["well"] is True


@pytest.mark.long
def test_an_empty_database_is_migrated_once(postgres_dsn: str, endpoint: OpenAIServer, home: Path) -> None:
    url = asyncio.run(create_database(postgres_dsn))
    try:
        commands = Commands(home, embedding_by(endpoint) | {"HARDWON_DATABASE_URL": url})
        assert commands.json("migrate") == {"changed": True}
        assert commands.here("migrate") == {"changed": False}
        with pytest.raises(InvalidSetting, match="HARDWON_API_URL"):
            commands.here("migrate", HARDWON_API_URL="http://127.0.0.1:1")
    finally:
        asyncio.run(drop_database(url))


@pytest.mark.long
def test_an_open_entry_is_resolved_by_its_id(commands: Commands) -> None:
    unsolved = {"solution_steps": None, "success_verified": False}
    failure = entry(**unsolved)
    rejection = {
        "entry_type": "gate_rejection",
        "project_id": "shop",
        "gate_type": "design",
        "human_feedback": "No plan",
    }
    shown = commands.run("capture", "-", told=lines([failure]))
    assert "1 of them open" in shown.stdout
    assert "hardwon resolve ENTRY" in shown.stderr
    named = commands.json("capture", "-", told=lines([failure, rejection]))
    assert [each["status"] for each in named["entries"]] == ["open", "open"]
    first, second = (each["entry_id"] for each in named["entries"])

    waiting = commands.run("unresolved")
    assert all(told in waiting.stdout for told in (first, second, "gate design", "No plan", "project shop"))
    assert "hardwon resolve" in waiting.stderr
    assert commands.run("unresolved", "--project", "none").stdout == "nothing waits for its resolution\n"
    listed = commands.json("unresolved", "--limit", "1")["unresolved"]
    assert [each["entry_id"] for each in listed] == [second]

    solved: tuple[str, ...] = ("--solution", "Treat it as zero", "--verified-by", "pytest")
    solved += ("--applies-when", "technology=python")
    assert "applies_when.weather" in commands.refused("resolve", first, *solved, "--applies-when", "weather=fine")
    solved += ("--applies-when", "version=>=3.10")
    assert commands.run("resolve", first, *solved).stdout == f"entry {first} is resolved\n"
    assert commands.json("resolve", second, "--revision", "Expand, migrate, contract") == {"entry_id": second}
    assert commands.json("stats")["entries"] == {"staged": 2}
    assert commands.json("unresolved", "--all") == {"unresolved": []}
    assert "not open" in commands.refused("resolve", first, "--solution", "Another", "--verified-by", "pytest")
    for typed in ((), ("--solution", "x"), ("--solution", "x", "--verified-by", "y", "--revision", "z")):
        assert commands.run("resolve", first, *typed).returncode == 2
