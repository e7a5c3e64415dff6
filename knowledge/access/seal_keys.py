"""The keys of seals: a file of the data directory, or HARDWON_SEAL_KEYS; never Postgres."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from hardwon.errors import InvalidSetting, StorageUnavailable
from knowledge.access.seals import KEY_BYTES, SealKey, SealKeys

FILE: Final = "seal-keys"
SETTING: Final = "HARDWON_SEAL_KEYS"


def find_keys(home: Path, configured: SecretStr | None) -> SealKeys | None:
    """Return the configured keys, else those of the file; None if there is neither.

    Raises InvalidSetting for keys that are too short, StorageUnavailable for a file that is unusable or readable by
    others.
    """
    if configured is not None:
        parts = [part.strip() for part in configured.get_secret_value().split(",")]
        if any(len(part) < KEY_BYTES for part in parts):
            raise InvalidSetting(
                SETTING,
                f"give at least {KEY_BYTES} random characters; several keys with commas between, the newest first",
            )
        return SealKeys.of([SealKey.of(part.encode()) for part in parts])
    path = home / FILE
    try:
        if not path.exists():
            return None
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise StorageUnavailable(f"{path} can be read by other users: chmod 600 {path}")
            lines = file.read().split()
    except OSError as error:
        raise StorageUnavailable(f"{path} cannot be used ({error.strerror}): set {SETTING}") from error
    if not lines or any(len(line) < KEY_BYTES for line in lines):
        raise StorageUnavailable(f"{path} is damaged: restore it from where you keep a copy")
    return SealKeys.of([SealKey.of(line) for line in lines])


def make_keys(home: Path) -> SealKeys:
    """Return the keys of the file after a new one was put first; older seals still verify by the others."""
    path = home / FILE
    before = path.read_bytes() if path.exists() else b""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(prefix=f".{FILE}-", dir=path.parent)  # 0600
    try:
        with os.fdopen(number, "wb") as file:
            file.write(os.urandom(KEY_BYTES).hex().encode() + b"\n" + before)
            file.flush()
            os.fsync(file.fileno())
        if before:
            Path(name).rename(path)
        else:
            with contextlib.suppress(FileExistsError):  # of two first starts, the first wins
                os.link(name, path)
    finally:
        Path(name).unlink(missing_ok=True)
    made = find_keys(home, None)
    assert made is not None  # noqa: S101 - it was just written
    return made
