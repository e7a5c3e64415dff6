"""Lists of what the memory holds, for people or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from hardwon.context.sanitize import sanitize
from hardwon.models.deeds import Deed
from hardwon.models.entries import Entry, EntryDetails
from hardwon.models.lists import ListedPattern, PatternFacets, PatternList, TrendCounts, Trends
from hardwon.models.maintenance import JobState
from hardwon.models.maps import PatternMap
from hardwon.text.pluralize import count_of
from orchestrator.cli.reports.memory_report import describe_lift
from orchestrator.cli.support.terminal import format_time, one_line, print_json, print_text

_MAX_PATTERN_CHARS = 300
_MAX_MARKS = 5
"""Patterns printed of each group."""
ENTRY_TEXTS = (
    "task_description",
    "failure_description",
    "error_message",
    "solution_steps",
    "proposal",
    "human_feedback",
    "revision_approach",
    "approved_approach",
    "when_to_try",
)
"""The texts of an entry, in the order that they are read in."""


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


def print_entry(entry: EntryDetails, *, as_json: bool) -> None:
    """Print an entry's texts, then what corrections replaced, the latest first."""
    if as_json:
        print_json(asdict(entry))
        return
    print_text(f"{entry.entry_id}  {entry.entry_type}  {entry.status}  {format_time(entry.captured_at)}")
    for name in ("project_id", "task_id", "verified_by", "pattern_id", *ENTRY_TEXTS):
        if value := getattr(entry, name):
            print_text(f"{name}:\n   " + sanitize(str(value)).replace("\n", "\n   "))
    for version in entry.history:
        why = "" if version.reason is None else f": {one_line(version.reason)}"
        print_text(f"until {format_time(version.replaced_at)}, corrected by {one_line(version.replaced_by)}{why}")
        for name, text in version.texts.items():
            print_text(f"   {name}: {'-' if text is None else one_line(text, _MAX_PATTERN_CHARS)}")


def _print_facets(facets: PatternFacets) -> None:
    for name, values in asdict(facets).items():
        print_text(f"{name}: {', '.join(f'{one_line(value, 24)} {number:,}' for value, number in values.items())}")


def print_patterns(patterns: Sequence[ListedPattern], *, as_json: bool) -> None:
    """Print patterns: a line of figures each, then the problem and the solution."""
    facets = patterns.facets if isinstance(patterns, PatternList) else None
    if as_json:
        counts: dict[str, Any] = {}
        if isinstance(patterns, PatternList) and facets is not None:
            counts = {"total": patterns.total, "is_capped": patterns.is_capped, "facets": facets}
        print_json({"patterns": [asdict(pattern) for pattern in patterns], **counts})
        return
    if facets is not None:
        _print_facets(facets)
    if not patterns:
        print_text("no pattern fits: hardwon checkpoint makes them from captured entries")
    for pattern in patterns:
        figures = [
            f"worked {pattern.success_count} of {count_of(pattern.attempt_count, 'time')}",
            f"in {count_of(pattern.project_count, 'project')}",
            f"[{pattern.outcomes.replace('w', '+').replace('f', '-')}]",
            f"last seen {format_time(pattern.last_seen_at)}",
            pattern.entry_type,
            one_line(pattern.technology or "-", 16),
            *([] if pattern.trusted else ["by agents' keys alone"]),
            *([f"tags: {one_line(', '.join(pattern.tags))}"] if pattern.tags else []),
        ]
        print_text(f"{pattern.pattern_id}  {'  '.join(figures)}")
        for name, text in (("Problem", pattern.problem), ("Solution", pattern.solution)):
            print_text(f"   {name}: {one_line(text, _MAX_PATTERN_CHARS)}")


def print_trends(trends: Trends, *, as_json: bool) -> None:
    """Print the days that have counts, a line each, their sum, and the lift."""
    if as_json:
        print_json(
            asdict(trends) | {"daily": [{"day": day.day.isoformat(), "counts": day.counts} for day in trends.daily]}
        )
        return
    names = [field.name for field in fields(TrendCounts)]
    rows = [(f"{day.day}", day.counts) for day in trends.daily if day.counts != TrendCounts()]
    rows.append((f"{trends.days} days", trends.total))
    cells = [[title, *(f"{getattr(counts, name):,}" for name in names)] for title, counts in rows]
    print_table(["day", *(name.replace("_", " ") for name in names)], cells)
    print_text(f"lift {describe_lift(trends.lift)}")


def print_map(shown: PatternMap, *, as_json: bool) -> None:
    """Print the groups of the map with their patterns, those with the most successes first."""
    if as_json:
        print_json(asdict(shown))
        return
    if shown.made_at is None:
        print_text("there is no map yet: it is made after the next checkpoint, or by hardwon jobs run project_map")
        return
    for group in shown.groups:
        marks = [mark for mark in shown.marks if mark.group == group.number]
        worked = f"{group.success_count} of {group.attempt_count} attempts worked"
        if marks:
            print_text(f"{group.number}  {', '.join(group.terms)}: {count_of(group.patterns, 'pattern')}, {worked}")
        for mark in marks[:_MAX_MARKS]:
            print_text(f"   {mark.pattern_id}  {one_line(mark.problem)}")
    print_text(f"{count_of(shown.total, 'pattern')}, as of {format_time(shown.made_at)}")


def print_deeds(deeds: Sequence[Deed], *, as_json: bool) -> None:
    """Print decisions, a line each."""
    if as_json:
        print_json({"deeds": [asdict(deed) for deed in deeds]})
        return
    if not deeds:
        print_text("nobody decided anything lately")
        return
    rows = [
        (str(deed.deed_id), format_time(deed.decided_at), deed.state, deed.kind, str(deed.subject), one_line(deed.who))
        for deed in deeds
    ]
    print_table(("deed", "decided", "state", "what", "about", "who"), rows)


def print_deed(deed: Deed, *, as_json: bool) -> None:
    """Print a decision."""
    if as_json:
        print_json(deed)
    else:
        print_deeds([deed], as_json=False)


def print_jobs(jobs: Sequence[JobState], *, as_json: bool) -> None:
    """Print jobs, a line each: schedule, next run, and what came of the last one."""
    if as_json:
        print_json({"jobs": [asdict(job) for job in jobs]})
        return
    rows = [(job.name, job.schedule, format_time(job.next_run_at), _last_run(job)) for job in jobs]
    print_table(("job", "schedule (UTC)", "next run", "last run"), rows)


def _last_run(job: JobState) -> str:
    if not job.runs:
        return "never"
    run = job.runs[0]
    began = format_time(run.began_at)
    if run.finished_at is None:
        return f"{began}, still running"
    if run.error is not None:
        return f"{began}, failed: {one_line(run.error)}"
    one, several = job.item_names
    dealt_with = "" if run.dealt_with is None else f", {run.dealt_with:,} {one if run.dealt_with == 1 else several}"
    return f"{began}, {(run.finished_at - run.began_at).total_seconds():.1f} s{dealt_with}"


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns that are as wide as their longest cell; without heads where there is no row."""
    widths = [max(len(row[at]) for row in (heads, *rows)) for at in range(len(heads))]
    for row in (heads, *rows):
        print_text("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
