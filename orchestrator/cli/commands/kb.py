"""The commands of knowledge bases: adding, syncing, listing, deleting and searching documents."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from hardwon.client.paging import fetch_pages
from hardwon.models.ids import DEFAULT_WORKSPACE
from orchestrator.cli.support.one_call import OperationCommand, add_command
from orchestrator.cli.support.run import All, Json, Limit, Workspace, run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hardwon.models.documents import AddedDocument, SyncReport
    from orchestrator.cli.files.folders import Files

kb = typer.Typer(help="Documents to search and ask.", no_args_is_help=True)

Case = Annotated[str | None, typer.Option("--case", help="The evidence of this case.")]
User = Annotated[str | None, typer.Option("--user", help="The knowledge base of this user.")]
Team = Annotated[str | None, typer.Option("--team", help="The knowledge base of this team.")]


def select_base(case: str | None, user: str | None, team: str | None) -> tuple[str, str | None]:
    """Return the knowledge base of the options and its scope, else the global one. Raises a usage error for two."""
    options = [(name, value) for name, value in (("case", case), ("user", user), ("team", team)) if value is not None]
    if len(options) > 1:
        raise typer.BadParameter("name one knowledge base", param_hint="--case, --user or --team")
    return options[0] if options else ("global", None)


@kb.command("add")
def add(
    paths: Annotated[
        list[str], typer.Argument(help="Files, folders, or https:// or file:// addresses of repositories.")
    ],
    *,
    case: Case = None,
    user: User = None,
    team: Team = None,
    title: Annotated[str | None, typer.Option(help="The title, where it is one file.")] = None,
    category: Annotated[str | None, typer.Option(help="The category of all of them.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag of all of them. Repeatable.")] = None,
    branch: Annotated[str | None, typer.Option(help="The branch of a repository.")] = None,
    subdir: Annotated[str, typer.Option(help="The folder of a repository.")] = "",
    glob: Annotated[
        list[str] | None, typer.Option(help="Which files of a repository, such as '*.md'. Repeatable.")
    ] = None,
    delete_gone: Annotated[
        bool, typer.Option("--delete-gone", help="Delete the documents of these folders whose files are gone.")
    ] = False,
    wait: Annotated[bool, typer.Option(help="Wait until they are indexed.")] = True,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Add files, folders or repositories. A file that was added before is replaced if it changed."""
    from hardwon.models.documents import NewDocument, NewSource
    from orchestrator.cli.files.kb_client import Base
    from orchestrator.cli.reports.kb_report import FolderChanges, print_added, print_reports
    from orchestrator.cli.support.session import connect
    from orchestrator.cli.support.terminal import stages

    kb_name, scope_id = select_base(case, user, team)

    async def work() -> None:
        found, folders = _files_and_folders(paths, title)
        files, left_out = found.taken, [each.uri for each in found.left_out]
        urls = [each for each in paths if "://" in each]
        sources = [NewSource(url=each, branch=branch, subdir=subdir, globs=tuple(glob or ())) for each in urls]
        async with connect(workspace=workspace) as knowledge:
            with stages(quiet=as_json) as progress:
                base = Base(bases=knowledge.kb, kb=kb_name, scope_id=scope_id, progress=progress)
                documents = functools.partial(NewDocument, title=title, category=category, tags=tuple(tag or ()))
                added, passed = await base.add(files, documents)
                taken = {each.uri for each in files} | {each.document.uri for each in added}
                gone = await base.find_deleted(folders, taken) if folders else {}
                if gone and delete_gone:
                    await base.delete(gone.values())
                reports = await base.add_repositories(sources) if sources else []
                changed = sum(each.changed for each in added) + sum(report.added for report in reports)
                document_ids = [each.document.document_id for each in added]
                document_ids += await base.list_waiting() if sources else []
                indexed = await base.index(document_ids, changed) if wait else None
        if sources and not files:
            print_reports(reports, as_json=as_json)
        else:
            left = FolderChanges(out=left_out, gone=list(gone), deleted=delete_gone)
            print_added(added, indexed, passed, reports, left=left, as_json=as_json)
        _exit_on_errors(reports, added, passed)

    run(work)


def _files_and_folders(paths: Sequence[str], title: str | None) -> tuple[Files, list[Path]]:
    """Return the files at some paths, and the folders among the paths; addresses are neither.

    Raises InvalidInput for an empty path, and for a title of several files.
    """
    from hardwon.errors import InvalidInput
    from orchestrator.cli.files.folders import files_at, folders_among

    if not all(path.strip() for path in paths):
        raise InvalidInput(
            "path", "is empty: name a file, a folder or an address"
        )  # an empty path would be the working directory
    here = [Path(path) for path in paths if "://" not in path]
    files = files_at(here)
    if title is not None and len(files.taken) > 1:
        raise InvalidInput("title", f"is of one file, these are {len(files.taken)}: add it by itself")
    return files, folders_among(here)


def _exit_on_errors(
    reports: Iterable[SyncReport], added: Iterable[AddedDocument] = (), passed: Sequence[str] = ()
) -> None:
    """Exit with status 1 if a repository could not be fetched or a file could not be read or sent."""
    from orchestrator.cli.reports.kb_report import is_unreadable

    if passed or any(map(is_unreadable, added)) or any(report.error for report in reports):
        raise typer.Exit(1)


@kb.command("sync")
def sync(
    *,
    case: Case = None,
    user: User = None,
    team: Team = None,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Fetch repositories now, and index what changed."""
    from orchestrator.cli.files.kb_client import Base
    from orchestrator.cli.reports.kb_report import print_reports
    from orchestrator.cli.support.session import open_workspace
    from orchestrator.cli.support.terminal import stages

    kb_name, scope_id = select_base(case, user, team)

    async def work() -> None:
        async with open_workspace(workspace, as_json=as_json) as knowledge:
            with stages(quiet=as_json) as progress:
                base = Base(bases=knowledge.kb, kb=kb_name, scope_id=scope_id, progress=progress)
                reports = await base.sync()
                await base.index(await base.list_waiting(), sum(report.added for report in reports))
        print_reports(reports, as_json=as_json)
        _exit_on_errors(reports)

    run(work)


@kb.command("retry")
def retry(
    *,
    case: Case = None,
    user: User = None,
    team: Team = None,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Index the documents now that failed or were put off. Those of repositories too, which a sync does not reread."""
    from orchestrator.cli.files.kb_client import Base
    from orchestrator.cli.reports.kb_report import print_retried
    from orchestrator.cli.support.session import open_workspace
    from orchestrator.cli.support.terminal import stages

    kb_name, scope_id = select_base(case, user, team)

    async def work() -> None:
        async with open_workspace(workspace, as_json=as_json) as knowledge:
            with stages(quiet=as_json) as progress:
                base = Base(bases=knowledge.kb, kb=kb_name, scope_id=scope_id, progress=progress)
                number = await base.retry()
                indexed = await base.index(await base.list_waiting(), number)
        print_retried(number, indexed, as_json=as_json)
        if indexed.failed or indexed.postponed:
            raise typer.Exit(1)

    run(work)


@kb.command("list")
def list_documents(
    *,
    case: Case = None,
    user: User = None,
    team: Team = None,
    sources: Annotated[bool, typer.Option("--sources", help="The repositories instead of the documents.")] = False,
    limit: Limit = 100,
    everything: All = False,
    after: Annotated[str | None, typer.Option(help="Begin after this uri.")] = None,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Show documents with their states. Says why one could not be indexed."""
    from orchestrator.cli.reports.kb_report import print_documents, print_sources
    from orchestrator.cli.support.session import open_workspace
    from orchestrator.cli.support.terminal import note_more

    base, scope_id = select_base(case, user, team)

    async def work() -> None:
        async with open_workspace(workspace, as_json=as_json) as knowledge:
            if sources:
                print_sources(await knowledge.kb.sources(base, scope_id), as_json=as_json)
                return
            bases = knowledge.kb
            documents = await fetch_pages(
                lambda last, at_most: bases.list_documents(base, scope_id, limit=at_most, after=last or after),
                lambda document: document.uri,
                most=None if everything else limit,
            )
        print_documents(documents, as_json=as_json)
        note_more(documents, None if everything else limit, as_json=as_json)

    run(work)


@kb.command("delete")
def delete(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Documents: their ids or names, as `kb list` shows them.")
    ] = None,
    *,
    case: Case = None,
    user: User = None,
    team: Team = None,
    source: Annotated[UUID | None, typer.Option(help="A repository with all its documents.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All documents of the user, or of the case.")] = False,
    close: Annotated[bool, typer.Option("--close", help="Close the case too: it takes no more documents.")] = False,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Delete documents for good. A case takes more documents after --all, unless it is closed with --close."""
    from hardwon.models.documents import SourceId
    from orchestrator.cli.files.kb_client import delete_everything, document_ids
    from orchestrator.cli.reports.kb_report import print_deleted
    from orchestrator.cli.support.session import open_workspace

    base, scope_id = select_base(case, user, team)
    if (everything and scope_id is None) or (everything and base == "team"):
        raise typer.BadParameter("goes with --case or --user", param_hint="--all")
    if close and not (everything and base == "case"):
        raise typer.BadParameter("goes with --all and --case", param_hint="--close")
    if not (ids or source or everything):
        raise typer.BadParameter("name what to delete", param_hint="IDS, --source or --all")

    async def work() -> None:
        missing = 0
        async with open_workspace(workspace, as_json=as_json) as knowledge:
            if everything and scope_id is not None and base == "user":
                deleted = await knowledge.kb.delete_user(scope_id)
            elif close and scope_id is not None:
                deleted = await knowledge.kb.close_case(scope_id)
            elif everything:
                deleted = await delete_everything(knowledge.kb, base, scope_id)
            elif source is not None:
                deleted = await knowledge.kb.forget_source(base, scope_id, SourceId(source))
            else:
                found = await document_ids(knowledge.kb, base, scope_id, ids or ())
                missing = len(found)
                deleted = await knowledge.kb.delete(base, scope_id, found)
                missing -= deleted
            await knowledge.kb.remove_stale()
        closed = scope_id if close else None
        print_deleted(deleted, missing, closed=closed, as_json=as_json)
        if missing:
            raise typer.Exit(1)

    run(work)


@kb.command("search")
def search(
    question: Annotated[str, typer.Argument(help="What to look for.")],
    *,
    case: Case = None,
    user: User = None,
    team: Team = None,
    anywhere: Annotated[bool, typer.Option("--anywhere", help="In all knowledge bases that you may read.")] = False,
    k: Annotated[int, typer.Option("-k", "--k", min=1, max=200, help="At most so many passages.")] = 5,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Show the passages nearest to a question. They stand as in the documents."""
    from orchestrator.cli.reports.kb_report import print_passages
    from orchestrator.cli.support.session import open_workspace

    base, scope_id = select_base(case, user, team)
    if anywhere and scope_id is not None:
        raise typer.BadParameter("searches more than one knowledge base", param_hint="--anywhere")

    async def work() -> None:
        async with open_workspace(workspace, as_json=as_json) as knowledge:
            found = await knowledge.kb.search(question, kb=None if anywhere else base, scope_id=scope_id, k=k)
        print_passages(found, as_json=as_json)

    run(work)


add_command(
    kb,
    "calibrate",
    OperationCommand(
        "kb.calibrate",
        "kb_report:print_calibrated",
        "Measure the scale of relevance on what is indexed. No questions are needed.",
    ),
)


@kb.command("members")
def members(
    *,
    case: Case = None,
    team: Team = None,
    add_: Annotated[list[str] | None, typer.Option("--add", help="Give access. Repeatable.")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", help="Take access away. Repeatable.")] = None,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Show or change who may use a case or a team's base."""
    from orchestrator.cli.support.session import connect
    from orchestrator.cli.support.terminal import print_json, print_text

    base, scope_id = select_base(case, None, team)
    if scope_id is None:
        raise typer.BadParameter("name a case or a team", param_hint="--case or --team")
    scope = scope_id

    async def work() -> None:
        async with connect(workspace=workspace) as knowledge:
            for principal in add_ or ():
                await knowledge.kb.grant(base, scope, principal)
            for principal in remove or ():
                await knowledge.kb.revoke(base, scope, principal)
            members = await knowledge.kb.grantees(base, scope)
        if as_json:
            print_json({"members": members})
        else:
            print_text("\n".join(members) or "nobody but administrators")

    run(work)
