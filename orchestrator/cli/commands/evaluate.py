"""The commands that measure quality."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.cli.support.run import Json, run

evaluate = typer.Typer(help="Measure quality on folders of labelled data.", no_args_is_help=True)


def run_evaluation(
    measure: Callable[..., Awaitable[Any]],
    print_report: Callable[..., None],
    folder: Path,
    *,
    as_json: bool,
    **options: Any,
) -> None:
    """Measure on a folder and print the report, with progress for people."""
    from knowledge.settings import KnowledgeSettings
    from orchestrator.cli.support.terminal import stages

    async def work() -> None:
        with stages(quiet=as_json) as progress:
            report = await measure(folder, KnowledgeSettings(), progress=progress, **options)
        print_report(report, as_json=as_json)

    run(work)


@evaluate.command("retrieval")
def evaluate_retrieval(
    folder: Annotated[Path, typer.Argument(help="A folder with corpus.jsonl, queries.jsonl and qrels.jsonl.")],
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many queries.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """Measure how often the right record is found. Counts the first place, the first 3 and the first 10."""
    from orchestrator.cli.reports.evaluation_report import print_evaluation
    from orchestrator.evaluation.retrieval import evaluate_retrieval as measure

    run_evaluation(measure, print_evaluation, folder, limit=limit, as_json=as_json)


@evaluate.command("merging")
def evaluate_merging(
    folder: Annotated[Path, typer.Argument(help="A folder with pairs.jsonl: {a, b, same} a line.")],
    *,
    as_json: Json = False,
) -> None:
    """Measure whether two tellings become one pattern. Also whether two problems stay two."""
    from orchestrator.cli.reports.evaluation_report import print_evaluation
    from orchestrator.evaluation.merging import evaluate_merging as measure

    run_evaluation(measure, print_evaluation, folder, as_json=as_json)


@evaluate.command("abstention")
def evaluate_abstention(
    folder: Annotated[Path, typer.Argument(help="A folder with corpus.jsonl, queries.jsonl and qrels.jsonl.")],
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many queries.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """Measure wrong answers and wrong abstentions. Asks about what is stored, and about what is not."""
    from orchestrator.cli.reports.evaluation_report import print_evaluation
    from orchestrator.evaluation.retrieval import evaluate_abstention as measure

    run_evaluation(measure, print_evaluation, folder, limit=limit, as_json=as_json)


@evaluate.command("learning")
def evaluate_learning(
    folder: Annotated[Path, typer.Argument(help="A folder with tasks.jsonl, orders.jsonl and the names of actions.")],
    packages: Annotated[
        Path | None, typer.Option(help="The site-packages whose lines of code the tasks name by file and row.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Orders to replay, with commas between; all by default.")] = None,
    agent: Annotated[list[str] | None, typer.Option(help="weak or able; both by default.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """Measure whether memory helps. Replays streams of tasks with known verdicts, beside BM25 memory and none."""
    from orchestrator.cli.reports.evaluation_report import print_learning
    from orchestrator.evaluation.learning import AGENTS
    from orchestrator.evaluation.learning import evaluate_learning as measure

    chosen = tuple(agent or AGENTS)
    if not set(chosen) <= AGENTS.keys():
        raise typer.BadParameter("give weak or able", param_hint="--agent")
    try:
        numbers = None if seeds is None else [int(each) for each in seeds.split(",")]
    except ValueError as error:
        raise typer.BadParameter(
            "give whole numbers with commas between, such as 0,1,2", param_hint="--seeds"
        ) from error
    run_evaluation(measure, print_learning, folder, packages=packages, seeds=numbers, agents=chosen, as_json=as_json)
