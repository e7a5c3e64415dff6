"""How a command of `hardwon` runs, and the options all of them have."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import typer

from orchestrator.cli.signals import end_signals

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Limit = Annotated[int, typer.Option(min=1, help="How many to show at most.")]
All = Annotated[bool, typer.Option("--all", help="Show all of them.")]
Workspace = Annotated[str, typer.Option(help="The tenant; learning never crosses workspaces.")]


def run(work: Callable[[], Coroutine[Any, Any, None]], *, until_stopped: bool = False) -> None:
    """Run a command's work; Ctrl-C, SIGTERM and a closed terminal end it in order, so that owned stores are closed.

    That is how work that goes on `until_stopped` ends well; any other exits as the signal would have made it.
    """
    import asyncio  # what only works, and not what only helps, needs
    import contextlib
    import signal

    told: list[int] = []

    async def until_told() -> None:
        task = asyncio.ensure_future(work())

        def stop(number: int) -> None:
            told.append(number)
            task.cancel()

        for number in end_signals():
            with contextlib.suppress(NotImplementedError):
                asyncio.get_running_loop().add_signal_handler(number, stop, number)
        await task

    try:
        asyncio.run(until_told())
    except asyncio.CancelledError:
        sys.stderr.write("stopped\n")
        sys.exit(0 if until_stopped else 128 + (told or [signal.SIGINT])[0])
