"""Reviews, revocations and the audit log, for people or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from uuid import UUID

from hardwon.context.sanitize import sanitize
from hardwon.models.access import (
    AffectedTask,
    AlarmKind,
    ApiKey,
    AuditEntry,
    ChainReport,
    FrequentPattern,
    KeyAlarm,
    NewKey,
    Revocation,
    Scope,
)
from hardwon.models.entries import Entry
from hardwon.models.seals import Acceptance, SealHead
from hardwon.text.pluralize import count_of
from knowledge.memory.capture.injection import CONTEXT_FIELDS
from orchestrator.cli.reports.pattern_report import AFTER_OUTSIDE_TEXT
from orchestrator.cli.support.terminal import format_time, notes, one_line, out, print_json, print_text

_MAX_SUMMARY_CHARS = 120


_ALARMS = {
    AlarmKind.CONTRADICTS: "told {} where a trusted solution worked",
    AlarmKind.REPEATS: "told one situation again and again: {}",
    AlarmKind.CROWDS: "crowds a task's situation: {} left out",
    AlarmKind.FAILS: "told solutions that were shown and failed: {}",
}


def print_waiting(
    waiting: Sequence[Entry], alarms: Sequence[FrequentPattern], keys: Sequence[KeyAlarm], *, as_json: bool
) -> None:
    """Print the agents' keys to look at, the entries that wait for a review, and the alarms of patterns."""
    if as_json:
        print_json(
            {
                "waiting": [asdict(entry) for entry in waiting],
                "alarms": [asdict(alarm) for alarm in alarms],
                "key_alarms": [asdict(alarm) for alarm in keys],
            }
        )
        return
    for alarm in keys:
        reports = count_of(alarm.reports, "failure" if alarm.kind is AlarmKind.FAILS else "report")
        out.print(f"key {sanitize(alarm.key_id)} {_ALARMS[alarm.kind].format(reports)}", style="bold")
        print_text(f"   hardwon revoke --key {sanitize(alarm.key_id)} --dry-run")
        for pattern_id in alarm.pattern_ids:
            print_text(f"   hardwon patterns show {pattern_id}")
    if not waiting:
        print_text("nothing waits for a review")
    for entry in waiting:
        by = f"key {entry.captured_by}" if entry.captured_by else "no key"
        outside = AFTER_OUTSIDE_TEXT if entry.outside_text else ""
        out.print(f"{entry.entry_id}  {', '.join(entry.suspicions)}", style="bold")
        print_text(f"   by {by}, {format_time(entry.captured_at)}, project {sanitize(entry.project_id)}{outside}")
        print_text(f"   {_summary(entry)}")
    for shown in alarms:
        print_text(
            f"pattern {shown.pattern_id} was shown for {shown.tasks:,} tasks lately and worked {shown.success_count:,}"
            f" times: hardwon patterns show {shown.pattern_id}"
        )


def _summary(entry: Entry) -> str:
    text = entry.failure_description or entry.human_feedback or entry.approved_approach or ""
    return one_line(text, _MAX_SUMMARY_CHARS)


def print_whole_entry(entry: Entry, *, as_json: bool) -> None:
    """Print all fields of an entry, without control characters."""
    if as_json:
        print_json(asdict(entry))
        return
    out.print(f"{entry.entry_id}  {entry.status}  {', '.join(entry.suspicions)}", style="bold")
    for name in ("project_id", "captured_by", "resolved_by", *CONTEXT_FIELDS):
        if value := getattr(entry, name):
            print_text(f"{name}:\n   " + sanitize(str(value)).replace("\n", "\n   "))
    if entry.outside_text:
        print_text("outside_text:\n   the run had read text from outside of the machine before")
    for text in entry.dead_ends:
        print_text("did not help:\n   " + sanitize(text).replace("\n", "\n   "))


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
    print_text(f"audit log: {count_of(report.rows, 'row')}, {'whole' if report.is_intact else 'NOT as written'}")
    for problem in report.problems:
        print_text(f"   {problem}")
    print_text(f"head {report.head}\nkeep it elsewhere: `hardwon audit verify --head` tells whether it still stands")


def print_head(head: SealHead, *, as_json: bool) -> None:
    """Print a head: one line, whatever the form."""
    if as_json:
        print_json(json.loads(head.line()))
    else:
        print_text(head.line())


def print_acceptance(done: Acceptance, *, as_json: bool) -> None:
    """Print what was taken as it is."""
    if as_json:
        print_json(asdict(done))
    elif done.entry_id is not None:
        print_text(f"entry {done.entry_id} is taken as it is now, and is shown again")
    else:
        print_text(f"the entries that are there are taken for all there are: {done.more_rows:+,}")


def print_seal_key(name: str, *, as_json: bool) -> None:
    """Print the name of the key that seals from now on."""
    if as_json:
        print_json({"key": name})
    else:
        print_text(f"entries are sealed by key {name} from now on; keep a copy of the file seal-keys")


def print_new_key(made: NewKey, *, as_json: bool) -> None:
    """Print a new key: the secret alone on standard output, its details on standard error."""
    if Scope.DOCUMENTS in made.key.scopes and Scope.ADMIN not in made.key.scopes and made.key.name is None:
        notes.print(
            f"key {made.key.key_id} stands for no user: it reads the global knowledge base, and what `hardwon kb"
            " members` gives to that id, which ends with the key. Make one with --name USER for a user's documents",
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
    )


def print_replaced(key_id: str, until: datetime | None) -> None:
    """Print the end of a key that was replaced: at once (None), or `until` then."""
    ends = "does not work any more" if until is None else f"works until {format_time(until)} at most"
    notes.print(f"key {key_id}, which it replaces, {ends}")


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
        out.print(f"  {name}, made {format_time(key.created_at)}, {used}", style="dim")


def _state(key: ApiKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return f"revoked {format_time(key.revoked_at)}"
    if key.expires_at is None:
        return "good"
    return f"good until {format_time(key.expires_at)}" if key.is_live(now) else f"expired {format_time(key.expires_at)}"
