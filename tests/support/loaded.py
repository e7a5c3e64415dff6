"""Which modules a program has loaded when it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys

HEAVY = {
    "alembic", "asyncpg", "dulwich", "fastapi", "kreuzberg", "numpy", "onnxruntime", "openai", "qdrant_client",
    "qdrant_edge", "rapidfuzz", "re2", "snowballstemmer", "sqlalchemy", "starlette", "tokenizers", "uvicorn",
}  # fmt: skip
"""What stores, models and servers are made of."""
TELL = "import atexit, json, sys; atexit.register(lambda: sys.stderr.write(json.dumps(sorted(sys.modules))))\n"


def loaded(script: str, *arguments: str, **more: str) -> set[str]:
    """Return the modules that a program has loaded when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", TELL + script, *arguments],
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.split(".")[0] in {"jobs", "knowledge", "orchestrator"}}


def heavy(modules: set[str]) -> set[str]:
    """Return which of the modules have no place in a process that opens no stores."""
    drivers = HEAVY & modules
    parts = ("knowledge.documents.", "knowledge.text.redaction", "knowledge.wiring.open", "orchestrator.http.")
    return drivers | {name for name in ours(modules) if name.startswith(parts)}
