"""The arguments of an operation as pydantic types, for HTTP requests and tool calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, field, fields, make_dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from types import GenericAlias
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints
from uuid import UUID

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from hardwon.client.operations import (
    NO_SCOPE,
    REQUIRED,
    Operation,
    Parameter,
    Place,
    flat_types,
    is_id,
    is_list,
    item_types,
    parameters_of,
)
from hardwon.coercion import coerce, is_absent, read_object, shape_of
from hardwon.models.tasks import ContextRequest, Task
from hardwon.validation import MAX_DURATION

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _check_instant(value: object) -> object:
    """Reject numbers, which pydantic reads as seconds since 1970, and dates and times without a zone."""
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        raise PydanticCustomError("instant", "give a time with its zone, such as 2026-03-02T09:30:00Z")
    return value


Instant = Annotated[datetime, BeforeValidator(_check_instant)]


def lenient(kind: type[Any]) -> BeforeValidator:
    """Return a validator of bodies: they are read as at every door. The JSON schema stays that of the dataclass."""
    return BeforeValidator(partial(_coerce_body, kind))


def _coerce_body(kind: type[Any], body: object) -> object:
    return coerce(shape_of(kind), body) if isinstance(body, Mapping) else body  # anything else is pydantic's to refuse


@cache
def context_arguments() -> type[Any]:
    """Return a dataclass of the request for a context with the fields of its task beside the type of the agent."""
    hints, agent = (get_type_hints(kind, include_extras=True) for kind in (Task, ContextRequest))
    task = [(each.name, hints[each.name], field(default=each.default)) for each in fields(Task)]
    return make_dataclass(
        "ContextArguments",
        [*task, ("agent_type", agent["agent_type"])],
        kw_only=True,
        frozen=True,
        slots=True,
        namespace={"__pydantic_config__": {"extra": "forbid"}, "__doc__": ContextRequest.__doc__},
    )


def read_context_request(given: Mapping[Any, Any]) -> ContextRequest:
    """Return a request for a context: its `task` is an object, or the fields of the task are beside the agent's type.

    Raises InvalidInput, naming the field.
    """
    if not is_absent(given.get("task")):
        return read_object(ContextRequest, given)
    values = coerce(shape_of(context_arguments()), {name: value for name, value in given.items() if name != "task"})
    return ContextRequest(agent_type=values.pop("agent_type"), task=Task(**values))


context_request: Final = BeforeValidator(
    lambda body: (
        read_context_request(body) if isinstance(body, Mapping) else body
    )  # anything else is pydantic's to refuse
)
"""Validator of the body of a request for a context."""


def default_if_blank(parameter: Parameter) -> BeforeValidator:
    """Return a validator that takes a blank text of a query for an argument that is left out."""
    return BeforeValidator(lambda value: default_of(parameter) if is_absent(value) else value)


def type_of(parameter: Parameter) -> Any:
    """Return the type that an argument is sent as, with its constraints and its description."""
    kind = _wire_type(parameter)
    if parameter.nullable and parameter.place is not Place.PATH:
        kind |= None
    constraints = [*parameter.constraints, *parameter.aliases]
    if parameter.kind is timedelta:
        constraints.append(Field(ge=parameter.wire.minimum.total_seconds(), le=MAX_DURATION.total_seconds()))
    # path and query are text: there "true" is true
    if parameter.place is Place.BODY and parameter.kind in {bool, int, float, timedelta}:
        constraints.append(Field(strict=True))
    return Annotated[(kind, *constraints)] if constraints else kind


def _wire_type(parameter: Parameter) -> Any:
    kind = parameter.kind
    if is_id(kind):
        return UUID
    if kind is timedelta:
        return float
    if kind is datetime:
        return Instant
    if is_list(kind) and any(map(is_id, item_types(kind))):
        return list[UUID]
    if is_list(kind) and get_origin(kind) is not tuple:
        return GenericAlias(list, get_args(kind)[:1])
    return kind


def default_of(parameter: Parameter) -> Any:
    """Return the default of an argument as it is sent, `REQUIRED` without one."""
    default = parameter.default
    return default.total_seconds() if isinstance(default, timedelta) else default


@cache
def arguments_type(row: Operation, places: frozenset[Place] = frozenset(Place)) -> type[Any] | None:
    """Return a dataclass of the arguments in some places of a request; None where there are none."""
    chosen = [parameter for parameter in parameters_of(row) if parameter.place in places]
    if not chosen:
        return None
    name = "".join(part.capitalize() for part in row.operation_id.split("_"))
    return make_dataclass(
        f"{name}Arguments",
        [(each.wire_name, type_of(each), field(default=_field_default(each))) for each in chosen],
        kw_only=True,
        frozen=True,
        slots=True,
        namespace={"__pydantic_config__": {"extra": "forbid"}, "__doc__": row.help},
    )


def _field_default(parameter: Parameter) -> Any:
    default = default_of(parameter)
    return MISSING if default is REQUIRED else default


def field_values(body: object) -> dict[str, Any]:
    """Return the fields of a dataclass, by name."""
    return {each.name: getattr(body, each.name) for each in fields(body)}  # type: ignore[arg-type] # is a dataclass


def parse_arguments(row: Operation, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a method, by its own parameter names, from a request."""
    arguments: dict[str, Any] = {}
    flat: dict[str, dict[str, Any]] = {}
    for parameter in parameters_of(row):
        if parameter.wire_name in payload:
            holder = arguments if parameter.of is None else flat.setdefault(parameter.of, {})
            holder[parameter.name] = _parse_value(parameter, payload[parameter.wire_name])
    return arguments | {name: flat_types(row)[name](**members) for name, members in flat.items()}


def _parse_value(parameter: Parameter, value: Any) -> Any:
    if parameter.kind is timedelta and value is not None:
        return timedelta(seconds=value)
    if parameter.place is Place.PATH and parameter.nullable and value == NO_SCOPE:
        return None
    return value
