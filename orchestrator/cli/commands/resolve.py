"""The commands that list unresolved entries and resolve them, and those that report the events of tasks."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import typer

from hardwon.models.ids import DEFAULT_WORKSPACE, EntryId
from orchestrator.cli.commands.query import parse_facts
from orchestrator.cli.support.one_call import OperationCommand, add_command
from orchestrator.cli.support.run import Json, Workspace, run

event = typer.Typer(help="Report what became of a task or a proposal.", no_args_is_help=True)


def _text(description: str, *flags: str) -> Any:
    return Annotated[str | None, typer.Option(*flags, help=description)]


_PLACE = {
    "project_id": _text("The project of the task.", "--project", "--project-id"),
    "task_id": _text("The task's id.", "--task", "--task-id"),
    "run_id": _text("The attempt at the task; an attempt counts once.", "--run", "--run-id"),
    "task_type": _text("What kind of task, such as bugfix.", "--task-type", "--type"),
    "accepted": Annotated[bool | None, typer.Option("--accepted/--rejected", help="Whether the proposal passed.")],
    "applies_when": Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Without which it does not apply: technology, version (a range of it), tool, error. Repeatable.",
        ),
    ],
}
"""Options of the events."""


def _add_event(name: str, method: str, text: str, **required: str) -> None:
    """Add the command of an event; `required`: the descriptions of texts that it needs."""
    options = {each: _text(said, f"--{each.replace('_', '-')}") for each, said in required.items()}
    add_command(
        event,
        name,
        OperationCommand(
            f"events.{method}",
            "memory_report:print_event",
            text,
            options=options | _PLACE,
            parsers={"applies_when": lambda texts: parse_facts(texts, "--applies-when")},
            reads_input=True,
        ),
    )


_add_event(
    "task-failed",
    "task_failed",
    "Report that a task failed. The failure stays open until it is solved.",
    agent_type="The type of the agent, such as backend.",
    failure_description="What failed.",
)
_add_event("task-solved", "task_solved", "Report that a task was solved. The failure that this is about is resolved.")
_add_event(
    "gate-decided",
    "gate_decided",
    "Report a rejection or an acceptance at a gate.",
    gate_type="The gate, such as design_review.",
)


def add_resolve(app: typer.Typer) -> None:
    """Add the commands to an app."""
    add_command(
        app,
        "unresolved",
        OperationCommand(
            "capture.unresolved",
            "memory_report:print_unresolved",
            "Show what waits for its resolution, the latest first.",
            options={
                "project_id": Annotated[
                    str | None, typer.Option("--project", "--project-id", help="Only those of this project.")
                ]
            },
        ),
    )
    app.command()(resolve)
    app.add_typer(event, name="event")


def resolve(
    entry_id: Annotated[UUID, typer.Argument(help="The open entry, as `hardwon unresolved` names it.")],
    *,
    solution: Annotated[
        str | None, typer.Option("--solution", "--solution-steps", help="What solved the failure.")
    ] = None,
    revision: Annotated[
        str | None, typer.Option("--revision", "--revision-approach", help="What was accepted after a rejection.")
    ] = None,
    verified_by: Annotated[
        str | None, typer.Option(help="What showed that it works, such as a test; required with --solution.")
    ] = None,
    when_to_try: Annotated[
        str | None, typer.Option(help="When to try it; if left out, hardwon says it from the entry.")
    ] = None,
    applies_when: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Without which it does not apply: technology, version (a range of it), tool, error. Repeatable.",
        ),
    ] = None,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Say what solved a failure, or was accepted after a rejection. The next checkpoint embeds it."""
    from orchestrator.cli.reports.memory_report import print_resolved
    from orchestrator.cli.support.session import open_workspace
    from orchestrator.entries import resolve_entry

    if (solution is None) == (revision is None):
        raise typer.BadParameter(
            "give the first for a failure or the second for a rejection", param_hint="--solution or --revision"
        )
    if solution is not None and verified_by is None:
        raise typer.BadParameter("say what showed that the solution works", param_hint="--verified-by")
    conditions = parse_facts(applies_when, "--applies-when")

    async def work() -> None:
        async with open_workspace(workspace, as_json=as_json) as knowledge:
            resolved = await resolve_entry(
                knowledge.capture,
                EntryId(entry_id),
                solution_steps=solution,
                revision_approach=revision,
                verified_by=verified_by,
                when_to_try=when_to_try,
                applies_when=conditions,
            )
        print_resolved(EntryId(entry_id), resolved, as_json=as_json)

    run(work)
