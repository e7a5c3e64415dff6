"""Snapshots of a git work tree, with what is not committed and not tracked, and the difference between two of them.

A snapshot is a tree object. Its own blobs and trees are written to a folder of the data directory, never to the
repository; no filter, hook or other program that the repository's configuration names is run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Self

from hardwon.errors import InvalidInput
from hardwon.text.truncation import escape_unstorable
from orchestrator.importers.git import describe_unshown
from orchestrator.importers.repository import Repository, open_repository

MAX_FILE_BYTES = 256 * 1024
MAX_FILES = 2000
MAX_TREE_BYTES = 16 * 1024 * 1024
"""Limits of a snapshot; ours. Larger files are left out of it, and a work tree with more changes has none."""
GIT_SECONDS = 5.0
"""Longest time that one git command may take; ours."""
CLOCK_SECONDS = 0.02
"""Distance of a file's time, which is that of the last tick, from the clock; hardwon itself takes longer to start."""
_PRIVATE = re.compile(
    r"^\.env(?:$|\..*)|\.(?:pem|key|p12|pfx|jks|kdbx|keystore)$|^id_(?:rsa|dsa|ecdsa|ed25519)|^\.(?:netrc|npmrc|pypirc)$"
    r"|^credentials(?:$|\.)",
    re.IGNORECASE,
)
"""Names of files that hold secrets: their contents are in no snapshot, nor in a lesson."""
_DIFF = ("diff-tree", "-r", "-M", "--no-ext-diff", "--no-textconv", "--no-color")
_HEADER = re.compile(r"^(?:diff --git |index |similarity index |old mode |new mode |new file mode |deleted file mode )")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of a work tree: its tree, the commit and the branch that it is on."""

    tree: str
    commit: str | None
    branch: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A file that differs between two snapshots."""

    path: str
    lines: int
    is_binary: bool

    @property
    def is_shown(self) -> bool:
        """True where its diff says something to a reader."""
        return not self.is_binary and describe_unshown(self.path) is None


class _Git(Repository):
    """Git with objects and an index of our own, with a time limit."""

    __slots__ = ()

    def run_with(
        self, environment: dict[str, str], *arguments: str, given: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        """Run git to its end. Raises TimeoutExpired, or CalledProcessError where it fails."""
        return subprocess.run(  # noqa: S603 - no shell; the user's values stand behind options
            self.command(*arguments),
            env=self.environment() | environment,
            input=given,
            capture_output=True,
            check=True,
            timeout=GIT_SECONDS,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkTree:
    """A work tree, and the folder for the objects of its snapshots."""

    git: _Git
    root: Path
    objects: Path

    @property
    def project_id(self) -> str:
        """The repository's name."""
        return self.git.project_id

    @classmethod
    def open(cls, folder: Path, *, objects: Path) -> Self | None:
        """Return the work tree that contains a folder; None outside of one, or without git."""
        try:
            repository = open_repository(folder)
        except InvalidInput:
            return None
        git = _Git(git=repository.git, path=repository.path, project_id=repository.project_id)
        top = git.run("rev-parse", "--show-toplevel")
        if top.returncode != 0:
            return None
        root = Path(os.fsdecode(top.stdout.rstrip(b"\n")))
        return cls(git=replace(git, path=root), root=root, objects=objects)

    def take_snapshot(self, before: float) -> Snapshot | None:
        """Return the state of the work tree; None if too much of it is not committed.

        Files that were changed after `before` (seconds) are as they are in the index: the command itself wrote them.
        Raises OSError or SubprocessError.
        """
        with tempfile.TemporaryDirectory(prefix="hardwon-") as temporary:
            index = Path(temporary) / "index"
            real_index = self._path("index")
            if real_index.exists():
                shutil.copyfile(real_index, index)
            environment = self._environment() | {"GIT_INDEX_FILE": str(index)}
            listed = self.git.run_with(
                environment, "ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard"
            ).stdout
            paths = sorted({path for path in listed.split(b"\0") if path and not path.endswith(b"/")})
            if len(paths) > MAX_FILES:
                return None
            self._add_to_index(environment, paths, before - CLOCK_SECONDS)
            tree = self.git.run_with(environment, "write-tree").stdout.decode("ascii").strip()
        branch = self.git.run("symbolic-ref", "--quiet", "HEAD").stdout
        return Snapshot(tree=tree, commit=self.git.revision("HEAD"), branch=escape_unstorable(branch).strip() or None)

    def list_changes(self, old: Snapshot, new: Snapshot) -> list[Change]:
        """Return the files that differ, renamed ones by their new names."""
        output = self._diff("--numstat", "-z", "--ignore-space-at-eol", old.tree, new.tree)
        fields = iter(output.split(b"\0"))
        changes = []
        for numbers in fields:
            if not numbers:
                continue
            added, removed, path = numbers.split(b"\t", 2)
            names = (path,) if path else (next(fields), next(fields))
            lines = 0 if added == b"-" else int(added) + int(removed)
            changes.append(Change(path=escape_unstorable(names[-1]), lines=lines, is_binary=added == b"-"))
        return changes

    def render_changes(self, old: Snapshot, new: Snapshot, changes: Sequence[Change]) -> str:
        """Return the diff of these files with one line of context; of binary and generated ones only the name."""
        shown = [each for each in changes if each.is_shown]
        notes = [
            f"{each.path}: {'binary file' if each.is_binary else describe_unshown(each.path)} (not shown)"
            for each in changes
            if each not in shown
        ]
        patch = ""
        if shown:
            paths = [each.path for each in shown]
            data = self._diff("-p", "-U1", "--ignore-space-at-eol", old.tree, new.tree, "--", *paths)
            patch = "\n".join(_without_headers(escape_unstorable(data)))
        return "\n".join(part for part in (patch, *notes) if part)

    def list_subjects(self, old: Snapshot, new: Snapshot, limit: int) -> list[str]:
        """Return the subjects of the commits between two snapshots, newest first; none where it is not a history."""
        if old.commit is None or new.commit is None or not self.follows(old, new):
            return []
        log = self.git.run("log", f"--max-count={limit}", "--format=%s", f"{old.commit}..{new.commit}", "--")
        return escape_unstorable(log.stdout).splitlines()

    def follows(self, old: Snapshot, new: Snapshot) -> bool:
        """Return whether the second snapshot's commit is the first's or comes after it."""
        if old.commit is None or new.commit is None:
            return old.commit is None
        return self.git.run("merge-base", "--is-ancestor", old.commit, new.commit).returncode == 0

    def _diff(self, *arguments: str) -> bytes:
        return self.git.run_with(self._environment(), *_DIFF, *arguments).stdout

    def _path(self, name: str) -> Path:
        found = self.git.run("rev-parse", "--path-format=absolute", "--git-path", name).stdout
        return Path(os.fsdecode(found.rstrip(b"\n")))

    def _environment(self) -> dict[str, str]:
        self.objects.mkdir(parents=True, exist_ok=True, mode=0o700)
        return {
            "GIT_OBJECT_DIRECTORY": str(self.objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self._path("objects")),
        }

    def _add_to_index(self, environment: dict[str, str], paths: Sequence[bytes], before: float) -> None:
        """Bring changed and untracked files into an index as they are, and take deleted ones out of it."""
        present, gone, total = [], [], 0
        for path in paths:
            file = self.root / os.fsdecode(path)
            if not os.path.lexists(file):
                gone.append(path)
            elif file.is_file() and not file.is_symlink() and not _is_private(path):
                state = file.stat()
                size = state.st_size
                if state.st_mtime < before and size <= MAX_FILE_BYTES and total + size <= MAX_TREE_BYTES:
                    present.append(path)
                    total += size
        present = [path for path in present if b"\n" not in path]  # git reads one path a line here
        hashes = (
            self.git.run_with(
                environment, "hash-object", "-w", "--no-filters", "--stdin-paths", given=b"\n".join(present) + b"\n"
            ).stdout.split()
            if present
            else []
        )
        lines = [b"0 " + b"0" * 40 + b"\t" + path for path in gone]
        for path, name in zip(present, hashes, strict=True):
            mode = b"100755" if os.access(self.root / os.fsdecode(path), os.X_OK) else b"100644"
            lines.append(mode + b" " + name + b"\t" + path)
        if lines:
            self.git.run_with(environment, "update-index", "-z", "--index-info", given=b"\0".join(lines) + b"\0")


def _is_private(path: bytes) -> bool:
    return _PRIVATE.search(PurePosixPath(os.fsdecode(path)).name) is not None


def _without_headers(patch: str) -> Iterator[str]:
    """Yield the lines of a diff without those that only git needs."""
    in_header = True
    for line in patch.split("\n"):
        in_header = line.startswith("diff --git ") or (in_header and not line.startswith("@@"))
        if not (in_header and _HEADER.match(line)):
            yield line
