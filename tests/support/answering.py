"""Models for tests of answers: one that follows a script, and what an honest or a lying endpoint says."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from hardwon.errors import HardwonError
from hardwon.models.documents import DocumentId, Finding, Passage, PassageId, PassageKind
from knowledge.documents.access import Scope
from knowledge.documents.llm import ChatOptions, ChatReply, LanguageModel, Message, ToolCall
from knowledge.documents.models import Query
from knowledge.documents.ports import Searcher


@dataclass(slots=True)
class ScriptedModel(LanguageModel):
    """Says what its script says, one after the other; a callable is given the messages, an error is raised."""

    script: list[ChatReply | HardwonError | Callable[[Sequence[Message]], ChatReply]]
    asked: list[tuple[list[Message], ChatOptions]] = field(default_factory=list)

    @property
    def model(self) -> str:
        return "scripted"

    async def say(self, messages: Sequence[Message], asking: ChatOptions) -> ChatReply:
        self.asked.append((list(messages), asking))
        step = self.script.pop(0) if self.script else ChatReply(text="done")
        if isinstance(step, HardwonError):
            raise step
        return step if isinstance(step, ChatReply) else step(messages)

    async def aclose(self) -> None:
        return None


@dataclass(slots=True)
class ListedSearcher(Searcher):
    """Finds for each query what is listed; an error is raised."""

    found: list[Sequence[Passage] | HardwonError]
    asked: list[Query] = field(default_factory=list)

    async def search(self, query: Query, scope: Scope) -> Finding:
        self.asked.append(query)
        step = self.found.pop(0)
        if isinstance(step, HardwonError):
            raise step
        return Finding(passages=tuple(step), searched=(query.question,))


def passage(text: str, *, relevance: float = 0.8, title: str = "Handbook", **known: Any) -> Passage:
    return Passage(
        passage_id=PassageId(uuid4()),
        kind=known.pop("kind", PassageKind.CHUNK),
        document_id=DocumentId(known.pop("document_id", UUID(int=1))),
        partition=known.pop("partition", "global_kb"),
        text=text,
        title=title,
        name=known.pop("name", "handbook.md"),
        uri=known.pop("uri", "handbook.md"),
        relevance=relevance,
        score=relevance,
        **known,
    )


def call(name: str, call_id: str = "1", **arguments: Any) -> ToolCall:
    return ToolCall(call_id=call_id, name=name, arguments=json.dumps(arguments))


def sources_in(text: str) -> list[str]:
    """Return the texts of the sources in a synthesis request, without their headers."""
    return [each["text"].partition("\n")[2].rstrip("\n") for each in json.loads(text)["sources"]]


def answered(*claims: tuple[str, Sequence[tuple[int, str]]], missing: str = "") -> str:
    """Return what a model writes in the form that is asked for."""
    told = [
        {"text": text, "quotes": [{"source": source, "quote": quote} for source, quote in quotes]}
        for text, quotes in claims
    ]
    return json.dumps({"found": bool(claims), "claims": told, "missing": missing})


def quotes_line_with(word: str) -> Callable[[str, str], str]:
    """Return an honest endpoint: it says and quotes the first line of a source that holds a word."""

    def says(_: str, text: str) -> str:
        for number, source in enumerate(sources_in(text), 1):
            for line in source.splitlines():
                if word in line:
                    return answered((line, [(number, line)]))
        return answered(missing=f"Nothing says anything of {word}.")

    return says
