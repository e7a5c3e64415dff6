"""Files of Office programs for tests, made by the libraries that write them."""

from __future__ import annotations

import datetime as dt
import io
from typing import Any, Protocol

import docx
import openpyxl
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from odf import style, table, text
from odf.opendocument import OpenDocumentPresentation, OpenDocumentSpreadsheet, OpenDocumentText
from pptx import Presentation
from pptx.util import Inches


class Savable(Protocol):
    """A document that a library writes."""

    def save(self, target: Any) -> None:
        """Write it."""


def saved(document: Savable) -> bytes:
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()


def word() -> bytes:
    """Return a .docx with each element that a converter dropped or joined."""
    document: Any = docx.Document()
    document.sections[0].header.paragraphs[0].text = "Handbook version 3.2"
    document.add_heading("Ports", 1)
    ports = document.add_paragraph("Ports 8000")
    ports.runs[0]._r.append(OxmlElement("w:noBreakHyphen"))
    ports.add_run("8010 are open, kept 30")
    ports.runs[1]._r.append(OxmlElement("w:noBreakHyphen"))
    ports.add_run("90 days.")
    document.add_paragraph("port\t9100")
    symbol = document.add_paragraph("The tolerance is ")
    sign = OxmlElement("w:sym")
    sign.set(qn("w:font"), "Symbol")
    sign.set(qn("w:char"), "F0B1")
    symbol.add_run()._r.append(sign)
    symbol.add_run("5 degrees.")
    rows = document.add_paragraph("It holds 10")
    rows.add_run("6").font.superscript = True
    rows.add_run(" rows of H")
    rows.add_run("2").font.subscript = True
    rows.add_run("O.")
    rows.add_run(" The secret is 4711.").font.hidden = True
    document.add_heading("Restart", 1)
    for step in ("Drain the node.", "Stop the service.", "Start it again."):
        document.add_paragraph(step, style="List Number")
    for point in ("first point", "second point"):
        document.add_paragraph(point, style="List Bullet")
    limits = document.add_table(4, 3)
    limits.cell(0, 0).merge(limits.cell(1, 0)).text = "Region"
    limits.cell(0, 1).merge(limits.cell(0, 2)).text = "Latency"
    limits.cell(1, 1).text, limits.cell(1, 2).text = "p50", "p99"
    limits.cell(2, 0).merge(limits.cell(3, 0)).text = "us-east"
    for row, cells in ((2, ("12 ms", "80 ms")), (3, ("14 ms", "95 ms"))):
        limits.cell(row, 1).text, limits.cell(row, 2).text = cells
    return saved(document)


def workbook() -> bytes:
    """Return an .xlsx with number formats, merged headers, and what is hidden."""
    book = openpyxl.Workbook()
    times: Any = book.active
    times.title = "Times"
    times.append(["job", "start", "took", "share", "cost", "day"])
    times.append(["backup", dt.time(9, 30), dt.timedelta(hours=30), 0.125, 1234.5, dt.date(2026, 3, 1)])
    for cell, code in zip("BCDEF", ("hh:mm", "[h]:mm", "0.0%", "#,##0.00", "yyyy-mm-dd"), strict=True):
        times[f"{cell}2"].number_format = code
    times.append(["gone", None, None, 0.777])
    times.row_dimensions[3].hidden = True
    times.append(["sync", dt.time(18, 5), dt.timedelta(minutes=90), 0.5, -3, dt.date(2026, 4, 2)])
    for cell, code in zip("BCDEF", ("h:mm AM/PM", "[h]:mm", "0%", "0;(0)", "d mmm yyyy"), strict=True):
        times[f"{cell}4"].number_format = code
    secret = book.create_sheet("Secret")
    secret["A1"] = "hidden 4711"
    secret.sheet_state = "hidden"
    merged = book.create_sheet("Merged")
    merged["A1"], merged["B1"] = "Region", "Latency"
    merged.merge_cells("B1:C1")
    merged["B2"], merged["C2"] = "p50", "p99"
    merged.append(["us-east", 12, 80])
    return saved(book)


def slides() -> bytes:
    """Return a .pptx with notes, a table, a raised sign, and a hidden slide."""
    deck: Any = Presentation()
    shown = deck.slides.add_slide(deck.slide_layouts[1])
    shown.shapes.title.text = "Limits"
    shown.placeholders[1].text = "At most 10"
    run = shown.placeholders[1].text_frame.paragraphs[0].add_run()
    run.text = "6"
    run.font._element.set("baseline", "30000")
    shown.notes_slide.notes_text_frame.text = "Mention the 45 minutes."
    cells = shown.shapes.add_table(2, 2, 0, 0, Inches(2), Inches(1)).table
    for at, word_ in enumerate(("host", "port", "db1", "5432")):
        cells.cell(at // 2, at % 2).text = word_
    hidden = deck.slides.add_slide(deck.slide_layouts[1])
    hidden.shapes.title.text = "Secret 4711"
    hidden._element.set("show", "0")
    return saved(deck)


def _styled(document: Any, name: str, **properties: str) -> Any:
    made = style.Style(name=name, family="text")
    made.addElement(style.TextProperties(**properties))
    document.automaticstyles.addElement(made)
    return made


def writer() -> bytes:
    """Return an .odt with a tab, blanks, a raised sign, hidden text and steps."""
    document: Any = OpenDocumentText()
    raised, hidden = _styled(document, "S", textposition="super 58%"), _styled(document, "H", display="none")
    document.text.addElement(text.H(outlinelevel=1, text="Ports"))
    line = text.P(text="port")
    line.addElement(text.Tab())
    line.addText("9100 takes 10")
    line.addElement(text.Span(stylename=raised, text="6"))
    line.addText(" rows.")
    line.addElement(text.Span(stylename=hidden, text="The secret is 4711."))
    document.text.addElement(line)
    numbered = text.ListStyle(name="L")
    numbered.addElement(text.ListLevelStyleNumber(level="1", numformat="1", numsuffix="."))
    document.automaticstyles.addElement(numbered)
    steps = text.List(stylename=numbered)
    for step in ("Drain it.", "Stop it.", "Start it."):
        item = text.ListItem()
        item.addElement(text.P(text=step))
        steps.addElement(item)
    document.text.addElement(steps)
    return saved(document)


def calc() -> bytes:
    """Return an .ods with durations and shares, with and without what they show, and a hidden sheet."""
    document: Any = OpenDocumentSpreadsheet()
    off = style.Style(name="T", family="table")
    off.addElement(style.TableProperties(display="false"))
    document.automaticstyles.addElement(off)

    def sheet(name: str, rows: list[list[Any]], **more: Any) -> None:
        made = table.Table(name=name, **more)
        for cells in rows:
            row = table.TableRow()
            for cell in cells:
                row.addElement(cell)
            made.addElement(row)
        document.spreadsheet.addElement(made)

    def cell(shown: str | None, **more: str) -> Any:
        made = table.TableCell(**more)
        if shown is not None:
            made.addElement(text.P(text=shown))
        return made

    took = {"valuetype": "time", "timevalue": "PT05H30M00S"}
    sheet(
        "Times",
        [
            [cell("job"), cell("took"), cell("share")],
            [cell("backup"), cell("5:30", **took), cell("12.5 %", valuetype="percentage", value="0.125")],
            [cell("sync"), cell(None, **took), cell(None, valuetype="percentage", value="0.255")],
        ],
    )
    sheet("Secret", [[cell("hidden 4711")]], stylename=off)
    return saved(document)


def impress() -> bytes:
    """Return an .odp of one slide."""
    from odf import draw  # noqa: PLC0415 - only here

    document: Any = OpenDocumentPresentation()
    layout = style.PageLayout(name="P")
    document.automaticstyles.addElement(layout)
    master = style.MasterPage(name="M", pagelayoutname=layout)
    document.masterstyles.addElement(master)
    page = draw.Page(name="one", masterpagename=master)
    frame = draw.Frame(width="1cm", height="1cm")
    box = draw.TextBox()
    box.addElement(text.P(text="The quota is 75 GB."))
    frame.addElement(box)
    page.addElement(frame)
    document.presentation.addElement(page)
    return saved(document)
