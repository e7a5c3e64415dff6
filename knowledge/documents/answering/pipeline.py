"""Answer a question: find -> gate -> draft -> verify -> render, the same for every system.

An answer holds nothing that was not found in a document that the caller may see at that moment. Texts are processed in
a thread: an answer may list a thousand lines of a log, which would block the event loop.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from uuid import uuid4

from hardwon.errors import ChatRejected, EmbedderRejected, InvalidInput, SpaceMismatch, Unavailable
from hardwon.event_log import get_logger
from hardwon.models.documents import Finding, Passage
from hardwon.validation import check_characters
from knowledge.documents.access import Scope
from knowledge.documents.answer_cache import AnswerCache, cache_key, dump_answer, load_answer
from knowledge.documents.answering.compose import compose_answer, status_without_answer
from knowledge.documents.answering.entailment import Judge
from knowledge.documents.answering.llm_draft import Draft, Drafter, DraftRequest
from knowledge.documents.answering.prompts import block
from knowledge.documents.answering.query_rewriting import Rewriter
from knowledge.documents.models import Answer, AnswerStatus, PartitionVersion, Profile, Query, Turn
from knowledge.documents.ports import Finder, PassageStore
from knowledge.documents.verification.verify import Evidence, Verified, accept_missing, add_listings, verify
from knowledge.text.redaction import redact

log = get_logger(__name__)

MAX_QUESTION = 4_000
GATE_PASSAGES = 3
LOG_COUNTING_VERSION = 3
"""Part of the cache key: raised whenever logs are counted differently, so that no older answer is reused."""

Describe = Callable[[Passage], str]
RewriterProvider = Callable[[], Awaitable[Rewriter]]


def _title_and_section(passage: Passage) -> str:
    parts = [passage.title, passage.section, f"Line: {passage.line_start}" if passage.line_start else None]
    return ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A question with its context. `k`: number of passages, None for the profile's own.

    `focus` and `conversation` describe the caller's situation. `selection` names whatever else decides what is found;
    it is part of the cache key.
    """

    question: str
    k: int | None = None
    conversation: tuple[Turn, ...] = ()
    focus: Mapping[str, str] | None = None
    selection: str = ""
    describe: Describe = _title_and_section


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundedAnswerer:
    """Answers from documents, or says that they do not answer. Stateless.

    `entailment` provides the model that checks whether claims follow from their quotes, None for no check.
    `settings` are those that decide what is found; they are part of the cache key.
    With `redaction` secrets are removed from a question before it is used or stored, as they are from documents.
    """

    quotes: PassageStore
    drafter: Callable[[Scope], Awaitable[Drafter]]
    rewriter: RewriterProvider
    cache: AnswerCache | None = None
    entailment: Callable[[], Awaitable[Judge | None]] | None = None
    redaction: bool = True
    settings: str = ""

    async def answer(self, request: Request, scope: Scope, profile: Profile, finder: Finder) -> Answer:
        """Return the answer to a question within a scope; a failure has the status `error`, and a trace id.

        Raises InvalidInput for an invalid question, conversation or focus.
        """
        check_request(request)
        began = time.perf_counter()
        question = request.question
        request = without_secrets(request) if self.redaction else request
        try:
            drafter = await self.drafter(scope)
            answer = await self._answer(request, scope, profile, finder, drafter)
        except (Unavailable, ChatRejected, EmbedderRejected, SpaceMismatch) as error:
            answer = _error_answer(request.question, str(error))
        if answer.status is AnswerStatus.ERROR:
            answer = _with_trace_id(answer)
        took = (time.perf_counter() - began) * 1000
        return replace(answer, question=question, metrics={**answer.metrics, "latency_ms": round(took, 1)})

    async def _answer(
        self, request: Request, scope: Scope, profile: Profile, finder: Finder, drafter: Drafter
    ) -> Answer:
        k = request.k or profile.k
        cache = self.cache if profile.cache_ttl else None
        # read before the search
        versions = () if cache is None else await self.quotes.versions(scope)
        key = self._key(request, versions, profile, drafter, k)
        cached = None if cache is None else await _load_cached(cache, key)
        if cached is not None:
            return cached
        search_text = await self._search_text(request, profile)
        finding = await finder.find(
            Query(
                question=search_text,
                k=k,
                original=request.question if search_text != request.question else None,
                focus=dict(request.focus or {}),
                conversation=request.conversation,
            ),
            scope,
            profile,
        )
        answer, complete = answer_without_draft(request.question, finding, profile), True
        if answer is None:
            answer, complete = await self._draft_and_verify(
                request, finding.read_as or search_text, finding, scope, profile, drafter
            )
        answer = replace(answer, extractive=drafter.extractive)
        answer = replace(answer, text=await asyncio.to_thread(profile.render or plain_text, answer))
        sure = answer.status is AnswerStatus.ANSWERED or (answer.status is AnswerStatus.NOT_FOUND and complete)
        cacheable = sure and answer.degraded is None
        if cache is not None and cacheable:
            try:
                await cache.put(key, dump_answer(answer), versions, lifetime=profile.cache_ttl)
            except Unavailable as error:  # the answer was paid for: return it even if it cannot be cached
                log.warning("answer_not_kept", error=type(error).__name__)
        return answer

    async def _search_text(self, request: Request, profile: Profile) -> str:
        """Return the text to search for; a profile with several queries begins with the user's own words."""
        if not request.conversation or profile.max_queries > 1:
            return request.question
        rewriter = await self.rewriter()
        return await rewriter.rewrite(request.question, request.conversation)

    async def _draft_and_verify(  # noqa: PLR0917
        self, request: Request, searched: str, finding: Finding, scope: Scope, profile: Profile, drafter: Drafter
    ) -> tuple[Answer, bool]:
        """Draft an answer, and keep the claims that the documents support once it is written.

        Also return whether the draft was free of faults; if not, the model may do better next time.
        """
        evidence = await self._evidence(await drafter.widen(finding.passages, searched), scope, request.describe)
        draft_request = DraftRequest(
            question=request.question,
            searched=searched,
            profile=profile,
            evidence=evidence,
            blocks=[block(at, request.describe(each.passage), each.text) for at, each in enumerate(evidence, 1)],
            conversation=request.conversation,
        )
        draft = await drafter.draft(draft_request)
        judge = await self.entailment() if self.entailment is not None and not drafter.extractive else None
        check = functools.partial(self._verify, draft_request, scope, judge)
        verified = await check(draft)
        dropped = len(verified.faults)
        if verified.faults or draft.faults:
            draft, verified = await _improve(drafter, draft_request, draft, verified, check)
        if not drafter.extractive:
            verified = await asyncio.to_thread(add_listings, verified, evidence, request.question)
        draft = replace(draft, missing=accept_missing(draft.missing, request.question))
        nearest = None if draft.nearest is None else await check(Draft(claims=(draft.nearest,)))
        answer = await asyncio.to_thread(
            compose_answer,
            request.question,
            draft,
            verified,
            evidence,
            finding,
            extractive=drafter.extractive,
            dropped=dropped,
            nearest=nearest,
        )
        failed = [each.degraded for each in (drafter.reranking, judge) if each is not None and each.degraded]
        answer = replace(answer, degraded=next(iter(failed), None))
        return answer, not (draft.faults or verified.faults)

    async def _evidence(self, passages: Sequence[Passage], scope: Scope, describe: Describe) -> list[Evidence]:
        texts = await self.quotes.visible(passages, scope)

        def read() -> list[Evidence]:
            return [
                Evidence(passage, texts[passage.passage_id], header=describe(passage))
                for passage in passages
                if passage.passage_id in texts
            ]

        return await asyncio.to_thread(read)

    async def _verify(self, draft_request: DraftRequest, scope: Scope, judge: Judge | None, draft: Draft) -> Verified:
        """Verify a draft against the documents as they are now: drafting may have taken a while."""
        if not draft.claims:
            return Verified(claims=(), spans={}, faults=())
        texts = await self.quotes.visible([each.passage for each in draft_request.evidence], scope)
        current = [
            each if texts.get(each.passage.passage_id) is not None else _empty_evidence(each.passage)
            for each in draft_request.evidence
        ]
        verified = await asyncio.to_thread(verify, draft.claims, current, draft_request.question)
        return verified if judge is None else await judge.drop_unsupported(draft_request.question, verified)

    def _key(
        self, request: Request, versions: Sequence[PartitionVersion], profile: Profile, drafter: Drafter, k: int
    ) -> str:
        """Return the cache key of the answer."""
        return cache_key(
            profile=profile.name,
            versions=versions,
            model=drafter.model,
            prompt_hash=drafter.prompt_hash(profile) + (" entailed" if self.entailment is not None else ""),
            k=k,
            question=request.question,
            conversation=request.conversation,
            selection=request.selection + str(sorted((request.focus or {}).items())),
            settings=f"{self.settings} {LOG_COUNTING_VERSION}",
        )


async def _load_cached(cache: AnswerCache, key: str) -> Answer | None:
    stored = await cache.get(key)
    if stored is None:
        return None
    try:
        return replace(load_answer(stored), cached=True)
    except ValueError:
        return None  # written by another version of hardwon


async def _improve(
    drafter: Drafter,
    draft_request: DraftRequest,
    draft: Draft,
    verified: Verified,
    check: Callable[[Draft], Awaitable[Verified]],
) -> tuple[Draft, Verified]:
    """Ask for a better draft; return the one with more verified claims."""
    try:
        second = await drafter.improve(draft_request, draft, [*draft.faults, *verified.faults])
        if second is None:
            return draft, verified
        improved = await check(second)
    except (Unavailable, ChatRejected) as error:
        if not verified.claims:
            raise
        log.warning("improving_failed", error=type(error).__name__)
        return draft, verified
    return (second, improved) if len(improved.claims) >= len(verified.claims) else (draft, verified)


def without_secrets(request: Request) -> Request:
    """Return a request with secrets redacted."""
    return replace(
        request,
        question=redact(request.question).text,
        conversation=tuple(replace(turn, content=redact(turn.content).text) for turn in request.conversation),
        focus=None if request.focus is None else {name: redact(text).text for name, text in request.focus.items()},
    )


def check_request(request: Request) -> None:
    """Raise InvalidInput for an invalid question, conversation or focus."""
    check_question(request.question)
    check_characters("conversation", "".join(turn.content for turn in request.conversation))
    check_characters("focus", "".join(f"{name}{text}" for name, text in (request.focus or {}).items()))


def check_question(question: str, field: str = "question") -> None:
    """Raise InvalidInput, naming `field`, for a question that is empty, too long, or not text."""
    if not question.strip():
        raise InvalidInput(field, "is empty")
    if len(question) > MAX_QUESTION:
        raise InvalidInput(field, f"has {len(question):,} characters, more than the {MAX_QUESTION:,} allowed")
    check_characters(field, question)


def answer_without_draft(question: str, finding: Finding, profile: Profile) -> Answer | None:
    """Return the refusal if nothing was found, or nothing relevant enough; else None."""
    status = _status(finding, profile)
    if status is None:
        return None
    return Answer(
        status=status,
        question=question,
        text="",
        found=finding.passages,
        searched=finding.searched,
        coverage=finding.coverage,
        error=finding.error,
        metrics={"retrieval_count": len(finding.passages)},
        trace=finding.trace,
    )


def _status(finding: Finding, profile: Profile) -> AnswerStatus | None:
    if finding.error is not None:
        return AnswerStatus.ERROR
    if finding.empty_scope:
        return AnswerStatus.INDEXING if finding.pending else AnswerStatus.EMPTY_SCOPE
    gated = profile.gate_mean is not None and best_mean(finding.passages) < profile.gate_mean
    return status_without_answer(finding) if gated or not finding.passages else None


def best_mean(passages: Sequence[Passage]) -> float:
    """Return the mean relevance of the best three passages, 0 if there is none."""
    best = sorted((passage.relevance for passage in passages), reverse=True)[:GATE_PASSAGES]
    return mean(best) if best else 0.0


def plain_text(answer: Answer) -> str:
    """Return the claims of an answer, one a line."""
    return "\n".join(claim.text for claim in answer.claims)


def _empty_evidence(passage: Passage) -> Evidence:
    return Evidence(replace(passage, title="", name="", section=None, function=None), "")


def _error_answer(question: str, error: str) -> Answer:
    return Answer(status=AnswerStatus.ERROR, question=question, text="", error=error)


def _with_trace_id(answer: Answer) -> Answer:
    """Return a failed answer with a trace id, and log it."""
    trace_id = uuid4().hex[:16]
    log.warning("answering_failed", error=answer.error, trace_id=trace_id)
    return replace(answer, trace=(f"trace id {trace_id}", *answer.trace))
