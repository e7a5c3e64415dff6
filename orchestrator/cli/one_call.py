"""Commands of one call: the options come from a row of the table of operations, a report prints what it returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, get_args
from uuid import UUID

import typer

from knowledge.names import DEFAULT_WORKSPACE
from orchestrator.cli.run import All, Json, Limit, Workspace, run

if TYPE_CHECKING:
    from orchestrator.client.table import Operation, Parameter
    from orchestrator.connection import AnyKnowledge


@dataclass(frozen=True, slots=True)
class OneCall:
    """A command; its row is looked up once it is asked for, as that loads what the row names.

    `operation`: a service and its method. `report`: a function of a module in `reports`. `takes`: how an argument is
    typed, where that does not follow from the row. `read`: what makes an argument of what was typed. `warm`: an owner
    loads the model meanwhile. `stage`: what its progress is called. `fails`: for which answers the exit code is 1.
    """

    operation: str
    report: str
    help: str
    _: KW_ONLY
    takes: Mapping[str, Any] = field(default_factory=dict)
    read: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    warm: bool = False
    stage: str = ""
    fails: Callable[[Any], bool] = lambda _: False

    def row(self) -> Operation:
        """Return the row of the table."""
        from orchestrator.client.knowledge_client import SERVICES

        service, _, method = self.operation.rpartition(".")
        where, kind = SERVICES.get(service, ("orchestrator.client.knowledge_client", "KnowledgeClient"))
        rows: tuple[Operation, ...] = getattr(import_module(where), kind).operations
        return next(row for row in rows if row.method == method)

    def signature(self) -> inspect.Signature:
        """Return the options, as Typer reads them."""
        from orchestrator.client.table import parameters_of

        row = self.row()
        options: list[tuple[str, Any, Any]] = []
        for each in parameters_of(row):
            if each.name == "limit" and row.cursor is not None:
                options += [(each.name, self.takes.get("limit", Limit), each.default), ("everything", All, False)]
            elif each.name != "after":
                options.append((each.name, self.takes.get(each.name) or _typed(each), each.default))
        if not row.whole_store:
            options.append(("workspace", Workspace, DEFAULT_WORKSPACE))
        options.append(("as_json", Json, False))
        keyword = inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature(
            [inspect.Parameter(name, keyword, annotation=kind, default=default) for name, kind, default in options]
        )

    async def work(self, typed: dict[str, Any]) -> None:
        """Make the call, print what it returns, and exit."""
        from orchestrator.cli.terminal import note_more

        row, as_json = self.row(), typed.pop("as_json")
        workspace = typed.pop("workspace", None)
        everything = typed.pop("everything", False)
        arguments = {name: self.read[name](value) if name in self.read else value for name, value in typed.items()}
        async with self._connected(workspace, as_json=as_json) as knowledge:
            if row.cursor is None:
                found = await self._answer(knowledge, row, arguments, as_json=as_json)
            else:
                most = None if everything else arguments.pop("limit")
                arguments.pop("limit", None)
                found = await _pages(knowledge, row, arguments, most)
        module, _, function = self.report.partition(":")
        getattr(import_module(f"orchestrator.cli.reports.{module}"), function)(found, as_json=as_json)
        if row.cursor is not None:
            note_more(found, most, as_json=as_json)
        if self.fails(found):
            raise typer.Exit(1)

    def _connected(self, workspace: str | None, *, as_json: bool) -> AbstractAsyncContextManager[AnyKnowledge]:
        from orchestrator.cli.opened import open_workspace
        from orchestrator.connection import connect

        if workspace is None:
            return connect(warm=self.warm)
        return open_workspace(workspace, warm=self.warm, as_json=as_json)

    async def _answer(
        self, knowledge: AnyKnowledge, row: Operation, arguments: Mapping[str, Any], *, as_json: bool
    ) -> Any:
        from orchestrator.cli.terminal import stages

        if not self.stage:
            return await _method(knowledge, row)(**arguments)
        with stages(quiet=as_json) as progress:
            return await _method(knowledge, row)(**arguments, progress=progress.stage(self.stage))


async def _pages(knowledge: AnyKnowledge, row: Operation, arguments: Mapping[str, Any], most: int | None) -> Any:
    """Return the items of a list, a page at a time."""
    from orchestrator.client.table import bounds_of, cursor_of, parameters_of
    from orchestrator.paging import fetch_pages

    method = _method(knowledge, row)
    (limit,) = (each for each in parameters_of(row) if each.name == "limit")
    return await fetch_pages(
        lambda last, at_most: method(**arguments, limit=at_most, after=last),
        lambda item: cursor_of(row, item),
        most=most,
        page=bounds_of(limit)[1],
    )


def _method(knowledge: AnyKnowledge, row: Operation) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(getattr(knowledge, row.service) if row.service else knowledge, row.method)
    return found


def _typed(parameter: Parameter) -> Any:
    """Return how an argument is typed that no command says more of: what is required stands by its place."""
    from orchestrator.client.table import REQUIRED, is_id, is_list, item_types

    says = next((each.description for each in parameter.constraints if each.description), None)
    kind: Any = parameter.kind
    if is_id(kind):
        kind = UUID
    elif is_list(kind):
        kind = list[UUID] if any(map(is_id, item_types(kind))) else list[str]
    elif get_args(kind) or kind is timedelta:
        raise TypeError(f"say how {parameter.name} is typed: {kind} cannot be")
    if parameter.default is REQUIRED:
        return Annotated[kind, typer.Argument(help=says)]
    flag = f"--{parameter.name.replace('_', '-')}"
    return Annotated[kind | None if parameter.nullable else kind, typer.Option(flag, help=says)]


class _Command:
    """A command as a function that Typer reads: its options are made when they are asked for."""

    def __init__(self, call: OneCall) -> None:
        self._call = call
        self.__doc__ = call.help
        self.__annotations__ = {}  # the signature has them

    @property
    def __signature__(self) -> inspect.Signature:
        """The options."""
        return self._call.signature()

    def __call__(self, **typed: Any) -> None:
        """Run the command."""
        run(lambda: self._call.work(typed))


def add_command(app: typer.Typer, name: str, call: OneCall) -> None:
    """Add a command to an app."""
    app.command(name)(_Command(call))
