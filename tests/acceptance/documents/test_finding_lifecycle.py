"""Findings through their life by the command line: open, moved, gone, suppressed; each is one entry."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hardwon.errors import InvalidInput
from tests.support.processes import Commands

CASES = Path(__file__).resolve().parents[4] / "shared/cases"


@pytest.fixture
def workspace(request: pytest.FixtureRequest) -> str:
    return f"findings-{abs(hash(request.node.name)) % 10**9}"


def case(name: str) -> Path:
    file = CASES / name
    if not file.exists():
        pytest.skip(f"{file} is absent: the real reports are kept beside the checkout")
    return file


def open_findings(commands: Commands, workspace: str) -> dict[str, dict[str, Any]]:
    """Return the open entries by the id of their task."""
    shown = commands.here("unresolved", "--workspace", workspace, "--limit", "100")["unresolved"]
    return {row["task_id"]: row for row in shown}


def result(text: str, line: int, **more: Any) -> dict[str, Any]:
    region = {"startLine": line}
    place = {"physicalLocation": {"artifactLocation": {"uri": more.pop("file", "shop/cart.py")}, "region": region}}
    return {"ruleId": "R1", "message": {"text": text}, "locations": [place], **more}


def write(file: Path, *results: dict[str, Any], **run: Any) -> Path:
    driver = {"name": "lint", "rules": [{"id": "R1", "help": {"text": "Bind the name in the query."}}]}
    log = {"version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": list(results), **run}]}
    file.write_text(json.dumps(log), encoding="utf-8")
    return file


def learn(commands: Commands, workspace: str, *typed: str | Path) -> dict[str, Any]:
    answer: dict[str, Any] = commands.here("learn", "sarif", *typed, "--workspace", workspace)
    return answer


@pytest.mark.long
def test_a_finding_that_moved_stays_one_entry_and_a_gone_one_resolves_its_own(
    beside: Commands, tmp_path: Path, workspace: str
) -> None:
    before = write(tmp_path / "before.sarif", result("a is unused", 4), result("b is unused", 9))
    assert learn(beside, workspace, before)["open"] == 2
    after = write(tmp_path / "after.sarif", result("b is unused", 30, baselineState="updated"))
    assert learn(beside, workspace, after) | {"entries": 0} == {
        "accepted": 0, "duplicate": 1, "refused": 0, "open": 0, "entries": 0, "left_out": {}, "unread": [],
    }  # fmt: skip
    learned = learn(beside, workspace, before, "--after", after)
    assert (learned["accepted"], learned["duplicate"], learned["open"]) == (1, 1, 0)
    assert list(open_findings(beside, workspace)) == ["R1:shop/cart.py: b is unused"]


def test_a_finding_whose_fingerprint_follows_the_line_stays_one_entry(
    beside: Commands, tmp_path: Path, workspace: str
) -> None:
    def at(line: int) -> dict[str, Any]:
        return result("a is unused", line, fingerprints={"line/v1": f"{line}a94a8fe5cc"})

    learn(beside, workspace, write(tmp_path / "before.sarif", at(4)))
    learned = learn(beside, workspace, write(tmp_path / "after.sarif", at(30)))
    assert (learned["accepted"], learned["duplicate"]) == (0, 1)


def test_a_finding_in_several_reports_of_a_run_is_one(beside: Commands, tmp_path: Path, workspace: str) -> None:
    one = write(tmp_path / "py311.sarif", result("a is unused", 4))
    two = write(tmp_path / "py312.sarif", result("a is unused", 5), result("b is unused", 9))
    learned = learn(beside, workspace, one, two)
    assert (learned["open"], learned["left_out"]) == (2, {"in another of these reports too": 1})


def test_of_equal_findings_in_a_file_the_one_that_is_gone_is_resolved_and_no_other(
    beside: Commands, tmp_path: Path, workspace: str
) -> None:
    equal = [result("it is unused", line) for line in (4, 9, 14)]
    learn(beside, workspace, write(tmp_path / "before.sarif", *equal))
    gone = {"baselineState": "absent"}
    matched = write(tmp_path / "matched.sarif", result("it is unused", 5), result("it is unused", 9, **gone), equal[2])
    assert learn(beside, workspace, matched)["accepted"] == 1
    texts = [row["failure_description"] for row in open_findings(beside, workspace).values()]
    assert sorted(text.splitlines()[-1] for text in texts) == ["shop/cart.py:14", "shop/cart.py:4"]


def test_a_finding_that_is_suppressed_later_is_neither_mended_nor_new(
    beside: Commands, tmp_path: Path, workspace: str
) -> None:
    before = write(tmp_path / "before.sarif", result("a is unused", 4), result("b is unused", 9))
    hushed = result("a is unused", 4, suppressions=[{"kind": "inSource"}])
    after = write(tmp_path / "after.sarif", hushed, result("b is unused", 9))
    learned = learn(beside, workspace, before, "--after", after)
    assert (learned["accepted"], learned["open"]) == (1, 1)
    assert learned["left_out"] == {"suppressed: somebody decided that they need no fix": 2}


def test_the_solution_of_the_caller_is_learned_for_those_that_are_gone(
    beside: Commands, tmp_path: Path, workspace: str
) -> None:
    before = write(tmp_path / "before.sarif", result("a is unused", 4), result("b is unused", 9))
    after = write(tmp_path / "after.sarif", result("b is unused", 8))
    learn(beside, workspace, before)
    learned = learn(beside, workspace, before, "--after", after, "--solution", "call it in total()")
    (gone,) = (row for row in learned["entries"] if row["outcome"] == "accepted")
    assert gone["status"] == "staged"
    assert list(open_findings(beside, workspace)) == ["R1:shop/cart.py: b is unused"]


def test_one_report_that_cannot_be_read_is_named_and_the_others_are_read(
    beside: Commands, tmp_path: Path, workspace: str
) -> None:
    write(tmp_path / "a.sarif", result("a is unused", 4))
    (tmp_path / "half.sarif").write_text('{"version": "2.1.0", "$schema": "sarif", "runs": [{"tool": {"driver"')
    (tmp_path / "notes.txt").write_text("nothing here")
    learned = learn(beside, workspace, tmp_path)
    assert (learned["open"], learned["refused"]) == (1, 1)
    assert learned["left_out"] == {"files that are no report of findings": 1}
    errors = [row["error"] for row in learned["entries"] if row["outcome"] == "refused"]
    assert "half.sarif is not a SARIF 2.1.0 log: Invalid JSON" in errors[0]
    with pytest.raises(InvalidInput, match="notes"):
        learn(beside, workspace, tmp_path / "notes.txt")


def test_semgrep_without_a_login_has_three_tasks_and_two_resolve_their_own(beside: Commands, workspace: str) -> None:
    learned = learn(beside, workspace, case("reports/semgrep.sarif"))
    assert (learned["accepted"], learned["open"]) == (3, 1)
    assert list(open_findings(beside, workspace)) == ["py.shell-true:app/deploy.py: shell is used in deploy"]


def test_semgreps_open_findings_are_resolved_one_by_one(beside: Commands, tmp_path: Path, workspace: str) -> None:
    text = case("reports/semgrep.sarif").read_text(encoding="utf-8")
    before = tmp_path / "before.sarif"
    before.write_text(text.replace('"baselineState":"absent",', ""), encoding="utf-8")
    assert learn(beside, workspace, before)["open"] == 3
    learned = learn(beside, workspace, case("reports/semgrep.sarif"))
    assert (learned["accepted"], learned["duplicate"], learned["open"]) == (2, 1, 0)
    assert list(open_findings(beside, workspace)) == ["py.shell-true:app/deploy.py: shell is used in deploy"]


def test_staticchecks_fix_keeps_its_words_when_the_finding_is_gone(
    beside: Commands, tmp_path: Path, workspace: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sa").mkdir()
    shutil.copy(case("ci2/staticcheck-sarif-bytes/before.go.txt"), tmp_path / "sa/sa.go")
    for name in ("before.sarif", "after.sarif"):
        shutil.copy(case(f"ci2/staticcheck-sarif-bytes/{name}"), tmp_path / name)
    project = ("--project", "sum")
    assert learn(beside, workspace, tmp_path / "before.sarif", *project)["open"] == 5
    shutil.copy(case("ci2/staticcheck-sarif-bytes/after.go.txt"), tmp_path / "sa/sa.go")
    mended = learn(beside, workspace, tmp_path / "before.sarif", "--after", tmp_path / "after.sarif", *project)
    assert (mended["accepted"], mended["duplicate"], mended["refused"]) == (1, 4, 0)
    assert mended["left_out"] == {"gone, but nothing says what mended them: give --solution or --diff": 1}
    (resolved,) = (row["entry_id"] for row in mended["entries"] if row["outcome"] == "accepted")
    rows = beside.here("unresolved", "--workspace", workspace)["unresolved"]
    assert resolved not in {row["entry_id"] for row in rows}
    assert sorted(row["task_id"].partition(":")[0] for row in rows) == ["S1000", "SA6005", "U1000", "staticcheck"]


def test_cargo_denys_findings_are_told_apart_by_crate_and_stay_open_without_a_solution(
    beside: Commands, workspace: str
) -> None:
    before, after = (case(f"ci2/cargo-deny-sarif/{name}.sarif") for name in ("before", "after"))
    assert learn(beside, workspace, before)["open"] == 7
    learned = learn(beside, workspace, before, "--after", after, "--solution", "name the licence in its manifest")
    assert (learned["accepted"], learned["duplicate"]) == (4, 3)
    assert all("two" in task for task in open_findings(beside, workspace))
