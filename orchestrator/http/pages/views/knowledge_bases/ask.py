"""Questions to the documents: the answer with the marked sentence in its source, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from hardwon.errors import HardwonError, InvalidInput
from hardwon.models.answers import CitationJson, ToolAnswer
from hardwon.models.documents import DocumentId, Passage
from hardwon.validation import check_text
from knowledge.documents.requesters import asker
from orchestrator.http.middleware.page_sessions import is_from_another_site
from orchestrator.http.pages.shell import PageRequest
from orchestrator.http.pages.views.knowledge_bases.documents import BASE_NAMES, ChosenBase, choose_base
from orchestrator.qa.wrappers import tool_of

PASSAGES: Final = 5
"""Passages to answer from, as many as `hardwon kb ask` takes."""
_AROUND: Final = 240
"""Characters shown before and behind a quote; ours."""
REASONS: Final = {
    "not_found": "Not in the documents",
    "empty_scope": "There is no document to ask",
    "indexing": "The documents are still being read",
    "error": "That could not be answered",
}
EXPLANATIONS: Final = {
    "not_found": "No sentence answers it surely enough. The block that came nearest is below, so that you can judge.",
    "empty_scope": "This knowledge base holds no document that you may read: hardwon kb add FILE adds one.",
    "indexing": "Ask again in a minute: what waits to be read is listed under Documents.",
    "error": "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A quote within its source: the text before it, the quote itself word for word, and the text behind it."""

    citation: CitationJson
    before: str = ""
    text: str
    behind: str = ""


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
    quotes = [] if answer is None else [await _find_quote(page, question, base, each) for each in answer["citations"]]
    return await page.render(
        "ask.html",
        status=200 if problem is None else 422,
        here="ask",
        base=base,
        bases=BASE_NAMES,
        question=question,
        answer=answer,
        quotes=quotes,
        problem=problem,
        is_unasked=bool(question) and answer is None and problem is None,
        nearest=None if answer is None or answer["citations"] else await _find_nearest(page, base, question),
        reasons=REASONS,
        explanations=EXPLANATIONS,
    )


async def _ask(page: PageRequest, base: ChosenBase, question: str) -> ToolAnswer:
    """Return the answer that the API and the command line give."""
    tool = tool_of(base.kb)
    return await tool(page.knowledge.answering, asker(page.principal)).ask(base.scope_id, question, PASSAGES, None)


async def _find_quote(page: PageRequest, question: str, base: ChosenBase, citation: CitationJson) -> Quote:
    """Return a citation with the text around it; alone, where its passage is not found again."""
    quote = citation["quote"]
    for passage in await _search(page, base, question, documents=[DocumentId(citation["document_id"])]):  # type: ignore[arg-type] # parsed by the search
        start = passage.text.find(quote)
        if quote and start >= 0:
            end = start + len(quote)
            return Quote(
                citation=citation,
                before=_cut_start(passage.text[:start]),
                text=quote,
                behind=_cut_end(passage.text[end:]),
            )
    return Quote(citation=citation, text=quote)


async def _find_nearest(page: PageRequest, base: ChosenBase, question: str) -> Passage | None:
    """Return the passage that came nearest to a question without an answer, None if there is none."""
    return next(iter(await _search(page, base, question)), None)


async def _search(
    page: PageRequest, base: ChosenBase, question: str, *, documents: Sequence[DocumentId] = ()
) -> Sequence[Passage]:
    try:
        found = await page.knowledge.kb.search(
            question, kb=base.kb, scope_id=base.scope_id, k=PASSAGES, documents=documents
        )
    except HardwonError:  # the answer is there; what is around it is only help
        return ()
    return [passage for passage in found.passages if passage.quotable]


def _cut_start(text: str) -> str:
    return text if len(text) <= _AROUND else f"\u2026{text[-_AROUND:]}"


def _cut_end(text: str) -> str:
    return text if len(text) <= _AROUND else f"{text[:_AROUND]}\u2026"
