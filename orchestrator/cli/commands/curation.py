"""The commands of reviews, revocations and the audit log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from hardwon.client.paging import fetch_pages
from hardwon.models.ids import DEFAULT_WORKSPACE, EntryId
from orchestrator.cli.support.one_call import OperationCommand, add_command
from orchestrator.cli.support.run import All, Json, Limit, Workspace, run

if TYPE_CHECKING:
    from hardwon.models.access import EntryFilter

review = typer.Typer(help="Decide on entries by agents' keys that wait for a person.", no_args_is_help=True)
audit = typer.Typer(help="Show and check the log of who decided what.", no_args_is_help=True)


def parse_moment(text: str) -> datetime:
    """Return the moment in a typed text, in UTC where it names no zone. Raises a usage error for another form."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        example = "2026-03-02, 2026-03-02T09:30 or 2026-03-02T09:30:00+01:00"
        raise typer.BadParameter(f"give a day or a time, such as {example}, not {text!r}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_Entry = Annotated[UUID, typer.Argument(help="The entry's id.")]
_Key = Annotated[str | None, typer.Option("--key", help="What this key captured, or one rotated from or to it.")]
_Project = Annotated[str | None, typer.Option("--project", help="What was captured of this project.")]
_Since = Annotated[
    datetime | None,
    typer.Option(parser=parse_moment, metavar="TIME", help="What was captured from then on, such as 2026-03-02 (UTC)."),
]
_Until = Annotated[
    datetime | None,
    typer.Option(parser=parse_moment, metavar="TIME", help="What was captured before, such as 2026-03-02T09:30 (UTC)."),
]


def _require_selection(chosen: EntryFilter, options: str) -> None:
    """Raise a usage error where no option selects any entries."""
    if chosen.matches_all:
        raise typer.BadParameter("give at least one", param_hint=options)


@review.command("list")
def list_waiting(
    limit: Limit = 100,
    *,
    everything: All = False,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Show what waits for a person, the oldest first. Also agents' keys and patterns that a person should look at."""
    from orchestrator.cli.reports.curation_report import print_waiting
    from orchestrator.cli.support.session import open_workspace
    from orchestrator.cli.support.terminal import note_more

    async def work() -> None:
        async with open_workspace(workspace, as_json=as_json) as knowledge:
            reviews = knowledge.reviews
            waiting = await fetch_pages(
                lambda last, at_most: reviews.waiting(limit=at_most, after=last),
                lambda entry: entry.entry_id,
                most=None if everything else limit,
            )
            alarms, keys = await reviews.alarms(), await reviews.key_alarms()
        print_waiting(waiting, alarms, keys, as_json=as_json)
        note_more(waiting, None if everything else limit, as_json=as_json)

    run(work)


add_command(
    review,
    "show",
    OperationCommand(
        "reviews.show", "curation_report:print_whole_entry", "Show all of an entry.", options={"entry_id": _Entry}
    ),
)


@review.command("approve")
def approve(entry_id: _Entry, *, workspace: Workspace = DEFAULT_WORKSPACE, as_json: Json = False) -> None:
    """Let an entry go on: the next checkpoint embeds it."""
    from orchestrator.cli.reports.curation_report import print_decision
    from orchestrator.cli.support.session import open_workspace

    async def work() -> None:
        async with open_workspace(workspace, as_json=as_json) as knowledge:
            entry = await knowledge.reviews.approve(EntryId(entry_id))
        print_decision(entry_id, f"approved; it is {entry.status}", as_json=as_json)

    run(work)


@review.command("reject")
def reject(entry_id: _Entry, *, workspace: Workspace = DEFAULT_WORKSPACE, as_json: Json = False) -> None:
    """Delete an entry that waits."""
    from orchestrator.cli.reports.curation_report import print_decision
    from orchestrator.cli.support.session import open_workspace

    async def work() -> None:
        async with open_workspace(workspace, as_json=as_json) as knowledge:
            await knowledge.reviews.reject(EntryId(entry_id))
        print_decision(entry_id, "rejected and deleted", as_json=as_json)

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
    """Delete what a key captured, of a project, in a time. All conditions must hold. Names the tasks it had reached."""
    from hardwon.models.access import EntryFilter
    from orchestrator.cli.reports.curation_report import print_revocation
    from orchestrator.cli.support.session import open_workspace
    from orchestrator.cli.support.terminal import notes

    chosen = EntryFilter(key_id=key, project_id=project, since=since, until=until)
    _require_selection(chosen, "--key, --project, --since or --until")

    async def work() -> None:
        async with open_workspace(workspace, as_json=as_json) as knowledge:
            report = await knowledge.revocations.revoke(chosen, dry_run=dry_run)
        print_revocation(report, as_json=as_json)
        if key is not None and not (report.entries or report.outcomes or as_json):
            notes.print(f"nothing in workspace {workspace} is by this key: is it the right one?")

    run(work)


def list_affected(
    entry_id: Annotated[UUID | None, typer.Argument(help="The entry's id.")] = None,
    key: _Key = None,
    project: _Project = None,
    since: _Since = None,
    until: _Until = None,
    limit: Limit = 1000,
    *,
    everything: All = False,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """List the tasks that were shown an entry. Or any entry of a key, of a project, of a time."""
    from hardwon.models.access import EntryFilter
    from orchestrator.cli.reports.curation_report import print_affected
    from orchestrator.cli.support.session import open_workspace
    from orchestrator.cli.support.terminal import note_more

    named = None if entry_id is None else EntryId(entry_id)
    chosen = EntryFilter(key_id=key, project_id=project, since=since, until=until, entry_id=named)
    _require_selection(chosen, "ENTRY_ID, --key, --project, --since or --until")

    async def work() -> None:
        async with open_workspace(workspace, as_json=as_json) as knowledge:
            revocations = knowledge.revocations
            tasks = await fetch_pages(
                lambda last, at_most: revocations.affected(chosen, limit=at_most, after=last),
                lambda task: task.context_id,
                most=None if everything else limit,
            )
        print_affected(tasks, as_json=as_json)
        note_more(tasks, None if everything else limit, as_json=as_json)

    run(work)


_Whole = Annotated[bool, typer.Option("--store", help="The log of the whole store: keys, imports, models.")]


@audit.command("list")
def list_audit(
    limit: Limit = 100,
    *,
    everything: All = False,
    store: _Whole = False,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Show the last decisions of a workspace. The latest first; those on keys, imports and models with --store."""
    from orchestrator.cli.reports.curation_report import print_audit
    from orchestrator.cli.support.session import open_workspace
    from orchestrator.cli.support.terminal import note_more

    async def work() -> None:
        async with open_workspace(workspace, as_json=as_json) as knowledge:
            audits = knowledge.audits
            rows = await fetch_pages(
                lambda last, at_most: audits.list(limit=at_most, after=last, whole_store=store),
                lambda row: row.number,
                most=None if everything else limit,
            )
        print_audit(rows, workspace=None if store else workspace, as_json=as_json)
        note_more(rows, None if everything else limit, as_json=as_json)

    run(work)


add_command(
    audit,
    "verify",
    OperationCommand(
        "audits.verify",
        "curation_report:print_chain",
        "Check that no row was changed, removed or moved. Exit code 1 if one was.",
        options={
            "head": Annotated[
                str | None, typer.Option(help="What `audit head` or an earlier verify printed: does it still hold?")
            ],
            "whole_store": _Whole,
        },
        is_failure=lambda chain: not chain.is_intact,
    ),
)


add_command(
    audit,
    "head",
    OperationCommand(
        "audits.take_head",
        "curation_report:print_head",
        "Print a signed head of the store, to keep elsewhere. `audit verify --head` compares with it.",
    ),
)
add_command(
    audit,
    "accept",
    OperationCommand(
        "audits.accept",
        "curation_report:print_acceptance",
        "Take an entry changed in Postgres as it is now. Without an id: what is there for all there is.",
        options={
            "entry_id": Annotated[str | None, typer.Argument(help="The entry.")],
            "reason": Annotated[str, typer.Option(help="Why, for the audit log.")],
        },
    ),
)
add_command(
    audit,
    "rotate-seal-key",
    OperationCommand(
        "audits.rotate_seal_key",
        "curation_report:print_seal_key",
        "Seal by a new key from now on. What others sealed still verifies.",
    ),
)


def add_custody(app: typer.Typer) -> None:
    """Add the commands to an app."""
    app.add_typer(review, name="review")
    app.add_typer(audit, name="audit")
    app.command()(revoke)
    app.command("affected")(list_affected)
