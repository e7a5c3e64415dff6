"""`hardwon watch` from a failure to the answer: what it learned is found by the error, as an agent's word."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import hardwon
from tests.support.processes import Commands

BROKEN = "def total(items):\n    return sum(item['price'] for item in items)\n"
FIXED = "def total(items):\n    return sum(item['price'] or 0 for item in items)\n"
TEST = "from cart import total\nassert total([{'price': 2}, {'price': None}]) == 2\n"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "web-shop"
    folder.mkdir()
    (folder / "cart.py").write_text(BROKEN)
    (folder / "check_cart.py").write_text(TEST)
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", folder, *command], check=True, capture_output=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.long
def test_a_mended_check_is_found_by_its_error(commands: Commands, shop: Path) -> None:
    commands.run("stats")  # the owner runs, as it does once anything was asked
    check = (sys.executable, "check_cart.py")
    failed = commands.run("watch", "--", *check)
    assert failed.returncode == 1
    assert "TypeError" in failed.stderr
    shown = json.loads(commands.run("watch", "--json").stdout)
    assert [(each["project_id"], each["exit_code"], each["can_learn"]) for each in shown["open"]] == [
        ("web-shop", 1, True)
    ]
    (shop / "cart.py").write_text(FIXED)
    passed = commands.run("watch", "--", *check)
    assert (passed.returncode, passed.stdout, passed.stderr) == (0, "", "")
    after = commands.run("watch", "--json")
    assert json.loads(after.stdout) == {"open": [], "counts": {"failed": 1, "learned": 1}, "pending": 0}
    commands.run("checkpoint")
    error = "TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'"
    asked = commands.run("query", "failure", "check_cart fails", "--error", error, "--json")
    (pattern, *_) = json.loads(asked.stdout)["patterns"]
    assert "item['price'] or 0" in pattern["solution"]
    with hardwon.connect_sync(settings=commands.environment()) as knowledge:
        entry = knowledge.capture.get(pattern["entry_ids"][0])
    assert entry.low_trust
    assert str(entry.captured_by).startswith("agent:watch-")
