"""Entries that wait for their resolution, as one JSON document or for a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from knowledge.models import Entry
from orchestrator.cli.terminal import notes, out, print_json, print_text, told_moment
from orchestrator.entries import to_be_resolved
from orchestrator.harmless import harmless

_BEGINNING = 200


def print_unresolved(entries: Sequence[Entry], *, as_json: bool) -> None:
    """Print what waits: where it came from, and how it begins."""
    if as_json:
        print_json({"unresolved": [asdict(entry) for entry in entries]})
        return
    if not entries:
        print_text("nothing waits for its resolution")
        return
    for entry in entries:
        out.print(f"{entry.entry_id}  {entry.entry_type}", style="bold", markup=False)
        print_text(f"   {_whence(entry)}")
        print_text(f"   {_one_line(to_be_resolved(entry))[:_BEGINNING]}")
    notes.print("hardwon resolve ENTRY --solution or --revision tells what solved one", markup=False)


def _whence(entry: Entry) -> str:
    at = (("project", entry.project_id), ("task", entry.task_id), ("run", entry.run_id), ("gate", entry.gate_type))
    told = [f"{name} {_one_line(value)}" for name, value in at if value]
    return ", ".join([told_moment(entry.captured_at), *told])


def _one_line(text: str) -> str:
    return " ".join(harmless(text).split())
