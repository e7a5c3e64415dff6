"""The command `hardwon`: a client of the API where another process owns the stores, else their owner while it runs."""

from __future__ import annotations

import functools
import io
import itertools
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from hardwon.errors import HardwonError, InvalidSetting, NotFound, Unavailable
from hardwon.models.ids import DEFAULT_WORKSPACE, CheckpointType, ContextId, PatternId
from hardwon.settings import VERSION
from orchestrator.cli.commands.agent_hooks import hooks
from orchestrator.cli.commands.answers import add_answers
from orchestrator.cli.commands.curation import add_custody
from orchestrator.cli.commands.evaluate import evaluate
from orchestrator.cli.commands.jobs import jobs
from orchestrator.cli.commands.kb import kb
from orchestrator.cli.commands.keys import keys
from orchestrator.cli.commands.learn import capture_and_report, learn
from orchestrator.cli.commands.lists import add_lists
from orchestrator.cli.commands.maintenance import add_upkeep
from orchestrator.cli.commands.mcp import add_mcp
from orchestrator.cli.commands.patterns import patterns
from orchestrator.cli.commands.query import Facts, TaskType, Technology, contexts, parse_facts, query
from orchestrator.cli.commands.resolve import add_resolve
from orchestrator.cli.commands.watch import add_watch
from orchestrator.cli.support.help import RootGroup
from orchestrator.cli.support.logging import configure_client_logs
from orchestrator.cli.support.one_call import Input, OperationCommand, add_command, read_json_object
from orchestrator.cli.support.run import Json, Workspace, ensure_standard_streams, make_lazy_group, run

if TYPE_CHECKING:
    from knowledge.settings import KnowledgeSettings


_PATIENCE_MS = 60_000
"""Longest time that a person at a terminal waits for a context; ours."""


async def migrate_now(settings: KnowledgeSettings) -> bool:
    """Migrate the schema to the head of this version; return whether it changed. A running owner has done so already.

    Raises InvalidSetting if the stores are behind a server.
    """
    if settings.api_url is not None:
        raise InvalidSetting(
            "HARDWON_API_URL", "is set, and that server migrates its own schema: unset it to migrate here"
        )
    from knowledge.wiring.open import migrate_stores

    return await migrate_stores(settings)


app = typer.Typer(
    name="hardwon",
    cls=RootGroup,
    help="The learning memory of a multi-agent orchestrator.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
app.add_typer(learn, name="learn")
app.add_typer(kb, name="kb")
app.add_typer(query, name="query")
app.add_typer(contexts, name="contexts")
app.add_typer(evaluate, name="evaluate")
app.add_typer(hooks, name="hooks")


def _print_version(requested: bool) -> None:  # noqa: FBT001 - Typer calls it so
    if requested:
        typer.echo(f"hardwon {VERSION}")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options of `hardwon` itself."""


def main() -> None:
    """Run the command line; errors are one sentence on standard error and exit code 1."""
    ensure_standard_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for terminals without Unicode
    try:
        try:
            make_lazy_group(app, before=configure_client_logs)(prog_name="hardwon")
        finally:
            sys.stdout.flush()
    except HardwonError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1)
    except OSError as error:
        # the unwritten rest would fail once more at the exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # its reader has closed the pipe
            sys.stderr.write(f"error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}\n")
        sys.exit(1)


@app.command()
def demo(*, as_json: Json = False) -> None:
    """Show in half a minute what memory does. A story with tests that run, then figures over real violations."""
    from orchestrator.cli.reports.evaluation_report import (
        print_demo,
        print_story_begin,
        print_story_step,
        print_story_total,
    )
    from orchestrator.cli.support.session import connect
    from orchestrator.cli.support.terminal import stages
    from orchestrator.evaluation.demo import run_demo

    async def work() -> None:
        async with connect() as knowledge:
            with stages(quiet=as_json) as progress:
                if not as_json:
                    print_story_begin()
                numbers = itertools.count(1)
                report = await run_demo(
                    knowledge,
                    repository=Path.cwd(),
                    progress=progress,
                    show=lambda step: None if as_json else print_story_step(next(numbers), step),
                    show_total=lambda steps: None if as_json else print_story_total(steps),
                )
        print_demo(report, as_json=as_json)

    run(work)


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")] = 8420,
    *,
    as_json: Json = False,
) -> None:
    """Serve the API and run the scheduler, until stopped. Owns the data directory meanwhile."""
    from knowledge.settings import KnowledgeSettings
    from orchestrator.cli.reports.memory_report import print_service
    from orchestrator.observability.logging import configure_logs
    from orchestrator.server.serve import run_service

    configure_logs()

    async def work() -> None:
        on_start = functools.partial(print_service, as_json=as_json)
        await run_service(KnowledgeSettings(), host=host, port=port, on_start=on_start)

    run(work, until_stopped=True)


@app.command()
def capture(
    file: Annotated[
        str,
        typer.Argument(
            help='Entries, one JSON object a line, such as {"entry_type": "gate_approval", "project_id": "shop",'
            ' "gate_type": "design_review", "approved_approach": "Expand, then contract"}; - is standard input.'
        ),
    ],
    *,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Capture entries. Refused lines are named and do not stop the rest; exit code 1 then. Repeats are stored once."""
    from orchestrator.cli.files.capture_files import read_file

    nothing = "there is no line to capture"
    capture_and_report(read_file(file), workspace, as_json=as_json, place="line", nothing=nothing, all_of_it=True)


add_resolve(app)


@app.command()
def checkpoint(
    project: Annotated[str | None, typer.Option(help="The project that reached a checkpoint.")] = None,
    checkpoint_type: Annotated[
        CheckpointType, typer.Option("--type", help="What was reached.")
    ] = CheckpointType.MANUAL,
    *,
    all_projects: Annotated[bool, typer.Option("--all", help="Every project (the default without --project).")] = False,
    distill: Annotated[
        bool, typer.Option("--distill", help="Have HARDWON_CHAT_MODEL describe patterns of three or more entries.")
    ] = False,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Embed what is staged, so that it is found from now on."""
    from orchestrator.cli.reports.memory_report import print_checkpoint
    from orchestrator.cli.support.session import open_workspace
    from orchestrator.cli.support.terminal import stages

    if project is not None and all_projects:
        raise typer.BadParameter("give either --project or --all")
    if project is None and checkpoint_type is not CheckpointType.MANUAL:
        raise typer.BadParameter(f"a {checkpoint_type} checkpoint is of one project: give --project")

    async def work() -> None:
        async with open_workspace(workspace, as_json=as_json) as knowledge:
            with stages(quiet=as_json) as progress:
                stage = progress.stage("Embedding")
                if project is None:
                    report = await knowledge.checkpoints.process_all(distill=distill, progress=stage)
                else:
                    report = await knowledge.checkpoints.process_checkpoint(
                        project, checkpoint_type, distill=distill, progress=stage
                    )
        print_checkpoint(report, as_json=as_json)
        if report.dead:
            raise typer.Exit(1)

    run(work)


@app.command()
def context(
    text: Annotated[str | None, typer.Argument(help="The task's description.")] = None,
    agent_type: Annotated[str | None, typer.Option(help="The type of the agent that gets the task.")] = None,
    task_type: TaskType = None,
    technology: Technology = None,
    project: Annotated[str | None, typer.Option("--project", "--project-id", help="The task's project.")] = None,
    task: Annotated[str | None, typer.Option("--task", "--task-id", help="The task's id.")] = None,
    run_id: Annotated[str | None, typer.Option("--run", "--run-id", help="The run of the task.")] = None,
    facts: Facts = None,
    *,
    input_file: Input = None,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Print the context that an agent would get with a task. Without what is known, exit code 1 and the reason."""
    from hardwon.client.arguments import read_context_request
    from hardwon.context.builder import ContextBuilder
    from hardwon.settings import ClientSettings
    from orchestrator.cli.reports.memory_report import find_problems, print_context
    from orchestrator.cli.support.session import open_workspace

    if input_file is None and (text is None or agent_type is None):
        raise typer.BadParameter("give the task's description and --agent-type, or --input")
    typed = {"description": text, "type": task_type, "technology": technology, "project_id": project}
    typed |= {"task_id": task, "run_id": run_id, "facts": parse_facts(facts), "agent_type": agent_type}
    given = {} if input_file is None else read_json_object(input_file)
    request = read_context_request(given | {name: value for name, value in typed.items() if value is not None})

    async def work() -> None:
        async with open_workspace(workspace, as_json=as_json) as knowledge:
            knowledge.settings = ClientSettings(query_deadline_ms=_PATIENCE_MS)
            built = await ContextBuilder(knowledge).build_context_for_task(request.task, request.agent_type)
            problems = {} if as_json or built.patterns else await find_problems(knowledge, built)
        print_context(built, problems, as_json=as_json)
        if built.degraded and not built.patterns:
            raise typer.Exit(1)

    run(work)


@app.command()
def outcome(
    context_id: Annotated[UUID, typer.Argument(help="The context, as `hardwon context --json` names it.")],
    pattern_id: Annotated[
        UUID | None, typer.Argument(help="The pattern of it that was tried; none where it held none.")
    ] = None,
    *,
    worked: Annotated[bool, typer.Option("--worked", help="It solved the task.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="It did not.")] = False,
    project: Annotated[
        str | None,
        typer.Option("--project", "--project-id", help="The task's project; the context's where it has one."),
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", "--task-id", help="The task's id; the context's where it has one.")
    ] = None,
    run_id: Annotated[str | None, typer.Option("--run", "--run-id", help="The run; a run counts once.")] = None,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Record whether a pattern of a context worked. Without a pattern: whether the task was solved unaided."""
    from orchestrator.cli.reports.memory_report import print_outcome, print_unaided
    from orchestrator.cli.support.session import open_workspace

    if worked is failed:
        raise typer.BadParameter("give one of the two", param_hint="--worked or --failed")

    async def work() -> None:
        async with open_workspace(workspace, as_json=as_json) as knowledge:
            if pattern_id is None:
                await knowledge.outcomes.record_unaided(ContextId(context_id), worked=worked)
                print_unaided(ContextId(context_id), worked=worked, as_json=as_json)
                return
            counted_id = await knowledge.outcomes.record_outcome(
                ContextId(context_id),
                PatternId(pattern_id),
                worked=worked,
                project_id=project,
                task_id=task,
                run_id=run_id,
            )
            pattern = None
            with suppress(NotFound, Unavailable):  # the outcome is stored, even if the pattern cannot be shown
                pattern = await knowledge.queries.get(counted_id)
        print_outcome(counted_id, pattern, as_json=as_json)

    run(work)


add_command(
    app,
    "prune",
    OperationCommand(
        "pruning.prune",
        "memory_report:print_prune",
        "Delete what is past its year, from both stores.",
        options={"dry_run": Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")]},
        stage="Pruning",
    ),
)
add_command(
    app,
    "stats",
    OperationCommand(
        "stats", "memory_report:print_stats", "Show how much is stored: entries by status, patterns, points."
    ),
)


@app.command()
def doctor(*, as_json: Json = False) -> None:
    """Check settings, stores and embedder, one by one. Exit code 1 if one is not well."""
    from orchestrator.cli.reports.memory_report import print_findings
    from orchestrator.evaluation.doctor import examine

    async def work() -> None:
        findings = await examine()
        print_findings(findings, as_json=as_json)
        if not all(finding.well for finding in findings):
            sys.exit(1)

    run(work)


@app.command()
def migrate(*, as_json: Json = False) -> None:
    """Bring the database schema to this version. Every start does so too."""
    from knowledge.settings import KnowledgeSettings
    from orchestrator.cli.support.terminal import print_json, print_text

    async def work() -> None:
        changed = await migrate_now(KnowledgeSettings())
        if as_json:
            print_json({"changed": changed})
        else:
            print_text("the schema was migrated" if changed else "the schema is up to date")

    run(work)


add_mcp(app)
add_watch(app)
add_lists(app)
add_upkeep(app)
add_custody(app)
add_answers(evaluate)
app.add_typer(patterns, name="patterns")
app.add_typer(keys, name="keys")
app.add_typer(jobs, name="jobs")
