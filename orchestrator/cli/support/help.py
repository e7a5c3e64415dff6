"""Help texts of the command line: commands in groups, `hardwon help COMMAND`, and a group with a default command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from typer.core import TyperGroup

COMMAND_GROUPS: Mapping[str, tuple[str, ...]] = {
    "Everyday": (
        "demo",
        "capture",
        "learn",
        "watch",
        "unresolved",
        "resolve",
        "event",
        "checkpoint",
        "query",
        "context",
        "outcome",
        "contexts",
        "recent",
        "map",
        "entries",
        "patterns",
        "kb",
        "trends",
        "stats",
    ),
    "Keeping (serve, guard, maintain)": (
        "serve",
        "mcp",
        "hooks",
        "keys",
        "workspace",
        "review",
        "audit",
        "jobs",
        "evaluate",
        "prune",
        "redact",
        "reembed",
        "export",
        "import",
        "backup",
        "migrate",
    ),
    "Rescue (find and mend what is wrong)": (
        "doctor",
        "verify",
        "restore",
        "rebuild",
        "dead",
        "retry-dead",
        "deeds",
        "undo",
        "affected",
        "revoke",
        "delete",
    ),
}
"""The commands in the order of the help; one that is not listed is shown under `Other`."""


def iterate_groups(names: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the title and the commands of each group that has any of the names."""
    listed = {name for group in COMMAND_GROUPS.values() for name in group}
    groups = {**COMMAND_GROUPS, "Other": tuple(name for name in names if name not in listed)}
    for title, group in groups.items():
        if present := [name for name in group if name in names]:
            yield title, present


class RootGroup(TyperGroup):
    """The command `hardwon`: its help lists the commands in groups, and `help COMMAND` is `COMMAND --help`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what was typed."""
        if args[:1] == ["help"]:
            while args[:1] == ["help"]:
                args = args[1:]
            args = [*args, "--help"]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, group by group, in columns of one width."""
        widest = max(map(len, self.commands))
        limit = formatter.width - 6 - widest
        for title, names in iterate_groups(self.list_commands(ctx)):
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(widest), self.commands[name].get_short_help_str(limit)) for name in names]
                )

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write how to read on."""
        super().format_epilog(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text("hardwon help COMMAND, or hardwon COMMAND --help, tells how to use one.")


class DefaultCommandGroup(TyperGroup):
    """A group whose first command is meant where none is named: `hardwon query TEXT` is `hardwon query task TEXT`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what was typed; a word that is nearly a command stays, to be refused with a suggestion."""
        known = {*self.commands, *ctx.help_option_names}
        if args and args[0] not in known and not get_close_matches(args[0], self.commands):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)
