"""Document Q&A in process, with the same methods as over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from knowledge.documents.log_query import LogQuery
from knowledge.documents.service import LOCAL
from knowledge.forms import as_integer
from knowledge.memory.limits import check_text
from orchestrator.client.answers import RemoteAnswers, Turns
from orchestrator.client.knowledge_client import KnowledgeClient
from orchestrator.tools.document_qa_tool import MAX_K, ToolAnswer
from orchestrator.tools.kb_query import KBQueryResponse, KnowledgeBaseQuery
from orchestrator.tools.selection import DocumentSelection, SelectionResponse
from orchestrator.tools.telemetry import Telemetry
from orchestrator.tools.wrappers import tool_of

if TYPE_CHECKING:
    from knowledge.wiring import Knowledge


@dataclass(frozen=True, slots=True)
class LocalAnswers:
    """Answers from open stores, without access checks: who can open the data directory may read all of it."""

    knowledge: Knowledge

    async def ask(self, question: str, conversation: Turns = ()) -> SelectionResponse:
        """Answer from all documents."""
        selection = DocumentSelection(self.knowledge.answering, self._telemetry(), self.knowledge.settings)
        return await selection.ask(question, LOCAL, conversation)

    async def ask_base(
        self, kb: str, scope_id: str | None, question: str, k: int = 5, *, logs: LogQuery | None = None
    ) -> ToolAnswer:
        """Answer from one knowledge base. Raises InvalidInput for one that does not exist."""
        check_text("question", question)
        as_integer("k", k, least=1, most=MAX_K)
        tool = tool_of(kb)
        tool.config.base.partition(scope_id)  # raises InvalidInput, as over HTTP; a tool raises ValueError for a model
        return await tool(self.knowledge.answering, LOCAL).ask(scope_id, question, k, None, logs=logs)

    async def query_knowledge_base(self, query: str) -> KBQueryResponse:
        """Answer from the strict knowledge base."""
        return await KnowledgeBaseQuery(self.knowledge.answering, self._telemetry()).query_knowledge_base(query, LOCAL)

    def _telemetry(self) -> Telemetry:
        return Telemetry(self.knowledge.answering.journal, self.knowledge.answering.clock)


def answers_of(knowledge: Knowledge | KnowledgeClient) -> RemoteAnswers | LocalAnswers:
    """Return the Q&A service, in process or over HTTP."""
    return knowledge.answers if isinstance(knowledge, KnowledgeClient) else LocalAnswers(knowledge)
