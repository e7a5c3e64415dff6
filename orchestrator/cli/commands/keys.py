"""The commands of API keys."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

import typer

from hardwon.models.access import ApiKey, Scope
from hardwon.models.ids import DEFAULT_WORKSPACE
from orchestrator.cli.support.run import Json, run

keys = typer.Typer(help="Make, list, rotate and revoke the keys of a server.", no_args_is_help=True)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_KEY_ID = re.compile(r"(?:hw_)?(?P<id>[0-9a-f]{12})(?:_[A-Za-z0-9_-]{43})?")
_SPAN = re.compile(r"(?P<number>\d{1,9})(?P<unit>[smhdw])")


def parse_span(text: str) -> timedelta:
    """Return the span of time in a typed text, such as 90d. Raises a usage error for another form or over 100 years."""
    from hardwon.validation import MAX_DURATION

    match = _SPAN.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"give a number and s, m, h, d or w, such as 90d, not {text!r}")
    seconds = int(match["number"]) * _UNITS[match["unit"]]
    if seconds > MAX_DURATION.total_seconds():
        raise typer.BadParameter(f"give at most 100 years ({MAX_DURATION.days}d), not {text!r}")
    return timedelta(seconds=seconds)


def parse_lifetime(text: str) -> timedelta:
    """Return the lifetime of a key in a typed text. Raises a usage error as `parse_span`, and for zero."""
    span = parse_span(text)
    if not span:
        raise typer.BadParameter(f"a key that ends at once opens nothing: give a time such as 90d, not {text!r}")
    return span


def parse_key_id(text: str) -> str:
    """Return the key id in a typed text, which may be a whole key. Raises a usage error for another form."""
    match = _KEY_ID.fullmatch(text)
    if match is None:
        raise typer.BadParameter(
            "a key's id is 12 hexadecimal digits, such as 3f9a1c7e5b2d: hardwon keys list shows them"
        )
    return match["id"]


KeyId = Annotated[
    str, typer.Argument(parser=parse_key_id, metavar="KEY_ID", help="The key's id, as `keys list` shows it.")
]
Span = Annotated[
    timedelta | None,
    typer.Option(
        parser=parse_lifetime, metavar="SPAN", help="When it ends, such as 90d or 12h from now; never if left out."
    ),
]


@keys.command("create")
def create(
    scopes: Annotated[
        list[Scope],
        typer.Option(
            "--scope",
            help="capture: agents. query: the orchestrator, with capture. documents: one who asks documents, the user"
            " that the key is named after. review: people who decide. admin: all. Repeatable.",
        ),
    ],
    workspace: Annotated[str, typer.Option(help="The only workspace the key reaches.")] = DEFAULT_WORKSPACE,
    name: Annotated[
        str | None, typer.Option(help="Whose key it is; with the scope documents, the user it stands for.")
    ] = None,
    expires: Span = None,
    *,
    all_workspaces: Annotated[
        bool, typer.Option("--all-workspaces", help="Reach every workspace; callers name the one they mean.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a key and print it, only this once. From the first key on, servers on TCP ask everybody for one."""
    from orchestrator.cli.reports.curation_report import print_new_key
    from orchestrator.cli.support.session import connect

    async def work() -> None:
        async with connect() as knowledge:
            where = None if all_workspaces else workspace
            made = await knowledge.keys.create(scopes, workspace=where, name=name, expires_in=expires)
        print_new_key(made, as_json=as_json)

    run(work)


@keys.command("list")
def list_(*, as_json: Json = False) -> None:
    """Show all keys, also those that ended. Without their secrets, which are kept nowhere."""
    from knowledge.access.keys import MAX_PAGE
    from orchestrator.cli.reports.curation_report import print_keys
    from orchestrator.cli.support.session import connect

    async def work() -> None:
        found: list[ApiKey] = []
        async with connect() as knowledge:
            while page := await knowledge.keys.list(after=found[-1].key_id if found else None, limit=MAX_PAGE):
                found += page
                if len(page) < MAX_PAGE:
                    break
        print_keys(found, as_json=as_json)

    run(work)


@keys.command("rotate")
def rotate(
    key_id: KeyId,
    overlap: Annotated[
        timedelta,
        typer.Option(parser=parse_span, metavar="SPAN", help="How long the old key still works, such as 24h or 0s."),
    ] = "24h",  # type: ignore[assignment] # parsed like what is typed
    *,
    as_json: Json = False,
) -> None:
    """Replace a key by a new one, and print that. The old one ends after the overlap."""
    from orchestrator.cli.reports.curation_report import print_new_key, print_replaced
    from orchestrator.cli.support.session import connect

    async def work() -> None:
        async with connect() as knowledge:
            made = await knowledge.keys.rotate(key_id, overlap=overlap)
        print_new_key(made, as_json=as_json)
        if not as_json:
            print_replaced(key_id, made.key.created_at + overlap if overlap else None)

    run(work)


@keys.command("revoke")
def revoke(key_id: KeyId, *, as_json: Json = False) -> None:
    """End a key for good. At once on this server, within seconds on others of the same stores."""
    from orchestrator.cli.support.session import connect
    from orchestrator.cli.support.terminal import print_json, print_text

    async def work() -> None:
        async with connect() as knowledge:
            await knowledge.keys.revoke(key_id)
        if as_json:
            print_json({"revoked": key_id})
        else:
            print_text(f"key {key_id} opens nothing any more")

    run(work)
