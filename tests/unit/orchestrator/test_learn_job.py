"""Commands of CI jobs, in small logs of the forms that GitHub Actions and GitLab CI write."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hardwon.errors import InvalidInput
from knowledge.models import NewEntry
from orchestrator.importers.jobs import MendedCommands, read_mended_commands

FIRST, SECOND = "1111111aaaa", "2222222bbbb"


def github(*, fails: bool, commit: str, ends: bool = True, test: str = "make test") -> str:
    """Return a log with a checkout, a lint step and a test step."""
    lines = [
        "##[group]Run actions/checkout@v4",
        "with:",
        "##[endgroup]",
        f"HEAD is now at {commit} Change the cart",
        "##[group]Run make lint",
        "\x1b[36;1mmake lint\x1b[0m",
        "shell: /usr/bin/bash -e {0}",
        "##[endgroup]",
        "##[error]src/cart.py:3 line too long",  # an annotation: the step goes on and ends well
        f"##[group]Run {test}",
        f"\x1b[36;1m{test}\x1b[0m",
        "shell: /usr/bin/bash -e {0}",
        "env:",
        "  CI: true",
        "##[endgroup]",
        "collected 3 items",
    ]
    if fails:
        lines += ["E   ValueError: price is None", "##[error]Process completed with exit code 2."]
    if ends:
        lines += ["Post job cleanup.", "[command]/usr/bin/git version"]
    return "\n".join(f"2026-11-27T10:00:{number:02d}.1234567Z {line}" for number, line in enumerate(lines))


def gitlab(*, fails: bool, commit: str) -> str:
    ending = "\x1b[31;1mERROR: Job failed: exit code 1" if fails else "\x1b[32;1mJob succeeded"
    words = ["Error: connect ECONNREFUSED 127.0.0.1:5432"] if fails else ["ok"]
    return "\n".join(
        [
            "Running with gitlab-runner 17.0.0 (abc)",
            f"\x1b[32;1mChecking out {commit} as detached HEAD (ref is main)...\x1b[0;m",
            'section_start:1700000000:step_script\r\x1b[0K\x1b[0K\x1b[36;1mExecuting "step_script" stage\x1b[0;m',
            "\x1b[32;1m$ npm ci\x1b[0;m",
            "added 3 packages",
            "\x1b[32;1m$ npm test\x1b[0;m",
            *words,
            "section_end:1700000001:step_script\r\x1b[0K",
            "\x1b[0;33mUploading artifacts for job...\x1b[0;m",
            f"{ending}\x1b[0;m",
        ]
    )


def learn(tmp_path: Path, before: str, after: str, **more: object) -> tuple[list[NewEntry], MendedCommands]:
    for name, text in (("before.log", before), ("after.log", after)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    told = {"project": "shop", "solution": "Leave prices of None out"} | more
    found = read_mended_commands(tmp_path / "before.log", tmp_path / "after.log", **told)  # type: ignore[arg-type]
    return list(found.entries), found


def test_a_failed_command_of_github_is_learned_where_the_later_run_ended_it_well(tmp_path: Path) -> None:
    before, after = github(fails=True, commit=FIRST), github(fails=False, commit=SECOND)
    (entry,), _ = learn(tmp_path, before, after)
    assert entry.failure_description == "`make test` failed with exit code 2\nE   ValueError: price is None"
    assert (entry.verified_by, entry.success_verified, entry.task_id) == ("make test", True, "make test")
    (open_entry,), _ = learn(tmp_path, before, after, solution=None)
    assert (open_entry.success_verified, open_entry.solution_steps) == (False, None)


def test_a_failed_command_of_gitlab_is_learned_with_its_error(tmp_path: Path) -> None:
    (entry,), _ = learn(tmp_path, gitlab(fails=True, commit=FIRST), gitlab(fails=False, commit=SECOND))
    assert (entry.failure_description or "").startswith("`npm test` failed with exit code 1")
    assert "ECONNREFUSED" in (entry.failure_description or "")


@pytest.mark.parametrize(
    "after",
    [
        github(fails=True, commit=SECOND),
        github(fails=False, commit=FIRST),
        github(fails=False, commit=SECOND, ends=False),
        github(fails=False, commit=SECOND, test="make test-fast"),
        gitlab(fails=False, commit=SECOND),
    ],
    ids=["fails again", "the same commit: flaky", "breaks off", "another command", "another system"],
)
def test_nothing_is_learned_without_a_later_run_of_the_command_that_ended_well(tmp_path: Path, after: str) -> None:
    entries, found = learn(tmp_path, github(fails=True, commit=FIRST), after)
    assert (entries, found.left_out.total()) == ([], 1)


def test_the_commits_between_the_two_runs_are_the_solution(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()

    def git(*arguments: str) -> str:
        who = ("-c", "user.name=dev", "-c", "user.email=dev@example.org")
        done = subprocess.run(["git", *who, *arguments], cwd=shop, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "--quiet", "--initial-branch=main")
    for text in ("return sum(prices)", "return sum(price or 0 for price in prices)"):
        (shop / "cart.py").write_text(text)
        git("add", "cart.py")
        git("commit", "--quiet", "-m", f"Write {text.split()[1]}")
    first, last = git("rev-parse", "HEAD~1"), git("rev-parse", "HEAD")
    before, after = github(fails=True, commit=first[:7]), github(fails=False, commit=last[:7])
    (entry,), _ = learn(tmp_path, before, after, solution=None, repository=shop)
    assert "+return sum(price or 0 for price in prices)" in (entry.solution_steps or "")
    with pytest.raises(InvalidInput, match="lacks the commit 9999999"):
        learn(tmp_path, github(fails=True, commit="9999999"), after, solution=None, repository=shop)


def test_what_is_no_log_of_a_job_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no log of a job"):
        learn(tmp_path, "hello", gitlab(fails=False, commit=SECOND))
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_mended_commands(tmp_path / "absent", tmp_path / "absent", project="shop")
