"""`hardwon hooks`: install, show and remove the hooks of coding agents."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardwon.errors import HardwonError, InvalidInput
from orchestrator.agent_hooks.hook_tools import TOOLS, HookTool, Scope
from orchestrator.cli.support.run import Json

if TYPE_CHECKING:
    from orchestrator.agent_hooks.installation import Change, Place

hooks = typer.Typer(help="Hooks of coding agents: install, show, remove.", no_args_is_help=True)
ToolName = Annotated[str, typer.Argument(help=f"The agent: {', '.join(TOOLS)}.")]
User = Annotated[bool, typer.Option("--user", help="In your own settings (the default).")]
Project = Annotated[bool, typer.Option("--project", help="In the settings of the project here.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show the change.")]


@hooks.command("install")
def install(
    tool: ToolName, *, user: User = False, project: Project = False, dry_run: DryRun = False, as_json: Json = False
) -> None:
    """Add our hooks to an agent's settings, beside those of others. What was there is kept as a backup."""
    from orchestrator.agent_hooks.installation import plan_install

    chosen, scope, place = _tool(tool), _scope(user=user, project=project), _place()
    change = plan_install(chosen, scope, place)
    _finish(change, place, "installed", chosen, dry_run=dry_run, as_json=as_json)


@hooks.command("remove")
def remove(
    tool: ToolName, *, user: User = False, project: Project = False, dry_run: DryRun = False, as_json: Json = False
) -> None:
    """Take exactly our hooks out of an agent's settings."""
    from orchestrator.agent_hooks.installation import plan_removal

    chosen, scope, place = _tool(tool), _scope(user=user, project=project), _place()
    change = plan_removal(chosen, scope, place)
    _finish(change, place, "removed", chosen, dry_run=dry_run, as_json=as_json)


@hooks.command("status")
def status(*, as_json: Json = False) -> None:
    """Show which hooks are installed, and when each fired last."""
    from orchestrator.agent_hooks.spool import last_fired
    from orchestrator.cli.support.terminal import print_json, print_text

    place = _place()
    fired = last_fired(place.data)
    rows = [_status(tool, scope, place, fired) for tool in TOOLS.values() for scope in Scope]
    found = [row for row in rows if row["events"] or row["problem"]]
    if as_json:
        print_json({"hooks": found})
        return
    for row in found:
        print_text(f"{row['title']} ({row['scope']}, {row['path']})")
        if row["problem"]:
            print_text(f"  {row['problem']}")
        for event in row["events"]:
            print_text(f"  {event['event']}: {event['fired_at'] or 'has not fired'}")
        if row["note"]:
            print_text(f"  {row['note']}")
    if not found:
        print_text("no hooks are installed: hardwon hooks install " + "|".join(TOOLS))


def _status(tool: HookTool, scope: Scope, place: Place, fired: dict[tuple[str, str], int]) -> dict[str, Any]:
    from orchestrator.agent_hooks.installation import installed_events

    problem = None
    events: set[str] = set()
    try:
        events = installed_events(tool, scope, place)
    except InvalidInput as error:
        problem = str(error)
    shown = [
        {"event": event.name, "fired_at": _time(fired.get((tool.name, event.name)))}
        for event in tool.events
        if event.name in events
    ]
    silent = bool(shown) and not any(each["fired_at"] for each in shown)
    return {
        "tool": tool.name,
        "title": tool.title,
        "scope": scope.value,
        "path": str(place.settings_path(tool, scope)),
        "events": shown,
        "problem": problem,
        "note": tool.after_install if silent else "",
    }


def _time(at: int | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat()


def _finish(change: Change, place: Place, what: str, tool: HookTool, *, dry_run: bool, as_json: bool) -> None:
    """Write a change, unless it is only to be shown, and say what was done."""
    from orchestrator.agent_hooks.installation import apply_change
    from orchestrator.cli.support.terminal import print_json, print_text

    backup = None
    if not dry_run:
        backup = apply_change(change, place)
        if what == "installed" and change.is_nothing:
            _renew_shim(place)
    note = tool.after_install if what == "installed" else ""
    if as_json:
        shown = {"path": str(change.path), "changed": not change.is_nothing, "diff": change.diff(), "note": note}
        print_json({**shown, "backup": None if backup is None else str(backup), "dry_run": dry_run})
        return
    if change.is_nothing:
        print_text(f"{change.path}: nothing to do")
    else:
        print_text(change.diff().rstrip("\n"))
        if not dry_run:
            print_text(f"{what} in {change.path}" + (f"; before: {backup}" if backup is not None else ""))
    if note:
        print_text(note)


def _renew_shim(place: Place) -> None:
    """Write the script anew: a newer version may have a better one."""
    from orchestrator.agent_hooks.shim import write_shim

    try:
        write_shim(place.data)
    except OSError as error:
        raise HardwonError(f"{place.data} cannot be written: {error.strerror}") from error


def _tool(name: str) -> HookTool:
    if name not in TOOLS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(TOOLS)}", param_hint="tool")
    return TOOLS[name]


def _scope(*, user: bool, project: bool) -> Scope:
    if user and project:
        raise typer.BadParameter("give either --user or --project")
    return Scope.PROJECT if project else Scope.USER


def _place() -> Place:
    from hardwon.owner.environment import data_directory
    from orchestrator.agent_hooks.installation import Place

    return Place(data=data_directory(os.environ), home=Path.home(), project=Path.cwd(), environment=os.environ)
