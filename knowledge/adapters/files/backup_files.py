"""Backups in a folder: an archive each, and beside it the record that it was tried, written last and vouched for.

An archive without a record is not a backup: its making or its trial was broken off, and the next backup removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import file_digest
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, Final, Self

from hardwon.errors import Conflict, InvalidInput, InvalidSetting, StorageUnavailable
from hardwon.installation import install_command
from knowledge.access.seals import SealKeys, canonical

_PREFIX: Final = "hardwon-"
_ARCHIVE: Final = ".backup"
_RECORD: Final = ".json"
_LOCK: Final = ".hardwon-backups"
IDENTITY_SETTING: Final = "HARDWON_BACKUP_IDENTITY"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRecord:
    """Record of a backup that passed its trial.

    `rows`: by table; `sha256`, `size`: of the archive as it lies in the folder, in bytes; `answers`: queries that
    answered from the restored copy as before; `seal`: the MAC over all other fields, by a key of the store.
    """

    made_at: datetime
    tried_at: datetime
    hardwon: str
    rows: Mapping[str, int]
    sha256: str
    size: int
    is_encrypted: bool
    answers: int
    seal: str = ""

    def message(self) -> bytes:
        """Return the bytes that the seal covers."""
        fields = asdict(self)
        del fields["seal"]
        return canonical("backup", "", list(fields.values()))

    def to_json(self) -> str:
        """Return the record as the text of its file."""
        times = {"made_at": self.made_at.isoformat(), "tried_at": self.tried_at.isoformat()}
        return json.dumps(asdict(self) | times, indent=2) + "\n"

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the record of a file's text. Raises ValueError."""
        try:
            told: dict[str, Any] = json.loads(text)
            times = {name: datetime.fromisoformat(told[name]) for name in ("made_at", "tried_at")}
            return cls(**told | times)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A backup in a folder."""

    path: Path
    record: BackupRecord

    def check(self, keys: SealKeys | None) -> None:
        """Raise InvalidInput where the archive is not the one that was tried, or where no key here vouches for it."""
        seal = bytes.fromhex(self.record.seal)
        if keys is None or not keys.knows(seal):
            raise InvalidInput(
                "backup",
                f"{self.path.name} was made with a key that is not here: put the seal-keys of its store into the data"
                " directory, or set HARDWON_SEAL_KEYS to them, and nothing is changed until then",
            )
        if not keys.verifies(self.record.message(), seal):
            raise InvalidInput("backup", f"the record of {self.path.name} was edited: take another backup")
        with _open(self.path) as file:
            size = os.fstat(file.fileno()).st_size
            if size != self.record.size:
                raise InvalidInput(
                    "backup",
                    f"{self.path.name} is cut short or grown ({size:,} bytes of {self.record.size:,}): take another",
                )
            if file_digest(file, "sha256").hexdigest() != self.record.sha256:
                raise InvalidInput("backup", f"{self.path.name} is not as it was tried: take another backup")


def _open(path: Path) -> BufferedReader:
    try:
        return path.open("rb")
    except OSError as error:
        raise InvalidInput("backup", f"{path} cannot be read: {error.strerror or error}") from error


def list_backups(folder: Path) -> list[Backup]:
    """Return the backups of a folder, the latest first. Raises StorageUnavailable where it cannot be read."""
    try:
        records = sorted(folder.glob(f"{_PREFIX}*{_RECORD}"), reverse=True)
    except OSError as error:
        raise StorageUnavailable(f"{folder} cannot be read: {error.strerror or error}") from error
    found = []
    for path in records:
        with contextlib.suppress(ValueError, OSError):
            archive = path.with_suffix(_ARCHIVE)
            if archive.exists():
                found.append(Backup(path=archive, record=BackupRecord.read(path.read_text("utf-8"))))
    return sorted(found, key=lambda backup: backup.record.made_at, reverse=True)


def find_backup(place: Path) -> Backup:
    """Return the backup of a file, or the latest of a folder. Raises InvalidInput where there is none."""
    if place.is_dir():
        found = list_backups(place)
        if not found:
            raise InvalidInput("backup", f"{place} holds no backup that passed its trial: name another folder")
        return found[0]
    if not place.exists():
        raise InvalidInput("backup", f"{place} is not there: name a backup or the folder of backups")
    record = place.with_suffix(_RECORD)
    try:
        return Backup(path=place, record=BackupRecord.read(record.read_text("utf-8")))
    except FileNotFoundError:
        raise InvalidInput(
            "backup", f"{place.name} has no record of a trial beside it ({record.name}): it may be half of a backup"
        ) from None
    except (ValueError, OSError) as error:
        raise InvalidInput("backup", f"{record} is no record of a backup: take another backup") from error


@contextlib.contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """Hold a folder of backups for a block, creating it; remove what a broken-off backup left.

    Raises Conflict while another process makes a backup there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = (folder / _LOCK).open("w")
    except OSError as error:
        raise StorageUnavailable(f"{folder} cannot be written: {error.strerror or error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict(f"another process makes a backup in {folder}: wait for it") from error
        for path in (*folder.glob(f".{_PREFIX}*"), *folder.glob(f"{_PREFIX}*{_ARCHIVE}")):
            if path.name != _LOCK and not path.with_suffix(_RECORD).exists():
                path.unlink(missing_ok=True)
        yield


def new_archive(folder: Path, made_at: datetime) -> Path:
    """Return the path of a new archive in a folder."""
    return folder / f"{_PREFIX}{made_at.astimezone(UTC):%Y%m%dT%H%M%S.%f}Z{_ARCHIVE}"


def write_record(archive: Path, record: BackupRecord) -> None:
    """Write the record of a trial beside an archive, whole or not at all."""
    number, name = tempfile.mkstemp(prefix=f".{_PREFIX}", dir=archive.parent)
    with os.fdopen(number, "w", encoding="utf-8") as file:
        file.write(record.to_json())
        sync(file)
    Path(name).replace(archive.with_suffix(_RECORD))
    folder = os.open(archive.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove_older(folder: Path, keep: int) -> Sequence[Path]:
    """Remove all backups of a folder but the latest ones, their records first; return their paths."""
    removed = [backup.path for backup in list_backups(folder)[keep:]]
    for path in removed:
        path.with_suffix(_RECORD).unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    return removed


def sync(file: IO[Any]) -> None:
    """Write what a file holds to its disk."""
    file.flush()
    os.fsync(file.fileno())


def store_archive(archive: IO[bytes], path: Path, identity: Path | None) -> tuple[str, int]:
    """Write an archive to a path, encrypted for an identity if one is given; return its sha256 and its bytes."""
    archive.seek(0)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        if identity is None:
            while piece := archive.read(1 << 20):
                file.write(piece)
        else:
            pyrage = _pyrage()
            pyrage.encrypt_io(archive, file, [each.to_public() for each in read_identities(identity)])
        sync(file)
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest(), path.stat().st_size


@contextlib.contextmanager
def open_archive(backup: Path, *, is_encrypted: bool, identity: Path | None) -> Iterator[IO[bytes]]:
    """Open the archive of a backup, decrypted into a temporary file without a name.

    Raises InvalidInput where it is encrypted and no identity opens it.
    """
    with _open(backup) as file:
        if not is_encrypted:
            yield file
            return
        if identity is None:
            raise InvalidInput("backup", f"{backup.name} is encrypted: set {IDENTITY_SETTING} to the identity's file")
        pyrage = _pyrage()
        with tempfile.TemporaryFile(prefix="hardwon-backup-") as plain:
            try:
                pyrage.decrypt_io(file, plain, read_identities(identity))
            except pyrage.DecryptError as error:
                raise InvalidInput(
                    "backup", f"the identity of {IDENTITY_SETTING} does not open {backup.name} ({error})"
                ) from error
            plain.seek(0)
            yield plain


def read_identities(path: Path) -> list[Any]:
    """Return the age identities (X25519) of a file, as `age-keygen` writes it. Raises InvalidSetting."""
    pyrage = _pyrage()
    try:
        lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
        found = [pyrage.x25519.Identity.from_str(line) for line in lines if line and not line.startswith("#")]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(IDENTITY_SETTING, f"{path} cannot be read") from error
    except pyrage.IdentityError as error:
        raise InvalidSetting(IDENTITY_SETTING, f"{path} is no file of age-keygen") from error
    if not found:
        raise InvalidSetting(IDENTITY_SETTING, f"{path} holds no identity: age-keygen makes one")
    return found


def _pyrage() -> Any:
    try:
        import pyrage  # noqa: PLC0415 - in the extra `backup`
    except ImportError as error:
        raise InvalidSetting(IDENTITY_SETTING, f"needs pyrage: {install_command('backup')}") from error
    return pyrage
