"""The commands that measure quality."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.run import Json, run

evaluate = typer.Typer(help="Measure quality on folders of labelled data.", no_args_is_help=True)


@evaluate.command("retrieval")
def evaluate_retrieval(
    folder: Annotated[Path, typer.Argument(help="A folder with corpus.jsonl, queries.jsonl and qrels.jsonl.")],
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many queries.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """Measure how often the right record is found. Counts the first place, the first 3 and the first 10."""
    from knowledge.settings import KnowledgeSettings
    from orchestrator.cli.reports.memory import print_retrieval
    from orchestrator.cli.terminal import stages
    from orchestrator.measuring.retrieval import evaluate_retrieval as measure

    async def work() -> None:
        with stages(quiet=as_json) as progress:
            report = await measure(folder, KnowledgeSettings(), limit=limit, progress=progress)
        print_retrieval(report, as_json=as_json)

    run(work)


@evaluate.command("merging")
def evaluate_merging(
    folder: Annotated[Path, typer.Argument(help="A folder with pairs.jsonl: {a, b, same} a line.")],
    *,
    as_json: Json = False,
) -> None:
    """Measure whether two tellings of one thing become one pattern. Also whether two things stay two."""
    from knowledge.settings import KnowledgeSettings
    from orchestrator.cli.reports.memory import print_merging
    from orchestrator.cli.terminal import stages
    from orchestrator.measuring.merging import evaluate_merging as measure

    async def work() -> None:
        with stages(quiet=as_json) as progress:
            report = await measure(folder, KnowledgeSettings(), progress=progress)
        print_merging(report, as_json=as_json)

    run(work)


@evaluate.command("abstention")
def evaluate_abstention(
    folder: Annotated[Path, typer.Argument(help="A folder with corpus.jsonl, queries.jsonl and qrels.jsonl.")],
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many queries.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """Measure how often it speaks and keeps silent wrongly. Asks about what is known, and about what is not."""
    from knowledge.settings import KnowledgeSettings
    from orchestrator.cli.reports.memory import print_abstention
    from orchestrator.cli.terminal import stages
    from orchestrator.measuring.retrieval import evaluate_abstention as measure

    async def work() -> None:
        with stages(quiet=as_json) as progress:
            report = await measure(folder, KnowledgeSettings(), limit=limit, progress=progress)
        print_abstention(report, as_json=as_json)

    run(work)
