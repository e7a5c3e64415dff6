"""Findings out of SARIF logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hardwon.errors import InvalidInput
from hardwon.validation import MAX_TEXT_BYTES
from knowledge.memory.rules.validation import validate
from knowledge.models import EntryType, NewEntry
from orchestrator.importers.sarif import read_findings
from tests.support.cases import case_by_case, load_tables

RULE = {
    "id": "PY012",
    "name": "SqlInjection",
    "shortDescription": {"text": "SQL built from input."},
    "fullDescription": {"text": "A query is built from text that a user can choose."},
    "help": {"text": "See the page.", "markdown": "Bind the **parameters** of the query."},
    "messageStrings": {"default": {"text": "Query in {0} uses '{1}' {{sic}}."}},
}
RESULT = load_tables("test_learn_sarif")["RESULT"]
FIXED = load_tables("test_learn_sarif")["FIXED"]


def run(*results: Any, **others: Any) -> dict[str, Any]:
    return {
        "tool": {"driver": {"name": "Checker", "version": "1.2", "rules": [RULE]}},
        "automationDetails": {"id": "nightly/2026-11-21"},
        "versionControlProvenance": [{"repositoryUri": "https://git.example.org/acme/web-shop.git"}],
        "results": list(results),
        **others,
    }


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "findings.sarif"


def read(log: Path, *runs: dict[str, Any]) -> list[NewEntry]:
    log.write_text(json.dumps({"$schema": "https://example.org/sarif", "version": "2.1.0", "runs": list(runs)}))
    entries = list(read_findings(log))
    for entry in entries:
        validate(entry)
    return entries


def one(log: Path, result: dict[str, Any], **others: Any) -> NewEntry:
    (entry,) = read(log, run(result, **others))
    return entry


def test_a_finding_becomes_an_open_failure(log: Path) -> None:
    entry = one(log, RESULT)
    assert entry.entry_type is EntryType.FAILURE_SOLUTION
    assert entry.failure_description == (
        "PY012 (SqlInjection)\n"
        "A query is built from text that a user can choose.\n"
        "The query uses name.\n"
        "shop/cart.py:12 in shop.cart.total\n"
        "db.execute(f'select {name}')"
    )
    assert entry.error_message == "The query uses name."
    assert entry.solution_steps == "Bind the **parameters** of the query."
    assert (entry.project_id, entry.technology, entry.run_id) == ("web-shop", "python", "nightly/2026-11-21")
    assert (entry.agent_type, entry.task_type) == ("developer", "bugfix")
    assert entry.task_id == "PY012:39fa2ee980eb94b0:1"


@pytest.mark.parametrize("state", [None, "new", "unchanged", "updated"])
def test_a_finding_that_is_still_there_verifies_nothing_however_good_its_fix(log: Path, state: str | None) -> None:
    entry = one(log, RESULT | FIXED | ({"baselineState": state} if state else {}))
    assert entry.solution_steps
    assert entry.success_verified is False
    assert entry.verified_by is None


def test_a_finding_that_is_gone_verifies_its_remedy_by_that_run(log: Path) -> None:
    entry = one(log, RESULT | FIXED | {"baselineState": "absent"})
    assert entry.success_verified is True
    assert entry.verified_by == "Checker: absent from run nightly/2026-11-21"


def test_a_finding_that_is_gone_without_a_documented_remedy_verifies_nothing(log: Path) -> None:
    entry = one(
        log, RESULT | {"baselineState": "absent"}, tool={"driver": {"name": "Checker", "rules": [{"id": "PY012"}]}}
    )
    assert entry.solution_steps is None
    assert entry.success_verified is False


def test_the_fixes_of_a_finding_go_before_the_help_of_its_rule(log: Path) -> None:
    assert one(log, RESULT | FIXED).solution_steps == (
        "Bind the name.\n"
        "shop/cart.py lines 12-13: replace with\n"
        "db.execute('select $1', name)\n"
        "shop/cart.py line 20: delete"
    )


def test_several_fixes_are_told_as_ways_to_choose_from(log: Path) -> None:
    ways = [{"description": {"text": text}} for text in ("Bind it.", "Remove it.")]
    assert one(log, RESULT | {"fixes": ways}).solution_steps == "Way 1: Bind it.\n\nWay 2: Remove it."


@pytest.mark.parametrize("kind", ["pass", "notApplicable", "informational", "open", "review"])
def test_what_is_no_failure_is_left_out(log: Path, kind: str) -> None:
    assert read(log, run(RESULT | {"kind": kind}, RESULT)) == read(log, run(RESULT))


def test_what_somebody_suppressed_is_left_out_unless_that_was_not_accepted(log: Path) -> None:
    assert read(log, run(RESULT | {"suppressions": [{"kind": "inSource"}]})) == []
    for status in ("underReview", "rejected"):
        assert len(read(log, run(RESULT | {"suppressions": [{"kind": "external", "status": status}]}))) == 1
    assert len(read(log, run(RESULT | {"suppressions": []}))) == 1


def test_a_message_by_id_is_filled_with_its_arguments(log: Path) -> None:
    entry = one(log, RESULT | {"message": {"id": "default", "arguments": ["cart", "name"]}})
    assert entry.error_message == "Query in cart uses 'name' {sic}."


def test_a_message_that_is_filled_over_and_over_takes_no_more_than_can_be_stored(log: Path) -> None:
    """Of a file of 300 KB it took 10 GB."""
    entry = one(log, RESULT | {"message": {"text": "It {0}" + "{0}" * 100_000, "arguments": ["x" * 100_000]}})
    validate(entry)
    assert "\nIt xxx" in (entry.failure_description or "")


def test_a_message_without_arguments_keeps_its_braces(log: Path) -> None:
    assert one(log, RESULT | {"message": {"text": "f'{0}' and {{}}"}}).error_message == "f'{0}' and {{}}"


@case_by_case
def test_a_rule_is_found_however_it_is_named(log: Path, how: dict[str, Any]) -> None:
    bare = {name: value for name, value in RESULT.items() if name not in {"ruleId", "ruleIndex"}}
    assert one(log, bare | how).solution_steps == "Bind the **parameters** of the query."


def test_a_rule_of_an_extension_is_found_there(log: Path) -> None:
    tool = {
        "driver": {"name": "Checker", "rules": [RULE]},
        "extensions": [{"name": "more", "rules": [{"id": "X1", "help": {"text": "Ask the extension."}}]}],
    }
    bare = {name: value for name, value in RESULT.items() if name not in {"ruleId", "ruleIndex"}}
    for how in ({"rule": {"index": 0, "toolComponent": {"index": 0}}}, {"ruleId": "X1"}):
        assert one(log, bare | how, tool=tool).solution_steps == "Ask the extension."


def test_a_bare_result_of_a_bare_tool_is_still_a_failure(log: Path) -> None:
    (entry,) = read(log, {"tool": {"driver": {"name": "Checker"}}, "results": [{"message": {"text": "It broke."}}]})
    assert entry.failure_description == "It broke."
    assert (entry.project_id, entry.task_id, entry.run_id, entry.technology) == ("Checker", None, None, None)


def test_without_a_fingerprint_a_finding_is_known_by_its_rule_file_and_text_and_never_by_its_line(log: Path) -> None:
    bare = {name: value for name, value in RESULT.items() if name != "partialFingerprints"}
    moved = json.loads(json.dumps(bare).replace('"startLine": 12', '"startLine": 90'))
    assert one(log, bare).task_id == one(log, moved).task_id
    assert (one(log, bare).task_id or "").startswith("PY012:shop/cart.py: The query uses name. @")
    assert one(log, RESULT | {"fingerprints": {"stable/v1": "abc"}}).task_id == "PY012:abc"
    far = one(log, RESULT | {"fingerprints": {"stable/v1": "a" * 999 + "1"}}).task_id
    assert far != one(log, RESULT | {"fingerprints": {"stable/v1": "a" * 999 + "2"}}).task_id


def test_the_log_says_which_language_a_file_is_in(log: Path) -> None:
    artifacts = [{"location": {"uri": "shop/cart.py"}, "sourceLanguage": "Cython"}]
    assert one(log, RESULT, artifacts=artifacts).technology == "cython"


def test_a_file_may_be_named_by_its_place_among_the_artifacts(log: Path) -> None:
    location = {"physicalLocation": {"artifactLocation": {"index": 0}, "region": {"startLine": 3}}}
    entry = one(log, RESULT | {"locations": [location]}, artifacts=[{"location": {"uri": "lib/a.rs"}}])
    assert "lib/a.rs:3" in (entry.failure_description or "")
    assert entry.technology == "rust"


def test_what_a_tool_writes_as_null_is_as_if_left_out(log: Path) -> None:
    entry = one(log, RESULT | {"fixes": None, "suppressions": None, "baselineState": None}, artifacts=None)
    assert entry.technology == "python"
    assert read(log, run(results=None), run(RESULT))[0] == entry


def test_runs_come_one_after_the_other(log: Path) -> None:
    second = run(RESULT, automationDetails={"guid": "11111111-2222-3333-4444-555555555555"})
    assert [entry.run_id for entry in read(log, run(RESULT, RESULT), second)] == [
        "nightly/2026-11-21",
        "nightly/2026-11-21",
        "11111111-2222-3333-4444-555555555555",
    ]


def test_text_that_cannot_be_stored_is_made_harmless_and_cut_visibly(log: Path) -> None:
    entry = one(log, RESULT | {"message": {"text": "nul \0 and much more\n" + "ä line\n" * 20_000}})
    assert entry.error_message
    assert entry.error_message.startswith("nul \\x00 and")
    assert entry.error_message.endswith("\n[cut: the SARIF log has more]")
    for text in (entry.error_message, entry.failure_description or ""):
        assert len(text.encode()) <= MAX_TEXT_BYTES


def test_a_log_with_a_byte_order_mark_is_read(log: Path) -> None:
    log.write_text(json.dumps({"version": "2.1.0", "runs": [run(RESULT)]}), encoding="utf-8-sig")
    assert len(list(read_findings(log))) == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "log: Invalid JSON"),
        (b"{not json", "log: Invalid JSON"),
        (b"\xff\xfe{\0}\0", "log: Invalid JSON"),
        (b"[]", "log: Input should be an object"),
        (b"{}", "version: Field required"),
        (b'{"version": "2.0.0", "runs": {}}', "version: Input should be '2.1.0'"),
        (b'{"version": "2.1.0"}', "runs: Field required"),
        (b'{"version": "2.1.0", "runs": [{}]}', "runs.0.tool: Field required"),
        (
            b'{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "x"}}, "results": [{"message": "x"}]}]}',
            "runs.0.results.0.message: Input should be",
        ),
        (b"[" * 100_000, "log: Invalid JSON: recursion limit"),
        (
            b'{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"x"}},"externalPropertyFileReferences":{"results":[1]}}]}',
            "has its results in other files",
        ),
    ],
)
def test_a_file_that_is_no_such_log_is_refused_with_what_is_wrong(log: Path, content: bytes, says: str) -> None:
    log.write_bytes(content)
    with pytest.raises(InvalidInput) as refused:
        read_findings(log)
    assert refused.value.field == "file"
    assert str(log) in refused.value.reason
    assert says in refused.value.reason
    assert "\n" not in refused.value.reason


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    for file, says in ((tmp_path / "missing", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(InvalidInput, match=says) as refused:
            read_findings(file)
        assert refused.value.field == "file"
        assert str(file) in str(refused.value)
