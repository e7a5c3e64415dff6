"""`python -m tests.contract_http`: the API held to its OpenAPI document by schemathesis, with right and wrong requests.

Two servers of their own on a throwaway Postgres, one asked for the memory and one for documents, side by side; a key
of all scopes. No answer may be a server error, differ from what the document says of it, take what the document
forbids, or be given without a key.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from benchmarks.asked import at_least_one
from knowledge.adapters.postgres.engine.database import make_engine
from knowledge.adapters.postgres.engine.migrate import migrate
from knowledge.wiring.stores import migration_scripts
from tests.support.openai_server import OpenAIServer
from tests.support.postgres import create_database, throwaway_postgres
from tests.support.processes import Commands, Running, embedding_by

LEFT_OUT = {
    # a text may be blank, too long in bytes or of another entry type: the document cannot say so, and 422 does
    "positive_data_acceptance",
    # more is taken than the document promises: blank texts as absent, numbers as ids, texts as what the schema says
    "negative_data_rejection",
}
ABROAD = {
    # would call whatever address is generated
    "reembed",
    # reads an archive, not JSON
    "import_archive",
}
_MOST_LOGGED = 20
PHASES = "examples,coverage,fuzzing,stateful"


DOCUMENTS = ("--include-tag", "documents", "--include-tag", "answers")
MEMORY = ("--exclude-tag", "documents", "--exclude-tag", "answers")
"""Two halves, each of operations that lead to each other. What belongs to neither is in the second."""


def run(
    url: str, key: str, *, examples: int, phases: str, seed: int | None, only: tuple[str, ...] = ()
) -> tuple[int, str]:
    """Try the API at an address; return 0 where nothing is wrong, and what schemathesis says."""
    command = [
        str(Path(sys.executable).parent / "st"),
        "run",
        f"{url}/openapi.json",
        *("--header", f"Authorization: Bearer {key}"),
        *("--phases", phases),
        *("--max-examples", str(examples)),
        *("--exclude-checks", ",".join(sorted(LEFT_OUT))),
        *(part for name in sorted(ABROAD) for part in ("--exclude-operation-id", name)),
        *only,
        *("--request-timeout", "30"),
        *("--continue-on-failure", "--no-color", "--generation-database", "none"),
        *("--suppress-health-check", "all", "--warnings", "off"),
        *(("--seed", str(seed)) if seed is not None else ()),
    ]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    return done.returncode, done.stdout + done.stderr


async def database(server_dsn: str) -> str:
    """Make a database with its tables; return its address."""
    dsn = await create_database(server_dsn)
    engine = make_engine(dsn)
    await migrate(engine, migration_scripts())
    await engine.dispose()
    return dsn


def try_out(dsn: str, *, examples: int, phases: str, seed: int | None, only: tuple[str, ...] = ()) -> tuple[int, str]:
    """Start a server on a database, make a key, and try it."""
    with OpenAIServer(dims=64) as endpoint, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        settings = {"HARDWON_DATABASE_URL": dsn, "HARDWON_KEY_REQUESTS_PER_SECOND": "100000"}
        commands = Commands(Path(home), embedding_by(endpoint) | settings)
        with commands.serving() as (running, url), _heard(running) as logged:
            body = {"scopes": ["admin"], "workspace": None}
            key = commands.owner("POST", "/v1/keys", body)["secret"]
            code, said = run(url, key, examples=examples, phases=phases, seed=seed, only=only)
        return code, said + "".join(logged[:_MOST_LOGGED])


@contextmanager
def _heard(running: Running) -> Iterator[list[str]]:
    """Read what a server logs while it runs, which stands still once nobody reads; end the server."""
    logged: list[str] = []
    stream = running.process.stderr
    assert stream is not None
    reader = threading.Thread(target=lambda: logged.extend(stream), daemon=True)
    reader.start()
    try:
        yield logged
    finally:
        running.process.kill()
        reader.join()


def main() -> int:
    """Try, print, and return 0; 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.contract_http", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--examples", type=at_least_one, default=100, help="of each operation and phase (100)")
    parser.add_argument("--phases", default=PHASES, help=f"of schemathesis ({PHASES})")
    parser.add_argument("--seed", type=int, help="of the generated requests; a new one if left out")
    given = parser.parse_args()
    began = time.monotonic()

    def half(dsn: str, only: tuple[str, ...]) -> int:
        code, said = try_out(dsn, examples=given.examples, phases=given.phases, seed=given.seed, only=only)
        sys.stdout.write(said)
        sys.stdout.flush()
        return code

    with throwaway_postgres() as server, ThreadPoolExecutor(2) as side_by_side:
        # one after the other: Alembic is made for one migration at a time in a process
        databases = [asyncio.run(database(server.dsn)) for _ in range(2)]
        codes = list(side_by_side.map(half, databases, (MEMORY, DOCUMENTS)))
    told = "NOT as the document says" if any(codes) else "as the document says"
    sys.stdout.write(f"{told}: {time.monotonic() - began:.0f} s\n")
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
