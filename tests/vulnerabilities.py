"""`python -m tests.vulnerabilities`: known vulnerabilities in what `requirements.lock` holds, by pip-audit.

Exit code 0: everything was looked up, and nothing is known. 1: something is vulnerable. 3: not everything could be
looked up (no network, an index without such data), and of the rest nothing is known; which is no all-clear.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
AUDIT = (
    "uv tool run --quiet --from pip-audit==2.10.1 pip-audit --disable-pip --require-hashes --progress-spinner off"
    " --format json -r requirements.lock"
)
"""A tool of an audit, not of the project: uv fetches it when it is asked for."""
FOUND, UNKNOWN = 1, 3


def judge(told: str, said: str = "") -> tuple[int, str]:
    """Return the exit code and what to print, of pip-audit's JSON and what it said beside it."""
    try:
        packages: list[dict[str, Any]] = json.loads(told)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = said.strip().splitlines()[-1:] or ["it said nothing"]
        return UNKNOWN, f"NOT LOOKED UP: pip-audit could not do it ({last[0].strip()})"
    known = [package for package in packages if "skip_reason" not in package]
    lines = [
        f"{package['name']} {package['version']}: {found['id']}, mended in {', '.join(found['fix_versions']) or 'none'}"
        for package in known
        for found in package["vulns"]
    ]
    if lines:
        lines.append(f"{len(lines)} known vulnerabilities in {len(known)} packages that were looked up")
    if len(known) < len(packages):
        unknown = [package for package in packages if "skip_reason" in package]
        lines.append(
            f"NOT LOOKED UP: {len(unknown)} of {len(packages)} packages, such as {unknown[0]['name']}"
            f" ({unknown[0]['skip_reason']}): this is no all-clear. Ask again where PyPI itself can be reached"
        )
        return (FOUND if len(lines) > 1 else UNKNOWN), "\n".join(lines)
    if not packages:
        return UNKNOWN, "NOT LOOKED UP: pip-audit found no packages in requirements.lock"
    return (FOUND, "\n".join(lines)) if lines else (0, f"{len(packages)} packages, no known vulnerability")


def main() -> int:
    """Ask, print, return the exit code."""
    command = AUDIT.split()
    command[0] = str(Path(sys.executable).with_name("uv"))
    if not Path(command[0]).exists():
        command[0] = shutil.which("uv") or "uv"
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    except OSError as error:
        sys.stdout.write(f"NOT LOOKED UP: uv cannot be started ({error.strerror})\n")
        return UNKNOWN
    code, says = judge(done.stdout, done.stderr)
    sys.stdout.write(says + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
