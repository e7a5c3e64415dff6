"""The strict knowledge base: an answer that cites its documents, or else one fixed sentence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from hardwon.models.answers import KBQueryResponse, SourceJson
from hardwon.models.documents import Passage
from knowledge.documents.access import Principal
from knowledge.documents.answer_service import Answering
from knowledge.documents.answering.pipeline import Request, check_question
from knowledge.documents.answering.rendering import NOT_IN_THE_KNOWLEDGE_BASE, render_strict
from knowledge.documents.ingestion.url_policy import commit_of
from knowledge.documents.models import Answer, AnswerStatus, Profile
from orchestrator.qa.citations import nearest_json, turns_of
from orchestrator.qa.telemetry import QUESTION_ANSWERED, Telemetry

QNA_SYSTEM_PROMPT = """You answer questions strictly from the documents of a knowledge base.

- Answer ONLY from the documents you are given. Which of them are relevant is for you to judge.
- There are two possible outcomes: the documents answer the question, and you say how, or they do not, and found is
  false.
- Make no suggestions, use no general knowledge, assume nothing, and extrapolate nothing.
- Give exact values, such as addresses, names and settings, as they stand in the documents."""
MAX_EXCERPT_CHARS = 300


def _title_and_category(passage: Passage) -> str:
    parts = [f"Title: {passage.title}", f"Category: {passage.category}" if passage.category else ""]
    return ", ".join(part for part in parts if part)


PROFILE = Profile(
    name="strict",
    system_prompt=QNA_SYSTEM_PROMPT,
    render=render_strict,
    cache_ttl=timedelta(hours=1),
)


@dataclass(frozen=True, slots=True)
class KnowledgeBaseQuery:
    """Queries one knowledge base, by default the global one."""

    answering: Answering
    telemetry: Telemetry

    async def query_knowledge_base(
        self,
        query: str,
        principal: Principal,
        *,
        kb: str = "global",
        scope_id: str | None = None,
        conversation: list[dict[str, str]] | None = None,
    ) -> KBQueryResponse:
        """Return the answer. Raises InvalidInput or NoAccess; other failures are returned with the status error."""
        check_question(query, "query")
        scope = await self.answering.access.scope(principal, kb, scope_id)
        answer = await self.answering.answerer.answer(
            Request(question=query, conversation=turns_of(conversation or []), describe=_title_and_category),
            scope,
            PROFILE,
            self.answering.by_keywords,
        )
        sources = _sources(answer)
        payload = {
            "system": "strict",
            "question": query,
            "status": answer.status.value,
            "cached": answer.cached,
            "sources": len(sources),
            **answer.metrics,
        }
        answer_id = await self.telemetry.log_event(QUESTION_ANSWERED, payload)
        response = KBQueryResponse(
            status="success",
            query=query,
            answer=answer.text or NOT_IN_THE_KNOWLEDGE_BASE,
            sources=sources,
            total_sources=len(sources),
            answer_id=str(answer_id),
            extractive=answer.extractive,
            missing_words=list(answer.lacking),
            degraded=answer.degraded,
            nearest=nearest_json(answer),
        )
        if answer.status is AnswerStatus.ERROR:
            response["status"] = "error"
            response["answer"] = ""
            response["reason"] = answer.error or "unknown"
        return response


def _sources(answer: Answer) -> list[SourceJson]:
    """Return exactly the documents that are cited, by first use; the excerpt is the first quote."""
    sources: dict[str, SourceJson] = {}
    for citation in answer.citations:
        sources.setdefault(
            str(citation.document_id),
            SourceJson(
                title=citation.title,
                url=citation.link or citation.uri,
                path=citation.uri,
                category=citation.category,
                excerpt=citation.quote[:MAX_EXCERPT_CHARS],
                relevance_score=citation.score,
                commit=commit_of(citation.link),
            ),
        )
    return list(sources.values())
