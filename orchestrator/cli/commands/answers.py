"""The commands that answer from documents, and measure the answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hardwon.models.ids import DEFAULT_WORKSPACE
from orchestrator.cli.commands.evaluate import run_evaluation
from orchestrator.cli.commands.kb import Case, Team, User, kb, select_base
from orchestrator.cli.support.run import Json, Workspace, run

Folder = Annotated[Path, typer.Argument(help="A folder with corpus.jsonl, questions.jsonl and qrels.jsonl.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Ask the first questions only.")]


@kb.command("ask")
def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    *,
    case: Case = None,
    user: User = None,
    team: Team = None,
    everything: Annotated[bool, typer.Option("--all", help="Ask all knowledge bases, not one.")] = False,
    strict: Annotated[
        bool, typer.Option(help="Whole documents by their words; the exact sentence if none fits.")
    ] = False,
    k: Annotated[int, typer.Option("-k", "--k", min=1, max=50, help="Passages to answer from.")] = 5,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Answer a question from documents, with citations. Says so where they do not answer it."""
    from orchestrator.cli.reports.answer_report import answers_of, print_answer
    from orchestrator.cli.support.session import open_workspace

    base, scope_id = select_base(case, user, team)
    if scope_id is not None and (everything or strict):
        raise typer.BadParameter("asks more than one knowledge base", param_hint="--all or --strict")
    if everything and strict:
        raise typer.BadParameter("ask one way or the other", param_hint="--all or --strict")

    async def work() -> None:
        async with open_workspace(workspace, as_json=as_json) as knowledge:
            answers = answers_of(knowledge)
            if everything:
                print_answer(await answers.ask(question), as_json=as_json)
            elif strict:
                print_answer(await answers.query_knowledge_base(question), as_json=as_json)
            else:
                print_answer(await answers.ask_base(base, scope_id, question, k), as_json=as_json)

    run(work)


@kb.command("evaluate")
def evaluate_kb(folder: Folder, *, limit: Limit = None, as_json: Json = False) -> None:
    """Measure answers, as `hardwon evaluate answers` does. On a folder of documents and questions."""
    _evaluate(folder, limit=limit, as_json=as_json)


def add_answers(evaluate: typer.Typer) -> None:
    """Add the command that measures answers to a group."""

    @evaluate.command("answers")
    def answers(folder: Folder, *, limit: Limit = None, as_json: Json = False) -> None:
        """Measure whether answers are given and declined rightly. Also whether they cite what is relevant."""
        _evaluate(folder, limit=limit, as_json=as_json)


def _evaluate(folder: Path, *, limit: int | None, as_json: bool) -> None:
    from orchestrator.cli.reports.answer_report import print_answers_report
    from orchestrator.evaluation.answer_quality import evaluate_answers

    run_evaluation(evaluate_answers, print_answers_report, folder, limit=limit, as_json=as_json)
