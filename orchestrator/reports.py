"""The results of commands, as one JSON document or for a person."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Self

from knowledge.models import (
    Captured,
    CaptureOutcome,
    CheckpointReport,
    Context,
    Pattern,
    PruneReport,
    WorkspaceStats,
)
from orchestrator.context import harmless, label
from orchestrator.terminal import json_line, notes, out, print_json, print_json_with_list, print_pairs, print_text

if TYPE_CHECKING:
    from orchestrator.demo import DemoReport
    from orchestrator.doctor import Finding
    from orchestrator.evaluate import AbstentionReport, RetrievalReport
    from orchestrator.service import Serving

_SHOWN_REFUSALS = 50
_IN_MEMORY = 1024 * 1024
_TOLD = tuple(each.name for each in fields(Captured))


def _scratch() -> IO[str]:
    return SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="utf-8", errors="backslashreplace")


@dataclass(kw_only=True)
class CaptureReport:
    """What became of each line, commit or finding, for a block. `place` is what they are called.

    Answers that are to be printed are kept in a file: there may be a great many.
    """

    place: str
    as_json: bool
    read: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    open: int = 0
    _answers: IO[str] = field(default_factory=_scratch)

    def __enter__(self) -> Self:
        """Use it for a block."""
        return self

    def __exit__(self, *error: object) -> None:
        """Drop the file."""
        self._answers.close()

    def add(self, number: int, answer: Captured) -> None:
        """Note the answer to one."""
        self.read += 1
        self.counts[answer.outcome] += 1
        self.open += answer.outcome is CaptureOutcome.ACCEPTED and answer.status == "open"
        refused = answer.outcome is CaptureOutcome.REFUSED
        if self.as_json:
            present = {name: value for name in _TOLD if (value := getattr(answer, name)) is not None}
            self._answers.write(json_line({self.place: number, **present}) + "\n")
        elif refused and self.counts[answer.outcome] <= _SHOWN_REFUSALS:
            name = f"{answer.field}: " if answer.field else ""
            told = harmless(f"{self.place} {number} refused: {name}{answer.error}")
            self._answers.write(told.replace("\n", " ") + "\n")

    def print(self) -> None:
        """Print counts and refusals; in JSON every answer."""
        counts = {outcome.value: self.counts[outcome] for outcome in CaptureOutcome}
        self._answers.seek(0)
        if self.as_json:
            print_json_with_list({**counts, "open": self.open}, "entries", self._answers)
            return
        for line in self._answers:
            notes.print(line, end="", markup=False)
        more = self.counts[CaptureOutcome.REFUSED] - _SHOWN_REFUSALS
        if more > 0:
            notes.print(f"... and {more:,} more refused", markup=False)
        told = ", ".join(f"{number:,} {outcome}" for outcome, number in counts.items())
        still_open = f" ({self.open:,} of them open until they are resolved)" if self.open else ""
        print_text(f"{told}{still_open}")


def print_serving(serving: Serving, *, as_json: bool) -> None:
    """Print where the API is served, as soon as it is."""
    if as_json:
        print_json(serving)
        sys.stdout.flush()
        return
    notes.print(f"hardwon serves on {serving.url} (docs at {serving.url}/docs); stop it with Ctrl-C", markup=False)


def print_checkpoint(report: CheckpointReport, *, as_json: bool) -> None:
    """Print what a checkpoint did."""
    if as_json:
        print_json(report)
        return
    parts = [f"{report.embedded:,} embedded ({report.founded:,} new patterns, {report.joined:,} joined one)"]
    for name, number in (("abandoned", report.abandoned), ("dead", report.dead), ("texts cut", report.truncated)):
        if number:
            parts.append(f"{number:,} {name}")
    print_text(", ".join(parts))
    for dead in report.dead_entries[:_SHOWN_REFUSALS]:
        notes.print(f"entry {dead.entry_id} is dead: {dead.reason}", markup=False)


def print_patterns(patterns: Sequence[Pattern], *, as_json: bool) -> None:
    """Print the patterns a query found."""
    if as_json:
        print_json({"patterns": [asdict(pattern) for pattern in patterns], "degraded": None})
        return
    if not patterns:
        print_text("nothing that fits was learned so far")
    for number, pattern in enumerate(patterns, 1):
        successes = "1 success" if pattern.success_count == 1 else f"{pattern.success_count} successes"
        out.print(
            f"{number}. {label(pattern.success_count)}, {successes}, relevance {pattern.relevance:.2f}"
            f"  [{pattern.entry_type}]",
            style="bold",
            markup=False,
        )
        for name, text in (
            ("Problem", pattern.problem),
            ("Solution", pattern.solution),
            ("When to try", pattern.when_to_try),
        ):
            out.print(f"   {name}: " + harmless(text).replace("\n", "\n     "), markup=False)
        out.print()


def print_context(context: Context, *, as_json: bool) -> None:
    """Print a context as the agent would get it."""
    if as_json:
        print_json(context)
        return
    print_text(context.text)
    if context.degraded:
        notes.print(f"degraded: {context.degraded}", markup=False)


def print_prune(report: PruneReport, *, as_json: bool) -> None:
    """Print what a prune removed."""
    if as_json:
        print_json(report)
        return
    verb = "would go" if report.dry_run else "went"
    print_text(
        f"{report.entries:,} expired entries, {report.points:,} points and {report.patterns:,} patterns {verb};"
        f" {report.never_resolved:,} entries that were never resolved {verb}"
    )


def print_stats(stats: WorkspaceStats, *, as_json: bool) -> None:
    """Print a workspace's counts."""
    if as_json:
        print_json(stats)
        return
    told = asdict(stats)
    told.pop("workspace")
    print_pairs(f"workspace {stats.workspace}", {name.replace("_", " "): value for name, value in told.items()})


def print_findings(findings: Sequence[Finding], *, as_json: bool) -> None:
    """Print what the doctor found."""
    if as_json:
        print_json({"well": all(finding.well for finding in findings), "findings": [asdict(f) for f in findings]})
        return
    for finding in findings:
        mark = "ok  " if finding.well else "FAIL"
        out.print(f"{mark}  {finding.what}: {finding.said}", style="" if finding.well else "bold red", markup=False)


def print_retrieval(report: RetrievalReport, *, as_json: bool) -> None:
    """Print how well finding again works."""
    if as_json:
        print_json(report)
        return
    print_pairs("retrieval", {name.replace("_", " "): value for name, value in asdict(report).items()})


def print_abstention(report: AbstentionReport, *, as_json: bool) -> None:
    """Print how well silence is kept."""
    if as_json:
        print_json(report)
        return
    print_pairs("abstention", {name.replace("_", " "): value for name, value in asdict(report).items()})


def print_demo(report: DemoReport, *, as_json: bool) -> None:
    """Print what the demo met, and one whole context."""
    if as_json:
        print_json(report)
        return
    commits = f" and {report.commits:,} fix commits" if report.commits else ""
    print_text(
        f"Learned {report.entries:,} entries{commits and f' ({report.commits:,} of them fix commits)'} as"
        f" {report.patterns:,} patterns; {report.stored:,} new this time, {report.already_known:,} known already"
        + (f"; {report.entries_per_second:,.1f} entries/s embedded." if report.stored else ".")
    )
    print_text(
        f"Met {report.violations:,} real violations of {report.rules:,} rules in installed packages, code and name"
        " removed:\n"
        f"  right rule first          {report.hit_at_1:6.1%}\n"
        f"  among the first three     {report.hit_at_3:6.1%}\n"
        f"  right first hits that the failure threshold lets through  {report.surviving_right_hits:6.1%}\n"
        f"  query time                p50 {report.query_p50_ms:.1f} ms, p95 {report.query_p95_ms:.1f} ms\n"
    )
    print_text("One context, as an agent gets it:\n")
    print_text(report.context)
    print_text("\nAsk it yourself: hardwon query failure --workspace demo 'mutable default argument'")
