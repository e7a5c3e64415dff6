"""Turns at the event loop: whoever computes for long lets others have theirs between two slices of it."""

from __future__ import annotations

import asyncio

_ROUNDS = 4
"""An answer of Postgres is read in one round of the loop, handed on in the next, and acted upon in a third."""


async def let_others_run() -> None:
    """Let whatever waits for its turn take it, as far as it gets without waiting for anything again."""
    for _ in range(_ROUNDS):
        await asyncio.sleep(0)
