"""The guard suites of others against a real store: `python -m tests.guards [at-rest] [front-door] [amsb]`.

Installs the pinned packages of `tests/guards/requirements.txt` into a temporary folder; no code of theirs is kept here.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.guards import memory_integrity, security_benchmark

SUITES: dict[str, tuple[str, Callable[[Path], Iterable[str]]]] = {
    "at-rest": ("agent-memory-integrity, edits behind the store's back", memory_integrity.run_at_rest),
    "front-door": ("agent-memory-integrity, attacks by the API (surfaced of five)", memory_integrity.run_front_door),
    "amsb": ("AMSB of agent-memory-guard", security_benchmark.run),
}
REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def install(folder: Path) -> None:
    """Install the suites, and nothing that they depend on, into a folder; PyYAML is here already."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    exact = ["--require-hashes", "--only-binary", ":all:", "--no-deps", "--target", str(folder)]
    done = subprocess.run(
        [*pip, *exact, "--requirement", str(REQUIREMENTS)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"the suites cannot be installed: {done.stderr.strip()}")


def main() -> int:
    """Run the suites that are named, or all; their verdicts are printed, and are no failure of the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.guards", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    asked = parser.parse_args().suites or list(SUITES)
    if unknown := set(asked) - set(SUITES):
        parser.error(f"there is no suite {', '.join(sorted(unknown))}: take {', '.join(SUITES)}")
    with tempfile.TemporaryDirectory(prefix="hardwon-guards-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # embedded Postgres runs as another user where we are root
        install(folder / "suites")
        sys.path.append(str(folder / "suites"))
        for suite in asked:
            title, run = SUITES[suite]
            print(f"\n{title}", flush=True)  # noqa: T201
            for line in run(folder):
                print(f"  {line}", flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
