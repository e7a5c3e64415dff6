"""The table of operations: a row is a method, declared once, that clients, routes, tools and commands are made from.

A method of a `Service` with `@Operation` has its whole signature and no body: the body is made of the row.
Its docstring is the help of the route, tool and command. Methods of other requests are written out beside the rows.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, fields, is_dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NewType, Self, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import httpx
from pydantic.fields import FieldInfo

from hardwon.client.paging import PAGE_SIZE, fetch_pages
from hardwon.client.transport import QUICK_SECONDS, Api, path_segment, watch_progress
from hardwon.coercion import Alias, coerce_call, shape_of_call
from hardwon.errors import InvalidInput
from hardwon.text.truncation import truncate_middle
from hardwon.validation import as_id, as_integer, check_duration, check_unicode, kind_of

NO_SCOPE: Final = "-"
"""The path segment of an argument that is None: the scope of a knowledge base without scopes."""
REQUIRED: Final = inspect.Parameter.empty
_MAX_TEXT_BYTES: Final = 128 * 1024
"""Longest text of a query that is sent, so that two of them fit into any request. More than the server uses: 16,000
characters, the beginning and the end, as in process."""
_ROW: Final = "_hardwon_row"
PROGRESS: Final = "progress"
LIMIT: Final = "limit"
_DEFAULT_PAGE: Final = 100
"""Length of a page where the list has no limit."""
_Declared = TypeVar("_Declared", bound=Callable[..., Any])


class Place(StrEnum):
    """The part of a request that an argument is sent in."""

    PATH = "path"
    QUERY = "query"
    BODY = "body"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """The wire format of an argument, in the `Annotated` of its type, where it does not follow from the type.

    `name`: its name in the request; `also`: another one that a query may have, too. `field`: its name in errors.
    `flat`: its fields are sent, each as an argument of its own. `ends`: only both ends of a very
    long text are sent. `minimum`: the shortest span of time.
    """

    name: str | None = None
    also: str | None = None
    field: str | None = None
    flat: bool = False
    ends: bool = False
    minimum: timedelta = timedelta(0)


class Envelope:
    """A JSON object that an operation answers with; its first field is what the method returns."""

    __slots__ = ()

    @classmethod
    def wrap(cls, value: Any) -> Self:
        """Return the answer for what a method returned."""
        return cls(**{fields(cls)[0].name: value})  # type: ignore[arg-type] # subclasses are dataclasses

    def unwrap(self) -> Any:
        """Return what the method returns, from an answer."""
        return getattr(self, fields(self)[0].name)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """The MCP tool of an operation; `answer` wraps a result that is not a JSON object."""

    title: str
    answer: type[Envelope] | None = None
    read_only: bool = False


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
    aliases: tuple[Alias, ...] = ()
    of: str | None = None

    @property
    def wire_name(self) -> str:
        """Its name in JSON, query or path; a span of time is sent in seconds."""
        return self.wire.name or (f"{self.name}_seconds" if self.kind is timedelta else self.name)

    @property
    def field(self) -> str:
        """Its name in errors."""
        return self.wire.field or self.name


def _placeholder() -> None:
    """Stand in for the method of a row until its class is created."""


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """A row, as a decorator of its method: the HTTP request of the method, and its permission.

    `operation_id`: its name in the OpenAPI document. `permission`: its name in the table of permissions, which takes
    `scopes`, of all workspaces if `whole_store`, and an `authenticated` caller. `problems`: error statuses beyond those
    of every route.
    `answer`: the type of the JSON, where the method returns another. `in_query`: the arguments are in the query though
    something is changed. `cursor`: the field of an item that names the start of the next page, empty where it is the
    item itself; `all_pages`: the client fetches all pages. `long`: without a time limit.
    """

    verb: str
    path: str
    _: KW_ONLY
    operation_id: str = ""
    permission: str = ""
    scopes: Collection[str] = ()
    whole_store: bool = False
    authenticated: bool = False
    tag: str = ""
    status: int = 0
    """By default 200, or 204 without an answer."""
    problems: tuple[int, ...] = ()
    answer: Any = None
    in_query: bool = False
    cursor: str | None = None
    all_pages: bool = False
    long: bool = False
    tool: Tool | None = None
    service: str = ""
    """The service's attribute of `Knowledge`; empty: `Knowledge` itself."""
    declared: Callable[..., Any] = _placeholder
    """The method; set, like the service, once its class is created."""

    def __call__(self, declared: _Declared) -> _Declared:
        """Mark a method of a `Service`."""
        vars(declared)[_ROW] = self
        return declared

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.declared.__name__

    def method_of(self, knowledge: Any) -> Callable[..., Any]:
        """Return the method of open knowledge, here or on a server."""
        method: Callable[..., Any] = getattr(
            getattr(knowledge, self.service) if self.service else knowledge, self.method
        )
        return method

    @property
    def help(self) -> str:
        """The docstring, as help of the route, tool and command."""
        return inspect.getdoc(self.declared) or ""

    @property
    def envelope(self) -> type[Envelope] | None:
        """The type of the answer, or of each item of a list, where the method returns another."""
        return None if self.answer is None else get_args(self.answer)[0] if is_list(self.answer) else self.answer

    def wrap(self, value: Any) -> Any:
        """Return the answer for what the method returned."""
        if self.envelope is None:
            return value
        return [self.envelope.wrap(each) for each in value] if is_list(self.answer) else self.envelope.wrap(value)

    def unwrap(self, answer: Any) -> Any:
        """Return what the method returns, from an answer."""
        if self.envelope is None:
            return answer
        return [each.unwrap() for each in answer] if is_list(self.answer) else answer.unwrap()


class Service:
    """A service over HTTP, with the names and arguments it has in process: rows, and written-out methods.

    `name`: its attribute of `Knowledge`. `tag`, `scopes` and the rest: defaults of the rows.
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
        authenticated: bool = False,
    ) -> None:
        """Complete the rows of a service, and make client methods of them."""
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
                authenticated=row.authenticated or authenticated,
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


def has_progress(row: Operation) -> bool:
    """Return whether an operation reports progress."""
    return PROGRESS in signature_of(row).parameters


@cache
def return_type(row: Operation) -> Any:
    """Return the return type of a method."""
    return get_type_hints(row.declared, include_extras=True)["return"]


@cache
def parameters_of(row: Operation) -> tuple[Parameter, ...]:
    """Return the arguments of an operation as they are sent, without the progress callback."""
    parameters: list[Parameter] = []
    for argument in _arguments_of(row):
        if argument.wire.flat:
            inner = get_type_hints(argument.kind, include_extras=True)
            parameters += [
                _parameter(row, each.name, inner[each.name], _default_of(each), of=argument.name)
                for each in fields(argument.kind)
            ]
        else:
            parameters.append(argument)
    return tuple(parameters)


def needs_body(row: Operation) -> bool:
    """Return whether the body of a request is required."""
    return any(each.place is Place.BODY and each.default is REQUIRED for each in _arguments_of(row))


def flat_types(row: Operation) -> dict[str, Any]:
    """Return the types of the flat arguments, by name."""
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
        nullable, default = False, min(default or _DEFAULT_PAGE, PAGE_SIZE)
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
        aliases=tuple(each for each in marks if isinstance(each, Alias)),
        of=of,
    )


def _default_of(field: Any) -> object:
    """Return the default of a field of a dataclass."""
    return REQUIRED if field.default is MISSING else field.default


def _client_method(row: Operation) -> Callable[..., Any]:
    """Return the client method of a row: it sends one request, or one for each page."""

    @functools.wraps(row.declared)
    async def call(self: Service, *args: Any, **kwargs: Any) -> Any:
        bound = signature_of(row).bind(**_read_call(row, args, kwargs))
        bound.apply_defaults()
        api = self._api
        if not row.all_pages:
            return await _send(row, api, bound.arguments)
        first, most = bound.arguments["after"], bound.arguments[LIMIT]

        async def fetch(last: Any, limit: int) -> Any:
            return await _send(row, api, bound.arguments | {"after": last or first, LIMIT: limit})

        return await fetch_pages(fetch, functools.partial(cursor_of, row), most=most)

    return call


def _read_call(row: Operation, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call, by name. Raises InvalidInput, with their names in errors."""
    try:
        return coerce_call(shape_of_call(row.declared), args, kwargs)
    except InvalidInput as error:
        names = {each.name: each.field for each in parameters_of(row)}
        raise InvalidInput(names.get(error.field, error.field), error.reason) from error


def cursor_of(row: Operation, item: Any) -> Any:
    """Return the cursor of an item, behind which the next page begins."""
    return getattr(item, row.cursor) if row.cursor else item


async def _send(row: Operation, api: Api, arguments: Mapping[str, Any]) -> Any:
    path, params, body = write_request(row, arguments)
    async with watch_progress(api, arguments.get(PROGRESS)) as operation:
        limit = None if row.long or has_progress(row) else QUICK_SECONDS
        response = await api.send(row.verb, path, body=body, params={**params, **operation}, timeout_seconds=limit)
    returns = return_type(row)
    if response.status_code == httpx.codes.NO_CONTENT:  # a repeated deletion: its first try deleted everything
        return 0 if returns is int else None
    if returns is NoneType:
        return None
    return row.unwrap(api.read(response, row.answer or returns))


def write_request(row: Operation, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any] | None]:
    """Return path, query and body of a request. Raises InvalidInput for values that cannot be sent.

    Empty defaults are left out: a server of the release before may not know the argument.
    """
    parts: dict[Place, dict[str, Any]] = {place: {} for place in Place}
    for parameter in parameters_of(row):
        holder = arguments if parameter.of is None else arguments[parameter.of]
        value = holder[parameter.name] if parameter.of is None else getattr(holder, parameter.name)
        if parameter.place is not Place.PATH and value is parameter.default and not value:
            continue
        parts[parameter.place][parameter.wire_name] = _wire_value(parameter, value)
    body = parts[Place.BODY]
    return row.path.format_map(parts[Place.PATH]), parts[Place.QUERY], body if body or needs_body(row) else None


def _wire_value(parameter: Parameter, value: Any) -> Any:
    """Return an argument as it is sent. Raises InvalidInput, with its name, for a value that cannot be sent."""
    field = parameter.field
    if parameter.place is Place.PATH and not is_id(parameter.kind):
        return NO_SCOPE if parameter.nullable and (value is None or value == "") else path_segment(field, value)
    if value is None and parameter.nullable:
        return None
    if is_id(parameter.kind):
        return str(as_id(field, value))
    if parameter.kind is int and parameter.place is Place.QUERY:  # in a query a number and its text are the same
        least, most = bounds_of(parameter)
        return as_integer(field, value, least=least, most=most)
    if parameter.kind is timedelta:
        check_duration(field, value, least=parameter.wire.minimum)
        return value.total_seconds()
    return _wire_object(parameter, value)


def _wire_object(parameter: Parameter, value: Any) -> Any:
    """Return a list of ids, a text or an object as it is sent; the server checks everything else."""
    field = parameter.field
    if is_list(parameter.kind) and any(map(is_id, item_types(parameter.kind))):
        if not isinstance(value, Collection) or isinstance(value, str | bytes | Mapping):
            raise InvalidInput(field, f"must be a list of ids, not {kind_of(value)}")
        return [str(as_id(field, each)) for each in value]
    if parameter.wire.ends and isinstance(value, str):
        return shorten_text(field, value)
    return _to_plain(value)


def shorten_text(field: str, text: str, max_bytes: int = _MAX_TEXT_BYTES) -> str:
    """Return the text of a query, a very long one shortened to its two ends. Raises InvalidInput for a surrogate."""
    if len(text) <= max_bytes // 4:
        return text
    check_unicode(field, text)
    return truncate_middle(text, max_bytes)


def _to_plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        named = {field.name: getattr(value, field.name) for field in fields(value)}
        return {name: _to_plain(each) for name, each in named.items() if each is not None}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple | set | frozenset):
        return [_to_plain(each) for each in value]
    return value


def bounds_of(parameter: Parameter) -> tuple[int, int]:
    """Return the smallest and the largest value of a whole number."""
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
    """Return the path of a knowledge base. Raises InvalidInput for an id that cannot be sent.

    An empty scope id counts as none, as in process.
    """
    scope = NO_SCOPE if scope_id is None or scope_id == "" else path_segment("scope_id", scope_id)
    return f"/api/kb/{path_segment('kb', kb)}/{scope}"
