"""A command line that builds its commands lazily: building one evaluates the types of all its options."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Coroutine
from copy import copy
from functools import partial
from inspect import getdoc
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group
from typer.models import CommandInfo

from orchestrator.cli.support.signals import end_signals

if TYPE_CHECKING:
    from typing_extensions import Buffer


def make_lazy_group(app: typer.Typer, *, before: Callable[[], None]) -> TyperGroup:
    """Return the root command of an app; `before` is called before a command runs.

    Each of its commands has only a name and a help text until it is called.
    """
    root = get_command(_without_commands(app))
    assert isinstance(root, TyperGroup)  # noqa: S101 - for the checker
    return _add_commands(root, app, before)


def _without_commands(app: typer.Typer) -> typer.Typer:
    bare = copy(app)
    bare.registered_commands, bare.registered_groups = [], []
    bare.rich_markup_mode = None
    return bare


def _add_commands(group: TyperGroup, app: typer.Typer, before: Callable[[], None]) -> TyperGroup:
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "").replace("_", "-")
        group.add_command(_LazyCommand(name, getdoc(command.callback), partial(_make_command, app, command), before))
    for added in app.registered_groups:
        if added.typer_instance is not None:
            summary = str(added.typer_instance.info.help)
            make = partial(_make_group, added.typer_instance, before)
            group.add_command(_LazyCommand(str(added.name), summary, make, None))
    return group


def _make_command(app: typer.Typer, info: CommandInfo) -> Any:
    single = _without_commands(app)
    single.registered_commands = [info]
    (command,) = get_group(single).commands.values()
    return command


def _make_group(app: typer.Typer, before: Callable[[], None]) -> TyperGroup:
    return _add_commands(get_group(_without_commands(app)), app, before)


class _LazyCommand(TyperCommand):
    """A command that is built when it is called."""

    def __init__(
        self, name: str, summary: str | None, make: Callable[[], Any], before: Callable[[], None] | None
    ) -> None:
        super().__init__(name, help=summary, rich_markup_mode=None)
        self._make = make
        self._before = before

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Build the command and the context of a call; a call for help ends here."""
        context = self._make().make_context(info_name, args, parent, **extra)
        if self._before and not context.resilient_parsing:  # which is set for shell completion
            self._before()
        return context


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
    import gc
    import signal

    signals: list[int] = []

    gc.enable()

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


class _Lossy(io.FileIO):
    """A stream that ignores failed writes: the output is lost, and the work goes on."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data) or memoryview(data).nbytes  # None if a non-blocking reader is too slow
        except OSError:
            return memoryview(data).nbytes


def ensure_standard_streams() -> None:
    """Replace closed standard streams: reading from one gives nothing, and writing to one fails.

    Otherwise the next file that is opened would get its number, and a write there, such as the engine's last words in
    a panic, would go into a file of the stores. Failed writes to standard error are ignored.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDONLY)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - as long as the process
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.flush()
        lossy = io.BufferedWriter(_Lossy(sys.stderr.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(
            lossy, encoding=sys.stderr.encoding, errors="backslashreplace", line_buffering=True, write_through=True
        )
