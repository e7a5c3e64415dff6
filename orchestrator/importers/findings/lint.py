"""Checkstyle XML and GitLab's code quality JSON, which many linters write.

Neither names its tool: findings of two reports are of the same one if their rules are.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from hardwon.errors import InvalidInput
from hardwon.text.truncation import escape_unstorable
from orchestrator.importers.fields import key, technology
from orchestrator.importers.findings.finding import HINT, Finding, RunReport
from orchestrator.importers.findings.paths import Roots, find_repository, name_of
from orchestrator.importers.findings.remedies import find_remedy

CHECKSTYLE = "checkstyle"
CODE_QUALITY = "code quality"
MAX_DEPTH = 50
_CONTROL = re.compile(
    rb"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b\x0c\x0e-\x1f]|&#(?:x0*(?:1?[0-9a-f]|[0-8bc])|0*(?:[0-8]|1[124-9]|2\d|3[01]));",
    re.IGNORECASE,
)
_KEPT_REFERENCES = {9, 10, 13}


@dataclass(kw_only=True)
class _Reader:
    """Parts of a reader of both formats: paths relative to the repository, and the project."""

    file: Path
    project: str | None
    roots: Roots = field(init=False)

    def __post_init__(self) -> None:
        repository = find_repository(self.file)
        name = key(self.project) if self.project else (name_of(repository) if repository else None)
        self.project = name or "findings"
        self.roots = Roots(repository=repository, project=name)

    def finding(self, tool: str, path: str, **fields: Any) -> Finding:
        """Return a finding in a file."""
        file = self.roots.relative(path) if path else ""
        known = technology(escape_unstorable(file)) if file else None
        return Finding(tool=tool, file=file, technology=known, project=self.project or "", **fields)


def read_checkstyle(content: bytes, file: Path, *, project: str | None = None) -> RunReport:
    """Return the findings in a Checkstyle report. Raises InvalidInput for `file`."""
    parser = _CheckstyleParser(_Reader(file=file, project=project), file)
    try:
        parser.feed(_CONTROL.sub(_replace_control, content.removeprefix(b"\xef\xbb\xbf").lstrip()))
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise InvalidInput("file", f"{file} is not XML: {error}") from error
    return RunReport(
        tool=CHECKSTYLE,
        findings=parser.findings,
        checked=frozenset(parser.checked),
        file=file,
        left_out=parser.left_out,
    )


def _replace_control(match: re.Match[bytes]) -> bytes:
    text = match[0]
    if text.startswith(b"\x1b["):
        return b""
    if text.startswith(b"&#"):
        digits = text[2:-1].lower()
        number = int(digits[1:], 16) if digits.startswith(b"x") else int(digits)
        return text if number in _KEPT_REFERENCES else b" "
    return b" "


class _CheckstyleParser:
    """Collects the errors of a report."""

    def __init__(self, reader: _Reader, file: Path) -> None:
        self.findings: list[Finding] = []
        self.checked: set[str] = set()
        self.left_out: Counter[str] = Counter()
        self._reader = reader
        self._file = file
        self._path: list[str] = []
        self._name = ""
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype

    def feed(self, content: bytes) -> None:
        """Parse the whole content."""
        self._parser.Parse(content, True)  # noqa: FBT003 (expat's own signature)

    def _refuse_doctype(self, *_: object) -> None:
        raise InvalidInput("file", f"{self._file} declares a document type, which is not allowed: linters write none")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._path and name != "checkstyle":
            raise InvalidInput("file", f"{self._file} is not a Checkstyle report: it begins with <{name[:100]}>")
        if len(self._path) >= MAX_DEPTH:
            raise InvalidInput("file", f"{self._file} has elements more than {MAX_DEPTH} deep")
        self._path.append(name)
        if name == "file":
            self._name = attributes.get("name", "")
            if self._name:
                self.checked.add(self._reader.roots.relative(self._name))
        elif name == "error":
            self._add(attributes)

    def _end(self, _: str) -> None:
        self._path.pop()

    def _add(self, attributes: dict[str, str]) -> None:
        if attributes.get("severity", "").casefold() in {"ignore", "off", "none"}:
            self.left_out["of a severity that is ignored"] += 1
            return
        line = attributes.get("line", "")
        message = attributes.get("message", "").strip()
        self.findings.append(
            self._reader.finding(
                CHECKSTYLE,
                self._name,
                rule=attributes.get("source", "").strip(),
                message=message,
                line=int(line) if line.isascii() and line.isdigit() and len(line) < 10 else None,
            )
        )


class _Begin(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    line: int | None = None


class _Lines(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    begin: int | _Begin | None = None


class _Place(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    path: str = ""
    lines: _Lines | None = None
    positions: _Lines | None = None

    @property
    def line(self) -> int | None:
        """The line, by lines or by positions."""
        begin = next((each.begin for each in (self.lines, self.positions) if each is not None), None)
        return begin.line if isinstance(begin, _Begin) else begin


class _Content(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    body: str = ""


class _Issue(BaseModel):
    """An issue of Code Climate, as far as GitLab reads it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    description: str
    location: _Place
    fingerprint: str | None = None
    check_name: str | None = None
    type: str | None = None
    content: _Content | str | None = None

    @property
    def body(self) -> str:
        """The explanation of the rule."""
        return self.content.body if isinstance(self.content, _Content) else self.content or ""


_ISSUES = TypeAdapter(list[_Issue])


def read_code_quality(content: bytes, file: Path, *, project: str | None = None) -> RunReport:
    """Return the findings in a code quality report of GitLab. Raises InvalidInput for `file`."""
    reader = _Reader(file=file, project=project)
    try:
        issues = _ISSUES.validate_json(_without_measurements(content.removeprefix(b"\xef\xbb\xbf")))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise InvalidInput(
            "file", f"{file} is not a code quality report: {place and place + ': '}{first['msg']}"
        ) from error
    findings = []
    for issue in issues:
        rule, message = issue.check_name or "", issue.description.strip()
        findings.append(
            reader.finding(
                CODE_QUALITY,
                issue.location.path,
                rule=rule,
                message=message,
                line=issue.location.line,
                remedy=find_remedy([issue.body], [], titles=[message, rule]),
                fingerprints=((HINT, issue.fingerprint),) if issue.fingerprint else (),
            )
        )
    return RunReport(tool=CODE_QUALITY, findings=findings, file=file)


def _without_measurements(content: bytes) -> bytes:
    """Return the issues of Code Climate's own output, which has measurements among them; else the content as it is."""
    if b'"measurement"' not in content:
        return content
    try:
        rows = json.loads(content)
    except (ValueError, RecursionError):
        return content
    if not isinstance(rows, list):
        return content
    return json.dumps(
        [row for row in rows if not (isinstance(row, dict) and row.get("type") == "measurement")]
    ).encode()
