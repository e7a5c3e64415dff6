"""A draft that was held against the documents, made an answer with its citations; pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from knowledge.documents.drafting import Draft
from knowledge.documents.models import Answer, AnswerStatus, Citation, Claim, Finding
from knowledge.documents.verifying import Evidence, Verified


def unfound(finding: Finding) -> AnswerStatus:
    """Return what it is where nothing answers: what waits to be indexed may do so yet."""
    return AnswerStatus.INDEXING if finding.pending else AnswerStatus.NOT_FOUND


def answered(
    question: str,
    draft: Draft,
    found: Verified,
    shown: Sequence[Evidence],
    finding: Finding,
    *,
    extractive: bool,
    dropped: int,
) -> Answer:
    """Return what was written as an answer, with what it cites; `dropped`: claims that did not stand at first."""
    citations = _citations(found.claims, found, shown)
    passages = tuple(each.passage for each in shown)
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
        status=AnswerStatus.ANSWERED if found.claims else unfound(finding),
        question=question,
        text="",
        claims=found.claims,
        citations=citations,
        found=passages,
        searched=finding.searched,
        missing=draft.missing or None,
        confidence=round(mean(relevance), 4) if relevance else 0.0,
        coverage=finding.coverage,
        extractive=extractive,
        metrics=metrics,
        trace=(*finding.trace, *finding.notes, *(f"dropped: {fault}" for fault in found.faults)),
    )


def _citations(claims: Sequence[Claim], found: Verified, shown: Sequence[Evidence]) -> tuple[Citation, ...]:
    """Return exactly what the claims quote, each quote once; passages are numbered by their first use."""
    by_id = {each.passage.passage_id: each for each in shown}
    numbers: dict[str, int] = {}
    cited: dict[tuple[str, str], Citation] = {}
    for claim in claims:
        for quote in claim.quotes:
            number = numbers.setdefault(str(quote.passage_id), len(numbers) + 1)
            each = by_id[quote.passage_id]
            span = found.spans[quote.passage_id, quote.text]
            cited.setdefault((str(quote.passage_id), quote.text), _citation(number, each, quote.text, span.start))
    return tuple(cited.values())


def _citation(number: int, evidence: Evidence, quote: str, start: int) -> Citation:
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
    )
