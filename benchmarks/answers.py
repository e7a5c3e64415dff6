"""`python -m benchmarks.answers`: are questions answered from documents, declined, and cited rightly? With intervals.

Each set is stored as documents and asked through the tool an agent has, in a throwaway data directory. Follow-ups of a
conversation are searched as production does it, as they stand, and below all that was asked before them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles

import numpy as np

from benchmarks import tables
from benchmarks.asked import at_least_one
from benchmarks.resampling import Estimate, auc, estimate
from benchmarks.sets import DATA
from knowledge.settings import KnowledgeSettings
from orchestrator.cli.support.terminal import stages
from orchestrator.evaluation.answer_quality import QuestionResult, evaluate_questions
from orchestrator.observability.logging import configure_logs

SETS = ("clapnq", "mtrag_un")
NAMES = {"clapnq": "Wikipedia (CLAPnq)", "mtrag_un": "conversations (MTRAG)"}
FALSE_ANSWERS, FALSE_REFUSALS = 0.25, 0.25
"""What must not be exceeded on Wikipedia's questions."""

_DEPTH = 5


def share(values: Sequence[float | bool]) -> Estimate | None:
    """Return a mean with its interval, None where there is nothing to take it of."""
    return estimate([np.array(values, dtype=np.float64)]) if values else None


def answers_table(found: Mapping[str, Sequence[QuestionResult]]) -> str:
    """Return what came of the questions of each set: retrieval, abstention on both sides, citations, time."""
    rows: list[list[str]] = []
    measures: list[tuple[str, Callable[[Sequence[QuestionResult]], str]]] = [
        ("questions, of them unanswerable", lambda of: f"{len(of)}, {sum(not each.answerable for each in of)}"),
        *((f"retrieval: recall@{depth}", _within(depth)) for depth in (1, 3, 5)),
        (
            "retrieval: MRR@10",
            lambda of: _estimate(share([1 / each.place if each.place else 0.0 for each in _placed(of)])),
        ),
        (
            "false answers, of the unanswerable",
            lambda of: _estimate(share([e.answered for e in of if not e.answerable])),
        ),
        (
            "false refusals, of the answerable",
            lambda of: _estimate(share([not e.answered for e in of if e.answerable])),
        ),
        ("surer of the answerable (AUC)", _surer),
        (
            "citations: precision",
            lambda of: _estimate(share([len(e.cited & e.relevant) / len(e.cited) for e in _cited(of)])),
        ),
        (
            "citations: recall",
            lambda of: _estimate(share([len(e.cited & e.relevant) / len(e.relevant) for e in _cited(of)])),
        ),
        ("claims dropped, whose quote was not found", lambda of: str(sum(each.dropped for each in of))),
        ("ms an answer: p50, p95", _times),
    ]
    rows = [[name, *(measure(of) for of in found.values())] for name, measure in measures]
    return tables.table(["", *(NAMES.get(name, name) for name in found)], rows)


def conversations_table(found: Sequence[QuestionResult]) -> str:
    """Return what the search finds of questions that end a conversation, by what is searched for."""
    asked = [each for each in _placed(found) if each.in_conversation]
    groups = (
        ("all that end a conversation", asked),
        ("those that were rewritten", [each for each in asked if each.follows]),
        ("those that stand on their own", [each for each in asked if not each.follows]),
    )
    ways: tuple[tuple[str, Callable[[QuestionResult], int | None]], ...] = (
        ("the question as it stands", lambda each: each.plain_place),
        ("as it is searched for", lambda each: each.place),
        ("below all questions before it", lambda each: each.whole_place),
    )
    rows = [
        [name, str(len(of)), *(_estimate(share([_up_to(way(each), _DEPTH) for each in of])) for _, way in ways)]
        for name, of in groups
    ]
    return tables.table([f"recall@{_DEPTH}", "questions", *(name for name, _ in ways)], rows)


def reached(found: Sequence[QuestionResult]) -> dict[str, bool]:
    """Return what Wikipedia's questions must reach, and whether they do."""
    wrong = [each.answered for each in found if not each.answerable]
    right = [not each.answered for each in found if each.answerable]
    return {
        f"false answers at most {FALSE_ANSWERS:.0%}": sum(wrong) <= FALSE_ANSWERS * len(wrong),
        f"false refusals at most {FALSE_REFUSALS:.0%}": sum(right) <= FALSE_REFUSALS * len(right),
    }


def _placed(found: Sequence[QuestionResult]) -> list[QuestionResult]:
    return [each for each in found if each.answerable and each.relevant]


def _cited(found: Sequence[QuestionResult]) -> list[QuestionResult]:
    return [each for each in _placed(found) if each.answered]


def _up_to(place: int | None, depth: int) -> bool:
    return place is not None and place <= depth


def _within(depth: int) -> Callable[[Sequence[QuestionResult]], str]:
    return lambda of: _estimate(share([_up_to(each.place, depth) for each in _placed(of)]))


def _surer(found: Sequence[QuestionResult]) -> str:
    sure = [(each.sure, each.answerable) for each in found if each.sure is not None]
    right, wrong = [s for s, answerable in sure if answerable], [s for s, answerable in sure if not answerable]
    return f"{auc(right, wrong):.3f}" if right and wrong else ""


def _times(found: Sequence[QuestionResult]) -> str:
    times = [each.milliseconds for each in found]
    return f"{median(times):.0f}, {quantiles(times, n=20)[-1]:.0f}" if len(times) > 1 else ""


def _estimate(found: Estimate | None) -> str:
    return "" if found is None else f"{found.mean:.3f} [{found.low:.3f}, {found.high:.3f}]"


def rendered(found: Mapping[str, Sequence[QuestionResult]]) -> str:
    """Return all tables."""
    parts = [answers_table(found)]
    parts += [conversations_table(of) for of in found.values() if any(each.in_conversation for each in of)]
    if "clapnq" in found:
        parts.append(tables.goals(reached(found["clapnq"])))
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 where a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.answers", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA / "doc_qa", help=f"the labelled sets ({DATA / 'doc_qa'})")
    parser.add_argument("--set", dest="names", action="append", choices=SETS, help="only this one; may be repeated")
    parser.add_argument("--limit", type=at_least_one, help="only the first questions of each set")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/evaluation.md")
    given = parser.parse_args(arguments)
    configure_logs()
    names = given.names or SETS
    if not all((given.data / name / "corpus.jsonl").is_file() for name in names):
        print(f"The sets of questions are not in {given.data}: name their folder with --data.", file=sys.stderr)
        return 0
    found = {}
    with stages(quiet=False) as progress:
        for name in names:
            work = evaluate_questions(given.data / name, KnowledgeSettings(), limit=given.limit, progress=progress)
            found[name] = asyncio.run(work)
    text = rendered(found)
    print(text)
    if given.write:
        tables.put(tables.EVALUATION, "answers", text)
    return 0 if "clapnq" not in found or all(reached(found["clapnq"]).values()) else 1


if __name__ == "__main__":
    sys.exit(main())
