"""Answers and their evaluation, for people or as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from knowledge.amounts import count_of
from orchestrator.cli.terminal import notes, print_json, print_text
from orchestrator.harmless import sanitize

if TYPE_CHECKING:
    from orchestrator.measuring.answers import AnswersReport
    from orchestrator.tools.document_qa_tool import ToolAnswer
    from orchestrator.tools.kb_query import KBQueryResponse
    from orchestrator.tools.selection import SelectionResponse


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
        notes.print(sanitize(place), markup=False)
    if answer["status"] in _NEXT:
        notes.print(_NEXT[answer["status"]], markup=False)
    if answer["extractive"] and answer["status"] in {"answered", "success"} and _cites(fields):
        notes.print("quoted word for word: no model is configured (HARDWON_SYNTHESIS_MODEL)", markup=False)


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
