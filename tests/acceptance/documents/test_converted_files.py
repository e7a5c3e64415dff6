"""Sheets, slides, pages and mail: what a reader of the file sees is in the document, and stands on its page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from email.message import EmailMessage
from pathlib import Path

import pytest

from hardwon.models.documents import DocumentType
from knowledge.adapters.files import conversion
from knowledge.adapters.files.conversion import SubprocessConverter
from knowledge.adapters.files.conversion_worker import first
from knowledge.documents.parsing.decode import Unreadable, parse_text
from knowledge.wiring.open import Knowledge
from tests.acceptance.documents.test_hostile_files import packed
from tests.support.documents import add, find
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

pytest.importorskip("kreuzberg")


class Waits(SubprocessConverter):
    """Counts how many files it converts at once."""

    at_once = most = 0

    async def _run(self, ending: str, content: bytes) -> bytes:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0.05)
        self.at_once -= 1
        told = {
            "text": f"{ending} {len(content)}",
            "title": None,
            "pages": (),
            "of_pages": 0,
            "unread": (),
            "notes": (),
        }
        return json.dumps({**told, "text_cut": False, "pages_cut": False}).encode()


@pytest.mark.long
async def test_a_process_converts_two_files_at_a_time_whatever_workspace_they_are_of(knowledge: Knowledge) -> None:
    """Each workspace and asker had two processes of up to 2 GB to itself."""
    converter = Waits()
    told = await asyncio.gather(*(converter.convert("a.pdf", b"x" * size) for size in range(8)))
    assert [each.text for each in told] == [f".pdf {size}" for size in range(8)]
    assert converter.most == 2
    others = [knowledge.in_workspace(name).documents.library.converter for name in ("ours", "theirs")]
    assert all(other is knowledge.documents.library.converter for other in others)


_SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def workbook(*sheets: Sequence[Sequence[str]]) -> bytes:
    """Return a workbook of sheets of rows of texts."""

    def rows(sheet: Sequence[Sequence[str]]) -> str:
        cells = ("".join(f'<c t="inlineStr"><is><t>{text}</t></is></c>' for text in row) for row in sheet)
        return "".join(f"<row>{told}</row>" for told in cells)

    numbers = range(1, len(sheets) + 1)
    named = "".join(f'<sheet name="Sheet{n}" sheetId="{n}" r:id="rId{n}"/>' for n in numbers)
    links = "".join(
        f'<Relationship Id="rId{n}" Type="{_LINKS}/worksheet" Target="worksheets/sheet{n}.xml"/>' for n in numbers
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="xml" ContentType="application/xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{_LINKS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_SHEETS}" xmlns:r="{_LINKS}"><sheets>{named}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">{links}</Relationships>',
    } | {
        f"xl/worksheets/sheet{n}.xml": f'<worksheet xmlns="{_SHEETS}"><sheetData>{rows(sheet)}</sheetData></worksheet>'
        for n, sheet in enumerate(sheets, 1)
    }
    return packed({name: part.encode() for name, part in parts.items()})


def pdf(*pages: Sequence[str]) -> bytes:
    """Return a PDF of pages of lines."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for n, lines in enumerate(pages):
        told = "BT /F1 12 Tf 72 720 Td 14 TL " + " ".join(f"({line}) Tj T*" for line in lines) + " ET"
        fonts = "/Resources<</Font<</F1 3 0 R>>>>"
        objects += [
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]{fonts}/Contents {5 + 2 * n} 0 R>>",
            f"<</Length {len(told)}>>stream\n{told}\nendstream",
        ]
    body, places = "%PDF-1.4\n", []
    for n, each in enumerate(objects, 1):
        places.append(f"{len(body):010} 00000 n \n")
        body += f"{n} 0 obj{each}endobj\n"
    table = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{''.join(places)}"
    return f"{body}{table}trailer<</Root 1 0 R/Size {len(objects) + 1}>>\nstartxref\n{len(body)}\n%%EOF".encode()


def mail(subject: str, body: str, subtype: str = "plain") -> EmailMessage:
    made = EmailMessage()
    made["Subject"], made["From"] = subject, "ops@example.com"
    made.set_content(body, subtype=subtype)
    return made


async def test_a_workbook_of_several_sheets_is_read(knowledge: Knowledge) -> None:
    """The pages that the library tells of it are empty: of two sheets on, nothing at all was read."""
    limits = [("Service", "Connections"), ("billing", "forty")]
    await add(knowledge, "limits.xlsx", workbook(limits, [("Owner", "Room"), ("Platform", "cellar")]))
    text = "\n".join(passage.text for passage in (await find(knowledge, "billing connections cellar")).passages)
    assert "| billing | forty |" in text
    assert "| Platform | cellar |" in text


async def test_a_page_is_the_page_of_the_file_also_behind_what_was_redacted() -> None:
    """Placeholders are shorter than keys: whatever came after one was told to stand on a page before its own."""
    keys = [f"token gh{'p'}_{'Ab3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ'}{n}" for n in range(9)]
    made = pdf(keys, ["The mirror is pushed to."], ["The queue is drained."])
    told = await SubprocessConverter().convert("a.pdf", made)
    found = parse_text(told.text, DocumentType.MARKDOWN, redacting=True, pages=told.pages)
    assert "[redacted:github-token]" in found.text
    assert [found.text[start:].split()[1] for start in found.pages] == ["[redacted:github-token]", "mirror", "queue"]


class Heard(SubprocessConverter):
    """Keeps what its process told last."""

    told: bytes = b""

    async def _run(self, ending: str, content: bytes) -> bytes:
        self.told = await super()._run(ending, content)
        return self.told


async def test_a_process_tells_no_more_of_all_pages_together_than_of_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of thousands of pages could have as many characters as a document may."""
    monkeypatch.setattr(conversion, "CHARACTERS", 1000)
    heard = Heard()
    told = await heard.convert("a.pdf", pdf(*([f"Page {n} says this, and more of it."] * 10 for n in range(20))))
    raw = json.loads(heard.told)
    assert sum(map(len, raw["pages"])) <= 1000
    assert len(raw["text"]) <= 1000
    assert raw["of_pages"] == 20
    assert len(told.text) <= 1000
    assert told.text.startswith("Page 0 says this")
    assert len(told.pages) == len(raw["pages"]) > 1
    assert told.notes == ("Only the first 1,000 characters are read.",)


@pytest.mark.parametrize("pages", [["a" * 600, "b" * 600], [""] * 5000])
def test_of_pages_without_an_end_the_first_are_kept(pages: list[str]) -> None:
    kept = first(pages, 1000)
    assert sum(map(len, kept)) <= 1000
    assert len(kept) <= 1000
    assert kept[0] == pages[0]


@pytest.mark.long
@pytest.mark.parametrize(
    ("most", "says"), [(1_000_000, "longer than a document may be"), (10**12, "took more than 1 seconds")]
)
async def test_a_process_that_tells_without_an_end_is_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, most: int, says: str
) -> None:
    """What reads a file may be made to write whatever it likes, and we took all of it into our memory.

    Or waited for good for a process that was killed, and whose last words nobody read.
    """
    endless = tmp_path / "endless.py"
    endless.write_text("import sys\nwhile True:\n    sys.stdout.write('x' * 65536)\n")
    monkeypatch.setattr(conversion, "_CHILD", endless)
    monkeypatch.setattr(conversion, "_MAX_OUTPUT", most)
    async with asyncio.timeout(30):
        for _ in range(3):
            with pytest.raises(Unreadable, match=says):
                await SubprocessConverter(seconds=1.0 if most > 1_000_000 else 9.0).convert("a.pdf", b"%PDF" * 100_000)


@pytest.mark.parametrize("charset", ["iso-8859-1", "windows-1251", "shift_jis", "utf-16"])
async def test_a_page_is_read_in_the_letters_it_is_written_in(charset: str) -> None:
    """Whatever was not written in UTF-8 had its letters replaced."""
    word = {"windows-1251": "Очередь", "shift_jis": "待ち行列"}.get(charset, "Störungsmeldung")
    page = f'<html><head><meta charset="{charset}"><title>{word} &amp; more</title></head><body><p>{word}</p></body>'
    told = await SubprocessConverter().convert("a.html", page.encode(charset))
    assert word in told.text
    assert told.title == f"{word} & more"


async def test_a_mail_of_html_alone_keeps_its_words_apart() -> None:
    """Most mails of monitors and trackers are; headings, paragraphs and cells ran together."""
    page = "<h1>Outage</h1><p>The queue was full.</p><table><tr><td>billing</td><td>down</td></tr></table><p>Fixé.</p>"
    told = await SubprocessConverter().convert("a.eml", bytes(mail("Störung", page, "html")))
    assert told.title == "Störung"
    assert {"Outage", "The queue was full.", "Fixé."} <= set(told.text.split("\n"))
    assert "billingdown" not in told.text


async def test_what_is_attached_to_a_mail_is_read_and_what_is_not_is_named() -> None:
    made = mail("Outage", "The log is attached.")
    made.add_attachment("The queue was full at noon.", filename="notes.txt")
    made.add_attachment(pdf(["Drain it first."]), maintype="application", subtype="pdf", filename="runbook.pdf")
    made.add_attachment(b"\x89PNG\r\n\x1a\n", maintype="image", subtype="png", filename="screen.png")
    outer = mail("Fwd: Outage", "See below.")
    outer.add_attachment(made)
    told = await SubprocessConverter().convert("a.eml", bytes(made))
    assert "The queue was full at noon." in told.text
    assert "## runbook.pdf\n\nDrain it first." in told.text
    assert told.notes == ("Attachments that are not read: screen.png.",)
    forwarded = await SubprocessConverter().convert("b.eml", bytes(outer))
    assert "Drain it first." in forwarded.text
    assert "Content-Type" not in forwarded.text


@pytest.mark.parametrize("name", [None, "fwd.eml"])
async def test_a_mail_in_a_mail_is_read_once(name: str | None) -> None:
    outer = mail("Fwd: Outage", "See below.")
    inner = mail("Outage", "The queue was full at noon.")
    if name:
        outer.add_attachment(inner, filename=name)
    else:
        outer.add_attachment(inner)
    told = await SubprocessConverter().convert("a.eml", bytes(outer))
    assert told.text.count("The queue was full at noon.") == 1
    assert told.notes == ()


@pytest.mark.parametrize("ending", ["docx", "xlsx", "pptx"])
async def test_an_office_file_that_takes_a_password_says_so(ending: str) -> None:
    """It was told that no end of a central directory was found."""
    with pytest.raises(Unreadable, match=f"takes a password, .*: save it as .{ending}, without a password"):
        await SubprocessConverter().convert(f"a.{ending}", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".ljust(2000, b"\0"))
    with pytest.raises(Unreadable, match="is something else than its name says"):
        await SubprocessConverter().convert(f"a.{ending}", pdf(["One."]))
