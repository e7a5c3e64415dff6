"""One failure told by several tools is one text where it is compared, and no other text is touched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.text.run_output import normal_diff, normal_run, strip_run

OUTPUT = """FAIL test_stock.py::test_reserve_more_than_there_is
Traceback (most recent call last):
  File "{root}/test_stock.py", line 9, in test_reserve_more_than_there_is
    stock.reserve("bolt", 5)
  File "{root}/shop/stock.py", line 31, in reserve
    raise OutOfStock(name)
shop.stock.OutOfStock: bolt
1 failed in {seconds}s"""

TELLINGS = {
    "bare": OUTPUT.format(root="/home/ann/shop", seconds="0.12"),
    "exit code first": "Exit code 1\n" + OUTPUT.format(root="/home/ann/shop", seconds="0.31"),
    "labels around": "Output: "
    + OUTPUT.format(root="/tmp/run-77/shop", seconds="2.04")
    + "\nExit Code: 1\nSignal: (none)",
    "a chunk": "Chunk ID: 77ab\nWall time: 0.44 seconds\nProcess exited with code 1\nOutput:\n"
    + OUTPUT.format(root="/Users/bo/src/shop", seconds="0.09"),
    "tags": "<output>\n"
    + OUTPUT.format(root="/builds/acme/shop", seconds="1.50")
    + "\n</output>\n<exited with exit code 1>",
    "colours": OUTPUT.format(root="/home/ann/shop", seconds="0.12").replace("FAIL", "\x1b[31mFAIL\x1b[0m"),
    "progress": "collecting 1%\rcollecting 99%\r" + OUTPUT.format(root="/github/workspace", seconds="7.11"),
}


def test_an_output_is_the_same_text_whatever_tool_tells_it_and_wherever_it_ran() -> None:
    normal = {name: normal_run(told).strip() for name, told in TELLINGS.items()}
    assert set(normal.values()) == {normal["bare"]}
    assert 'File "shop/stock.py", line _' in normal["bare"]
    assert "1 failed in _" in normal["bare"]


@pytest.mark.parametrize(
    "text",
    [
        "nginx cannot read /etc/nginx/conf.d/shop.conf: permission denied",
        "the timeout of 30 s is exceeded when the queue has 500 ms of backlog left",
        "See https://example.org/home/guide/page and ftp://example.org/tmp/a/b",
        "Output of the parser is empty",
        "either/or, and/or, 24/7",
        "- a list\n- of two\n\n--- and a rule",
        "/usr/lib/python3/dist-packages/yaml/__init__.py fails to import",
    ],
)
def test_what_is_no_trace_of_a_run_stays_as_it_is(text: str) -> None:
    assert strip_run(text) == text
    assert normal_diff(text) == text


def test_an_output_that_is_the_shell_tools_own_line_alone_is_kept() -> None:
    assert strip_run("Exit code 137") == "Exit code 137"
    assert normal_run("(no output)") == "(no output)"


def test_paths_are_relative_to_the_folder_that_is_given() -> None:
    told = "/opt/shop/a/cart.py:3: error in /opt/shop and in file:///opt/shop/b.py, not /opt/shopping/c.py"
    assert strip_run(told, root="/opt/shop/") == "a/cart.py:3: error in  and in b.py, not /opt/shopping/c.py"


def test_an_output_is_the_same_text_where_lines_were_added_above() -> None:
    for one, other in (
        ("cart.py:7:15: E711 comparison to None", "cart.py:19:15: E711 comparison to None"),
        ("src/cart.ts(7,3): error TS2322", "src/cart.ts(8,3): error TS2322"),
        ("cart_test.go:7: want 2", "cart_test.go:11: want 2"),
    ):
        assert normal_run(one) == normal_run(other) != one
    assert normal_run("db.example.org:5432 is refused, sales.csv:7 is not") == (
        "db.example.org:5432 is refused, sales.csv:7 is not"
    )


DIFFS = {
    "git": "diff --git a/cart.py b/cart.py\nindex 83db48f..bf1e2a1 100644\n--- a/cart.py\n+++ b/cart.py\n"
    "@@ -1,5 +1,5 @@ def total\n import math\n \n def total(items):\n"
    "-    return sum(items)\n+    return math.fsum(items)\n \n # end\n",
    "absolute": "--- /home/ann/shop/cart.py\n+++ /home/ann/shop/cart.py\n@@ -3,2 +3,2 @@\n def total(items):\n"
    "-    return sum(items)\n+    return math.fsum(items)\n",
    "index": "Index: cart.py\n"
    + "=" * 67
    + "\n--- cart.py\tCurrent\n+++ cart.py\tProposed\n@@ -3,2 +3,2 @@\n def total(items):\n"
    "-    return sum(items)\n+    return math.fsum(items)\n\\ No newline at end of file\n",
    "no hunk": "--- /home/ann/shop/cart.py\n def total(items):\n-    return sum(items)\n+    return math.fsum(items)",
}


def test_a_change_is_the_same_text_whatever_tool_tells_it() -> None:
    assert {normal_diff(each) for each in DIFFS.values()} == {
        "cart.py\n def total(items):\n-    return sum(items)\n+    return math.fsum(items)"
    }


def test_two_changes_stay_two_and_the_words_around_them_stay() -> None:
    told = f"Sum exactly:\n{DIFFS['git']}\nThen run the tests."
    shown = normal_diff(told)
    assert shown.startswith("Sum exactly:\ncart.py\n")
    assert shown.endswith("Then run the tests.")
    other = DIFFS["git"].replace("math.fsum(items)", "math.prod(items)")
    assert normal_diff(other) != normal_diff(DIFFS["git"])


def test_a_file_that_was_added_or_deleted_is_named() -> None:
    added = "--- /dev/null\n+++ b/shop/new.py\n@@ -0,0 +1 @@\n+VERSION = 1\n"
    assert normal_diff(added) == "shop/new.py\n+VERSION = 1"
    assert normal_diff("--- a/old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-VERSION = 1\n") == "old.py\n-VERSION = 1"


_PIECES = st.sampled_from(
    [
        "\x1b[1m",
        "\r",
        "\n",
        " ",
        "/home/ann/x/",
        "cart.py",
        "--- a",
        "+++ b",
        "@@ -1 +1 @@",
        "+x",
        "-y",
        "Exit code 1",
        "0.12s",
    ]
)


@given(st.lists(_PIECES, max_size=40).map("".join))
def test_any_text_has_a_form_without_colours_and_none_becomes_nothing(text: str) -> None:
    plain = text.replace("\x1b[1m", "").strip()
    for form in (normal_run(text), normal_diff(text)):
        assert bool(form.strip()) or not plain
    assert "\x1b" not in normal_run(text) or not plain
