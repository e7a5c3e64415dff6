"""Draft an answer from passages, by a model or from sentences alone; nothing is verified yet."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hardwon.models.documents import Passage, PassageKind
from knowledge.documents.answering.prompts import (
    ANSWER_SCHEMA,
    MAX_REQUEST_TOKENS,
    correction_prompt,
    instructions,
    question_with_sources,
)
from knowledge.documents.answering.reranking import Reranking
from knowledge.documents.llm import ChatOptions, LanguageModel, Message, without_thinking
from knowledge.documents.models import Profile, Turn
from knowledge.documents.verification.verify import DraftClaim, Evidence

_MAX_CLAIMS = 40
_MAX_OBJECTS = 40
"""Opening braces at which a JSON object is tried: text around the answer may contain braces, too."""
_NOT_JSON = "it is not the JSON object that was asked for"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRequest:
    """A question with its evidence. `blocks` are the passages as they are shown to a model."""

    question: str
    searched: str
    profile: Profile
    evidence: Sequence[Evidence]
    blocks: Sequence[str]
    conversation: Sequence[Turn] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A drafted answer; `sure`: probability that the passages answer the question by `signs`, if computed.

    Where nothing answers, `lacking` are the question's words that nothing found holds, `nearest` what comes nearest.
    """

    claims: tuple[DraftClaim, ...] = ()
    missing: str = ""
    sure: float | None = None
    signs: Mapping[str, float] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    model_calls: int = 0
    lacking: tuple[str, ...] = ()
    nearest: DraftClaim | None = None


class Drafter(Protocol):
    """Writes drafts."""

    @property
    def model(self) -> str:
        """Name of the model or method that writes; part of the cache key of an answer."""

    @property
    def extractive(self) -> bool:
        """True if no model writes: the draft consists of sentences of the passages."""

    @property
    def reranking(self) -> Reranking | None:
        """The reranker of the question, if there is one."""

    def prompt_hash(self, profile: Profile) -> str:
        """Return a hash that changes whenever the same passages might get another answer."""

    async def widen(self, passages: Sequence[Passage], question: str) -> Sequence[Passage]:  # noqa: ARG002
        """Return the passages as the draft of an answer needs them: these, wider ones, or in another order."""
        return passages

    async def draft(self, request: DraftRequest) -> Draft:
        """Write a draft. Raises Unavailable or ChatRejected."""

    async def improve(self, request: DraftRequest, draft: Draft, faults: Sequence[str]) -> Draft | None:  # noqa: ARG002
        """Write a better draft, given the faults; None if that would change nothing."""
        return None


class WordGate(Protocol):
    """Refuses questions with words that have to stand in what answers, and stand nowhere."""

    async def refuse(self, request: DraftRequest) -> Draft | None:
        """Return a draft that names the words that nothing found holds, None where a model may be asked."""


class _Quote(BaseModel):
    model_config = ConfigDict(extra="ignore")
    source: int
    quote: str


class _Claim(BaseModel):
    model_config = ConfigDict(extra="ignore")
    text: str
    quotes: list[_Quote] = Field(default_factory=list)


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore")
    found: bool
    claims: list[Any] = Field(default_factory=list)
    missing: str | None = None


def read_reply(text: str) -> Draft:
    """Parse the reply of a model: the last JSON object of the expected form, ignoring text around it.

    A claim that cannot be parsed is a fault and does not affect the others; a reply without such an object is a fault.
    """
    replies = [reply for found in _objects(without_thinking(text)) if (reply := _as_reply(found))]
    if not replies:
        return Draft(faults=(_NOT_JSON,))
    reply = replies[-1]
    claims = [_as_claim(claim) for claim in reply.claims[:_MAX_CLAIMS]] if reply.found else []
    return Draft(
        claims=tuple(
            DraftClaim(text=claim.text, quotes=tuple((quote.source, quote.quote) for quote in claim.quotes))
            for claim in claims
            if claim is not None
        ),
        missing=" ".join((reply.missing or "").split()),
        faults=tuple(f"claim {at}: {_NOT_JSON}" for at, claim in enumerate(claims, 1) if claim is None),
    )


def _objects(text: str) -> Iterator[object]:
    """Yield the JSON objects of a text, up to a limit of opening braces; line breaks are allowed in strings."""
    decoder = json.JSONDecoder(strict=False)
    at = text.find("{")
    for _ in range(_MAX_OBJECTS):
        if at < 0:
            return
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if _is_encodable(found):
                yield found
        at = text.find("{", end)


def _is_encodable(found: object) -> bool:
    """Return whether an object can be encoded: lone surrogates can be neither stored nor sent."""
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


def _as_reply(found: object) -> _Reply | None:
    try:
        return _Reply.model_validate(found)
    except ValidationError:
        return None


def _as_claim(found: object) -> _Claim | None:
    try:
        return _Claim.model_validate(found)
    except ValidationError:
        return None


@dataclass(frozen=True, slots=True)
class ModelDrafter(Drafter):
    """Drafts with a language model, in the role of synthesis, what the same gate lets through as without a model."""

    language_model: LanguageModel
    gate: WordGate | None = None
    reranking: Reranking | None = None

    @property
    def model(self) -> str:
        """The model's name."""
        return self.language_model.model

    @property
    def extractive(self) -> bool:
        """Return False."""
        return False

    def prompt_hash(self, profile: Profile) -> str:
        """Return a hash of the prompt and its settings, without the passages, and of whether questions are refused."""
        prompt = f"{_system(profile)}\n{profile.temperature}\n{profile.max_tokens}\n{self.gate is not None}"
        return hashlib.sha256(prompt.encode()).hexdigest()

    async def widen(self, passages: Sequence[Passage], question: str) -> Sequence[Passage]:
        """Return facts that were computed, then passages in the order of the reranker."""
        found = [each for each in passages if each.kind is not PassageKind.COMPUTED]
        if self.reranking is None or not found:
            return passages
        order = await self.reranking.order(question, [f"{each.title}\n{each.text}" for each in found])
        return [*(each for each in passages if each.kind is PassageKind.COMPUTED), *(found[at] for at in order)]

    async def draft(self, request: DraftRequest) -> Draft:
        """Ask the model, unless the documents lack words of the question."""
        refused = await self.gate.refuse(request) if self.gate is not None else None
        return await self._ask_model(request, []) if refused is None else refused

    async def improve(self, request: DraftRequest, draft: Draft, faults: Sequence[str]) -> Draft | None:
        """Ask the model again, naming the faults."""
        return await self._ask_model(
            request, [Message(role="user", content=correction_prompt(faults))], calls=draft.model_calls
        )

    async def _ask_model(self, request: DraftRequest, more: Sequence[Message], *, calls: int = 0) -> Draft:
        question = question_with_sources(request.question, request.blocks, request.conversation)
        reply = await self.language_model.say(
            [
                Message(role="system", content=_system(request.profile)),
                Message(role="user", content=question),
                *more,
            ],
            ChatOptions(max_tokens=MAX_REQUEST_TOKENS, temperature=request.profile.temperature, form=ANSWER_SCHEMA),
        )
        draft = read_reply(reply.text)
        return Draft(claims=draft.claims, missing=draft.missing, faults=draft.faults, model_calls=calls + 1)


def _system(profile: Profile) -> str:
    return instructions(profile.system_prompt, max_tokens=profile.max_tokens)
