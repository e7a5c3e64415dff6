"""The long form: `python -m tests.forging --strings 100000`; the seed repeats the choices."""

from __future__ import annotations

import argparse
import random
import sys
import time

from benchmarks.asked import at_least_one
from tests.support.blocks import breakouts


def main() -> int:
    """Render forged texts; 1 where one got out."""
    parser = argparse.ArgumentParser(prog="python -m tests.forging", description=__doc__)
    parser.add_argument("--strings", type=at_least_one, default=100_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)  # noqa: T201
    began = time.perf_counter()
    out = list(breakouts(asked.strings, asked.seed))
    for block in out[:3]:
        print(ascii(block))  # noqa: T201
    took = time.perf_counter() - began
    print(f"{len(out)} breakouts of {asked.strings:,} texts ({took:.0f} s)")  # noqa: T201
    return 1 if out else 0


if __name__ == "__main__":
    sys.exit(main())
