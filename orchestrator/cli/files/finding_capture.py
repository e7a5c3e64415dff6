"""Capture of findings: those that are known stay one entry, and one that is gone resolves its own open entry.

An entry that is open has its task's id; among equal findings of a file, the one with the same text is meant, else the
one in the same order.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hardwon.errors import AccessDenied, Conflict, InvalidInput, NotFound
from hardwon.models.entries import CaptureOutcome, CaptureResult, Entry, EntryStatus, EntryType, NewEntry
from hardwon.validation import check_text
from orchestrator.cli.files.capture_files import BATCH, capture_batches, run_in_daemon_thread
from orchestrator.cli.reports.memory_report import CaptureReport, LeftOut
from orchestrator.cli.support.session import connect
from orchestrator.cli.support.terminal import stages
from orchestrator.importers.findings.finding import (
    Finding,
    number_findings,
    without_ordinal,
    without_snippet,
)
from orchestrator.importers.findings.lifecycle import Comparison, compare
from orchestrator.importers.findings.reports import Reading, read_reports
from orchestrator.importers.junit import read_diff

if TYPE_CHECKING:
    from hardwon.client.knowledge_client import KnowledgeClient

_PAGE = 100
_MAX_OPEN = 20_000
"""Open entries of a project that are looked through; ours."""
_REPEATED = "in another of these reports too"
_LINE_OF_PLACE = re.compile(r":\d+(?= in |$)", re.MULTILINE)
_UNKNOWN_REMEDY = "gone, but nothing says what mended them: give --solution or --diff"


async def learn_findings(
    files: Sequence[Path],
    after: Sequence[Path],
    *,
    project: str | None,
    solution: str | None,
    diff: Path | None,
    same_files: bool,
    workspace: str,
    as_json: bool,
) -> None:
    """Read reports and capture their findings; print the result of each. Raises InvalidInput."""
    if project is not None:
        check_text("project", project)
    if solution is not None:
        check_text("solution", solution)
    given = solution if diff is None else read_diff(diff)

    def read() -> tuple[Comparison, list[InvalidInput]]:
        before = read_reports(files, project=project)
        later = read_reports(after, project=project) if after else None
        return _select(before, later, same_files=same_files), before.refused + (later.refused if later else [])

    comparison, refused = await run_in_daemon_thread(read)
    findings = [replace(each, remedy=given) if given and each.absent else each for each in comparison.findings]
    nothing = "the report has no findings"
    left_out = LeftOut(counts=comparison.left_out)
    with CaptureReport(place="finding", as_json=as_json, nothing=nothing, left_out=left_out) as report:
        async with connect(workspace=workspace) as knowledge:
            with stages(quiet=as_json) as progress:
                capture = _FindingCapture(
                    knowledge=knowledge, report=report, left_out=comparison.left_out, is_given=given is not None
                )
                await capture.capture_all(findings, refused, progress.stage("Capturing"))
        report.print()


def _select(before: Reading, later: Reading | None, *, same_files: bool) -> Comparison:
    """Return the findings that are failures, with their ids."""
    if later is None:
        found = [each for report in before.reports for each in number_findings(report.findings) if not each.suppressed]
        return _drop_repeated(found, before)
    comparison = compare(before.reports, later.reports, same_files=same_files)
    comparison.left_out += before.left_out + later.left_out
    return comparison


def _drop_repeated(findings: Sequence[Finding], reading: Reading) -> Comparison:
    """Return each finding once, though several reports of a run have it; that it is gone counts more."""
    kept: dict[tuple[str, str, str], Finding] = {}
    for number, finding in enumerate(findings):
        identity = (finding.tool, finding.project, finding.task_id or f"without an id {number}")
        earlier = kept.get(identity)
        if earlier is not None:
            reading.left_out[_REPEATED] += 1
        if earlier is None or (finding.absent and not earlier.absent):
            kept[identity] = finding
    return Comparison(findings=list(kept.values()), left_out=reading.left_out)


@dataclass(kw_only=True)
class _FindingCapture:
    """Captures findings in one workspace."""

    knowledge: KnowledgeClient
    report: CaptureReport
    left_out: Counter[str]
    is_given: bool
    """Whether the user said what mended the findings."""
    _open: list[Entry] = field(default_factory=list)

    async def capture_all(
        self,
        findings: Sequence[Finding],
        refused: Sequence[InvalidInput],
        progress: Callable[[int, int | None], None] | None,
    ) -> None:
        """Capture the findings that are new, resolve the open entries of those that are gone, pass over the others."""
        known: dict[int, Entry] = {}
        by_project: dict[str, list[int]] = defaultdict(list)
        for at, finding in enumerate(findings):
            by_project[finding.entry().project_id].append(at)
        for project, members in by_project.items():
            entries = await self._open_entries(project)
            taken = _match({at: findings[at] for at in members}, entries)
            known |= taken
        rows = []
        for number, finding in enumerate(findings, start=1):
            entry = known.get(number - 1)
            if entry is not None:
                self.report.add(number, await self._settle(finding, entry))
            elif finding.absent and not finding.remedy.strip():
                self.left_out[_UNKNOWN_REMEDY] += 1
            else:
                rows.append((number, finding.entry()))
        for number, error in enumerate(refused, start=len(findings) + 1):
            self.report.add(
                number, CaptureResult(outcome=CaptureOutcome.REFUSED, field=error.field, error=error.reason)
            )
        each = iter(rows)
        first = [row for row, _ in zip(each, range(BATCH), strict=False)]
        await capture_batches(self.knowledge.capture, list(first), iter(rows[len(first) :]), self.report, progress)

    async def _open_entries(self, project: str) -> list[Entry]:
        """Return the open failures of a project; none where the caller's key may not read."""
        found: list[Entry] = []
        after = None
        try:
            while len(found) < _MAX_OPEN:
                page = await self.knowledge.capture.unresolved(project_id=project, limit=_PAGE, after=after)
                found += page
                if len(page) < _PAGE:
                    break
                after = page[-1].entry_id
        except (AccessDenied, NotFound):
            return []
        wanted = EntryType.FAILURE_SOLUTION
        return [each for each in reversed(found) if each.entry_type is wanted and each.status is EntryStatus.OPEN]

    async def _settle(self, finding: Finding, entry: Entry) -> CaptureResult:
        """Resolve the open entry of a finding that is gone; the entry of one that is still there stays as it is."""
        solution = finding.remedy if self.is_given else entry.solution_steps or finding.remedy
        new = finding.entry()
        if not finding.absent:
            return CaptureResult(outcome=CaptureOutcome.DUPLICATE, entry_id=entry.entry_id, status=entry.status)
        if not solution.strip():
            self.left_out[_UNKNOWN_REMEDY] += 1
            return CaptureResult(outcome=CaptureOutcome.DUPLICATE, entry_id=entry.entry_id, status=entry.status)
        verified_by = new.verified_by or finding.verified_by or f"{finding.tool}: absent from a later run"
        try:
            resolved = await self.knowledge.capture.resolve_failure(
                entry.entry_id, solution_steps=solution, verified_by=verified_by[:500]
            )
        except (InvalidInput, Conflict, NotFound) as error:
            return CaptureResult(outcome=CaptureOutcome.REFUSED, entry_id=entry.entry_id, error=str(error))
        return CaptureResult(outcome=CaptureOutcome.ACCEPTED, entry_id=resolved, status=EntryStatus.STAGED)


def _match(findings: dict[int, Finding], entries: Sequence[Entry]) -> dict[int, Entry]:
    """Return the open entry of each finding that has one: by its text, by its identity, by all but the matched text."""
    found: dict[int, Entry] = {}
    free = {entry.entry_id: entry for entry in entries if entry.task_id}
    gone = [at for at, finding in findings.items() if finding.absent]
    there = [at for at, finding in findings.items() if not finding.absent]

    def take(
        members: Iterable[int], of_finding: Callable[[Finding], object], of_entry: Callable[[Entry], object]
    ) -> None:
        waiting: dict[object, list[Entry]] = defaultdict(list)
        for entry in free.values():
            waiting[of_entry(entry)].append(entry)
        for at in members:
            if at not in found and (same := waiting.get(of_finding(findings[at]))):
                found[at] = same.pop(0)
                del free[found[at].entry_id]

    def base(task_id: str | None) -> str:
        return without_ordinal(task_id or "")

    for members in (gone, there):
        take(
            members,
            lambda each: (base(each.task_id), each.entry().failure_description),
            lambda entry: (base(entry.task_id), entry.failure_description),
        )
    for members in (there, gone):
        take(members, lambda each: each.task_id, lambda entry: entry.task_id)
        take(members, lambda each: base(each.task_id), lambda entry: base(entry.task_id))
    for members in (there, gone):
        take(members, lambda each: _without_line(each.entry()), _without_line)
    take(there, lambda each: without_snippet(base(each.task_id)), lambda entry: without_snippet(base(entry.task_id)))
    return found


def _without_line(entry: NewEntry) -> str:
    """Return the failure without the line of its place: what moved has the same, whatever its tool's fingerprint is."""
    return _LINE_OF_PLACE.sub("", entry.failure_description or "")
