"""Fixes out of real git repositories."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hardwon.errors import InvalidInput
from hardwon.validation import MAX_TEXT_BYTES
from knowledge.memory.rules.validation import validate
from knowledge.models import EntryType, NewEntry
from orchestrator.importers.commit_messages import PassedOver
from orchestrator.importers.git import read_fixes
from tests.support.cases import each_case, over

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


class Repository:
    """A repository in a temporary folder; its clock moves a day with every commit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.day = 0
        path.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str, message: bytes | None = None) -> str:
        self.day += arguments[0] in {"commit", "revert", "merge", "cherry-pick"}
        when = (datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(days=self.day)).isoformat()
        kept = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
        ended = subprocess.run(
            ["git", "-C", self.path, *arguments],
            env=kept
            | {
                "GIT_CONFIG_GLOBAL": os.devnull,
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_AUTHOR_NAME": "Ada",
                "GIT_AUTHOR_EMAIL": "ada@example.org",
                "GIT_COMMITTER_NAME": "Ada",
                "GIT_COMMITTER_EMAIL": "ada@example.org",
                "GIT_AUTHOR_DATE": when,
                "GIT_COMMITTER_DATE": when,
            },
            input=message,
            capture_output=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.decode().strip()

    def commit(self, message: str | bytes, files: Mapping[str, str | bytes] | None = None) -> str:
        for name, content in (files or {"app.py": f"day = {self.day}\n"}).items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.git("add", "-A")
        self.git("commit", "-q", "-F", "-", message=message if isinstance(message, bytes) else message.encode())
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "web-shop")
    made.commit("feat: a shop", {"app.py": "total = 1\n"})
    return made


def fixes(repository: Repository, since: str | None = None, limit: int | None = None) -> list[NewEntry]:
    found = list(read_fixes(repository.path, since=since, limit=limit))
    for entry in found:
        validate(entry)
    return found


def subjects(repository: Repository) -> list[str]:
    return [(entry.failure_description or "").split("\n")[0] for entry in fixes(repository)]


def test_a_fix_becomes_a_failure_verified_by_its_commit(repository: Repository) -> None:
    commit = repository.commit(
        "fix(cart): total ignores the discount\n\nThe sum was taken before it.\n\n"
        "Signed-off-by: Ada <ada@example.org>\nCo-authored-by: Bob <bob@example.org>\n",
        {"app.py": "total = 2\n"},
    )
    (entry,) = fixes(repository)
    assert entry.entry_type is EntryType.FAILURE_SOLUTION
    assert entry.failure_description == "fix(cart): total ignores the discount\n\nThe sum was taken before it."
    assert entry.solution_steps
    assert "--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@\n-total = 1\n+total = 2" in entry.solution_steps
    assert (entry.project_id, entry.agent_type, entry.task_type) == ("web-shop", "developer", "bugfix")
    assert (entry.technology, entry.task_id, entry.run_id) == ("python", commit, "git")
    assert entry.success_verified
    assert entry.verified_by == f"commit {commit}"
    assert "ada@example.org" not in repr(entry)


@pytest.mark.long
@each_case
async def test_a_commit_that_repairs_something_is_a_fix(repository: Repository, message: str) -> None:
    commit = repository.commit(message)
    assert fixes(repository, limit=1)[0].task_id == commit


@pytest.mark.long
@each_case
async def test_a_commit_that_only_looks_like_one_is_not(repository: Repository, message: str) -> None:
    repository.commit(message)
    assert fixes(repository) == []


def commit_twice(repository: Repository, message: str, before: dict[str, str], after: dict[str, str]) -> None:
    repository.commit("feat: begin", before)
    repository.commit(message, after)


def test_a_change_with_a_test_beside_the_code_is_a_fix_without_its_words(repository: Repository) -> None:
    files = {"cart.py": "total = 2\n", "tests/test_cart.py": "def test_it_is_empty(): ...\n"}
    repository.commit("Treat an empty cart as zero", files)
    assert subjects(repository) == ["Treat an empty cart as zero"]
    passed_over: Counter[str] = Counter()
    for message, changed in (
        ("Treat an empty cart as nothing", {"cart.py": "total = 3\n"}),
        ("Expect an empty cart", {"tests/test_cart.py": "def test_that(): ...\n"}),
        ("Add wishes", {"wishes.py": "x = 1\n", "tests/test_wishes.py": "def test_wish(): ...\n"}),
        ("refactor: rounds", {"cart.py": "total = 4\n", "tests/test_cart.py": "def test_it(): ...\n"}),
        ("Round all", {f"m{n}.py": "x\n" for n in range(30)} | {"tests/test_m.py": "x\n"}),
    ):
        repository.commit(message, changed)
        assert len(list(read_fixes(repository.path, passed_over=passed_over))) == 1, message
    repository.commit("Add a check for the crash on no wishes", {"wishes.py": "x = 2\n", "tests/test_wishes.py": "\n"})
    assert len(fixes(repository)) == 2


def test_documents_and_format_alone_mend_no_failure(repository: Repository) -> None:
    commit_twice(repository, "fix: say it right", {"docs/use.md": "a\n"}, {"docs/use.md": "b\n", "README.rst": "b\n"})
    commit_twice(repository, "fix: layout", {"a.js": "if (a) {\n}\n"}, {"a.js": "if (a) {  \n\n}\n"})
    assert fixes(repository) == []
    commit_twice(repository, "fix: return late", {"b.py": "for a in b:\n  return\n"}, {"b.py": "for a in b:\nreturn\n"})
    assert subjects(repository) == ["fix: return late"], (
        "in Python the space at the beginning of a line means something"
    )


def test_commits_that_are_passed_over_are_counted_by_their_reason(repository: Repository) -> None:
    wrong = repository.commit("fix: the wrong way", {"b.py": "b\n"})
    repository.git("revert", "--no-edit", wrong)
    repository.commit("Bump requests from 2.1 to 2.2")
    repository.commit("docs: fix a typo")
    repository.commit("fixup! fix: x")
    repository.commit("Anything at all")
    repository.commit("fix: a typo in a name")
    repository.git("commit", "-q", "--allow-empty", "-m", "fix: run the build again")
    repository.git("checkout", "-q", "-b", "side", "HEAD~1")
    repository.commit("fix: on the side", {"side.py": "x = 1\n"})
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-ff", "-m", "fix: merge the side", "side")
    passed_over: Counter[str] = Counter()
    assert len(list(read_fixes(repository.path, passed_over=passed_over))) == 1
    assert passed_over == {
        PassedOver.MERGE: 1,
        PassedOver.REVERT: 1,
        PassedOver.REVERTED: 1,
        PassedOver.VERSION: 1,
        PassedOver.UNFINISHED: 1,
        PassedOver.DOCUMENTATION: 1,
        PassedOver.NO_CHANGES: 1,
        PassedOver.NO_FIX: 1,
        PassedOver.OTHER_WORK: 2,
    }


def test_fixes_come_newest_first_and_no_more_than_asked_for(repository: Repository) -> None:
    for number in range(5):
        repository.commit(f"fix: number {number}")
    assert [entry.failure_description for entry in fixes(repository, limit=2)] == ["fix: number 4", "fix: number 3"]
    assert len(fixes(repository)) == 5


def test_a_fix_that_was_reverted_later_is_left_out(repository: Repository) -> None:
    wrong = repository.commit("fix: the wrong way")
    repository.commit("fix: something else", {"other.py": "x = 1\n"})
    repository.git("revert", "--no-edit", wrong)
    assert subjects(repository) == ["fix: something else"]


def test_a_fix_whose_revert_was_reverted_stands(repository: Repository) -> None:
    repository.commit("fix: right after all")
    repository.git("revert", "--no-edit", "HEAD")
    repository.git("revert", "--no-edit", "HEAD")
    assert subjects(repository) == ["fix: right after all"]


def test_a_revert_that_names_only_a_subject_takes_back_the_last_such_commit(repository: Repository) -> None:
    first = repository.commit("fix: twice (#3)")
    repository.commit("fix: twice (#5)")
    repository.commit('Revert "fix: twice" (#6)\n\nReverts acme/shop#5')
    assert first in {entry.task_id for entry in fixes(repository)}
    assert subjects(repository) == ["fix: twice (#3)"]


def test_a_reverted_merge_takes_all_its_fixes_with_it(repository: Repository) -> None:
    repository.git("checkout", "-q", "-b", "side")
    repository.commit("fix: on the side", {"side.py": "x = 1\n"})
    repository.git("checkout", "-q", "main")
    repository.commit("fix: on main", {"main.py": "x = 1\n"})
    repository.git("merge", "-q", "--no-ff", "-m", "fix: merge the side", "side")
    assert subjects(repository) == ["fix: on main", "fix: on the side"]
    repository.git("revert", "--no-edit", "-m", "1", "HEAD")
    assert subjects(repository) == ["fix: on main"]


def test_a_commit_without_changes_is_left_out(repository: Repository) -> None:
    repository.git("commit", "-q", "--allow-empty", "-m", "fix: run the build again")
    assert fixes(repository) == []


def test_a_first_commit_counts_whole(tmp_path: Path) -> None:
    fresh = Repository(tmp_path / "fresh")
    fresh.commit("fix: from the start", {"a.go": "package a\n"})
    (entry,) = fixes(fresh)
    assert entry.technology == "go"
    assert "+package a" in (entry.solution_steps or "")


def test_a_repository_without_commits_has_no_fixes(tmp_path: Path) -> None:
    assert fixes(Repository(tmp_path / "empty")) == []


def test_the_end_of_a_shallow_clone_is_not_taken_for_a_fix(repository: Repository, tmp_path: Path) -> None:
    repository.commit("fix: one")
    repository.commit("fix: two")
    shallow = tmp_path / "shallow"
    repository.git("clone", "-q", "--depth", "2", f"file://{repository.path}", str(shallow))
    assert [entry.failure_description for entry in read_fixes(shallow)] == ["fix: two"]


# Since


def test_since_takes_a_revision_or_a_date(repository: Repository) -> None:
    repository.commit("fix: old")
    repository.git("tag", "v1")
    repository.commit("fix: new")  # on 2026-01-04
    for since in ("v1", "HEAD~1", "2026-01-04", "2026-01-04T00:00:00+00:00"):
        assert [entry.failure_description for entry in fixes(repository, since=since)] == ["fix: new"], since
    for since in ("2026-01-01", "30 years ago", "100 years ago", "1950-01-01", "0001-01-01"):
        assert len(fixes(repository, since=since)) == 2, since
    assert fixes(repository, since="2026-02-01") == []


@over("since", ["v99", "", "yesterdayish", "--all", "--output=x", "2026-13-01", "a\0b"])
async def test_a_since_that_is_neither_is_refused_by_name(repository: Repository, since: str) -> None:
    with pytest.raises(InvalidInput, match="neither a revision") as refused:
        read_fixes(repository.path, since=since)
    assert refused.value.field == "since"
    assert not (repository.path / "x").exists()


def test_a_limit_below_one_is_refused_by_name(repository: Repository) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_fixes(repository.path, limit=0)
    assert refused.value.field == "limit"


# The repository


def test_what_is_no_repository_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "file").write_text("x")
    for path, says in (
        (tmp_path / "nowhere", "is not a directory"),
        (tmp_path / "file", "is not a directory"),
        (tmp_path, "is not in a git repository"),
    ):
        with pytest.raises(InvalidInput, match=says) as refused:
            read_fixes(path)
        assert refused.value.field == "path"


def test_without_git_it_says_so(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository.path))
    with pytest.raises(InvalidInput, match="git is needed"):
        read_fixes(repository.path)


def test_a_damaged_history_is_an_error_and_no_short_answer(repository: Repository) -> None:
    lost = repository.commit("fix: one")
    repository.commit("fix: two")
    (repository.path / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    with pytest.raises(InvalidInput, match="git cannot") as refused:
        list(read_fixes(repository.path))
    assert refused.value.field == "path"


def test_the_project_is_the_repository_whatever_its_folder_is_called(repository: Repository, tmp_path: Path) -> None:
    repository.commit("fix: a")
    (repository.path / "sub").mkdir()
    assert next(read_fixes(repository.path / "sub")).project_id == "web-shop"
    clone = tmp_path / "elsewhere"
    repository.git("clone", "-q", str(repository.path), str(clone))
    assert next(read_fixes(clone)).project_id == "web-shop"
    bare = tmp_path / "bare.git"
    repository.git("clone", "-q", "--bare", str(repository.path), str(bare))
    repository.git("-C", str(bare), "remote", "remove", "origin")
    assert next(read_fixes(bare)).project_id == "bare"


def test_a_surrounding_git_command_does_not_lead_astray(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Repository(tmp_path / "other")
    other.commit("fix: in the other one")
    repository.commit("fix: here")
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
    assert subjects(repository) == ["fix: here"]


def test_nothing_that_the_repository_names_is_run(repository: Repository, tmp_path: Path) -> None:
    trap, sprung = tmp_path / "trap", tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch {sprung}\ncat\n")
    trap.chmod(0o755)
    (repository.path / ".gitattributes").write_text("*.py diff=trap filter=trap\n")
    repository.commit("fix: a")
    head, _, words = repository.git("cat-file", "commit", "HEAD").partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ==\n -----END PGP SIGNATURE-----"
    signed = f"{head}\n{signature}\n\n{words}\n".encode()
    repository.git("update-ref", "HEAD", repository.git("hash-object", "-t", "commit", "-w", "--stdin", message=signed))
    for name in (
        "diff.external",
        "diff.trap.command",
        "diff.trap.textconv",
        "core.pager",
        "pager.log",
        "core.fsmonitor",
        "core.sshCommand",
        "core.editor",
        "gpg.program",
        "filter.trap.smudge",
        "filter.trap.clean",
        "alias.log",
    ):
        repository.git("config", name, f"!{trap}" if name.startswith("alias") else str(trap))
    repository.git("config", "log.showSignature", "true")
    repository.git("config", "core.hooksPath", str(tmp_path))
    sprung.unlink(missing_ok=True)
    assert len(fixes(repository)) == 1
    assert not sprung.exists()
    for porcelain in ("diff", "log"):  # the trap is a live one
        sprung.unlink(missing_ok=True)
        repository.git(porcelain, "HEAD~1..HEAD")
        assert sprung.exists()


# The words


def test_a_large_diff_is_cut_within_the_limit_and_says_so(repository: Repository) -> None:
    commit = repository.commit("fix: much", {"big.py": "".join(f"line_{n} = 'ä'\n" for n in range(20_000))})
    (entry,) = fixes(repository)
    assert entry.solution_steps
    assert len(entry.solution_steps.encode()) <= MAX_TEXT_BYTES
    assert len(entry.solution_steps.encode()) > MAX_TEXT_BYTES * 0.9
    *_, before, last = entry.solution_steps.split("\n")
    assert before.endswith("= 'ä'")
    assert last == f"[cut: the diff of commit {commit} goes on]"


def test_a_long_message_is_cut_within_the_limit_and_says_so(repository: Repository) -> None:
    repository.commit("fix: much to say\n\n" + "word " * 30_000)
    (entry,) = fixes(repository)
    assert entry.failure_description
    assert len(entry.failure_description.encode()) <= MAX_TEXT_BYTES
    assert "goes on]" in entry.failure_description[-80:]


def test_binary_lock_vendored_and_generated_files_are_named_and_not_shown(repository: Repository) -> None:
    repository.commit(
        "fix: all of it",
        {
            "src/app.ts": "export const a = 1\n",
            "package-lock.json": '{"secret": "lock"}\n' * 100,
            "vendor/lib/x.js": "vendored()\n",
            "logo.png": b"\x89PNG\0\0\xff",
            "web/app.min.js": "minified()\n",
        },
    )
    (entry,) = fixes(repository)
    steps = entry.solution_steps or ""
    assert "+export const a = 1" in steps
    assert "package-lock.json: lock file, +100 -0 lines (not shown)" in steps
    assert "vendor/lib/x.js: vendored file, +1 -0 lines (not shown)" in steps
    assert "logo.png: binary file (not shown)" in steps
    assert "web/app.min.js: generated file, +1 -0 lines (not shown)" in steps
    for hidden in ("secret", "vendored()", "PNG", "minified()"):
        assert hidden not in steps
    assert entry.technology == "typescript"


def test_a_commit_of_very_many_files_stays_within_the_limit(repository: Repository) -> None:
    repository.commit("fix: everywhere", {f"m{n}.py": f"x = {n}\n" for n in range(250)} | {"yarn.lock": "x\n"})
    (entry,) = fixes(repository)
    assert "and 50 more files" in (entry.solution_steps or "")
    assert len((entry.solution_steps or "").encode()) <= MAX_TEXT_BYTES


def test_a_renamed_file_is_shown_as_renamed(repository: Repository) -> None:
    body = "".join(f"line {n}\n" for n in range(50))
    repository.commit("feat: more", {"old name.py": body})
    (repository.path / "old name.py").rename(repository.path / "new näme.py")
    repository.commit("fix: the name", {"new näme.py": body + "last\n"})
    (entry,) = fixes(repository)
    steps = entry.solution_steps or ""
    assert "rename to new näme.py" in steps
    assert "+last" in steps
    assert "line 1\n" not in steps


def test_what_is_no_utf8_is_shown_as_escapes(repository: Repository) -> None:
    repository.commit("later replaced", {"app.py": b"name = 'caf\xe9'\n", "n\udce9.py": b"x\n"})
    head = repository.git("cat-file", "commit", "HEAD").encode().partition(b"\n\n")[0]
    written = head + b"\n\nfix: caf\xe9 \xed\xa0\x80\n"  # git commit itself would repair the words
    commit = repository.git("hash-object", "-t", "commit", "-w", "--stdin", message=written)
    repository.git("update-ref", "HEAD", commit)
    (entry,) = fixes(repository)
    assert "caf\\xe9 \\xed\\xa0\\x80" in (entry.failure_description or "")
    assert "+name = 'caf\\xe9'" in (entry.solution_steps or "")


def test_a_latin1_commit_that_says_so_is_read_right(repository: Repository) -> None:
    repository.git("config", "i18n.commitEncoding", "ISO-8859-1")
    repository.commit("fix: café".encode("latin-1"))
    assert subjects(repository) == ["fix: café"]


@pytest.mark.parametrize(
    ("files", "technology"),
    [
        ({"a.py": "x\n", "b.py": "x\n", "c.js": "x\n" * 50}, "python"),
        ({"a.rb": "x\n", "b.rs": "x\ny\n"}, "rust"),
        ({"a.xyz": "x\n"}, "xyz"),
        ({"Dockerfile": "FROM x\n"}, "docker"),
        ({"LICENSE": "x\n", "poetry.lock": "x\n"}, None),
        ({"poetry.lock": "x\n"}, None),
    ],
)
def test_the_technology_is_that_of_most_files(
    repository: Repository, files: dict[str, str | bytes], technology: str | None
) -> None:
    repository.commit("fix: x", files)
    assert fixes(repository)[0].technology == technology


def test_leaving_early_leaves_no_git_behind(repository: Repository) -> None:
    for number in range(3):
        repository.commit(f"fix: {number}")
    reading = read_fixes(repository.path)
    next(reading)
    del reading  # an unclosed pipe or a running git would be a ResourceWarning, which is an error here
