"""Checks in lines of shell: which commands check something, what they are called by, and what came of one."""

from __future__ import annotations

import random

import pytest

from orchestrator.importers.sessions.checks import Verdict, judge, read_check
from orchestrator.importers.sessions.shell.words import split_commands
from orchestrator.importers.sessions.steps import Step, StepOutcome

ROOT = "/home/dev/shop"


def step(text: str = "", *, exit_code: int | None = 0, command: str = "pytest", outcome: str | None = None) -> Step:
    told = StepOutcome(outcome) if outcome else StepOutcome.OK if exit_code == 0 else StepOutcome.FAILED
    return Step(order=1, id="1", tool="Bash", command=command, outcome=told, exit_code=exit_code, text=text)


def verdict(text: str = "", *, exit_code: int | None = 0, command: str = "pytest", outcome: str | None = None) -> str:
    check = read_check(command)
    assert check is not None
    return judge(step(text, exit_code=exit_code, command=command, outcome=outcome), check)


SAME = [
    (
        "pytest tests/test_cart.py",
        [
            "pytest -q tests/test_cart.py",
            f"cd {ROOT} && python3 -m pytest tests/test_cart.py 2>&1 | tail -3",
            "CI=1 poetry run pytest ./tests/test_cart.py --tb=short",
            f"bash -lc 'timeout 60 pytest {ROOT}/tests/test_cart.py'",
            "uv run --with pytest-cov pytest tests/test_cart.py || true",
            ".venv/bin/python -m pytest -x tests/test_cart.py",
            "docker compose exec -T web pytest tests/test_cart.py",
        ],
    ),
    ("npm test", ["npm t", "npm run test", "npm test 2>&1"]),
    ("cargo test --workspace", ["cargo t --workspace", "nice cargo test --workspace -q"]),
    ("tsc --noEmit", ["npx tsc --noEmit", "./node_modules/.bin/tsc --noEmit", "pnpm exec tsc --noEmit"]),
    ("gradle check", ["./gradlew check"]),
    ("manage.py test shop", ["python manage.py test shop", "python3 ./manage.py test shop"]),
    ("ruff check . && mypy .", ["ruff check . && mypy .", "ruff check .; mypy ."]),
    ("backend: make test", ["cd backend && make test", f"(cd {ROOT}/backend && make test)"]),
]


@pytest.mark.parametrize(("key", "commands"), SAME)
def test_the_same_check_has_one_key_however_it_is_typed(key: str, commands: list[str]) -> None:
    for command in commands:
        check = read_check(command, root=ROOT)
        assert check is not None, command
        assert check.key == key, command


def test_another_selection_folder_or_variable_is_another_check() -> None:
    commands = ["pytest", "pytest tests/a.py", "pytest -k total", "cd api && pytest", "SKIP_SLOW=1 pytest", "tox"]
    keys = {check.key for command in commands if (check := read_check(command, root=ROOT))}
    assert len(keys) == len(commands)


NO_CHECKS = """grep -rn total .|rg total|diff a b|test -f a|[ -d b ]|ls tests|cat test_cart.py|exit 5|exit 4
git diff|sleep 4; exit 3|python3 -c "exit(3)"|echo pytest|make clean|ruff check --fix .|pytest --version|! pytest
which pytest|npm install|pip install pytest|npm run dev|python app.py|cargo fmt|find . -name 'test_*'
sed -n 1,5p tests/test_a.py"""


@pytest.mark.parametrize("command", [each for line in NO_CHECKS.splitlines() for each in line.split("|")])
def test_what_searches_looks_or_changes_is_no_check(command: str) -> None:
    assert read_check(command) is None


HIDDEN = [
    ("pytest | tail -3", True),
    ("pytest |& tee log", True),
    ("pytest || true", True),
    ("pytest; true", True),
    ("pytest; echo done", True),
    ("pytest\necho done", True),
    ("pytest &", True),
    ("(pytest || true) && echo ok", True),
    ("pytest > log 2>&1; tail log", True),
    ("for i in 1 2; do pytest; done", True),
    ("pytest && echo ok", False),
    ("pytest; exit $?", False),
    ("pytest || exit 1", False),
    ("set -o pipefail; pytest | tee log", False),
    ("set -e; pytest; echo done", False),
    ("cat log | head -1; pytest", False),
    ("pytest > log 2>&1", False),
    ("echo 'a | b; c' && pytest", False),
]


@pytest.mark.parametrize(("command", "is_hidden"), HIDDEN)
def test_a_pipe_or_a_later_command_hides_the_exit_code(command: str, is_hidden: bool) -> None:  # noqa: FBT001
    check = read_check(command)
    assert check is not None
    assert check.is_hidden is is_hidden


def test_a_setting_names_further_checks() -> None:
    assert read_check("just verify --all") is None
    check = read_check("cd x && just verify --all", named=["just verify"], root=ROOT)
    assert check is not None
    assert check.key == "x: just verify --all"


FAILURES = [
    "Ran 3 tests in 0.1s\n\nFAILED (errors=1)",
    "====== 2 failed, 3 passed in 0.12s ======",
    "2 failed, 3 passed in 0.12s",
    "test result: FAILED. 3 passed; 1 failed; 0 ignored",
    "Tests:       1 failed, 4 passed, 5 total",
    " Test Files  1 failed | 3 passed (4)",
    "  3 passing\n  1 failing",
    "npm ERR! Test failed.",
    "error[E0308]: mismatched types",
    "[INFO] BUILD FAILURE",
    "--- FAIL: TestTotal (0.00s)\nFAIL\tshop/cart\t0.01s",
    "src/a.ts(3,5): error TS2322: Type 'string' is not assignable",
    "cart.c:3:5: error: expected ';'",
    "cart.py:3: error: Incompatible types  [assignment]\nFound 1 error in 1 file (checked 3 source files)",
    "make: *** [Makefile:3: test] Error 2",
    "4 examples, 1 failure",
    "not ok 2 - the total",
    "Tests run: 5, Failures: 1, Errors: 0, Skipped: 0",
    "FAILED tests/test_cart.py::test_total - TypeError",
    "\x1b[31mFAILED\x1b[0m tests/test_cart.py::test_total",
]
SUCCESSES = [
    "Ran 3 tests in 0.1s\n\nOK",
    "Ran 3 tests in 0.1s\n\nOK (expected failures=1)",
    "5 passed, 1 xfailed in 0.12s",
    "test result: ok. 3 passed; 0 failed; 0 ignored",
    "Tests:       0 failed, 4 passed, 4 total",
    "Tests run: 5, Failures: 0, Errors: 0, Skipped: 0",
    "ok  \tshop/cart\t0.01s",
    "4 examples, 0 failures",
    "ok 1 - the total\n# fail 0",
    "test_login_FAILED_message PASSED\n1 passed in 0.1s",
    "✖ 3 problems (0 errors, 3 warnings)",
    "Found 0 errors.",
    "",
]


@pytest.mark.parametrize("text", FAILURES)
def test_words_of_failure_are_seen_behind_a_pipe(text: str) -> None:
    assert verdict(text, command="pytest 2>&1 | tail -5") == Verdict.FAILED
    assert verdict(text) != Verdict.PASSED


@pytest.mark.parametrize("text", SUCCESSES)
def test_a_success_has_none_and_counts_only_with_its_own_exit_code(text: str) -> None:
    assert verdict(text) == Verdict.PASSED
    assert verdict(text, command="pytest 2>&1 | tail -5") == Verdict.NOTHING


@pytest.mark.parametrize("code", [124, 130, 137, 143, -9])
def test_time_limits_and_signals_say_nothing(code: int) -> None:
    assert verdict("FAILED (errors=1)", exit_code=code) == Verdict.NOTHING


@pytest.mark.parametrize("text", ["Ran 0 tests in 0.0s\n\nOK", "collected 0 items\n\n", "2 skipped in 0.1s"])
def test_a_run_without_a_test_proves_nothing(text: str) -> None:
    assert verdict(text) == Verdict.NOTHING


def test_a_wrong_call_of_the_check_says_nothing() -> None:
    assert verdict("ERROR: file or directory not found: tests/x.py", exit_code=4) == Verdict.NOTHING
    assert verdict("error: unrecognized arguments: --fsat", exit_code=2) == Verdict.NOTHING


def test_the_failure_of_another_command_of_the_line_is_not_the_check_s() -> None:
    assert verdict("no space left on device", exit_code=1, command="cp -r a b && pytest") == Verdict.NOTHING
    assert verdict("1 failed in 0.1s", exit_code=1, command="cp -r a b && pytest") == Verdict.FAILED


def test_a_test_that_prints_the_failure_of_another_run_proves_nothing_and_fails_nothing() -> None:
    printed = "FAILED (errors=1)\n" + "more output\n" * 8 + "Ran 3 tests in 0.1s\n\nOK"
    assert verdict(printed) == Verdict.NOTHING


def test_an_open_quote_or_a_here_document_is_no_trouble() -> None:
    assert [each.words for each in split_commands("echo 'it is\npytest")] == [("echo", "it is\npytest")]
    written = split_commands("cat > a.py <<'EOF'\nx && pytest\nEOF\npytest a.py")
    assert [each.words for each in written] == [("cat",), ("pytest", "a.py")]
    assert written[0].writes == ("a.py",)
    assert split_commands("x" * 30_000) == []


def test_any_line_of_shell_is_read_to_its_end() -> None:
    chance = random.Random(7)
    parts = [
        *"ab \t\n'\"`$(){}<>|&;#\\=1-/.!",
        "<<EOF",
        "$(",
        "pytest",
        "&&",
        "||",
        "bash -lc ",
        "env A=1 ",
        "timeout 5 ",
    ]
    for _ in range(2000):
        line = "".join(chance.choice(parts) for _ in range(chance.randrange(1, 40)))
        check = read_check(line, root=ROOT)
        assert check is None or (check.key and check.shown), line
