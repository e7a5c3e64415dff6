"""The git command for an untrusted repository.

No program that its configuration names is run: no external diff, no textconv, no filesystem monitor, no pager, no
signature check, no fetch of missing objects.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from hardwon.errors import InvalidInput
from hardwon.text.truncation import escape_unstorable
from orchestrator.importers.fields import repository_name

_AGO = re.compile(r"(\d{1,9}) (hour|day|week|month|year)s? ago")
_HOURS = {"hour": 1, "day": 24, "week": 168, "month": 730, "year": 8766}
_HOURS_OF_UNIX = 50 * _HOURS["year"]
"""Longer ago is before 1970, which git cannot express."""
DIFF = ("diff-tree", "--root", "-r", "-M", "--no-commit-id", "--no-ext-diff", "--no-textconv", "--no-color")
"""Git arguments for the changes of a commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """The git command for one untrusted repository."""

    git: str
    path: Path
    project_id: str = ""

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of git with these arguments."""
        return [
            *(self.git, "-C", str(self.path), "--no-pager", "--no-replace-objects", "--literal-pathspecs"),
            *("-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "-c", "log.showSignature=false"),
            *arguments,
        ]

    def environment(self) -> dict[str, str]:
        """Return the environment without variables that change git's behaviour, such as those of a surrounding git."""
        inherited = {name: text for name, text in os.environ.items() if not name.startswith(("GIT_", "LC_", "LANG"))}
        return inherited | {
            "LC_ALL": "C",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "none",  # older gits ignore the line above and fetch missing objects by the config
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Run git to its end."""
        return subprocess.run(  # noqa: S603  (no shell; the user's values stand behind options or --end-of-options)
            self.command(*arguments),
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )

    def start(self, *arguments: str, errors: IO[bytes] | int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """Start git, to stream its output."""
        return subprocess.Popen(  # noqa: S603  (as in run)
            self.command(*arguments),
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        )

    def revision(self, name: str) -> str | None:
        """Return the hash of the commit that a revision names; None if there is none."""
        result = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return result.stdout.decode("ascii").strip() if result.returncode == 0 else None

    def has_commits(self) -> bool:
        """Return whether HEAD is a commit; a new repository has none."""
        return self.revision("HEAD") is not None

    def range_since(self, since: str | None) -> tuple[str, ...]:
        """Return the arguments of `git log` for the history since a revision or a date. Raises InvalidInput."""
        if since is None:
            return ("HEAD",)
        if since.strip() and "\0" not in since:
            if commit := self.revision(since.strip()):
                return ("HEAD", f"^{commit}")
            if ago := _AGO.fullmatch(since.strip()):
                before_git = int(ago[1]) * _HOURS[ago[2]] > _HOURS_OF_UNIX
                return ("HEAD",) if before_git else (f"--since={since.strip()}", "HEAD")
            with suppress(ValueError):
                moment = datetime.fromisoformat(since.strip())
                moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
                before_git = moment.year <= 1970
                return ("HEAD",) if before_git else (f"--since={moment.isoformat(timespec='seconds')}", "HEAD")
        raise InvalidInput(
            "since",
            f"{since!r} is neither a revision of this repository nor a date such as 2026-01-31 or '2 weeks ago'",
        )

    def count_merges(self, since: tuple[str, ...]) -> int:
        """Return the number of merges in the history that these arguments of `git log` mean; 0 for a damaged one."""
        merges = self.run("rev-list", "--count", "--merges", *since, "--")
        return int(merges.stdout) if merges.returncode == 0 else 0

    def boundary(self) -> frozenset[str]:
        """Return the commits at which a shallow clone ends: git shows them as if they had added all files."""
        shallow = self.run("rev-parse", "--path-format=absolute", "--git-path", "shallow")
        with suppress(OSError):
            return frozenset(Path(os.fsdecode(shallow.stdout.rstrip(b"\n"))).read_text(encoding="ascii").split())
        return frozenset()


def open_repository(path: Path) -> Repository:
    """Return the repository that contains a directory; it may be bare. Raises InvalidInput for `path`."""
    git = shutil.which("git")
    if git is None:
        raise InvalidInput("path", "git is needed to read a repository, and is not installed: install git")
    if not path.is_dir():
        raise InvalidInput("path", f"{path} is not a directory")
    repository = Repository(git=git, path=path.absolute())
    result = repository.run("rev-parse", "--absolute-git-dir")
    if result.returncode != 0:
        if "dubious ownership" in escape_unstorable(result.stderr):
            raise InvalidInput(
                "path",
                f"{path} belongs to another user, so git refuses it:"
                " run this as its owner, or list it in git's setting safe.directory",
            )
        raise InvalidInput("path", f"{path} is not in a git repository")
    top = repository.run("rev-parse", "--show-toplevel")  # fails in a bare one
    root = escape_unstorable((top.stdout if top.returncode == 0 else result.stdout).rstrip(b"\n")).removesuffix("/.git")
    origin = escape_unstorable(repository.run("config", "--get", "remote.origin.url").stdout)
    name = repository_name(origin.strip()) or repository_name(root) or "repository"
    return Repository(git=git, path=path.absolute(), project_id=name)
