"""Files that are made to cost time or memory, or are cut, for each reader: refused, or read within limits."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable

import pytest

from knowledge.adapters.files.conversion import SubprocessConverter
from knowledge.documents.parsing.decode import Unreadable, read
from tests.acceptance.documents.test_hostile_files import packed
from tests.acceptance.formats import office

_SHEET = "<worksheet xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main'>{}</worksheet>"
_ROW = "<sheetData><row r='1'>{}</row></sheetData>"
_BOOK = (
    b"<workbook xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main' xmlns:r='http://schemas.openxmlformats."
    b"org/officeDocument/2006/relationships'><sheets><sheet name='a' sheetId='1' r:id='r'/></sheets></workbook>"
)
_RELATIONS = "<Relationships><Relationship Id='r' Type='x/{}' Target='{}'/></Relationships>"


def _book(rows: str) -> bytes:
    return packed(
        {
            "_rels/.rels": _RELATIONS.format("officeDocument", "xl/workbook.xml").encode(),
            "xl/workbook.xml": _BOOK,
            "xl/_rels/workbook.xml.rels": _RELATIONS.format("worksheet", "s.xml").encode(),
            "xl/s.xml": _SHEET.format(rows).encode(),
        }
    )


def _odf(body: str) -> bytes:
    kinds = (("o", "office"), ("t", "table"), ("x", "text"))
    names = " ".join(f"xmlns:{sign}='urn:oasis:names:tc:opendocument:xmlns:{kind}:1.0'" for sign, kind in kinds)
    content = f"<o:document-content {names}><o:body>{body}</o:body></o:document-content>"
    return packed({"content.xml": content.encode()})


def _wide_ods() -> bytes:
    cell = "<t:table-cell t:number-columns-repeated='16000'><x:p>x</x:p></t:table-cell>"
    row = f"<t:table-row t:number-rows-repeated='1000000'>{cell}</t:table-row>"
    return _odf(f"<o:spreadsheet><t:table>{row}</t:table></o:spreadsheet>")


BOMBS: tuple[tuple[str, Callable[[], bytes]], ...] = (
    ("far.xlsx", lambda: _book("<sheetData><row r='1048576'><c r='XFD1048576'><v>7</v></c></row></sheetData>")),
    ("long.xlsx", lambda: _book(_ROW.format(f"<c t='inlineStr'><is><t>{'x' * 9_000_000}</t></is></c>"))),
    ("many.xlsx", lambda: _book("<sheetData>" + "<row>" + "<c><v>7</v></c>" * 1_000_000 + "</row></sheetData>")),
    ("merged.xlsx", lambda: _book(_ROW.format("<c r='A1'><v>7</v></c>") + "<mergeCell ref='A1:XFD1048576'/>" * 50_000)),
    ("repeated.ods", _wide_ods),
    ("deep.odt", lambda: _odf("<o:text>" + "<x:list>" * 100_000 + "</x:list>" * 100_000 + "</o:text>")),
    ("deep.rtf", lambda: b"{\\rtf1 " + b"{" * 200_000 + b"x" + b"}" * 200_000),
    ("binary.rtf", lambda: b"{\\rtf1 \\bin999999999 x}"),
    ("spans.html", lambda: b"<table>" + b"<tr><td rowspan=65000 colspan=1000>x" * 5000),
    ("raised.html", lambda: b"<p>" + b"<sup>" * 200 + b"x" + b"<p>y<sup>" * 20_000),
    ("laughs.html", lambda: b"<!DOCTYPE a [<!ENTITY l 'lol'><!ENTITY m '&l;&l;'>]><p>&m; said 5</p>"),
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("name", "make"), BOMBS, ids=[name for name, _ in BOMBS])
async def test_a_bomb_of_a_format_is_over_in_time(name: str, make: Callable[[], bytes]) -> None:
    began = time.monotonic()
    try:
        converted = (await SubprocessConverter().convert(name, make())).text
    except Unreadable as refused:
        converted = str(refused)
    assert len(converted) <= 10_000_000
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("ending", ["docx", "xlsx", "pptx", "odt", "ods", "odp"])
async def test_a_cut_file_is_refused(ending: str) -> None:
    made = {"docx": office.word, "xlsx": office.workbook, "pptx": office.slides, "odt": office.writer}
    content = made.get(ending, office.calc if ending == "ods" else office.impress)()
    for share in (0.1, 0.5, 0.9):
        with pytest.raises(Unreadable, match="broken archive"):
            await SubprocessConverter().convert(f"a.{ending}", content[: int(len(content) * share)])


TEXTS: tuple[tuple[str, bytes], ...] = (
    ("deep.ipynb", b'{"nbformat": 4, "cells": ' + b"[" * 100_000),
    ("odd.ipynb", json.dumps({"nbformat": 4, "cells": [None, 5, {"cell_type": "code", "outputs": [7]}]}).encode()),
    ("bomb.1.gz", gzip.compress(b".TH A 1\n" + b"a" * 20_000_000)),
    ("cut.1.gz", gzip.compress(b".TH A 1\n.SH NAME\n" + bytes(range(65, 90)) * 900)[:-12]),
    ("few.txt", "Очередь".encode("cp1251")),
)


@pytest.mark.parametrize(("name", "content"), TEXTS, ids=[name for name, _ in TEXTS])
def test_a_hostile_text_is_refused_with_a_sentence(name: str, content: bytes) -> None:
    with pytest.raises(Unreadable):
        read(name, content, redacting=False)


LONG: tuple[tuple[str, str], ...] = (
    ("if.1", ".TH A 1\n" + ".ie n \\{\n" * 50_000),
    ("de.1", ".TH A 1\n" + ".de x\n" * 50_000),
    ("rs.1", ".TH A 1\n" + "x\n.RS\n" * 50_000),
    ("escapes.1", ".TH A 1\n" + "\\f[" * 100_000 + "\n" + '.B "' + '""' * 100_000),
    ("strings.1", ".TH A 1\n" + "".join(f".ds a{n} \\*(ab\\*(ab\n" for n in range(50_000)) + "\\*(ab\n" * 1000),
    ("it.1", ".Dd x\n.Dt A 1\n" + ".It Oo " * 20_000 + "\n" + ".Bl -tag\n" * 50_000),
    ("tbl.1", ".TH A 1\n" + ".TS\nl l.\nT{\n" * 3000),
    ("spans.md", "<table>\n" + "<tr><td rowspan=9999 colspan=9999>x</td>\n" * 2000 + "</table>\n"),
    ("open.md", "<table>\n" * 50_000),
    ("links.org", "[[" * 100_000 + "\n" + "=a" * 100_000 + "\n" + "* " + ":" * 100_000),
    ("a.txt", "= A\n" + ":a:" * 100_000),
)


@pytest.mark.parametrize(("name", "text"), LONG, ids=[name for name, _ in LONG])
def test_a_text_of_odd_markup_costs_little_time(name: str, text: str) -> None:
    began = time.process_time()
    document = read(name, text.encode(), redacting=False)
    assert len(document.text) <= 20 * len(text) + 100
    assert time.process_time() - began < 5
