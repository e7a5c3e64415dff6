"""The commands of queries, and what each question of a task may say of it."""

from __future__ import annotations

from typing import Annotated

import typer

from knowledge.names import DEFAULT_WORKSPACE
from orchestrator.cli.run import Json, Workspace, run

query = typer.Typer(help="How were such situations resolved before?", no_args_is_help=True)

AgentType = Annotated[str | None, typer.Option(help="What kind of agent is asked for, such as backend.")]
TaskType = Annotated[str | None, typer.Option(help="What kind of task, such as bugfix.")]
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
        "--fact", metavar="NAME=VALUE", help="What is known: technology, version (of it), tool, error. Repeatable."
    ),
]


def facts_of(told: list[str] | None, option: str = "--fact") -> dict[str, str] | None:
    """Return facts as they were typed. Raises a usage error for one without a name or a value, or told twice."""
    facts: dict[str, str] = {}
    for name, _, value in (each.partition("=") for each in told or ()):
        if not name or not value:
            raise typer.BadParameter(f"give it as NAME=VALUE, not {name!r}", param_hint=option)
        if facts.setdefault(name, value) != value:
            raise typer.BadParameter(f"{name!r} is told twice, as different things", param_hint=option)
    return facts or None


@query.command("task")
def query_task(
    text: Annotated[str, typer.Argument(help="The task's description.")],
    agent_type: AgentType = None,
    task_type: TaskType = None,
    technology: Technology = None,
    max_results: MaxResults = 5,
    min_relevance: MinRelevance = None,
    facts: Facts = None,
    *,
    only_if_sure: OnlyIfSure = False,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Show what to know before a task is assigned."""
    from orchestrator.cli.opened import opened
    from orchestrator.cli.reports.memory import print_patterns

    known = facts_of(facts)

    async def work() -> None:
        async with opened(workspace, as_json=as_json) as knowledge:
            found = await knowledge.queries.query_for_task(
                text,
                agent_type,
                task_type,
                technology,
                max_results,
                min_relevance=min_relevance,
                only_if_sure=only_if_sure,
                facts=known,
            )
        print_patterns(found, as_json=as_json)

    run(work)


@query.command("failure")
def query_failure(
    text: Annotated[str, typer.Argument(help="What failed.")],
    error: Annotated[str | None, typer.Option(help="The error message.")] = None,
    agent_type: AgentType = None,
    task_type: TaskType = None,
    technology: Technology = None,
    max_results: MaxResults = 3,
    min_relevance: MinRelevance = None,
    facts: Facts = None,
    *,
    only_if_sure: OnlyIfSure = False,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Show how failures like this one were solved."""
    from orchestrator.cli.opened import opened
    from orchestrator.cli.reports.memory import print_patterns

    known = facts_of(facts)

    async def work() -> None:
        async with opened(workspace, as_json=as_json) as knowledge:
            found = await knowledge.queries.query_for_failure(
                text,
                error,
                agent_type,
                task_type,
                max_results,
                technology=technology,
                min_relevance=min_relevance,
                only_if_sure=only_if_sure,
                facts=known,
            )
        print_patterns(found, as_json=as_json)

    run(work)


@query.command("gate")
def query_gate(
    gate_type: Annotated[str, typer.Argument(help="The gate, such as design_review.")],
    text: Annotated[str, typer.Argument(help="The proposal.")],
    project: Annotated[str | None, typer.Option(help="The project whose decisions count more.")] = None,
    max_results: MaxResults = 5,
    min_relevance: MinRelevance = None,
    *,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Show what people decided on such proposals. What they objected to, and what passed at once."""
    from orchestrator.cli.opened import opened
    from orchestrator.cli.reports.memory import print_patterns

    async def work() -> None:
        async with opened(workspace, as_json=as_json) as knowledge:
            found = await knowledge.queries.query_for_gate(
                gate_type, text, project_id=project, max_results=max_results, min_relevance=min_relevance
            )
        print_patterns(found, as_json=as_json)

    run(work)
