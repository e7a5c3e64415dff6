"""Results of commands on the learning memory, for people or as JSON."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Self

from hardwon.context.sanitize import sanitize
from hardwon.errors import HardwonError
from hardwon.models.entries import CaptureOutcome, CaptureResult, Entry
from hardwon.models.ids import ContextId, EntryId, PatternId
from hardwon.models.patterns import FoundPatterns, Pattern, label
from hardwon.models.reports import (
    CheckpointReport,
    DeadEntry,
    DistillationReport,
    EventResult,
    PruneReport,
    WorkspaceStats,
)
from hardwon.models.seals import SealReport
from hardwon.models.tasks import Context
from hardwon.text.pluralize import count_of
from orchestrator.cli.support.terminal import (
    format_time,
    json_line,
    notes,
    one_line,
    out,
    print_json,
    print_json_with_list,
    print_pairs,
    print_text,
)

if TYPE_CHECKING:
    from hardwon.client.knowledge_client import KnowledgeClient
    from hardwon.models.maintenance import (
        ImportReport,
        ModelChoice,
        RebuildReport,
        RecallReport,
        RedactionReport,
        ReembedReport,
        VerifyReport,
    )
    from hardwon.models.reports import Lift
    from knowledge.adapters.files.backup_files import Backup
    from orchestrator.evaluation.doctor import Finding
    from orchestrator.server.serve import ServiceInfo

_MAX_SHOWN = 50
_MAX_MEMORY_BYTES = 1024 * 1024
_CAPTURED_FIELDS = tuple(each.name for each in fields(CaptureResult))


def _scratch() -> IO[str]:
    return SpooledTemporaryFile(_MAX_MEMORY_BYTES, "w+", encoding="utf-8", errors="backslashreplace")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Items of a source that are not learned: counts by reason, words for the reasons, and unreadable files."""

    counts: Mapping[str, int]
    words: Mapping[str, str] = field(default_factory=dict)
    unread: Sequence[str] = ()

    def sentences(self) -> Iterator[str]:
        """Yield a sentence for each unread file, and one for all that was left out."""
        for file in self.unread[:_MAX_SHOWN]:
            yield sanitize(f"not read: {file}").replace("\n", " ")
        if len(self.unread) > _MAX_SHOWN:
            yield f"... and {len(self.unread) - _MAX_SHOWN:,} more files not read"
        if self.counts:
            told = ", ".join(f"{number:,} {self.words.get(reason, reason)}" for reason, number in self.counts.items())
            yield sanitize(f"left out: {told}").replace("\n", " ")


@dataclass(kw_only=True)
class CaptureReport:
    """Collects the results of a capture for a block. `place` is the word for an item: line, commit or finding.

    `nothing` is printed if there was no item. `each`: accepted items are listed as well, not only refused ones.
    `left_out`: items of the source that teach nothing, by the reason; the reader counts them as it goes on.

    Answers to print are spooled to a file, as there may be very many.
    """

    place: str
    as_json: bool
    nothing: str
    each: bool = False
    left_out: LeftOut | None = None
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
    def refusal_count(self) -> int:
        """Number of refused items."""
        return self.counts[CaptureOutcome.REFUSED]

    def add(self, number: int, answer: CaptureResult) -> None:
        """Add the answer to one item."""
        self.read += 1
        self.counts[answer.outcome] += 1
        self.open += answer.outcome is CaptureOutcome.ACCEPTED and answer.status == "open"
        refused = answer.outcome is CaptureOutcome.REFUSED
        if self.as_json:
            present = {name: value for name in _CAPTURED_FIELDS if (value := getattr(answer, name)) is not None}
            self._answers.write(json_line({self.place: number, **present}) + "\n")
        elif refused and self.counts[answer.outcome] <= _MAX_SHOWN:
            name = f"{answer.field}: " if answer.field else ""
            line = sanitize(f"{self.place} {number} refused: {name}{answer.error}")
            self._answers.write(line.replace("\n", " ") + "\n")
        elif self.each and not refused:
            status = f" ({answer.status})" if answer.status else ""
            self._accepted.write(f"{self.place} {number} {answer.outcome}: {answer.entry_id}{status}\n")

    def print(self) -> None:
        """Print counts and refusals; as JSON all answers."""
        counts = {outcome.value: self.counts[outcome] for outcome in CaptureOutcome}
        self._answers.seek(0)
        if self.as_json:
            left = self.left_out
            told = {"left_out": dict(left.counts), "unread": list(left.unread)} if left is not None else {}
            print_json_with_list({**counts, "open": self.open, **told}, "entries", self._answers)
            return
        self._accepted.seek(0)
        for line in self._accepted:
            print_text(line.rstrip("\n"))
        for line in self._answers:
            notes.print(line.rstrip("\n"))
        for line in self.left_out.sentences() if self.left_out is not None else ():
            notes.print(line)
        if not self.read:
            notes.print(self.nothing)
        more = self.refusal_count - _MAX_SHOWN
        if more > 0:
            notes.print(f"... and {more:,} more refused")
        totals = ", ".join(f"{number:,} {outcome}" for outcome, number in counts.items())
        still_open = f" ({self.open:,} of them open until they are resolved)" if self.open else ""
        print_text(f"{totals}{still_open}")
        if self.each and self.refusal_count:
            notes.print(
                f"capture the refused {self.place}s again once they are put right; what is stored is not doubled"
            )
        if self.open:
            notes.print("hardwon unresolved lists them, hardwon resolve ENTRY resolves one")


def print_service(serving: ServiceInfo, *, as_json: bool) -> None:
    """Print the address of the API, as soon as it is served."""
    if as_json:
        print_json(serving)
        sys.stdout.flush()
        return
    notes.print(f"hardwon serves on {serving.url} (docs at {serving.url}/docs); stop it with Ctrl-C")
    if serving.without_keys:
        notes.print("there is no key yet, so every program on this machine may do everything: hardwon keys create")
    if serving.dead_keys:
        from knowledge.access.keys import describe_other_pepper

        notes.print(describe_other_pepper(serving.dead_keys))


def print_checkpoint(report: CheckpointReport, *, as_json: bool) -> None:
    """Print the report of a checkpoint."""
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
    for dead in report.dead_entries[:_MAX_SHOWN]:
        notes.print(f"entry {dead.entry_id} is dead: {dead.reason}")
    if report.distillation is not None:
        _print_distillation(report.distillation)


def _print_distillation(report: DistillationReport) -> None:
    parts = [f"{report.distilled:,} of {report.due:,} patterns distilled"]
    left = report.due - report.distilled - report.refused - report.overtaken
    for name, number in (("refused", report.refused), ("overtaken by a deletion", report.overtaken), ("left", left)):
        if number:
            parts.append(f"{number:,} {name}")
    print_text(", ".join(parts))
    for refusal in report.refusals[:_MAX_SHOWN]:
        line = sanitize(f"pattern {refusal.pattern_id} is not distilled: {refusal.reason}").replace("\n", " ")
        notes.print(line)
    if report.error is not None:
        notes.print(f"distilling ended early: {report.error}")


def print_patterns(patterns: Sequence[Pattern], *, as_json: bool) -> None:
    """Print the patterns that a query found."""
    degraded = patterns.degraded if isinstance(patterns, FoundPatterns) else None
    if as_json:
        print_json({"patterns": [asdict(pattern) for pattern in patterns], "degraded": degraded})
        return
    if degraded:
        notes.print(f"degraded: {degraded}")
    if not patterns:
        print_text("nothing that fits was learned so far")
    for number, pattern in enumerate(patterns, 1):
        out.print(
            f"{number}. {label(pattern.success_count)}, {_record(pattern)}, relevance {pattern.relevance:.2f}"
            f"  [{pattern.entry_type}]",
            style="bold",
        )
        for name, text in (
            ("Problem", pattern.problem),
            ("Solution", pattern.solution),
            ("When to try", pattern.when_to_try),
        ):
            out.print(f"   {name}: " + sanitize(text).replace("\n", "\n     "))
        if pattern.distilled is not None:
            line = f"{pattern.distilled.title}: {pattern.distilled.problem} (written by {pattern.distilled.model})"
            out.print("   In general: " + sanitize(line).replace("\n", " "))
        out.print()


def _record(pattern: Pattern) -> str:
    """Return the number of successes, and of attempts if some failed."""
    if pattern.attempt_count > pattern.success_count:
        return f"{pattern.success_count} of {pattern.attempt_count} attempts"
    return "1 success" if pattern.success_count == 1 else f"{pattern.success_count} successes"


async def find_problems(knowledge: KnowledgeClient, context: Context) -> dict[PatternId, str]:
    """Return the problems of the candidates of a context without patterns, those that can be read."""
    problems = {}
    for each in context.candidates:
        with suppress(HardwonError):
            problems[each.pattern_id] = (await knowledge.queries.get(each.pattern_id)).problem
    return problems


_SILENCE = {
    "nothing_near": "nothing is near enough",
    "not_sure": "what is near is likely not right for this task",
    "agent_knows": "the agent is likelier to be right without a hint",
    "held_out": "held out by chance, to measure the lift",
}


def print_context(context: Context, problems: Mapping[PatternId, str], *, as_json: bool) -> None:
    """Print a context as an agent would get it; without patterns, also why, with the problems of what was near."""
    if as_json:
        print_json(context)
        return
    print_text(context.text)
    if context.degraded:
        notes.print(f"degraded: {context.degraded}")
    if context.patterns or context.reason not in _SILENCE:
        return
    notes.print(f"no pattern is shown: {_SILENCE[context.reason]}")
    for each in context.candidates:
        notes.print(f"   {each.pattern_id}  relevance {each.relevance:.2f}  {each.withheld}")
        if each.pattern_id in problems:
            notes.print(f"      {one_line(problems[each.pattern_id], _MAX_SUMMARY_CHARS)}")


def print_unaided(context_id: ContextId, *, worked: bool, as_json: bool) -> None:
    """Print that the result of a task without a hint is recorded."""
    if as_json:
        print_json({"context_id": context_id, "worked": worked})
    else:
        print_text(f"context {context_id}: the task was {'solved' if worked else 'not solved'} without a hint")


def print_outcome(pattern_id: PatternId, pattern: Pattern | None, *, as_json: bool) -> None:
    """Print the record of a pattern after an outcome; None if it cannot be shown, as no entry of it is live."""
    if as_json:
        print_json(pattern or {"pattern_id": pattern_id})
        return
    if pattern is None:
        print_text(
            f"pattern {pattern_id}: the outcome is stored; the pattern cannot be shown, as no entry of it is live"
        )
        return
    print_text(
        f"pattern {pattern.pattern_id}: worked {pattern.success_count} of {pattern.attempt_count} times"
        f" in {pattern.project_count} project{'' if pattern.project_count == 1 else 's'}"
    )


def print_resolved(entry_id: EntryId, resolved: EntryId, *, as_json: bool) -> None:
    """Print that an entry is resolved, or the earlier entry with the same content."""
    if as_json:
        print_json({"entry_id": resolved})
    elif resolved == entry_id:
        print_text(f"entry {entry_id} is resolved")
    else:
        print_text(
            f"entry {entry_id} is resolved as entry {resolved} was: it counts as an outcome of that one's pattern"
        )


def print_event(result: EventResult, *, as_json: bool) -> None:
    """Print the entries and outcomes of an event, and what of it could not be stored."""
    if as_json:
        print_json(result)
        return
    entries = ", ".join(map(str, result.entry_ids)) or "none"
    print_text(f"entries: {entries}; outcomes: {result.outcomes}")
    if result.already_resolved:
        print_text("its failure is resolved already")
    if result.degraded:
        print_text(result.degraded)


def print_prune(report: PruneReport, *, as_json: bool) -> None:
    """Print the report of a prune."""
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
    fields = asdict(stats)
    fields.pop("workspace")
    fields.pop("dead_entries")
    fields["lift"] = describe_lift(stats.lift)
    if stats.tokens_per_day is None:
        del fields["tokens_today"], fields["tokens_per_day"]
    print_pairs(f"workspace {stats.workspace}", {name.replace("_", " "): value for name, value in fields.items()})
    for dead in stats.dead_entries:
        print_text(sanitize(f"entry {dead.entry_id} is dead: {dead.reason}").replace("\n", " "))
    if stats.dead_entries:
        print_text("hardwon retry-dead stages dead entries again")
    if not any(stats.entries.values()):
        notes.print("nothing is captured here yet: try hardwon demo, or begin with hardwon capture FILE")


def describe_lift(lift: Lift | None) -> str:
    """Return how much hints help, in words."""
    if lift is None or not lift.hinted + lift.held_out:
        return "unknown: no task has a reported outcome"
    tasks = f"{lift.hinted_solved} of {lift.hinted} tasks solved with a hint"
    held = f"{lift.held_out_solved} of {lift.held_out} held out"
    if lift.lift is None or lift.low is None or lift.high is None:
        return f"unknown: {tasks}, {held}"
    return f"{lift.lift:+.2f} [{lift.low:+.2f}, {lift.high:+.2f}]: {tasks}, {held}"


def print_verify(report: VerifyReport, *, as_json: bool) -> None:
    """Print the differences between the index and Postgres."""
    if as_json:
        print_json(asdict(report) | {"sound": report.sound})
        return
    if report.recall is not None:
        _print_recall(report.recall)
    if report.seals is not None:
        _print_seals(report.seals)
    if not report.wrong:
        print_text(f"{_points(report.points, report.passages)}, all as in Postgres")
        return
    differences = ", ".join(f"{number:,} {name}" for name, number in report.wrong.items())
    rest = "all repaired" if report.repaired else "hardwon verify --repair repairs them"
    print_text(f"{_points(report.points, report.passages)}; {differences}: {rest}")
    for name, ids in report.examples.items():
        notes.print(f"{name}: {', '.join(map(str, ids))}")


def _print_seals(report: SealReport) -> None:
    """Print what vouches for the entries, and what is not as it was stored."""
    if report.is_intact and report.since is not None:
        since = f"vouched for since {report.since:%Y-%m-%d %H:%M} UTC"
        print_text(f"{count_of(report.rows, 'entry')} as hardwon stored them; {since}")
    for problem in report.problems:
        print_text(problem)
    if not report.is_intact:
        print_text("what was altered is not shown; `hardwon audit accept` takes it as it is, with a reason")


def _print_recall(report: RecallReport) -> None:
    """Print the recall of the searches by conditions, and what to do where it is low."""
    if not report.samples:
        print_text("nothing is embedded yet: there is nothing to search")
    for sample in report.samples:
        print_text(
            f"{sample.collection} by {sample.conditions}: {sample.recall:.3f} of the nearest are found"
            f" ({count_of(sample.searches, 'search')})"
        )
    for advice in report.advice:
        print_text(advice)


def note_rebuild(cost: RebuildReport) -> None:
    """Print the cost of a rebuild before it begins."""
    notes.print(f"{_rebuild_cost(cost)}; queries find less until they are back")


def _rebuild_cost(cost: RebuildReport) -> str:
    embedded = (
        f"{cost.embedded:,} texts without a stored vector are embedded again"
        if cost.embedded
        else "nothing is embedded"
    )
    return f"{_points(cost.points, cost.passages)} go back into the index from Postgres, {embedded}"


def _points(learned: int, passages: int) -> str:
    return count_of(learned, "point") + (f" and {passages:,} of documents" if passages else "")


def print_rebuild(report: RebuildReport, *, as_json: bool) -> None:
    """Print the points that a rebuild restored, or would restore."""
    if as_json:
        print_json(report)
    elif report.dry_run:
        print_text(_rebuild_cost(report))
    else:
        points = _points(report.points, report.passages)
        print_text(f"{points} are back in the index, {report.embedded:,} of them embedded again")


def print_redactions(reports: Mapping[str, RedactionReport], *, as_json: bool) -> None:
    """Print what was taken out of the stores, workspace by workspace."""
    if as_json:
        print_json({name: asdict(report) for name, report in reports.items()})
        return
    for name, report in reports.items():
        rows = f"{count_of(report.entries + report.merged, 'entry')}, {count_of(report.documents, 'document')} and"
        changes = f"{rows} {count_of(report.records, 'other row')}"
        if report.dry_run:
            print_text(f"workspace {name}: {changes} have secrets in them")
        else:
            merged = f", of which {report.merged:,} had become the same as others" if report.merged else ""
            print_text(f"workspace {name}: {changes} redacted{merged}; {report.embedded:,} embedded")
        for kind, number in report.kinds.items():
            print_text(f"  {kind}: {number:,}")
        if report.audited:
            sealed = count_of(report.audited, "decision")
            print_text(f"  {sealed} in the audit log keep theirs: each row is sealed by the next one")
        if report.postponed:
            print_text(f"  the rest waits for the next checkpoint: {report.postponed}")


def print_layout(report: RebuildReport, *, as_json: bool) -> None:
    """Print what a new layout changed, or would change."""
    if as_json:
        print_json(report)
    elif not report.layout_changes:
        print_text("the index is laid out as the settings ask: nothing to do")
    else:
        verb = "would be written" if report.dry_run else "were written"
        print_text(
            f"{'; '.join(report.layout_changes)}: {_points(report.points, report.passages)} {verb} from Postgres,"
            " nothing is embedded"
        )


def print_reembed(report: ReembedReport, choice: ModelChoice, *, as_json: bool) -> None:
    """Print the report of a change of model, and the settings to use from now on."""
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
    chosen = {name: value for name, value in asdict(choice).items() if value is not None and name != "api_key"}
    settings = " ".join(f"HARDWON_EMBEDDING_{name.upper()}={shlex.quote(str(value))}" for name, value in chosen.items())
    notes.print(f"from now on start hardwon with {settings}")


def print_exported(file: str, rows: Mapping[str, int], *, as_json: bool) -> None:
    """Print the contents of an archive."""
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


def print_backup(backup: Backup, *, as_json: bool) -> None:
    """Print a backup that passed its trial."""
    record = backup.record
    if as_json:
        print_json({"path": backup.path, **asdict(record)})
        return
    entries = count_of(record.rows.get("knowledge_staging", 0), "entry")
    print_text(
        f"{backup.path}: {entries}, {record.size / 1e6:,.1f} MB{', encrypted' if record.is_encrypted else ''};"
        f" restored and verified, {count_of(record.answers, 'query')} answered as before"
    )


def note_put_aside(folder: Path) -> None:
    """Say where the stores are that a restore took the place of."""
    notes.print(f"the stores of before are in {folder}: delete it once you need them no more")


def print_imported(report: ImportReport, *, as_json: bool) -> None:
    """Print the report of an import."""
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
    """Print dead entries with their reasons."""
    if as_json:
        print_json({"dead": entries})
        return
    if not entries:
        print_text("no entry is dead")
    for entry in entries:
        print_text(f"{entry.entry_id}  {sanitize(entry.reason)}")


def print_staged_again(number: int, *, as_json: bool) -> None:
    """Print the number of dead entries that are staged again."""
    if as_json:
        print_json({"staged": number})
    else:
        print_text(f"{number:,} dead entries are staged again")


def print_workspaces(names: Sequence[str], *, as_json: bool) -> None:
    """Print the names of workspaces."""
    if as_json:
        print_json({"workspaces": names})
        return
    print_text("\n".join(map(sanitize, names)) or "no workspace holds anything yet")


def print_deleted(number: int, *, as_json: bool) -> None:
    """Print the number of deleted entries."""
    if as_json:
        print_json({"entries": number})
    else:
        print_text(f"{count_of(number, 'entry')} {'is' if number == 1 else 'are'} deleted")


def print_entry_deleted(_: None, *, as_json: bool) -> None:
    """Print that an entry is deleted."""
    print_deleted(1, as_json=as_json)


def print_findings(findings: Sequence[Finding], *, as_json: bool) -> None:
    """Print the findings of the doctor."""
    if as_json:
        print_json({"well": all(finding.well for finding in findings), "findings": [asdict(f) for f in findings]})
        return
    for finding in findings:
        mark = "ok  " if finding.well else "FAIL"
        out.print(f"{mark}  {finding.what}: {finding.said}", style="" if finding.well else "bold red")


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
        out.print(f"{entry.entry_id}  {entry.entry_type}", style="bold")
        print_text(f"   {_origin(entry)}")
        from orchestrator.entries import text_to_resolve

        print_text(f"   {one_line(text_to_resolve(entry), _MAX_SUMMARY_CHARS)}")
    notes.print("hardwon resolve ENTRY --solution or --revision resolves one")


def _origin(entry: Entry) -> str:
    pairs = (("project", entry.project_id), ("task", entry.task_id), ("run", entry.run_id), ("gate", entry.gate_type))
    fields = [f"{name} {one_line(value, _MAX_SUMMARY_CHARS)}" for name, value in pairs if value]
    return ", ".join([format_time(entry.captured_at), *fields])
