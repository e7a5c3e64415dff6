"""The long form: `python -m tests.integrity --edits 20000`; the seed repeats the choices."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.asked import at_least_one
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import open_knowledge
from tests.integrity.edits import Tally, try_edits
from tests.support.embedders import HashingEmbedder


async def _run(home: Path, edits: int, seed: int) -> Tally:
    settings = KnowledgeSettings(home=home, holdout=0, query_deadline_ms=60_000)
    async with open_knowledge(settings, embedder=HashingEmbedder(dims=256)) as knowledge:
        return await try_edits(knowledge, edits, seed)


def main() -> int:
    """Edit a store; 1 where an edit changed what is seen and nobody was told."""
    parser = argparse.ArgumentParser(prog="python -m tests.integrity", description=__doc__)
    parser.add_argument("--edits", type=at_least_one, default=20_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)  # noqa: T201
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="hardwon-edits-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        tally = asyncio.run(_run(Path(folder), asked.edits, asked.seed))
    for what in tally.unnoticed[:50]:
        print(ascii(what))  # noqa: T201
    print(  # noqa: T201
        f"{asked.edits:,} edits: {tally.refused:,} refused by Postgres or none, {tally.reported:,} reported,"
        f" {tally.harmless:,} that change nothing seen, {len(tally.unnoticed):,} unnoticed"
        f" ({time.perf_counter() - began:.0f} s)"
    )
    return 1 if tally.unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
