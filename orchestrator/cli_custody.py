"""The commands of reviews, revocations and the audit log."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

import typer

from knowledge.names import DEFAULT_WORKSPACE, EntryId
from orchestrator.cli_run import Json, Workspace, run

review = typer.Typer(help="Entries by agents' keys that wait for a person.", no_args_is_help=True)
audit = typer.Typer(help="Who decided what.", no_args_is_help=True)

_TIME = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"]
_Entry = Annotated[UUID, typer.Argument(help="The entry's id.")]
_Key = Annotated[str | None, typer.Option("--key", help="What this key captured or resolved.")]
_Project = Annotated[str | None, typer.Option("--project", help="What was captured of this project.")]
_Since = Annotated[datetime | None, typer.Option(formats=_TIME, help="What was captured from then on (UTC).")]
_Until = Annotated[datetime | None, typer.Option(formats=_TIME, help="What was captured before (UTC).")]


@review.command("list")
def list_waiting(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 100,
    *,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Show what waits, the oldest first, and patterns that stand near far more tasks than they worked for."""
    from orchestrator import connect
    from orchestrator.reports_custody import print_waiting

    async def work() -> None:
        async with connect(workspace=workspace, warm=False) as knowledge:
            waiting = await knowledge.reviews.waiting(limit=limit)
            alarms = await knowledge.reviews.alarms()
        print_waiting(waiting, alarms, as_json=as_json)

    run(work)


@review.command("show")
def show(entry_id: _Entry, *, workspace: Workspace = DEFAULT_WORKSPACE, as_json: Json = False) -> None:
    """Show all of an entry."""
    from orchestrator import connect
    from orchestrator.reports_custody import print_whole_entry

    async def work() -> None:
        async with connect(workspace=workspace, warm=False) as knowledge:
            entry = await knowledge.reviews.show(EntryId(entry_id))
        print_whole_entry(entry, as_json=as_json)

    run(work)


@review.command("approve")
def approve(entry_id: _Entry, *, workspace: Workspace = DEFAULT_WORKSPACE, as_json: Json = False) -> None:
    """Let an entry go on: the next checkpoint embeds it."""
    from orchestrator import connect
    from orchestrator.reports_custody import print_decided

    async def work() -> None:
        async with connect(workspace=workspace, warm=False) as knowledge:
            entry = await knowledge.reviews.approve(EntryId(entry_id))
        print_decided(entry_id, f"approved; it is {entry.status}", as_json=as_json)

    run(work)


@review.command("reject")
def reject(entry_id: _Entry, *, workspace: Workspace = DEFAULT_WORKSPACE, as_json: Json = False) -> None:
    """Delete an entry that waits."""
    from orchestrator import connect
    from orchestrator.reports_custody import print_decided

    async def work() -> None:
        async with connect(workspace=workspace, warm=False) as knowledge:
            await knowledge.reviews.reject(EntryId(entry_id))
        print_decided(entry_id, "rejected and deleted", as_json=as_json)

    run(work)


def revoke(
    key: _Key = None,
    project: _Project = None,
    since: _Since = None,
    until: _Until = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and whom it had reached.")] = False,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Delete what a key captured, of a project, in a time: all that is told must hold. Says which tasks had it."""
    from knowledge.provenance import Chosen
    from orchestrator import connect
    from orchestrator.reports_custody import print_revocation

    async def work() -> None:
        chosen = Chosen(key_id=key, project_id=project, since=_utc(since), until=_utc(until))
        async with connect(workspace=workspace, warm=False) as knowledge:
            report = await knowledge.revocations.revoke(chosen, dry_run=dry_run)
        print_revocation(report, as_json=as_json)

    run(work)


def affected(
    entry_id: Annotated[UUID | None, typer.Argument(help="The entry's id.")] = None,
    key: _Key = None,
    project: _Project = None,
    since: _Since = None,
    until: _Until = None,
    *,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """List the tasks whose contexts held an entry, or any that a key captured."""
    from knowledge.provenance import Chosen
    from orchestrator import connect
    from orchestrator.reports_custody import print_affected

    async def work() -> None:
        chosen = Chosen(
            key_id=key,
            project_id=project,
            since=_utc(since),
            until=_utc(until),
            entry_id=None if entry_id is None else EntryId(entry_id),
        )
        async with connect(workspace=workspace, warm=False) as knowledge:
            tasks = await knowledge.revocations.affected(chosen)
        print_affected(tasks, as_json=as_json)

    run(work)


_Whole = Annotated[bool, typer.Option("--store", help="The log of the whole store: keys, imports, models.")]


@audit.command("list")
def list_audit(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 100,
    *,
    store: _Whole = False,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Show the last decisions, the latest first."""
    from orchestrator import connect
    from orchestrator.reports_custody import print_audit

    async def work() -> None:
        async with connect(workspace=workspace, warm=False) as knowledge:
            rows = await knowledge.audits.list(limit=limit, whole_store=store)
        print_audit(rows, as_json=as_json)

    run(work)


@audit.command("verify")
def verify_audit(
    head: Annotated[str | None, typer.Option(help="What an earlier verify printed: is it still there?")] = None,
    *,
    store: _Whole = False,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Look whether a row was changed, removed or moved; exit code 1 where one was."""
    from orchestrator import connect
    from orchestrator.reports_custody import print_chain

    async def work() -> None:
        async with connect(workspace=workspace, warm=False) as knowledge:
            report = await knowledge.audits.verify(head=head, whole_store=store)
        print_chain(report, as_json=as_json)
        if not report.whole:
            sys.exit(1)

    run(work)


def _utc(told: datetime | None) -> datetime | None:
    """Return a time as told, in UTC where no zone was."""
    return told if told is None or told.tzinfo else told.replace(tzinfo=UTC)


def add_custody(app: typer.Typer) -> None:
    """Add the commands to an app."""
    app.add_typer(review, name="review")
    app.add_typer(audit, name="audit")
    app.command()(revoke)
    app.command()(affected)
