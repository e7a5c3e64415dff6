"""Start hardwon's own programs: the command line and the owner process, whatever else the import path holds.

A project may have packages of its own called `orchestrator`, `knowledge`, `jobs` or `migrations`, and be on PYTHONPATH.
In these processes the names mean those that were installed with this file. Run as a script, it becomes the program
named by its first argument: `python -P programs.py orchestrator.server.owner ...`.
"""

from __future__ import annotations

import contextlib
import gc
import os
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

ROOT = str(Path(__file__).resolve().parent.parent)
_PACKAGES = frozenset({"hardwon", "jobs", "knowledge", "migrations", "orchestrator"})
_COMMAND_LINE = "orchestrator.cli"
PLATFORMS = frozenset({("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")})
"""Systems and processors for which every part of hardwon has a wheel."""
_OLDEST_GLIBC = (2, 28)
_PROMISE = "hardwon runs on Linux with glibc 2.28 or newer (x86_64, aarch64) and on macOS 14 or newer (Apple silicon)"


class _OwnPackages:
    """Finds our top-level packages beside this file, before any other."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG004
        """Return the spec of one of our packages."""
        return PathFinder.find_spec(name, [ROOT]) if path is None and name in _PACKAGES else None


def command_line() -> None:
    """Run the command `hardwon`, without what its HTTP client would load and never use: half of its start.

    httpx imports its own command line, and httpcore HTTP/2, which no owner speaks, where their packages are
    installed.
    """
    _check_platform()
    sys.modules["httpx._main"] = ModuleType("httpx._main")
    setattr(sys.modules["httpx._main"], "main", lambda: None)  # noqa: B010 - unknown to the checker
    gc.disable()  # until the command's own work begins: what is loaded is no garbage
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would look through all that is installed
    sys.modules.setdefault("h2", None)  # type: ignore[arg-type] # as the import system has a missing package
    try:
        _run(_COMMAND_LINE)
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(ended.code or 0)  # nothing is left to do but to tear down five hundred modules


def _check_platform() -> None:
    """Exit where no command can work, and warn where one may."""
    if sys.platform == "win32":
        sys.stderr.write(f"error: {unsupported_platform('win32', '', None)}\n")
        sys.exit(1)
    try:
        glibc = os.confstr("CS_GNU_LIBC_VERSION")
    except ValueError:  # no such name: another C library
        glibc = None
    if unsupported := unsupported_platform(sys.platform, os.uname().machine, glibc):
        sys.stderr.write(f"warning: {unsupported}\n")


def unsupported_platform(system: str, machine: str, glibc: str | None) -> str | None:
    """Return a sentence on a platform that hardwon is not made for, None for the others.

    `system` as `sys.platform`, `machine` as `os.uname` names it, `glibc` as `os.confstr` does: `glibc 2.36`.
    """
    if system == "win32":
        return f"{_PROMISE}, not on Windows: use it in WSL 2, or in a container"
    if (system, machine) not in PLATFORMS:
        return f"{_PROMISE}; on {system} {machine} it is not tested"
    if system == "linux" and (glibc is None or _version(glibc) < _OLDEST_GLIBC):
        return f"{_PROMISE}; this Linux has {glibc or 'another C library'}, and parts of it may not start"
    return None


def _version(glibc: str) -> tuple[int, ...]:
    digits = glibc.rpartition(" ")[2].split(".")
    return tuple(int(each) for each in digits if each.isdecimal())


def _run(module: str) -> None:
    sys.meta_path.insert(0, _OwnPackages)
    runpy.run_module(module, run_name="__main__")


if __name__ == "__main__":
    del sys.argv[0]
    _run(sys.argv[0])
