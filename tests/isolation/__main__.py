"""The long form: `python -m tests.isolation --workspaces 200 --operations 100000`; the seed repeats the choices.

The operations are shared by a process a core, each with a store of its own that holds all the workspaces; mutants,
which have to be caught, live in smaller stores.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from benchmarks.asked import at_least_one
from tests.isolation.lives import Asked, Lived, lived
from tests.isolation.mutants import CAUGHT
from tests.support.postgres import throwaway_postgres

_OF_A_MUTANT = (20, 2_000)
"""Workspaces and operations at most: one that leaks is caught within dozens."""


def _all(server: str, asked: argparse.Namespace) -> bool:
    shares = [asked.operations // asked.processes] * asked.processes
    shares[0] += asked.operations - sum(shares)
    lives = [
        Asked(workspaces=asked.workspaces, operations=share, seed=asked.seed + number)
        for number, share in enumerate(shares)
    ]
    workspaces, operations = _OF_A_MUTANT
    lives += [Asked(workspaces=workspaces, operations=operations, seed=asked.seed, mutant=each) for each in CAUGHT]
    well, done = True, Counter[str]()
    with ProcessPoolExecutor(asked.processes, mp_context=get_context("spawn")) as pool:
        for ended in as_completed([pool.submit(lived, server, life) for life in lives]):
            life = ended.result()
            well &= _told(life)
            if life.asked.mutant is None:
                done += life.done
    print("  " + ", ".join(f"{number:,} x {kind}" for kind, number in done.most_common()))  # noqa: T201
    return well


def _told(life: Lived) -> bool:
    """Say what came of a life; return whether it is what should."""
    asked, leaked = life.asked, life.leaked
    right = (leaked is not None) == (asked.mutant is not None)
    if asked.mutant:
        what = f"mutant: {asked.mutant}"
        said = f"caught: {leaked}" if leaked else "NOT CAUGHT"
    else:
        what = f"{asked.workspaces} workspaces, {asked.operations:,} operations"
        said = f"LEAK: {leaked}" if leaked else "0 leaks"
    took = f"{life.seconds:.0f} s, {life.computed:.0f} computing"
    print(f"{'ok ' if right else 'BAD'} {what}: {said} ({took})", flush=True)  # noqa: T201
    return right


def main() -> int:
    """Run the long form; 1 where something leaked, or a mutant was not caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.isolation", description=__doc__)
    parser.add_argument("--workspaces", type=at_least_one, default=200)
    parser.add_argument("--operations", type=at_least_one, default=100_000)
    parser.add_argument("--processes", type=at_least_one, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    asked = parser.parse_args()
    began = time.perf_counter()
    print(f"seed {asked.seed}", flush=True)  # noqa: T201
    with throwaway_postgres() as server:
        well = _all(server.dsn, asked)
    print(f"{time.perf_counter() - began:.0f} s in all")  # noqa: T201
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
