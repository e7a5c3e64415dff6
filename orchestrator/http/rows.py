"""Routes made from the rows of the table of operations: each reads the arguments and calls the service's method."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final

from fastapi import FastAPI, Path, Query, Request, Response

from jobs.table import run_job
from knowledge.wiring import Knowledge
from orchestrator.client.arguments import arguments_type, default_of, members_of, read_arguments, type_of
from orchestrator.client.table import (
    LIMIT,
    PROGRESS,
    REQUIRED,
    Operation,
    Parameter,
    Place,
    Service,
    cursor_of,
    needs_body,
    parameters_of,
    returned_by,
    takes_progress,
)
from orchestrator.http.opened import Open, Told, performs
from orchestrator.http.paging import link_next

_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {"run_job": run_job}
"""What is done with `Knowledge`, rather than by it."""
Afterwards = Callable[[Any], None]
"""What a route does with its service, once that has done what was asked for."""


def add_rows(
    app: FastAPI,
    service: type[Service],
    *,
    given: Any = Open,
    afterwards: Mapping[str, Afterwards] | None = None,
) -> None:
    """Add a route for each row of a service.

    `given`: the dependency that gives the service, where it is none of `Knowledge`. `afterwards`: what follows on
    methods of such a one, by their names.
    """
    for row in service.operations:
        add_row(app, row, given=given, afterwards=(afterwards or {}).get(row.method))


def add_row(app: FastAPI, row: Operation, *, given: Any = Open, afterwards: Afterwards | None = None) -> None:
    """Add the route of a row."""

    async def endpoint(body: object = None, **told: Any) -> Any:
        holder = told.pop("knowledge")
        method = getattr(holder, row.method) if given is not Open else _method_of(row, holder)
        request, response = told.pop("request", None), told.pop("response", None)
        progress = {PROGRESS: told.pop("told")} if takes_progress(row) else {}
        if body is not None:
            told |= members_of(body)
        found = await method(**read_arguments(row, told), **progress)
        if request is not None and len(found) == told[LIMIT]:
            link_next(request, response, after=cursor_of(row, found[-1]), limit=told[LIMIT])
        if afterwards is not None:
            afterwards(holder)
        return row.wrap(found)

    vars(endpoint)["__signature__"] = _signature(row, given)
    returns = row.answer or returned_by(row)
    app.add_api_route(
        row.path,
        performs(row.permission, problems=row.problems)(endpoint),
        methods=[row.verb],
        name=row.operation_id,
        tags=[row.tag],
        status_code=row.status,
        response_model=None if returns is type(None) else returns,
        description=row.help,
    )


def _method_of(row: Operation, knowledge: Knowledge) -> Callable[..., Any]:
    if not row.service and row.method in _FUNCTIONS:
        return partial(_FUNCTIONS[row.method], knowledge)
    found: Callable[..., Any] = getattr(getattr(knowledge, row.service) if row.service else knowledge, row.method)
    return found


def _signature(row: Operation, given: Any) -> inspect.Signature:
    """Return what FastAPI reads a request by: the body, what stands in the address, and what the route needs."""
    parameters = []
    body = arguments_type(row, frozenset({Place.BODY}))
    if body is not None:
        annotation, default = (body, REQUIRED) if needs_body(row) else (body | None, None)
        parameters.append(
            inspect.Parameter("body", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation, default=default)
        )
    parameters += [_named(each.sent_as, _in_address(each), default_of(each)) for each in _of_address(row)]
    parameters.append(_named("knowledge", given))
    if takes_progress(row):
        parameters.append(_named("told", Told))
    if row.cursor is not None:
        parameters += [_named("request", Request), _named("response", Response)]
    return inspect.Signature(parameters)


def _of_address(row: Operation) -> list[Parameter]:
    return [each for each in parameters_of(row) if each.place is not Place.BODY]


def _in_address(parameter: Parameter) -> Any:
    where = Path() if parameter.place is Place.PATH else Query()
    return Annotated[type_of(parameter), where]


def _named(name: str, annotation: Any, default: Any = REQUIRED) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
