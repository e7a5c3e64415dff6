"""The document tools of an agent: one for each kind of knowledge base, each bound to a principal.

Access is decided here, before the core, by the principal of the session: never by an argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from hardwon.errors import InvalidInput
from hardwon.event_log import get_logger
from hardwon.models.answers import ToolAnswer
from hardwon.models.log_query import LogQuery
from knowledge.documents.access import Principal, Scope
from knowledge.documents.answer_service import Answering
from knowledge.documents.answering.profiles import (
    CaseEvidenceConfig,
    GlobalKBConfig,
    KBConfig,
    TeamKBConfig,
    UserKBConfig,
)
from knowledge.documents.llm import Tool
from knowledge.documents.models import Answer
from orchestrator.qa.document_qa_tool import DEFAULT_K, MAX_K, DocumentQATool

log = get_logger(__name__)

Conversation = Sequence[Mapping[str, str]] | None


class DocumentTool:
    """A tool for one kind of base and one principal. `scope_argument` names its scope; None for the global base."""

    name: ClassVar[str]
    description: ClassVar[str]
    config: ClassVar[type[KBConfig]]
    scope_argument: ClassVar[str | None]
    scope_description: ClassVar[str] = ""
    question_description: ClassVar[str] = "The question."

    def __init__(self, answering: Answering, principal: Principal) -> None:
        self._access = answering.access
        self._principal = principal
        self._config = self.config()
        self._core = DocumentQATool(answering, self._config)

    @classmethod
    def schema(cls) -> Tool:
        """Return OpenAI's function schema for a model."""
        properties: dict[str, Any] = {}
        if cls.scope_argument is not None:
            properties[cls.scope_argument] = {"type": "string", "description": cls.scope_description}
        properties["question"] = {"type": "string", "description": cls.question_description}
        properties["k"] = {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_K,
            "default": DEFAULT_K,
            "description": "Number of chunks to retrieve",
        }
        required = [name for name in (cls.scope_argument, "question") if name]
        return Tool(
            name=cls.name,
            description=cls.description,
            parameters={
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": False,
            },
        )

    async def _scope(self, scope_id: str | None) -> Scope:
        if self._config.requires_scope_id and not scope_id:
            raise ValueError(f"{self.scope_argument} required")
        return await self._access.scope(self._principal, self._config.kb, scope_id)

    async def ask(
        self,
        scope_id: str | None,
        question: str,
        k: int,
        conversation: Conversation,
        *,
        logs: LogQuery | None = None,
    ) -> ToolAnswer:
        """Answer within a scope. Raises ValueError if a required scope is missing, NoAccess or InvalidInput.

        `logs`: the plan of what is asked of logs; without one it is read from the question.
        """
        scope = await self._scope(scope_id)
        return await self._core.answer_question(question, scope, k, conversation, logs=logs)

    async def answer(
        self, scope_id: str | None, question: str, k: int = DEFAULT_K, conversation: Conversation = None
    ) -> Answer:
        """Return the whole answer, with the passages found and dropped."""
        return await self._core.answer(question, await self._scope(scope_id), k, conversation)

    async def call(self, arguments: Mapping[str, Any], conversation: Conversation = None) -> ToolAnswer:
        """Call the tool with the arguments a model wrote. Raises ValueError, NoAccess or InvalidInput."""
        question = arguments.get("question")
        if not isinstance(question, str) or not question.strip():
            raise ValueError("question required")
        k = arguments.get("k", DEFAULT_K)
        scope_id = arguments.get(self.scope_argument) if self.scope_argument else None
        if scope_id is not None and not isinstance(scope_id, str):
            raise ValueError(f"{self.scope_argument} must be a text")
        k = k if isinstance(k, int) and not isinstance(k, bool) else DEFAULT_K
        return await self.ask(scope_id, question, k, conversation)


class AnswerFromCaseEvidence(DocumentTool):
    """Q&A on the files of a case."""

    name = "answer_from_case_evidence"
    description = """Answer factual questions about files uploaded in this case.

Use this tool for forensic analysis of uploaded logs, configs, metrics, and code.

Examples:
- "What errors are in app.log?"
- "What's the database timeout configured in config.yaml?"
- "Show me all CRITICAL entries with timestamps"
- "What's on line 42 of the log?"

Returns: Factual answers with line numbers, timestamps, and citations."""
    config = CaseEvidenceConfig
    scope_argument = "case_id"
    scope_description = "Case identifier (REQUIRED)"
    question_description = "Factual question about case evidence"

    async def __call__(
        self, case_id: str, question: str, k: int = DEFAULT_K, conversation_context: Conversation = None
    ) -> ToolAnswer:
        """Answer from the evidence of a case."""
        return await self.ask(case_id, question, k, conversation_context)


class AnswerFromUserKB(DocumentTool):
    """Q&A on a user's own runbooks."""

    name = "answer_from_user_kb"
    description = """Answer questions from your personal runbooks and procedures.

Use this tool to retrieve your documented best practices, procedures, and runbooks.

Examples:
- "Show me my database timeout runbook"
- "What's my standard rollback procedure?"
- "How do I handle API rate limits according to my docs?"
- "My procedure for investigating memory leaks"

Returns: Your documented procedures and best practices."""
    config = UserKBConfig
    scope_argument = "user_id"
    scope_description = "User identifier (REQUIRED)"
    question_description = "Question about user's runbooks/procedures"

    async def __call__(
        self, user_id: str, question: str, k: int = DEFAULT_K, conversation_context: Conversation = None
    ) -> ToolAnswer:
        """Answer from the runbooks of a user."""
        return await self.ask(user_id, question, k, conversation_context)


class AnswerFromGlobalKB(DocumentTool):
    """Q&A on the global knowledge base."""

    name = "answer_from_global_kb"
    description = """Answer questions from the system-wide knowledge base.

Use this tool for general troubleshooting guidance, best practices, and standards.

Examples:
- "Standard approach for diagnosing memory leaks?"
- "Common causes of API timeouts?"
- "How to analyze Java thread dumps?"
- "Best practices for database connection pooling"

Returns: General best practices and system-wide guidance."""
    config = GlobalKBConfig
    scope_argument = None
    question_description = "Question about general troubleshooting/best practices"

    async def __call__(
        self, question: str, k: int = DEFAULT_K, conversation_context: Conversation = None
    ) -> ToolAnswer:
        """Answer from the global knowledge base."""
        return await self.ask(None, question, k, conversation_context)


class AnswerFromTeamKB(DocumentTool):
    """Q&A on the documents of a team."""

    name = "answer_from_team_kb"
    description = """Answer questions from team knowledge base.

Use this tool to retrieve what the team shares: its procedures, services and conventions.

Examples:
- "What is our team's deployment procedure?"
- "Who is on call for the payment service?"
- "How do we name feature branches?"
- "Our checklist for a new service"

Returns: The team's documented procedures and conventions."""
    config = TeamKBConfig
    scope_argument = "team_id"
    scope_description = "Team identifier (REQUIRED)"
    question_description = "Question about the team's documents"

    async def __call__(
        self, team_id: str, question: str, k: int = DEFAULT_K, conversation_context: Conversation = None
    ) -> ToolAnswer:
        """Answer from the documents of a team."""
        return await self.ask(team_id, question, k, conversation_context)


TOOLS: tuple[type[DocumentTool], ...] = (
    AnswerFromCaseEvidence,
    AnswerFromUserKB,
    AnswerFromGlobalKB,
    AnswerFromTeamKB,
)


def tool_of(kb: str) -> type[DocumentTool]:
    """Return the tool of a knowledge base. Raises InvalidInput for one that does not exist."""
    for tool in TOOLS:
        if tool.config.base.name == kb:
            return tool
    raise InvalidInput("kb", f"there is no {kb} knowledge base")


def document_tools(answering: Answering | None, principal: Principal) -> list[DocumentTool]:
    """Return the tools of one principal; none if there are no documents to search."""
    if answering is None:
        return []
    tools = [tool(answering, principal) for tool in TOOLS]
    log.info("document_tools_made", tools=len(tools), of_class=DocumentQATool.__name__)
    return tools
