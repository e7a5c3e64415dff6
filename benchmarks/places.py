"""`python -m benchmarks.places FOLDER`: questions on documents that nobody tuned to, and the lines that answer them.

The questions were written down before an answer was looked at, and are kept in `benchmarks/questions/places.json` with
places, not texts; `docs/evaluation.md` says where the documents come from. FOLDER has one folder for each collection.
An answer is right if it quotes a line that answers, and a near-miss is right if it is declined.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks import tables
from hardwon.models.documents import NewDocument
from knowledge.documents.access import Permission
from knowledge.documents.models import Answer, AnswerStatus
from knowledge.documents.service import LOCAL
from knowledge.settings import KnowledgeSettings
from orchestrator.evaluation.retrieval import throwaway_knowledge
from orchestrator.observability.logging import configure_logs
from orchestrator.qa.wrappers import AnswerFromGlobalKB

QUESTIONS = Path(__file__).parent / "questions" / "places.json"
OUTCOMES = ("right", "wrong", "refused", "declined", "false answer")
Places = Sequence[tuple[str, int, int]]


def outcome(answer: Answer, places: Places | None) -> str:
    """Return what came of a question; without places nothing answers it."""
    answered = answer.status is AnswerStatus.ANSWERED
    if places is None:
        return "false answer" if answered else "declined"
    if not answered:
        return "refused"
    right = any(
        each.uri == name and (each.line_start or 0) <= last and (each.line_end or 0) >= first
        for each in answer.citations
        for name, first, last in places
    )
    return "right" if right else "wrong"


def read_folder(folder: Path) -> list[NewDocument]:
    """Return the files of a folder as documents."""
    files = sorted(each for each in folder.rglob("*") if each.is_file())
    return [NewDocument(uri=each.relative_to(folder).as_posix(), content=each.read_bytes()) for each in files]


async def ask_collection(folder: Path, questions: Sequence[tuple[str, str, Places | None]]) -> list[tuple[str, str]]:
    """Return the outcome of each question on the documents of a folder, with what is told of it."""
    async with throwaway_knowledge(KnowledgeSettings(), None) as knowledge:
        scope = await knowledge.documents.access.scope(LOCAL, "global", permission=Permission.WRITE)
        for new in read_folder(folder):
            await knowledge.documents.library.add(new, scope)
        await knowledge.documents.indexing.run()
        tool = AnswerFromGlobalKB(knowledge.answering, LOCAL)
        found = []
        for question, kind, places in questions:
            answer = await tool.answer(None, question)
            quoted = ", ".join(f"{each.uri}:{each.line_start}-{each.line_end}" for each in answer.citations)
            told = f"{kind}: {question} -> {quoted or 'declined'} {' '.join(answer.lacking)}".rstrip()
            found.append((outcome(answer, places), told))
    return found


def main() -> int:
    """Print a row for each collection, and each question that went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    configure_logs()
    rows, every = [], Counter[str]()
    for name, questions in json.loads(QUESTIONS.read_text(encoding="utf-8")).items():
        if not (folder / name).is_dir():
            print(f"{folder / name} is missing", file=sys.stderr)
            continue
        found = asyncio.run(ask_collection(folder / name, questions))
        counts = Counter(each for each, _ in found)
        every += counts
        rows.append([name, *(str(counts[each]) for each in OUTCOMES)])
        print(*(f"{each}: {told}" for each, told in found if each not in {"right", "declined"}), sep="\n")
    print(tables.table(["collection", *OUTCOMES], [*rows, ["all", *(str(every[each]) for each in OUTCOMES)]]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
