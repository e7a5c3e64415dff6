"""The commands that list what the memory holds, and show and correct single entries."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import typer

from orchestrator.cli.commands.curation import parse_moment
from orchestrator.cli.support.one_call import OperationCommand, add_command


def _time(description: str) -> Any:
    return Annotated[datetime | None, typer.Option(parser=parse_moment, metavar="TIME", help=description)]


def _text(description: str, *flags: str) -> Any:
    return Annotated[str | None, typer.Option(*flags, help=description)]


PROJECT = _text("Only those of this project.", "--project")
AGENT = _text("Only those of this type of agent.", "--agent", "--agent-type")
TECHNOLOGY = _text("Only those of this technology.", "--technology")
WORDS = _text("Words, or their beginnings, that each occur in the texts.", "--text", "-q")


entries = typer.Typer(help="See and correct single entries.", no_args_is_help=True)
_ENTRY = Annotated[UUID, typer.Argument(help="The entry's id, as hardwon recent prints it.")]
add_command(
    entries,
    "show",
    OperationCommand(
        "capture.get",
        "list_report:print_entry",
        "Show an entry with its history. What corrections replaced, and by whom.",
        options={"entry_id": _ENTRY},
    ),
)
add_command(
    entries,
    "correct",
    OperationCommand(
        "corrections.correct",
        "list_report:print_entry",
        "Replace texts of an entry. What they replace stays in its history.",
        options={
            "entry_id": _ENTRY,
            "failure_description": _text("The new description of the failure.", "--failure", "--failure-description"),
            "error_message": _text("The new error.", "--error", "--error-message"),
            "solution_steps": _text("The new solution.", "--solution", "--solution-steps"),
            "revision_approach": _text("The new revision.", "--revision", "--revision-approach"),
        },
        reads_input=True,
    ),
)


def add_lists(app: typer.Typer) -> None:
    """Add the commands to an app."""
    app.add_typer(entries, name="entries")
    add_command(
        app,
        "recent",
        OperationCommand(
            "lists.entries",
            "list_report:print_recent",
            "Show what was captured lately, the latest first.",
            options={
                "project_id": PROJECT,
                "status": _text("Only open, staged, embedded, dead or abandoned ones.", "--status"),
                "entry_type": _text("Only failure_solution, gate_rejection or gate_approval.", "--type"),
                "technology": TECHNOLOGY,
                "agent_type": AGENT,
                "q": WORDS,
                "since": _time("Captured from then on, such as 2026-03-02 (UTC)."),
                "until": _time("Captured before, such as 2026-03-02T09:30 (UTC)."),
            },
        ),
    )
    add_command(
        app,
        "deeds",
        OperationCommand(
            "deeds.list",
            "list_report:print_deeds",
            "Show what people decided lately, and what can still be undone.",
            options={"state": _text("Only waiting, running, done, undone or failed ones.", "--state")},
        ),
    )
    add_command(
        app,
        "undo",
        OperationCommand(
            "deeds.undo",
            "list_report:print_deed",
            "Undo a decision or deletion that is not done yet.",
            options={"deed_id": Annotated[UUID, typer.Argument(help="The deed, as hardwon deeds prints it.")]},
        ),
    )
    add_command(
        app,
        "trends",
        OperationCommand(
            "lists.trends",
            "list_report:print_trends",
            "Show what was captured, handed out and worked, day by day.",
            options={"days": Annotated[int, typer.Option(help="7, 30 or 90.")]},
        ),
    )
    _add_map(app)


def _add_map(app: typer.Typer) -> None:
    add_command(
        app,
        "map",
        OperationCommand(
            "maps.show",
            "list_report:print_map",
            "Show which patterns lie together, by groups.",
            options={
                "group": Annotated[int | None, typer.Option(help="Show the patterns of this group.")],
                "limit": Annotated[int, typer.Option(help="Patterns at most.")],
            },
        ),
    )
