"""The same rounds in two checkouts, in turn, in one run: this one, and the commit before a change.

A worker is a file here that works with either checkout: it is started with the checkout's packages and this
interpreter's libraries, prepares its store, and answers each line of its input with one line of JSON, the figures of
one round.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent.parent
QUERY_WORKER = "benchmarks/before_query.py"
CHECKPOINT_WORKER = "benchmarks/before_checkpoint.py"

Figures = Mapping[str, float]


async def alternate(
    worker: str, checkouts: Sequence[Path], *, rounds: int, arguments: Sequence[str] = ()
) -> list[list[Figures]]:
    """Return the figures of each checkout's rounds; who goes first changes from round to round."""
    processes = [await _start(worker, checkout, arguments) for checkout in checkouts]
    figures: list[list[Figures]] = [[] for _ in checkouts]
    try:
        for turn in range(rounds):
            order = range(len(processes))
            for side in order if turn % 2 == 0 else reversed(order):
                figures[side].append(await _ask(processes[side]))
    finally:
        for process in processes:
            if process.stdin is not None:
                process.stdin.close()
        await asyncio.gather(*(process.wait() for process in processes))
    return figures


def median_of(figures: Sequence[Figures], name: str) -> float:
    """Return the median of one figure over the rounds."""
    return median(each[name] for each in figures)


async def _start(worker: str, checkout: Path, arguments: Sequence[str]) -> Process:
    surroundings = os.environ | {"PYTHONPATH": str(checkout), "PYTHONHASHSEED": "0"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", str(HERE / worker), *arguments, stdin=PIPE, stdout=PIPE, env=surroundings, cwd=checkout
    )
    await _read(process)  # it is ready
    return process


async def _ask(process: Process) -> Figures:
    assert process.stdin is not None
    process.stdin.write(b"\n")
    await process.stdin.drain()
    return await _read(process)


async def _read(process: Process) -> Figures:
    assert process.stdout is not None
    while line := await process.stdout.readline():
        if line.startswith(b"{"):
            figures: Figures = json.loads(line)
            return figures
    raise RuntimeError(f"the worker ended with {await process.wait()}")
