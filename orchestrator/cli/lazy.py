"""A command line whose commands are made when they are asked for: making one reads the types of all its options."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from inspect import getdoc
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group
from typer.models import CommandInfo


def lazily(app: typer.Typer, *, before: Callable[[], None]) -> TyperGroup:
    """Return the command of an app that has options of its own; `before` is called before a command runs.

    Of its commands it knows what its help says, until one of them is asked for.
    """
    root = get_command(_without_commands(app))
    assert isinstance(root, TyperGroup)  # noqa: S101 - for the checker
    return _filled(root, app, before)


def _without_commands(app: typer.Typer) -> typer.Typer:
    bare = copy(app)
    bare.registered_commands, bare.registered_groups = [], []
    bare.rich_markup_mode = None
    return bare


def _filled(group: TyperGroup, app: typer.Typer, before: Callable[[], None]) -> TyperGroup:
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "").replace("_", "-")
        group.add_command(_Later(name, getdoc(command.callback), partial(_command, app, command), before))
    for added in app.registered_groups:
        if added.typer_instance is not None:
            told = added.typer_instance.info.help
            group.add_command(_Later(str(added.name), str(told), partial(_group, added.typer_instance, before), None))
    return group


def _command(app: typer.Typer, info: CommandInfo) -> Any:
    alone = _without_commands(app)
    alone.registered_commands = [info]
    (command,) = get_group(alone).commands.values()
    return command


def _group(app: typer.Typer, before: Callable[[], None]) -> TyperGroup:
    return _filled(get_group(_without_commands(app)), app, before)


class _Later(TyperCommand):
    """A command that is not made yet."""

    def __init__(self, name: str, told: str | None, make: Callable[[], Any], before: Callable[[], None] | None) -> None:
        super().__init__(name, help=told, rich_markup_mode=None)
        self._make = make
        self._before = before

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Make the command, and the context of a call of it; one that only asks for help ends here."""
        context = self._make().make_context(info_name, args, parent, **extra)
        if self._before and not context.resilient_parsing:  # else the shell asks how a line could go on
            self._before()
        return context
