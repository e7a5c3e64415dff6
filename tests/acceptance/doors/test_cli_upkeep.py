"""The commands of upkeep, beside a running server and alone: verify, rebuild, reembed, retry-dead, delete."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from hardwon.errors import InvalidInput
from orchestrator.cli.commands.root import app
from tests.support.folders import end_owner
from tests.support.openai_server import OpenAIServer
from tests.support.processes import Commands, embedding_by, entry, lines

WORDS = ["cart", "price", "order", "stock", "invoice", "session", "cache", "queue", "worker", "lock", "token", "file"]


@pytest.fixture
def endpoint() -> Iterator[OpenAIServer]:
    with OpenAIServer(dims=64) as server:
        yield server


@pytest.fixture
def alone(database_url: str, endpoint: OpenAIServer, home: Path) -> Commands:
    """Commands on stores that nobody else has open: each of them is the owner while it runs."""
    return Commands(home, embedding_by(endpoint) | {"HARDWON_DATABASE_URL": database_url})


@pytest.fixture
def beside(alone: Commands) -> Iterator[tuple[Commands, str]]:
    """Commands beside a running server, and its address."""
    with alone.serving() as (_, url):
        yield alone, url


def situations(number: int) -> list[dict[str, object]]:
    """Return so many different failures, two and two alike."""
    places = ((at, at // 2) for at in range(number))
    told = ((f"{at} breaks: the {WORDS[of % 12]} of hall{of} floor{of} row{of}", at) for at, of in places)
    return [entry(failure_description=text, solution_steps=f"mend case {at}", task_id=str(at)) for text, at in told]


def learn(commands: Commands, entries: list[dict[str, object]], tmp_path: Path, *workspace: str) -> None:
    (tmp_path / "entries.jsonl").write_text(lines(entries))
    assert commands.here("capture", tmp_path / "entries.jsonl", *workspace)["accepted"] == len(entries)
    assert commands.here("checkpoint", *workspace)["embedded"] == len(entries)


def decided(commands: Commands) -> list[str]:
    """Return what the log of the whole store tells was done, the first decision first."""
    return [row["what"] for row in reversed(commands.here("audit", "list", "--store")["decisions"])]


REBUILT = {"points": 30, "passages": 0, "embedded": 0, "dry_run": False, "layout_changes": []}


@pytest.mark.long
def test_the_index_is_verified_repaired_and_rebuilt_through_the_owner_and_alone(
    alone: Commands, endpoint: OpenAIServer, tmp_path: Path
) -> None:
    """G14, G15, as an operator sees them."""
    with alone.serving():
        learn(alone, situations(30), tmp_path)
        verified = alone.here("verify")
        assert verified.pop("seals")["problems"] == []
        assert verified == {
            "points": 30, "missing": 0, "orphan": 0, "stale": 0, "mismatched": 0, "repaired": 0, "examples": {},
            "recall": None, "passages": 0, "passages_missing": 0, "passages_orphan": 0, "sound": True,
        }  # fmt: skip
        embedded = endpoint.texts
        assert alone.here("rebuild", "--dry-run") == {**REBUILT, "dry_run": True}
        assert alone.here("rebuild") == REBUILT
        assert endpoint.texts == embedded

    for collection in (alone.home / "index").iterdir():  # what the engine lost while nobody looked
        collection.rename(tmp_path / collection.name)
    told = alone.run("verify")
    sealed, points = told.stdout.splitlines()
    assert told.returncode == 1
    assert sealed.startswith("30 entries as hardwon stored them; vouched for since ")
    assert points == "30 points; 30 missing: hardwon verify --repair repairs them"
    assert told.stderr.startswith("Verifying\nmissing: ")
    repaired = alone.json("verify", "--repair")
    assert (repaired["repaired"], repaired["sound"]) == (30, True)
    said = alone.run("rebuild")
    assert said.stderr.startswith("30 points go back into the index from Postgres, nothing is embedded; queries find")
    assert said.stdout == "30 points are back in the index, 0 of them embedded again\n"


@pytest.mark.long
def test_a_workspace_that_holds_nothing_is_told_of_as_its_name_may_be_mistyped(
    beside: tuple[Commands, str], tmp_path: Path
) -> None:
    """All was well with `--workspace prodd`: nothing there was dead, nothing differed, and nothing was pruned."""
    commands, url = beside
    learn(commands, situations(2), tmp_path, "--workspace", "prod")
    asked = (
        ("verify",), ("stats",), ("unresolved",), ("dead",), ("retry-dead",), ("checkpoint",), ("prune",),
        ("patterns", "list"), ("review", "list"), ("query", "failure", "x"), ("kb", "list"),
    )  # fmt: skip
    for command in asked:
        assert "empty_workspace" not in commands.here(*command, "--workspace", "prod"), command
        assert "empty_workspace" not in commands.here(*command), "where everybody begins"
        assert commands.here(*command, "--workspace", "prodd")["empty_workspace"] == "prodd", command
    said = CliRunner(env=commands.environment()).invoke(app, ["verify", "--workspace", "prodd"])
    told = "workspace prodd is empty: hardwon workspace list names those that are not"
    assert (said.exit_code, said.stderr.splitlines()[0]) == (0, told)
    for name, holds in (("prod", True), ("prodd", False)):
        answer = httpx.get(f"{url}/v1/workspace", headers={"Hardwon-Workspace": name}).json()
        assert answer == {"workspace": name, "holds_anything": holds}
    assert commands.here("workspace", "list")["workspaces"] == ["prod"]


@pytest.mark.long
def test_another_model_is_changed_to_and_back_at_no_cost_and_the_old_vectors_are_dropped_on_request(
    beside: tuple[Commands, str], endpoint: OpenAIServer, tmp_path: Path
) -> None:
    """G22, as an operator sees it; queries of the running server go on with the model in use."""
    commands, _ = beside
    assert not commands.here("reembed", "--model", "test-model", "--forget-old")["switched"]
    assert decided(commands) == []
    learn(commands, situations(40), tmp_path)
    asked = ("query", "failure", "the queue of the cart breaks", "--min-relevance", "0")
    changed = commands.here("reembed", "--model", "another", "--dims", "128")
    assert (changed["switched"], changed["embedded"], changed["from_model"]) == (True, 40, "test-model")
    assert changed["kept"] >= 0.5
    assert commands.here(*asked)["patterns"]
    stats = commands.here("stats")
    assert (stats["embedding_model"], stats["dims"]) == ("another", 128)
    assert (stats["vector_bytes"], stats["unused_vector_bytes"]) == (40 * 2 * (64 + 128), 40 * 2 * 64)

    embedded = endpoint.texts
    back = commands.here("reembed", "--model", "test-model")
    assert (back["switched"], back["embedded"]) == (True, 0)
    assert endpoint.texts == embedded
    assert commands.here("verify")["sound"]

    again = CliRunner(env=commands.environment()).invoke(app, ["reembed", "--model", "test-model", "--forget-old"])
    assert again.stdout.splitlines() == [
        "test-model is in use already: nothing was changed", "the vectors of 1 other models were dropped"
    ]  # fmt: skip
    assert commands.here("stats")["unused_vector_bytes"] == 0
    noted = decided(commands)
    assert noted == ["embedding model changed", "embedding model changed", "vectors of other models dropped"]
    for nothing in (("--model", "test-model"), ("--model", "test-model", "--forget-old")):
        assert not commands.here("reembed", *nothing)["switched"]
    assert decided(commands) == noted
    forward = commands.here("reembed", "--model", "another", "--dims", "128")
    assert (forward["switched"], forward["embedded"]) == (True, 40)


@pytest.mark.long
def test_a_process_that_starts_with_the_old_model_is_told_the_setting_and_the_command(
    alone: Commands, endpoint: OpenAIServer, tmp_path: Path
) -> None:
    (tmp_path / "entries.jsonl").write_text(lines(situations(3)))
    alone.json("capture", tmp_path / "entries.jsonl")
    alone.json("checkpoint")
    said = alone.run("reembed", "--model", "test-model", "--dims", "32", "--force")
    assert said.returncode == 0, said.stderr
    assert "from now on start hardwon with HARDWON_EMBEDDING_MODEL=test-model HARDWON_EMBEDDING_DIMS=32" in said.stderr
    end_owner(alone.home)
    sentence = alone.refused("query", "failure", "x")
    assert "set HARDWON_EMBEDDING_MODEL=test-model and HARDWON_EMBEDDING_DIMS=32 to go on" in sentence
    assert "run `hardwon reembed --model test-model` to change over" in sentence
    dims = {"HARDWON_EMBEDDING_DIMS": "32"}
    assert alone.json("query", "failure", "case", "--min-relevance", "0", **dims)["patterns"]
    bundled = alone.refused("query", "failure", "x", HARDWON_EMBEDDING_MODEL="", HARDWON_EMBEDDING_BASE_URL="")
    assert "text-embedding-3-small" in bundled


@pytest.mark.long
def test_a_key_goes_to_no_address_that_came_with_a_request(beside: tuple[Commands, str], tmp_path: Path) -> None:
    """T15. Whoever may ask for another model must not learn the server's key of its endpoint."""
    commands, url = beside
    learn(commands, situations(3), tmp_path)
    with OpenAIServer(dims=64, key="another key") as thief:
        told = {"model": "another", "base_url": thief.base_url}
        refused = httpx.post(f"{url}/v1/reembed", json=told, timeout=30)
        assert (refused.status_code, refused.json()["title"]) == (502, "EmbedderRejected")
        assert thief.inputs == 0
        given = commands.here(
            "reembed", "--model", "another", "--base-url", thief.base_url, "--force",
            HARDWON_EMBEDDING_API_KEY="another key",
        )  # fmt: skip
        assert given["embedded"] == 3
        assert commands.here("reembed", "--model", "test-model", "--force")["switched"]


@pytest.mark.long
def test_a_model_that_cannot_be_is_refused_by_name(beside: tuple[Commands, str]) -> None:
    for typed, field in (
        (("--model", " "), "model"),
        (("--model", "x", "--base-url", "ftp://x"), "base_url"),
        (("--model", "all-MiniLM-L6-v2", "--revision", "two"), "revision"),
        (("--model", "/a-folder", "--dims", "64"), "dims"),
        (("--model", "all-MiniLM-L6-v2", "--query-prefix", "query: "), "query_prefix"),
    ):
        with pytest.raises(InvalidInput) as refused:
            beside[0].here("reembed", *typed)
        assert refused.value.field == field


@pytest.mark.long
def test_dead_entries_are_shown_with_their_reasons_and_staged_again(
    beside: tuple[Commands, str], endpoint: OpenAIServer, tmp_path: Path
) -> None:
    """G7."""
    commands, _ = beside
    endpoint.poison = "poison"
    (tmp_path / "entries.jsonl").write_text(lines([entry(), entry(failure_description="poison", task_id="2")]))
    commands.here("capture", tmp_path / "entries.jsonl")
    done = CliRunner(env=commands.environment()).invoke(app, ["checkpoint", "--json"])
    report = json.loads(done.stdout)
    assert (report["embedded"], report["dead"], done.exit_code) == (1, 1, 1)
    shown = CliRunner(env=commands.environment()).invoke(app, ["stats"]).stdout
    assert f"entry {report['dead_entries'][0]['entry_id']} is dead: " in shown

    endpoint.poison = None
    assert commands.here("retry-dead") == {"staged": 1}
    assert commands.here("retry-dead") == {"staged": 0}


@pytest.mark.long
def test_what_was_stored_without_redaction_is_redacted_again_in_one_workspace_and_in_all(
    alone: Commands, endpoint: OpenAIServer, tmp_path: Path
) -> None:
    token = "gh" + "p_" + "Ab3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ5"
    told = [entry(failure_description=f"push with {token} fails", task_id=str(number)) for number in range(2)]
    (tmp_path / "entries.jsonl").write_text(lines(told))
    for workspace in ("default", "team"):
        given = ("capture", tmp_path / "entries.jsonl", "--workspace", workspace)
        assert alone.json(*given, HARDWON_REDACTION="off")["accepted"] == 2
        assert alone.json("checkpoint", "--workspace", workspace, HARDWON_REDACTION="off")["embedded"] == 2
    assert "give --again" in alone.run("redact").stderr
    tried = alone.json("redact", "--again", "--dry-run", "--all-workspaces")
    assert {name: report["entries"] for name, report in tried.items()} == {"default": 2, "team": 2}
    shown = alone.run("redact", "--again", "--workspace", "team").stdout
    assert shown == (
        "workspace team: 2 entries, 0 documents and 0 other rows redacted; 2 embedded\n  github-token: 2\n"
    )
    done = alone.json("redact", "--again", "--all-workspaces")
    assert {name: (report["entries"], report["embedded"]) for name, report in done.items()} == {
        "default": (2, 2),
        "team": (0, 0),
    }
    assert alone.json("verify")["points"]
    assert token not in alone.run("export", "--entries", "-").stdout
