"""Reports of findings in files, folders and zip archives: each is recognised by its content, whatever its name."""

from __future__ import annotations

import glob
import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hardwon.errors import InvalidInput
from orchestrator.importers.findings.finding import RunReport
from orchestrator.importers.findings.lint import read_checkstyle, read_code_quality
from orchestrator.importers.sarif import read_sarif
from orchestrator.importers.sarif_reader import MAX_BYTES, parse_log, read_bytes

_SNIFFED_BYTES = 4096
_MAX_MEMBERS = 10_000
_ISSUE_END = re.compile(rb"\}\s*\0\s*")
_SPACE = b" \t\r\n\xef\xbb\xbf"


@dataclass(kw_only=True)
class Reading:
    """The runs of all reports, the reports that could not be read, and what was left out by reason."""

    reports: list[RunReport] = field(default_factory=list)
    refused: list[InvalidInput] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def read_reports(places: Sequence[Path], *, project: str | None = None) -> Reading:
    """Return the runs in files, folders, globs and archives; one that cannot be read does not stop the others.

    Raises InvalidInput for `file` if there is only one file and it cannot be read, or if there is none.
    """
    reading = Reading()
    for file, is_certain in _list_files(places):
        try:
            _read_file(file, reading, project=project, is_certain=is_certain)
        except InvalidInput as error:
            reading.refused.append(error)
    if len(reading.refused) == 1 and not reading.reports:
        raise reading.refused[0]
    if not reading.reports and not reading.refused:
        raise InvalidInput("file", f"{', '.join(map(str, places))} has no SARIF, Checkstyle or code quality report")
    for report in reading.reports:
        reading.left_out.update(report.left_out)
    return reading


def _list_files(places: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield files, and whether the user named them: what else lies in a folder need not be a report."""
    for place in places:
        if place.is_dir():
            yield from ((file, False) for file in sorted(place.rglob("*")) if file.is_file())
        elif not place.exists() and glob.has_magic(str(place)):
            found = sorted(_expand(place))
            if not found:
                raise InvalidInput("file", f"{place} matches no file")
            yield from ((file, True) for file in found if file.is_file())
        else:
            yield place, True


def _expand(pattern: Path) -> Iterator[Path]:
    """Yield what a pattern matches, from the last folder without a magic character on."""
    parts = pattern.parts
    fixed = next(at for at, part in enumerate(parts) if glob.has_magic(part))
    yield from Path(*parts[:fixed]).glob(str(Path(*parts[fixed:])))


def _read_file(file: Path, reading: Reading, *, project: str | None, is_certain: bool) -> None:
    content = read_bytes(file)
    if not content.startswith(b"PK\x03\x04"):
        _read_content(content, file, reading, project=project, is_certain=is_certain)
        return
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _read_members(archive, file, reading, project=project)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise InvalidInput("file", f"{file} is not a whole zip archive: {error}") from error


def _read_members(archive: zipfile.ZipFile, file: Path, reading: Reading, *, project: str | None) -> None:
    members = [member for member in archive.infolist() if not member.is_dir()]
    if len(members) > _MAX_MEMBERS:
        raise InvalidInput("file", f"{file} has more than the {_MAX_MEMBERS:,} members allowed")
    left = MAX_BYTES
    for member in members:
        name = file / member.filename
        with archive.open(member) as stream:
            content = stream.read(left + 1)
        left -= len(content)
        if left < 0:
            raise InvalidInput("file", f"{file} unpacks to more than the {MAX_BYTES:,} bytes allowed")
        try:
            _read_content(content, name, reading, project=project, is_certain=False)
        except InvalidInput as error:
            reading.refused.append(error)


def _read_content(content: bytes, file: Path, reading: Reading, *, project: str | None, is_certain: bool) -> None:
    begin = content[:_SNIFFED_BYTES].lstrip(_SPACE)
    if begin.startswith(b"{") and _ISSUE_END.search(content):  # Code Climate's engines end each issue with a zero byte
        issues = [issue for issue in _ISSUE_END.split(content.strip(_SPACE + b"\0")) if issue.strip()]
        content = b"[" + b"},".join(issues) + b"]"
        begin = content[:_SNIFFED_BYTES]
    if begin.startswith(b"<") and (b"<checkstyle" in begin or (is_certain and b"<!DOCTYPE" in begin)):
        reading.reports.append(read_checkstyle(content, file, project=project))
    elif begin.startswith(b"[") and _is_code_quality(begin, is_certain=is_certain):
        reading.reports.append(read_code_quality(content, file, project=project))
    elif begin.startswith(b"<") and is_certain:
        root = begin.removeprefix(b"<?xml").partition(b"<")[2] if begin.startswith(b"<?xml") else begin[1:]
        name = re.split(rb"[\s>/]", root, maxsplit=1)[0][:100].decode("utf-8", "replace")
        raise InvalidInput("file", f"{file} is XML that begins with <{name}>: neither SARIF nor a Checkstyle report")
    elif is_certain or _is_sarif(begin, content):
        reading.reports += read_sarif(parse_log(content, file), file, project=project)
    else:
        reading.left_out["files that are no report of findings"] += 1


def _is_code_quality(begin: bytes, *, is_certain: bool) -> bool:
    rest = begin[1:].lstrip()
    if rest.startswith(b"]"):
        return is_certain
    return rest.startswith(b"{") and (b'"description"' in begin or b'"fingerprint"' in begin or b'"location"' in begin)


def _is_sarif(begin: bytes, content: bytes) -> bool:
    return begin.startswith(b"{") and (b"sarif" in begin.lower() or (b'"runs"' in content and b'"2.1.0"' in content))
