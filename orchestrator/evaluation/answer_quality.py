"""Evaluation of answers from documents, and of refusals, through the services of production."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from hardwon.errors import InvalidInput
from hardwon.models.documents import NewDocument
from knowledge.documents.access import Permission, Scope
from knowledge.documents.models import Answer, AnswerStatus, Query
from knowledge.documents.service import LOCAL
from knowledge.ports import Embedder
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge
from orchestrator.evaluation.retrieval import read_jsonl, read_relevant, throwaway_knowledge
from orchestrator.observability.progress import Stages
from orchestrator.qa.wrappers import AnswerFromGlobalKB

_DEPTH = 10
_MAX_TITLE_CHARS = 200
_MAX_QUERY_CHARS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersReport:
    """Over the questions that are clearly answerable or not.

    `false_answer_rate`: share of the unanswerable that got an answer; `false_refusal_rate`: share of the answerable
    that got none. `citation_precision`: of the documents cited for answerable questions, the share that is relevant;
    `citation_recall`: of the relevant documents, the share cited, over the questions that were answered.
    """

    questions: int
    answerable: int
    unanswerable: int
    false_answer_rate: float
    false_refusal_rate: float
    citation_precision: float
    citation_recall: float
    dropped_claims: int
    recall_at_1: float
    recall_at_3: float
    recall_at_5: float
    mrr_at_10: float
    follow_ups: int
    follow_up_recall_at_5: float
    follow_up_recall_at_5_unrewritten: float
    answer_p50_ms: float
    extractive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionResult:
    """The result of a question. `sure` is the extractive probability, `place` the rank of the first relevant document.

    `in_conversation`: there were turns before. `follows`: the question was rewritten for the search; `plain_place` is
    the rank without that, `whole_place` that of the question with all of the user's questions before it.
    """

    question_id: str
    answerable: bool
    answered: bool
    cited: frozenset[str]
    relevant: frozenset[str]
    dropped: int
    sure: float | None
    place: int | None
    plain_place: int | None
    whole_place: int | None
    in_conversation: bool
    follows: bool
    milliseconds: float
    extractive: bool
    signs: Mapping[str, float]


async def evaluate_answers(
    folder: Path,
    settings: KnowledgeSettings,
    *,
    limit: int | None = None,
    progress: Stages | None = None,
    embedder: Embedder | None = None,
) -> AnswersReport:
    """Store `corpus.jsonl` as documents, ask `questions.jsonl` (at most `limit`), judge by `qrels.jsonl`."""
    return summarize(await evaluate_questions(folder, settings, limit=limit, progress=progress, embedder=embedder))


async def evaluate_questions(
    folder: Path,
    settings: KnowledgeSettings,
    *,
    limit: int | None = None,
    progress: Stages | None = None,
    embedder: Embedder | None = None,
) -> list[QuestionResult]:
    """Return the result of each question."""
    progress = progress or Stages()
    relevant = read_relevant(folder)
    rows = read_jsonl(folder / "questions.jsonl", texts=["id", "text"])
    questions = [row for row in rows if _answerable(row) is not None][:limit]
    if not questions:
        raise InvalidInput(str(folder), "has no question with a valid `answerable` or `answerability`")
    async with throwaway_knowledge(settings, embedder) as knowledge:
        await add_corpus(knowledge, folder / "corpus.jsonl")
        indexing = progress.stage("Embedding")
        await knowledge.documents.indexing.run()
        if indexing:
            indexing(1, 1)
        scope = await knowledge.documents.access.scope(LOCAL, "global")
        asking = progress.stage("Asking")
        results = []
        for number, row in enumerate(questions, 1):
            results.append(await _evaluate_question(knowledge, scope, row, relevant.get(row["id"], frozenset())))
            if asking:
                asking(number, len(questions))
    return results


async def add_corpus(knowledge: Knowledge, corpus: Path) -> None:
    """Store each record as a document of the global knowledge base: its text, its title, its id as the name."""
    scope = await knowledge.documents.access.scope(LOCAL, "global", permission=Permission.WRITE)
    for row in read_jsonl(corpus, texts=["id", "text"]):
        title = str(row.get("title") or "")[:_MAX_TITLE_CHARS].strip()
        new = NewDocument(
            uri=f"{row['id']}.txt", content=row["text"].encode(), title=" ".join(title.split()) or row["id"]
        )
        added = await knowledge.documents.library.add(new, scope)
        if added.document.error is not None:
            raise InvalidInput(f"{corpus}: {row['id']}", added.document.error)


async def _evaluate_question(
    knowledge: Knowledge, scope: Scope, row: Mapping[str, Any], relevant: frozenset[str]
) -> QuestionResult:
    conversation = [
        {"role": "user" if turn["speaker"] == "user" else "assistant", "content": turn["text"]}
        for turn in row.get("history", ())
    ]
    began = time.perf_counter()
    tool = AnswerFromGlobalKB(knowledge.answering, LOCAL)
    answer = await tool.answer(None, row["text"], conversation=conversation)
    took = (time.perf_counter() - began) * 1000
    if answer.status is AnswerStatus.ERROR:
        raise InvalidInput(row["id"], answer.error or "could not be answered")
    names = await _names_of_cited(knowledge, scope, answer)
    place = await _rank_of_relevant(knowledge, scope, answer.searched[0], relevant)
    follows = answer.searched[0] != row["text"]
    return QuestionResult(
        question_id=row["id"],
        answerable=bool(_answerable(row)),
        answered=answer.status is AnswerStatus.ANSWERED,
        cited=names,
        relevant=relevant,
        dropped=round(answer.metrics.get("dropped_claims", 0)),
        sure=answer.metrics.get("sure"),
        place=place,
        plain_place=await _rank_of_relevant(knowledge, scope, row["text"], relevant) if follows else place,
        whole_place=await _rank_of_relevant(knowledge, scope, _with_history(row), relevant) if conversation else place,
        in_conversation=bool(conversation),
        follows=follows,
        milliseconds=took,
        extractive=answer.extractive,
        signs={name: value for name, value in answer.metrics.items() if name.startswith("sign_")},
    )


def _with_history(row: Mapping[str, Any]) -> str:
    """Return a question with all of the user's questions before it; if too long, the end of that."""
    earlier = [turn["text"] for turn in row.get("history", ()) if turn["speaker"] == "user"]
    return "\n".join([*earlier, row["text"]])[-_MAX_QUERY_CHARS:]


async def _rank_of_relevant(knowledge: Knowledge, scope: Scope, question: str, relevant: frozenset[str]) -> int | None:
    """Return the rank of the first relevant document; None if none is among the first ten."""
    found = await knowledge.documents.search.search(Query(question=question, k=_DEPTH), scope)
    ranked = dict.fromkeys(_name(passage.uri) for passage in found.passages)
    return next((at for at, name in enumerate(ranked, 1) if name in relevant), None)


async def _names_of_cited(knowledge: Knowledge, scope: Scope, answer: Answer) -> frozenset[str]:
    """Return the cited documents. Raises AssertionError unless each quote is literally in its document."""
    texts = {
        whole.document.document_id: whole
        for whole in await knowledge.documents.quotes.whole(
            scope, [citation.document_id for citation in answer.citations]
        )
    }
    for citation in answer.citations:
        if citation.quote not in texts[citation.document_id].text:
            raise AssertionError(f"a quote is not in its document: {citation.uri}")
    return frozenset(_name(citation.uri) for citation in answer.citations)


def _name(uri: str) -> str:
    return uri.removesuffix(".txt")


def _answerable(row: Mapping[str, Any]) -> bool | None:
    """Return whether a question can be answered; None if its label is unclear."""
    label = row.get("answerable", row.get("answerability"))
    if isinstance(label, bool):
        return label
    return {"answerable": True, "unanswerable": False}.get(str(label).lower())


def summarize(results: Sequence[QuestionResult]) -> AnswersReport:
    """Return the report of the results."""
    answerable = [each for each in results if each.answerable]
    unanswerable = [each for each in results if not each.answerable]
    answered = [each for each in answerable if each.answered and each.relevant]
    ranked = [each for each in answerable if each.relevant]

    def recall_at(depth: int) -> float:
        return _mean([_is_within(each.place, depth) for each in ranked])

    return AnswersReport(
        questions=len(results),
        answerable=len(answerable),
        unanswerable=len(unanswerable),
        false_answer_rate=_mean([each.answered for each in unanswerable]),
        false_refusal_rate=_mean([not each.answered for each in answerable]),
        citation_precision=_mean([len(each.cited & each.relevant) / len(each.cited) for each in answered]),
        citation_recall=_mean([len(each.cited & each.relevant) / len(each.relevant) for each in answered]),
        dropped_claims=sum(each.dropped for each in results),
        recall_at_1=recall_at(1),
        recall_at_3=recall_at(3),
        recall_at_5=recall_at(5),
        mrr_at_10=_mean([1 / each.place if each.place else 0.0 for each in ranked]),
        follow_ups=sum(each.follows for each in ranked),
        follow_up_recall_at_5=_mean([_is_within(each.place, 5) for each in ranked if each.follows]),
        follow_up_recall_at_5_unrewritten=_mean([_is_within(each.plain_place, 5) for each in ranked if each.follows]),
        answer_p50_ms=round(median([each.milliseconds for each in results]), 1),
        extractive=all(each.extractive for each in results),
    )


def _is_within(place: int | None, depth: int) -> bool:
    return place is not None and place <= depth


def _mean(figures: Sequence[float]) -> float:
    return round(mean(figures), 4) if figures else 0.0
