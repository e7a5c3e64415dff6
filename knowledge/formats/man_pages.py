"""Convert manual pages (man and mdoc macros of roff) to Markdown, each line where it was. Pure.

What a page shows on a terminal is written: headings, terms with their bodies, examples, tables. Registers and
conditions of roff are read as far as pages use them; macros that a page defines for itself are not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from knowledge.formats.mdoc import BEGIN_DISPLAY, MDOC_ENDS, render_mdoc, split_arguments

MAN_NAME = re.compile(
    r"(?i)(?!.*\.(?:so|log|out|err)\.)[^/a-z_\[]*[a-z_\[][^/]*\.(?:[1-9](?!z|gp|g2|ds)[a-z]{0,8}|man|mdoc)(?:\.gz)?"
)
"""Names of manual pages: `ls.1`, `select.2.gz`."""
_HEAD = re.compile(r"^[.'][ \t]*(?:TH|Dd)[ \t]", re.MULTILINE)
_HEAD_CHARS: Final = 20_000
_ESCAPE = re.compile(
    r"\\(?:(?P<font>f(?:\[[^\]\n]{0,40}\]|\(..|.))|(?P<size>s(?:\[[^\]\n]{0,40}\]|\([+-]?\d\d"
    r"|[+-]?\(\d\d|[+-]?'[^'\n]{0,40}'|[+-]?\d))"
    r"|(?P<measure>[hvwlLDbxSHXZRA]'[^'\n]{0,200}')|(?P<colour>[mMFYgkVO](?:\[[^\]\n]{0,40}\]|\(..|.))|N'(?P<code>\d{1,6})'"
    r"|\[(?P<name>[^\]\n]{1,40})\]|\((?P<short>..)|\*(?P<string>\[[^\]\n]{0,40}\]|\(..|.)"
    r"|n(?P<register>[+-]?(?:\[[^\]\n]{0,40}\]|\(..|.))"
    r"|(?P<sign>.))"
)
_COMMENT = re.compile(r"(?<!\\)(?:\\\\)*\\[\"#].*")
_SIGNS: Final = {
    "-": "-", " ": " ", "~": " ", "0": " ", "e": "\\", "\\": "\\", "&": "", "|": "", "^": "",
    "%": "", ":": "", "c": "", "/": "", ",": "", ")": "", "'": "´", "`": "`", ".": ".", "t": " ",  # noqa: RUF001
    "a": "", "p": "", "{": "", "}": "", "d": "", "u": "", "r": "", "z": "", "!": "", "_": "_",
    "E": "\\",
}  # fmt: skip
_SPECIAL: Final = {
    "em": "—", "en": "–", "hy": "-", "mi": "−", "pl": "+", "bu": "•", "co": "©", "rg": "®",  # noqa: RUF001
    "tm": "™", "aq": "'", "dq": '"', "oq": "‘", "cq": "’", "lq": "“", "rq": "”", "ga": "`",  # noqa: RUF001
    "aa": "´", "ha": "^", "ti": "~", "rs": "\\", "sl": "/", "ul": "_", "ru": "_", "or": "|",  # noqa: RUF001
    "ba": "|", "br": "|", "bv": "|", "sh": "#", "Do": "$", "at": "@", "lB": "[", "rB": "]",
    "lC": "{", "rC": "}", "la": "⟨", "ra": "⟩", "+-": "±", "mu": "×", "di": "÷", "->": "→",  # noqa: RUF001
    "<-": "←", "ua": "↑", "da": "↓", "<=": "≤", ">=": "≥", "!=": "≠", "==": "≡", "~=": "≈",
    "if": "∞", "de": "°", "mc": "µ", "sc": "§", "12": "½", "14": "¼", "34": "¾", "S1": "¹",
    "S2": "²", "S3": "³", "sq": "□", "ci": "○", "dg": "†", "dd": "‡", "ps": "¶", "ct": "¢",
    "Eu": "€", "eu": "€", "Po": "£", "ss": "ß", "Fo": "«", "Fc": "»", "fo": "‹", "fc": "›",  # noqa: RUF001
    "no": "¬", "lh": "☞", "rh": "☜", "no-break": " ", "ts": "ς", "fm": "′", "sd": "″", "OK": "✓",  # noqa: RUF001
    "sr": "√", "*m": "μ", "Tm": "™", "R": "®",
}  # fmt: skip
_ACCENTS: Final = {
    ":": "\u0308",
    "'": "\u0301",
    "`": "\u0300",
    "^": "\u0302",
    "~": "\u0303",
    ",": "\u0327",
    "o": "\u030a",
}
_RAISED = re.compile(r"\\u(?:\\s[+-]?\d)?([^\\\n]{1,20})(?:\\s[+-]?\d)?\\d")
_JOINED: Final = frozenset({"BR", "RB", "IR", "RI", "BI", "IB"})
_FONTS: Final = frozenset({"B", "I", "SM", "SB", "R"})
_BULLETS: Final = frozenset({"•", "*", "-", "o", "·", "+", "—", "–"})  # noqa: RUF001
_PARAGRAPHS: Final = frozenset({"PP", "P", "LP", "sp", "br", "HP", "Sp", "bp", "Pp"})
_DEFINES: Final = frozenset({"de", "de1", "ig", "am", "dei"})
_MAX_INDENT: Final = 8
_MAX_STRINGS: Final = 1000
_END_CODE: Final = _JOINED | _FONTS | {"fi", "EE", "Ve", "Ed", "SH", "SS", "Sh", "Ss"}
_NUMBER = re.compile(r"\d{1,4}[.)]")


def is_man_page(text: str) -> bool:
    """Return whether a text is a manual page: it says its title by a macro."""
    return text[:1] in {".", "'", "\\"} and _HEAD.search(text[:_HEAD_CHARS]) is not None


def convert_man(lines: Sequence[str]) -> list[str]:
    """Return a manual page as Markdown, with as many lines."""
    page = _Page(lines)
    page.run()
    return page.out


@dataclass(slots=True)
class _Page:
    lines: Sequence[str]
    out: list[str] = field(default_factory=list)
    strings: dict[str, str] = field(default_factory=lambda: {"lq": "“", "rq": "”", "R": "®", "Tm": "™", "Aq": "'"})
    at: int = 0
    indent: int = 0
    stack: list[int] = field(default_factory=list)
    code: bool = False
    term: bool = False
    """The next line of text is a term."""
    lead: str = ""
    """Stands before the next line of text."""
    begun: int = -1
    """The line that began the current paragraph, if it is the paragraph's only one."""
    taken: bool = True
    """The condition of the last `.ie`."""
    lists: list[str] = field(default_factory=list)
    """The kinds of the lists of mdoc that are open."""
    numbers: list[int] = field(default_factory=list)
    """Their last numbers."""
    returns: list[int] = field(default_factory=list)
    """The depths to return to from `.RS`."""

    def run(self) -> None:
        self.out = [""] * len(self.lines)
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line[:1] in {".", "'"} and not (self.code and line[:1] == "'"):
                self.control(line[1:].strip())
            else:
                self.add_text(self.plain(line))
            self.at += 1
        if self.code:
            self.out.append("```")

    # text

    def plain(self, line: str) -> str:
        """Return a line without the escapes of roff."""
        if "\\" not in line:
            return line
        line = _RAISED.sub(r"^\1", _COMMENT.sub("", line))
        return _ESCAPE.sub(self.escape, line)

    def escape(self, found: re.Match[str]) -> str:  # noqa: PLR0911 - one for each escape
        if found["sign"] is not None:
            return _SIGNS.get(found["sign"], found["sign"])
        if found["code"] is not None:
            return chr(min(int(found["code"]), 0xFFFF))
        if found["string"] is not None:
            return self.strings.get(found["string"].strip("[(]"), "")
        name = found["name"] or found["short"]
        if name is None:
            return " " if (found["measure"] or "").startswith("h") else ""
        if name in _SPECIAL:
            return _SPECIAL[name]
        if re.fullmatch(r"u[0-9A-F]{4,6}", name):
            return chr(min(int(name[1:], 16), 0x10FFFF))
        if len(name) == 2 and name[0] in _ACCENTS and name[1].isalpha():
            return name[1] + _ACCENTS[name[0]]
        return name[0] if len(name) == 2 and name[1] in ":'`^~" else ""

    def put(self, text: str) -> None:
        self.out[self.at] = text

    def add_text(self, text: str) -> None:
        """Write a line of text at its depth."""
        if self.code:
            self.put(text)
            return
        words = text.strip()
        if not words:
            self.lead = ""
            self.begun = -1
            return
        if self.term:
            self.term = False
            self.put(f"{self.margin(-1)}- {words}:")
            self.begun = -1
            return
        above = self.out[self.at - 1] if self.at else ""
        self.begun = self.at if not above.strip() else -1
        if self.lead:
            self.put(f"{self.margin(-1)}{self.lead} {words}")
            self.lead = ""
        else:
            self.put(f"{self.margin()}{words}")

    def margin(self, change: int = 0) -> str:
        return "  " * max(0, min(self.indent + change, _MAX_INDENT))

    def paragraph(self) -> None:
        """End the current paragraph and its term."""
        self.term, self.lead, self.begun = False, "", -1

    # requests and macros

    def control(self, line: str) -> None:  # noqa: C901, PLR0912 - a branch for each request
        if not line or line[0] in {"\\", "."}:
            return
        name = re.split(r"[ \t\\]", line, maxsplit=1)[0]
        rest = line[len(name) :].strip()
        rest = _COMMENT.sub("", rest)
        if name in _DEFINES:
            self.skip_to("." + (rest.split()[1] if len(rest.split()) > 1 else "."))
        elif name in {"if", "ie", "el", "while"}:
            self.condition(name, rest)
        elif name in {"ds", "as"}:
            key, _, value = rest.partition(" ")
            if len(self.strings) < _MAX_STRINGS:
                self.strings[key] = self.plain(value.lstrip().removeprefix('"'))[:200]
        elif name == "TS":
            self.table()
        elif name == "EQ":
            self.skip_to(".EN")
        elif self.code and name not in _END_CODE:
            self.in_code(name, rest)
        elif (known := _MACROS.get(name)) is not None:
            known(self, [self.plain(each) for each in split_arguments(rest)])
        elif name in _JOINED:
            self.add_text("".join(self.plain(each) for each in split_arguments(rest)))
        elif name in _FONTS:
            self.add_text(" ".join(self.plain(each) for each in split_arguments(rest)))
        elif name in _PARAGRAPHS:
            self.paragraph()
            if name in {"PP", "P", "LP"}:
                self.indent = self.stack[-1] if self.stack else 0
        else:
            self.mdoc(name, rest)

    def in_code(self, name: str, rest: str) -> None:
        shown = render_mdoc(name, rest, self.plain)
        if shown is not None:
            self.put(shown)

    def mdoc(self, name: str, rest: str) -> None:
        if name in BEGIN_DISPLAY or name in MDOC_ENDS:
            return
        shown = render_mdoc(name, rest, self.plain)
        if shown:
            self.add_text(shown)

    def skip_to(self, end: str) -> None:
        while self.at + 1 < len(self.lines):
            self.at += 1
            if self.lines[self.at].replace(" ", "").startswith(end):
                return

    def condition(self, name: str, rest: str) -> None:
        """Read `.if`, `.ie` and `.el`: a terminal shows what is for `n`."""
        if name == "el":
            holds, body = not self.taken, rest
        else:
            test, _, body = rest.partition(" ")
            negated = test.startswith("!")
            holds = test.lstrip("!")[:1] == "n" and test.lstrip("!") in {"n", "n\\{", "n\\{\\"}
            holds = holds != negated if test.lstrip("!")[:1] in {"n", "t"} else False
            body = body or ("\\{" if "\\{" in test else "")
            if name == "ie":
                self.taken = holds
        if "\\{" in rest:
            if not holds:
                self.skip_block(rest)
                return
            body = body.replace("\\{", "").strip("\\ ")
        if holds and body.strip():
            body = body.strip()
            if body[0] in {".", "'"}:
                self.control(body[1:].strip())
            else:
                self.add_text(self.plain(body))

    def skip_block(self, rest: str) -> None:
        depth = rest.count("\\{") - rest.count("\\}")
        while depth > 0 and self.at + 1 < len(self.lines):
            self.at += 1
            depth += self.lines[self.at].count("\\{") - self.lines[self.at].count("\\}")

    def heading(self, sign: str, words: Sequence[str]) -> None:
        self.end_code()
        self.paragraph()
        self.indent, self.stack, self.lists, self.returns, self.numbers = 0, [], [], [], []
        if words:
            self.put(f"{sign} {' '.join(words)}")
        elif self.at + 1 < len(self.lines):
            self.at += 1
            self.put(f"{sign} {self.plain(self.lines[self.at]).strip()}")

    def begin_code(self) -> None:
        if not self.code:
            self.paragraph()
            self.put("```")
            self.code = True

    def end_code(self) -> None:
        if self.code:
            self.code = False
            if not self.out[self.at]:
                self.put("```")

    def begin_item(self, words: Sequence[str]) -> None:
        """Read `.IP`: a bullet, a number or a term."""
        self.paragraph()
        sign = words[0].strip() if words else ""
        self.indent = (self.stack[-1] if self.stack else 0) + 1
        if not sign:
            return
        if sign in _BULLETS or _NUMBER.fullmatch(sign):
            self.lead = "-" if sign in _BULLETS else sign
        else:
            self.put(f"{self.margin(-1)}- {sign}:")

    def begin_term(self, words: Sequence[str]) -> None:
        del words
        self.paragraph()
        self.indent = (self.stack[-1] if self.stack else 0) + 1
        self.term = True

    def deepen(self, words: Sequence[str]) -> None:
        """Read `.RS`: a line alone above it is a term."""
        del words
        self.returns.append(self.indent)
        if self.begun >= 0 and not self.out[self.begun].lstrip().startswith(("- ", "#", "|")):
            term = self.out[self.begun]
            lead = term[: len(term) - len(term.lstrip())]
            self.out[self.begun] = f"{lead}- {term.strip().removesuffix(':')}:"
            self.indent += 1
        self.stack.append(self.indent)
        self.begun = -1

    def raise_again(self, words: Sequence[str]) -> None:
        """Read `.RE`."""
        del words
        if self.returns:
            self.indent = self.returns.pop()
            self.stack.pop()
        self.paragraph()

    # mdoc

    def begin_list(self, words: Sequence[str]) -> None:
        kind = next((each[1:] for each in words if each.startswith("-") and not each.startswith("-w")), "item")
        self.lists.append(kind)
        self.paragraph()
        self.numbers.append(0)

    def mdoc_item(self, rest: str) -> None:
        kind = self.lists[-1] if self.lists else "item"
        self.paragraph()
        self.indent = max(1, len(self.lists))
        if kind in {"bullet", "dash", "hyphen", "item"}:
            self.lead = "-"
        elif kind == "enum":
            self.numbers[-1] += 1
            self.lead = f"{self.numbers[-1]}."
        elif kind == "column":
            cells = [render_mdoc("No", each, self.plain) or "" for each in re.split(r"\t|[ \t]Ta(?:[ \t]|$)", rest)]
            self.put("- " + ", ".join(filter(None, (each.strip() for each in cells))))
        else:
            self.put(f"{self.margin(-1)}- {render_mdoc('No', rest, self.plain) or ''}:")

    def end_list(self, words: Sequence[str]) -> None:
        del words
        if self.lists:
            self.lists.pop()
            self.numbers.pop()
        self.indent = len(self.lists)
        self.paragraph()

    # tables

    def table(self) -> None:
        """Write a table of tbl as pipe rows, its first row as header."""
        separator, at = "\t", self.at + 1
        if at < len(self.lines) and (options := self.lines[at].strip()).endswith(";"):
            found = re.search(r"tab\s*\((.)\)", options)
            separator = found[1] if found else separator
            at += 1
        while at < len(self.lines) and not self.lines[at].rstrip().endswith("."):
            if self.lines[at].startswith(".TE"):
                self.at = at
                return
            at += 1
        above, rows = at, 0
        self.at = at + 1
        while self.at < len(self.lines) and not self.lines[self.at].startswith(".TE"):
            start = self.at
            row = self.lines[self.at]
            while "T{" in row and row.count("T{") > row.count("T}") and self.at + 1 < len(self.lines):
                self.at += 1
                row += " " + re.sub(r"^\.(?:[BI]|BR|RB|IR|RI|BI|IB)\s+", "", self.lines[self.at])
            if row.strip() in {"_", "=", ""} or row.startswith((".", "'")):
                self.at += 1
                continue
            cells = [self.plain(each.replace("T{", "").replace("T}", "")).strip() for each in row.split(separator)]
            shown = "| " + " | ".join(each.replace("|", "\\|") for each in cells) + " |"
            if rows:
                self.out[start] = shown
            else:
                self.out[above], self.out[start] = shown, "|" + " --- |" * len(cells)
            above = start
            rows += 1
            self.at += 1


def _title(page: _Page, words: Sequence[str]) -> None:
    if words:
        page.put(f"# {words[0]}({words[1]})" if len(words) > 1 else f"# {words[0]}")


def _address(page: _Page, words: Sequence[str]) -> None:
    if words:
        page.add_text(f"<{words[0]}>" if "://" in words[0] or "@" in words[0] else words[0])


def _display(page: _Page, words: Sequence[str]) -> None:
    if {"-literal", "-unfilled"} & set(words):
        page.begin_code()
    else:
        page.paragraph()


def _option(page: _Page, words: Sequence[str]) -> None:
    page.add_text(f"[{' '.join(words)}]")


def _ignore(page: _Page, words: Sequence[str]) -> None:
    del page, words


_IGNORED: Final = frozenset({
    "IX", "UE", "ME", "YS", "PD", "ad", "hy", "nh", "na", "ne", "in", "ti", "ta", "so", "nr", "ft", "fam", "ll",
    "mso", "als", "DT", "UC", "AT", "ce", "rm", "rr", "tr", "nop", "ns", "rs", "hla", "cs", "lf", "pl", "po", "ps",
    "vs", "ss", "sv", "chop", "warn", "color", "do", "ev", "rj", "shift", "mk", "pc", "cc", "c2", "ec", "eo", "hw",
    "hcode", "Dd", "Os", "lt", "it",
})  # fmt: skip
_MACROS: Final[dict[str, Callable[[_Page, Sequence[str]], None]]] = {
    "TH": _title,
    "Dt": _title,
    "SH": lambda page, words: page.heading("##", words),
    "SS": lambda page, words: page.heading("###", words),
    "Sh": lambda page, words: page.heading("##", words),
    "Ss": lambda page, words: page.heading("###", words),
    "TP": _Page.begin_term,
    "TQ": _Page.begin_term,
    "IP": _Page.begin_item,
    "RS": _Page.deepen,
    "RE": _Page.raise_again,
    "nf": lambda page, _: page.begin_code(),
    "EX": lambda page, _: page.begin_code(),
    "Vb": lambda page, _: page.begin_code(),
    "fi": lambda page, _: page.end_code(),
    "EE": lambda page, _: page.end_code(),
    "Ve": lambda page, _: page.end_code(),
    "Ed": lambda page, _: page.end_code(),
    "Bd": _display,
    "Bl": _Page.begin_list,
    "El": _Page.end_list,
    "It": lambda page, words: page.mdoc_item(" ".join(words)),
    "UR": _address,
    "MT": _address,
    "OP": _option,
    "SY": lambda page, words: page.add_text(" ".join(words)),
    **dict.fromkeys(_IGNORED, _ignore),
}
