"""`hardwon watch -- COMMAND`: run a command as it is, and learn the change that made it pass again."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from hardwon.models.ids import DEFAULT_WORKSPACE
from orchestrator.cli.support.run import Json, Workspace

if TYPE_CHECKING:
    from orchestrator.watch.open_failures import FailureLog
    from orchestrator.watch.passthrough import Ending

DELIVERY_SECONDS = 3.0
"""Longest time that a lesson waits for the store, ours; it is kept, and the next run of `hardwon watch` tries again."""
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


def add_watch(app: typer.Typer) -> None:
    """Add the command."""

    @app.command(context_settings={"allow_interspersed_args": False})
    def watch(
        command: Annotated[
            list[str] | None, typer.Argument(help="The command, with its arguments; nothing: show what fails just now.")
        ] = None,
        project: Annotated[str | None, typer.Option(help="The project; else the name of the git repository.")] = None,
        *,
        workspace: Workspace = DEFAULT_WORKSPACE,
        as_json: Json = False,
    ) -> None:
        """Run a check as it is. Learn the change that makes it pass again.

        The exit code is the command's. Put -- before a command with options: hardwon watch -- pytest -x
        """
        if not command:
            _show(as_json=as_json)
            return
        _run(command, project, workspace)


def _run(command: list[str], project: str | None, workspace: str) -> NoReturn:
    from orchestrator.watch.passthrough import end_as, run_unchanged

    folder = Path.cwd()
    try:
        ending = run_unchanged(command)
    except OSError as error:
        sys.stderr.write(f"hardwon watch: {command[0]}: {error.strerror}\n")
        sys.exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE)
    with suppress(Exception):  # nothing of ours may change what the command's caller sees
        _learn(command, folder, ending, project, workspace)
    end_as(ending)


def _learn(command: list[str], folder: Path, ending: Ending, project: str | None, workspace: str) -> None:
    """Remember or learn from a run, without a word."""
    from orchestrator.watch.lesson import WatchedRun, note_run
    from orchestrator.watch.open_failures import FailureLog

    silence = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(silence, descriptor)
    log = FailureLog(_home())
    run = WatchedRun(command=command, folder=folder, ending=ending, project=project)
    note_run(run, log, datetime.now(UTC))
    if log.list_pending() or log.list_withdrawn():
        import asyncio

        asyncio.run(asyncio.wait_for(_deliver(log, workspace), DELIVERY_SECONDS))


async def _deliver(log: FailureLog, workspace: str) -> None:
    """Hand the store what was learned; what it does not take in time stays for the next run."""
    from hardwon import connection
    from hardwon.errors import InvalidInput, NotFound
    from hardwon.models.ids import EntryId
    from hardwon.validation import as_id

    async with connection.connect(workspace=workspace, warm=False) as knowledge:
        for path, reporter, entry in log.list_pending():
            with suppress(InvalidInput):  # it never will be taken
                log.note_delivered(path, str(await knowledge.report_as(reporter).capture.capture(entry)))
            path.unlink(missing_ok=True)
        for path, entry_id in log.list_withdrawn():
            with suppress(InvalidInput, NotFound):
                await knowledge.capture.delete(EntryId(as_id("entry_id", entry_id)))
            path.unlink(missing_ok=True)


def _home() -> Path:
    from hardwon.owner.environment import data_directory

    return data_directory(os.environ)


def _show(*, as_json: bool) -> None:
    """Print the checks that fail just now, and what came of the runs."""
    from orchestrator.cli.support.terminal import print_json, print_text
    from orchestrator.watch.open_failures import FailureLog

    log = FailureLog(_home())
    failures, counts = log.list_open(), dict(sorted(log.counts().items()))
    if as_json:
        shown = [
            {
                "project_id": each.project,
                "command": each.command,
                "work_tree": each.work_tree,
                "exit_code": each.exit_code,
                "failed_at": each.failed_at,
                "times": each.times,
                "can_learn": each.snapshot is not None,
            }
            for each in failures
        ]
        print_json({"open": shown, "counts": counts, "pending": len(log.list_pending())})
        return
    for each in failures:
        how = "" if each.snapshot is not None else "; what mends it is learned in a git work tree alone"
        since = f"exit code {each.exit_code}, {each.times} times since {each.failed_at}"
        print_text(f"{each.project}: {each.command} ({since}{how})")
    if not failures:
        print_text("no watched check fails just now")
    if counts:
        print_text("runs: " + ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items()))
