"""A figure that is quoted is the figure that a person sees: each format, stored and searched, against its own signs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from knowledge.wiring.open import Knowledge
from tests.acceptance.documents.test_hostile_files import packed
from tests.acceptance.formats import office
from tests.support.documents import add, find
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

_HTML = """<html><head><title>Limits</title><style>.no { display: none }</style></head><body><h1>Limits</h1>
<p>It holds 10<sup>6</sup> rows of 2<sup>32</sup> bytes and waits 250 ms<sup><a href="#n1">1</a></sup>.</p>
<p>Use <math><mfrac><mn>1</mn><mn>2</mn></mfrac></math> of it, <del>40</del> 60 at most.</p>
<p class="no">Secret 4711.</p>
<p style="display:none">Secret 4712.</p><table><thead><tr><th rowspan=2>Region</th><th colspan=2>Latency</th></tr>
<tr><th>p50</th><th>p99</th></tr></thead><tr><td rowspan=2>us-east</td><td>12</td><td>80</td></tr>
<tr><td>14</td><td>95</td></tr></table><ol start=4><li>Drain it.<li>Stop it.</ol><dl><dt>quota<dd>75 GB a team</dl>
<pre>retry   --after 5</pre></body></html>"""
_RTF = rb"""{\rtf1\ansi{\fonttbl{\f0 Arial;}}\pard The pump does 10{\super 3} rpm, see 10\_16 and 8000\_8010.\par
port\tab 9100 {\v secret 4711}\'b1 5\par {\listtext 1.\tab}Drain it.\par {\listtext 2.\tab}Stop it.\par}"""
_MAN = r""".TH PUMPD 8 2026-01-01
.SH NAME
pumpd \- pour water
.SH OPTIONS
.TP
\fB\-r\fR, \fB\-\-retry\fR=\fIN\fR
Try \fIN\fR times; the default is 5.
.TP
.BI \-\-wait= SECONDS
Wait so long (at most 10\u6\d).
.PP
Files are read
.nf
pumpd \-\-check /etc/pumpd.conf
.fi
.SH "EXIT STATUS"
.TS
tab(;);
lb lb
l l.
Status;Meaning
3;the tank is empty
.TE
"""
_MDOC = """.Dd January 1, 2026
.Dt HOPPERD 8
.Os
.Sh NAME
.Nm hopperd
.Nd drop parcels
.Sh DESCRIPTION
The options are:
.Bl -tag -width Ds
.It Fl n Ar count
Drop
.Ar count
parcels; the default is 7.
.It Fl v
See
.Xr pumpd 8 .
.El
"""
_ORG = """#+TITLE: Runbook
* TODO Restart                      :ops:
:PROPERTIES:
:ID: 4711
:END:
Wait =30 s=, see [[https://example.org/x][the guide]].
- quota :: 75 GB
| host | port |
|------+------|
| db1  | 5432 |
#+begin_src sh
pumpctl restart
#+end_src
# secret 4712
"""
_ADOC = """= Runbook
:toc:

== Restart

Wait 30 s.

----
pumpctl restart
----
"""
_MARKDOWN = """---
title: Limits
tags: [a, b]
---
# Limits

<table>
<tr><th rowspan="2">Region</th><th colspan="2">Latency</th></tr>
<tr><th>p50</th><th>p99</th></tr>
<tr><td>us-east</td><td>12 ms</td><td>80 ms</td></tr>
</table>

Lines below stay on theirs.
"""


def _notebook() -> bytes:
    cells = [
        {"cell_type": "markdown", "source": ["# Limits\n", "The quota is 75 GB."]},
        {
            "cell_type": "code",
            "source": "print(6 * 7)",
            "outputs": [{"output_type": "stream", "text": ["42\n"]}],
        },
        {"cell_type": "code", "source": "secret = 4711", "metadata": {"tags": ["remove-cell"]}, "outputs": []},
    ]
    return json.dumps({"nbformat": 4, "cells": cells, "metadata": {}}).encode()


def _epub() -> bytes:
    page = (
        "<html xmlns='http://www.w3.org/1999/xhtml'><body><h1>Pump</h1><p>It does 10<sup>3</sup> rpm.</p></body></html>"
    )
    return packed(
        {
            "META-INF/container.xml": b"<container><rootfiles><rootfile full-path='o/c.opf'/></rootfiles></container>",
            "o/c.opf": b"<package><manifest><item id='a' href='a.xhtml'/></manifest>"
            b"<spine><itemref idref='a'/></spine></package>",
            "o/a.xhtml": page.encode(),
        }
    )


def _mail() -> bytes:
    return (
        b"Subject: Limits\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
        b"<p>It holds 10<sup>6</sup> rows.</p><p style='display:none'>secret 4711</p>"
    )


@dataclass(frozen=True)
class _Case:
    name: str
    make: Callable[[], bytes]
    shown: tuple[str, ...]
    absent: tuple[str, ...] = ()


def _of(text: str, encoding: str = "utf-8") -> Callable[[], bytes]:
    return lambda: text.encode(encoding)


_RUSSIAN = "Максимальное число соединений равно 40. Проверьте журнал сервера перед перезапуском."
_GERMAN = "Die Größe der Warteschlange beträgt 40. Für Änderungen prüfen Sie die Übersicht."
_POLISH = "Limit połączeń wynosi 40. Ścieżka do pliku źródłowego jest błędna, proszę sprawdzić."
_JAPANESE = "最大接続数は40です。再起動の前にサーバーのログを確認してください。"

CASES = (
    _Case(
        "a.docx",
        office.word,
        (
            "Ports 8000-8010 are open",
            "30-90 days",
            "port 9100",
            "tolerance is ±5 degrees",
            "10^6 rows",
            "H2O",
            "1. Drain the node.",
            "2. Stop the service.",
            "3. Start it again.",
            "- first point",
            "Handbook version 3.2",
            "| Region | Latency p50 | Latency p99 |",
            "| us-east | 12 ms | 80 ms |",
            "| us-east | 14 ms | 95 ms |",
        ),
        ("4711", "80008010", "3090"),
    ),
    _Case(
        "a.xlsx",
        office.workbook,
        (
            "| backup | 09:30 | 30:00 | 12.5% | 1,234.50 | 2026-03-01 |",
            "| sync | 6:05 PM | 1:30 | 50% | (3) | 2 Apr 2026 |",
            "| Region | Latency p50 | Latency p99 |",
            "| us-east | 12 | 80 |",
        ),
        ("4711", "1899", "1900", "0.125", "gone"),
    ),
    _Case(
        "a.pptx",
        office.slides,
        ("Limits", "At most 10^6", "Notes: Mention the 45 minutes.", "| host | port |", "| db1 | 5432 |"),
        ("4711", "106"),
    ),
    _Case(
        "a.odt",
        office.writer,
        ("port 9100 takes 10^6 rows", "1. Drain it.", "2. Stop it.", "3. Start it."),
        ("4711", "&#9;"),
    ),
    _Case(
        "a.ods",
        office.calc,
        ("| backup | 5:30 | 12.5 % |", "| sync | 05:30:00 | 25.5% |", "| job | took | share |"),
        ("4711", "PT05H", "0.125"),
    ),
    _Case("a.odp", office.impress, ("The quota is 75 GB.",)),
    _Case(
        "a.html",
        _of(_HTML),
        (
            "10^6 rows of 2^32 bytes",
            "250 ms[1]",
            "Use 1/2 of it",
            "~~40~~ 60",
            "| Region | Latency p50 | Latency p99 |",
            "| us-east | 12 | 80 |",
            "| us-east | 14 | 95 |",
            "4. Drain it.",
            "5. Stop it.",
            "quota: 75 GB a team",
            "retry   --after 5",
        ),
        ("4711", "4712", "106", "232", "ms1"),
    ),
    _Case("b.xhtml", _of(_HTML), ("10^6 rows", "| us-east | 14 | 95 |"), ("4711",)),
    _Case(
        "a.rtf",
        lambda: _RTF,
        ("10^3 rpm", "10-16", "8000-8010", "port 9100", "± 5", "1. Drain it.", "2. Stop it."),
        ("4711", "103", "10_16", "80008010"),
    ),
    _Case("a.epub", _epub, ("10^3 rpm", "Pump"), ("103",)),
    _Case("a.eml", _mail, ("10^6 rows",), ("106", "4711")),
    _Case(
        "pumpd.8",
        _of(_MAN),
        (
            "-r, --retry=N:",
            "Try N times; the default is 5.",
            "--wait=SECONDS:",
            "at most 10^6",
            "pumpd --check /etc/pumpd.conf",
            "| Status | Meaning |",
            "| 3 | the tank is empty |",
        ),
        ("\\f", "\\-"),
    ),
    _Case("pumpd.8.gz", lambda: gzip.compress(_MAN.encode()), ("the default is 5.",)),
    _Case("hopperd.8", _of(_MDOC), ("-n count:", "the default is 7.", "pumpd(8).")),
    _Case(
        "a.org",
        _of(_ORG),
        ("# Restart", "`30 s`", "see the guide", "quota: 75 GB", "| db1  | 5432 |", "pumpctl restart"),
        ("4711", "4712", "TODO"),
    ),
    _Case("a.adoc", _of(_ADOC), ("## Restart", "Wait 30 s.", "pumpctl restart")),
    _Case("b.txt", _of(_ADOC), ("## Restart", "Wait 30 s.")),
    _Case("a.ipynb", _notebook, ("The quota is 75 GB.", "print(6 * 7)", "42"), ("4711", "cell_type")),
    _Case(
        "a.md",
        _of(_MARKDOWN),
        ("| Region | Latency p50 | Latency p99 |", "| us-east | 12 ms | 80 ms |"),
        ("<td>", "tags:"),
    ),
    _Case("cp1251.txt", _of(_RUSSIAN, "cp1251"), ("равно 40",)),
    _Case("koi8.txt", _of(_RUSSIAN, "koi8-r"), ("равно 40",)),
    _Case("latin.txt", _of(_GERMAN, "latin-1"), ("Größe der Warteschlange beträgt 40",)),
    _Case("cp1250.txt", _of(_POLISH, "cp1250"), ("połączeń wynosi 40",)),
    _Case("sjis.txt", _of(_JAPANESE, "shift_jis"), ("最大接続数は40です",)),
    _Case("utf16.txt", _of(_GERMAN, "utf-16-le"), ("beträgt 40",)),
    _Case("quoted.txt", _of("The limit is ±5 – see “Limits”. It costs €5.", "cp1252"), ("±5 – see “Limits”", "€5")),  # noqa: RUF001
)


def test_there_are_enough_checks_over_enough_formats() -> None:
    assert len(CASES) >= 25
    assert sum(len(case.shown) + len(case.absent) for case in CASES) >= 80


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_passage_says_what_a_person_sees(knowledge: Knowledge, case: _Case) -> None:
    document = await add(knowledge, case.name, case.make())
    assert document.error is None
    passages = (await find(knowledge, case.shown[0], k=50)).passages
    text = "\n".join(passage.text for passage in passages)
    assert [figure for figure in case.shown if figure not in text] == [], text
    assert [figure for figure in case.absent if figure in text] == [], text
