"""The pepper: a secret of the server that is not in its database, without which no stored hash can be tried."""

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
_LEAST_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Pepper:
    """A pepper and its name, which tells peppers apart and says nothing of them."""

    value: bytes = field(repr=False)
    name: str


def pepper_of(home: Path, told: SecretStr | None) -> Pepper:
    """Return the pepper of a data directory: what is told, else that of its file, which is made if it is not there.

    Raises InvalidSetting for one that is too short, StorageUnavailable for a file that cannot be used or others read.
    """
    if told is not None:
        value = told.get_secret_value().strip().encode()  # as that of a file
        if len(value) < _LEAST_BYTES:
            raise InvalidSetting("HARDWON_KEY_PEPPER", f"give at least {_LEAST_BYTES} random characters")
        return _named(value)
    path = home / FILE
    try:
        if not path.exists():
            _make(path)
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise StorageUnavailable(f"{path} can be read by others: chmod 600 {path}")
            value = file.read().strip()
    except OSError as error:
        raise StorageUnavailable(f"{path} cannot be used ({error.strerror}): set HARDWON_KEY_PEPPER") from error
    if len(value) < _LEAST_BYTES:
        raise StorageUnavailable(f"{path} is damaged: put it back from a backup, or remove it and make all keys anew")
    return _named(value)


def _make(path: Path) -> None:
    """Write a pepper, whole or not at all; of two that do it at once the first stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(prefix=f".{FILE}-", dir=path.parent)  # 0600
    try:
        with os.fdopen(number, "w") as file:
            file.write(secrets.token_hex(_LEAST_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink()


def other_pepper(keys: int) -> str:
    """Say that keys were made with another pepper, and what there is to do."""
    return (
        f"keys that open nothing here, as they were made with another pepper: {keys:,}. Put back the file {FILE} of the"
        " data directory, or the HARDWON_KEY_PEPPER, that they were made with, or revoke them and make others"
    )


def _named(value: bytes) -> Pepper:
    return Pepper(value=value, name=hashlib.sha256(b"hardwon key pepper\0" + value).hexdigest()[:12])
