"""Every command and snippet of the README and of the pages for beginners, executed as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from hardwon.errors import InvalidInput
from knowledge.memory.rules.validation import first_status, validate
from knowledge.models import AppliesWhen, EntryStatus, EntryType, NewEntry
from knowledge.settings import KnowledgeSettings
from tests.support.processes import Commands

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON, COMMANDS, DOCUMENTS = (
    (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("python.md", "command-line.md", "document-qa.md")
)
MAX_README_LINES = 150


FILLED: dict[str, Any] = {
    "success_verified": True,
    "applies_when": AppliesWhen(tool="ruff"),
    "dead_ends": ("told",),
    "outside_text": True,
}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)


def commands_of(block: str) -> list[str]:
    return [line.removeprefix("$ ") for line in block.splitlines()]


def run(command: list[str], home: Path, **options: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HARDWON_", "OPENAI_"))}
    programs = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment | {"HARDWON_HOME": str(home), "PATH": programs} | options,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def typed(commands: list[str], home: Path) -> dict[str, str]:
    """Type commands into a shell, one after the other; return what each says."""
    said = {}
    for command in commands:
        ran = run(["bash", "-o", "pipefail", "-c", command], home)
        assert ran.returncode == 0, f"{command}: {ran.stderr}"
        said[command] = ran.stdout
    return said


@pytest.mark.long
@pytest.mark.timeout(240)
def test_the_python_of_the_readme_and_then_its_commands_work_one_after_the_other(home: Path) -> None:
    """The program and a command alone, each the owner while it runs; the rest beside a server."""
    (python,) = blocks(README, "python")
    ran = run([sys.executable, "-c", python], home)
    assert ran.returncode == 0, ran.stderr
    assert "- Solution: Treat a missing price as zero and log the product" in ran.stdout

    (console,) = blocks(README, "console")
    alone, *beside = commands_of(console)
    said = typed([alone], home)
    with Commands(home).serving():
        said |= typed(beside, home)
    assert any("Treat a missing price as zero" in text for command, text in said.items() if "query" in command)
    assert "Only the orchestrator queries the memory" in said['hardwon kb ask "Who queries the memory?"']


@pytest.mark.long
@pytest.mark.timeout(240)
def test_the_python_and_the_commands_of_the_pages_for_beginners_work_one_after_the_other(home: Path) -> None:
    (python,) = blocks(PYTHON, "python")
    ran = run([sys.executable, "-c", python], home)
    assert ran.returncode == 0, ran.stderr
    assert "- Solution: Treat a missing price as zero and log the product" in ran.stdout

    (console,) = blocks(COMMANDS, "console")
    commands = commands_of(console)
    assert len(commands) == 10
    add, ask, search = commands_of(blocks(DOCUMENTS, "console")[0])
    alone, beside = commands[:2], commands[2:]
    said = typed(alone, home)
    with Commands(home).serving():
        said |= typed([*beside, add.replace("docs/ README.md", str(ROOT / "README.md")), ask, search], home)
    assert any("Expand, migrate, contract" in text for command, text in said.items() if "query" in command)
    assert "queries the memory" in said[ask]


def test_the_two_commands_of_the_readme_are_targets_that_exist() -> None:
    (commands,) = blocks(README, "")[:1]
    for command in commands.splitlines():
        ran = subprocess.run(["make", "--dry-run", *command.split()[1:]], cwd=ROOT, capture_output=True, check=False)
        assert ran.returncode == 0, ran.stderr


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= MAX_README_LINES


def changed(entry: NewEntry, name: str, value: object) -> NewEntry:
    told: dict[str, Any] = {name: value}
    return replace(entry, **told)


def test_the_fields_that_the_documentation_names_of_each_entry_are_those_that_it_takes_and_needs() -> None:
    found = re.findall(r"^\| `(\w+_\w+)` \| (.*) \| (.*?) ?\| (.*) \|$", COMMANDS, flags=re.MULTILINE)
    rows = [row for row in found if row[0] in set(EntryType)]
    assert [row[0] for row in rows] == list(EntryType)
    (common,) = re.findall(r"^Each takes (.*?) as well\.", COMMANDS, flags=re.DOTALL | re.MULTILINE)
    everywhere = set(re.findall(r"`(\w+)`", common))
    for entry_type, *columns in rows:
        needed, resolving, besides = (re.findall(r"`(\w+)`(?! ?\))", column) for column in columns)
        whole: dict[str, Any] = {
            name: FILLED.get(name, "told") for name in {*needed, *resolving, *besides, *everywhere}
        }
        entry = NewEntry(entry_type=EntryType(entry_type), **whole)
        validate(entry)
        assert first_status(entry) is EntryStatus.STAGED
        for name in needed:
            with pytest.raises(InvalidInput, match=f"{name}: is required"):
                validate(changed(entry, name, None))
        for name in resolving:
            assert first_status(changed(entry, name, None)) is EntryStatus.OPEN
        for name in {field.name for field in fields(NewEntry)} - {*whole, "entry_type", "success_verified"}:
            with pytest.raises(InvalidInput, match="does not belong"):
                validate(changed(entry, name, "told"))


def test_every_setting_is_in_the_documentation() -> None:
    documentation = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`(HARDWON_[A-Z_]+)`", documentation))
    names = {field.alias or f"HARDWON_{name.upper()}" for name, field in KnowledgeSettings.model_fields.items()}
    assert told == names | {"HARDWON_LOG_LEVEL", "HARDWON_PG_HOME"}
    assert set(re.findall(r"`(HARDWON_[A-Z_]+)`", README)) <= told


def test_every_link_of_the_documentation_leads_somewhere() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_version_of_python_in_the_readme_is_the_one_asked_for() -> None:
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    assert asked == ">=3.11"
    assert "Python 3.11 or newer" in README
