"""Ownership of the embedded Postgres' files, and the user it runs as. It never runs as root."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from hardwon.errors import StorageUnavailable

if sys.platform != "win32":
    import pwd


def make_home(home: Path) -> None:
    """Create the data directory, with its parents, if absent: 0700, for root 0755, because its server is another user.

    Modes do not depend on the umask, and existing directories are not changed. Raises OSError.
    """
    if not home.is_dir():
        make_home(home.parent)
        make_directory(home, 0o755 if os.geteuid() == 0 else 0o700, None)


def make_directory(path: Path, mode: int, owner: pwd.struct_passwd | None) -> None:
    """Create a directory atomically with its mode and owner, also if others create it concurrently. Raises OSError."""
    try:
        aside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name[:40]}-"))
        try:
            aside.chmod(mode)
            if owner:
                os.chown(aside, owner.pw_uid, owner.pw_gid)
            aside.rename(path)  # also onto an empty directory
        except OSError:
            aside.rmdir()
            if not path.is_dir():
                raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def server_user(home: Path, base: Path) -> pwd.struct_passwd | None:
    """Return the user to run the server as: None for ourselves; for root the owner of the files, or an account.

    Raises StorageUnavailable if that user cannot use the files.
    """
    owners = [path.stat().st_uid for path in (base, home) if path.exists()]
    if os.geteuid() != 0:
        if len(owners) == 2 and owners[0] != os.geteuid():
            raise StorageUnavailable(
                f"{base} belongs to {user_name(owners[0])}, not to {user_name(os.geteuid())}:"
                " set HARDWON_HOME to a directory of your own, or HARDWON_DATABASE_URL to a Postgres server"
            )
        return None
    if len(owners) == 2 and owners[0] == 0:
        raise StorageUnavailable(
            f"{base} belongs to root, but Postgres never runs as root:"
            " chown it and all in it to the user Postgres is to run as, such as nobody"
        )
    user = _account(next((uid for uid in owners if uid != 0), None))
    for path in (home, *home.parents):
        if not _can_enter(path.stat(), user):
            raise StorageUnavailable(
                f"{path} is closed to {user.pw_name}, the user Postgres runs as when root runs hardwon:"
                f" let that user pass (chmod o+x {path}), or set HARDWON_HOME to a directory outside of it, such as"
                " /var/lib/hardwon"
            )
    return user


def user_name(uid: int) -> str:
    """Return the name of a user, or its number if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _account(uid: int | None) -> pwd.struct_passwd:
    """Return the account of a uid; for None, that of postgres, else of nobody."""
    if uid is not None:
        with contextlib.suppress(KeyError):
            return pwd.getpwuid(uid)
    else:
        for name in ("postgres", "nobody"):
            with contextlib.suppress(KeyError):
                return pwd.getpwnam(name)
    raise StorageUnavailable(
        f"Postgres never runs as root, and there is no account {'postgres or nobody' if uid is None else uid}"
        " to run it as: make one, or set HARDWON_DATABASE_URL to a Postgres server"
    )


def _can_enter(stat: os.stat_result, user: pwd.struct_passwd) -> bool:
    """Return whether a user may enter a directory, by its mode."""
    if stat.st_uid == user.pw_uid:
        return bool(stat.st_mode & 0o100)
    return bool(stat.st_mode & (0o010 if stat.st_gid == user.pw_gid else 0o001))
