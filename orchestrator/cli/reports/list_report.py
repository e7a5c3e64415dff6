"""Lists of what the memory holds, for people or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from hardwon.context.sanitize import sanitize
from hardwon.models.entries import Entry
from orchestrator.cli.support.terminal import format_time, print_json, print_text

_MAX_SUMMARY_CHARS = 100


def print_recent(entries: Sequence[Entry], *, as_json: bool) -> None:
    """Print entries as a table, a line each."""
    if as_json:
        print_json({"entries": [asdict(entry) for entry in entries]})
        return
    if not entries:
        print_text("no entry fits: hardwon capture and hardwon learn store entries")
        return
    rows = [
        (
            format_time(entry.captured_at),
            entry.status,
            entry.entry_type,
            one_line(entry.project_id, 24),
            one_line(entry.technology or "-", 16),
            one_line(entry.failure_description or entry.human_feedback or entry.approved_approach or ""),
            str(entry.entry_id),
        )
        for entry in entries
    ]
    print_table(("captured", "status", "type", "project", "technology", "text", "entry"), rows)


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns that are as wide as their longest cell; without heads where there is no row."""
    widths = [max(len(row[at]) for row in (heads, *rows)) for at in range(len(heads))]
    for row in (heads, *rows):
        print_text("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def one_line(text: str, most: int = _MAX_SUMMARY_CHARS) -> str:
    """Return the beginning of a stored text on one line, without control characters."""
    line = " ".join(sanitize(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
