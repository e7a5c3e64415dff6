"""The commands of patterns: likely twins to join, and entries to split off."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from knowledge.names import DEFAULT_WORKSPACE, EntryId, PatternId
from orchestrator.cli.run import All, Json, Limit, Workspace, run
from orchestrator.paging import paged

patterns = typer.Typer(help="See, join and split patterns.", no_args_is_help=True)


@patterns.command("suggest")
def suggest(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many pairs.")] = 20,
    *,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Show patterns that are probably the same. The likeliest first; `patterns join` makes two of them one."""
    from orchestrator.cli.opened import opened
    from orchestrator.cli.reports.patterns import print_pairs_of_patterns

    async def work() -> None:
        async with opened(workspace, warm=False, as_json=as_json) as knowledge:
            pairs = await knowledge.grouping.suggest(limit=limit)
        print_pairs_of_patterns(pairs, as_json=as_json)

    run(work)


@patterns.command("list")
def list_patterns(
    limit: Limit = 20,
    *,
    everything: All = False,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Show patterns in the order of their ids, to look through."""
    from knowledge.memory.query import MAX_RESULTS
    from orchestrator.cli.opened import opened
    from orchestrator.cli.reports.patterns import print_listed
    from orchestrator.cli.terminal import note_more

    async def work() -> None:
        async with opened(workspace, warm=False, as_json=as_json) as knowledge:
            queries = knowledge.queries
            found = await paged(
                lambda last, at_most: queries.browse(after=last, limit=at_most),
                lambda pattern: pattern.pattern_id,
                most=None if everything else limit,
                page=MAX_RESULTS,
            )
        print_listed(found, as_json=as_json)
        note_more(found, None if everything else limit, as_json=as_json)

    run(work)


@patterns.command("show")
def show(
    pattern_id: Annotated[UUID, typer.Argument(help="The pattern's id.")],
    *,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Show a pattern with its entries, likely twins and rivals."""
    from orchestrator.cli.opened import opened
    from orchestrator.cli.reports.patterns import print_details

    async def work() -> None:
        async with opened(workspace, warm=False, as_json=as_json) as knowledge:
            details = await knowledge.grouping.show(PatternId(pattern_id))
        print_details(details, as_json=as_json)

    run(work)


@patterns.command("join")
def join(
    keep: Annotated[UUID, typer.Argument(help="The pattern to keep.")],
    other: Annotated[UUID, typer.Argument(help="The one that becomes part of it.")],
    *,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Make two patterns one, for good. No text is changed; `patterns split` takes entries out again."""
    from orchestrator.cli.opened import opened
    from orchestrator.cli.reports.patterns import print_grouped

    async def work() -> None:
        async with opened(workspace, warm=False, as_json=as_json) as knowledge:
            pattern = await knowledge.grouping.join(PatternId(keep), PatternId(other))
        print_grouped(pattern, as_json=as_json)

    run(work)


@patterns.command("split")
def split(
    entry_ids: Annotated[list[UUID], typer.Argument(help="The entries that are to leave, of one pattern.")],
    *,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Give entries a pattern of their own, for good. Entries with the same words go along."""
    from orchestrator.cli.opened import opened
    from orchestrator.cli.reports.patterns import print_grouped

    async def work() -> None:
        async with opened(workspace, warm=False, as_json=as_json) as knowledge:
            pattern = await knowledge.grouping.split([EntryId(entry_id) for entry_id in entry_ids])
        print_grouped(pattern, as_json=as_json)

    run(work)
