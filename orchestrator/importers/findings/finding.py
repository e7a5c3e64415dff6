"""A finding of static analysis, whatever format it was read from, and the entry that is made of it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from hardwon.text.truncation import escape_unstorable
from knowledge.models import EntryType, NewEntry
from orchestrator.importers.fields import fit_beginning, key

_LINE_NUMBERS = re.compile(r"\b(lines?|at|row|column|col)([ :#]+)\d+(?:[:\-.]+\d+)*", re.IGNORECASE)
_PLACES = re.compile(r"(?<=[\w)]):\d+(?::\d+)?\b")
_ORDINAL = re.compile(r" \[(\d+)\]\Z")
_MAX_BASE_CHARS = 180
_PLACEHOLDER_FINGERPRINT = re.compile(r"login|unknown|none|null|n/?a|undefined|^0+$", re.IGNORECASE)
_PERSONAL_NAME = re.compile(r"author|e-?mail|commit|date|time|user|revision|sha\b", re.IGNORECASE)
_FINGERPRINT = re.compile(r"[\w+=:.\-]+")
_HASH_CHARS = 8
HINT = "hint"
"""Name of a fingerprint that identifies nothing by itself: GitLab's is a hash of the line, or of the rule, the file and
the number among the findings there, which all change with other findings (flake8, ruff and pylint do it so)."""
PARTIAL = "partial "
"""Beginning of the name of a fingerprint that only contributes to an identity: a word such as "high" may be one."""
_UNREADABLE = re.compile(
    r"syntax-?\s?error|invalid-syntax|parse-?\s?error|parsing error|cannot parse|could not parse|unparsable|\bE9\d\d\b"
    r"|\bPRS\b|fatal error",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One result of a tool. `file` is relative to the repository where that is known, "" if there is none."""

    tool: str
    rule: str = ""
    rule_name: str = ""
    about: str = ""
    message: str = ""
    file: str = ""
    line: int | None = None
    logical: str = ""
    subject: str = ""
    """What the finding is about where it is no file: a crate."""
    snippet: str = ""
    remedy: str = ""
    technology: str | None = None
    project: str = ""
    run_id: str | None = None
    fingerprints: tuple[tuple[str, str], ...] = ()
    absent: bool = False
    suppressed: bool = False
    origin: str = "report"
    task_id: str | None = None
    verified_by: str | None = None

    @property
    def place(self) -> str:
        """The file with the line, and the function or class."""
        place = f"{self.file}:{self.line}" if self.file and self.line else self.file
        place = self.subject or place
        return f"{place} in {self.logical}".strip() if self.logical else place

    @property
    def kind(self) -> str:
        """The rule, the file and the message without what an edit elsewhere changes: all but the matched text."""
        message = _PLACES.sub("", _LINE_NUMBERS.sub(r"\1\2N", self.message))
        return _flatten(f"{self.rule}:{self.subject or self.file}: {message}".strip(": "))

    @property
    def identity(self) -> str:
        """The kind with the matched text, if the tool shows it."""
        return f"{self.kind} @ {_flatten(self.snippet)}" if self.snippet.strip() else self.kind

    @property
    def is_unreadable_file(self) -> bool:
        """True if the tool says that it could not parse the file, so that it found nothing else there."""
        return bool(_UNREADABLE.search(f"{self.rule} {self.message}"))

    def entry(self) -> NewEntry:
        """Return the failure: verified if the finding is gone and it is known what to do, else open."""
        is_mended = self.absent and bool(self.remedy.strip())
        verified_by = self.verified_by or f"{self.tool}: absent from run {self.run_id or '(unnamed)'}"
        return NewEntry(
            entry_type=EntryType.FAILURE_SOLUTION,
            project_id=key(self.project) or "findings",
            agent_type="developer",
            task_type="bugfix",
            technology=self.technology,
            failure_description=self._text(self._description()) or "a finding without words",
            error_message=self._text(self.message),
            solution_steps=self._text(self.remedy),
            success_verified=is_mended,
            verified_by=escape_unstorable(verified_by)[:500] if is_mended else None,
            task_id=self.task_id,
            run_id=(key(self.run_id) or None) if self.run_id else None,
        )

    def _text(self, words: str) -> str | None:
        note = f"cut: the {self.origin} has more"
        return fit_beginning(escape_unstorable(words), note) if words.strip() else None

    def _description(self) -> str:
        """Return the failure as text: the rule with its description, the message, the place and the code there."""
        name = f" ({self.rule_name})" if self.rule_name and self.rule_name != self.rule else ""
        message = self.message if self.message != self.about else ""
        lines = [f"{self.rule}{name}", self.about, message, self.place, self.snippet.rstrip()]
        return "\n".join(line for line in lines if line.strip())


def _flatten(text: str) -> str:
    return " ".join(text.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The findings of one run of one tool, in its order, and what is known about what the run looked at."""

    tool: str
    findings: Sequence[Finding]
    checked: frozenset[str] = frozenset()
    """Files that the run names as analysed, with or without findings."""
    scope: str | None = None
    """The command or the pipeline's name, the same in every run over the same files."""
    whole: bool = False
    """Whether the tool always looks at the whole project."""
    succeeded: bool = True
    file: Path = Path()
    left_out: Counter[str] = field(default_factory=Counter)
    disabled: frozenset[str] = frozenset()
    """Rules that were switched off."""


def valid_fingerprints(findings: Iterable[Finding]) -> set[tuple[str, str, str]]:
    """Return the rules, names and values of fingerprints that tell one finding of a run from every other one."""
    count: Counter[tuple[str, str, str]] = Counter(
        (finding.rule, name, value) for finding in findings for name, value in finding.fingerprints
    )
    return {each for each, number in count.items() if number == 1 and _is_fingerprint(*each)}


def _is_fingerprint(rule: str, name: str, value: str) -> bool:
    """Return whether a fingerprint may identify a finding: no placeholder, person, commit, rule or path does."""
    if value == rule or _PLACEHOLDER_FINGERPRINT.search(value) or _PERSONAL_NAME.search(name):
        return False
    is_hash = len(value) >= _HASH_CHARS and any(character.isdigit() for character in value)
    return bool(_FINGERPRINT.fullmatch(value)) and (is_hash or not name.startswith(PARTIAL))


def number_findings(
    findings: Sequence[Finding],
    *,
    valid: Iterable[tuple[str, str, str]] | None = None,
    earlier: Sequence[Finding] = (),
) -> list[Finding]:
    """Give each finding of a run the id of its task; of several that are equal, each by its order in the file.

    Those that are there come before those that are gone, and a finding keeps its id where lines above it change.
    `valid`: the fingerprints that identify, of this run alone if left out; `earlier`: findings that have ids already.
    """
    valid = valid_fingerprints(findings) if valid is None else valid
    taken = Counter((finding.project, task_base(finding, valid)) for finding in earlier)
    bases = [task_base(finding, valid) for finding in findings]
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for at, (finding, base) in enumerate(zip(findings, bases, strict=True)):
        groups[finding.project, base].append(at)
    numbered = list(findings)
    for (project, base), members in groups.items():
        in_order = sorted(members, key=lambda at: (findings[at].absent, findings[at].line or 0, at))
        for number, at in enumerate(in_order, start=1 + taken[project, base]):
            numbered[at] = replace(findings[at], task_id=with_ordinal(base, number) or None)
    return numbered


def task_base(finding: Finding, valid: Iterable[tuple[str, str, str]]) -> str:
    """Return the id of a finding without its number among equal ones."""
    for name, value in sorted(finding.fingerprints):
        if name != HINT and (finding.rule, name, value) in valid:
            return _fit_key(f"{finding.rule}:{value}")
    if not (finding.rule or finding.place):
        return ""
    return _fit_key(finding.kind) + (f" @{_digest(finding.identity)}" if finding.snippet.strip() else "")


def _fit_key(text: str) -> str:
    fitted = escape_unstorable(text).strip()
    if len(fitted) <= _MAX_BASE_CHARS - 10:
        return fitted
    return f"{fitted[: _MAX_BASE_CHARS - 27]}#{_digest(fitted)}"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def with_ordinal(base: str, number: int) -> str:
    """Return the id of the finding that is this number among equal ones."""
    return base if number == 1 or not base else f"{base} [{number}]"


def without_ordinal(task_id: str) -> str:
    """Return the id without the number among equal ones."""
    return _ORDINAL.sub("", task_id)


def without_snippet(base: str) -> str:
    """Return the id without the matched text: an edit of the line itself leaves it as it is."""
    return re.sub(r" @[0-9a-f]{8}\Z", "", base)
