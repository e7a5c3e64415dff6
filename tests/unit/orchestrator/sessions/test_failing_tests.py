"""The names of tests in the outputs of their runners, and what they say."""

from __future__ import annotations

import pytest

from orchestrator.importers.sessions.lessons.failing_tests import describe_tests, failing_tests, name_in_words

LINES = [
    ("FAILED tests/test_cart.py::TestCart::test_missing_price[None-2] - TypeError: x", "test_missing_price"),
    ("ERROR: test_missing_price (test_cart.TotalTest.test_missing_price)", "test_missing_price"),
    ("FAIL: test_missing_price (test_cart.TotalTest)", "test_missing_price"),
    ("--- FAIL: TestMissingPrice (0.00s)", "TestMissingPrice"),
    ("    --- FAIL: TestTotal/missing_price (0.00s)", "missing_price"),
    ("test cart::tests::missing_price ... FAILED", "missing_price"),
    ("  ● cart \u203a total \u203a missing price", "missing price"),
    ("   ✗ src/cart.test.ts > cart > missing price 3ms", "missing price"),
    ("not ok 2 - missing price", "missing price"),
    ("  1) missing price:", "missing price"),
    ("[ERROR]   CartTest.missingPrice:12 expected 3", "missingPrice"),
    ("rspec ./spec/cart_spec.rb:3 # missing price", "missing price"),
    ("  Failed Shop.CartTests.MissingPrice [3 ms]", "MissingPrice"),
]


@pytest.mark.parametrize(("line", "name"), LINES)
def test_the_names_of_failing_tests_are_read_and_said_in_words(line: str, name: str) -> None:
    assert failing_tests(f"output\n{line}\nmore\n{line}") == [name]
    assert name_in_words(name) == "missing price"


def test_counts_and_errors_of_the_runner_name_no_test() -> None:
    for line in ("FAILED (errors=1)", "ERROR: file or directory not found: x", "1 failed in 0.1s", "FAIL", "2) 3"):
        assert failing_tests(line) == [], line


def test_a_test_named_by_one_word_says_nothing_of_a_task() -> None:
    assert describe_tests(["test_total"]) is None
    assert describe_tests(["test_total", "test_missing_price", "TestHalfUp"]) == "missing price; half up"
    assert len(failing_tests("\n".join(f"FAIL: test_{number} (a)" for number in range(9)))) == 3
