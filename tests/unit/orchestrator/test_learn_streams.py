"""Test results as streams of lines, in small inputs of the forms that node, Perl, Go and Rust write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hardwon.errors import InvalidInput
from orchestrator.importers.ci_reports.cases import Run
from orchestrator.importers.ci_reports.proof import Comparison
from orchestrator.importers.ci_reports.stream_readers import find_reader
from orchestrator.importers.junit import display_name, read_repaired_tests

NODE = """TAP version 13
# Subtest: cart
    # Subtest: sums
    {sums} 1 - sums
      ---
      duration_ms: 1.5
      error: '2 == 3'
      stack: |-
        TestContext.<anonymous> (file:///src/cart.test.mjs:2:52)
      ...
    1..1
{sums} 1 - cart
  ---
  error: '1 subtest failed'
  ...
# Subtest: order
    ok 1 - sums
    1..1
ok 2 - order
{later} 3 - later # TODO not yet
ok 4 - off # SKIP no network
1..4
"""
PERL = """{0} 1 - divides
#   Failed test 'divides'
#   at calc.t line 2.
#          got: '3'
#     expected: '4'
ok 2 - counts \\# signs
{0} 3
1..3
"""


def read(text: str) -> Run:
    reader = find_reader(text)
    assert reader is not None
    run = Run()
    reader(text.splitlines(), run, ())
    return run


def mended(before: str, after: str) -> dict[str, str]:
    """Return the tests that are proven to be mended with the words of their failures."""
    found = Comparison(read(before), read(after)).mended_tests()
    return {display_name(each): each.tally.failures[0].message for each in found}


def test_a_subtest_of_tap_is_learned_by_its_path_and_its_parent_is_no_lesson() -> None:
    before, after = NODE.format(sums="not ok", later="not ok"), NODE.format(sums="ok", later="ok")
    assert mended(before, after) == {"cart::sums": "2 == 3"}


def test_a_todo_and_a_skipped_test_of_tap_prove_nothing() -> None:
    failed = "TAP version 13\nnot ok 1 - works\n1..1\n"
    for switched_off in ("ok 1 - works # SKIP flaky", "not ok 1 - works # TODO later", "ok 1 - works # todo"):
        assert mended(failed, f"TAP version 13\n{switched_off}\n1..1\n") == {}
    assert mended(failed, "TAP version 13\nBail out! no database\n1..0\n") == {}


def test_a_point_of_tap_without_a_name_proves_nothing_and_diagnostics_describe_a_failure() -> None:
    assert mended(PERL.format("not ok"), PERL.format("ok")) == {"divides": "got: '3' expected: '4'"}


TAPE = (
    "TAP version 13\n# adds\n{} 1 works\n  ---\n    operator: equal\n    expected: 3\n    actual:   2\n  ...\n"
    "# reads\nok 2 works\n"
)


def test_a_point_of_tape_is_named_by_the_test_around_it_which_is_a_comment() -> None:
    told = {"adds::works": "operator: equal, expected: 3, actual: 2"}
    assert mended(TAPE.format("not ok"), TAPE.format("ok")) == told
    assert mended(TAPE.format("not ok"), "TAP version 13\n# reads\nok 1 works\nok 2 works\n") == {}
    assert mended(TAPE.format("not ok"), "TAP version 13\n# TODO adds\nok 1 works # TODO\n# reads\nok 2 works\n") == {}


def test_a_comment_before_the_first_point_of_another_producer_is_no_title() -> None:
    stream = "TAP version 13\n# perl {}\n{} 1 - works\n1..1\n"
    assert list(mended(stream.format("5.36", "not ok"), stream.format("5.38", "ok"))) == ["works"]


def test_the_files_of_prove_tell_points_apart() -> None:
    stream = "t/a.t .. \n{} 1 - works\n#   Failed test 'works'\n#          got: '2'\n#     expected: '3'\n1..1\nok\n"
    before = stream.format("not ok") + "t/b.t .. \nok 1 - works\n1..1\nok\n"
    assert mended(before, stream.format("ok")) == {"t/a.t::works": "got: '2' expected: '3'"}
    assert mended(before, "t/b.t .. \nok 1 - works\n1..1\nok\n") == {}


def test_the_time_and_the_place_that_bats_writes_are_no_words_of_a_test() -> None:
    failed = "1..1\nnot ok 1 sums # in 13 ms\n# (in test file ./a.bats, line 2)\n#   `[ 2 = 3 ]' failed\n"
    assert mended(failed, "1..1\nok 1 sums # in 9 ms\n") == {"sums": "`[ 2 = 3 ]' failed"}
    assert mended(failed, "1..1\nok 1 sums # skip slow\n") == {}
    block = "  ---\n  message: |\n    (in test file ./a.bats, line 2)\n      `[ 2 = 3 ]' failed\n  ...\n"
    assert mended(f"TAP version 13\n1..1\nnot ok 1 sums\n{block}", "1..1\nok 1 sums\n") == {
        "sums": "`[ 2 = 3 ]' failed"
    }


def go(*events: tuple[str, str, str]) -> str:
    """Return events of `go test -json`: action, test, output; an empty test is the package."""
    return "\n".join(
        json.dumps(
            {"Action": action, "Package": "example.com/calc"}
            | ({"Test": test} if test else {})
            | ({"Output": output} if output else {})
        )
        for action, test, output in events
    )


ADDS = ("output", "TestAdds/two", "    calc_test.go:9: Adds(2, 3) = -1, want 5\n")
FAILS = ("output", "TestAdds/two", "    --- FAIL: TestAdds/two (0.00s)\n")
PASSED = [("run", "TestAdds", ""), ("pass", "TestAdds/two", ""), ("pass", "TestAdds", ""), ("pass", "", "")]


def test_a_subtest_of_go_is_learned_with_its_words_and_not_its_parent() -> None:
    failed = go(
        ("output", "TestAdds/two", "=== RUN   TestAdds/two\n"),
        ADDS,
        FAILS,
        ("fail", "TestAdds/two", ""),
        ("output", "TestAdds", "--- FAIL: TestAdds (0.00s)\n"),
        ("fail", "TestAdds", ""),
        ("fail", "", ""),
    )
    assert mended(failed, go(*PASSED)) == {"example.com/calc::TestAdds/two": "Adds(2, 3) = -1, want 5"}


def test_the_reason_of_a_go_test_is_what_it_reported_last_and_not_what_it_logged() -> None:
    failed = go(("output", "TestAdds/two", "    calc_test.go:8: adding\n"), ADDS, FAILS, ("fail", "TestAdds/two", ""))
    assert mended(failed, go(*PASSED)) == {"example.com/calc::TestAdds/two": "Adds(2, 3) = -1, want 5"}


def test_a_package_that_go_writes_as_text_because_it_does_not_build_is_mended_by_its_tests() -> None:
    failed = "FAIL\texample.com/calc [build failed]\n"
    words = "# example.com/calc [example.com/calc.test]\ncalc/calc.go:2:23: undefined: Sum\n"
    assert mended(failed, go(*PASSED)) == {"example.com/calc::TestMain": "the package failed in its build"}
    assert mended(words + failed, go(*PASSED)) == {"example.com/calc::TestMain": "calc/calc.go:2:23: undefined: Sum"}
    assert mended(failed, words + failed) == {}


def test_a_test_of_go_that_was_paused_when_another_panicked_is_no_failure() -> None:
    failed = go(
        ("output", "TestWaits", "=== PAUSE TestWaits\n"),
        ("output", "TestBlows", "panic: assignment to entry in nil map\n"),
        ("fail", "TestBlows", ""),
        ("fail", "TestWaits", ""),
        ("fail", "", ""),
    )
    after = go(("pass", "TestBlows", ""), ("pass", "TestWaits", ""), ("pass", "", ""))
    assert mended(failed, after) == {"example.com/calc::TestBlows": "panic: assignment to entry in nil map"}


def test_a_test_of_go_with_two_ends_proves_nothing() -> None:
    failed = go(ADDS, FAILS, ("fail", "TestAdds/two", ""), ("fail", "", ""))
    assert mended(failed, go(("pass", "TestAdds/two", ""), ADDS, FAILS, ("fail", "TestAdds/two", ""))) == {}


def test_a_package_of_go_that_does_not_build_is_mended_when_its_tests_pass() -> None:
    failed = go(("build-output", "", "calc.go:4:2: undefined: x\n"), ("build-fail", "", ""), ("fail", "", ""))
    assert list(mended(failed, go(*PASSED)).values()) == ["calc.go:4:2: undefined: x"]
    assert mended(failed, go(("skip", "", ""))) == {}


def rust(event: str, name: str, **more: str) -> str:
    return json.dumps({"type": "test", "event": event, "name": name} | more)


PANIC = """
thread 'tests::sum' (17831) panicked at src/lib.rs:25:9:
assertion `left == right` failed
 left: -1
 right: 5
"""


def test_a_test_of_rust_is_described_by_its_reason_and_not_by_a_process_number() -> None:
    begins = json.dumps({"type": "suite", "event": "started", "test_count": 2})
    before = "\n".join([begins, rust("failed", "calc::bin/calc$tests::sum", stdout=PANIC), rust("ok", "tests::other")])
    after = "\n".join([begins, rust("ok", "calc::bin/calc$tests::sum"), rust("ok", "tests::other")])
    assert mended(before, after) == {"calc::bin/calc::tests::sum": "assertion `left == right` failed left: -1 right: 5"}
    assert mended(before, begins + "\n" + rust("ignored", "calc::bin/calc$tests::sum")) == {}
    assert mended(before, begins + "\n" + rust("ok", "other::bin/other$tests::sum")) == {}


@pytest.mark.parametrize(
    "text", ["", "hello", "{", '{"a": 1}', "[1, 2]", '{"version": "2.1.0", "runs": []}', "okay then"]
)
def test_what_is_no_stream_of_results_has_no_reader(text: str) -> None:
    assert find_reader(text) is None


def test_the_command_reads_streams_by_their_content_beside_other_reports(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for folder, said in ((before, "not ok"), (after, "ok")):
        folder.mkdir()
        (folder / "unit.tap").write_text("\x1b[32m" + NODE.format(sums=said, later=said))
        (folder / "go.json").write_text(go(ADDS, FAILS, ("fail", "TestAdds/two", "")) if said != "ok" else go(*PASSED))
        (folder / "coverage.json").write_text('{"meta": {"version": "7"}}')
    found = read_repaired_tests(before, after, project="shop", solution="Count from one")
    assert [(entry.failure_description or "").splitlines()[0] for entry in found.entries] == [
        "example.com/calc::TestAdds/two",
        "cart::sums",
    ]
    assert found.left_out["no_junit_files"] == 2
    with pytest.raises(InvalidInput, match=r"coverage\.json"):
        read_repaired_tests(before / "coverage.json", after, project="shop")
