"""Findings of static analysis, as failures. A finding proves a failure; only its later absence proves a fix."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hardwon.text.truncation import escape_unstorable
from knowledge.models import EntryType, NewEntry
from orchestrator.importers.fields import fit_beginning, key, repository_name, technology
from orchestrator.importers.sarif_reader import Fix, Location, Message, Result, Rule, Run, read_log

_CUT_NOTE = "cut: the SARIF log has more"


def read_findings(file: Path) -> Iterator[NewEntry]:
    """Yield the failures in a SARIF 2.1.0 log, in its order.

    A result that is gone in this run (`baselineState` is `absent`) and has a documented fix is verified by the run;
    all others are open failures, with a fix, if any, that is only proposed. Results of another kind than `fail`, and
    suppressed ones, are left out: they are not failures. The log is read and validated whole before the first entry.
    Raises InvalidInput for `file`.
    """
    log = read_log(file)
    return (
        _make_entry(run, result)
        for run in log.runs
        for result in run.results or ()
        if result.kind == "fail" and not result.is_suppressed
    )


def _make_entry(run: Run, result: Result) -> NewEntry:
    rule = run.rule_of(result)
    rule_id = result.rule_id or result.rule.id or (rule.id if rule else "")
    location = result.locations[0] if result.locations else Location()
    message = run.text_of(result.message, rule)
    remedy = _fixes(run, result, rule) or _markdown_first(rule.help if rule else Message())
    gone = result.baseline_state == "absent" and bool(remedy)
    run_id = run.automation_details.id or run.automation_details.guid
    return NewEntry(
        entry_type=EntryType.FAILURE_SOLUTION,
        project_id=_project(run),
        agent_type="developer",
        task_type="bugfix",
        technology=_technology(run, location),
        failure_description=_text(_failure(run, location, rule, rule_id, message)) or "a finding without words",
        error_message=_text(message),
        solution_steps=_text(remedy),
        success_verified=gone,
        verified_by=_verifier(run, run_id) if gone else None,
        task_id=key(_identity(run, result, location, rule_id)) or None,
        run_id=(key(run_id) or None) if run_id else None,
    )


def _text(words: str) -> str | None:
    return fit_beginning(escape_unstorable(words), _CUT_NOTE) if words.strip() else None


def _verifier(run: Run, run_id: str | None) -> str:
    return escape_unstorable(f"{run.tool.driver.name}: absent from run {run_id or '(unnamed)'}")[:500]


def _markdown_first(message: Message) -> str:
    """Return the markdown of a help text, else its plain text, which often is only the address of a page."""
    return (message.markdown or message.text or "").strip()


def _project(run: Run) -> str:
    for provenance in run.version_control_provenance:
        if name := repository_name(provenance.repository_uri):
            return name
    return key(run.tool.driver.name) or "sarif"


def _technology(run: Run, location: Location) -> str | None:
    place = location.physical_location.artifact_location
    if language := run.language_of(place):
        return escape_unstorable(language).strip().lower()[:100] or None
    file = run.file_of(place)
    return technology(escape_unstorable(file)) if file else None


def _failure(run: Run, location: Location, rule: Rule | None, rule_id: str, message: str) -> str:
    """Return the failure as text: the rule with its description, the message, the place and the code there."""
    name = f" ({rule.name})" if rule and rule.name and rule.name != rule_id else ""
    about = ""
    if rule:
        about = rule.full_description.words or rule.short_description.words or rule.help.words
    physical = location.physical_location
    code = physical.region.snippet.text or physical.context_region.snippet.text or ""
    lines = [f"{rule_id}{name}", about, message if message != about else "", _place(run, location), code.rstrip()]
    return "\n".join(line for line in lines if line.strip())


def _place(run: Run, location: Location) -> str:
    physical = location.physical_location
    file = run.file_of(physical.artifact_location)
    line = physical.region.start_line
    place = f"{file}:{line}" if file and line else file or ""
    logical = next((one.fully_qualified_name or one.name for one in location.logical_locations), None)
    return f"{place} in {logical}".strip() if logical else place


def _identity(run: Run, result: Result, location: Location, rule_id: str) -> str:
    """Return an id of a result that is the same in all runs: its fingerprint with the rule, else rule and place."""
    for fingerprints in (result.fingerprints, result.partial_fingerprints):
        if fingerprints:
            return f"{rule_id}:{fingerprints[min(fingerprints)]}"
    return f"{rule_id}:{_place(run, location)}".strip(":") or result.guid or ""


def _fixes(run: Run, result: Result, rule: Rule | None) -> str:
    fixes = [words for fix in result.fixes if (words := _fix(run, fix, rule))]
    if len(fixes) < 2:
        return "".join(fixes)
    return "\n\n".join(f"Way {number}: {words}" for number, words in enumerate(fixes, start=1))


def _fix(run: Run, fix: Fix, rule: Rule | None) -> str:
    lines = [run.text_of(fix.description, rule)]
    for change in fix.artifact_changes:
        file = run.file_of(change.artifact_location) or "the file"
        for replacement in change.replacements:
            region, text = replacement.deleted_region, replacement.inserted_content.text
            first, last = region.start_line, region.end_line or region.start_line
            place = "" if first is None else f" line {first}" if first == last else f" lines {first}-{last}"
            lines.append(f"{file}{place}: replace with\n{text}" if text else f"{file}{place}: delete")
    return "\n".join(line for line in lines if line.strip())
