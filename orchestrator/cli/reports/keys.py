"""Keys as a command prints them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from knowledge.access.keys import ApiKey, NewKey
from knowledge.access.operations import Scope
from orchestrator.cli.terminal import notes, out, print_json, print_text
from orchestrator.harmless import harmless


def print_made(made: NewKey, *, as_json: bool) -> None:
    """Print a new key: the key alone on standard output, what there is to say of it beside it."""
    if Scope.DOCUMENTS in made.key.scopes and Scope.ADMIN not in made.key.scopes and made.key.name is None:
        notes.print(
            f"key {made.key.key_id} stands for no user: it reads the global knowledge base, and what `hardwon kb"
            " members` gives to that id, which ends with the key. Make one with --name USER for a user's documents",
            markup=False,
        )
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
    """Print keys, each with what it may, and below it whose it is."""
    if as_json:
        print_json({"keys": [asdict(key) for key in keys]})
        return
    if not keys:
        print_text("no key is made yet: hardwon keys create --scope capture --scope query")
        return
    now = datetime.now(UTC)
    for key in keys:
        where = "all workspaces" if key.workspace is None else f"workspace {key.workspace}"
        print_text(f"{key.key_id}  {', '.join(key.scopes)} in {where}, {_state(key, now)}")
        used = "never used" if key.last_used_at is None else f"last used {_day(key.last_used_at)}"
        name = "no name" if key.name is None else harmless(key.name)
        out.print(f"  {name}, made {_day(key.created_at)}, {used}", style="dim", markup=False)


def _state(key: ApiKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return f"revoked {_day(key.revoked_at)}"
    if key.expires_at is None:
        return "good"
    return f"good until {_day(key.expires_at)}" if key.live(now) else f"expired {_day(key.expires_at)}"


def _day(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")
