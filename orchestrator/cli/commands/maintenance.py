"""The commands of upkeep: verification, rebuilding, another model, archives, deletion."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from hardwon.models.ids import DEFAULT_WORKSPACE
from orchestrator.cli.support.one_call import OperationCommand, add_command
from orchestrator.cli.support.run import Json, Limit, Workspace, run

if TYPE_CHECKING:
    from hardwon.models.maintenance import RedactionReport

workspace_ = typer.Typer(help="List workspaces; keep the texts of one on this machine.", no_args_is_help=True)
delete = typer.Typer(help="Delete an entry or a whole project, everywhere.", no_args_is_help=True)
_VERIFY = OperationCommand(
    "upkeep.verify",
    "memory_report:print_verify",
    "Compare the index with Postgres, point by point. Documents too; exit code 1 if they differ at the end.",
    options={
        "repair": Annotated[bool, typer.Option("--repair", help="Put right what differs.")],
        "recall": Annotated[
            bool, typer.Option("--recall", help="Compare what searches find with what an exact one finds.")
        ],
    },
    stage="Verifying",
    is_failure=lambda report: not report.sound or (report.recall is not None and not report.recall.sound),
)
_DEAD = OperationCommand(
    "upkeep.dead",
    "memory_report:print_dead",
    "Show entries that the embedder refused, and why. The latest first; retry-dead stages them again.",
)
_RETRY_DEAD = OperationCommand(
    "upkeep.retry_dead",
    "memory_report:print_staged_again",
    "Stage the entries again that the embedder refused. The next checkpoint embeds them.",
)


def add_upkeep(app: typer.Typer) -> None:
    """Add the commands of upkeep to the command line."""
    add_command(app, "verify", _VERIFY)
    app.command()(rebuild)
    app.command()(reembed)
    app.command()(redact)
    add_command(app, "dead", _DEAD)
    add_command(app, "retry-dead", _RETRY_DEAD)
    app.command("export")(export)
    app.command("import")(import_)
    app.command()(backup)
    app.command()(restore)
    app.add_typer(delete, name="delete")
    app.add_typer(workspace_, name="workspace")


def rebuild(
    *,
    layout: Annotated[
        bool,
        typer.Option(
            "--layout",
            help="Give the collections of a Qdrant server the replicas, shards and quantization of the settings, beside"
            " those in use: queries miss nothing meanwhile.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would cost.")] = False,
    as_json: Json = False,
) -> None:
    """Drop the index and fill it again from Postgres. Ids stay; queries find less meanwhile."""
    from orchestrator.cli.reports.memory_report import note_rebuild, print_layout, print_rebuild
    from orchestrator.cli.support.session import connect
    from orchestrator.cli.support.terminal import stages

    async def work() -> None:
        async with connect() as knowledge:
            if layout:
                with stages(quiet=as_json) as progress:
                    copying = progress.stage("Building the new layout")
                    report = await knowledge.store_upkeep.rebuild_layout(dry_run=dry_run, progress=copying)
                print_layout(report, as_json=as_json)
                return
            cost = await knowledge.store_upkeep.rebuild(dry_run=True)
            if dry_run:
                print_rebuild(cost, as_json=as_json)
                return
            if not as_json:
                note_rebuild(cost)
            with stages(quiet=as_json) as progress:
                report = await knowledge.store_upkeep.rebuild(progress=progress.stage("Rebuilding"))
        print_rebuild(report, as_json=as_json)

    run(work)


def reembed(
    model: Annotated[
        str, typer.Option(help="The model to change to; all-MiniLM-L6-v2 is the bundled one, a path a folder.")
    ],
    dims: Annotated[int | None, typer.Option(min=2, max=65536, help="Ask the endpoint for shorter vectors.")] = None,
    revision: Annotated[
        str | None, typer.Option(help="Any word, to tell apart models that an endpoint serves under the same name.")
    ] = None,
    query_prefix: Annotated[
        str | None, typer.Option(help="The prefix that the endpoint's model expects before queries, with its blank.")
    ] = None,
    document_prefix: Annotated[str | None, typer.Option(help="The prefix that it expects before stored texts.")] = None,
    base_url: Annotated[
        str | None, typer.Option(help="The endpoint; it is sent this command's HARDWON_EMBEDDING_API_KEY.")
    ] = None,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Switch even if the new model finds very different neighbours.")
    ] = False,
    forget_old: Annotated[
        bool, typer.Option("--forget-old", help="Drop the vectors of other models: going back then costs embedding.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Change the embedding model. Everything is embedded with the new one, compared, then switched over.

    Queries and captures go on meanwhile. Going back is the same command with the old model; it costs no embedding.
    """
    from hardwon.models.maintenance import ModelChoice
    from knowledge.settings import KnowledgeSettings
    from orchestrator.cli.reports.memory_report import print_reembed
    from orchestrator.cli.support.session import connect
    from orchestrator.cli.support.terminal import stages

    key = KnowledgeSettings().embedding_api_key if base_url else None
    secret = key.get_secret_value() if key else None
    choice = ModelChoice(
        model=model,
        dims=dims,
        revision=revision,
        query_prefix=query_prefix,
        document_prefix=document_prefix,
        base_url=base_url,
        api_key=secret,
    )

    async def work() -> None:
        async with connect() as knowledge:
            with stages(quiet=as_json) as progress:
                report = await knowledge.store_upkeep.reembed_to(
                    choice, force=force, forget_old=forget_old, progress=progress.stage("Embedding")
                )
        print_reembed(report, choice, as_json=as_json)

    run(work)


def redact(
    *,
    again: Annotated[
        bool, typer.Option("--again", help="Redact what is stored: texts are redacted as they come in anyway.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would change.")] = False,
    workspace: Workspace = DEFAULT_WORKSPACE,
    all_workspaces: Annotated[bool, typer.Option("--all-workspaces", help="One workspace after the other.")] = False,
    as_json: Json = False,
) -> None:
    """Redact both stores by the rules of today. What changed is embedded again.

    Killed at any point and run again, it ends the same. Exit code 1 if something still waits to be embedded.
    """
    from orchestrator.cli.reports.memory_report import print_redactions
    from orchestrator.cli.support.session import connect, open_workspace
    from orchestrator.cli.support.terminal import stages

    if not again:
        raise typer.BadParameter("give --again: new texts are redacted before they are stored")
    if all_workspaces and workspace != DEFAULT_WORKSPACE:
        raise typer.BadParameter("give either --workspace or --all-workspaces")

    async def work() -> None:
        reports: dict[str, RedactionReport] = {}
        async with connect() if all_workspaces else open_workspace(workspace, as_json=as_json) as knowledge:
            for name in await knowledge.workspaces() if all_workspaces else [workspace]:
                with stages(quiet=as_json) as progress:
                    stage = progress.stage(f"Redacting {name}")
                    of_it = knowledge.in_workspace(name)
                    reports[name] = await of_it.redaction.redact_again(dry_run=dry_run, progress=stage)
        print_redactions(reports, as_json=as_json)
        if any(report.postponed for report in reports.values()):
            raise typer.Exit(1)

    run(work)


class Switch(StrEnum):
    """On or off."""

    ON = "on"
    OFF = "off"


add_command(
    workspace_,
    "list",
    OperationCommand(
        "workspaces",
        "memory_report:print_workspaces",
        "Show the workspaces that hold anything.",
        options={"limit": Limit},
    ),
)


@workspace_.command("local-only")
def local_only(
    workspace: Annotated[str, typer.Argument(help="The workspace.")],
    switch: Annotated[Switch | None, typer.Argument(help="Without it, only say how it is.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """Keep the texts of a workspace on this machine. Only the bundled model embeds them, and no model distils them."""
    from orchestrator.cli.support.session import connect
    from orchestrator.cli.support.terminal import print_json, print_text

    async def work() -> None:
        async with connect(workspace=workspace) as knowledge:  # often before it holds anything
            if switch is not None:
                await knowledge.upkeep.keep_local(on=switch is Switch.ON)
            on = await knowledge.upkeep.local_only()
        if as_json:
            print_json({"workspace": workspace, "local_only": on})
        else:
            print_text(f"workspace {workspace}: {'local only' if on else 'its texts may go to an endpoint'}")

    run(work)


add_command(
    delete,
    "entry",
    OperationCommand(
        "capture.delete",
        "memory_report:print_entry_deleted",
        "Delete an entry with what rests on it alone.",
        options={"entry_id": Annotated[UUID, typer.Argument(help="The entry's id.")]},
    ),
)
add_command(
    delete,
    "project",
    OperationCommand(
        "capture.delete_project",
        "memory_report:print_deleted",
        "Delete a project with what rests on it alone. Its records go too; what other projects learned as well stays.",
        options={"project_id": Annotated[str, typer.Argument(help="The project's id.")]},
        stage="Deleting",
    ),
)


def export(
    file: Annotated[str, typer.Argument(help="Where to write the archive; - is standard output.")],
    *,
    entries: Annotated[
        bool, typer.Option("--entries", help="Only the entries of a workspace, as JSON lines that capture takes back.")
    ] = False,
    workspace: Annotated[str, typer.Option(help="The workspace, with --entries.")] = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Write all workspaces into one archive. It holds them as they are now; captures and checkpoints go on."""
    from orchestrator.cli.files.archives import write_archive, write_entries
    from orchestrator.cli.reports.memory_report import print_entries_exported, print_exported
    from orchestrator.cli.support.session import connect
    from orchestrator.cli.support.terminal import stages

    if file == "-" and as_json:
        raise typer.BadParameter("the archive itself goes to standard output: --json is for a FILE")

    async def work() -> None:
        async with connect() as knowledge:
            if entries:
                number = await write_entries(file, knowledge.archives.export_entries(workspace))
                if number is not None:
                    print_entries_exported(file, number, as_json=as_json)
                return
            with stages(quiet=as_json) as progress:
                pieces = knowledge.archives.export_archive(progress=progress.stage("Exporting"))
                rows = await write_archive(file, pieces)
        if rows is not None:
            print_exported(file, rows, as_json=as_json)

    run(work)


def import_(
    file: Annotated[str, typer.Argument(help="An archive that hardwon export wrote; - is standard input.")],
    *,
    as_json: Json = False,
) -> None:
    """Read an archive into this store. Ids stay, nothing is embedded again; if it is broken off, run it again."""
    from orchestrator.cli.files.archives import read_archive
    from orchestrator.cli.reports.memory_report import print_imported
    from orchestrator.cli.support.session import connect
    from orchestrator.cli.support.terminal import stages

    async def work() -> None:
        async with read_archive(file) as chunks, connect() as knowledge:
            with stages(quiet=as_json) as progress:
                report = await knowledge.archives.import_archive(chunks, progress=progress.stage("Importing"))
        print_imported(report, as_json=as_json)

    run(work)


def backup(
    to: Annotated[
        Path | None, typer.Option(help="The folder of backups; HARDWON_BACKUP_DIR where it is not given.")
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Backups to keep there; HARDWON_BACKUP_KEEP where it is not given.")
    ] = None,
    *,
    as_json: Json = False,
) -> None:
    """Write a backup of all workspaces and try it. It is restored into a throwaway store, verified and asked.

    Captures go on meanwhile. What does not pass is removed, and older backups stay.
    """
    from knowledge.settings import KnowledgeSettings
    from knowledge.wiring.backups import back_up
    from orchestrator.cli.reports.memory_report import print_backup
    from orchestrator.cli.support.session import connect
    from orchestrator.cli.support.terminal import stages

    settings = KnowledgeSettings()
    folder = to or settings.backup_dir
    if folder is None:
        raise typer.BadParameter("give a folder, or set HARDWON_BACKUP_DIR", param_hint="--to")

    async def work() -> None:
        async with connect() as knowledge:
            with stages(quiet=as_json) as progress:
                made = await back_up(
                    knowledge,
                    settings,
                    folder,
                    keep=keep or settings.backup_keep,
                    start_stage=progress.stage,
                )
        print_backup(made, as_json=as_json)

    run(work)


def restore(
    place: Annotated[Path, typer.Argument(help="A backup, or a folder of backups: its latest one.")],
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put the present stores aside first, into a folder of the data directory.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Restore a backup into an empty store. Nothing is written over; keys and the audit log are not in a backup."""
    import asyncio

    from knowledge.adapters.files.backup_files import find_backup
    from knowledge.settings import KnowledgeSettings
    from knowledge.wiring.backups import backup_keys, put_aside
    from knowledge.wiring.backups import restore as restore_backup
    from orchestrator.cli.reports.memory_report import note_put_aside, print_imported
    from orchestrator.cli.support.session import connect
    from orchestrator.cli.support.terminal import stages

    settings = KnowledgeSettings()

    async def work() -> None:
        found = await asyncio.to_thread(find_backup, place)
        await asyncio.to_thread(found.check, backup_keys(settings))
        if replace:
            note_put_aside(await put_aside(settings))
        async with connect() as knowledge:
            with stages(quiet=as_json) as progress:
                report = await restore_backup(knowledge, found, settings, progress=progress.stage("Restoring"))
        print_imported(report, as_json=as_json)

    run(work)
