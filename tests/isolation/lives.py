"""One life in one new store, in whatever process it is to be lived."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from knowledge.adapters.postgres.engine.database import make_engine
from knowledge.adapters.postgres.engine.migrate import migrate
from knowledge.wiring.stores import migration_scripts
from tests.isolation.leaks import Leak
from tests.isolation.life import one_store
from tests.isolation.mutants import Mutant, mutated
from tests.support.postgres import create_database


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A life in a store, and what is wrong with that one."""

    workspaces: int
    operations: int
    seed: int
    mutant: Mutant | None = None


@dataclass(frozen=True, kw_only=True)
class Lived:
    """What came of it: what leaked, None if nothing did."""

    asked: Asked
    leaked: str | None
    done: Counter[str]
    seconds: float
    computed: float
    """Of which this process itself computed; Postgres does the rest."""


def lived(server: str, asked: Asked) -> Lived:
    """Live in a new store on a server."""
    began, computed = time.perf_counter(), time.process_time()
    gc.set_threshold(50_000)  # a life makes few cycles
    leaked, done = asyncio.run(_live(server, asked))
    computed, seconds = time.process_time() - computed, time.perf_counter() - began
    return Lived(asked=asked, leaked=leaked, done=done, seconds=seconds, computed=computed)


async def _live(server: str, asked: Asked) -> tuple[str | None, Counter[str]]:
    dsn = await create_database(server)
    engine = make_engine(dsn)
    await migrate(engine, migration_scripts())
    await engine.dispose()
    with tempfile.TemporaryDirectory(prefix="hardwon-isolation-") as home, mutated(asked.mutant):
        async with one_store(dsn, Path(home), asked.workspaces, asked.seed) as life:
            try:
                await life.live(asked.operations)
            except Leak as leak:
                return str(leak), life.done
            return None, life.done
