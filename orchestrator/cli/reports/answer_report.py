"""Ask documents in this process, where no server runs, and print the answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hardwon.client.documents import RemoteAnswers, Turns
from hardwon.client.knowledge_client import KnowledgeClient
from hardwon.context.sanitize import sanitize
from hardwon.models.answers import KBQueryResponse, SelectionResponse, ToolAnswer
from hardwon.models.log_query import LogQuery
from hardwon.text.pluralize import count_of
from hardwon.validation import as_integer, check_text
from knowledge.documents.service import LOCAL
from orchestrator.cli.support.terminal import notes, print_json, print_text
from orchestrator.qa.document_qa_tool import MAX_K
from orchestrator.qa.document_selection import DocumentSelection
from orchestrator.qa.kb_query import KnowledgeBaseQuery
from orchestrator.qa.telemetry import Telemetry
from orchestrator.qa.wrappers import tool_of

if TYPE_CHECKING:
    from knowledge.wiring.open import Knowledge
    from orchestrator.evaluation.answer_quality import AnswersReport


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


_NEXT = {
    "not_found": "hardwon kb search, or kb search --anywhere, shows the passages that come nearest",
    "empty_scope": "hardwon kb add FILE adds documents, hardwon kb list shows them",
    "indexing": "hardwon kb list shows what waits to be indexed",
}
"""The next step for a person without an answer, by status."""


def print_answer(answer: ToolAnswer | SelectionResponse | KBQueryResponse, *, as_json: bool) -> None:
    """Print an answer, and its citations on standard error."""
    if as_json:
        print_json(answer)
        return
    print_text(sanitize(answer["answer"] or str(answer.get("error") or answer.get("reason") or "no answer")))
    fields: Mapping[str, Any] = answer
    for place in dict.fromkeys(_place(citation) for citation in fields.get("citations", ())):
        notes.print(sanitize(place))
    if (nearest := fields.get("nearest")) is not None:
        notes.print(sanitize(f"nearest, no answer: {_place(nearest)}\n{nearest['quote']}"))
    if answer["status"] in _NEXT:
        notes.print(_NEXT[answer["status"]])
    if answer["extractive"] and answer["status"] in {"answered", "success"} and _cites(fields):
        notes.print("quoted word for word: no model is configured (HARDWON_SYNTHESIS_MODEL)")


def _place(citation: Mapping[str, Any]) -> str:
    section = f", {citation['section']}" if citation["section"] else ""
    line = f", line {citation['lines'][0]}" if citation["lines"] else ""
    return f"[{citation['number']}] {citation['title']}{section}{line}: {citation['path']}"


def _cites(answer: Mapping[str, Any]) -> bool:
    return bool(answer.get("citations") or answer.get("sources"))


def print_answers_report(report: AnswersReport, *, as_json: bool) -> None:
    """Print the evaluation of answers and refusals."""
    if as_json:
        print_json(report)
        return
    print_text(
        f"{count_of(report.questions, 'question')}, {report.answerable:,} of them answerable\n"
        f"false answers {report.false_answer_rate:.1%}, false refusals {report.false_refusal_rate:.1%}\n"
        f"citations: precision {report.citation_precision:.3f}, recall {report.citation_recall:.3f}\n"
        f"retrieval: recall@1 {report.recall_at_1:.3f}, @3 {report.recall_at_3:.3f}, @5 {report.recall_at_5:.3f},"
        f" MRR@10 {report.mrr_at_10:.3f}\n"
        f"an answer takes {report.answer_p50_ms:.0f} ms"
    )
