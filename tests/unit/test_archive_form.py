"""The form of an archive: what is no line of one is refused before it takes memory, what is long but a text is read."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from typing import Any
from uuid import UUID

import pytest

from knowledge.errors import Conflict, InvalidInput
from knowledge.memory.archive import VERSION, ArchiveWriter, check, slices

HEAD = {"format": "hardwon-archive", "version": VERSION}
DOCUMENT = UUID(int=7)


def raw(*lines: bytes) -> io.BytesIO:
    return io.BytesIO(gzip.compress(b"".join(line + b"\n" for line in (json.dumps(HEAD).encode(), *lines))))


def packed(part: str, row: Any) -> io.BytesIO:
    writer = ArchiveWriter()
    return io.BytesIO(writer.head() + writer.rows(part, [row]) + writer.end())


@pytest.mark.parametrize(
    "line", [b"[[1],{}]", b"[{},{}]", b"[1,{}]", b'["entries"]', b'["entries",{},{}]', b'"entries"']
)
def test_a_line_that_names_no_part_is_none_of_an_archive(line: bytes) -> None:
    with pytest.raises(InvalidInput, match="none of its own"):
        check(raw(line))


@pytest.mark.parametrize("row", [[], "text", None, 7])
def test_a_row_without_columns_is_refused_by_the_name_of_its_part(row: Any) -> None:
    with pytest.raises(InvalidInput, match="holds spaces that are none"):
        check(packed("spaces", row))


@pytest.mark.parametrize(
    "begins", ['["entries",[', '["entries",{"a":[', '["document_versions",{"pages":[', '{"manifest":[']
)
def test_a_line_of_many_small_lists_is_refused_before_it_is_parsed(begins: str) -> None:
    archive = raw(begins.encode() + b"[]," * 4_000_000 + b"0]]")
    assert len(archive.getvalue()) < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match=r"too long|none of its own"):
            check(archive)
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_texts_of_documents_may_be_long_whatever_stands_in_them() -> None:
    row = {"document_id": str(DOCUMENT), "text": 'é"[\\{,' * 2_000_000, "category": "é" * 4_000_000}
    archive = packed("document_versions", row)
    assert check(archive)["document_versions"] == 1
    assert list(slices(archive)) == [("document_versions", [row])]


def test_what_could_not_be_read_again_is_not_written_and_its_document_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowledge.memory.archive._MAX_TEXT_LINE", 1000)
    writer = ArchiveWriter()
    told = {"document_id": DOCUMENT, "text": "a" * 1000}
    with pytest.raises(Conflict, match=f"document {DOCUMENT} is too long for an archive"):
        writer.rows("document_versions", [told])
