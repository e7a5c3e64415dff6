"""The results of commands, as one JSON document or for a person."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Self

from knowledge.access.pepper import describe_other_pepper
from knowledge.amounts import count_of
from knowledge.models import (
    CaptureOutcome,
    CaptureResult,
    CheckpointReport,
    Context,
    DeadEntry,
    DistillationReport,
    EntryId,
    Pattern,
    PatternId,
    PruneReport,
    WorkspaceStats,
)
from orchestrator.block import label
from orchestrator.cli.terminal import json_line, notes, out, print_json, print_json_with_list, print_pairs, print_text
from orchestrator.harmless import harmless

if TYPE_CHECKING:
    from knowledge.memory.archiving import ImportReport
    from knowledge.memory.store_upkeep import ModelChoice, ReembedReport
    from knowledge.memory.upkeep import RebuildReport, VerifyReport
    from orchestrator.measuring.demo import DemoReport
    from orchestrator.measuring.doctor import Finding
    from orchestrator.measuring.merging import MergingReport
    from orchestrator.measuring.retrieval import AbstentionReport, RetrievalReport
    from orchestrator.service import Serving

_SHOWN_REFUSALS = 50
_IN_MEMORY = 1024 * 1024
_TOLD = tuple(each.name for each in fields(CaptureResult))


def _scratch() -> IO[str]:
    return SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="utf-8", errors="backslashreplace")


@dataclass(kw_only=True)
class CaptureReport:
    """What became of each line, commit or finding, for a block. `place` is what they are called.

    `nothing` is told where there was none: what one would have been known by. `each`: what was accepted is named as
    well, not only what was refused.

    Answers that are to be printed are kept in a file: there may be a great many.
    """

    place: str
    as_json: bool
    nothing: str
    each: bool = False
    read: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    open: int = 0
    _answers: IO[str] = field(default_factory=_scratch)
    _accepted: IO[str] = field(default_factory=_scratch)

    def __enter__(self) -> Self:
        """Use it for a block."""
        return self

    def __exit__(self, *error: object) -> None:
        """Drop the files."""
        self._answers.close()
        self._accepted.close()

    @property
    def refused(self) -> int:
        """How many were refused."""
        return self.counts[CaptureOutcome.REFUSED]

    def add(self, number: int, answer: CaptureResult) -> None:
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
        elif self.each and not refused:
            status = f" ({answer.status})" if answer.status else ""
            self._accepted.write(f"{self.place} {number} {answer.outcome}: {answer.entry_id}{status}\n")

    def print(self) -> None:
        """Print counts and refusals; in JSON every answer."""
        counts = {outcome.value: self.counts[outcome] for outcome in CaptureOutcome}
        self._answers.seek(0)
        if self.as_json:
            print_json_with_list({**counts, "open": self.open}, "entries", self._answers)
            return
        self._accepted.seek(0)
        for line in self._accepted:
            print_text(line.rstrip("\n"))
        for line in self._answers:
            notes.print(line, end="", markup=False)
        if not self.read:
            notes.print(self.nothing, markup=False)
        more = self.refused - _SHOWN_REFUSALS
        if more > 0:
            notes.print(f"... and {more:,} more refused", markup=False)
        told = ", ".join(f"{number:,} {outcome}" for outcome, number in counts.items())
        still_open = f" ({self.open:,} of them open until they are resolved)" if self.open else ""
        print_text(f"{told}{still_open}")
        if self.open:
            notes.print("hardwon unresolved shows them, hardwon resolve ENTRY tells what solved one", markup=False)


def print_serving(serving: Serving, *, as_json: bool) -> None:
    """Print where the API is served, as soon as it is."""
    if as_json:
        print_json(serving)
        sys.stdout.flush()
        return
    notes.print(f"hardwon serves on {serving.url} (docs at {serving.url}/docs); stop it with Ctrl-C", markup=False)
    if serving.without_keys:
        notes.print(
            "no key is made yet, so whoever is on this machine may do everything: hardwon keys create", markup=False
        )
    if serving.dead_keys:
        notes.print(describe_other_pepper(serving.dead_keys), markup=False)


def print_checkpoint(report: CheckpointReport, *, as_json: bool) -> None:
    """Print what a checkpoint did."""
    if as_json:
        print_json(report)
        return
    if not report.embedded + report.abandoned + report.dead and report.distillation is None:
        print_text("nothing was staged, so nothing was embedded")
        return
    founded = f"{report.founded:,} new pattern{'' if report.founded == 1 else 's'}"
    parts = [f"{report.embedded:,} embedded ({founded}, {report.joined:,} joined one)"]
    for name, number in (("abandoned", report.abandoned), ("dead", report.dead), ("texts cut", report.truncated)):
        if number:
            parts.append(f"{number:,} {name}")
    print_text(", ".join(parts))
    for dead in report.dead_entries[:_SHOWN_REFUSALS]:
        notes.print(f"entry {dead.entry_id} is dead: {dead.reason}", markup=False)
    if report.distillation is not None:
        _print_distillation(report.distillation)


def _print_distillation(told: DistillationReport) -> None:
    parts = [f"{told.distilled:,} of {told.due:,} patterns distilled"]
    left = told.due - told.distilled - told.refused - told.overtaken
    for name, number in (("refused", told.refused), ("overtaken by a deletion", told.overtaken), ("left", left)):
        if number:
            parts.append(f"{number:,} {name}")
    print_text(", ".join(parts))
    for refusal in told.refusals[:_SHOWN_REFUSALS]:
        said = harmless(f"pattern {refusal.pattern_id} is not distilled: {refusal.reason}").replace("\n", " ")
        notes.print(said, markup=False)
    if told.error is not None:
        notes.print(f"distilling ended early: {told.error}", markup=False)


def print_patterns(patterns: Sequence[Pattern], *, as_json: bool) -> None:
    """Print the patterns a query found."""
    if as_json:
        print_json({"patterns": [asdict(pattern) for pattern in patterns], "degraded": None})
        return
    if not patterns:
        print_text("nothing that fits was learned so far")
    for number, pattern in enumerate(patterns, 1):
        out.print(
            f"{number}. {label(pattern.success_count)}, {_record(pattern)}, relevance {pattern.relevance:.2f}"
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
        if pattern.distilled is not None:
            said = f"{pattern.distilled.title}: {pattern.distilled.problem} (written by {pattern.distilled.model})"
            out.print("   In general: " + harmless(said).replace("\n", " "), markup=False)
        out.print()


def _record(pattern: Pattern) -> str:
    """Return how often it worked, of how many attempts where some failed."""
    if pattern.attempt_count > pattern.success_count:
        return f"{pattern.success_count} of {pattern.attempt_count} attempts"
    return "1 success" if pattern.success_count == 1 else f"{pattern.success_count} successes"


def print_context(context: Context, *, as_json: bool) -> None:
    """Print a context as the agent would get it."""
    if as_json:
        print_json(context)
        return
    print_text(context.text)
    if context.degraded:
        notes.print(f"degraded: {context.degraded}", markup=False)


def print_outcome(pattern_id: PatternId, pattern: Pattern | None, *, as_json: bool) -> None:
    """Print the record of a pattern after an outcome was told; None where it cannot be shown, as none of it is live."""
    if as_json:
        print_json(pattern or {"pattern_id": pattern_id})
        return
    if pattern is None:
        print_text(f"pattern {pattern_id}: the outcome is kept; the pattern cannot be shown, as none of it is live")
        return
    print_text(
        f"pattern {pattern.pattern_id}: worked {pattern.success_count} of {pattern.attempt_count} times"
        f" in {pattern.project_count} project{'' if pattern.project_count == 1 else 's'}"
    )


def print_resolved(entry_id: EntryId, resolved: EntryId, *, as_json: bool) -> None:
    """Print that an entry has its resolution, or which entry said the same before."""
    if as_json:
        print_json({"entry_id": resolved})
    elif resolved == entry_id:
        print_text(f"entry {entry_id} is resolved")
    else:
        print_text(
            f"entry {entry_id} is resolved as entry {resolved} was: it counts as an outcome of that one's pattern"
        )


def print_prune(report: PruneReport, *, as_json: bool) -> None:
    """Print what a prune removed."""
    if as_json:
        print_json(report)
        return
    verb = "would go" if report.dry_run else "went"
    print_text(
        f"{count_of(report.entries, 'expired entry')}, {count_of(report.points, 'point')} and"
        f" {count_of(report.patterns, 'pattern')} {verb}; {count_of(report.never_resolved, 'unresolved entry')} {verb}"
    )


def print_stats(stats: WorkspaceStats, *, as_json: bool) -> None:
    """Print a workspace's counts, and the latest dead entries with their reasons."""
    if as_json:
        print_json(stats)
        return
    told = asdict(stats)
    told.pop("workspace")
    told.pop("dead_entries")
    if stats.tokens_per_day is None:
        del told["tokens_today"], told["tokens_per_day"]
    print_pairs(f"workspace {stats.workspace}", {name.replace("_", " "): value for name, value in told.items()})
    for dead in stats.dead_entries:
        print_text(harmless(f"entry {dead.entry_id} is dead: {dead.reason}").replace("\n", " "))
    if stats.dead_entries:
        print_text("hardwon retry-dead stages dead entries again")
    if not any(stats.entries.values()):
        notes.print("nothing is captured here yet: hardwon demo shows how it goes, hardwon capture FILE begins")


def print_verify(report: VerifyReport, *, as_json: bool) -> None:
    """Print how index and Postgres differ."""
    if as_json:
        print_json(asdict(report) | {"sound": report.sound})
        return
    if not report.wrong:
        print_text(f"{_points(report.points, report.passages)}, all as Postgres says")
        return
    told = ", ".join(f"{number:,} {name}" for name, number in report.wrong.items())
    rest = "all put right" if report.repaired else "hardwon verify --repair puts them right"
    print_text(f"{_points(report.points, report.passages)}; {told}: {rest}")
    for name, ids in report.examples.items():
        notes.print(f"{name}: {', '.join(map(str, ids))}", markup=False)


def note_rebuild(cost: RebuildReport) -> None:
    """Say what a rebuild is going to cost."""
    notes.print(f"{_rebuild_cost(cost)}; queries find less until they are back", markup=False)


def _rebuild_cost(cost: RebuildReport) -> str:
    paid = (
        f"{cost.embedded:,} texts without a kept vector are embedded again" if cost.embedded else "nothing is embedded"
    )
    return f"{_points(cost.points, cost.passages)} go back into the index from Postgres, {paid}"


def _points(learned: int, passages: int) -> str:
    return count_of(learned, "point") + (f" and {passages:,} of documents" if passages else "")


def print_rebuild(report: RebuildReport, *, as_json: bool) -> None:
    """Print what a rebuild put back, or would."""
    if as_json:
        print_json(report)
    elif report.dry_run:
        print_text(_rebuild_cost(report))
    else:
        told = _points(report.points, report.passages)
        print_text(f"{told} are back in the index, {report.embedded:,} of them embedded again")


def print_reembed(report: ReembedReport, choice: ModelChoice, *, as_json: bool) -> None:
    """Print what a change of model did, and what to set from now on."""
    if as_json:
        print_json(report)
        return
    if report.switched:
        print_text(
            f"changed from {report.from_model} to {report.to_model}: {report.embedded:,} texts embedded,"
            f" {report.kept:.0%} of nearest neighbours stayed near"
        )
    else:
        done = "nothing is embedded yet" if report.from_model is None else f"{report.to_model} is in use already"
        rest = f"{report.embedded:,} texts that it lacked were embedded" if report.embedded else "nothing was changed"
        print_text(f"{done}: {rest}")
    if report.forgotten:
        print_text(f"the vectors of {report.forgotten:,} other models were dropped")
    wanted = {name: value for name, value in asdict(choice).items() if value is not None and name != "api_key"}
    told = " ".join(f"HARDWON_EMBEDDING_{name.upper()}={shlex.quote(str(value))}" for name, value in wanted.items())
    notes.print(f"from now on start hardwon with {told}", markup=False)


def print_exported(file: str, rows: Mapping[str, int], *, as_json: bool) -> None:
    """Print what an archive holds."""
    size = Path(file).stat().st_size
    if as_json:
        print_json({"file": file, "bytes": size, "rows": rows})
        return
    learned = f"{count_of(rows['knowledge_staging'], 'entry')}, {count_of(rows['patterns'], 'pattern')}"
    rest = f"{count_of(rows['points'], 'point')} and {count_of(rows['kb_documents'], 'document')}"
    print_text(f"{learned}, {rest} are in {file} ({size / 1e6:,.1f} MB)")


def print_entries_exported(file: str, number: int, *, as_json: bool) -> None:
    """Print how many entries are in a file."""
    if as_json:
        print_json({"file": file, "entries": number})
        return
    print_text(f"{count_of(number, 'entry')} in {file}, one JSON a line: hardwon capture takes them back")


def print_imported(report: ImportReport, *, as_json: bool) -> None:
    """Print what an import brought."""
    if as_json:
        print_json(report)
        return

    def part(table: str) -> str:
        return f"{report.new.get(table, 0):,} of {report.rows.get(table, 0):,}"

    print_text(
        f"{part('knowledge_staging')} entries and {part('patterns')} patterns are new here,"
        f" {part('kb_documents')} documents;"
        f" {_points(report.points, report.passages)} are in the index, {report.embedded:,} texts were embedded"
    )


def print_dead(entries: Sequence[DeadEntry], *, as_json: bool) -> None:
    """Print which entries are dead, and why."""
    if as_json:
        print_json({"dead": entries})
        return
    if not entries:
        print_text("no entry is dead")
    for entry in entries:
        print_text(f"{entry.entry_id}  {harmless(entry.reason)}")


def print_workspaces(names: Sequence[str], *, as_json: bool) -> None:
    """Print the names of workspaces."""
    if as_json:
        print_json({"workspaces": names})
        return
    print_text("\n".join(map(harmless, names)) or "no workspace holds anything yet")


def print_deleted(number: int, *, as_json: bool) -> None:
    """Print how many entries went."""
    if as_json:
        print_json({"entries": number})
    else:
        print_text(f"{count_of(number, 'entry')} {'is' if number == 1 else 'are'} deleted")


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


def print_merging(report: MergingReport, *, as_json: bool) -> None:
    """Print how well two tellings of one thing are told from two things."""
    if as_json:
        print_json(report)
        return
    print_pairs("merging", {name.replace("_", " "): value for name, value in asdict(report).items()})


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
        f"Learned {count_of(report.entries, 'entry')}{commits and f' ({report.commits:,} of them fix commits)'} as"
        f" {count_of(report.patterns, 'pattern')}; {report.stored:,} new this time,"
        f" {report.already_known:,} known already"
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
    print_text(f"\nAsk it yourself: {_ourselves()} query failure --workspace demo 'mutable default argument'")


def _ourselves() -> str:
    """Return what to type for this program: `make demo` runs it from an environment that no shell looks into."""
    program = Path(sys.argv[0]).absolute()
    return str(program.relative_to(Path.cwd())) if program.is_relative_to(Path.cwd()) else "hardwon"
