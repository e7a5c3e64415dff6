"""Paths of findings, relative to the repository: absolute ones, file URIs and those of a CI's checkout meet there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hardwon.errors import InvalidInput
from orchestrator.importers.fields import repository_name
from orchestrator.importers.repository import open_repository

_DRIVE = re.compile(r"^/?[A-Za-z]:/")
_CHECKOUTS = tuple(
    re.compile(pattern)
    for pattern in (
        r"^/(?:home|Users)/runner/[^/]+/([^/]+)/\1/",
        r"^/__w/([^/]+)/\1/",
        r"^[A-Za-z]:/a/([^/]+)/\1/",
        r"^/github/workspace/",
        r"^/builds/[^/]+/(?:[^/]+/)*?[^/]+(?=/(?:src|lib|app|tests?|cmd|pkg|internal)/)/",
        r"^/builds/[^/]+/[^/]+/",
        r"^/home/circleci/(?:project|repo)/",
        r"^/root/(?:project|repo)/",
        r"^/drone/src/",
        r"^/opt/atlassian/pipelines/agent/build/",
        r"^/(?:var/lib|var|home)/jenkins(?:_home)?/(?:agent/)?workspace/[^/]+/",
        r"^/codebuild/output/src\d+/src/(?:[^/]+/){1,3}(?=src/)",
        r"^/home/vsts/[^/]+/\d+/s/",
        r"^/(?:workspaces|azp)/[^/]+/",
        r"^/(?:workspace|workdir|src/app|usr/src/app|repo|code)/",
        r"^/(?:home|Users)/[^/]+/(?:build|workspace|checkout|project|repo)/",
    )
)
_MAX_SOURCE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """The folders that a path may be relative to: the repository around the report, and those that the report names.

    `repository` alone is read: a report is untrusted, and what it names elsewhere is nobody's business.
    """

    repository: Path | None = None
    named: tuple[str, ...] = ()
    project: str | None = None

    def relative(self, address: str) -> str:
        """Return a path relative to the repository, as it is if it is under no root that is known."""
        path = normalize(address)
        if not _is_absolute(path):
            return path
        for root in (*self.named, *([self.repository.as_posix()] if self.repository else ())):
            base = root.rstrip("/") + "/"
            if base != "/" and path.startswith(base) and len(path) > len(base):
                return path[len(base) :]
        if self.repository and (existing := _existing_suffix(self.repository, path)):
            return existing
        for checkout in _CHECKOUTS:
            match = checkout.match(path)
            if match and match.end() < len(path):
                return path[match.end() :]
        if self.project and f"/{self.project}/" in path:
            return path.rpartition(f"/{self.project}/")[2]
        return path

    def read(self, file: str) -> list[str] | None:
        """Return the lines of a file of the repository, None if it is not there or not text."""
        if self.repository is None or _is_absolute(file):
            return None
        try:
            path = (self.repository / file).resolve(strict=True)
            if not path.is_relative_to(self.repository) or not path.is_file():
                return None
            if path.stat().st_size > _MAX_SOURCE_BYTES:
                return None
            return path.read_bytes().decode("utf-8").replace("\r\n", "\n").split("\n")
        except (OSError, ValueError):
            return None


def normalize(address: str) -> str:
    """Return an address as a path with slashes, without a scheme, `.` and `..`."""
    path = address.strip().replace("\\", "/")
    if re.match(r"^[a-z][a-z0-9+.-]+:/", path, re.IGNORECASE) and not _DRIVE.match(path):
        parts = urlsplit(path)
        path = parts.path if parts.scheme == "file" else path
    if "%" in path:
        path = unquote(path)
    if _DRIVE.match(path):
        path = path.lstrip("/")
    folded: list[str] = []
    for part in path.split("/"):
        if part == ".." and folded and folded[-1] not in {"", ".."}:
            folded.pop()
        elif part != "." and (part or not folded):
            folded.append(part)
    return "/".join(folded)


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or bool(_DRIVE.match(path))


def _existing_suffix(root: Path, path: str) -> str | None:
    """Return the longest end of a path that is a file of the repository."""
    parts: Sequence[str] = path.split("/")
    for start in range(1, len(parts)):
        tail = "/".join(parts[start:])
        try:
            if tail and (root / tail).is_file():
                return tail
        except (OSError, ValueError):
            return None
    return None


def find_repository(report: Path) -> Path | None:
    """Return the root of the repository that a report lies in."""
    try:
        folder = report.resolve().parent
    except (OSError, RuntimeError):
        return None
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)


def name_of(repository: Path) -> str | None:
    """Return the name of a repository: of its origin, else of its folder."""
    try:
        return open_repository(repository).project_id
    except InvalidInput:
        return repository_name(str(repository))
