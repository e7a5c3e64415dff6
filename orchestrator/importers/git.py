"""Fixes in the history of a git repository, as verified failures: a commit that was not reverted worked."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO

from hardwon.errors import InvalidInput
from hardwon.text.truncation import escape_unstorable
from hardwon.validation import MAX_TEXT_BYTES
from knowledge.models import EntryType, NewEntry
from orchestrator.importers.commit_messages import PassedOver, reason_against
from orchestrator.importers.fields import fit_beginning, key, main_technology
from orchestrator.importers.repository import DIFF, Repository, open_repository

MAX_FILES = 200
"""Files of a commit whose changes are shown; more are counted."""

_TRAILER = re.compile(
    r"^(?:[\w-]+-by|cc|change-id|git-svn-id|reviewed-on|cr-commit-position)\s*:.*\n?"
    r"|^\(cherry picked from commit [0-9a-f]+\)\n?",
    re.IGNORECASE | re.MULTILINE,
)
_REVERTED_COMMIT = re.compile(
    r"This reverts commit ([0-9a-f]{7,64})(?:,\s+reversing\s+changes\s+made\s+to\s+([0-9a-f]{7,64}))?"
)
_PULL_REQUEST = re.compile(r" \(#\d+\)$")
_REVERTED_SUBJECT = re.compile(r'Revert "(.+)"(?: \(#\d+\))?$')

_LOCK_FILES = frozenset(
    {"go.sum", "npm-shrinkwrap.json", "packages.lock.json", "package.resolved", "bun.lockb", "gradle.lockfile"}
)
_LOCK_ENDS = (".lock", "-lock.json", "-lock.yaml", "-lock.yml")
_VENDORED = frozenset(
    [
        "vendor",
        "vendored",
        "_vendor",
        "third_party",
        "third-party",
        "thirdparty",
        "node_modules",
        "bower_components",
        "godeps",
    ]
)
_GENERATED_ENDS = (".min.js", ".min.css", ".map", "_pb2.py", "_pb2_grpc.py", ".pb.go")


def read_fixes(
    path: Path, *, since: str | None = None, limit: int | None = None, passed_over: Counter[str] | None = None
) -> Iterator[NewEntry]:
    """Yield the fixes among the commits of HEAD's history, newest first, as verified failures.

    A fix says so in its message, or changes a test beside the code and says of nothing new. Merges, reverts, what was
    reverted later in the same history, versions, documents and format are left out. `since` is a revision (its history
    is left out) or a date in UTC; `limit` is the most entries to yield. The history is streamed. `passed_over` counts
    the commits that were left out, by the reason, as far as the history was read.
    Raises InvalidInput, for `path`, `since` or `limit`, before the first entry, and for `path` where git fails later.
    """
    if limit is not None and limit < 1:
        raise InvalidInput("limit", f"must be 1 or more, not {limit}")
    repository = open_repository(path)
    if not repository.has_commits():
        return iter(())
    counts = Counter[str]() if passed_over is None else passed_over
    return islice(_iter_fixes(repository, repository.range_since(since), counts), limit)


@dataclass(slots=True)
class _Reverts:
    """The commits that later ones reverted. Filled newest first, so complete for a commit before it is read."""

    hashes: set[str] = field(default_factory=set)
    beginnings: set[str] = field(default_factory=set)
    subjects: dict[str, int] = field(default_factory=dict)

    def is_reverted(self, commit: str, subject: str) -> bool:
        """Return whether a later commit reverted this one; a revert by subject counts for one commit."""
        if commit in self.hashes or any(commit.startswith(beginning) for beginning in self.beginnings):
            return True
        bare = _PULL_REQUEST.sub("", subject)
        if self.subjects.get(bare, 0):
            self.subjects[bare] -= 1
            return True
        return False

    def add_reverts_of(self, repository: Repository, message: str) -> None:
        """Add the commits that a message reverts: one, all commits of a merge, or one with the same subject."""
        references = _REVERTED_COMMIT.findall(message)
        for commit, parent in references:
            (self.hashes if len(commit) in {40, 64} else self.beginnings).add(commit)
            if parent:
                merged = repository.run("rev-list", "--end-of-options", commit, f"^{parent}")
                self.hashes.update(merged.stdout.decode("ascii").split())
        if not references and (by_subject := _REVERTED_SUBJECT.match(message.split("\n", 1)[0])):
            subject = _PULL_REQUEST.sub("", by_subject[1])
            self.subjects[subject] = self.subjects.get(subject, 0) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    """A commit of the history: its message, and the names of the files that it changed."""

    hash: str
    message: str
    paths: list[str]


def _iter_fixes(repository: Repository, since: tuple[str, ...], passed_over: Counter[str]) -> Iterator[NewEntry]:
    reverts, boundary = _Reverts(), repository.boundary()
    if merges := repository.count_merges(since):
        passed_over[PassedOver.MERGE] += merges
    for commit in _iter_commits(repository, since):
        reason = _reason_against(repository, commit, reverts, boundary)
        files = [] if reason else _list_changes(repository, commit.hash)
        if not reason and not files:
            reason = PassedOver.NO_CHANGES if not commit.paths else PassedOver.DOCUMENTATION
        if reason:
            passed_over[reason] += 1
        else:
            yield _make_entry(repository, commit.hash, commit.message, files)


def _reason_against(
    repository: Repository, commit: _Commit, reverts: _Reverts, boundary: frozenset[str]
) -> PassedOver | None:
    """Return why a commit teaches nothing; None for a fix that stands."""
    if reverts.is_reverted(commit.hash, commit.message.split("\n", 1)[0]):
        return PassedOver.REVERTED
    reverts.add_reverts_of(repository, commit.message)
    if commit.hash in boundary:
        return PassedOver.SHALLOW
    if _REVERTED_COMMIT.search(commit.message):
        return PassedOver.REVERT
    return reason_against(commit.message, commit.paths) if commit.paths else PassedOver.NO_CHANGES


def _iter_commits(repository: Repository, since: tuple[str, ...]) -> Iterator[_Commit]:
    """Yield the commits, children before parents, without merges."""
    order = ("--date-order", "--no-merges", "--no-show-signature", "--no-notes", "--no-color")
    names = ("--name-only", "--no-renames", "--root", "--no-ext-diff", "--no-textconv")
    with (
        tempfile.TemporaryFile() as errors,
        repository.start(
            "log", "-z", "--encoding=UTF-8", "--format=%x01%H%n%B", *order, *names, *since, "--", errors=errors
        ) as log,
    ):
        finished = False
        try:
            yield from _group_records(_split_records(log.stdout))
            finished = True
        finally:
            if not finished:  # the caller stopped early
                log.kill()
        if log.wait() != 0:
            errors.seek(0)
            reason = escape_unstorable(errors.read(2000)).strip().partition("\n")[0]
            raise InvalidInput("path", f"git cannot read the history of {repository.path}: {reason}")


def _group_records(records: Iterator[bytes]) -> Iterator[_Commit]:
    """Yield the commits of records: each a commit after its mark, followed by a record for each changed file."""
    commit: _Commit | None = None
    for record in records:
        if record.startswith(b"\x01"):
            if commit is not None:
                yield commit
            name, _, message = record[1:].partition(b"\n")
            commit = _Commit(hash=name.decode("ascii"), message=escape_unstorable(message).strip(), paths=[])
        elif commit is not None and (path := record.removeprefix(b"\n")):
            commit.paths.append(escape_unstorable(path))
    if commit is not None:
        yield commit


def _split_records(stream: IO[bytes] | None) -> Iterator[bytes]:
    rest = b""
    while stream and (read := stream.read1(65536)):  # type: ignore[attr-defined]  # a pipe's is a BufferedReader
        *records, rest = (rest + read).split(b"\0")
        yield from records
    if rest:
        yield rest


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A file changed by a commit. `paths` has the old name before the new one if it was renamed."""

    paths: tuple[bytes, ...]
    added: int
    removed: int
    binary: bool

    @property
    def name(self) -> str:
        return escape_unstorable(self.paths[-1])

    @property
    def summary(self) -> str | None:
        """The kind of a file whose diff is not shown; None for one that is."""
        return "binary file" if self.binary else describe_unshown(self.name)


def describe_unshown(name: str) -> str | None:
    """Return the kind of a file whose changes nobody reads: a lock file, vendored or generated; None for others."""
    path = PurePosixPath(name.lower())
    if path.name in _LOCK_FILES or path.name.endswith(_LOCK_ENDS):
        return "lock file"
    if _VENDORED.intersection(path.parts[:-1]):
        return "vendored file"
    return "generated file" if path.name.endswith(_GENERATED_ENDS) else None


def _list_changes(repository: Repository, commit: str) -> list[_File]:
    result = repository.run(*DIFF, "--numstat", "-z", "--ignore-space-at-eol", "--ignore-blank-lines", commit)
    if result.returncode != 0:  # as in a clone without its blobs
        message = escape_unstorable(result.stderr).strip().partition("\n")[0]
        raise InvalidInput("path", f"git cannot show commit {commit} of {repository.path}: {message}")
    fields = iter(result.stdout.split(b"\0"))
    files = []
    for numbers in fields:
        if not numbers:
            continue
        added, removed, path = numbers.split(b"\t", 2)
        paths = (path,) if path else (next(fields), next(fields))
        binary = added == b"-"
        files.append(
            _File(paths=paths, added=0 if binary else int(added), removed=0 if binary else int(removed), binary=binary)
        )
    return files


def _make_entry(repository: Repository, commit: str, message: str, files: list[_File]) -> NewEntry:
    readable = [file for file in files if file.summary is None]
    return NewEntry(
        entry_type=EntryType.FAILURE_SOLUTION,
        project_id=repository.project_id,
        agent_type="developer",
        task_type="bugfix",
        technology=main_technology((file.name, file.added + file.removed) for file in readable),
        failure_description=fit_beginning(
            _TRAILER.sub("", message).strip() or message, f"cut: the message of commit {commit} goes on"
        ),
        solution_steps=_solution(repository, commit, files, readable),
        success_verified=True,
        verified_by=f"commit {commit}",
        task_id=key(commit),
        run_id="git",
    )


def _solution(repository: Repository, commit: str, files: list[_File], readable: list[_File]) -> str:
    """Return the diff of a commit within the limit; binary, lock, vendored and generated files get a line each."""
    summaries = [
        f"{file.name}: {file.summary}, +{file.added} -{file.removed} lines"
        if not file.binary
        else f"{file.name}: binary file"
        for file in files
        if file.summary
    ]
    notes = [f"{line} (not shown)" for line in summaries[:MAX_FILES]]
    unnamed = max(len(summaries) - MAX_FILES, 0) + max(len(readable) - MAX_FILES, 0)
    if unnamed:
        notes.append(f"and {unnamed:,} more files")
    ending = "\n".join(notes)
    ending = fit_beginning(ending, "cut")[: MAX_TEXT_BYTES // 16]
    room = MAX_TEXT_BYTES - len(ending.encode()) - 200
    patch = _patch(repository, commit, readable[:MAX_FILES], room) if readable else ""
    return "\n".join(part for part in (patch, ending) if part)


def _patch(repository: Repository, commit: str, files: list[_File], room: int) -> str:
    """Return the diff of some files, at most `room` bytes of it, cut at the end of a line."""
    paths = [os.fsdecode(path) for file in files for path in file.paths]
    with repository.start(*DIFF, "-p", commit, "--", *paths) as diff:
        assert diff.stdout is not None  # noqa: S101  (a pipe)
        patch = escape_unstorable(diff.stdout.read(room + 1))
        diff.kill()
    if len(patch.encode()) <= room:
        return patch.rstrip("\n")
    beginning = patch.encode()[:room].decode("utf-8", "ignore")
    return f"{beginning.rpartition(chr(10))[0] or beginning}\n[cut: the diff of commit {commit} goes on]"
