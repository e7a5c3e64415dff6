"""From passages to the draft of an answer, before anything of it is checked; by a model, or by sentences alone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from knowledge.documents.language_model import Asking, LanguageModel, Message
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
    claims: list[_Claim] = Field(default_factory=list)
    missing: str | None = None


def read_reply(text: str) -> Draft:
    """Return what a model wrote; one that cannot be read is a draft with a fault and nothing else."""
    text = text.rpartition("</think>")[2]  # models that think aloud do so before
    start, end = text.find("{"), text.rfind("}")
    try:
        reply = _Reply.model_validate_json(text[start : end + 1])
    except ValidationError:
        return Draft(faults=(_NOT_READ,))
    claims = reply.claims[:_MOST_CLAIMS] if reply.found else []
    return Draft(
        written=tuple(
            Written(text=claim.text, quotes=tuple((quote.source, quote.quote) for quote in claim.quotes))
            for claim in claims
        ),
        missing=" ".join((reply.missing or "").split()),
    )


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
