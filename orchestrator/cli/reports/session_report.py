"""The lessons that runs of coding agents would teach, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hardwon.context.sanitize import sanitize
from knowledge.memory.capture.redaction import redact_entry
from orchestrator.cli.support.terminal import notes, out, print_json
from orchestrator.importers.sessions.lessons.entries import OUTSIDE

if TYPE_CHECKING:
    from orchestrator.cli.reports.memory_report import LeftOut
    from orchestrator.importers.sessions.lessons.entries import LessonEntry

_MAX_CELL_CHARS = 240
_SHORT_ID_CHARS = 8
_FILE_WIDTH = 200
"""Columns of a table that goes to a file or another program."""


def print_lessons(lessons: Sequence[LessonEntry], left_out: LeftOut, *, as_json: bool) -> None:
    """Print lessons that are not captured: what, from where, verified by what, and what was left out and why.

    Their texts are redacted, as they would be stored.
    """
    rows = [_describe(each) for each in lessons]
    if as_json:
        print_json({"lessons": rows, "left_out": dict(left_out.counts), "unread": list(left_out.unread)})
        return
    if rows:
        _print_table(rows)
    else:
        notes.print("nothing would be learned")
    for line in left_out.sentences():
        notes.print(line)


def _describe(each: LessonEntry) -> dict[str, Any]:
    lesson, entry = each.lesson, redact_entry(each.entry)
    verified_by = entry.verified_by
    if lesson.step.decided_by is not None:
        verified_by = f"decided by a {lesson.step.decided_by}"
    return {
        "kind": "outcome" if each.is_echo else str(lesson.kind),
        "reporter": each.reporter,
        "agent": lesson.step.agent,
        "project": entry.project_id,
        "task_id": entry.task_id,
        "run_id": entry.run_id,
        "problem": entry.failure_description or f"{entry.proposal}\n{entry.human_feedback}",
        "error": entry.error_message,
        "solution": entry.solution_steps or entry.revision_approach,
        "verified_by": verified_by,
        "verified": entry.success_verified,
        "why_open": lesson.why_open or None,
        "dead_ends": list(entry.dead_ends),
        "outside_text": entry.outside_text,
        "task_description": entry.task_description,
    }


def _print_table(rows: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_lines=True)
    for name in ("what", "from", "problem", "solution", "verified by"):
        table.add_column(name, overflow="fold")
    for row in rows:
        dead_ends = "".join(f"\n(did not help: {text})" for text in row["dead_ends"])
        solution = f"{row['solution'] or '-'}{dead_ends}"
        verified = row["verified_by"] or f"not: {row['why_open']}"
        _, tool, session = row["reporter"].split(".", 2)
        origin = f"{row['project']}, {tool} {session.removeprefix(OUTSIDE[1:] + '.')[:_SHORT_ID_CHARS]}"
        origin += "\n(after text from outside)" if row["outside_text"] else ""
        cells = (row["kind"], origin, row["problem"], solution, verified)
        table.add_row(*(_cell(text) for text in cells))
    (out.console if out.is_terminal else Console(width=_FILE_WIDTH, highlight=False)).print(table)


def _cell(text: str) -> str:
    from rich.markup import escape

    shown = sanitize(text)
    return escape(shown if len(shown) <= _MAX_CELL_CHARS else f"{shown[:_MAX_CELL_CHARS]} ...")
