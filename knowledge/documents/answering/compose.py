"""Build an answer with citations from a verified draft; pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from hardwon.models.documents import Finding
from knowledge.documents.answering.llm_draft import Draft
from knowledge.documents.models import Answer, AnswerStatus, Citation, Claim
from knowledge.documents.verification.verify import Evidence, Verified


def status_without_answer(finding: Finding) -> AnswerStatus:
    """Return the status if nothing answers: documents that wait to be indexed may do so later."""
    return AnswerStatus.INDEXING if finding.pending else AnswerStatus.NOT_FOUND


def compose_answer(
    question: str,
    draft: Draft,
    verified: Verified,
    evidence: Sequence[Evidence],
    finding: Finding,
    *,
    extractive: bool,
    dropped: int,
    nearest: Verified | None = None,
) -> Answer:
    """Return a verified draft as an answer with its citations; `dropped`: claims of the first draft that failed.

    `nearest`: what comes nearest, verified as well, where nothing answers.
    """
    citations = _citations(verified.claims, verified, evidence)
    passages = tuple(each.passage for each in evidence)
    cited = {citation.passage_id for citation in citations}
    relevance = [passage.relevance for passage in passages if passage.passage_id in cited]
    metrics: dict[str, float] = {
        "retrieval_count": len(finding.passages),
        "dropped_claims": dropped,
        "model_calls": draft.model_calls,
    }
    if draft.sure is not None:
        metrics["sure"] = round(draft.sure, 4)
    metrics |= {f"sign_{name}": round(value, 4) for name, value in draft.signs.items()}
    return Answer(
        status=AnswerStatus.ANSWERED if verified.claims else status_without_answer(finding),
        question=question,
        text="",
        claims=verified.claims,
        citations=citations,
        found=passages,
        searched=finding.searched,
        missing=draft.missing or None,
        lacking=() if verified.claims else draft.lacking,
        nearest=None
        if verified.claims or nearest is None
        else next(iter(_citations(nearest.claims, nearest, evidence)), None),
        confidence=round(mean(relevance), 4) if relevance else 0.0,
        coverage=finding.coverage,
        extractive=extractive,
        metrics=metrics,
        trace=(*finding.trace, *finding.notes, *(f"dropped: {fault}" for fault in verified.faults)),
    )


def _citations(claims: Sequence[Claim], verified: Verified, evidence: Sequence[Evidence]) -> tuple[Citation, ...]:
    """Return the quotes of the claims, each once, with passages numbered by first use."""
    by_id = {each.passage.passage_id: each for each in evidence}
    numbers: dict[str, int] = {}
    cited: dict[tuple[str, str], Citation] = {}
    for claim in claims:
        for quote in claim.quotes:
            marked = claim.marked if quote == claim.quotes[-1] else None
            number = numbers.setdefault(str(quote.passage_id), len(numbers) + 1)
            each = by_id[quote.passage_id]
            span = verified.spans[quote.passage_id, quote.text]
            cited.setdefault(
                (str(quote.passage_id), quote.text), _citation(number, each, quote.text, span.start, marked)
            )
    return tuple(cited.values())


def _citation(number: int, evidence: Evidence, quote: str, start: int, marked: tuple[int, int] | None) -> Citation:
    passage = evidence.passage
    first, last, timestamp = evidence.place(start, quote)
    return Citation(
        number=number,
        passage_id=passage.passage_id,
        document_id=passage.document_id,
        title=passage.title,
        name=passage.name,
        uri=passage.uri,
        link=passage.link,
        quote=quote,
        score=round(passage.relevance or passage.score, 4),
        category=passage.category,
        section=passage.section,
        page=passage.page,
        line_start=first,
        line_end=last,
        timestamp=timestamp,
        severity=passage.severity,
        version=passage.version,
        marked=marked,
    )
