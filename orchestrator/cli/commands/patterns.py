"""The commands of patterns: likely twins to join, entries to split off, tags to find them by."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from orchestrator.cli.commands.lists import AGENT, PROJECT, TECHNOLOGY, WORDS
from orchestrator.cli.support.one_call import OperationCommand, add_command

patterns = typer.Typer(help="See, join, split and tag patterns.", no_args_is_help=True)

add_command(
    patterns,
    "suggest",
    OperationCommand(
        "grouping.suggest",
        "pattern_report:print_pairs_of_patterns",
        "Show patterns that are probably the same. The likeliest first; `patterns join` makes two of them one.",
        options={"limit": Annotated[int, typer.Option(min=1, max=1000, help="At most so many pairs.")]},
    ),
)
add_command(
    patterns,
    "list",
    OperationCommand(
        "lists.patterns",
        "list_report:print_patterns",
        "Show patterns, those seen last first. With the last attempts: + worked, - failed.",
        options={
            "sort": Annotated[str, typer.Option(help="By seen, evidence, projects or problem.")],
            "q": WORDS,
            "entry_type": Annotated[
                str | None,
                typer.Option("--kind", "--type", help="Only failure_solution, gate_rejection or gate_approval."),
            ],
            "technology": TECHNOLOGY,
            "agent_type": AGENT,
            "project_id": PROJECT,
            "facets": Annotated[bool, typer.Option("--facets", help="Count all of them, and the values of filters.")],
            "trust": Annotated[str | None, typer.Option(help="Only trusted ones, or those of low_trust.")],
            "tag": Annotated[str | None, typer.Option(help="Only those with this tag.")],
        },
    ),
)
add_command(
    patterns,
    "show",
    OperationCommand(
        "grouping.show",
        "pattern_report:print_details",
        "Show a pattern with its entries, likely twins and rivals.",
        options={"pattern_id": Annotated[UUID, typer.Argument(help="The pattern's id.")]},
    ),
)
add_command(
    patterns,
    "join",
    OperationCommand(
        "grouping.join",
        "pattern_report:print_grouped",
        "Make two patterns one, for good. No text is changed; `patterns split` takes entries out again.",
        options={
            "keep": Annotated[UUID, typer.Argument(help="The pattern to keep.")],
            "other": Annotated[UUID, typer.Argument(help="The one that becomes part of it.")],
        },
    ),
)
add_command(
    patterns,
    "split",
    OperationCommand(
        "grouping.split",
        "pattern_report:print_grouped",
        "Give entries a pattern of their own, for good. Entries with the same words go along.",
        options={
            "entry_ids": Annotated[list[UUID], typer.Argument(help="The entries that are to leave, of one pattern.")]
        },
    ),
)
add_command(
    patterns,
    "tag",
    OperationCommand(
        "corrections.tag",
        "pattern_report:print_tags",
        "Give a pattern tags, in place of those it has. Short words to find it by; without any it has none.",
        options={
            "pattern_id": Annotated[UUID, typer.Argument(help="The pattern's id.")],
            "tags": Annotated[list[str], typer.Argument(default_factory=list, help="Its tags.")],
        },
    ),
)
