"""The documents of a knowledge base: their states, why one cannot be read, retrying and deleting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from hardwon.errors import InvalidInput, NotFound
from hardwon.models.documents import Document, DocumentId, DocumentStatus, SourceId
from knowledge.documents.access import BASES
from orchestrator.http.pages.forms import Form, read_form
from orchestrator.http.pages.shell import PageRequest

SHOWN: Final = 50
DONE: Final = {
    "deleted": "Deleted: no answer shows it any more",
    "retried": "Queued again: read within some minutes",
    "forgotten": "Forgotten, with its documents",
}
BASE_NAMES: Final = {"global": "Everyone's", "case": "Of a case", "user": "Of a user", "team": "Of a team"}
STATES: Final = {
    DocumentStatus.INDEXED: ("good", "answers"),
    DocumentStatus.PENDING: ("quiet", "waits"),
    DocumentStatus.FAILED: ("poor", "cannot be read"),
    DocumentStatus.DELETING: ("quiet", "is being deleted"),
}


@dataclass(frozen=True, slots=True)
class ChosenBase:
    """A knowledge base of the address, or of a form; `is_complete`: it has the scope id that it needs."""

    kb: str
    scope_id: str | None

    @property
    def is_complete(self) -> bool:
        """Return whether it has a scope id where it needs one."""
        return self.scope_id is not None or not BASES[self.kb].requires_scope_id

    @property
    def query(self) -> dict[str, Any]:
        """The parameters of an address that name it."""
        return {"kb": None if self.kb == "global" else self.kb, "scope": self.scope_id}


def choose_base(kb: str | None, scope: str | None) -> ChosenBase:
    """Return the knowledge base that is named, everyone's by default. Raises InvalidInput."""
    kb = kb or "global"
    if kb not in BASE_NAMES or kb not in BASES:
        raise InvalidInput("kb", f"must be one of {', '.join(BASE_NAMES)}")
    base = ChosenBase(kb, scope if BASES[kb].requires_scope_id else None)
    if base.is_complete:
        BASES[kb].partition(base.scope_id)  # raises InvalidInput for an id that cannot be one
    return base


async def show_documents(page: PageRequest) -> Response:
    """Show the documents and the repositories of a knowledge base."""
    base = choose_base(page.parameter("kb"), page.parameter("scope"))
    listed: list[Document] = []
    sources = []
    if base.is_complete:
        listed = await page.knowledge.kb.list_documents(
            base.kb, base.scope_id, limit=SHOWN + 1, after=page.parameter("after")
        )
        sources = await page.knowledge.kb.sources(base.kb, base.scope_id)
    shown = listed[:SHOWN]
    failed = sum(document.status is DocumentStatus.FAILED for document in shown)
    return await page.render(
        "documents.html",
        here="documents",
        base=base,
        bases=BASE_NAMES,
        documents=shown,
        after=shown[-1].uri if len(listed) > SHOWN else None,
        sources=sources,
        states=STATES,
        failed=failed,
        waiting=sum(document.waiting for document in shown),
        may_ask=page.principal.may("answering.ask"),
        may_manage=page.principal.may("documents.manage"),
        done=page.notice(DONE),
    )


async def retry_documents(page: PageRequest) -> Response:
    """Queue failed and postponed documents of a knowledge base again."""
    base = _chosen_by(await read_form(page.request))
    await page.knowledge.kb.retry(base.kb, base.scope_id)
    page.request.app.state.start_indexing(page.knowledge.kb)
    return page.redirect("documents", done="retried", **base.query)


async def delete_document(page: PageRequest) -> Response:
    """Delete a document for good."""
    base = _chosen_by(await read_form(page.request))
    document_id = DocumentId(page.segment_id(1))
    if not await page.knowledge.kb.delete(base.kb, base.scope_id, [document_id]):
        raise NotFound("there is no such document: it may have been deleted already")
    page.request.app.state.start_indexing(page.knowledge.kb)
    return page.redirect("documents", done="deleted", **base.query)


async def forget_source(page: PageRequest) -> Response:
    """Forget a repository, with its documents."""
    base = _chosen_by(await read_form(page.request))
    await page.knowledge.kb.forget_source(base.kb, base.scope_id, SourceId(page.segment_id(2)))
    page.request.app.state.start_indexing(page.knowledge.kb)
    return page.redirect("documents", done="forgotten", **base.query)


def _chosen_by(form: Form) -> ChosenBase:
    return choose_base(form.text("kb").strip() or None, form.text("scope").strip() or None)
