"""Routes made from the rows of the table of operations: each reads the arguments and calls the service's method."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final

from fastapi import FastAPI, Path, Query, Request, Response

from hardwon.client.arguments import (
    arguments_type,
    default_if_blank,
    default_of,
    field_values,
    lenient,
    parse_arguments,
    type_of,
)
from hardwon.client.operations import (
    LIMIT,
    PROGRESS,
    REQUIRED,
    Operation,
    Parameter,
    Place,
    Service,
    cursor_of,
    has_progress,
    needs_body,
    parameters_of,
    return_type,
)
from jobs.scheduler import list_jobs
from jobs.table import run_job
from knowledge.wiring.open import Knowledge
from orchestrator.http.operation_route import CallerKnowledge, ProgressCallback, performs


def link_next(request: Request, response: Response, **query: object) -> None:
    """Set the Link header to the next page of a list."""
    url = request.url.include_query_params(**query)
    response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {"run_job": run_job, "list_jobs": list_jobs}
"""Operations that are functions of `Knowledge`, not its methods."""
Callback = Callable[[Any], None]
"""Called with the service of a route after its method has returned."""


def add_rows(
    app: FastAPI,
    service: type[Service],
    *,
    dependency: Any = CallerKnowledge,
    callbacks: Mapping[str, Callback] | None = None,
) -> None:
    """Add a route for each row of a service.

    `dependency`: gives the service, where it is not an attribute of `Knowledge`. `callbacks`: by names of methods.
    """
    for row in service.operations:
        add_row(app, row, dependency=dependency, callback=(callbacks or {}).get(row.method))


def add_row(
    app: FastAPI, row: Operation, *, dependency: Any = CallerKnowledge, callback: Callback | None = None
) -> None:
    """Add the route of a row."""

    async def endpoint(body: object = None, **arguments: Any) -> Any:
        holder = arguments.pop("knowledge")
        method = getattr(holder, row.method) if dependency is not CallerKnowledge else _method_of(row, holder)
        request, response = arguments.pop("request", None), arguments.pop("response", None)
        for name, other in _other_names(row).items():
            given = arguments.pop(other)
            arguments[name] = arguments[name] if given is None else given
        progress = {PROGRESS: arguments.pop(PROGRESS)} if has_progress(row) else {}
        if body is not None:
            arguments |= field_values(body)
        result = await method(**parse_arguments(row, arguments), **progress)
        if request is not None and len(result) == arguments[LIMIT]:
            link_next(request, response, after=cursor_of(row, result[-1]), limit=arguments[LIMIT])
        if callback is not None:
            callback(holder)
        return row.wrap(result)

    vars(endpoint)["__signature__"] = _signature(row, dependency)
    returns = row.answer or return_type(row)
    app.add_api_route(
        row.path,
        performs(row.permission, problems=row.problems, strict=True)(endpoint),
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
    return row.method_of(knowledge)


def _signature(row: Operation, dependency: Any) -> inspect.Signature:
    """Return the signature that FastAPI parses a request by: body, path and query parameters, dependencies."""
    parameters = []
    body = arguments_type(row, frozenset({Place.BODY}))
    if body is not None:
        kind: Any = body if needs_body(row) else body | None
        annotation, default = Annotated[kind, lenient(body)], REQUIRED if needs_body(row) else None
        parameters.append(
            inspect.Parameter("body", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation, default=default)
        )
    parameters += [_keyword(each.wire_name, _address_type(each), default_of(each)) for each in _address_parameters(row)]
    for each in _address_parameters(row):
        if each.wire.also is not None:
            parameters.append(_keyword(each.wire.also, _address_type(each, Query(include_in_schema=False)), None))
    parameters.append(_keyword("knowledge", dependency))
    if has_progress(row):
        parameters.append(_keyword(PROGRESS, ProgressCallback))
    if row.cursor is not None:
        parameters += [_keyword("request", Request), _keyword("response", Response)]
    return inspect.Signature(parameters)


def _other_names(row: Operation) -> dict[str, str]:
    """Return the other names that parameters of a query may have, by their names."""
    return {each.wire_name: each.wire.also for each in _address_parameters(row) if each.wire.also is not None}


def _address_parameters(row: Operation) -> list[Parameter]:
    return [each for each in parameters_of(row) if each.place is not Place.BODY]


def _address_type(parameter: Parameter, source: Any = None) -> Any:
    kind = type_of(parameter)
    source = source or (Path() if parameter.place is Place.PATH else Query())
    if parameter.place is Place.PATH or default_of(parameter) is REQUIRED:
        return Annotated[kind, source]
    blank = default_if_blank(parameter)
    return Annotated[kind, blank, source]


def _keyword(name: str, annotation: Any, default: Any = REQUIRED) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
