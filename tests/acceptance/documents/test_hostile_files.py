"""T14, T16: files that are made to take all time or memory of who opens them, and folders that lead out."""

from __future__ import annotations

import asyncio
import io
import os
import struct
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from hardwon.errors import InvalidInput
from hardwon.models.documents import DocumentStatus, NewDocument
from knowledge.adapters.files.conversion import SubprocessConverter
from knowledge.documents.parsing.decode import Unreadable
from knowledge.wiring.open import Knowledge
from orchestrator.cli.files.folders import files_of
from tests.support.documents import put, writable

pytest.importorskip("kreuzberg")

_DOCX = (
    '<?xml version="1.0"?><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
    "<w:body>{}</w:body></w:document>"
)
_TYPES = (
    '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default'
    ' Extension="xml" ContentType="application/xml"/></Types>'
)


def packed(parts: dict[str, bytes]) -> bytes:
    told = io.BytesIO()
    with zipfile.ZipFile(told, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return told.getvalue()


def office(document: bytes) -> bytes:
    return packed({"[Content_Types].xml": _TYPES.encode(), "word/document.xml": document})


def zip_bomb() -> bytes:
    return office(b"<w:p>" + b" " * 201_000_000 + b"</w:p>")


def lying_zip_bomb() -> bytes:
    """Return an archive whose directory says that its 201 MB are a few bytes."""
    whole = bytearray(zip_bomb())
    at = whole.rfind(b"PK\x01\x02")
    while at >= 0:
        whole[at + 24 : at + 28] = (100).to_bytes(4, "little")
        at = whole.rfind(b"PK\x01\x02", 0, at)
    return bytes(whole)


def many_members() -> bytes:
    return packed({f"word/{n}.xml": b"x" for n in range(11_000)})


def long_directory() -> bytes:
    """Return an archive of 15 MB that is a directory alone, of 320,000 members."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", 20, 0, 20, 0, 0, 0, 0, 33, 0, 0, 0, 1, *[0] * 6) + b"a"
    head, directory = b"PK\x03\x04".ljust(30, b"\0"), entry * 320_000
    return head + directory + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 9, 9, len(directory), len(head), 0)


def laughs() -> bytes:
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    head = f'<?xml version="1.0"?><!DOCTYPE w [<!ENTITY l0 "lol">{entities}]>'
    return office(
        (head + _DOCX.format("<w:p><w:r><w:t>&l9;</w:t></w:r></w:p>").removeprefix('<?xml version="1.0"?>')).encode()
    )


def deep_office() -> bytes:
    return office(_DOCX.format("<w:p>" * 200_000 + "</w:p>" * 200_000).encode())


def deep_html() -> bytes:
    return b"<html><body>" + b"<div>" * 500_000 + b"x" + b"</div>" * 500_000


def wide_table() -> bytes:
    return b"<html><body><table>" + b"<tr>" + b"<td colspan=1000>x</td>" * 200_000 + b"</tr></table>"


def looping_pdf() -> bytes:
    """Return a PDF whose pages are their own children."""
    return (
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        b"2 0 obj<</Type/Pages/Kids[2 0 R 2 0 R 2 0 R]/Count 9999999"
        b"/Parent 2 0 R>>endobj\nxref\n0 3\n0000000000 65535 f \n0000000009 00000 n \n0000000052 00000 n \n"
        b"trailer<</Root 1 0 R/Size 3>>\nstartxref\n130\n%%EOF"
    )


def pdf_bomb() -> bytes:
    """Return a PDF with a stream that is compressed four times over."""

    stream = b"(x) Tj " * 5_000_000
    for _ in range(3):
        stream = zlib.compress(stream, 9)
    body = b"<</Length %d/Filter[/FlateDecode/FlateDecode/FlateDecode]>>stream\n%s\nendstream" % (len(stream), stream)
    return (
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>endobj\n4 0 obj" + body + b"endobj\n"
        b"trailer<</Root 1 0 R/Size 5>>\n%%EOF"
    )


def broken() -> bytes:
    return office(b"<w:document")[:200]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("a.docx", zip_bomb),
        ("b.docx", lying_zip_bomb),
        ("c.docx", many_members),
        ("d.docx", laughs),
        ("e.docx", deep_office),
        ("f.html", deep_html),
        ("g.html", wide_table),
        ("h.pdf", looping_pdf),
        ("i.pdf", pdf_bomb),
        ("j.docx", broken),
    ],
)
async def test_a_bomb_is_over_within_ten_seconds(name: str, make: Callable[[], bytes]) -> None:
    """T14: refused with a reason, or read within the caps."""
    content = make()
    began = time.monotonic()
    try:
        converted = await SubprocessConverter().convert(name, content)
    except Unreadable as refused:
        told = str(refused)
    else:
        told = converted.text[:10_000_001]
    assert time.monotonic() - began < 10
    assert len(told) <= 10_000_000


@pytest.mark.long
async def test_others_are_answered_while_a_long_directory_is_read() -> None:
    loop, gaps = asyncio.get_running_loop(), [0.0]

    async def others() -> None:
        while True:
            before = loop.time()
            await asyncio.sleep(0)
            gaps.append(loop.time() - before)

    content = long_directory()
    beside = asyncio.create_task(others())
    await asyncio.sleep(0)
    began = loop.time()
    with pytest.raises(Unreadable, match="10,000 parts"):
        await SubprocessConverter().convert("many.docx", content)
    took = loop.time() - began
    await asyncio.sleep(0.01)
    beside.cancel()
    assert max(gaps) < took / 2


@pytest.mark.long
async def test_a_reader_that_never_ends_is_killed_and_the_document_says_why(knowledge: Knowledge) -> None:
    """T14: with a limit so short that any file is a bomb."""
    slow = SubprocessConverter(seconds=0.01)
    with pytest.raises(Unreadable, match="took"):
        await slow.convert("a.html", b"<p>x</p>")
    document = await put(knowledge, "a.docx", broken())
    assert document.status is DocumentStatus.FAILED
    assert document.error == "it is a broken archive"


def odd_names() -> list[str]:
    """Return 500 names that would lead out of wherever they are put, or that no file should have."""
    steps = ["..", "../..", "./..", "a/..", "a/../..", "\\..", "..\\..", "/", "//", "/etc", "~/..", "a//../b/.."]
    ends = ["passwd", "etc/passwd", "x.md", "\0.md", "a\n.md", "\u202e.md", "a\\b.md", " ", "", "a/", "..", "../x"]
    names = [f"{step}/{end}" for step in steps for end in ends]
    names += [f"{'../' * n}x.md" for n in range(1, 120)] + [f"a/{'../' * n}x.md" for n in range(1, 120)]
    names += [f"/abs/{n}.md" for n in range(60)] + [f"a\\..\\{n}.md" for n in range(60)]
    return names[:500]


async def test_no_name_leads_out_of_a_knowledge_base(knowledge: Knowledge) -> None:
    """T16."""
    scope = await writable(knowledge)
    assert len(odd_names()) == 500
    taken = []
    for name in odd_names():
        try:
            added = await knowledge.documents.library.add(NewDocument(uri=name, content=b"text"), scope)
        except InvalidInput:
            continue
        taken.append(added.document.uri)
    assert [name for name in taken if ".." in name.split("/") or name.startswith("/") or "\\" in name] == []


def test_no_link_in_a_folder_leads_out_of_it(tmp_path: Path) -> None:
    """T16: 500 names, none of them outside."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "good.md").write_text("good")
    (root / "inside.md").symlink_to("good.md")
    (root / "loop.md").symlink_to("loop.md")
    (root / "folder").symlink_to(outside)
    os.mkfifo(root / "pipe.md")
    for number in range(500):
        target = [
            "../outside/secret.md",
            str(outside / "secret.md"),
            f"{'../' * (number % 30 + 1)}etc/passwd",
            "/dev/zero",
        ]
        (root / f"{number}.md").symlink_to(target[number % 4])
    found = files_of(root).taken
    assert sorted(each.uri for each in found) == ["root/good.md", "root/inside.md"]
    assert all(each.path.read_text() == "good" for each in found)
