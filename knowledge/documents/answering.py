"""find -> gate -> draft -> verify -> render: the one way in which every system answers.

Nothing is in an answer that was not found in a document which its asker may see at that moment. What reads texts does
so in a thread: an answer may list a thousand lines of a log, and others wait for the event loop meanwhile.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from uuid import uuid4

from knowledge.characters import check_characters
from knowledge.documents.access import Scope
from knowledge.documents.answer_cache import AnswerCache, key_of, packed, unpacked
from knowledge.documents.composing import answered, unfound
from knowledge.documents.drafting import Asked, Draft, Drafter
from knowledge.documents.entailing import Entailment
from knowledge.documents.models import (
    Answer,
    AnswerStatus,
    Finding,
    PartitionVersion,
    Passage,
    Profile,
    Query,
    Turn,
)
from knowledge.documents.ports import Finder, QuoteSource
from knowledge.documents.prompts import block
from knowledge.documents.rewriting import Rewriter
from knowledge.documents.verifying import Evidence, Verified, unanswered, verify, with_listings
from knowledge.errors import ChatRejected, EmbedderRejected, InvalidInput, SpaceMismatch, Unavailable
from knowledge.logs import get_logger
from knowledge.redaction import redact

log = get_logger(__name__)

MAX_QUESTION = 4_000
GATE_PASSAGES = 3
COUNTING = 3
"""Changes whenever logs are counted in another way, so that no answer from before is reused, whoever wrote it."""

Describe = Callable[[Passage], str]
Rewriters = Callable[[], Awaitable[Rewriter]]


def _title_and_section(passage: Passage) -> str:
    parts = [passage.title, passage.section, f"Line: {passage.line_start}" if passage.line_start else None]
    return ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A question with what it is asked under. `k`: passages, the profile's own unless given.

    `focus` and `conversation` are what the asker tells of the situation. `selection` stands for what else decides what
    is found, so that answers are kept apart by it.
    """

    question: str
    k: int | None = None
    conversation: tuple[Turn, ...] = ()
    focus: Mapping[str, str] | None = None
    selection: str = ""
    describe: Describe = _title_and_section


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundedAnswerer:
    """Answers from documents, or says that they do not answer. Holds no state: two of them answer alike.

    `entailment` gives what is asked whether claims follow from their quotes, None where nothing is.
    `settings` are those that decide what is found: answers are kept apart by them.
    With `redaction` it works on a question without its secrets, as the documents are, and keeps no other.
    """

    quotes: QuoteSource
    drafter: Callable[[Scope], Awaitable[Drafter]]
    rewriter: Rewriters
    cache: AnswerCache | None = None
    entailment: Callable[[], Awaitable[Entailment | None]] | None = None
    redaction: bool = True
    settings: str = ""

    async def answer(self, request: Request, scope: Scope, profile: Profile, finder: Finder) -> Answer:
        """Return the answer to a question within a scope; what fails comes as the status `error`, with a trace id.

        Raises InvalidInput for a question that is none, or asked under what is no text.
        """
        check_request(request)
        began = time.perf_counter()
        asked = request.question
        request = without_secrets(request) if self.redaction else request
        try:
            drafter = await self.drafter(scope)
            answer = await self._answer(request, scope, profile, finder, drafter)
        except (Unavailable, ChatRejected, EmbedderRejected, SpaceMismatch) as error:
            answer = _failed(request.question, str(error))
        if answer.status is AnswerStatus.ERROR:
            answer = _traced(answer)
        took = (time.perf_counter() - began) * 1000
        return replace(answer, question=asked, metrics={**answer.metrics, "latency_ms": round(took, 1)})

    async def _answer(
        self, request: Request, scope: Scope, profile: Profile, finder: Finder, drafter: Drafter
    ) -> Answer:
        k = request.k or profile.k
        cache = self.cache if profile.cache_ttl else None
        # as they are before anything is looked for
        versions = () if cache is None else await self.quotes.versions(scope)
        key = self._key(request, versions, profile, drafter, k)
        known = None if cache is None else await _known(cache, key)
        if known is not None:
            return known
        searched = await self._searched(request, profile)
        finding = await finder.find(
            Query(
                question=searched,
                k=k,
                asked=request.question if searched != request.question else None,
                focus=dict(request.focus or {}),
                conversation=request.conversation,
            ),
            scope,
            profile,
        )
        answer, read = refused(request.question, finding, profile), True
        if answer is None:
            answer, read = await self._written(request, finding.read_as or searched, finding, scope, profile, drafter)
        answer = replace(answer, extractive=drafter.extractive)
        answer = replace(answer, text=await asyncio.to_thread(profile.render or plain_text, answer))
        lasts = answer.status is AnswerStatus.ANSWERED or (answer.status is AnswerStatus.NOT_FOUND and read)
        if cache is not None and lasts:
            try:
                await cache.put(key, packed(answer), versions, lifetime=profile.cache_ttl)
            except Unavailable as error:  # it was paid for, and is given whether it is kept or not
                log.warning("answer_not_kept", error=type(error).__name__)
        return answer

    async def _searched(self, request: Request, profile: Profile) -> str:
        """Return what to search for; a profile with more queries than one begins with the user's own words."""
        if not request.conversation or profile.max_queries > 1:
            return request.question
        rewriter = await self.rewriter()
        return await rewriter.rewritten(request.question, request.conversation)

    async def _written(  # noqa: PLR0917
        self, request: Request, searched: str, finding: Finding, scope: Scope, profile: Profile, drafter: Drafter
    ) -> tuple[Answer, bool]:
        """Have an answer drafted, and keep of it what stands in documents as they are when it is there.

        With it comes whether all that was written could be read and stands: the same model may do better tomorrow.
        """
        shown = await self._evidence(finding.passages, scope, request.describe)
        asked = Asked(
            question=request.question,
            searched=searched,
            profile=profile,
            evidence=shown,
            blocks=[block(at, request.describe(each.passage), each.text) for at, each in enumerate(shown, 1)],
            conversation=request.conversation,
        )
        draft = await drafter.draft(asked)
        judge = await self.entailment() if self.entailment is not None and not drafter.extractive else None
        check = functools.partial(self._checked, asked, scope, judge)
        found = await check(draft)
        dropped = len(found.faults)
        if found.faults or draft.faults:
            draft, found = await _improved(drafter, asked, draft, found, check)
        if not drafter.extractive:
            found = await asyncio.to_thread(with_listings, found, shown, request.question)
        draft = replace(draft, missing=unanswered(draft.missing, request.question))
        answer = await asyncio.to_thread(
            answered, request.question, draft, found, shown, finding, extractive=drafter.extractive, dropped=dropped
        )
        return answer, not (draft.faults or found.faults)

    async def _evidence(self, passages: Sequence[Passage], scope: Scope, describe: Describe) -> list[Evidence]:
        texts = await self.quotes.visible(passages, scope)

        def read() -> list[Evidence]:
            return [
                Evidence(passage, texts[passage.passage_id], header=describe(passage))
                for passage in passages
                if passage.passage_id in texts
            ]

        return await asyncio.to_thread(read)

    async def _checked(self, asked: Asked, scope: Scope, judge: Entailment | None, draft: Draft) -> Verified:
        """Hold a draft against the documents as they are now: writing it may have taken a while."""
        if not draft.written:
            return Verified(claims=(), spans={}, faults=())
        texts = await self.quotes.visible([each.passage for each in asked.evidence], scope)
        current = [
            each if texts.get(each.passage.passage_id) is not None else _gone(each.passage) for each in asked.evidence
        ]
        found = await asyncio.to_thread(verify, draft.written, current, asked.question)
        return found if judge is None else await judge.kept(asked.question, found)

    def _key(
        self, request: Request, versions: Sequence[PartitionVersion], profile: Profile, drafter: Drafter, k: int
    ) -> str:
        """Return the key to keep the answer under."""
        return key_of(
            profile=profile.name,
            versions=versions,
            model=drafter.model,
            prompt_hash=drafter.prompt_hash(profile) + (" entailed" if self.entailment is not None else ""),
            k=k,
            question=request.question,
            conversation=request.conversation,
            selection=request.selection + str(sorted((request.focus or {}).items())),
            settings=f"{self.settings} {COUNTING}",
        )


async def _known(cache: AnswerCache, key: str) -> Answer | None:
    kept = await cache.get(key)
    if kept is None:
        return None
    try:
        return replace(unpacked(kept), cached=True)
    except ValueError:
        return None  # another version of hardwon kept it


async def _improved(
    drafter: Drafter, asked: Asked, draft: Draft, found: Verified, check: Callable[[Draft], Awaitable[Verified]]
) -> tuple[Draft, Verified]:
    """Have a draft written once more; what stands of it stands whether that goes well or not."""
    try:
        again = await drafter.improve(asked, draft, [*draft.faults, *found.faults])
        if again is None:
            return draft, found
        better = await check(again)
    except (Unavailable, ChatRejected) as error:
        if not found.claims:
            raise
        log.warning("improving_failed", error=type(error).__name__)
        return draft, found
    return (again, better) if len(better.claims) >= len(found.claims) else (draft, found)


def without_secrets(request: Request) -> Request:
    """Return a question redacted, with what it is asked under."""
    return replace(
        request,
        question=redact(request.question).text,
        conversation=tuple(replace(turn, content=redact(turn.content).text) for turn in request.conversation),
        focus=None if request.focus is None else {name: redact(text).text for name, text in request.focus.items()},
    )


def check_request(request: Request) -> None:
    """Raise InvalidInput unless a question is one, asked under what is text."""
    check_question(request.question)
    check_characters("conversation", "".join(turn.content for turn in request.conversation))
    check_characters("focus", "".join(f"{name}{text}" for name, text in (request.focus or {}).items()))


def check_question(question: str, field: str = "question") -> None:
    """Raise InvalidInput, by the name that the asker has for it, unless a question can be one."""
    if not question.strip():
        raise InvalidInput(field, "is empty")
    if len(question) > MAX_QUESTION:
        raise InvalidInput(field, f"has {len(question):,} characters, more than the {MAX_QUESTION:,} allowed")
    check_characters(field, question)


def refused(question: str, finding: Finding, profile: Profile) -> Answer | None:
    """Return the answer where nothing needs to be written: nothing is there, or nothing near enough; else None."""
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
    return unfound(finding) if gated or not finding.passages else None


def best_mean(passages: Sequence[Passage]) -> float:
    """Return the mean relevance of the best three passages, 0 where there is none."""
    best = sorted((passage.relevance for passage in passages), reverse=True)[:GATE_PASSAGES]
    return mean(best) if best else 0.0


def plain_text(answer: Answer) -> str:
    """Return the claims of an answer, one a line."""
    return "\n".join(claim.text for claim in answer.claims)


def _gone(passage: Passage) -> Evidence:
    return Evidence(replace(passage, title="", name="", section=None, function=None), "")


def _failed(question: str, error: str) -> Answer:
    return Answer(status=AnswerStatus.ERROR, question=question, text="", error=error)


def _traced(answer: Answer) -> Answer:
    """Return a failed answer with an id under which the log has it too."""
    trace_id = uuid4().hex[:16]
    log.warning("answering_failed", error=answer.error, trace_id=trace_id)
    return replace(answer, trace=(f"trace id {trace_id}", *answer.trace))
