"""Documents and passages, as one JSON document or for a person."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from textwrap import dedent, indent

from pydantic import TypeAdapter

from knowledge.amounts import count_of
from knowledge.documents.calibrating import CalibrationReport
from knowledge.documents.indexing import IndexReport
from knowledge.documents.library import AddedDocument
from knowledge.documents.models import Document, DocumentStatus, Finding, Passage
from knowledge.documents.ports import Source
from knowledge.documents.syncing import SyncReport
from orchestrator.cli.terminal import notes, out, print_json, print_text
from orchestrator.harmless import harmless

_SHOWN_OF_A_TEXT = 600
_PIECE = re.compile(r"[^\n]{1,200}(?!\S)|[^\n]{1,200}")
"""A line, or of a long one so much as is looked at for what was asked."""
_SHOWN_LEFT_OUT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What in folders was not asked for, and the documents whose files are gone from them; whether those are, too."""

    out: Sequence[str] = ()
    gone: Sequence[str] = ()
    deleted: bool = False


_NOTHING = Left()


def print_added(
    added: Sequence[AddedDocument],
    indexed: IndexReport | None,
    passed: Sequence[str] = (),
    reports: Sequence[SyncReport] = (),
    *,
    left: Left = _NOTHING,
    as_json: bool,
) -> None:
    """Print what came of files that were added, and of repositories beside them.

    `passed` tells of files that were not even sent.
    """
    if as_json:
        told = {"added": [asdict(each) for each in added], "indexed": indexed and asdict(indexed)}
        synced = {"synced": [asdict(each) for each in reports]} if reports else {}
        gone = {"gone": list(left.gone), "deleted": len(left.gone) if left.deleted else 0}
        print_json(told | {"passed_over": list(passed), "left_out": list(left.out)} | gone | synced)
        return
    if reports:
        print_reports(reports, as_json=False)
    read = [each for each in added if not unread(each)]
    changed = sum(each.changed for each in read)
    lost = len(added) - len(read) + len(passed)
    print_text(
        f"{changed} new or changed, {len(read) - changed} as before" + (f", {lost} could not be read" if lost else "")
    )
    if indexed is not None and (changed or indexed.indexed or indexed.failed or indexed.reason):
        print_text(_indexed(indexed))
        _print_reason(indexed)
    for each in added:
        if each.document.error:
            out.print(f"{harmless(each.document.uri)}: {each.document.error}", style="red", markup=False)
    for reason in passed:
        out.print(harmless(reason), style="red", markup=False)
    if left.out:
        notes.print(
            f"left out of folders: {_some(left.out)} ({len(left.out):,} files and folders in all). Name one to have it"
            " read",
            markup=False,
        )
    if left.gone and left.deleted:
        print_text(f"{len(left.gone):,} deleted, whose files are gone: {_some(left.gone)}")
    elif left.gone:
        notes.print(
            f"kept, though their files are gone: {_some(left.gone)} ({len(left.gone):,} in all). With --delete-gone"
            " they go",
            markup=False,
        )


def print_retried(again: int, indexed: IndexReport, *, as_json: bool) -> None:
    """Print what came of documents that had failed."""
    if as_json:
        print_json({"documents": again, "indexed": asdict(indexed)})
        return
    print_text(f"{again} {'document' if again == 1 else 'documents'} begun again: {_indexed(indexed)}")
    _print_reason(indexed)
    if indexed.failed:
        notes.print("hardwon kb list says why", markup=False)


def _some(names: Sequence[str]) -> str:
    """Return the first of some names."""
    return ", ".join(map(harmless, names[:_SHOWN_LEFT_OUT])).replace("\n", " ") + (
        ", ..." if len(names) > _SHOWN_LEFT_OUT else ""
    )


def unread(added: AddedDocument) -> bool:
    """Return whether a file could not be read; one that was put off before has an error, too."""
    return added.document.error is not None and not added.document.waiting


def _indexed(report: IndexReport) -> str:
    late = f", {report.postponed} put off" if report.postponed else ""
    return f"{report.indexed} indexed, {report.failed} failed{late}"


def _print_reason(report: IndexReport) -> None:
    """Print why documents were put off, and what ends that."""
    if report.reason:
        out.print(harmless(report.reason), style="red", markup=False)
        notes.print(
            "what waits is indexed by the `index` job once that is mended, or by hardwon kb retry", markup=False
        )


def print_documents(documents: Sequence[Document], *, as_json: bool) -> None:
    """Print documents with their states, and why one could not be indexed."""
    if as_json:
        print_json({"documents": [asdict(each) for each in documents]})
        return
    if not documents:
        print_text("no documents here: hardwon kb add FILE")
    for each in documents:
        style = {DocumentStatus.INDEXED: "green", DocumentStatus.FAILED: "red"}.get(each.status, "yellow")
        out.print(f"{each.status:8} {harmless(each.uri)}", style=style, markup=False)
        lines = count_of(each.lines, "line")
        out.print(f"  {each.document_id}  {each.document_type}, {lines}", style="dim", markup=False)
        for told in (each.error, *each.notes):
            if told:
                out.print(f"  {harmless(told)}", markup=False)


def print_passages(finding: Finding, *, as_json: bool) -> None:
    """Print passages, best first, with where they stand."""
    if as_json:
        # as over HTTP: without what is told to nobody
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
        out.print(f"{number}. {harmless(place(passage))}", style="bold", markup=False)
        out.print(f"   relevance {passage.relevance:.2f}, score {passage.score:.2f}", style="dim", markup=False)
        print_text(indent(harmless(shown(passage.text, " ".join(finding.searched))), "   "))
        out.print()
    for told in finding.trace:
        out.print(told, style="dim", markup=False)


def shown(text: str, searched: str) -> str:
    """Return what is shown of a passage: its beginning, or what comes from where it has most of the words searched.

    Passages that touch come as one, so that what was found may stand far behind its beginning. Longer words count more.
    """
    if len(text) <= _SHOWN_OF_A_TEXT:
        return dedent(text)
    words = set(re.findall(r"\w+", searched.casefold()))

    def held(piece: re.Match[str]) -> int:
        return sum(len(word) for word in words.intersection(re.findall(r"\w+", piece[0].casefold())))

    best = max(_PIECE.finditer(text), key=held, default=None)
    start = best.start() if best and best.end() > _SHOWN_OF_A_TEXT else 0
    end = start + _SHOWN_OF_A_TEXT
    told = dedent(text[start:end])
    return ("...\n" if start else "") + told + (" ..." if end < len(text) else "")


def place(passage: Passage) -> str:
    """Return where a passage stands, in a line."""
    told = f"{passage.title} ({passage.uri}" if passage.title != passage.name else f"{passage.uri} ("
    told += f":{passage.line_start}" if passage.line_start else ""
    told += f"-{passage.line_end})" if passage.line_end and passage.line_end != passage.line_start else ")"
    return " > ".join(filter(None, (told.replace(" ()", "").replace("(:", "(line "), passage.section)))


def print_reports(reports: Sequence[SyncReport], *, as_json: bool) -> None:
    """Print what came of fetching repositories."""
    if as_json:
        print_json({"synced": [asdict(each) for each in reports]})
        return
    if not reports:
        print_text("no repositories here: hardwon kb add https://...")
    for each in reports:
        if each.error:
            out.print(f"{each.url}: {each.error}", style="red", markup=False)
        else:
            told = f"{each.added} new or changed, {each.unchanged} as before, {each.deleted} deleted"
            told += f", {each.unreadable} could not be read: hardwon kb list says why" if each.unreadable else ""
            print_text(f"{each.url} at {(each.commit or '')[:12]}: {told}")


def print_sources(sources: Sequence[Source], *, as_json: bool) -> None:
    """Print repositories with their state."""
    if as_json:
        print_json({"sources": [asdict(each) for each in sources]})
        return
    if not sources:
        print_text("no repositories here: hardwon kb add https://...")
    for each in sources:
        told = " ".join(filter(None, (each.url, each.branch and f"branch {each.branch}", each.subdir, *each.globs)))
        print_text(f"{each.source_id}  {told}  {(each.last_commit or '')[:12] or 'not fetched yet'}")
        if each.last_error:
            out.print(f"  {each.last_error}", style="red", markup=False)


def print_calibrated(found: CalibrationReport, *, as_json: bool) -> None:
    """Print the measured scale of relevance."""
    if as_json:
        print_json(asdict(found))
        return
    print_text(f"{found.model}, measured on {found.passages} passages:")
    print_text(f"relevance 0 is cosine {found.low:.3f} (shipped {found.shipped_low:.3f})")
    print_text(f"relevance 1 is cosine {found.high:.3f} (shipped {found.shipped_high:.3f})")


def print_deleted(count: int, missing: int, *, closed: str | None, as_json: bool) -> None:
    """Print how many documents were deleted, how many were not there, and which case is closed now."""
    if as_json:
        print_json({"documents": count})
        return
    told = f"{count_of(count, 'document')} deleted"
    print_text(told + (f"; case {closed} is closed and takes no more" if closed else ""))
    if missing:
        notes.print(f"{missing:,} of them not here: hardwon kb list shows what is", style="red", markup=False)
