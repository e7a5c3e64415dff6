"""The routes of answers: of the systems that answer from documents, and of the agent that asks them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Literal

from fastapi import Depends, FastAPI
from pydantic import AfterValidator, Field, StrictInt, StrictStr
from pydantic_core import PydanticCustomError

from knowledge.documents.log_query import LogQuery
from knowledge.errors import InvalidInput
from orchestrator.client.calls import MAX_BODY_BYTES
from orchestrator.http.kb import scope_in
from orchestrator.http.opened import Open, performs
from orchestrator.http.principal import Asking, Operator
from orchestrator.tools.agent import Conversation, Entry, MainAgent, Strategy, intent_of
from orchestrator.tools.document_qa_tool import ToolAnswer
from orchestrator.tools.documentation import (
    DocumentationQASubagent,
    DocumentationRequest,
    DocumentationResponse,
)
from orchestrator.tools.kb_query import KBQueryResponse, KnowledgeBaseQuery
from orchestrator.tools.planner import DocumentationTool, PlannerResults
from orchestrator.tools.selection import DocumentSelection, SelectionResponse
from orchestrator.tools.telemetry import Telemetry
from orchestrator.tools.wrappers import document_tools, tool_of

_MOST_TURNS = 50
_TALK_BYTES = MAX_BODY_BYTES * 3 // 4
"""What the turns that a reply comes with may take in the next request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBody:
    """Something said before."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "ignore"}
    role: str
    content: str

    def as_dict(self) -> dict[str, str]:
        """Return it as tools take it."""
        return {"role": self.role, "content": self.content}


def _as_text(told: str) -> str:
    try:
        told.encode()
    except UnicodeEncodeError:
        raise PydanticCustomError("text", "holds a lone surrogate, which is no Unicode text") from None
    return told


Text = Annotated[str, AfterValidator(_as_text)]
"""What goes back in the answer as it came, which a lone surrogate cannot."""
Turns = Annotated[list[TurnBody], Field(max_length=_MOST_TURNS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class KBQueryBody:
    """A question to the strict knowledge base; the global one unless another is named."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    query: str
    kb: str = "global"
    scope: str | None = None
    conversation: Turns | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextBody:
    """What was said before, and what the planner points at."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "ignore"}
    conversation_tail: Turns | None = None
    focus: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerPayloadBody:
    """Which step it is, of the subagent's own; and what the planner gets back as it gave it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "ignore"}
    tool_name: Literal["documentation_qa"] | None = None
    lookup_type: Literal["documentation_lookup"] | None = None
    result_key: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentationBody:
    """A planner's step."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "ignore"}
    question: str
    session_id: StrictInt | StrictStr | None = None
    step_id: Text | None = None
    context: ContextBody | None = None
    planner_payload: PlannerPayloadBody | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskBody:
    """A question, with what was said before."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    question: str
    conversation: Turns | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskBaseBody(AskBody):
    """The same of one knowledge base; `k`: from how many passages it is answered.

    `logs`: which lines of logs are to be counted or listed, exactly; without it that is read from the question.
    """

    k: Annotated[int, Field(ge=1, le=50, strict=True)] = 5
    logs: LogQuery | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionBody:
    """A question by itself."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    question: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTurn(TurnBody):
    """Something said before, or what a tool answered then, with the names of its sources."""

    role: Text
    content: Text
    tool: Text | None = None
    sources: list[Text] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBody:
    """A message to the agent, with the conversation that its reply before came with.

    `strategy`: what of it the agent is told; all, unless given.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    message: str
    conversation: Annotated[list[AgentTurn], Field(max_length=_MOST_TURNS)] | None = None
    strategy: Strategy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BestEffort:
    """What an operator may send while a question is looked into."""

    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReply:
    """What the agent says; `intent` is chat_only where no document was asked, `tools` those that were.

    `conversation`: all of it so far, as many of its latest turns as can be sent along with the next message.
    """

    reply: str
    intent: str
    tools: list[str]
    conversation: list[AgentTurn]


async def _telemetry(knowledge: Open) -> Telemetry:
    return Telemetry(knowledge.answering.journal, knowledge.answering.clock)


Telling = Annotated[Telemetry, Depends(_telemetry)]


def add_answers(app: FastAPI) -> None:
    """Add the routes of answers to an app."""
    _add_systems(app)
    _add_agent(app)


def _add_systems(app: FastAPI) -> None:
    results = PlannerResults()

    @app.post("/api/kb/query", tags=["answers"])
    @performs("answering.ask")
    async def query_knowledge_base(
        body: KBQueryBody, knowledge: Open, principal: Asking, telemetry: Telling
    ) -> KBQueryResponse:
        """Answer from a knowledge base with the documents cited, or with the one sentence that says it does not."""
        return await KnowledgeBaseQuery(knowledge.answering, telemetry).query_knowledge_base(
            body.query, principal, kb=body.kb, scope_id=body.scope, conversation=_said(body.conversation)
        )

    @app.post("/subagents/documentation-qa", tags=["answers"])
    @performs("answering.ask")
    async def documentation_qa(
        body: DocumentationBody, knowledge: Open, principal: Asking, telemetry: Telling
    ) -> DocumentationResponse:
        """Do a planner's documentation step; the same result key and question in a session is answered once."""
        context, payload = body.context or ContextBody(), body.planner_payload or PlannerPayloadBody()
        return await results.answer(
            DocumentationQASubagent(knowledge.answering, telemetry),
            DocumentationRequest(
                question=body.question,
                session_id=body.session_id,
                step_id=body.step_id,
                conversation_tail=_said(context.conversation_tail),
                focus=context.focus or {},
                result_key=payload.result_key,
            ),
            principal,
        )

    @app.post("/subagents/documentation-qa:best-effort", tags=["answers"])
    @performs("documents.manage")
    async def documentation_best_effort(
        body: QuestionBody, knowledge: Open, principal: Operator, telemetry: Telling
    ) -> BestEffort:
        """Return what an operator may send meanwhile, with its caveats."""
        subagent = DocumentationQASubagent(knowledge.answering, telemetry)
        return BestEffort(answer=await subagent.best_effort(body.question, principal))

    @app.post("/api/ask", tags=["answers"])
    @performs("answering.ask")
    async def ask_documents(body: AskBody, knowledge: Open, principal: Asking, telemetry: Telling) -> SelectionResponse:
        """Answer from all documents that may be read; the model picks those to look into."""
        selection = DocumentSelection(knowledge.answering, telemetry, knowledge.settings)
        return await selection.ask(body.question, principal, _said(body.conversation))

    @app.post("/api/kb/{kb}/{scope}/ask", tags=["answers"])
    @performs("answering.ask")
    async def ask_knowledge_base(
        kb: str, scope: str, body: AskBaseBody, knowledge: Open, principal: Asking
    ) -> ToolAnswer:
        """Answer from one knowledge base, in its own form."""
        tool = tool_of(kb)
        scope_id = scope_in(scope)
        tool.config.base.partition(scope_id)  # a tool says what is missing to a model, in the words of its arguments
        asked = tool(knowledge.answering, principal)
        return await asked.ask(scope_id, body.question, body.k, _said(body.conversation), logs=body.logs)


def _add_agent(app: FastAPI) -> None:
    @app.post("/api/agent", tags=["answers"])
    @performs("answering.ask")
    async def ask_agent(body: MessageBody, knowledge: Open, principal: Asking, telemetry: Telling) -> AgentReply:
        """Have the main agent reply, with the document tools of whoever asks."""
        model = await knowledge.answering.main()
        if model is None:
            raise InvalidInput("HARDWON_MAIN_MODEL", "names no model, so there is no agent: set it, or ask a base")
        conversation = Conversation()
        for turn in body.conversation or ():
            if turn.tool:
                conversation.add_tool_answer(turn.tool, turn.content, turn.sources or ())
            else:
                conversation.say("assistant" if turn.role == "assistant" else "user", turn.content)
        before = len(conversation.entries)
        intent = intent_of(body.message)
        tools = document_tools(knowledge.answering, principal) if intent == "kb_query" else []
        planned = knowledge.settings.enable_documentation_qa_subagent and intent == "kb_query"
        subagent = DocumentationQASubagent(knowledge.answering, telemetry)
        documentation = DocumentationTool(subagent, principal) if planned else None
        agent = MainAgent(model, tools, documentation)
        reply = await agent.reply(body.message, conversation, strategy=body.strategy)
        asked = [entry.tool for entry in conversation.entries[before:] if entry.tool]
        return AgentReply(reply=reply, intent=intent, tools=asked, conversation=_latest(conversation.entries))


def _latest(entries: Sequence[Entry]) -> list[AgentTurn]:
    """Return the latest turns that fit into the next request together; one that is too long is passed over."""
    turns: list[AgentTurn] = []
    left = _TALK_BYTES
    for entry in reversed(entries[-_MOST_TURNS:]):
        turn = AgentTurn(role=entry.role, content=entry.text, tool=entry.tool, sources=list(entry.sources))
        size = len(json.dumps(asdict(turn)))
        if size <= left:
            turns.append(turn)
            left -= size
    return turns[::-1]


def _said(turns: list[TurnBody] | None) -> list[dict[str, str]]:
    return [turn.as_dict() for turn in turns or ()]
