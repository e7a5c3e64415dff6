"""Reviews, revocations and the audit log, for people or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from uuid import UUID

from hardwon.models.access import AffectedTask, AuditEntry, ChainReport, FrequentPattern, Revocation
from knowledge.memory.capture.injection import CONTEXT_FIELDS
from knowledge.models import Entry
from knowledge.text.pluralize import count_of
from orchestrator.cli.support.terminal import format_time, out, print_json, print_text
from orchestrator.context.sanitize import sanitize

_MAX_SUMMARY_CHARS = 120


def print_waiting(waiting: Sequence[Entry], alarms: Sequence[FrequentPattern], *, as_json: bool) -> None:
    """Print the entries that wait for a review, and the alarms."""
    if as_json:
        print_json({"waiting": [asdict(entry) for entry in waiting], "alarms": [asdict(alarm) for alarm in alarms]})
        return
    if not waiting:
        print_text("nothing waits for a review")
    for entry in waiting:
        by = f"key {entry.captured_by}" if entry.captured_by else "no key"
        out.print(f"{entry.entry_id}  {', '.join(entry.suspicions)}", style="bold", markup=False)
        print_text(f"   by {by}, {format_time(entry.captured_at)}, project {sanitize(entry.project_id)}")
        print_text(f"   {_summary(entry)}")
    for alarm in alarms:
        print_text(
            f"pattern {alarm.pattern_id} was shown for {alarm.tasks:,} tasks lately and worked {alarm.success_count:,}"
            f" times: hardwon patterns show {alarm.pattern_id}"
        )


def _summary(entry: Entry) -> str:
    text = entry.failure_description or entry.human_feedback or entry.approved_approach or ""
    return " ".join(sanitize(text).split())[:_MAX_SUMMARY_CHARS]


def print_whole_entry(entry: Entry, *, as_json: bool) -> None:
    """Print all fields of an entry, without control characters."""
    if as_json:
        print_json(asdict(entry))
        return
    out.print(f"{entry.entry_id}  {entry.status}  {', '.join(entry.suspicions)}", style="bold", markup=False)
    for name in ("project_id", "captured_by", "resolved_by", *CONTEXT_FIELDS):
        if value := getattr(entry, name):
            print_text(f"{name}:\n   " + sanitize(str(value)).replace("\n", "\n   "))


def print_decision(entry_id: UUID, what: str, *, as_json: bool) -> None:
    """Print a person's decision on an entry."""
    if as_json:
        print_json({"entry_id": str(entry_id), "decided": what})
    else:
        print_text(f"entry {entry_id} is {what}")


def print_revocation(report: Revocation, *, as_json: bool) -> None:
    """Print a revocation, and the tasks that had used the entries."""
    if as_json:
        print_json(asdict(report))
        return
    what = "would be deleted" if report.dry_run else "were deleted"
    deleted = f"{count_of(report.entries, 'entry')} and {count_of(report.outcomes, 'outcome')} {what}"
    print_text(f"{deleted}; {count_of(len(report.affected), 'context')} had held some of the entries")
    if not report.settled:
        print_text("the index does not answer: the next checkpoint or prune deletes their points, no query shows them")
    _print_tasks(report.affected)


def print_affected(tasks: Sequence[AffectedTask], *, as_json: bool) -> None:
    """Print the tasks that had used some entries."""
    if as_json:
        print_json({"affected": [asdict(task) for task in tasks]})
        return
    if not tasks:
        print_text("no context held any of them")
    _print_tasks(tasks)


def _print_tasks(tasks: Sequence[AffectedTask]) -> None:
    for task in tasks:
        fields = [f"{name} {sanitize(value)}" for name, value in _task_fields(task) if value]
        print_text(f"   {format_time(task.handed_out_at)}  {', '.join(fields)}  context {task.context_id}")


def _task_fields(task: AffectedTask) -> tuple[tuple[str, str | None], ...]:
    return (("project", task.project_id), ("task", task.task_id), ("run", task.run_id), ("agent", task.agent_type))


def print_audit(rows: Sequence[AuditEntry], *, workspace: str | None, as_json: bool) -> None:
    """Print decisions of a workspace, or of the whole store (None)."""
    if as_json:
        decisions = [{**asdict(row), "hash": row.hash.hex(), "before": row.before.hex()} for row in rows]
        print_json({"decisions": decisions})
        return
    if not rows:
        print_text(
            "nothing was decided of the whole store"
            if workspace is None
            else f"nothing was decided in workspace {sanitize(workspace)};"
            " keys, imports and models are in the log of the whole store: hardwon audit list --store"
        )
    for row in rows:
        print_text(f"{row.number:>6}  {row.at:%Y-%m-%d %H:%M:%S} UTC  {row.who}  {row.what}  {row.details}")


def print_chain(report: ChainReport, *, as_json: bool) -> None:
    """Print the verification of the audit log's hash chain."""
    if as_json:
        print_json({**asdict(report), "whole": report.is_intact})
        return
    print_text(f"{count_of(report.rows, 'row')}, {'whole' if report.is_intact else 'NOT as written'}")
    for problem in report.problems:
        print_text(f"   {problem}")
    print_text(f"head {report.head}\nkeep it elsewhere: `hardwon audit verify --head` tells whether it still stands")
