"""`hardwon keys`: where nobody serves, beside a server, and through one."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from orchestrator.cli.commands.root import app
from tests.support.folders import end_owner
from tests.support.processes import Commands, entry, free_port, lines


@pytest.mark.long
def test_a_newcomer_makes_a_key_and_serves_beyond_this_machine(commands: Commands) -> None:
    """The sentence of the refusal is what to do, and doing it is enough."""
    refused = commands.refused("serve", "--host", "0.0.0.0", "--port", str(free_port()))
    (told,) = re.findall(r"`hardwon (keys create[^`]*)`", refused)
    made = commands.run(*told.split())
    key = made.stdout.strip()
    assert re.fullmatch(r"hw_[0-9a-f]{12}_[\w-]{43}", key), "alone on standard output, for a pipe"
    assert "not shown again" in made.stderr
    with commands.serving("--host", "0.0.0.0") as (_, open_to_all):
        url = open_to_all.replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(f"{url}/v1/stats").status_code == 401
        far = {"HARDWON_API_URL": url, "HARDWON_API_KEY": key}
        assert commands.json("capture", "-", told=lines([entry()]), **far)["accepted"] == 1
        assert commands.here("stats", **far)["entries"] == {"staged": 1}
        assert "scope admin" in commands.refused("prune", **far)
        assert "scope admin" in commands.refused("keys", "list", **far)
        for refused_key in ("", f"{key}x"):
            done = commands.run("context", "x", "--agent-type", "a", **far | {"HARDWON_API_KEY": refused_key})
            assert (done.returncode, done.stdout) == (1, "Task: x\n"), "what an agent gets is there all the same"
            assert "\ndegraded: " in done.stderr
        assert "hardwon's own commands send HARDWON_API_KEY" in commands.refused(
            "stats", **far | {"HARDWON_API_KEY": ""}
        )
        assert "the form of a key (hw_...)" in commands.refused("stats", **far | {"HARDWON_API_KEY": "secret"})


def test_a_context_is_the_basic_one_where_the_server_of_its_workspace_does_not_answer(commands: Commands) -> None:
    away = {"HARDWON_API_URL": f"http://127.0.0.1:{free_port()}"}
    done = commands.run("context", "x", "--agent-type", "a", "--workspace", "w", **away)
    assert (done.returncode, done.stdout) == (1, "Task: x\n")
    assert "\ndegraded: " in done.stderr


@pytest.mark.long
def test_a_key_that_a_server_without_keys_ignores_is_told(commands: Commands) -> None:
    with commands.serving() as (_, url):
        away = {"HARDWON_API_URL": url, "HARDWON_API_KEY": "of-another-server"}
        told = commands.run("stats", **away)
        assert told.returncode == 0
        assert told.stderr.count(f"hardwon: HARDWON_API_KEY is ignored: {url} has no keys") == 1
        assert "ignored" not in commands.run("stats", HARDWON_API_URL=url).stderr
        commands.here("keys", "create", "--scope", "query")
        assert "ignored" not in commands.run("stats", **away).stderr


@pytest.mark.long
def test_keys_beside_a_running_server_count_at_once(commands: Commands) -> None:
    with commands.serving() as (_, url):
        assert httpx.get(f"{url}/v1/stats").status_code == 200
        assert commands.here("keys", "list") == {"keys": []}
        made = commands.here(
            "keys", "create", "--scope", "query", "--name", "o", "--expires", "90d", "--workspace", "w"
        )
        assert (made["name"], made["scopes"], made["workspace"]) == ("o", ["query"], "w")
        assert httpx.get(f"{url}/v1/stats").status_code == 401
        bearer = {"Authorization": f"Bearer {made['secret']}"}
        assert httpx.get(f"{url}/v1/stats", headers=bearer).json()["workspace"] == "w"
        new = commands.here("keys", "rotate", made["key_id"], "--overlap", "0s")
        assert httpx.get(f"{url}/v1/stats", headers=bearer).status_code == 401
        renewed = {"Authorization": f"Bearer {new['secret']}"}
        assert httpx.get(f"{url}/v1/stats", headers=renewed).status_code == 200
        assert commands.here("keys", "revoke", new["key_id"]) == {"revoked": new["key_id"]}
        assert httpx.get(f"{url}/v1/stats", headers=renewed).status_code == 401
        listed = commands.here("keys", "list")["keys"]
        assert {key["key_id"] for key in listed} == {made["key_id"], new["key_id"]}
        assert "secret" not in str(listed)
        narrow = commands.environment(COLUMNS="80")
        names = ("--name", "orchestrator of the shop", "--workspace", "shop-and-warehouse")
        long = commands.here("keys", "create", "--scope", "capture", "--scope", "query", "--expires", "90d", *names)
        rotated = CliRunner(env=narrow).invoke(app, ["keys", "rotate", long["key_id"]])
        told = " ".join(rotated.stderr.split())
        assert re.search(rf"key {long['key_id']}, which it replaces, works until [0-9: -]+ UTC at most", told)
        shown = CliRunner(env=narrow).invoke(app, ["keys", "list"])
        assert "revoked" in shown.stdout
        assert "expired" in shown.stdout
        for key in commands.here("keys", "list")["keys"]:
            assert key["key_id"] in shown.stdout, "whole, to be copied"
            assert key["created_at"][:16].replace("T", " ") in shown.stdout
        assert (commands.home / "key-pepper").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["create"], "--scope"),
        (["create", "--scope", "root"], "root"),
        (["create", "--scope", "query", "--expires", "soon"], "90d"),
        (["create", "--scope", "query", "--expires", "0d"], "--expires"),
        (["create", "--scope", "query", "--expires", "999999999w"], "--expires"),
        (["rotate", "0" * 12, "--overlap", "-1h"], "overlap"),
        (["rotate", "0" * 12, "--overlap", "36501d"], "--overlap"),
    ],
)
def test_a_wrong_wish_is_a_usage_error(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["keys", *arguments])
    assert done.exit_code == 2
    assert says in done.stderr


@pytest.mark.long
def test_who_makes_a_key_to_documents_without_a_name_is_told_that_it_stands_for_no_user(commands: Commands) -> None:
    def made(*arguments: str) -> Result:
        done = CliRunner(env=commands.environment()).invoke(app, ["keys", "create", "--scope", "documents", *arguments])
        assert done.exit_code == 0, done.output
        return done

    assert "stands for no user" in made().stderr
    nobodys = made("--json")
    assert f"key {json.loads(nobodys.stdout)['key_id']} stands for no user" in nobodys.stderr
    for named in (("--name", "ann"), ("--scope", "admin")):
        assert "stands for no user" not in made(*named).stderr


@pytest.mark.long
def test_a_pepper_that_was_lost_is_told_before_anybody_is_turned_away(commands: Commands) -> None:
    """After a dump was restored without it a server started, was ready, and took every key for unknown."""

    def keys() -> tuple[bool, str]:
        findings: list[dict[str, Any]] = json.loads(commands.run("doctor", "--json").stdout)["findings"]
        (found,) = (each for each in findings if each["what"] == "keys")
        return found["well"], found["said"]

    assert keys()[1].startswith("there are none")
    made = [commands.json("keys", "create", "--scope", "query")["key_id"] for _ in range(2)]
    commands.json("keys", "revoke", made[0])
    assert keys() == (True, "all that have not expired can be used here")
    pepper = commands.home / "key-pepper"
    kept = pepper.read_bytes()
    pepper.unlink()
    end_owner(commands.home)
    well, said = keys()
    assert not well
    assert "because they were made with another pepper: 1. Restore" in said
    with commands.serving() as (running, url):
        assert running.process.stderr is not None
        assert said in running.process.stderr.readline()
        told = json.loads(commands.run("doctor", "--json", HARDWON_API_URL=url).stdout)["findings"]
        assert not any(each["what"] == "keys" and not each["well"] for each in told), "no key works, so nobody may ask"
    pepper.write_bytes(kept)
    end_owner(commands.home)
    assert keys()[0]
