"""The long form: `python -m tests.isolation --workspaces 200 --operations 100000`; the seed repeats the choices."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

from knowledge.adapters.postgres.database import make_engine
from knowledge.adapters.postgres.migrating import migrate
from tests.isolation.leaks import Leak
from tests.isolation.life import one_store
from tests.isolation.mutants import CAUGHT, Mutant, mutated
from tests.support.postgres import create_database, throwaway_postgres


async def _live(server: str, asked: argparse.Namespace, mutant: Mutant | None) -> str | None:
    """Live in a new store; return what leaked, None if nothing did."""
    dsn = await create_database(server)
    engine = make_engine(dsn)
    await migrate(engine)
    await engine.dispose()
    with tempfile.TemporaryDirectory(prefix="hardwon-isolation-") as home, mutated(mutant):
        try:
            async with one_store(dsn, Path(home), asked.workspaces, asked.seed) as life:
                await life.live(asked.operations)
        except Leak as leak:
            return str(leak)
        print("  " + ", ".join(f"{number:,} x {kind}" for kind, number in life.done.most_common()))  # noqa: T201
    return None


async def _all(server: str, asked: argparse.Namespace) -> bool:
    well = True
    for mutant in (None, *CAUGHT):
        began = time.perf_counter()
        leaked = await _live(server, asked, mutant)
        right = (leaked is not None) == (mutant is not None)
        well &= right
        what = f"mutant: {mutant}" if mutant else f"{asked.workspaces} workspaces, {asked.operations:,} operations"
        said = f"caught: {leaked}" if leaked and mutant else f"LEAK: {leaked}" if leaked else "0 leaks"
        print(f"{'ok ' if right else 'BAD'} {what}: {said} ({time.perf_counter() - began:.0f} s)")  # noqa: T201
    return well


def main() -> int:
    """Run the long form; 1 where something leaked, or a mutant was not caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.isolation", description=__doc__)
    parser.add_argument("--workspaces", type=int, default=200)
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    asked = parser.parse_args()
    print(f"seed {asked.seed}")  # noqa: T201
    with throwaway_postgres() as server:
        return 0 if asyncio.run(_all(server.dsn, asked)) else 1


if __name__ == "__main__":
    sys.exit(main())
