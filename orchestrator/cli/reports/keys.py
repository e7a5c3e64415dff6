"""Printing of API keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from knowledge.access.keys import ApiKey, NewKey
from knowledge.access.operations import Scope
from orchestrator.cli.terminal import format_time, notes, out, print_json, print_text
from orchestrator.harmless import sanitize


def print_new_key(made: NewKey, *, as_json: bool) -> None:
    """Print a new key: the secret alone on standard output, its details on standard error."""
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
    ends = "" if made.key.expires_at is None else f", until {format_time(made.key.expires_at)}"
    notes.print(
        f"key {made.key.key_id} may {', '.join(made.key.scopes)} in {where}{ends}. Keep it: it is not shown again."
        " Callers send it as HARDWON_API_KEY, or Authorization: Bearer ...",
        markup=False,
    )


def print_replaced(key_id: str, until: datetime | None) -> None:
    """Print the end of a key that was replaced: at once (None), or `until` then."""
    ends = "does not work any more" if until is None else f"works until {format_time(until)} at most"
    notes.print(f"key {key_id}, which it replaces, {ends}", markup=False)


def print_keys(keys: Sequence[ApiKey], *, as_json: bool) -> None:
    """Print keys with their scopes, and below each its name and use."""
    if as_json:
        print_json({"keys": [asdict(key) for key in keys]})
        return
    if not keys:
        print_text("there is no key yet: hardwon keys create --scope capture --scope query")
        return
    now = datetime.now(UTC)
    for key in keys:
        where = "all workspaces" if key.workspace is None else f"workspace {key.workspace}"
        print_text(f"{key.key_id}  {', '.join(key.scopes)} in {where}, {_state(key, now)}")
        used = "never used" if key.last_used_at is None else f"last used {format_time(key.last_used_at)}"
        name = "no name" if key.name is None else sanitize(key.name)
        out.print(f"  {name}, made {format_time(key.created_at)}, {used}", style="dim", markup=False)


def _state(key: ApiKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return f"revoked {format_time(key.revoked_at)}"
    if key.expires_at is None:
        return "good"
    return f"good until {format_time(key.expires_at)}" if key.is_live(now) else f"expired {format_time(key.expires_at)}"
