"""Settings of a caller that concern the owner process: the data directory, and the environment it is started with."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from hardwon.errors import InvalidSetting
from hardwon.settings import VERSION

_STORES = ("HARDWON_DATABASE_URL", "HARDWON_QDRANT_URL", "HARDWON_QDRANT_PREFIX")
"""Variables that say which stores are opened."""
_OF_CALLERS = frozenset(
    {
        "HARDWON_HOME",
        "HARDWON_API_URL",
        "HARDWON_API_KEY",
        "HARDWON_QUERY_DEADLINE_MS",
        "HARDWON_LOG_LEVEL",
        "HARDWON_CHECK_COMMANDS",
    }
)
"""Variables that each caller may have its own values of."""
_ALSO_READ = frozenset({"OPENAI_API_KEY", "AI_ENABLE_DOCUMENTATION_QA_SUBAGENT"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerSettings:
    """The data directory, the environment of its owner, and the version of hardwon that the caller has."""

    home: Path
    environment: Mapping[str, str]
    version: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the data directory. Raises InvalidSetting."""
        home = data_directory(environment)
        return cls(home=home, environment={**environment, "HARDWON_HOME": str(home)}, version=VERSION)


def data_directory(environment: Mapping[str, str]) -> Path:
    """Return the data directory that an environment names, absolute. Raises InvalidSetting."""
    text = environment.get("HARDWON_HOME", "").strip()
    if not text:
        return default_home()
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise InvalidSetting("HARDWON_HOME", f"begins with {Path(text).parts[0]}, and that user has no home") from None


def default_home() -> Path:
    """Return the default data directory; /var/lib/hardwon for root, since the server cannot read /root.

    Elsewhere $XDG_DATA_HOME/hardwon, by default ~/.local/share/hardwon (XDG Base Directory Specification), on macOS
    ~/Library/Application Support/hardwon. Raises InvalidSetting for a user without a home directory, which containers
    may have.
    """
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/hardwon")
    try:
        if sys.platform == "darwin":
            return Path("~/Library/Application Support/hardwon").expanduser()
        given = os.environ.get("XDG_DATA_HOME", "").strip()
        return (Path(given) if given else Path("~/.local/share").expanduser()) / "hardwon"
    except RuntimeError:
        raise InvalidSetting(
            "HARDWON_HOME", "is not set, and this user has no home directory: set it to the data directory"
        ) from None


def store_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that say which stores are opened, without passwords; empty where they are not set."""
    return {variable: _without_password(environment.get(variable, "").strip()) for variable in _STORES}


def settings_digest(environment: Mapping[str, str]) -> str:
    """Return a digest of the settings of an owner, to see whether two are the same."""
    values = sorted(
        (name, value)
        for name, value in environment.items()
        if value.strip() and name not in _OF_CALLERS and (name.startswith("HARDWON_") or name in _ALSO_READ)
    )
    return hashlib.sha256(json.dumps(values).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _without_password(address: str) -> str:
    try:
        parts = urlsplit(address)
        if parts.password is None:
            return address
        return parts._replace(netloc=f"{parts.username or ''}@{parts.netloc.rpartition('@')[2]}").geturl()
    except ValueError:
        return "(not an address)"


def is_newer(version: str, other: str) -> bool:
    """Return whether a version comes after another."""
    return _parts(version) > _parts(other)


def _parts(version: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in version.replace("-", ".").split(".")]
