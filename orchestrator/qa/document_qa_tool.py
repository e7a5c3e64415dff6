"""The core of all document tools: an answer with citations within an authorised scope, for any kind of base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import NoReturn

from hardwon.models.answers import ToolAnswer
from hardwon.models.documents import Passage
from hardwon.models.log_query import LogQuery
from knowledge.documents.access import Scope
from knowledge.documents.answer_service import Answering
from knowledge.documents.answering.pipeline import Request
from knowledge.documents.answering.profiles import KBConfig, metadata_of
from knowledge.documents.answering.rendering import chunks_of, render_for_base, sources_of
from knowledge.documents.models import Answer, Profile
from knowledge.text.redaction import redact
from orchestrator.qa.citations import citation_json, nearest_json, turns_of

DEFAULT_K = 5
MAX_K = 50
MAX_TOKENS = 500


class DocumentQATool:
    """Answers questions within a scope that was authorised before; kinds of bases differ only in `config`.

    Async, stateless and read-only: it uses a conversation only if one is passed, and keeps none.
    """

    def __init__(self, answering: Answering, config: KBConfig, *, temperature: float | None = 0.0) -> None:
        self._answering = answering
        self._config = config
        self._profile = Profile(
            name=config.kb,
            system_prompt=f"{config.system_prompt}\n- {config.guidance}",
            k=DEFAULT_K,
            max_tokens=MAX_TOKENS,
            temperature=temperature,
            cache_ttl=timedelta(seconds=config.cache_ttl),
        )

    def run(self, *_: object, **__: object) -> NoReturn:
        """Refuse: there is no synchronous form."""
        raise NotImplementedError("document tools are async only: await answer_question")

    async def answer_question(
        self,
        question: str,
        scope: Scope,
        k: int = DEFAULT_K,
        conversation_context: Sequence[Mapping[str, str]] | None = None,
        *,
        logs: LogQuery | None = None,
    ) -> ToolAnswer:
        """Return the answer with its sources. Raises InvalidInput for an invalid question."""
        return self._tool_answer(await self.answer(question, scope, k, conversation_context, logs=logs), scope)

    async def answer(
        self,
        question: str,
        scope: Scope,
        k: int = DEFAULT_K,
        conversation_context: Sequence[Mapping[str, str]] | None = None,
        *,
        logs: LogQuery | None = None,
    ) -> Answer:
        """Return the whole answer, with the passages found and dropped. Raises InvalidInput.

        `logs`: the plan of what is asked of logs; without one it is read from the question.
        """
        if logs is not None and self._answering.answerer.redaction:
            logs = replace(logs, terms=tuple(redact(term).text for term in logs.terms))
        return await self._answering.answerer.answer(
            Request(
                question=question,
                k=max(1, min(k, MAX_K)),
                conversation=turns_of(conversation_context or ()),
                selection="" if logs is None else repr(logs),
                describe=self._describe,
            ),
            scope,
            replace(self._profile, render=lambda found: render_for_base(self._config, found, scope.partitions[0])),
            replace(self._answering.direct, logs=logs),
        )

    def _describe(self, passage: Passage) -> str:
        return self._config.format_chunk_metadata(metadata_of(passage), passage.relevance or passage.score)

    def _tool_answer(self, answer: Answer, scope: Scope) -> ToolAnswer:
        return ToolAnswer(
            answer=answer.text or self._config.nothing(answer),
            sources=sources_of(self._config, answer, scope.partitions[0]),
            chunk_count=chunks_of(answer),
            confidence=answer.confidence,
            status=answer.status.value,
            citations=[citation_json(citation) for citation in answer.citations],
            searched=list(answer.searched),
            extractive=answer.extractive,
            cached=answer.cached,
            error=answer.error,
            missing_words=list(answer.lacking),
            degraded=answer.degraded,
            nearest=nearest_json(answer),
        )
