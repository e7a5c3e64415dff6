"""The demo on a part of its real input: rules that nobody here wrote, and violations in what is installed here."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from knowledge.models import PRIOR_WEIGHTS
from knowledge.wiring.open import Knowledge
from orchestrator.cli.reports.evaluation_report import print_demo, print_story_total
from orchestrator.evaluation import demo, story_tasks
from orchestrator.evaluation.story import StoryStep, tell_story
from orchestrator.observability.progress import Stages
from tests.support.entries import capture, failure

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
    shown: list[StoryStep] = []
    first = await demo.run_demo(knowledge, repository=tmp_path, progress=Stages(), show=shown.append)
    assert list(first.story) == shown
    assert first.workspace == "demo"
    assert (first.stored, first.already_known, first.entries, first.commits) == (told, 0, told, 1)
    assert 1 <= first.patterns <= told
    assert 5 <= first.violations <= demo.MAX_VIOLATIONS
    assert 0 <= first.hit_at_1 <= first.hit_at_3 <= 1
    assert first.hit_at_3 > 0
    assert 0 < first.query_p50_ms <= first.query_p95_ms

    second = await demo.run_demo(knowledge, repository=tmp_path, progress=Stages())
    assert (second.stored, second.already_known, second.entries) == (0, told, told)
    assert second.patterns == first.patterns
    assert second.workspace == "demo-2", "the story needs a memory that is empty yet"
    assert [replace(step, pattern_id=None) for step in second.story] == [
        replace(step, pattern_id=None) for step in first.story
    ]
    assert (second.hit_at_1, second.hit_at_3) == (first.hit_at_1, first.hit_at_3)
    assert (await knowledge.stats()).entries == {}, "the demo keeps to a workspace of its own"

    print_story_total(second.story)
    print_demo(second, as_json=False)
    printed = capsys.readouterr().out
    assert "Together: 27 attempts and proposals without memory, 16 with it." in printed
    assert "keyword search (BM25)" in printed
    pattern = next(step.pattern_id for step in second.story if step.pattern_id)
    assert f".venv/bin/hardwon serve, then http://127.0.0.1:8420/w/demo-2/patterns/{pattern}\n" in printed


@pytest.mark.long
async def test_the_story_saves_attempts_and_a_rejection_and_a_wrong_hint_loses_its_place(knowledge: Knowledge) -> None:
    steps = [step async for step in tell_story(knowledge)]
    assert [(step.without, step.with_memory, step.unit) for step in steps] == [
        (2, 2, "attempt"),
        (2, 1, "attempt"),
        (2, 1, "proposal"),
        (6, 5, "attempt"),
        (15, 7, "attempt"),
        (0, 0, "hint"),
    ]
    assert "`text.replace(',', '')`: fails" in steps[3].lines[2], "the wrong hint was believed once"
    assert not any("`text.replace(',', '')`: fails" in line for line in steps[3].lines[3:])
    assert [line.split(": ", 1)[1] for line in steps[4].lines[-2:]] == [
        "Open the file with another encoding: `encoding='cp1252'`. Worked 5 of 5 times",
        "Open the file with another encoding: `encoding='latin-1'`. Worked 2 of 3 times",
    ]
    assert steps[1].pattern_id is not None


@pytest.mark.long
def test_an_agent_of_the_story_tries_its_own_edits_unless_its_context_names_one() -> None:
    task = story_tasks.NEXT_IMPORTS[0]
    error = story_tasks.meet_error(task)
    assert error.startswith("UnicodeDecodeError: 'utf-8' codec can't decode byte 0x80")
    assert len(story_tasks.solve(task, error).tried) == 3
    assert len(story_tasks.solve(task, error, "nothing of use").tried) == 3
    assert story_tasks.solve(task, error, story_tasks.CP1252.steps).tried == (story_tasks.CP1252,)
    assert len(story_tasks.solve(task, error, story_tasks.LATIN_1.steps).tried) == 3


def test_no_rule_gives_its_own_name_away() -> None:
    rules = demo.read_rules()
    assert len(rules) == RULES
    for rule in rules:
        told = demo.entry_of(rule)
        assert rule.name not in (told.failure_description or "").split()
        assert rule.code not in (told.failure_description or "").split()
        assert "``" not in (told.failure_description or "").replace("```", ""), "a name that was taken out left a hole"


@pytest.mark.long
async def test_weights_fitted_to_outcomes_that_were_deleted_are_forgotten_at_the_next_checkpoint(
    knowledge: Knowledge,
) -> None:
    """The story reports ten outcomes, which is enough to fit weights to."""

    async def weights() -> tuple[float, ...]:
        start = await knowledge.stores.records.begin_search([], "nothing", unasked=True, agent_type="coder")
        assert start is not None
        return tuple(start.experience.weights)

    async for _ in tell_story(knowledge):
        pass
    assert await weights() != PRIOR_WEIGHTS
    for project in {each.project_id for each in await knowledge.lists.entries()}:
        await knowledge.capture.delete_project(project)
    await capture(knowledge, failure())
    await knowledge.checkpoints.process_all()
    assert await weights() == PRIOR_WEIGHTS
