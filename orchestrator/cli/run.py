"""The runner of commands, and the options that they share."""

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
    """Run a command's work; Ctrl-C, SIGTERM and a closed terminal cancel it, so that owned stores are closed.

    Work that runs `until_stopped` then exits with 0, any other with the exit code of the signal.
    """
    import asyncio  # not needed for help texts
    import contextlib
    import signal

    signals: list[int] = []

    async def run_until_signal() -> None:
        task = asyncio.ensure_future(work())

        def stop(number: int) -> None:
            signals.append(number)
            task.cancel()

        for number in end_signals():
            with contextlib.suppress(NotImplementedError):
                asyncio.get_running_loop().add_signal_handler(number, stop, number)
        await task

    try:
        asyncio.run(run_until_signal())
    except asyncio.CancelledError:
        sys.stderr.write("stopped\n")
        sys.exit(0 if until_stopped else 128 + (signals or [signal.SIGINT])[0])
