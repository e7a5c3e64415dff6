"""Questions to the documents: the answer with the marked sentence in its source, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from hardwon.errors import InvalidInput
from hardwon.models.answers import CitationJson, ToolAnswer
from hardwon.validation import check_text
from knowledge.documents.requesters import asker
from orchestrator.http.middleware.page_sessions import is_from_another_site
from orchestrator.http.pages.shell import PageRequest
from orchestrator.http.pages.views.knowledge_bases.documents import BASE_NAMES, ChosenBase, choose_base
from orchestrator.qa.wrappers import tool_of

PASSAGES: Final = 5
"""Passages to answer from, as many as `hardwon kb ask` takes."""
REASONS: Final = {
    "not_found": "Not in the documents",
    "empty_scope": "There is no document to ask",
    "indexing": "The documents are still being read",
    "error": "That could not be answered",
}
EXPLANATIONS: Final = {
    "not_found": "No block answers it surely enough.",
    "empty_scope": "This knowledge base holds no document that you may read: hardwon kb add FILE adds one.",
    "indexing": "Ask again in a minute: what waits to be read is listed under Documents.",
    "error": "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A block of a document, word for word: the sentence that matched best, and the text before and behind it."""

    citation: CitationJson
    before: str
    marked: str
    behind: str


async def show_ask(page: PageRequest) -> Response:
    """Show the form, and the answer to a question in the address.

    A link on another site fills in the form alone: whoever follows it did not ask, and an answer may cost a call.
    """
    page.principal.require("answering.ask")
    base = choose_base(page.parameter("kb"), page.parameter("scope"))
    question = page.request.query_params.get("q", "").strip()
    answer: ToolAnswer | None = None
    problem: InvalidInput | None = None
    if question and not base.is_complete:
        problem = InvalidInput("scope", "name the case, user or team whose documents to ask")
    elif question and not is_from_another_site(page.request.headers):
        try:
            check_text("question", question)
            answer = await _ask(page, base, question)
        except InvalidInput as error:
            problem = error
    nearest = None if answer is None else answer["nearest"]
    return await page.render(
        "ask.html",
        status=200 if problem is None else 422,
        here="ask",
        base=base,
        bases=BASE_NAMES,
        question=question,
        answer=answer,
        quotes=[] if answer is None else [_split(citation) for citation in answer["citations"]],
        problem=problem,
        is_unasked=bool(question) and answer is None and problem is None,
        nearest=None if nearest is None else _split(nearest),
        reasons=REASONS,
        explanations=EXPLANATIONS,
    )


async def _ask(page: PageRequest, base: ChosenBase, question: str) -> ToolAnswer:
    """Return the answer that the API and the command line give."""
    tool = tool_of(base.kb)
    return await tool(page.knowledge.answering, asker(page.principal)).ask(base.scope_id, question, PASSAGES, None)


def _split(citation: CitationJson) -> Quote:
    quote = citation["quote"]
    start, end = citation["marked"] or (0, len(quote))
    return Quote(citation=citation, before=quote[:start], marked=quote[start:end], behind=quote[end:])
