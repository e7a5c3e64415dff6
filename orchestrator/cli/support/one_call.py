"""Commands that call one operation: their options come from its row in the table, a report prints the result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, get_args
from uuid import UUID

import typer

from hardwon.models.ids import DEFAULT_WORKSPACE
from orchestrator.cli.support.run import All, Json, Limit, Workspace, run

if TYPE_CHECKING:
    from hardwon.client.knowledge_client import KnowledgeClient
    from hardwon.client.operations import Operation, Parameter


@dataclass(frozen=True, slots=True)
class OperationCommand:
    """A command; its row is looked up on first use, since that imports the types of the row.

    `operation`: a service and its method. `report`: a function of a module in `reports`. `options`: Typer options of
    arguments, where they do not follow from the row. `parsers`: make an argument of a typed value. `stage`: the
    label of its progress. `is_failure`: true for results with exit code 1. `reads_input`: its arguments may come as a
    JSON object.
    """

    operation: str
    report: str
    help: str
    _: KW_ONLY
    options: Mapping[str, Any] = field(default_factory=dict)
    parsers: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    stage: str = ""
    is_failure: Callable[[Any], bool] = lambda _: False
    reads_input: bool = False

    def row(self) -> Operation:
        """Return the row of the table."""
        from hardwon.client.knowledge_client import SERVICES

        service, _, method = self.operation.rpartition(".")
        where, kind = SERVICES.get(service, ("hardwon.client.knowledge_client", "KnowledgeClient"))
        rows: tuple[Operation, ...] = getattr(import_module(where), kind).operations
        return next(row for row in rows if row.method == method)

    def signature(self) -> inspect.Signature:
        """Return the options, as Typer reads them."""
        from hardwon.client.operations import parameters_of

        row = self.row()
        options: list[tuple[str, Any, Any]] = []
        for each in parameters_of(row):
            if each.name == "limit" and row.cursor is not None:
                options += [(each.name, self.options.get("limit", Limit), each.default), ("everything", All, False)]
            elif each.name != "after":
                options.append((each.name, self.options.get(each.name) or _option_type(each), each.default))
        if self.reads_input:
            options = [_make_optional(*each) for each in options]
            options.append(("input_file", Input, None))
        if not row.whole_store:
            options.append(("workspace", Workspace, DEFAULT_WORKSPACE))
        options.append(("as_json", Json, False))
        keyword = inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature(
            [inspect.Parameter(name, keyword, annotation=kind, default=default) for name, kind, default in options]
        )

    def read_input(self, typed: dict[str, Any]) -> dict[str, Any]:
        """Return what was typed with the fields of the JSON object, if one is given.

        Raises a usage error where an argument is missing, and InvalidInput for what is not a JSON object.
        """
        from hardwon.client.operations import REQUIRED, parameters_of

        if not self.reads_input:
            return typed
        file = typed.pop("input_file")
        parameters = {each.name: each for each in parameters_of(self.row())}
        if file is None:
            for name, each in parameters.items():
                if each.default is REQUIRED and typed[name] is None:
                    raise typer.BadParameter(f"give it, or --input: {name}")
            return typed
        given = {
            name: value
            for name, value in typed.items()
            if name not in parameters or value not in _defaults(parameters[name])
        }
        return read_json_object(file) | given

    async def work(self, typed: dict[str, Any]) -> None:
        """Make the call, print what it returns, and exit."""
        from orchestrator.cli.support.terminal import note_more

        row, as_json = self.row(), typed.pop("as_json")
        workspace = typed.pop("workspace", None)
        everything = typed.pop("everything", False)
        arguments = {
            name: self.parsers[name](value) if name in self.parsers and isinstance(value, list) else value
            for name, value in typed.items()
        }
        async with self._connect(workspace, as_json=as_json) as knowledge:
            if row.cursor is None:
                result = await self._call_method(knowledge, row, arguments, as_json=as_json)
            else:
                most = None if everything else arguments.pop("limit")
                arguments.pop("limit", None)
                result = await _fetch_pages(knowledge, row, arguments, most)
        module, _, function = self.report.partition(":")
        getattr(import_module(f"orchestrator.cli.reports.{module}"), function)(result, as_json=as_json)
        if row.cursor is not None:
            note_more(result, most, as_json=as_json)
        if self.is_failure(result):
            raise typer.Exit(1)

    def _connect(self, workspace: str | None, *, as_json: bool) -> AbstractAsyncContextManager[KnowledgeClient]:
        from orchestrator.cli.support.session import connect, open_workspace

        if workspace is None:
            return connect()
        return open_workspace(workspace, as_json=as_json)

    async def _call_method(
        self, knowledge: KnowledgeClient, row: Operation, arguments: Mapping[str, Any], *, as_json: bool
    ) -> Any:
        from orchestrator.cli.support.terminal import stages

        if not self.stage:
            return await row.method_of(knowledge)(**arguments)
        with stages(quiet=as_json) as progress:
            return await row.method_of(knowledge)(**arguments, progress=progress.stage(self.stage))


async def _fetch_pages(
    knowledge: KnowledgeClient, row: Operation, arguments: Mapping[str, Any], most: int | None
) -> Any:
    """Return the items of a list, a page at a time."""
    from hardwon.client.operations import bounds_of, cursor_of, parameters_of
    from hardwon.client.paging import fetch_pages

    method = row.method_of(knowledge)
    (limit,) = (each for each in parameters_of(row) if each.name == "limit")
    if most is not None and most <= bounds_of(limit)[1]:
        return await method(**arguments, limit=most)  # as it is: a page may have more than its items
    return await fetch_pages(
        lambda last, at_most: method(**arguments, limit=at_most, after=last),
        lambda item: cursor_of(row, item),
        most=most,
        page=bounds_of(limit)[1],
    )


Input = Annotated[
    str | None,
    typer.Option(
        "--input", metavar="FILE", help="A JSON object of these fields, as HTTP takes it; - is standard input."
    ),
]


def read_json_object(file: str) -> dict[str, Any]:
    """Return the JSON object in a file, or on standard input. Raises InvalidInput."""
    import json

    from hardwon.coercion import json_problem
    from hardwon.errors import InvalidInput
    from hardwon.validation import kind_of

    try:
        with open(0 if file == "-" else file, encoding="utf-8-sig", closefd=file != "-") as stream:
            value = json.load(stream)
    except OSError as error:
        raise InvalidInput(file, f"cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise InvalidInput("input", json_problem(error)) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput("input", "is not JSON in UTF-8, or nested too deeply") from error
    if not isinstance(value, dict):
        raise InvalidInput("input", f"must be an object, not {kind_of(value)}")
    return value


def _make_optional(name: str, kind: Any, default: Any) -> tuple[str, Any, Any]:
    """Return an option that may be left out, as a JSON object has it."""
    if default is not inspect.Parameter.empty:
        return name, kind, default
    of, *marks = get_args(kind)
    return name, Annotated[(of | None, *marks)], None


def _defaults(parameter: Parameter) -> tuple[Any, ...]:
    """Return the values of an option that was not typed."""
    return (None, parameter.default, [])


def _option_type(parameter: Parameter) -> Any:
    """Return the Typer type of an argument of which the command says nothing; a required one is positional."""
    from hardwon.client.operations import REQUIRED, is_id, is_list, item_types

    description = next((each.description for each in parameter.constraints if each.description), None)
    kind: Any = parameter.kind
    if is_id(kind):
        kind = UUID
    elif is_list(kind):
        kind = list[UUID] if any(map(is_id, item_types(kind))) else list[str]
    elif get_args(kind) or kind is timedelta:
        raise TypeError(f"{parameter.name} needs an entry in `options`: {kind} cannot be typed")
    if parameter.default is REQUIRED:
        return Annotated[kind, typer.Argument(help=description)]
    flag = f"--{parameter.name.replace('_', '-')}"
    return Annotated[kind | None if parameter.nullable else kind, typer.Option(flag, help=description)]


class _Command:
    """A command as a function for Typer, whose options are made on first use."""

    def __init__(self, call: OperationCommand) -> None:
        self._call = call
        self.__doc__ = call.help
        self.__annotations__ = {}  # the signature has them

    @cached_property
    def __signature__(self) -> inspect.Signature:
        """The options."""
        return self._call.signature()

    def __call__(self, **typed: Any) -> None:
        """Run the command."""
        typed = self._call.read_input(typed)
        run(lambda: self._call.work(typed))


def add_command(app: typer.Typer, name: str, call: OperationCommand) -> None:
    """Add a command to an app."""
    app.command(name)(_Command(call))
