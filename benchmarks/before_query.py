"""A worker of `benchmarks.before`: CPU of `query_for_task`, of this process and of Postgres, with an instant model.

`python before_query.py PATTERNS QUERIES`. The embedder pretends to the space of the bundled model, so that all of the
ranking is done.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from itertools import islice
from pathlib import Path

import sqlalchemy as sa

from benchmarks.materials import AGENTS, TASKS, TECHNOLOGIES, InstantEmbedder, texts, throwaway
from benchmarks.querying import fill, question
from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.wiring.open import Knowledge


def postgres_seconds(server: int) -> float:
    """Return the CPU seconds of a Postgres server's processes that are alive."""
    seconds = 0.0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if server in {_parent_of(process), int(process.name)}:
                seconds += int((process / "schedstat").read_text().split()[0]) / 1e9
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
    return seconds


def _parent_of(process: Path) -> int:
    return int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])


async def server_of(knowledge: Knowledge) -> int:
    """Return the process id of the Postgres server."""
    async with knowledge.engine.connect() as connection:
        backend = await connection.scalar(sa.select(sa.func.pg_backend_pid()))
    return _parent_of(Path("/proc") / str(backend))


async def main(patterns: int, queries: int) -> None:
    """Fill a store, then ask once for each line of input."""
    situations = list(islice(texts(), patterns))
    async with throwaway(InstantEmbedder(await LocalEmbedder().space())) as knowledge:
        await fill(knowledge, situations)
        server = await server_of(knowledge)
        ask = knowledge.queries.query_for_task
        for number in range(60):
            await ask(question(situations, number, "q"), min_relevance=0)
        print(json.dumps({"ready": 1}), flush=True)
        turn = 0
        while await asyncio.to_thread(sys.stdin.readline):
            asked = [question(situations, turn * queries + number, "q") for number in range(queries)]
            began, own, others = time.perf_counter(), time.process_time(), postgres_seconds(server)
            for number, text in enumerate(asked):
                if number % 2:
                    await ask(text, AGENTS[number % 4], TASKS[number % 3], TECHNOLOGIES[number % 3])
                else:
                    await ask(text, min_relevance=0)
            figures = {
                "own": (time.process_time() - own) / queries,
                "postgres": (postgres_seconds(server) - others) / queries,
                "seconds": (time.perf_counter() - began) / queries,
            }
            print(json.dumps(figures | {"cpu": figures["own"] + figures["postgres"]}), flush=True)
            turn += 1


asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
