"""Reviews, revocations and the audit log, as one JSON document or for a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from uuid import UUID

from knowledge.amounts import count_of
from knowledge.memory.suspicion import CONTEXT_FIELDS
from knowledge.models import Entry
from knowledge.provenance import AffectedTask, AuditEntry, ChainReport, FrequentPattern, Revocation
from orchestrator.cli.terminal import out, print_json, print_text, told_moment
from orchestrator.harmless import harmless

_BEGINNING = 120


def print_waiting(waiting: Sequence[Entry], alarms: Sequence[FrequentPattern], *, as_json: bool) -> None:
    """Print what waits for a review, and the alarms."""
    if as_json:
        print_json({"waiting": [asdict(entry) for entry in waiting], "alarms": [asdict(alarm) for alarm in alarms]})
        return
    if not waiting:
        print_text("nothing waits for a review")
    for entry in waiting:
        by = f"key {entry.captured_by}" if entry.captured_by else "no key"
        out.print(f"{entry.entry_id}  {', '.join(entry.suspicions)}", style="bold", markup=False)
        print_text(f"   by {by}, {told_moment(entry.captured_at)}, project {harmless(entry.project_id)}")
        print_text(f"   {_beginning(entry)}")
    for alarm in alarms:
        print_text(
            f"pattern {alarm.pattern_id} was shown for {alarm.tasks:,} tasks lately and worked {alarm.success_count:,}"
            f" times: hardwon patterns show {alarm.pattern_id}"
        )


def _beginning(entry: Entry) -> str:
    told = entry.failure_description or entry.human_feedback or entry.approved_approach or ""
    return " ".join(harmless(told).split())[:_BEGINNING]


def print_whole_entry(entry: Entry, *, as_json: bool) -> None:
    """Print all that an entry tells, so that nothing in it moves the cursor."""
    if as_json:
        print_json(asdict(entry))
        return
    out.print(f"{entry.entry_id}  {entry.status}  {', '.join(entry.suspicions)}", style="bold", markup=False)
    for name in ("project_id", "captured_by", "resolved_by", *CONTEXT_FIELDS):
        if told := getattr(entry, name):
            print_text(f"{name}:\n   " + harmless(str(told)).replace("\n", "\n   "))


def print_decided(entry_id: UUID, what: str, *, as_json: bool) -> None:
    """Print what a person decided."""
    if as_json:
        print_json({"entry_id": str(entry_id), "decided": what})
    else:
        print_text(f"entry {entry_id} is {what}")


def print_revocation(report: Revocation, *, as_json: bool) -> None:
    """Print what was taken back, and whom it had reached."""
    if as_json:
        print_json(asdict(report))
        return
    what = "would be deleted" if report.dry_run else "were deleted"
    gone = f"{count_of(report.entries, 'entry')} and {count_of(report.outcomes, 'outcome')} {what}"
    print_text(f"{gone}; {count_of(len(report.affected), 'context')} had held some of the entries")
    if not report.settled:
        print_text("the index does not answer: the next checkpoint or prune deletes their points, no query shows them")
    _print_tasks(report.affected)


def print_affected(tasks: Sequence[AffectedTask], *, as_json: bool) -> None:
    """Print the tasks that entries had reached."""
    if as_json:
        print_json({"affected": [asdict(task) for task in tasks]})
        return
    if not tasks:
        print_text("no context held any of them")
    _print_tasks(tasks)


def _print_tasks(tasks: Sequence[AffectedTask]) -> None:
    for task in tasks:
        named = [f"{name} {harmless(told)}" for name, told in _of(task) if told]
        print_text(f"   {told_moment(task.handed_out_at)}  {', '.join(named)}  context {task.context_id}")


def _of(task: AffectedTask) -> tuple[tuple[str, str | None], ...]:
    return (("project", task.project_id), ("task", task.task_id), ("run", task.run_id), ("agent", task.agent_type))


def print_audit(rows: Sequence[AuditEntry], *, workspace: str | None, as_json: bool) -> None:
    """Print decisions of a workspace, or of the whole store (None)."""
    if as_json:
        told = [{**asdict(row), "hash": row.hash.hex(), "before": row.before.hex()} for row in rows]
        print_json({"decisions": told})
        return
    if not rows:
        print_text(
            "nothing was decided of the whole store"
            if workspace is None
            else f"nothing was decided in workspace {harmless(workspace)};"
            " keys, imports and models are in the log of the whole store: hardwon audit list --store"
        )
    for row in rows:
        print_text(f"{row.number:>6}  {row.at:%Y-%m-%d %H:%M:%S} UTC  {row.who}  {row.what}  {row.details}")


def print_chain(report: ChainReport, *, as_json: bool) -> None:
    """Print whether the log is whole."""
    if as_json:
        print_json({**asdict(report), "whole": report.is_intact})
        return
    print_text(f"{count_of(report.rows, 'row')}, {'whole' if report.is_intact else 'NOT as written'}")
    for problem in report.problems:
        print_text(f"   {problem}")
    print_text(f"head {report.head}\nkeep it elsewhere: `hardwon audit verify --head` tells whether it still stands")
