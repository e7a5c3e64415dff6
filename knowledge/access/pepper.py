"""The pepper: a server secret kept outside the database, without which the stored key hashes cannot be attacked."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from knowledge.errors import InvalidSetting, StorageUnavailable

FILE = "key-pepper"
_MIN_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Pepper:
    """A pepper and its name, which identifies it and reveals nothing about its value."""

    value: bytes = field(repr=False)
    name: str


def load_pepper(home: Path, configured: SecretStr | None) -> Pepper:
    """Return the configured pepper, else that of the file in the data directory, which is created if missing.

    Raises InvalidSetting for one that is too short, StorageUnavailable for a file that is unusable or world-readable.
    """
    if configured is not None:
        value = configured.get_secret_value().strip().encode()  # stripped as the content of a file is
        if len(value) < _MIN_BYTES:
            raise InvalidSetting("HARDWON_KEY_PEPPER", f"give at least {_MIN_BYTES} random characters")
        return _pepper_from(value)
    path = home / FILE
    try:
        if not path.exists():
            _write_pepper(path)
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise StorageUnavailable(f"{path} can be read by other users: chmod 600 {path}")
            value = file.read().strip()
    except OSError as error:
        raise StorageUnavailable(f"{path} cannot be used ({error.strerror}): set HARDWON_KEY_PEPPER") from error
    if len(value) < _MIN_BYTES:
        raise StorageUnavailable(f"{path} is damaged: restore it from a backup, or delete it and create all keys again")
    return _pepper_from(value)


def _write_pepper(path: Path) -> None:
    """Write a new pepper atomically; of two concurrent writers the first wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(prefix=f".{FILE}-", dir=path.parent)  # 0600
    try:
        with os.fdopen(number, "w") as file:
            file.write(secrets.token_hex(_MIN_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink()


def describe_other_pepper(keys: int) -> str:
    """Return a message about keys that were made with another pepper, and the remedy."""
    return (
        f"keys that do not work because they were made with another pepper: {keys:,}. Restore the file {FILE} in the"
        " data directory, or the HARDWON_KEY_PEPPER, that they were made with, or revoke them and create new ones"
    )


def _pepper_from(value: bytes) -> Pepper:
    return Pepper(value=value, name=hashlib.sha256(b"hardwon key pepper\0" + value).hexdigest()[:12])
