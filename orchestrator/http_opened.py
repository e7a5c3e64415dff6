"""Whose knowledge a request is about, what it takes to ask, and who is told how far its work is."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Annotated, Any, Final
from urllib.parse import unquote_to_bytes
from uuid import UUID

from fastapi import Depends, Header, Query, Request, Response
from fastapi.routing import APIRoute

from knowledge.access.principals import Principal
from knowledge.errors import AccessDenied, InvalidInput
from knowledge.models import DEFAULT_WORKSPACE
from knowledge.ports import Progress
from knowledge.wiring import Knowledge
from orchestrator.calls import WORKSPACE_HEADER, Done
from orchestrator.http_access import PRINCIPAL
from orchestrator.http_bodies import ShallowRequest

OPERATION_OF: Final = {
    "capture": "capture.capture",
    "capture_all": "capture.capture_all",
    "resolve": "capture.resolve_failure",
    "get_entry": "capture.get",
    "delete_entry": "capture.delete",
    "delete_project": "capture.delete_project",
    "task_failed": "events.task_failed",
    "task_solved": "events.task_solved",
    "gate_decided": "events.gate_decided",
    "query_for_task": "queries.query_for_task",
    "query_for_failure": "queries.query_for_failure",
    "query_for_gate": "queries.query_for_gate",
    "build_context": "contexts.record",
    "record_outcome": "outcomes.record_outcome",
    "get_pattern": "queries.get",
    "browse": "queries.browse",
    "delete_pattern": "delete_pattern",
    "suggest": "grouping.suggest",
    "show": "grouping.show",
    "join": "grouping.join",
    "split": "grouping.split",
    "process_checkpoint": "checkpoints.process_checkpoint",
    "sweep": "checkpoints.sweep",
    "get_checkpoint": "checkpoints.get",
    "prune": "pruning.prune",
    "run_one_job": "run_job",
    "stats": "stats",
    "workspaces": "workspaces",
    "tell_metrics": "workspaces",
    "progress": "progress",
    "verify": "upkeep.verify",
    "rebuild": "store_upkeep.rebuild",
    "reembed": "store_upkeep.reembed_to",
    "locality": "upkeep.local_only",
    "keep_local": "upkeep.keep_local",
    "dead": "upkeep.dead",
    "retry_dead": "upkeep.retry_dead",
    "export_archive": "archives.export_archive",
    "import_archive": "archives.import_archive",
    "create_key": "keys.create",
    "list_keys": "keys.list",
    "rotate_key": "keys.rotate",
    "revoke_key": "keys.revoke",
    "list_waiting": "reviews.waiting",
    "show_waiting": "reviews.show",
    "approve_entry": "reviews.approve",
    "reject_entry": "reviews.reject",
    "list_alarms": "reviews.alarms",
    "revoke_entries": "revocations.revoke",
    "list_affected": "revocations.affected",
    "list_audit": "audits.list",
    "verify_audit": "audits.verify",
    "search_passages": "documents.asked_by",
    "list_documents": "documents.asked_by",
    "add_document": "documents.asked_by",
    "delete_documents": "documents.asked_by",
    "retry_documents": "documents.asked_by",
    "list_sources": "documents.asked_by",
    "index_documents": "documents.asked_by",
    "query_knowledge_base": "answering.ask",
    "documentation_qa": "answering.ask",
    "ask_documents": "answering.ask",
    "ask_knowledge_base": "answering.ask",
    "ask_agent": "answering.ask",
    "give_feedback": "answering.ask",
    "close_case": "documents.asked_by",
    "calibrate_documents": "documents.manage",
    "delete_user_documents": "documents.asked_by",
    "add_source": "documents.manage",
    "forget_source": "documents.manage",
    "sync_sources": "documents.manage",
    "list_members": "documents.manage",
    "grant_access": "documents.manage",
    "revoke_access": "documents.manage",
    "documentation_best_effort": "documents.manage",
    "list_events": "documents.manage",
    "review_event": "documents.manage",
    "list_escalations": "documents.manage",
    "close_escalation": "documents.manage",
    "answer_metrics": "documents.manage",
}
"""The operation of each route, by the route's name. Where one does several, they take the same scopes."""
FREE: Final = frozenset({"healthz", "readyz"})
"""Routes that anybody may ask."""
_MOST_OPEN = 1000


class OperationRoute(APIRoute):
    """A route that looks whether its operation is allowed before the request's body is read; the service looks again.

    Its name stands in the table above: one that does not cannot be added.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        answer = super().get_route_handler()
        operation = None if self.name in FREE else OPERATION_OF[self.name]

        async def guarded(request: Request) -> Response:
            if operation is not None:
                _principal(request).require(operation)
                _workspace(request)
            return await answer(ShallowRequest(request.scope, request.receive))

        return guarded


def _principal(request: Request) -> Principal:
    principal: Principal | None = request.scope.get(PRINCIPAL)
    if principal is None:  # no door has let it in: a defect, and no way in
        raise AccessDenied("nobody has shown who asks")
    return principal


def _workspace(request: Request) -> str:
    """Return the workspace of a request: the one it names, else that of its key. Raises AccessDenied for another."""
    principal = _principal(request)
    told = request.headers.get(WORKSPACE_HEADER)
    if told is None:
        return principal.workspace or DEFAULT_WORKSPACE
    try:
        named = unquote_to_bytes(told.encode("latin-1")).decode()  # percent-encoded, or UTF-8 as it is
    except UnicodeDecodeError as error:
        raise InvalidInput("workspace", f"is not UTF-8 in the header {WORKSPACE_HEADER}") from error
    principal.enter(named)
    return named


_NAMES = Header(
    alias=WORKSPACE_HEADER,
    description="The workspace, percent-encoded; that of the key where it is not named.",
    max_length=1200,
)


def opened(request: Request, _: Annotated[str | None, _NAMES] = None) -> Knowledge:
    """Return the services as who asks has them, kept from one request to the next."""
    knowledge: Knowledge = request.app.state.knowledge
    kept: OrderedDict[tuple[str, Principal], Knowledge] = request.app.state.opened
    key = (_workspace(request), _principal(request))
    found = kept.get(key)
    if found is None:
        found = kept[key] = knowledge.in_workspace(key[0]).acting_for(key[1])
        if len(kept) > _MOST_OPEN:
            kept.popitem(last=False)
    return found


Open = Annotated[Knowledge, Depends(opened)]


async def _told(
    request: Request,
    operation: Annotated[UUID | None, Query(description="An id of the caller's, to ask how far the work is.")] = None,
) -> AsyncIterator[Progress | None]:
    """Give what long work tells its progress to, while the request lasts, if the caller gave it a name to ask by."""
    if operation is None:
        yield None
        return
    under_way: dict[tuple[str, UUID], Done] = request.app.state.under_way
    name = (_workspace(request), operation)

    def told(done: int, total: int | None) -> None:
        under_way[name] = Done(done=done, total=total)

    told(0, None)
    try:
        yield told
    finally:
        under_way.pop(name, None)


Told = Annotated[Progress | None, Depends(_told)]
