"""The end of work that is broken off: it waits for nothing that may never answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final

from knowledge.errors import HardwonError

FINISH_SECONDS: Final = 5.0
"""What a step that is under way may take when a checkpoint is broken off."""


async def if_in_time(work: Awaitable[object]) -> None:
    """Do what somebody else does later otherwise: its errors are nobody's, and it is broken off where it takes long."""
    with suppress(HardwonError, TimeoutError):
        async with asyncio.timeout(FINISH_SECONDS):
            await work
