"""Tests that failed and pass again, out of the reports that pytest itself wrote."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hardwon.errors import InvalidInput
from hardwon.validation import MAX_TEXT_BYTES
from knowledge.memory.rules.validation import validate
from knowledge.models import EntryType, NewEntry
from orchestrator.importers.ci_reports import valid_xml
from orchestrator.importers.junit import read_repaired_tests
from tests.support.cases import case_by_case

CODE = "def total(prices):\n    return sum({})\n"
TESTS = """
import pytest
from cart import total

def test_total():
    assert total([1, None]) == 1

@pytest.mark.parametrize("prices", [[None], []])
def test_none(prices):
    assert total(prices) == 0

def test_still_fails():
    assert total([1]) == 2

@pytest.fixture
def broken():
    yield
    total([None])

def test_torn_down(broken):
    pass

@pytest.mark.skip
def test_skipped():
    pass
"""
DIFF = """--- a/cart.py
+++ b/cart.py
@@ -1,2 +1,2 @@
 def total(prices):
-    return sum(prices)
+    return sum(price or 0 for price in prices)
"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The reports of one run on code that is wrong, and of one on code that is mended."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "test_cart.py").write_text(TESTS)
    made = []
    for name, summed in (("before.xml", "prices"), ("after.xml", "price or 0 for price in prices")):
        (folder / "cart.py").write_text(CODE.format(summed))
        command = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder)]
        ran = subprocess.run(
            [*command, f"--junitxml={folder / name}"],
            cwd=folder,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # loading ours takes longer than those tests
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 1, ran.stdout + ran.stderr
        made.append(folder / name)
    return made[0], made[1]


@pytest.fixture
def diff(tmp_path: Path) -> Path:
    (tmp_path / "mend.diff").write_text(DIFF)
    return tmp_path / "mend.diff"


def read(before: Path, after: Path, **told: Any) -> list[NewEntry]:
    entries = list(read_repaired_tests(before, after, **{"project": "shop"} | told).entries)
    for entry in entries:
        validate(entry)
    return entries


def report(folder: Path, body: str, name: str = "report.xml") -> Path:
    file = folder / name
    file.write_text(f"<testsuites><testsuite>{body}</testsuite></testsuites>")
    return file


@pytest.mark.long
def test_tests_that_failed_and_pass_now_are_verified_failures(reports: tuple[Path, Path], diff: Path) -> None:
    entries = read(*reports, diff=diff)
    assert [entry.task_id for entry in entries] == [
        "test_cart::test_total",
        "test_cart::test_none[prices0]",
        "test_cart::test_torn_down",
    ]
    first = entries[0]
    assert (first.entry_type, first.project_id, first.technology) == (EntryType.FAILURE_SOLUTION, "shop", "python")
    assert (first.success_verified, first.verified_by) == (True, "junit after.xml")
    assert first.solution_steps == DIFF.strip("\n")
    assert first.failure_description is not None
    assert first.failure_description.startswith("test_cart::test_total\nTypeError: unsupported operand")
    assert first.error_message is not None
    assert "return sum(prices)" in first.error_message


def test_the_solution_may_be_told_in_words(reports: tuple[Path, Path]) -> None:
    assert {entry.solution_steps for entry in read(*reports, solution="A missing price is zero")} == {
        "A missing price is zero"
    }


def test_without_a_solution_they_are_open_failures(reports: tuple[Path, Path]) -> None:
    entries = read(*reports)
    assert len(entries) == 3
    assert {(entry.success_verified, entry.verified_by, entry.solution_steps) for entry in entries} == {
        (False, None, None)
    }


def test_a_run_that_mends_nothing_teaches_nothing(reports: tuple[Path, Path]) -> None:
    before, after = reports
    assert read(before, before, solution="?") == []
    assert read(after, after, solution="?") == []


def test_the_same_failed_run_is_the_same_run_whenever_the_later_one_is_repeated(
    reports: tuple[Path, Path], tmp_path: Path
) -> None:
    before, after = reports
    again = tmp_path / "after.xml"
    again.write_bytes(after.read_bytes().replace(b'time="0.', b'time="1.'))
    assert read(before, again, solution="Zero") == read(before, after, solution="Zero")


@case_by_case
def test_what_counts_as_failed_and_as_passed(tmp_path: Path, before: str, after: str, learned: int) -> None:
    case = '<testcase classname="C" name="t" file="src/cart.ts">{}</testcase>'
    first = report(tmp_path, case.format(before), "before.xml")
    later = report(tmp_path, case.format(after), "after.xml")
    entries = read(first, later, solution="mend it")
    assert len(entries) == learned
    assert [entry.technology for entry in entries] == ["typescript"] * learned


def test_a_test_that_was_not_run_again_is_left(tmp_path: Path) -> None:
    before = report(tmp_path, '<testcase name="gone"><failure/></testcase>', "before.xml")
    assert read(before, report(tmp_path, '<testcase name="other"/>'), solution="mend it") == []


def test_an_error_in_the_teardown_is_one_of_the_test_that_it_is_listed_beside(tmp_path: Path) -> None:
    twice = '<testcase name="t"/><testcase name="t"><error message="failed on teardown with E">E</error></testcase>'
    once = report(tmp_path, '<testcase name="t"/>', "after.xml")
    (entry,) = read(report(tmp_path, twice), once, solution="mend it")
    assert entry.failure_description == "t\nfailed on teardown with E"
    assert read(report(tmp_path, twice), report(tmp_path, twice, "same.xml"), solution="mend it") == []


def test_a_long_trace_is_cut_within_the_limit_and_says_so(tmp_path: Path) -> None:
    trace = "at ü.py:1\n" * 50_000 + "KeyError: 7"
    before = report(tmp_path, f'<testcase name="t"><failure>{trace}</failure></testcase>', "before.xml")
    (entry,) = read(before, report(tmp_path, '<testcase name="t"/>'), solution="mend it")
    assert entry.error_message is not None
    assert len(entry.error_message.encode()) <= MAX_TEXT_BYTES
    assert "\n[cut: the report has more here]\nat ü.py:1\n" in entry.error_message
    assert entry.error_message.endswith("KeyError: 7")


BOMB = '<!DOCTYPE t [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><testsuites>&b;</testsuites>'
OUTSIDE = '<!DOCTYPE t [<!ENTITY a SYSTEM "file:///etc/passwd">]><testsuites>&a;</testsuites>'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (BOMB, "declares a document type"),
        (OUTSIDE, "declares a document type"),
        ('<!DOCTYPE t SYSTEM "http://127.0.0.1:9/x.dtd"><testsuites/>', "declares a document type"),
        ("<html/>", "begins with <html>"),
        ("<testsuites>", "is not XML"),
        ("", "is not XML"),
        ("PK\x03\x04", "the archive is broken"),
        ('<?xml version="1.0" encoding="klingon"?><testsuites/>', "is not XML"),
        ("<testsuites>&b;</testsuites>", "is not XML"),
        ("<testsuite>" * 60 + "</testsuite>" * 60, "more than 50 deep"),
    ],
)
@pytest.mark.parametrize("which", ["before", "after"])
def test_what_is_wrong_with_a_report_is_said_of_that_one(
    tmp_path: Path, reports: tuple[Path, Path], content: str, said: str, which: str
) -> None:
    wrong = tmp_path / "wrong.xml"
    wrong.write_text(content)
    before, after = (wrong, reports[1]) if which == "before" else (reports[0], wrong)
    with pytest.raises(InvalidInput, match=said) as refused:
        read(before, after, solution="mend it")
    assert refused.value.field == which
    assert "wrong.xml" in refused.value.reason


def test_a_report_above_the_limit_is_refused(reports: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(valid_xml, "MAX_BYTES", 1000)
    with pytest.raises(InvalidInput, match="more than the 1,000 bytes allowed"):
        read(*reports)


@pytest.mark.parametrize(
    ("told", "field", "said"),
    [
        ({"solution": " "}, "solution", "blank"),
        ({"project": ""}, "project", "blank"),
        ({"diff": Path("none.diff")}, "diff", "cannot be read"),
        ({"diff": Path("/dev/null")}, "diff", "is empty"),
    ],
)
def test_what_is_wrong_with_the_rest_is_named(
    reports: tuple[Path, Path], told: dict[str, Any], field: str, said: str
) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        read(*reports, **told)
    assert refused.value.field == field
