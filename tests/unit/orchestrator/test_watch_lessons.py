"""The lesson of a watched check: learned where a change of the work tree made it pass, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchestrator.importers.sessions.checks import read_check, read_command
from orchestrator.importers.sessions.lessons.entries import task_id_of
from orchestrator.watch.lesson import MAX_DIFF_BYTES, RunResult, WatchedRun, hides_its_status, is_failure, note_run
from orchestrator.watch.open_failures import FailureLog
from orchestrator.watch.passthrough import Ending, OutputEnds

CHECK = ("python3", "-m", "unittest", "test_cart")
SAYS = b"TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'\nFAILED (errors=1)\n"
SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"


@dataclass(frozen=True)
class Watched:
    """A work tree, and the folder in which hardwon remembers."""

    folder: Path
    log: FailureLog

    def git(self, *arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", str(self.folder), *identity, *arguments], check=True, capture_output=True)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self, subject: str = "Change it") -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", subject)

    def run(self, code: int, *command: str, says: bytes = b"", started_at: float | None = None) -> RunResult:
        """Note a run that began after all that was written so far, unless it says when."""
        ending = Ending(
            exit_code=code,
            signal=None,
            output=OutputEnds(head=bytearray(says)),
            started_at=time.time() + 1 if started_at is None else started_at,
        )
        run = WatchedRun(command=command or CHECK, folder=self.folder, ending=ending)
        return note_run(run, self.log, datetime.now(UTC))

    def learned(self) -> list[str]:
        return [str(entry.solution_steps) for _, _, entry in self.log.list_pending()]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    folder = tmp_path / "web-shop"
    folder.mkdir()
    found = Watched(folder, FailureLog(tmp_path / "home"))
    found.git("init", "-q")
    found.write("cart.py", "def total(items):\n    return sum(item['price'] for item in items)\n")
    found.write("test_cart.py", "import cart\n")
    found.commit("Begin")
    return found


FIX = "def total(items):\n    return sum(item['price'] or 0 for item in items)\n"


def test_a_change_that_makes_a_check_pass_is_learned_with_the_check_as_proof(watched: Watched) -> None:
    assert watched.run(1, says=SAYS) is RunResult.FAILED
    watched.write("cart.py", FIX)
    assert watched.run(0) is RunResult.LEARNED
    ((_, reporter, entry),) = watched.log.list_pending()
    assert entry.project_id == "web-shop"
    assert (entry.success_verified, entry.verified_by) == (True, "python3 -m unittest test_cart")
    assert entry.technology == "python"
    assert "failed with exit code 1" in str(entry.failure_description)
    assert "TypeError: unsupported operand" in str(entry.error_message)
    assert entry.solution_steps == (
        "--- a/cart.py\n+++ b/cart.py\n@@ -1,2 +1,2 @@\n def total(items):\n"
        "-    return sum(item['price'] for item in items)\n+    return sum(item['price'] or 0 for item in items)\n"
    )
    assert reporter.startswith("watch-")
    assert watched.log.list_open() == []
    assert watched.run(0) is RunResult.PASSED


def _commit_fix(watched: Watched) -> None:
    watched.write("cart.py", FIX)
    watched.commit("Count a missing price as zero")


def _change_branch(watched: Watched) -> None:
    watched.git("checkout", "-q", "--orphan", "other")
    watched.write("cart.py", FIX)
    watched.commit()


def _write_many(watched: Watched) -> None:
    for number in range(60):
        watched.write(f"module_{number}.py", "x = 1\n")


CHANGES: dict[str, tuple[Callable[[Watched], object], RunResult]] = {
    "nothing": (lambda _: None, RunResult.FLAKY),
    "a commit": (_commit_fix, RunResult.LEARNED),
    "an untracked file": (lambda watched: watched.write("prices.py", "PRICE = 0\n"), RunResult.LEARNED),
    "a deleted file": (lambda watched: (watched.folder / "cart.py").unlink(), RunResult.LEARNED),
    "tests alone": (lambda watched: watched.write("test_cart.py", "import cart  # skip\n"), RunResult.TESTS_ONLY),
    "another history": (_change_branch, RunResult.OTHER_BRANCH),
    "a whole branch": (_write_many, RunResult.TOO_LARGE),
    "a lock file": (lambda watched: watched.write("uv.lock", "x = 2\n"), RunResult.UNREADABLE),
    "a binary file": (lambda watched: (watched.folder / "x.bin").write_bytes(bytes(99)), RunResult.UNREADABLE),
    "a secret file": (lambda watched: watched.write(".env", "PASSWORD=hunter2\n"), RunResult.FLAKY),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_was_changed_between_decides(watched: Watched, name: str) -> None:
    change, expected = CHANGES[name]
    watched.run(1, says=SAYS)
    change(watched)
    assert watched.run(0) is expected


def test_a_change_of_tests_alone_stays_open_for_a_person(watched: Watched) -> None:
    watched.run(1, says=SAYS)
    watched.write("test_cart.py", "import cart  # skip\n")
    watched.run(0)
    ((_, _, entry),) = watched.log.list_pending()
    assert (entry.success_verified, entry.verified_by) == (False, None)


def test_the_subjects_of_commits_come_first_and_code_before_tests(watched: Watched) -> None:
    watched.run(1, says=SAYS)
    watched.write("a_test.py", "def test(): ...\n")
    _commit_fix(watched)
    watched.run(0)
    (solution,) = watched.learned()
    assert solution.startswith("Count a missing price as zero\n--- a/cart.py")
    assert solution.index("cart.py") < solution.index("a_test.py")


def test_what_was_not_committed_before_the_failure_is_no_part_of_the_solution(watched: Watched) -> None:
    watched.write("cart.py", "def total(items):\n    return 1\n")
    watched.write("notes.py", "N = 1\n")
    watched.run(1, says=SAYS)
    watched.write("notes.py", "N = 2\n")
    watched.run(0)
    (solution,) = watched.learned()
    assert "-N = 1" in solution
    assert "+N = 2" in solution
    assert "cart.py" not in solution


def test_what_the_command_itself_writes_is_no_change(watched: Watched) -> None:
    before = time.time() - 1
    watched.write("report.py", "failed = 1\n")
    watched.run(1, says=SAYS, started_at=before)
    watched.write("report.py", "failed = 0\n")
    assert watched.run(0, started_at=before) is RunResult.FLAKY


def test_what_fails_again_in_the_state_in_which_it_passed_is_taken_back(watched: Watched) -> None:
    watched.run(1, says=SAYS)
    watched.write("cart.py", FIX)
    watched.run(0)
    assert watched.run(1, says=SAYS) is RunResult.FAILED
    assert watched.learned() == []
    assert watched.log.counts()["withdrawn"] == 1
    assert watched.run(0) is RunResult.FLAKY
    watched.write("cart.py", FIX + "\n")
    watched.run(1, says=SAYS)
    watched.write("cart.py", FIX + "\n# mended\n")
    watched.run(0)
    ((path, _, _),) = watched.log.list_pending()
    watched.log.note_delivered(path, "an-id")
    path.unlink()
    watched.run(1, says=SAYS)
    assert [entry_id for _, entry_id in watched.log.list_withdrawn()] == ["an-id"]


def test_a_failure_that_says_something_else_begins_anew(watched: Watched) -> None:
    watched.run(1, says=SAYS)
    watched.write("cart.py", "def total(items):\n    return 1 / 0\n")
    watched.run(1, says=b"ZeroDivisionError: division by zero\n")
    watched.write("prices.py", "PRICE = 0\n")
    watched.run(0)
    ((_, _, entry),) = watched.log.list_pending()
    assert "ZeroDivisionError" in str(entry.error_message)
    assert "cart.py" not in str(entry.solution_steps)


def test_a_large_change_is_cut_and_says_so(watched: Watched) -> None:
    watched.run(1, says=SAYS)
    watched.write("cart.py", "".join(f"value_{number} = {number}\n" for number in range(900)))
    watched.run(0)
    (solution,) = watched.learned()
    assert len(solution.encode()) <= MAX_DIFF_BYTES
    assert solution.endswith("[cut: the change goes on]")


def test_no_secret_is_written(watched: Watched) -> None:
    watched.write(".env", f"TOKEN={SECRET}\n")
    watched.run(1, "check", "--token", SECRET, says=f"401 for {SECRET}\n".encode())
    watched.write("cart.py", f"token = '{SECRET}'\n")
    watched.run(0, "check", "--token", SECRET)
    written = [path for path in watched.log.home.rglob("*") if path.is_file()]
    assert written
    assert [path for path in written if SECRET.encode() in path.read_bytes()] == []
    assert watched.learned()


def test_the_repository_is_not_touched(watched: Watched) -> None:
    def state() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in watched.folder.rglob("*") if path.is_file()}

    watched.write("prices.py", "PRICE = 0\n")
    before = state()
    watched.run(1, says=SAYS)
    assert state() == before


def test_words_of_failure_and_hidden_statuses_verify_nothing(watched: Watched) -> None:
    watched.run(1, says=SAYS)
    watched.write("cart.py", FIX)
    assert watched.run(0, says=b"FAILED (errors=1)\n") is RunResult.SAYS_FAILED
    assert watched.run(0, says=b"0 failed, 3 passed\n") is RunResult.LEARNED
    assert watched.run(1, "sh", "-c", "pytest | tail -3") is RunResult.PIPED


def test_outside_of_git_a_failure_is_remembered_and_nothing_learned(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    watched = Watched(tmp_path / "plain", FailureLog(tmp_path / "home"))
    watched.run(1, says=SAYS)
    (failure,) = watched.log.list_open()
    assert failure.snapshot is None
    watched.write("cart.py", FIX)
    assert watched.run(0) is RunResult.NO_GIT
    assert (watched.log.list_open(), watched.learned()) == ([], [])


def test_each_run_is_counted_and_what_is_remembered_is_private(watched: Watched) -> None:
    watched.run(1, says=SAYS)
    watched.run(130, says=b"")
    watched.run(0)
    assert watched.log.counts() == {"failed": 1, "stopped": 1, "flaky": 1}
    folders = [path for path in watched.log.folder.rglob("*") if path.is_dir()]
    assert folders
    assert [path for path in folders if path.stat().st_mode & 0o077] == []
    assert os.stat(watched.log.folder).st_mode & 0o077 == 0  # noqa: PTH116


STATUSES = {
    "pytest -x": False,
    "pytest && ruff check": False,
    "pytest | tail -3": True,
    "set -o pipefail; pytest | tail": False,
    "pytest || true": True,
    "pytest '|' x": False,
    "pytest &": True,
    "pytest 'unclosed": True,
}


def test_a_status_that_may_be_anothers_is_known() -> None:
    assert {script: hides_its_status(["bash", "-c", script]) for script in STATUSES} == STATUSES
    assert not hides_its_status(["bash", "-o", "pipefail", "-c", "pytest | tail"])
    assert not hides_its_status(["pytest", "-k", "a | b"])


def test_a_watched_command_is_the_check_that_sessions_know_in_every_clone(tmp_path: Path) -> None:
    lines = (
        "pytest @/tests", "CI=1 pytest -q tests", "sh -c 'cd api && poetry run pytest -q tests/'",
        "bash -c 'make check && cargo t'", "npm t",
    )  # fmt: skip
    for line in lines:
        keys = set()
        for clone in ("one", "other"):
            root = str(tmp_path / clone)
            typed = line.replace("@", root)
            known = read_check(typed, root=root)
            assert known is not None
            keys |= {known.key, read_command(typed, folder=root, root=root).key}
        assert len(keys) == 1, keys
    root = str(tmp_path)
    assert read_command("./verify --all", folder=f"{root}/sub", root=root).key == "sub: verify --all"
    assert read_command("sh -c 'make check && ./deploy'").key != read_command("make check").key
    assert read_command("cd api").key == "cd api"


def test_a_watched_failure_and_that_of_a_session_are_of_one_task(watched: Watched) -> None:
    watched.write("cart.py", "old\n")
    watched.commit()
    watched.run(1, "sh", "-c", f"CI=1 pytest -q {watched.folder}/tests", says=SAYS)
    watched.write("cart.py", "new\n")
    assert watched.run(0, "pytest", "tests") is RunResult.LEARNED
    ((_, _, entry),) = watched.log.list_pending()
    known = read_check("cd . && pytest tests --tb=short")
    assert known is not None
    assert entry.task_id == task_id_of(known.key, None) == "pytest tests"


def test_searches_time_limits_and_interrupts_are_no_failures() -> None:
    assert is_failure(["pytest"], 1, None)
    assert is_failure(["program"], None, 11)
    assert is_failure(["sh", "-c", "program"], 139, None)
    for command, code, killed_by in (
        (["grep", "x"], 1, None),
        (["pytest"], 0, None),
        (["pytest"], 124, None),
        (["pytest"], 127, None),
        (["pytest"], 130, None),
        (["pytest"], None, 15),
    ):
        assert not is_failure(command, code, killed_by), command
