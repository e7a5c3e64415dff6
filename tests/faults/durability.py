"""G1: a capture that was acknowledged is there, whether its client or Postgres died the moment after. With fsync on."""

from __future__ import annotations

import asyncio
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from knowledge.adapters.postgres.engine.embedded_server import EmbeddedPostgres
from tests.conftest import TEMPLATE
from tests.faults.ground import Ground, make_template
from tests.faults.herd import Herd, entry_ids
from tests.support.folders import DISK
from tests.support.postgres import create_database


@dataclass(frozen=True, slots=True, kw_only=True)
class Durability:
    """What was acknowledged, what of it is gone, and how often what was killed."""

    acknowledged: int
    lost: int
    clients: int
    servers: int


@contextmanager
def on_disk(herd: Herd) -> Iterator[tuple[Ground, EmbeddedPostgres]]:
    """Make a store on a Postgres of its own, as shipped: it waits for the disk."""
    with tempfile.TemporaryDirectory(prefix="hardwon-durable-", dir=DISK, ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        home.chmod(0o755)
        with EmbeddedPostgres(home / "home") as server:
            asyncio.run(make_template(server.dsn))
            dsn = asyncio.run(create_database(server.dsn, template=TEMPLATE))
            (home / "work").mkdir()
            yield Ground(herd, dsn, home / "work"), server
            herd.clear()


def survive(ground: Ground, server: EmbeddedPostgres, rng: random.Random, *, instants: int) -> Durability:
    """Kill the client at so many random instants, each third time Postgres instead, without warning."""
    clients = servers = 0
    for instant in range(instants):
        before = len(ground.heard("captured"))
        worker = ground.start(captures=10, checkpoints=False, forever=True)
        ground.wait_for("captured", before + 1)
        time.sleep(rng.uniform(0.0, 0.1))
        if instant % 3 == 2:
            stopped = server._run("pg_ctl", "-D", server.data, "-w", "-m", "immediate", "stop")
            assert stopped.returncode == 0, stopped.stderr
            servers += 1
            worker.wait(may_fail=True)
            server.ensure()
        else:
            worker.send(signal.SIGKILL)
            clients += worker.wait() == -signal.SIGKILL
    acknowledged = entry_ids(ground.heard("captured"))
    lost = acknowledged - asyncio.run(_rows(ground.dsn))
    return Durability(acknowledged=len(acknowledged), lost=len(lost), clients=clients, servers=servers)


async def _rows(dsn: str) -> set[object]:
    connection = await asyncpg.connect(dsn)
    try:
        return {row["id"] for row in await connection.fetch("select id from knowledge_staging")}
    finally:
        await connection.close()
