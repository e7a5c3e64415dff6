"""The findings of two runs: which are still there, which moved, and which are shown to be mended.

A finding that is absent later proves something only if the same tool looked at its file again and could read it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from orchestrator.importers.findings.finding import (
    Finding,
    RunReport,
    number_findings,
    valid_fingerprints,
)

_FAMILY = re.compile(r"([A-Za-z]+)(\d*)")

NOT_CHECKED = "still open: nothing shows that the later run looked at their file again"
FAILED_RUN = "still open: the later run failed"
UNREADABLE = "still open: the later run could not parse their file"
NO_LATER_RUN = "still open: the later reports have no run of their tool"
SWITCHED_OFF = "still open: their rule was switched off in the later run"
SUPPRESSED = "suppressed: somebody decided that they need no fix"


@dataclass(kw_only=True)
class Comparison:
    """All findings of the earlier run, those that are gone marked, then the new ones; and what was left out, why."""

    findings: list[Finding] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def compare(before: Sequence[RunReport], after: Sequence[RunReport], *, same_files: bool = False) -> Comparison:
    """Return the findings of two runs of some tools. `same_files`: the caller says that both looked at the same."""
    comparison = Comparison()
    tools = list(dict.fromkeys(report.tool.casefold() for report in (*before, *after)))
    for tool in tools:
        earlier = [report for report in before if report.tool.casefold() == tool]
        later = [report for report in after if report.tool.casefold() == tool]
        _compare_tool(earlier, later, comparison, same_files=same_files)
    return comparison


def _compare_tool(
    before: Sequence[RunReport], after: Sequence[RunReport], comparison: Comparison, *, same_files: bool
) -> None:
    old = [finding for report in before for finding in report.findings]
    new = [finding for report in after for finding in report.findings]
    valid = valid_fingerprints(old)
    if new:
        valid &= valid_fingerprints(new) | {each for each in valid if not _is_value_of(each, new)}
    numbered = number_findings(old, valid=valid)
    pairs = _pair(old, new, valid)
    reasons = _Proof(before=before, after=after, same_files=same_files)
    for at, finding in enumerate(numbered):
        twin = None if at not in pairs else new[pairs[at]]
        if finding.suppressed or (twin is not None and twin.suppressed):
            comparison.left_out[SUPPRESSED] += not finding.suppressed  # the report has counted its own
        elif finding.absent or (twin is not None and not twin.absent):
            comparison.findings.append(finding)
        elif twin is not None or (reason := reasons.against(finding)) is None:
            verified_by = f"{finding.tool}: absent from {_names(after)}"
            comparison.findings.append(replace(finding, absent=True, verified_by=verified_by))
        else:
            comparison.left_out[reason] += 1
            comparison.findings.append(finding)
    seen = set(pairs.values())
    fresh = [each for at, each in enumerate(new) if at not in seen and not each.suppressed]
    comparison.findings += number_findings(fresh, valid=valid_fingerprints(new), earlier=old)


def _is_value_of(fingerprint: tuple[str, str, str], findings: Iterable[Finding]) -> bool:
    rule, name, value = fingerprint
    return any(finding.rule == rule and (name, value) in finding.fingerprints for finding in findings)


def _names(reports: Sequence[RunReport]) -> str:
    return ", ".join(dict.fromkeys(report.file.name for report in reports))


def _pair(old: Sequence[Finding], new: Sequence[Finding], valid: set[tuple[str, str, str]]) -> dict[int, int]:
    """Return the index in `new` of each finding of `old` that is there again: the surest likeness first, each once."""
    pairs: dict[int, int] = {}
    taken: set[int] = set()

    def fingerprint(finding: Finding) -> Hashable:
        return next((each for each in finding.fingerprints if (finding.rule, *each) in valid), None)

    keys: tuple[Callable[[Finding], Hashable], ...] = (
        lambda each: (each.identity, fingerprint(each)) if fingerprint(each) is not None else None,
        lambda each: (each.identity, each.line),
        lambda each: each.identity,
        lambda each: each.kind,
        _elsewhere,
        fingerprint,  # last: of some tools it is but the number of the finding in its file
    )
    for make_key in keys:
        waiting: dict[Hashable, list[int]] = defaultdict(list)
        for at, finding in enumerate(new):
            if at not in taken and (likeness := make_key(finding)) is not None:
                waiting[likeness].append(at)
        for at, finding in enumerate(old):
            likeness = None if at in pairs else make_key(finding)
            if likeness is not None and waiting.get(likeness):
                pairs[at] = waiting[likeness].pop(0)
                taken.add(pairs[at])
    return pairs


def _elsewhere(finding: Finding) -> Hashable:
    """Return the likeness of a finding in another checkout, whose root is not known: the end of its path counts."""
    parts = PurePosixPath(finding.file).parts[-2:]
    return (
        (finding.rule, " ".join(finding.message.split()), " ".join(finding.snippet.split()), parts) if parts else None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proof:
    """Decides whether the absence of a finding shows that it is mended."""

    before: Sequence[RunReport]
    after: Sequence[RunReport]
    same_files: bool

    def against(self, finding: Finding) -> str | None:
        """Return why the absence of a finding proves nothing, None if it proves that the finding is mended."""
        runs = [report for report in self.after if self._is_same_tool(report)]
        if not runs:
            return NO_LATER_RUN
        if not all(report.succeeded for report in runs):
            return FAILED_RUN
        if any(finding.rule in report.disabled for report in runs):
            return SWITCHED_OFF
        found = [each for report in runs for each in report.findings if not each.absent]
        if any(each.is_unreadable_file and each.file == finding.file for each in found):
            return UNREADABLE
        return None if self._was_checked(finding, runs) else NOT_CHECKED

    def _was_checked(self, finding: Finding, runs: Sequence[RunReport]) -> bool:
        if self.same_files or any(report.whole for report in (*self.before, *runs)):
            return True
        scopes = {report.scope for report in self.before if report.scope}
        if any(report.scope in scopes for report in runs):
            return True
        files = {each.file for report in runs for each in report.findings}.union(*(report.checked for report in runs))
        return bool(finding.file) and finding.file in files

    def _is_same_tool(self, report: RunReport) -> bool:
        """Return whether a report is by the tool of the earlier ones: where the format names none, by its rules."""
        if report.tool not in {"checkstyle", "code quality"} or not report.findings:
            return True
        families = {_family(finding.rule) for each in self.before for finding in each.findings}
        return any(_family(finding.rule) in families for finding in report.findings)


def _family(rule: str) -> tuple[str, int]:
    """Return the beginning that the rules of one tool share: its letters, and how many digits follow."""
    match = _FAMILY.match(rule)
    return (match[1], len(match[2])) if match else (rule, 0)
