"""Findings of static analysis: identity, remedies, regions by columns, lifecycle, and the formats they come in."""

from __future__ import annotations

import gzip
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.errors import InvalidInput
from knowledge.memory.rules.validation import validate
from knowledge.models import NewEntry
from orchestrator.importers.findings.finding import Finding, RunReport, number_findings
from orchestrator.importers.findings.lifecycle import (
    FAILED_RUN,
    NO_LATER_RUN,
    NOT_CHECKED,
    SWITCHED_OFF,
    UNREADABLE,
    Comparison,
    compare,
)
from orchestrator.importers.findings.lint import read_checkstyle, read_code_quality
from orchestrator.importers.findings.paths import Roots, normalize
from orchestrator.importers.findings.regions import (
    ColumnKind,
    Source,
    Span,
    apply_replacement,
    describe_replacement,
    read_span,
)
from orchestrator.importers.findings.remedies import find_remedy
from orchestrator.importers.findings.reports import read_reports
from orchestrator.importers.sarif import read_findings
from tests.support.cases import case_by_case

CASES = Path(__file__).resolve().parents[4] / "shared/cases"


def case(name: str) -> Path:
    file = CASES / name
    if not file.exists():
        pytest.skip(f"{file} is absent: the real reports are kept beside the checkout")
    return file


def read(file: Path, **more: Any) -> list[NewEntry]:
    entries = list(read_findings(file, **more))
    for entry in entries:
        validate(entry)
    return entries


def result(message: str, line: int = 3, file: str = "app/a.py", **more: Any) -> dict[str, Any]:
    region = {"startLine": line, **more.pop("region", {})}
    place = {"physicalLocation": {"artifactLocation": {"uri": file}, "region": region}}
    return {"ruleId": "R1", "message": {"text": message}, "locations": [place], **more}


def sarif(file: Path, *results: dict[str, Any], rule: dict[str, Any] | None = None, **run: Any) -> Path:
    driver = {"name": "lint", "rules": [{"id": "R1", **(rule or {})}]}
    log = {"version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": list(results), **run}]}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(log), encoding="utf-8")
    return file


def compared(before: Path, after: Path, **more: Any) -> Comparison:
    return compare(read_reports([before]).reports, read_reports([after]).reports, **more)


def gone(comparison: Comparison) -> list[str]:
    return [each.message for each in comparison.findings if each.absent]


# The real reports


def test_ruff_is_read_by_columns_and_its_template_is_no_remedy() -> None:
    entries = read(case("ci/ruff-sarif-regions-and-help/ruff_m.sarif"))
    assert len({entry.task_id for entry in entries}) == 13
    steps = {entry.task_id: entry.solution_steps or "" for entry in entries}
    words = "\n".join(steps.values())
    assert "lines 8-9" not in words
    assert "py/app.py line 8: delete" in words
    assert "py/app.py: before line 14 insert\n    if acc is None:\n        acc = []" in words
    assert "py/app.py: replace columns 8-19 of line 18 by `acc is None`" in words
    assert "{name}" not in words
    for entry in entries:
        assert entry.solution_steps != entry.error_message
    assert {entry.technology for entry in entries} == {"python"}


def test_ruff_finds_the_same_findings_before_and_after_an_edit_above() -> None:
    folder = "ci/ruff-sarif-regions-and-help"
    before = {entry.task_id for entry in read(case(f"{folder}/ruff_b.sarif"))}
    after = {entry.task_id for entry in read(case(f"{folder}/ruff_a.sarif"))}
    assert len(after) == 3
    assert after < before


def test_semgrep_without_a_login_has_a_task_for_each_finding_and_no_remedy_but_the_message() -> None:
    entries = read(case("ci/semgrep-same-fingerprint/sg_b.sarif"))
    assert len({entry.task_id for entry in entries}) == len(entries) == 4
    assert [entry.solution_steps for entry in entries] == [None] * 4


def test_bandit_keeps_its_findings_where_the_lines_above_change() -> None:
    before, after = (read(case(f"ci/bandit-sarif/bandit_{run}.sarif")) for run in "ba")
    assert {entry.task_id for entry in after} < {entry.task_id for entry in before}
    assert len({entry.task_id for entry in before}) == len(before) == 7
    matched = read(case("ci/bandit-sarif/bandit_m.sarif"))
    assert {entry.task_id for entry in matched} == {entry.task_id for entry in before}


def test_hadolint_has_no_rules_and_is_read_all_the_same() -> None:
    entries = read(case("ci/hadolint-sarif/hado.sarif"))
    assert len({entry.task_id for entry in entries}) == 4
    assert {(entry.technology, entry.solution_steps) for entry in entries} == {("docker", None)}


def test_cargo_deny_is_told_apart_by_crate_without_the_checkouts_path() -> None:
    before, after = (read(case(f"ci2/cargo-deny-sarif/{name}.sarif")) for name in ("before", "after"))
    assert len({entry.task_id for entry in before}) == 7
    assert {entry.task_id for entry in after} == {entry.task_id for entry in before if "two" in (entry.task_id or "")}
    assert [entry.solution_steps for entry in before] == [None] * 7
    for entry in before:
        assert "/src/app" not in (entry.failure_description or "")


def test_staticcheck_counts_bytes(tmp_path: Path) -> None:
    report = case("ci2/staticcheck-sarif-bytes/before.sarif")
    (without,) = (entry for entry in read(report) if (entry.task_id or "").startswith("S1025"))
    assert (without.solution_steps or "").endswith("sa/sa.go: replace columns 21-44 of line 11 by `name`")
    (tmp_path / ".git").mkdir()
    (tmp_path / "sa").mkdir()
    shutil.copy(report, tmp_path / "before.sarif")
    shutil.copy(case("ci2/staticcheck-sarif-bytes/before.go.txt"), tmp_path / "sa/sa.go")
    entries = {(entry.task_id or "").partition(":")[0]: entry for entry in read(tmp_path / "before.sarif")}
    assert len(entries) == 5
    assert (entries["S1025"].solution_steps or "").endswith('in line 11 replace `fmt.Sprintf("%s", name)` by `name`')
    assert entries["U1000"].solution_steps is None
    after = {entry.task_id for entry in read(case("ci2/staticcheck-sarif-bytes/after.sarif"))}
    assert after == {entries[rule].task_id for rule in ("S1000", "SA6005", "staticcheck")}


# Identity


def test_two_equal_findings_are_two_by_their_order(tmp_path: Path) -> None:
    entries = read(sarif(tmp_path / "r.sarif", result("unused", 9), result("unused", 4)))
    assert [entry.task_id for entry in entries] == ["R1:app/a.py: unused [2]", "R1:app/a.py: unused"]


@case_by_case
def test_a_fingerprint_that_is_none_identifies_nothing(tmp_path: Path, first: Any, second: Any) -> None:
    log = sarif(tmp_path / "r.sarif", result("one", **first), result("two", **second))
    assert [entry.task_id for entry in read(log)] == ["R1:app/a.py: one", "R1:app/a.py: two"]


def test_a_line_number_in_a_message_is_no_identity(tmp_path: Path) -> None:
    (one,) = read(sarif(tmp_path / "a.sarif", result("name is hidden by line 14")))
    (two,) = read(sarif(tmp_path / "b.sarif", result("name is hidden by line 20")))
    assert one.task_id == two.task_id


@given(above=st.integers(0, 500), lines=st.lists(st.integers(1, 400), min_size=1, max_size=8, unique=True))
def test_an_edit_above_keeps_every_identity(above: int, lines: list[int]) -> None:
    def findings(shift: int) -> list[Finding]:
        return [
            Finding(tool="t", rule=f"R{line % 2}", file="a.py", message=f"m{line % 3}", line=line + shift)
            for line in sorted(lines)
        ]

    assert [each.task_id for each in number_findings(findings(0))] == [
        each.task_id for each in number_findings(findings(above))
    ]


@case_by_case
def test_paths_of_every_checkout_meet(path: str, relative: str) -> None:
    assert Roots(project="shop").relative(path) == relative


def test_a_path_is_relative_to_the_repository_around_the_report_and_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "app").mkdir()
    (tmp_path / "app/a.py").write_text("x = 1\n")
    places = ("app/a.py", str(tmp_path / "app/a.py"), (tmp_path / "app/a.py").as_uri(), "file:///ci/of/them/app/a.py")
    tasks = set()
    for number, place in enumerate(places):
        (entry,) = read(sarif(tmp_path / f"out/{number}.sarif", result("unused", file=place)))
        tasks.add(entry.task_id)
    assert tasks == {"R1:app/a.py: unused"}


def test_a_base_that_the_log_names_is_taken_off(tmp_path: Path) -> None:
    place = {"uri": "a.py", "uriBaseId": "APP"}
    bases = {"ROOT": {"uri": "file:///ci/x/"}, "APP": {"uri": "app/", "uriBaseId": "ROOT"}}
    physical = {"physicalLocation": {"artifactLocation": place, "region": {"startLine": 3}}}
    log = sarif(tmp_path / "r.sarif", result("m") | {"locations": [physical]}, originalUriBaseIds=bases)
    assert [entry.task_id for entry in read(log)] == ["R1:app/a.py: m"]


def test_no_file_outside_the_repository_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x\n")
    (tmp_path / "repo/.git").mkdir(parents=True)
    (tmp_path / "repo/link").symlink_to(tmp_path / "secret")
    roots = Roots(repository=tmp_path / "repo")
    assert [roots.read(name) for name in ("../secret", "link", str(tmp_path / "secret"))] == [None] * 3


def test_dots_and_escapes_are_taken_out_of_a_path() -> None:
    assert normalize("./a//b/../c%20d.py") == "a/c d.py"
    assert normalize("C:\\work\\a.cs") == normalize("file:///C:/work/a.cs") == "C:/work/a.cs"


def test_the_project_is_the_option_the_provenance_or_the_repository(tmp_path: Path) -> None:
    (tmp_path / "shop/.git").mkdir(parents=True)
    log = sarif(tmp_path / "shop/r.sarif", result("m"))
    assert [entry.project_id for entry in read(log)] == ["shop"]
    assert [entry.project_id for entry in read(log, project="mine")] == ["mine"]
    known = [{"repositoryUri": "https://git.example.org/acme/web.git"}]
    log = sarif(tmp_path / "shop/r.sarif", result("m"), versionControlProvenance=known)
    assert [entry.project_id for entry in read(log)] == ["web"]


# Remedies


@case_by_case
def test_a_help_without_advice_is_no_remedy(text: str) -> None:
    assert find_remedy([text], [], titles=["name is unused", "Unused code", "R1"]) == ""


@case_by_case
def test_the_part_that_says_what_to_do_is_taken(text: str, remedy: str) -> None:
    assert find_remedy([], [text], titles=["name is unused"]) == remedy


# Regions


@case_by_case
def test_a_replacement_in_words(span: list[Any], text: str, words: str) -> None:
    assert describe_replacement("a.py", to_span(span), text) == words


@case_by_case
def test_a_replacement_in_words_where_the_file_is_at_hand(span: list[Any], text: str, words: str) -> None:
    source = Source(lines=["import os", "größe = f(x)", "", "def g():", "    return größe"])
    assert describe_replacement("a.py", to_span(span), text, source) == words


def to_span(span: list[Any]) -> Span:
    first, column, last, end = span
    return Span(first_line=first, first_column=column, last_line=last, end_column=end)


def test_the_unit_of_columns_is_the_one_under_which_the_fix_makes_sense() -> None:
    line = 's := "größe: " + fmt.Sprintf("%s", name) + rest'
    begin = len(line[: line.index("fmt")].encode()) + 1
    end = begin + len('fmt.Sprintf("%s", name)')
    span = Span(first_line=1, last_line=1, first_column=begin, end_column=end)
    assert read_span(span, Source(lines=[line])) == 'fmt.Sprintf("%s", name)'
    assert read_span(span, Source(lines=[line], column_kind="utf16CodeUnits")) == 't.Sprintf("%s", name) +'
    emoji = Span(first_line=1, last_line=1, first_column=6, end_column=9)
    assert read_span(emoji, Source(lines=["'🐍', abc"], column_kind="utf16CodeUnits")) == " ab"
    assert read_span(emoji, Source(lines=["'🐍', abc"], column_kind="unicodeCodePoints")) == "abc"


TEXT = st.text(st.sampled_from("abß🐍 (\n"), max_size=40)


@given(text=TEXT, data=st.data(), new=st.text(st.sampled_from("xy\n"), max_size=5))
@pytest.mark.parametrize("kind", ["bytes", "utf16CodeUnits", "unicodeCodePoints"])
def test_a_fix_by_columns_gives_the_tools_text(kind: ColumnKind, text: str, data: st.DataObject, new: str) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))

    def place(at: int) -> tuple[int, int]:
        head = text[:at].rpartition("\n")[2]
        units = {"bytes": len(head.encode()), "utf16CodeUnits": len(head.encode("utf-16-le")) // 2}
        return text.count("\n", 0, at) + 1, units.get(kind, len(head)) + 1

    (line, column), (last, end_column) = place(start), place(end)
    span = Span(first_line=line, first_column=column, last_line=last, end_column=end_column)
    lines = text.split("\n")
    assert apply_replacement(lines, span, new, kind) == text[:start] + new + text[end:]
    if line == last and start < end:
        assert read_span(span, Source(lines=lines, column_kind=kind)) == text[start:end]


def test_a_fix_is_never_told_by_a_file_that_is_mended_already(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.py").write_text("x = call(y)\n")
    region = {"startLine": 1, "startColumn": 5, "endLine": 1, "endColumn": 9}
    change = {
        "artifactLocation": {"uri": "a.py"},
        "replacements": [{"deletedRegion": region, "insertedContent": {"text": "z"}}],
    }
    fix: dict[str, Any] = {"fixes": [{"artifactChanges": [change]}]}
    (there,) = read(sarif(tmp_path / "r.sarif", result("m", file="a.py", **fix)))
    (absent,) = read(sarif(tmp_path / "r.sarif", result("m", file="a.py", baselineState="absent", **fix)))
    assert there.solution_steps == "a.py: in line 1 replace `call` by `z`"
    assert absent.solution_steps == "a.py: replace columns 5-9 of line 1 by `z`"


# Lifecycle


def test_a_finding_is_mended_if_its_file_was_looked_at_again(tmp_path: Path) -> None:
    before = sarif(tmp_path / "b.sarif", result("one"), result("two"), result("other", file="app/b.py"))
    comparison = compared(before, sarif(tmp_path / "a.sarif", result("two", 7)))
    assert gone(comparison) == ["one"]
    assert comparison.left_out == {NOT_CHECKED: 1}
    assert gone(compared(before, sarif(tmp_path / "a.sarif", result("two", 7)), same_files=True)) == ["one", "other"]


@case_by_case
def test_what_shows_that_a_file_was_looked_at(tmp_path: Path, before: Any, after: Any, mended: Any) -> None:
    first = sarif(tmp_path / "b.sarif", result("one"), **before)
    comparison = compared(first, sarif(tmp_path / "a.sarif", **after))
    assert gone(comparison) == (["one"] if mended else [])


def test_a_run_that_failed_could_not_parse_or_lacks_the_rule_proves_nothing(tmp_path: Path) -> None:
    before = sarif(tmp_path / "b.sarif", result("one"), result("two"))
    off = [{"executionSuccessful": True, "ruleConfigurationOverrides": [
        {"descriptor": {"id": "R1"}, "configuration": {"enabled": False}}]}]  # fmt: skip
    for reason, after in (
        (FAILED_RUN, sarif(tmp_path / "1", result("two"), invocations=[{"executionSuccessful": False}])),
        (SWITCHED_OFF, sarif(tmp_path / "2", result("two"), invocations=off)),
        (UNREADABLE, sarif(tmp_path / "3", result("two"), result("Syntax error: expected ':'"))),
    ):
        comparison = compared(before, after)
        assert (gone(comparison), comparison.left_out) == ([], {reason: 1})


def test_another_tools_report_proves_nothing(tmp_path: Path) -> None:
    before = sarif(tmp_path / "b.sarif", result("one"))
    after = sarif(tmp_path / "a.sarif", result("two"))
    after.write_text(after.read_text().replace('"lint"', '"other"'))
    comparison = compared(before, after)
    assert (gone(comparison), comparison.left_out) == ([], {NO_LATER_RUN: 1})


def test_of_equal_findings_one_is_gone_and_the_other_is_not(tmp_path: Path) -> None:
    before = sarif(tmp_path / "b.sarif", result("it", 4), result("it", 9))
    comparison = compared(before, sarif(tmp_path / "a.sarif", result("it", 9)))
    assert [(each.line, each.absent) for each in comparison.findings] == [(4, True), (9, False)]
    assert [each.task_id for each in comparison.findings] == ["R1:app/a.py: it", "R1:app/a.py: it [2]"]


def test_findings_of_another_checkout_meet(tmp_path: Path) -> None:
    before = sarif(tmp_path / "b.sarif", result("one", file="/x/ci7/app/a.py"), result("two", file="/x/ci7/app/a.py"))
    after = sarif(tmp_path / "a.sarif", result("two", file="file:///me/dev/app/a.py"))
    comparison = compared(before, after)
    assert [each.message for each in comparison.findings] == ["one", "two"]


def test_a_mutant_by_line_alone_would_be_caught(tmp_path: Path) -> None:
    """An edit above moves all lines: by their lines, both would be gone and both be new."""
    before = sarif(tmp_path / "b.sarif", result("one", 3), result("two", 4))
    comparison = compared(before, sarif(tmp_path / "a.sarif", result("one", 4), result("two", 5)))
    assert (gone(comparison), len(comparison.findings)) == ([], 2)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.booleans()), max_size=12),
    st.integers(0, 9),
)
def test_no_finding_that_is_still_there_is_called_mended(rows: list[tuple[str, str, bool]], shift: int) -> None:
    """The truth: every finding keeps its text and file; `True` says that it was mended."""

    def run(found: list[tuple[str, str, bool]], by: int) -> RunReport:
        return RunReport(
            tool="t",
            findings=[
                Finding(tool="t", rule="R", file=file, message=text, line=at + by)
                for at, (file, text, _) in enumerate(found)
            ],
            checked=frozenset("ab"),
        )

    left = [row for row in rows if not row[2]]
    comparison = compare([run(rows, 1)], [run(left, 1 + shift)])
    mended = sorted((each.file, each.message) for each in comparison.findings if each.absent)
    assert mended == sorted((file, text) for file, text, is_mended in rows if is_mended)
    assert len(comparison.findings) == len(rows)


# Formats


CHECKSTYLE = """<?xml version="1.0" encoding="UTF-8"?>
<checkstyle version="4.3">
<file name="/builds/acme/shop/src/a.js">
<error line="2" column="5" severity="error" message="&apos;x&apos; is unused \x1b[0m" source="eslint.rules.no-unused"/>
<error line="9" severity="ignore" message="m" source="eslint.rules.semi"/>
</file>
<file name="/builds/acme/shop/src/b.js"/>
</checkstyle>"""


def test_checkstyle_is_read_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "lint.out").write_text(CHECKSTYLE)
    (report,) = read_reports([tmp_path / "lint.out"], project="shop").reports
    (found,) = number_findings(report.findings)
    assert found.task_id == "eslint.rules.no-unused:src/a.js: 'x' is unused"
    assert (found.technology, found.line) == ("javascript", 2)
    assert report.checked == {"src/a.js", "src/b.js"}
    assert report.left_out == {"of a severity that is ignored": 1}
    validate(found.entry())


def test_checkstyle_shows_a_file_without_errors_as_checked(tmp_path: Path) -> None:
    (tmp_path / "b.xml").write_text(CHECKSTYLE)
    (tmp_path / "a.xml").write_text('<checkstyle><file name="src/a.js"></file></checkstyle>')
    assert len(gone(compared(tmp_path / "b.xml", tmp_path / "a.xml"))) == 1
    other = '<checkstyle><file name="src/a.js"><error line="1" message="m" source="Squiz.Files"/></file></checkstyle>'
    (tmp_path / "a.xml").write_text(other)
    assert gone(compared(tmp_path / "b.xml", tmp_path / "a.xml")) == []


def issue(text: str, fingerprint: str, line: int = 1) -> dict[str, Any]:
    where = {"path": "./lib/a.rb", "lines": {"begin": line}}
    return {"description": text, "check_name": "Style/Semicolon", "fingerprint": fingerprint, "location": where}


def test_code_quality_is_identified_by_its_text_since_fingerprints_follow_the_line_or_the_order(tmp_path: Path) -> None:
    content = json.dumps([issue("a", "7815696ecbf1c96e"), issue("b", "c0ffee00"), issue("c", "c0ffee01")]).encode()
    tasks = [each.task_id for each in number_findings(read_code_quality(content, tmp_path / "q.json").findings)]
    assert tasks == [f"Style/Semicolon:lib/a.rb: {text}" for text in "abc"]
    (tmp_path / "b.txt").write_bytes(content)
    (tmp_path / "a.txt").write_text(json.dumps([issue("b", "7815696ecbf1c96e", 8), issue("c", "c0ffee00")]))
    assert gone(compared(tmp_path / "b.txt", tmp_path / "a.txt")) == ["a"]


def test_a_fingerprint_shows_that_a_finding_whose_words_changed_is_still_there(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text(json.dumps([issue("12 lines", "7815696ecbf1c96e"), issue("b", "c0ffee00")]))
    (tmp_path / "a.txt").write_text(json.dumps([issue("13 lines", "7815696ecbf1c96e"), issue("b", "c0ffee00")]))
    assert gone(compared(tmp_path / "b.txt", tmp_path / "a.txt")) == []


def test_positions_and_bodies_of_code_climate_are_read(tmp_path: Path) -> None:
    where = {"path": "a.py", "positions": {"begin": {"line": 7, "column": 1}}}
    rows = [
        {"type": "measurement", "name": "lines", "value": 3},
        {"type": "issue", "description": "too long", "check_name": "length", "location": where,
         "content": {"body": "Split the function into smaller ones."}},
    ]  # fmt: skip
    (found,) = read_code_quality(json.dumps(rows).encode(), tmp_path / "q.json").findings
    assert (found.line, found.remedy) == (7, "Split the function into smaller ones.")


def test_reports_in_folders_globs_gzip_and_zip_are_one_run(tmp_path: Path) -> None:
    log = sarif(tmp_path / "in/a.sarif", result("one"))
    (tmp_path / "in/b.sarif.gz").write_bytes(gzip.compress(log.read_bytes()))
    with zipfile.ZipFile(tmp_path / "in/c.zip", "w") as archive:
        archive.writestr("deep/x.json", b"\xef\xbb\xbf" + log.read_bytes())
        archive.writestr("deep/readme.txt", "nothing")
    reading = read_reports([tmp_path / "in"])
    assert (len(reading.reports), reading.left_out) == (3, {"files that are no report of findings": 1})
    assert len(read_reports([tmp_path / "in/*.sarif*"]).reports) == 2


@case_by_case
def test_a_report_that_is_none_is_refused_in_one_sentence(tmp_path: Path, content: str, says: str) -> None:
    file = tmp_path / "r"
    file.write_text(content)
    with pytest.raises(InvalidInput) as refused:
        read_reports([file])
    assert says in refused.value.reason
    assert str(file) in refused.value.reason
    assert "\n" not in refused.value.reason


def test_a_report_of_200_megabytes_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "r.sarif"
    with file.open("wb") as stream:
        stream.truncate(200 * 1000 * 1000)
    with pytest.raises(InvalidInput, match="more than the 100,000,000 bytes allowed"):
        read_reports([file])
    bomb = tmp_path / "r.sarif.gz"
    bomb.write_bytes(gzip.compress(bytes(120_000_000), 1))
    with pytest.raises(InvalidInput, match="more than the 100,000,000 bytes allowed"):
        read_reports([bomb])


def test_checkstyle_with_a_document_type_or_nested_deeply_is_refused(tmp_path: Path) -> None:
    for content in (b"<!DOCTYPE x [<!ENTITY a 'b'>]><checkstyle/>", b"<checkstyle>" * 60):
        with pytest.raises(InvalidInput):
            read_checkstyle(content, tmp_path / "c.xml")


def test_issues_that_end_in_a_zero_byte_are_read_as_a_list(tmp_path: Path) -> None:
    issue = {"type": "issue", "description": "Pin it", "check_name": "DL1", "location": {"path": "Dockerfile"}}
    file = tmp_path / "issues"
    file.write_text("".join(f"{json.dumps(issue | {'check_name': rule})}\0" for rule in ("DL1", "DL2")))
    (report,) = read_reports([file]).reports
    assert [finding.rule for finding in report.findings] == ["DL1", "DL2"]


def test_a_help_of_the_message_and_a_place_is_no_remedy() -> None:
    title = "Ensure no group allows ingress from everywhere"
    assert find_remedy([f"{title}\nResource: aws_security_group.g"], [], titles=[title]) == ""
