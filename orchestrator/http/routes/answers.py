"""The routes that answer from documents, and the route of the agent that uses them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Literal

from fastapi import Depends, FastAPI
from pydantic import AfterValidator, Field, StrictInt, StrictStr
from pydantic_core import PydanticCustomError

from hardwon.client.transport import MAX_BODY_BYTES
from hardwon.errors import InvalidInput
from hardwon.models.answers import KBQueryResponse, SelectionResponse, ToolAnswer
from hardwon.models.log_query import LogQuery
from orchestrator.http.current_principal import DocumentPrincipal, Operator
from orchestrator.http.operation_route import CallerKnowledge, performs
from orchestrator.http.routes.kb import parse_scope
from orchestrator.qa.agent import Conversation, Entry, MainAgent, Strategy, intent_of
from orchestrator.qa.document_selection import DocumentSelection
from orchestrator.qa.documentation import DocumentationQASubagent, DocumentationRequest, DocumentationResponse
from orchestrator.qa.kb_query import KnowledgeBaseQuery
from orchestrator.qa.planner import DocumentationTool, PlannerResults
from orchestrator.qa.telemetry import Telemetry
from orchestrator.qa.wrappers import document_tools, tool_of

_MAX_TURNS = 50
_MAX_CONVERSATION_BYTES = MAX_BODY_BYTES * 3 // 4
"""Longest conversation of a reply: it must fit into the next request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBody:
    """An earlier turn of a conversation."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "ignore"}
    role: str
    content: str

    def as_dict(self) -> dict[str, str]:
        """Return the turn as tools take it."""
        return {"role": self.role, "content": self.content}


def _check_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PydanticCustomError("text", "holds a lone surrogate, which is not Unicode text") from None
    return text


Text = Annotated[str, AfterValidator(_check_text)]
"""Text that is returned in the answer, which a lone surrogate cannot be."""
Turns = Annotated[list[TurnBody], Field(max_length=_MAX_TURNS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class KBQueryBody:
    """A question to the strict knowledge base; the global one unless another is named."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    query: str
    kb: str = "global"
    scope: str | None = None
    conversation: Turns | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentationContextBody:
    """Earlier turns, and the focus of the planner."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "ignore"}
    conversation_tail: Turns | None = None
    focus: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerPayloadBody:
    """The subagent's step, and a key that the planner gets back unchanged."""

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
    context: DocumentationContextBody | None = None
    planner_payload: PlannerPayloadBody | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskBody:
    """A question, with the conversation before it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    question: str
    conversation: Turns | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskBaseBody(AskBody):
    """A question to one knowledge base; `k`: the number of passages to answer from.

    `logs`: the lines of logs to count or list; without it the query is read from the question.
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
    """An earlier turn, or the answer of a tool with the names of its sources."""

    role: Text
    content: Text
    tool: Text | None = None
    sources: list[Text] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBody:
    """A message to the agent, with the conversation that its last reply returned.

    `strategy`: the part of the conversation that the agent sees; all of it by default.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    message: str
    conversation: Annotated[list[AgentTurn], Field(max_length=_MAX_TURNS)] | None = None
    strategy: Strategy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BestEffort:
    """A provisional answer that an operator may send while a question is looked into."""

    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReply:
    """The agent's reply; `intent` is chat_only where no documents were needed, `tools` names those that were used.

    `conversation`: the latest turns, as many as fit into the next request.
    """

    reply: str
    intent: str
    tools: list[str]
    conversation: list[AgentTurn]


async def _telemetry(knowledge: CallerKnowledge) -> Telemetry:
    return Telemetry(knowledge.answering.journal, knowledge.answering.clock)


AnswerTelemetry = Annotated[Telemetry, Depends(_telemetry)]


def add_answers(app: FastAPI) -> None:
    """Add the routes of answers to an app."""
    _add_kb_query(app)
    _add_documentation_qa(app)
    _add_ask(app)
    _add_agent(app)


def _add_kb_query(app: FastAPI) -> None:
    @app.post("/api/kb/query", tags=["answers"])
    @performs("answering.ask")
    async def query_knowledge_base(
        body: KBQueryBody, knowledge: CallerKnowledge, principal: DocumentPrincipal, telemetry: AnswerTelemetry
    ) -> KBQueryResponse:
        """Answer from a knowledge base with the documents cited, or with the fixed sentence that it has no answer."""
        return await KnowledgeBaseQuery(knowledge.answering, telemetry).query_knowledge_base(
            body.query, principal, kb=body.kb, scope_id=body.scope, conversation=_as_dicts(body.conversation)
        )


def _add_documentation_qa(app: FastAPI) -> None:
    results = PlannerResults()

    @app.post("/subagents/documentation-qa", tags=["answers"])
    @performs("answering.ask")
    async def documentation_qa(
        body: DocumentationBody, knowledge: CallerKnowledge, principal: DocumentPrincipal, telemetry: AnswerTelemetry
    ) -> DocumentationResponse:
        """Do a planner's documentation step; a repeated result key and question of a session is answered once."""
        context, payload = body.context or DocumentationContextBody(), body.planner_payload or PlannerPayloadBody()
        return await results.answer(
            DocumentationQASubagent(knowledge.answering, telemetry),
            DocumentationRequest(
                question=body.question,
                session_id=body.session_id,
                step_id=body.step_id,
                conversation_tail=_as_dicts(context.conversation_tail),
                focus=context.focus or {},
                result_key=payload.result_key,
            ),
            principal,
        )

    @app.post("/subagents/documentation-qa:best-effort", tags=["answers"])
    @performs("documents.manage")
    async def documentation_best_effort(
        body: QuestionBody, knowledge: CallerKnowledge, principal: Operator, telemetry: AnswerTelemetry
    ) -> BestEffort:
        """Return a provisional answer for an operator to send, with its caveats."""
        subagent = DocumentationQASubagent(knowledge.answering, telemetry)
        return BestEffort(answer=await subagent.best_effort(body.question, principal))


def _add_ask(app: FastAPI) -> None:
    @app.post("/api/ask", tags=["answers"])
    @performs("answering.ask")
    async def ask_documents(
        body: AskBody, knowledge: CallerKnowledge, principal: DocumentPrincipal, telemetry: AnswerTelemetry
    ) -> SelectionResponse:
        """Answer from all documents that the caller may read; the model picks which to search."""
        selection = DocumentSelection(knowledge.answering, telemetry, knowledge.settings)
        return await selection.ask(body.question, principal, _as_dicts(body.conversation))

    @app.post("/api/kb/{kb}/{scope}/ask", tags=["answers"])
    @performs("answering.ask")
    async def ask_knowledge_base(
        kb: str, scope: str, body: AskBaseBody, knowledge: CallerKnowledge, principal: DocumentPrincipal
    ) -> ToolAnswer:
        """Answer from one knowledge base, in its own form."""
        tool = tool_of(kb)
        scope_id = parse_scope(scope)
        tool.config.base.partition(scope_id)  # else the tool's own error names the arguments that a model sends
        return await tool(knowledge.answering, principal).ask(
            scope_id, body.question, body.k, _as_dicts(body.conversation), logs=body.logs
        )


def _add_agent(app: FastAPI) -> None:
    @app.post("/api/agent", tags=["answers"])
    @performs("answering.ask")
    async def ask_agent(
        body: MessageBody, knowledge: CallerKnowledge, principal: DocumentPrincipal, telemetry: AnswerTelemetry
    ) -> AgentReply:
        """Reply as the main agent, with the caller's document tools."""
        model = await knowledge.answering.main()
        if model is None:
            raise InvalidInput(
                "HARDWON_MAIN_MODEL", "is not set, so there is no agent: set it, or ask a knowledge base"
            )
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
        used = [entry.tool for entry in conversation.entries[before:] if entry.tool]
        return AgentReply(reply=reply, intent=intent, tools=used, conversation=_latest_turns(conversation.entries))


def _latest_turns(entries: Sequence[Entry]) -> list[AgentTurn]:
    """Return the latest turns that fit into the next request together; a turn that is too long is left out."""
    turns: list[AgentTurn] = []
    left = _MAX_CONVERSATION_BYTES
    for entry in reversed(entries[-_MAX_TURNS:]):
        turn = AgentTurn(role=entry.role, content=entry.text, tool=entry.tool, sources=list(entry.sources))
        size = len(json.dumps(asdict(turn)))
        if size <= left:
            turns.append(turn)
            left -= size
    return turns[::-1]


def _as_dicts(turns: list[TurnBody] | None) -> list[dict[str, str]]:
    return [turn.as_dict() for turn in turns or ()]
