"""Documents and passages, for people or as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from textwrap import dedent, indent

from pydantic import TypeAdapter

from hardwon.context.sanitize import sanitize
from hardwon.models.documents import (
    AddedDocument,
    CalibrationReport,
    Document,
    DocumentStatus,
    Finding,
    IndexReport,
    Passage,
    SyncReport,
)
from hardwon.text.pluralize import count_of
from knowledge.documents.ports import Source
from orchestrator.cli.support.terminal import notes, out, print_json, print_text

_MAX_EXCERPT_CHARS = 600
_PIECE = re.compile(r"[^\n]{1,200}(?!\S)|[^\n]{1,200}")
"""A line, or a part of a long one; the unit in which query words are counted."""
_MAX_NAMES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderChanges:
    """Files of folders left `out`, and documents whose files are `gone`; `deleted`: those documents were deleted."""

    out: Sequence[str] = ()
    gone: Sequence[str] = ()
    deleted: bool = False


_NO_CHANGES = FolderChanges()


def print_added(
    added: Sequence[AddedDocument],
    indexed: IndexReport | None,
    passed: Sequence[str] = (),
    reports: Sequence[SyncReport] = (),
    *,
    left: FolderChanges = _NO_CHANGES,
    as_json: bool,
) -> None:
    """Print the results of adding files and repositories. `passed`: errors of files that could not be sent."""
    if as_json:
        result = {"added": [asdict(each) for each in added], "indexed": indexed and asdict(indexed)}
        synced = {"synced": [asdict(each) for each in reports]} if reports else {}
        gone = {"gone": list(left.gone), "deleted": len(left.gone) if left.deleted else 0}
        print_json(result | {"passed_over": list(passed), "left_out": list(left.out)} | gone | synced)
        return
    if reports:
        print_reports(reports, as_json=False)
    read = [each for each in added if not is_unreadable(each)]
    changed = sum(each.changed for each in read)
    failed = len(added) - len(read) + len(passed)
    print_text(
        f"{changed} new or changed, {len(read) - changed} as before"
        + (f", {failed} could not be read" if failed else "")
    )
    if indexed is not None and (changed or indexed.indexed or indexed.failed or indexed.reason):
        print_text(_index_summary(indexed))
        _print_reason(indexed)
    for each in added:
        if each.document.error:
            out.print(f"{sanitize(each.document.uri)}: {each.document.error}", style="red")
    for reason in passed:
        out.print(sanitize(reason), style="red")
    if left.out:
        notes.print(
            f"left out of folders: {_first_names(left.out)} ({len(left.out):,} files and folders in all). Name"
            " one to have it read",
        )
    if left.gone and left.deleted:
        print_text(f"{len(left.gone):,} deleted, whose files are gone: {_first_names(left.gone)}")
    elif left.gone:
        notes.print(
            f"kept, though their files are gone: {_first_names(left.gone)} ({len(left.gone):,} in all). With"
            " --delete-gone they go",
        )


def print_retried(again: int, indexed: IndexReport, *, as_json: bool) -> None:
    """Print the results of indexing failed documents again."""
    if as_json:
        print_json({"documents": again, "indexed": asdict(indexed)})
        return
    print_text(f"{again} {'document' if again == 1 else 'documents'} begun again: {_index_summary(indexed)}")
    _print_reason(indexed)
    if indexed.failed:
        notes.print("hardwon kb list says why")


def _first_names(names: Sequence[str]) -> str:
    """Return the first names, with an ellipsis if there are more."""
    return ", ".join(map(sanitize, names[:_MAX_NAMES])).replace("\n", " ") + (
        ", ..." if len(names) > _MAX_NAMES else ""
    )


def is_unreadable(added: AddedDocument) -> bool:
    """Return whether a file could not be read; a postponed document has an error, too, but can be."""
    return added.document.error is not None and not added.document.waiting


def _index_summary(report: IndexReport) -> str:
    late = f", {report.postponed} put off" if report.postponed else ""
    return f"{report.indexed} indexed, {report.failed} failed{late}"


def _print_reason(report: IndexReport) -> None:
    """Print the reason why documents were postponed, and the next step."""
    if report.reason:
        out.print(sanitize(report.reason), style="red")
        notes.print("the `index` job indexes them once that is repaired, or hardwon kb retry does so now")


def print_documents(documents: Sequence[Document], *, as_json: bool) -> None:
    """Print documents with their states and errors."""
    if as_json:
        print_json({"documents": [asdict(each) for each in documents]})
        return
    if not documents:
        print_text("no documents here: hardwon kb add FILE")
    for each in documents:
        style = {DocumentStatus.INDEXED: "green", DocumentStatus.FAILED: "red"}.get(each.status, "yellow")
        out.print(f"{each.status:8} {sanitize(each.uri)}", style=style)
        lines = count_of(each.lines, "line")
        out.print(f"  {each.document_id}  {each.document_type}, {lines}", style="dim")
        for message in (each.error, *each.notes):
            if message:
                out.print(f"  {sanitize(message)}")


def print_passages(finding: Finding, *, as_json: bool) -> None:
    """Print passages with their places, best first."""
    if as_json:
        # as over HTTP: without private fields
        print_json(TypeAdapter(Finding).dump_python(finding, mode="json"))
        return
    if finding.empty_scope:
        print_text("there are no documents here: hardwon kb add FILE")
    elif not finding.passages:
        print_text("nothing found")
    if finding.pending:
        print_text(
            f"{count_of(finding.pending, 'document')} {'waits' if finding.pending == 1 else 'wait'} to be indexed"
        )
    for number, passage in enumerate(finding.passages, 1):
        out.print(f"{number}. {sanitize(location_of(passage))}", style="bold")
        out.print(f"   relevance {passage.relevance:.2f}, score {passage.score:.2f}", style="dim")
        print_text(indent(sanitize(excerpt(passage.text, " ".join(finding.searched))), "   "))
        out.print()
    for line in finding.trace:
        out.print(line, style="dim")


def excerpt(text: str, query: str) -> str:
    """Return the excerpt of a passage to show: its beginning, or the part that begins with most words of the query.

    Adjacent passages are merged, so a match may be far from the beginning. Longer words count more.
    """
    if len(text) <= _MAX_EXCERPT_CHARS:
        return dedent(text)
    words = set(re.findall(r"\w+", query.casefold()))

    def weight(piece: re.Match[str]) -> int:
        return sum(len(word) for word in words.intersection(re.findall(r"\w+", piece[0].casefold())))

    best = max(_PIECE.finditer(text), key=weight, default=None)
    start = best.start() if best and best.end() > _MAX_EXCERPT_CHARS else 0
    end = start + _MAX_EXCERPT_CHARS
    return ("...\n" if start else "") + dedent(text[start:end]) + (" ..." if end < len(text) else "")


def location_of(passage: Passage) -> str:
    """Return the place of a passage in one line: title, uri, lines and section."""
    place = f"{passage.title} ({passage.uri}" if passage.title != passage.name else f"{passage.uri} ("
    place += f":{passage.line_start}" if passage.line_start else ""
    place += f"-{passage.line_end})" if passage.line_end and passage.line_end != passage.line_start else ")"
    return " > ".join(filter(None, (place.replace(" ()", "").replace("(:", "(line "), passage.section)))


def print_reports(reports: Sequence[SyncReport], *, as_json: bool) -> None:
    """Print the results of fetching repositories."""
    if as_json:
        print_json({"synced": [asdict(each) for each in reports]})
        return
    if not reports:
        print_text("no repositories here: hardwon kb add https://...")
    for each in reports:
        if each.error:
            out.print(f"{each.url}: {each.error}", style="red")
        else:
            counts = f"{each.added} new or changed, {each.unchanged} as before, {each.deleted} deleted"
            counts += f", {each.unreadable} could not be read: hardwon kb list says why" if each.unreadable else ""
            print_text(f"{each.url} at {(each.commit or '')[:12]}: {counts}")


def print_sources(sources: Sequence[Source], *, as_json: bool) -> None:
    """Print repositories with their last commit and error."""
    if as_json:
        print_json({"sources": [asdict(each) for each in sources]})
        return
    if not sources:
        print_text("no repositories here: hardwon kb add https://...")
    for each in sources:
        parts = (each.url, each.branch and f"branch {each.branch}", each.subdir, *each.globs)
        line = " ".join(filter(None, parts))
        print_text(f"{each.source_id}  {line}  {(each.last_commit or '')[:12] or 'not fetched yet'}")
        if each.last_error:
            out.print(f"  {each.last_error}", style="red")


def print_calibrated(scale: CalibrationReport, *, as_json: bool) -> None:
    """Print the measured scale of relevance."""
    if as_json:
        print_json(asdict(scale))
        return
    print_text(f"{scale.model}, measured on {scale.passages} passages:")
    print_text(f"relevance 0 is cosine {scale.low:.3f} (shipped {scale.shipped_low:.3f})")
    print_text(f"relevance 1 is cosine {scale.high:.3f} (shipped {scale.shipped_high:.3f})")


def print_deleted(count: int, missing: int, *, closed: str | None, as_json: bool) -> None:
    """Print the numbers of documents that were deleted and that did not exist, and the case that is closed now."""
    if as_json:
        print_json({"documents": count})
        return
    print_text(
        f"{count_of(count, 'document')} deleted" + (f"; case {closed} is closed and takes no more" if closed else "")
    )
    if missing:
        notes.print(f"{missing:,} of them not here: hardwon kb list shows what is", style="red")
