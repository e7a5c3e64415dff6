"""From passages to the draft of an answer, before anything of it is checked; by a model, or by sentences alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from knowledge.documents.language_model import Asking, LanguageModel, Message, without_thinking
from knowledge.documents.models import Profile, Turn
from knowledge.documents.prompts import (
    ANSWER_FORM,
    MAX_REQUEST_TOKENS,
    corrected,
    instructions,
    question_with_sources,
)
from knowledge.documents.verifying import Evidence, Written

_MOST_CLAIMS = 40
_MOST_OPENED = 40
"""Braces from which on an object is looked for: of what a model says around its answer, some may hold none."""
_NOT_READ = "it is not the JSON object that was asked for"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question and what it may be answered from. `blocks` are the passages as a model is shown them."""

    question: str
    searched: str
    profile: Profile
    evidence: Sequence[Evidence]
    blocks: Sequence[str]
    conversation: Sequence[Turn] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An answer as it was written; `sure`: how likely the passages answer the question by `signs`, where weighed."""

    written: tuple[Written, ...] = ()
    missing: str = ""
    sure: float | None = None
    signs: Mapping[str, float] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    model_calls: int = 0


class Drafter(Protocol):
    """Writes drafts."""

    @property
    def model(self) -> str:
        """What writes: its name is part of the key that an answer is kept under."""
        ...

    @property
    def extractive(self) -> bool:
        """Whether no model writes: the draft is made of sentences of the passages."""
        ...

    def prompt_hash(self, profile: Profile) -> str:
        """Return what changes whenever the same passages might be answered otherwise."""
        ...

    async def draft(self, asked: Asked) -> Draft:
        """Write a draft. Raises Unavailable or ChatRejected."""
        ...

    async def improve(self, asked: Asked, draft: Draft, faults: Sequence[str]) -> Draft | None:
        """Write it once more, told what was wrong; None where that would change nothing."""
        ...


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
    """Return what a model wrote: the last object of the form in it, whatever stands around that.

    A claim that cannot be read is a fault, and leaves the others; a reply without the form is nothing but a fault.
    """
    replies = [reply for found in _objects(without_thinking(text)) if (reply := _as_reply(found))]
    if not replies:
        return Draft(faults=(_NOT_READ,))
    reply = replies[-1]
    claims = [_as_claim(claim) for claim in reply.claims[:_MOST_CLAIMS]] if reply.found else []
    return Draft(
        written=tuple(
            Written(text=claim.text, quotes=tuple((quote.source, quote.quote) for quote in claim.quotes))
            for claim in claims
            if claim is not None
        ),
        missing=" ".join((reply.missing or "").split()),
        faults=tuple(f"claim {at}: {_NOT_READ}" for at, claim in enumerate(claims, 1) if claim is None),
    )


def _objects(text: str) -> Iterator[object]:
    """Yield the JSON objects of a text, as far as it does not open too many; line breaks may stand in their strings."""
    decoder = json.JSONDecoder(strict=False)
    at = text.find("{")
    for _ in range(_MOST_OPENED):
        if at < 0:
            return
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if _can_be_told(found):
                yield found
        at = text.find("{", end)


def _can_be_told(found: object) -> bool:
    """Return whether all texts of an object are such: half of a pair can be neither stored nor sent."""
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
    """Has a language model write, in the role of synthesis."""

    language_model: LanguageModel

    @property
    def model(self) -> str:
        """The model's name."""
        return self.language_model.model

    @property
    def extractive(self) -> bool:
        """Return False."""
        return False

    def prompt_hash(self, profile: Profile) -> str:
        """Return a hash of all a model is told beside the passages."""
        told = f"{_system(profile)}\n{profile.temperature}\n{profile.max_tokens}"
        return hashlib.sha256(told.encode()).hexdigest()

    async def draft(self, asked: Asked) -> Draft:
        """Ask the model."""
        return await self._written(asked, [])

    async def improve(self, asked: Asked, draft: Draft, faults: Sequence[str]) -> Draft | None:
        """Ask the model again, naming the faults."""
        return await self._written(asked, [Message(role="user", content=corrected(faults))], calls=draft.model_calls)

    async def _written(self, asked: Asked, more: Sequence[Message], *, calls: int = 0) -> Draft:
        question = question_with_sources(asked.question, asked.blocks, asked.conversation)
        said = await self.language_model.say(
            [
                Message(role="system", content=_system(asked.profile)),
                Message(role="user", content=question),
                *more,
            ],
            Asking(max_tokens=MAX_REQUEST_TOKENS, temperature=asked.profile.temperature, form=ANSWER_FORM),
        )
        read = read_reply(said.text)
        return Draft(written=read.written, missing=read.missing, faults=read.faults, model_calls=calls + 1)


def _system(profile: Profile) -> str:
    return instructions(profile.system_prompt, max_tokens=profile.max_tokens)
