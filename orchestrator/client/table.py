"""The table of operations: a row is a method, declared once, that clients, routes, tools and commands are made from.

A method of a `Service` that is marked with `@operation` has its whole signature and no body: that is made of the row.
Its docstring is the help of every door. What is not one plain request is written out, beside the rows.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import KW_ONLY, MISSING, dataclass, fields, is_dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NewType, Self, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import httpx
from pydantic.fields import FieldInfo

from knowledge.characters import check_unicode
from knowledge.ends import truncate_middle
from knowledge.errors import InvalidInput
from knowledge.forms import as_id, as_integer, check_duration
from orchestrator.client.calls import QUICK_SECONDS, Api, in_path, watched
from orchestrator.paging import PAGE_SIZE, fetch_pages

ONE: Final = "-"
"""Stands in a path for an argument that is None: the scope of a knowledge base that has one scope."""
REQUIRED: Final = inspect.Parameter.empty
_MOST_ASKED_BYTES: Final = 128 * 1024
"""What is sent of a long text that is only compared, so that two of them fit a request whatever is in them. More than
the server makes use of: 16,000 characters of it, its beginning and its end, as in process."""
_ROW: Final = "_hardwon_row"
PROGRESS: Final = "progress"
LIMIT: Final = "limit"
_PAGE: Final = 100
"""How long a page is where its list has no end."""
_Declared = TypeVar("_Declared", bound=Callable[..., Any])


class Place(StrEnum):
    """Where an argument stands in a request."""

    PATH = "path"
    QUERY = "query"
    BODY = "body"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """How an argument is sent, in the `Annotated` of its type, where that does not follow from the type.

    `name`: by this name. `field`: errors call it so. `flat`: its fields are sent, each as an argument of its own.
    `ends`: both ends of a very long text are. `least`: a span of time is at least this long.
    """

    name: str | None = None
    field: str | None = None
    flat: bool = False
    ends: bool = False
    least: timedelta = timedelta(0)


class Wrapped:
    """A JSON object that an operation answers with, where its method returns what is in it: in its first field."""

    __slots__ = ()

    @classmethod
    def wrap(cls, value: Any) -> Self:
        """Return what a method returned as an answer."""
        return cls(**{fields(cls)[0].name: value})  # type: ignore[arg-type] # subclasses are dataclasses

    def unwrap(self) -> Any:
        """Return from an answer what the method returns."""
        return getattr(self, fields(self)[0].name)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """An MCP tool that an operation is offered as; `answer` wraps what is no JSON object. It `reads`, or changes."""

    title: str
    answer: type[Wrapped] | None = None
    reads: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parameter:
    """An argument of an operation, or a field of one that is sent flat (`of`)."""

    name: str
    place: Place
    kind: Any
    """Its type, without None and annotations."""
    nullable: bool
    default: object
    wire: Wire
    constraints: tuple[Any, ...]
    """Those of pydantic, and the description."""
    of: str | None = None

    @property
    def sent_as(self) -> str:
        """Its name in JSON or in the address; a span of time is sent in seconds."""
        return self.wire.name or (f"{self.name}_seconds" if self.kind is timedelta else self.name)

    @property
    def field(self) -> str:
        """The name that errors have for it."""
        return self.wire.field or self.name


def _undeclared() -> None:
    """Stand for the method of a row until its class is made."""


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """A row, put as a decorator on the method that it is about: how that is asked for over HTTP, and who may.

    `operation_id`: its name in the OpenAPI document. `permission`: that in the table of permissions, for which it takes
    `scopes`, of all workspaces if `whole_store`, of who has shown who they are if `known`. `problems`: statuses that
    not every route may end in.
    `answer`: the type of the JSON, where the method returns another. `in_query`: the arguments stand in the address,
    though something is changed. `cursor`: the field of an item by which the next page of a list begins, empty where it
    is the item itself; `all_pages`: the client goes on to that page. `long`: it has no time limit.
    """

    verb: str
    path: str
    _: KW_ONLY
    operation_id: str = ""
    permission: str = ""
    scopes: Collection[str] = ()
    whole_store: bool = False
    known: bool = False
    tag: str = ""
    status: int = 0
    """Left out, 200, or 204 where there is nothing to answer."""
    problems: tuple[int, ...] = ()
    answer: Any = None
    in_query: bool = False
    cursor: str | None = None
    all_pages: bool = False
    long: bool = False
    tool: Tool | None = None
    service: str = ""
    """The name of the service at `Knowledge`; empty: `Knowledge` itself."""
    declared: Callable[..., Any] = _undeclared
    """The method; that and the service are known once its class is."""

    def __call__(self, declared: _Declared) -> _Declared:
        """Mark a method of a `Service`."""
        vars(declared)[_ROW] = self
        return declared

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.declared.__name__

    @property
    def help(self) -> str:
        """The docstring, for people who read any door."""
        return inspect.getdoc(self.declared) or ""

    @property
    def wraps(self) -> type[Wrapped] | None:
        """The type of its answer, or of each item of its list, where that is not what the method returns."""
        return None if self.answer is None else get_args(self.answer)[0] if is_list(self.answer) else self.answer

    def wrap(self, value: Any) -> Any:
        """Return what the method returned as it is answered."""
        if self.wraps is None:
            return value
        return [self.wraps.wrap(each) for each in value] if is_list(self.answer) else self.wraps.wrap(value)

    def unwrap(self, answer: Any) -> Any:
        """Return an answer as the method returns it."""
        if self.wraps is None:
            return answer
        return [each.unwrap() for each in answer] if is_list(self.answer) else answer.unwrap()


class Service:
    """A service over HTTP, with the names and arguments it has in process: rows, and methods that are written out.

    `name`: that at `Knowledge`. `tag` and what is needed to ask: those of rows that say nothing else.
    """

    operations: tuple[Operation, ...] = ()

    def __init__(self, api: Api) -> None:
        self._api = api

    def __init_subclass__(
        cls,
        *,
        name: str = "",
        tag: str = "",
        scopes: Collection[str] = (),
        whole_store: bool = False,
        known: bool = False,
    ) -> None:
        """Complete the rows of a service, and make the client's methods of them."""
        super().__init_subclass__()
        rows = []
        for declared in list(vars(cls).values()):
            row: Operation | None = getattr(declared, "__dict__", {}).get(_ROW)
            if row is None:
                continue
            method = declared.__name__
            complete = replace(
                row,
                declared=declared,
                service=name,
                operation_id=row.operation_id or method,
                permission=row.permission or (f"{name}.{method}" if name else method),
                tag=row.tag or tag,
                scopes=row.scopes or scopes,
                status=row.status or _status(declared),
                whole_store=row.whole_store or whole_store,
                known=row.known or known,
            )
            setattr(cls, method, _client_method(complete))
            rows.append(complete)
        cls.operations = (*cls.operations, *rows)


def _status(declared: Callable[..., Any]) -> int:
    nothing = inspect.signature(declared).return_annotation in {None, "None"}
    return httpx.codes.NO_CONTENT if nothing else httpx.codes.OK


@cache
def signature_of(row: Operation) -> inspect.Signature:
    """Return the signature of a method, without `self`."""
    signature = inspect.signature(row.declared)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def takes_progress(row: Operation) -> bool:
    """Return whether an operation tells how far it is."""
    return PROGRESS in signature_of(row).parameters


@cache
def returned_by(row: Operation) -> Any:
    """Return the type of what a method returns."""
    return get_type_hints(row.declared, include_extras=True)["return"]


@cache
def parameters_of(row: Operation) -> tuple[Parameter, ...]:
    """Return what is sent of the arguments of an operation; how far it is told apart."""
    found: list[Parameter] = []
    for argument in _arguments_of(row):
        if argument.wire.flat:
            inner = get_type_hints(argument.kind, include_extras=True)
            found += [
                _parameter(row, each.name, inner[each.name], _default_of(each), of=argument.name)
                for each in fields(argument.kind)
            ]
        else:
            found.append(argument)
    return tuple(found)


def needs_body(row: Operation) -> bool:
    """Return whether a request has a body even where all that it could tell is left out."""
    return any(each.place is Place.BODY and each.default is REQUIRED for each in _arguments_of(row))


def flat_types(row: Operation) -> dict[str, Any]:
    """Return the types of the arguments whose fields are sent, by their names."""
    return {argument.name: argument.kind for argument in _arguments_of(row) if argument.wire.flat}


@cache
def _arguments_of(row: Operation) -> tuple[Parameter, ...]:
    hints = get_type_hints(row.declared, include_extras=True)
    parameters = signature_of(row).parameters.items()
    return tuple(_parameter(row, name, hints[name], each.default) for name, each in parameters if name != PROGRESS)


def _parameter(row: Operation, name: str, hint: Any, default: Any, *, of: str | None = None) -> Parameter:
    marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    kind = get_args(hint)[0] if marks else hint
    choices = get_args(kind) if get_origin(kind) in {Union, UnionType} else (kind,)
    nullable = NoneType in choices
    others = [each for each in choices if each is not NoneType]
    if row.all_pages and name == LIMIT:  # of a page
        nullable, default = False, min(default or _PAGE, PAGE_SIZE)
    wire = next((each for each in marks if isinstance(each, Wire)), Wire())
    if f"{{{wire.name or name}}}" in row.path:
        place = Place.PATH
    else:
        place = Place.QUERY if row.in_query or row.verb in {"GET", "DELETE"} else Place.BODY
    return Parameter(
        name=name,
        place=place,
        kind=others[0] if len(others) == 1 else Union[tuple(others)],  # noqa: UP007 - of a tuple
        nullable=nullable,
        default=default,
        wire=wire,
        constraints=tuple(each for each in marks if isinstance(each, FieldInfo)),
        of=of,
    )


def _default_of(field: Any) -> object:
    """Return the default of a field of a dataclass."""
    return REQUIRED if field.default is MISSING else field.default


def _client_method(row: Operation) -> Callable[..., Any]:
    """Return the method of a client: it sends one request, or one for each page."""

    @functools.wraps(row.declared)
    async def call(self: Service, *args: Any, **told: Any) -> Any:
        bound = signature_of(row).bind(*args, **told)
        bound.apply_defaults()
        api = self._api
        if not row.all_pages:
            return await _send(row, api, bound.arguments)
        first, most = bound.arguments["after"], bound.arguments[LIMIT]

        async def page(last: Any, limit: int) -> Any:
            return await _send(row, api, bound.arguments | {"after": last or first, LIMIT: limit})

        return await fetch_pages(page, functools.partial(cursor_of, row), most=most)

    return call


def cursor_of(row: Operation, item: Any) -> Any:
    """Return what names an item of a list to the next page."""
    return getattr(item, row.cursor) if row.cursor else item


async def _send(row: Operation, api: Api, arguments: Mapping[str, Any]) -> Any:
    path, params, body = write_request(row, arguments)
    async with watched(api, arguments.get(PROGRESS)) as named:
        limit = None if row.long or takes_progress(row) else QUICK_SECONDS
        response = await api.send(row.verb, path, body=body, params={**params, **named}, timeout_seconds=limit)
    returns = returned_by(row)
    if response.status_code == httpx.codes.NO_CONTENT:  # a deletion that was cut had done it: nothing is left to count
        return 0 if returns is int else None
    if returns is NoneType:
        return None
    return row.unwrap(api.read(response, row.answer or returns))


def write_request(row: Operation, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any] | None]:
    """Return path, query and body of a request. Raises InvalidInput for what cannot be sent.

    What is empty by default is left out: a server of the release before may not know the argument.
    """
    parts: dict[Place, dict[str, Any]] = {place: {} for place in Place}
    for parameter in parameters_of(row):
        holder = arguments if parameter.of is None else arguments[parameter.of]
        value = holder[parameter.name] if parameter.of is None else getattr(holder, parameter.name)
        if parameter.place is not Place.PATH and value is parameter.default and not value:
            continue
        parts[parameter.place][parameter.sent_as] = _written(parameter, value)
    body = parts[Place.BODY]
    return row.path.format_map(parts[Place.PATH]), parts[Place.QUERY], body if body or needs_body(row) else None


def _written(parameter: Parameter, value: Any) -> Any:
    """Return an argument as it is sent. Raises InvalidInput, naming it, for what cannot be."""
    field = parameter.field
    if parameter.place is Place.PATH and not is_id(parameter.kind):
        return ONE if parameter.nullable and (value is None or value == "") else in_path(field, value)
    if value is None and parameter.nullable:
        return None
    if is_id(parameter.kind):
        return str(as_id(field, value))
    if parameter.kind is int and parameter.place is Place.QUERY:  # in an address a number and its text are the same
        least, most = bounds_of(parameter)
        return as_integer(field, value, least=least, most=most)
    if parameter.kind is timedelta:
        check_duration(field, value, least=parameter.wire.least)
        return value.total_seconds()
    return _written_more(parameter, value)


def _written_more(parameter: Parameter, value: Any) -> Any:
    """Return a list of ids, a text or an object as it is sent; what is none of them the server refuses."""
    field = parameter.field
    if is_list(parameter.kind) and any(map(is_id, item_types(parameter.kind))):
        if not isinstance(value, Collection) or isinstance(value, str | bytes | Mapping):
            raise InvalidInput(field, f"must be a list of ids, not {type(value).__name__}")
        return [str(as_id(field, each)) for each in value]
    if parameter.wire.ends and isinstance(value, str):
        return both_ends_of(field, value)
    return _plain(value)


def both_ends_of(field: str, text: str) -> str:
    """Return a text that is only compared, of a very long one both ends. Raises InvalidInput for half a character."""
    if len(text) <= _MOST_ASKED_BYTES // 4:
        return text
    check_unicode(field, text)
    return truncate_middle(text, _MOST_ASKED_BYTES)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        named = {field.name: getattr(value, field.name) for field in fields(value)}
        return {name: _plain(each) for name, each in named.items() if each is not None}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    return value


def bounds_of(parameter: Parameter) -> tuple[int, int]:
    """Return the least and the most that a whole number may be."""
    marks = [mark for field in parameter.constraints for mark in field.metadata]
    least = next((mark.ge for mark in marks if hasattr(mark, "ge")), 0)
    return least, next((mark.le for mark in marks if hasattr(mark, "le")), PAGE_SIZE)


def is_id(kind: Any) -> bool:
    """Return whether a type is an id."""
    return kind is UUID or (isinstance(kind, NewType) and kind.__supertype__ is UUID)


def is_list(kind: Any) -> bool:
    """Return whether a type is a list, or another collection that is one in JSON."""
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Collection) and not issubclass(origin, Mapping)


def item_types(kind: Any) -> Iterator[Any]:
    """Yield the types that the items of a list may have."""
    item = get_args(kind)[0]
    yield from get_args(item) if get_origin(item) in {Union, UnionType} else (item,)


def base_path(kb: str, scope_id: str | None) -> str:
    """Return the path of a knowledge base. Raises InvalidInput for what cannot be sent.

    An empty id is none, as it is in process.
    """
    scope = ONE if scope_id is None or scope_id == "" else in_path("scope_id", scope_id)
    return f"/api/kb/{in_path('kb', kb)}/{scope}"
