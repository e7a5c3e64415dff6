"""Keys as a command prints them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from rich.table import Table

from knowledge.access.keys import ApiKey, NewKey
from orchestrator.terminal import notes, out, print_json, print_text


def print_made(made: NewKey, *, as_json: bool) -> None:
    """Print a new key: the key alone on standard output, what there is to say of it beside it."""
    if as_json:
        print_json({"secret": made.secret, **asdict(made.key)})
        return
    print_text(made.secret)
    where = "all workspaces" if made.key.workspace is None else f"workspace {made.key.workspace}"
    ends = "" if made.key.expires_at is None else f", until {_day(made.key.expires_at)}"
    notes.print(
        f"key {made.key.key_id} may {', '.join(made.key.scopes)} in {where}{ends}. Keep it: it is not shown again."
        " Callers send it as HARDWON_API_KEY, or Authorization: Bearer ...",
        markup=False,
    )


def print_keys(keys: Sequence[ApiKey], *, as_json: bool) -> None:
    """Print keys, a line each."""
    if as_json:
        print_json({"keys": [asdict(key) for key in keys]})
        return
    if not keys:
        print_text("no key is made yet: hardwon keys create --scope capture --scope query")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("id", "name", "may", "in workspace", "made", "last used", "state"):
        table.add_column(column, overflow="fold")
    now = datetime.now(UTC)
    for key in keys:
        used = "never" if key.last_used_at is None else _day(key.last_used_at)
        where = "(all)" if key.workspace is None else key.workspace
        table.add_row(
            key.key_id, key.name or "", ", ".join(key.scopes), where, _day(key.created_at), used, _state(key, now)
        )
    out.print(table, markup=False)


def _state(key: ApiKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return f"revoked {_day(key.revoked_at)}"
    if key.expires_at is None:
        return "good"
    return f"good until {_day(key.expires_at)}" if key.live(now) else f"expired {_day(key.expires_at)}"


def _day(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")
