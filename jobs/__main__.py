"""`python -m jobs [NAME]`: the same as `hardwon jobs run [NAME]`, for crontabs and compose files of before."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    os.execv(sys.executable, [sys.executable, "-m", "orchestrator.cli", "jobs", "run", *sys.argv[1:]])  # noqa: S606
