"""Findings in SARIF logs. A finding proves a failure; only its later absence proves a fix."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hardwon.text.truncation import escape_unstorable
from knowledge.models import NewEntry
from orchestrator.importers.fields import key, repository_name, technology
from orchestrator.importers.findings.finding import PARTIAL, Finding, RunReport, number_findings
from orchestrator.importers.findings.paths import Roots, find_repository, name_of, normalize
from orchestrator.importers.findings.regions import ColumnKind, Source, Span, describe_replacement
from orchestrator.importers.findings.remedies import describe_rule, find_remedy
from orchestrator.importers.sarif_reader import (
    ArtifactLocation,
    Fix,
    Location,
    Log,
    Message,
    Region,
    Result,
    Rule,
    Run,
    parse_log,
    read_bytes,
)

_PACKAGE_ID = re.compile(r"^[a-z]+\+[a-z]+:[^#]*?([^/#]+)#(?:([^@#]+)@)?([^#@]+)$")
"""A package of cargo: its address, then its name if the last part of the address is another, then its version."""
_BYTE_COUNTING_TOOLS = {"staticcheck", "gosec", "golangci-lint", "govulncheck", "revive", "go vet"}
_COLUMN_KINDS: dict[str | None, ColumnKind] = {
    "utf16CodeUnits": "utf16CodeUnits",
    "unicodeCodePoints": "unicodeCodePoints",
}
_LANGUAGES = {"dockerfile": "docker", "js": "javascript", "ts": "typescript", "csharp": "c#", "cpp": "c++"}


def read_findings(file: Path, *, project: str | None = None) -> Iterator[NewEntry]:
    """Yield the failures in a SARIF 2.1.0 log, in its order.

    A result that is gone in this run (`baselineState` is `absent`) and has a documented fix is verified by the run;
    all others are open failures, with a fix, if any, that is only proposed. Results of another kind than `fail`, and
    suppressed ones, are left out: they are not failures. The log is read and validated whole before the first entry.
    Raises InvalidInput for `file`.
    """
    reports = read_sarif(parse_log(read_bytes(file), file), file, project=project)
    return (finding.entry() for finding in number_all(reports) if not finding.suppressed)


def number_all(reports: list[RunReport]) -> list[Finding]:
    """Return the findings of all runs with their ids."""
    return [finding for report in reports for finding in number_findings(report.findings)]


def read_sarif(log: Log, file: Path, *, project: str | None = None) -> list[RunReport]:
    """Return the runs of a log that is the content of a file."""
    repository = find_repository(file)
    return [_RunReader(run=run, file=file, repository=repository, project=project).report() for run in log.runs]


@dataclass(kw_only=True)
class _RunReader:
    """Reads the results of one run."""

    run: Run
    file: Path
    repository: Path | None
    project: str | None
    roots: Roots = field(init=False)
    _sources: dict[str, list[str] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.project = key(self.project) if self.project else self._project()
        named = [base.uri for base in self.run.original_uri_base_ids.values() if base.uri]
        named += [each.mapped_to.uri for each in self.run.version_control_provenance if each.mapped_to.uri]
        named += [each.working_directory.uri for each in self.run.invocations if each.working_directory.uri]
        paths = {normalize(uri) for uri in named}
        self.roots = Roots(
            repository=self.repository,
            named=tuple(sorted((path for path in paths if len(path) > 1), key=lambda path: (len(path), path))),
            project=self.project,
        )

    def report(self) -> RunReport:
        """Return the run."""
        left_out: Counter[str] = Counter()
        findings = []
        for result in self.run.results or ():
            if result.kind != "fail":
                left_out[f"of kind {result.kind}, which is no failure"] += 1
                continue
            if result.is_suppressed:
                left_out["suppressed: somebody decided that they need no fix"] += 1
            findings.append(self._read(result))
        calls = self.run.invocations
        return RunReport(
            tool=self.run.tool.driver.name,
            findings=findings,
            checked=frozenset(self._file(artifact.location) for artifact in self.run.artifacts) - {""},
            scope=self._scope(),
            whole=any(finding.subject for finding in findings),
            succeeded=all(call.execution_successful for call in calls),
            file=self.file,
            left_out=left_out,
            disabled=frozenset(
                override.descriptor.id or ""
                for call in calls
                for override in call.rule_configuration_overrides
                if not override.configuration.enabled
            ),
        )

    def _scope(self) -> str | None:
        """Return the command, or the category of the run, if it names one: the id up to its last part."""
        for call in self.run.invocations:
            if call.command_line or call.arguments:
                return call.command_line or " ".join(call.arguments)
        category = (self.run.automation_details.id or "").rpartition("/")[0]
        return category or None

    def _project(self) -> str:
        for provenance in self.run.version_control_provenance:
            if name := repository_name(provenance.repository_uri):
                return name
        if self.repository is not None and (name := name_of(self.repository)):
            return name
        return key(self.run.tool.driver.name) or "sarif"

    def _read(self, result: Result) -> Finding:
        run, rule = self.run, self.run.rule_of(result)
        location = result.locations[0] if result.locations else Location()
        physical = location.physical_location
        rule_id = result.rule_id or result.rule.id or (rule.id if rule else "")
        message = self._without_roots(run.text_of(result.message, rule))
        subject = _crate(result)
        titles = [message, rule_id]
        if rule:
            titles += [rule.name or "", rule.short_description.words]
        absent = result.baseline_state == "absent"
        remedy = self._fixes(result, rule, absent=absent) or _remedy(rule, titles)
        snippet = physical.region.snippet.text or physical.context_region.snippet.text or ""
        run_id = run.automation_details.id or run.automation_details.guid
        logical = next((one.fully_qualified_name or one.name for one in location.logical_locations), None)
        file = self._file(physical.artifact_location)
        prints = [*result.fingerprints.items()] or [
            (PARTIAL + name, value) for name, value in result.partial_fingerprints.items()
        ]
        return Finding(
            tool=run.tool.driver.name,
            rule=rule_id,
            rule_name=(rule.name or "") if rule else "",
            about=_about(rule, titles),
            message=message,
            file="" if subject else file,
            line=physical.region.start_line,
            logical=logical or "",
            subject=subject,
            snippet=snippet,
            remedy=remedy,
            technology="rust" if subject else self._technology(physical.artifact_location, physical.region, file),
            project=self.project or "sarif",
            run_id=run_id,
            fingerprints=() if subject else tuple(prints),
            absent=absent,
            suppressed=result.is_suppressed,
            origin="SARIF log",
        )

    def _without_roots(self, message: str) -> str:
        for root in (*self.roots.named, *([self.repository.as_posix()] if self.repository else ())):
            message = message.replace(root.rstrip("/") + "/", "")
        return message

    def _file(self, location: ArtifactLocation) -> str:
        address = self.run.file_of(location)
        if not address:
            return ""
        base = self.run.base_of(location)
        path = normalize(address)
        if base and not path.startswith("/"):
            path = normalize(base if base.endswith("/") else base + "/") + "/" + path
            return self.roots.relative(path).lstrip("/") if self._is_root(base) else self.roots.relative(path)
        return self.roots.relative(address)

    def _is_root(self, base: str) -> bool:
        return normalize(base) in self.roots.named

    def _technology(self, location: ArtifactLocation, region: Region, file: str) -> str | None:
        language = self.run.language_of(location, region)
        if not language and file and (known := technology(escape_unstorable(file))):
            return known
        language = language or self.run.default_source_language
        name = escape_unstorable(language).strip().lower()[:100] if language else ""
        return _LANGUAGES.get(name, name) or None

    def _fixes(self, result: Result, rule: Rule | None, *, absent: bool) -> str:
        fixes = [words for fix in result.fixes if (words := self._fix(fix, rule, absent=absent))]
        if len(fixes) < 2:
            return "".join(fixes)
        return "\n\n".join(f"Way {number}: {words}" for number, words in enumerate(fixes, start=1))

    def _fix(self, fix: Fix, rule: Rule | None, *, absent: bool) -> str:
        lines = [self.run.text_of(fix.description, rule)]
        for change in fix.artifact_changes:
            file = self._file(change.artifact_location) or "the file"
            source = None if absent else self._source(file)  # the file at hand is the mended one
            for replacement in change.replacements:
                text, region = replacement.inserted_content.text or "", replacement.deleted_region
                lines.append(_describe(file, region, text, source))
        return "\n".join(line for line in lines if line.strip())

    def _source(self, file: str) -> Source | None:
        if file not in self._sources:
            self._sources[file] = self.roots.read(file)
        lines = self._sources[file]
        if lines is None:
            return None
        counts_bytes = self.run.tool.driver.name.casefold() in _BYTE_COUNTING_TOOLS
        return Source(lines=lines, column_kind=_COLUMN_KINDS.get(self.run.column_kind), counts_bytes=counts_bytes)


def _describe(file: str, region: Region, text: str, source: Source | None) -> str:
    if region.start_line is None:
        return f"{file}: replace the marked text by `{text}`" if text else f"{file}: delete the marked text"
    span = Span(
        first_line=region.start_line,
        last_line=region.end_line or region.start_line,
        first_column=region.start_column,
        end_column=region.end_column,
    )
    return describe_replacement(file, span, text, source)


def _remedy(rule: Rule | None, titles: list[str]) -> str:
    if rule is None:
        return ""
    return find_remedy(_texts(rule.help), _texts(rule.full_description), titles=titles)


def _about(rule: Rule | None, titles: list[str]) -> str:
    if rule is None:
        return ""
    texts = [rule.full_description.words, rule.short_description.words, rule.help.words]
    return describe_rule(texts, message=titles[0])


def _texts(message: Message) -> list[str]:
    """Return the markdown of a help text and its plain text, which often is only the address of a page."""
    return [text for text in (message.markdown, message.text) if text]


def _crate(result: Result) -> str:
    """Return the package that a finding is about, without the path of the checkout; "" if it is about a file."""
    for value in (*result.fingerprints.values(), *result.partial_fingerprints.values()):
        if match := _PACKAGE_ID.match(value):
            folder, name, version = match.groups()
            return f"{name or folder}@{version}"
    return ""
