"""Promises at the whole figure that was asked of them, where that takes longer than all others may: the work itself."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace

from hardwon.errors import IdempotencyConflict
from knowledge.models import CaptureOutcome
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from tests.faults.ground import folder
from tests.faults.lessons import lesson
from tests.support.damage import Damage, damage, in_index
from tests.support.embedders import HashingEmbedder
from tests.support.openai_server import OpenAIServer
from tests.support.postgres import create_database, drop_database
from tests.support.processes import Commands, embedding_by, free_port
from tests.support.qdrant_over_edge import QdrantProcess

Said = tuple[bool, str]
"""Whether all was well, and what there is to say of it."""

STARTS = """
import asyncio
from knowledge import NewEntry
from orchestrator import connect

async def main():
    async with connect() as knowledge:
        told = NewEntry(
            entry_type="failure_solution", project_id="herd", agent_type="coder",
            failure_description="it broke at {number}", solution_steps="mend it", success_verified=True,
        )
        await knowledge.capture.capture(told)
        await knowledge.checkpoints.process_all()

asyncio.run(main())
"""
"""One of many that start on stores where nothing is yet: it captures, and embeds what is there."""


async def told_at_once(settings: KnowledgeSettings, *, clients: int, keys: int) -> Said:
    """Have each client tell the same event with the same key, all at once, then one of them another event with it."""
    wrong = refused = 0
    async with AsyncExitStack() as stack:
        opened = [await _opened(stack, settings) for _ in range(clients)]
        for number in range(keys):
            told = replace(lesson(number, sharing=1), idempotency_key=f"key {number}")
            answers = await asyncio.gather(*(each.capture.capture_all([told]) for each in opened))
            outcomes = Counter(answer.outcome for (answer,) in answers)
            ids = {answer.entry_id for (answer,) in answers}
            wrong += outcomes != {CaptureOutcome.ACCEPTED: 1, CaptureOutcome.DUPLICATE: clients - 1} or len(ids) != 1
            try:
                await opened[number % clients].capture.capture(replace(told, project_id="another"))
            except IdempotencyConflict:
                refused += 1
        stored = sum((await opened[0].stats()).entries.values())
    return (stored, wrong, refused) == (keys, 0, keys), f"{stored} stored, {wrong} wrong, {refused} others refused"


async def captured_with_and_without_index(settings: KnowledgeSettings, *, captures: int) -> Said:
    """Capture in turn by stores whose index is up, and by stores whose index refuses connections."""
    took: dict[bool, list[float]] = {True: [], False: []}
    async with AsyncExitStack() as stack:
        away = settings.model_copy(update={"qdrant_url": f"http://127.0.0.1:{free_port()}"})
        doors = {True: await _opened(stack, settings), False: await _opened(stack, away)}
        for number in range(2 * captures):
            up = (number + number // 2) % 2 == 0  # neither always comes first
            began = time.perf_counter()
            await doors[up].capture.capture(lesson(number, sharing=1))
            took[up].append(time.perf_counter() - began)
        accepted = sum((await doors[False].stats()).entries.values())
    settled = captures // 10  # connections are made, and statements prepared, by then
    there, gone = (1000 * statistics.median(took[side][settled:]) for side in (True, False))
    ratio = gone / there
    said = f"{accepted} of {2 * captures} accepted; median {gone:.2f} ms, {there:.2f} with it: {ratio:.3f}"
    return accepted == 2 * captures and ratio <= 1.05, said


async def harmed_and_repaired(settings: KnowledgeSettings, rng: random.Random, *, points: int, strangers: int) -> Said:
    """Harm the index of stores that hold twice as many points, and repair it twice."""
    async with AsyncExitStack() as stack:
        knowledge = await _opened(stack, settings)
        for first in range(0, 2 * points, 1000):
            await knowledge.capture.capture_all([lesson(first + at, sharing=1) for at in range(1000)])
        await knowledge.checkpoints.process_all()
        before = await in_index(knowledge)
        done = await damage(knowledge, rng, points=points, strangers=strangers)
        report = await knowledge.upkeep.verify()
        repaired = await knowledge.upkeep.verify(repair=True)
        again = await knowledge.upkeep.verify(repair=True)
        sound = repaired.sound and again.sound and await in_index(knowledge) == before
    found = Damage(report.missing, report.orphan, report.stale, report.mismatched)
    whole = (found, repaired.repaired, again.repaired) == (done, points + strangers, 0)
    said = f"{done} done, {found} found, {repaired.repaired} written, then {again.repaired}"
    return whole and sound, said if sound else f"{said}, and the index is not what it was"


def first_starts(server_dsn: str, *, rounds: int, processes: int) -> Said:
    """Start so many processes at once on an empty database and an empty Qdrant, each time on new ones."""
    failed: list[str] = []
    stores_wrong = 0
    with OpenAIServer(dims=64) as endpoint, ThreadPoolExecutor(processes) as threads:
        for _ in range(rounds):
            dsn = asyncio.run(create_database(server_dsn))
            with folder() as home, QdrantProcess(home / "qdrant") as qdrant:
                stores = {"HARDWON_DATABASE_URL": dsn, "HARDWON_QDRANT_URL": qdrant.url, **embedding_by(endpoint)}
                machines = [Commands(home / str(at), stores) for at in range(processes)]
                started = [
                    threads.submit(machine.python, STARTS.replace("{number}", str(at)))
                    for at, machine in enumerate(machines)
                ]
                ended = [each.result() for each in started]
                failed += [each.stderr for each in ended if each.returncode or each.stderr]
                stats = machines[0].json("stats")
                stores_wrong += (stats["entries"], stats["points"]) != ({"embedded": processes}, processes)
            asyncio.run(drop_database(dsn))
    said = f"{rounds * processes} starts, {len(failed)} failed {failed[:1]}, {stores_wrong} stores wrong"
    return not failed and not stores_wrong, said


async def _opened(stack: AsyncExitStack, settings: KnowledgeSettings) -> Knowledge:
    return await stack.enter_async_context(open_knowledge(settings, embedder=HashingEmbedder(dims=64)))
