"""Answers over HTTP, with the names and arguments they have in process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from knowledge.documents.log_query import LogQuery, log_query_json
from orchestrator.client.table import Service, base_path
from orchestrator.tools.document_qa_tool import ToolAnswer
from orchestrator.tools.kb_query import KBQueryResponse
from orchestrator.tools.selection import SelectionResponse

TIMEOUT_SECONDS = 300.0
"""Longest wait for an answer that a model writes."""

Turns = Sequence[Mapping[str, str]]


class RemoteAnswers(Service):
    """Answers of a server, for the principal of the key."""

    async def ask(self, question: str, conversation: Turns = ()) -> SelectionResponse:
        """Answer from all documents that the caller may read."""
        body = {"question": question, "conversation": [dict(turn) for turn in conversation]}
        return await self._api.call("POST", "/api/ask", SelectionResponse, body=body, timeout_seconds=TIMEOUT_SECONDS)

    async def ask_base(
        self, kb: str, scope_id: str | None, question: str, k: int = 5, *, logs: LogQuery | None = None
    ) -> ToolAnswer:
        """Answer from one knowledge base; `logs`: the query of logs."""
        path = f"{base_path(kb, scope_id)}/ask"
        body: dict[str, Any] = {"question": question, "k": k}
        if logs is not None:
            body["logs"] = log_query_json(logs)
        return await self._api.call("POST", path, ToolAnswer, body=body, timeout_seconds=TIMEOUT_SECONDS)

    async def query_knowledge_base(self, query: str) -> KBQueryResponse:
        """Answer from the strict knowledge base."""
        body = {"query": query}
        return await self._api.call(
            "POST", "/api/kb/query", KBQueryResponse, body=body, timeout_seconds=TIMEOUT_SECONDS
        )
