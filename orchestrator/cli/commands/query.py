"""The commands of queries, and the options that they share with others."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import typer

from hardwon.models.ids import DEFAULT_WORKSPACE, ContextId
from orchestrator.cli.support.help import DefaultCommandGroup
from orchestrator.cli.support.one_call import OperationCommand, add_command
from orchestrator.cli.support.run import Json, Workspace, run

query = typer.Typer(
    cls=DefaultCommandGroup,
    help="Ask how such situations were resolved before. `hardwon query TEXT` is `hardwon query task TEXT`.",
    no_args_is_help=True,
)

AgentType = Annotated[str | None, typer.Option(help="What kind of agent is asked for, such as backend.")]
TaskType = Annotated[str | None, typer.Option("--task-type", "--type", help="What kind of task, such as bugfix.")]
Technology = Annotated[str | None, typer.Option(help="Such as python.")]
MaxResults = Annotated[int, typer.Option(min=1, max=100, help="At most so many patterns.")]
MinRelevance = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        help="Show only what is at least this relevant (0 to 1). Left out, HARDWON_FAILURE_RELEVANCE (0.75) holds for"
        " failures, HARDWON_TASK_RELEVANCE (0.7) else.",
    ),
]
OnlyIfSure = Annotated[
    bool, typer.Option("--only-if-sure", help="Show nothing where the best is likely no match, as a context does.")
]
Facts = Annotated[
    list[str] | None,
    typer.Option(
        "--fact",
        "--facts",
        metavar="NAME=VALUE",
        help="What is known: technology, version (of it), tool, error. Repeatable, or one JSON object.",
    ),
]


def parse_facts(texts: list[str] | None, option: str = "--fact") -> Any:
    """Return facts from typed texts: by name, or the text of a JSON object, which the call reads.

    Raises a usage error for one without a name or a value, or with two values.
    """
    if texts and len(texts) == 1 and texts[0].lstrip().startswith("{"):
        return texts[0]
    facts: dict[str, str] = {}
    for name, _, value in (each.partition("=") for each in texts or ()):
        if not name or not value:
            raise typer.BadParameter(f"give it as NAME=VALUE, not {name!r}", param_hint=option)
        if facts.setdefault(name, value) != value:
            raise typer.BadParameter(f"{name!r} is given twice, with different values", param_hint=option)
    return facts or None


_REPORT = "memory_report:print_patterns"
_OPTIONS = {
    "agent_type": AgentType,
    "task_type": TaskType,
    "technology": Technology,
    "max_results": MaxResults,
    "min_relevance": MinRelevance,
    "only_if_sure": OnlyIfSure,
    "facts": Facts,
}
"""The options of all kinds of query."""


def _text_argument(description: str) -> Any:
    return Annotated[str, typer.Argument(metavar="text", help=description)]


add_command(
    query,
    "task",
    OperationCommand(
        "queries.query_for_task",
        _REPORT,
        "Show what to know before a task is assigned.",
        options={**_OPTIONS, "task_description": _text_argument("The task's description.")},
        parsers={"facts": parse_facts},
        reads_input=True,
    ),
)
add_command(
    query,
    "failure",
    OperationCommand(
        "queries.query_for_failure",
        _REPORT,
        "Show how failures like this one were solved.",
        options={
            **_OPTIONS,
            "failure_description": _text_argument("What failed."),
            "error_message": Annotated[
                str | None, typer.Option("--error", "--error-message", help="The error message.")
            ],
        },
        parsers={"facts": parse_facts},
        reads_input=True,
    ),
)
add_command(
    query,
    "gate",
    OperationCommand(
        "queries.query_for_gate",
        _REPORT,
        "Show what people decided on such proposals. What they objected to, and what passed at once.",
        options={
            **_OPTIONS,
            "gate_type": Annotated[str, typer.Argument(help="The gate, such as design_review.")],
            "proposal": _text_argument("The proposal."),
            "project_id": Annotated[
                str | None, typer.Option("--project", "--project-id", help="The project whose decisions count more.")
            ],
        },
        reads_input=True,
    ),
)


contexts = typer.Typer(help="Show how contexts were chosen.", no_args_is_help=True)
add_command(
    contexts,
    "list",
    OperationCommand(
        "contexts.list",
        "pattern_report:print_choices",
        "List the contexts that were built. The latest first, with the rule that decided.",
        options={
            "project_id": Annotated[str | None, typer.Option("--project", help="Only those of this project.")],
            "reason": Annotated[
                str | None,
                typer.Option(help="Only these: spoke, nothing_near, not_sure, agent_knows, held_out or degraded."),
            ],
            "pattern_id": Annotated[UUID | None, typer.Option("--pattern", help="Only those that showed it.")],
        },
    ),
)


@contexts.command("show")
def show_context(
    context_id: Annotated[UUID, typer.Argument(help="The context, as `hardwon contexts list` names it.")],
    *,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Make the choice again from what is stored; exit code 1 if it differs.")
    ] = False,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Show how a context was chosen. What was weighed, and what each pattern got."""
    from orchestrator.cli.reports.pattern_report import print_choice
    from orchestrator.cli.support.session import open_workspace

    async def work() -> None:
        async with open_workspace(workspace, as_json=as_json) as knowledge:
            found = await knowledge.contexts.show(ContextId(context_id))
        print_choice(found, recomputed=recompute, as_json=as_json)
        if recompute and found.differences:
            raise typer.Exit(1)

    run(work)
