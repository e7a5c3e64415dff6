"""The demo on a part of its real input: rules that nobody here wrote, and violations in what is installed here."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from knowledge.wiring.open import Knowledge
from orchestrator.cli.reports.memory_report import print_demo
from orchestrator.evaluation import demo
from orchestrator.observability.progress import Stages

RULES = 60


@pytest.fixture(autouse=True)
def _a_part_of_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules that are broken most often in installed packages are met; most of the catalogue never is."""
    rules = demo.read_rules()
    often = {"D103", "D101", "E501", "ANN001", "ANN201", "D100", "PLR2004", "Q000", "COM812", "I001", "UP006", "FBT002"}
    some = [rule for rule in rules if rule.code in often]
    some += [rule for rule in rules if rule.code not in often][: RULES - len(some)]
    monkeypatch.setattr(demo, "read_rules", lambda: some)
    monkeypatch.setattr(demo, "_PACKAGES", ("mako",))


def commit_a_fix(repository: Path) -> None:
    """Make a repository with a fix in its history."""
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "init", "-q"], check=True)
    for text, message in (("x = 1\n", "begin"), ("x = 2\n", "fix: the total was wrong by one")):
        (repository / "a.py").write_text(text)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "-m", message], check=True)


@pytest.fixture
def environment_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run from an environment in the current folder, as `make demo` does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(tmp_path / ".venv/bin/hardwon"), "demo"])


@pytest.mark.long
@pytest.mark.usefixtures("environment_here")
async def test_the_demo_learns_rules_and_meets_violations_and_stores_nothing_twice(
    knowledge: Knowledge, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = RULES + 1
    await asyncio.to_thread(commit_a_fix, tmp_path)
    first = await demo.run_demo(knowledge, repository=tmp_path, progress=Stages())
    assert (first.stored, first.already_known, first.entries, first.commits) == (told, 0, told, 1)
    assert 1 <= first.patterns <= told
    assert 5 <= first.violations <= demo.MAX_VIOLATIONS
    assert 0 <= first.hit_at_1 <= first.hit_at_3 <= 1
    assert first.hit_at_3 > 0
    assert 0 < first.query_p50_ms <= first.query_p95_ms

    second = await demo.run_demo(knowledge, repository=tmp_path, progress=Stages())
    assert (second.stored, second.already_known, second.entries) == (0, told, told)
    assert second.patterns == first.patterns
    assert (second.hit_at_1, second.hit_at_3) == (first.hit_at_1, first.hit_at_3)
    assert (await knowledge.stats()).entries == {}, "the demo keeps to a workspace of its own"

    print_demo(second, as_json=False)
    shown = capsys.readouterr().out
    assert f"{told} known already" in shown
    assert second.context in shown
    assert "\nAsk it yourself: .venv/bin/hardwon query failure" in shown, "to be copied into the shell that ran make"


def test_no_rule_gives_its_own_name_away() -> None:
    rules = demo.read_rules()
    assert len(rules) == RULES
    for rule in rules:
        told = demo.entry_of(rule)
        assert rule.name not in (told.failure_description or "").split()
        assert rule.code not in (told.failure_description or "").split()
