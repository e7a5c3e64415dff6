"""The command that gives an open entry its resolution."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from knowledge.names import DEFAULT_WORKSPACE, EntryId
from orchestrator.cli_run import Json, Workspace, run


def add_resolve(app: typer.Typer) -> None:
    """Add the command to an app."""
    app.command()(resolve)


def resolve(
    entry_id: Annotated[UUID, typer.Argument(help="The open entry, as `hardwon capture --json` names it.")],
    *,
    solution: Annotated[str | None, typer.Option(help="What solved the failure.")] = None,
    revision: Annotated[str | None, typer.Option(help="What was accepted after a rejection.")] = None,
    verified_by: Annotated[
        str | None, typer.Option(help="What showed that it works, such as a test; required with --solution.")
    ] = None,
    when_to_try: Annotated[
        str | None, typer.Option(help="When to try it; if left out, hardwon says it from the entry.")
    ] = None,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Say what solved a failure, or was accepted after a rejection. The next checkpoint embeds it."""
    from orchestrator import connect
    from orchestrator.entries import resolve_entry
    from orchestrator.reports import print_resolved

    if (solution is None) == (revision is None):
        raise typer.BadParameter(
            "give the one of a failure or the other of a rejection", param_hint="--solution or --revision"
        )
    if solution is not None and verified_by is None:
        raise typer.BadParameter("what showed that the solution works?", param_hint="--verified-by")

    async def work() -> None:
        async with connect(workspace=workspace, warm=False) as knowledge:
            resolved = await resolve_entry(
                knowledge.capture,
                EntryId(entry_id),
                solution_steps=solution,
                revision_approach=revision,
                verified_by=verified_by,
                when_to_try=when_to_try,
            )
        print_resolved(EntryId(entry_id), resolved, as_json=as_json)

    run(work)
