"""Entries that wait for their resolution, for people or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from knowledge.models import Entry
from orchestrator.cli.terminal import format_time, notes, out, print_json, print_text
from orchestrator.entries import text_to_resolve
from orchestrator.harmless import sanitize

_MAX_SUMMARY_CHARS = 200


def print_unresolved(entries: Sequence[Entry], *, as_json: bool) -> None:
    """Print unresolved entries: their origin and the beginning of their text."""
    if as_json:
        print_json({"unresolved": [asdict(entry) for entry in entries]})
        return
    if not entries:
        print_text("nothing waits for its resolution")
        return
    for entry in entries:
        out.print(f"{entry.entry_id}  {entry.entry_type}", style="bold", markup=False)
        print_text(f"   {_origin(entry)}")
        print_text(f"   {_one_line(text_to_resolve(entry))[:_MAX_SUMMARY_CHARS]}")
    notes.print("hardwon resolve ENTRY --solution or --revision resolves one", markup=False)


def _origin(entry: Entry) -> str:
    pairs = (("project", entry.project_id), ("task", entry.task_id), ("run", entry.run_id), ("gate", entry.gate_type))
    fields = [f"{name} {_one_line(value)}" for name, value in pairs if value]
    return ", ".join([format_time(entry.captured_at), *fields])


def _one_line(text: str) -> str:
    return " ".join(sanitize(text).split())
