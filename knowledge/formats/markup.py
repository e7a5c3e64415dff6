"""Convert reStructuredText, AsciiDoc and Org to Markdown, with unchanged line numbers: headings, tables, names; pure.

Only markup that shows the structure of a text is converted; `marks` handles the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

MAX_DEPTH: Final = 6

_ADORNMENTS: Final = "=-`:.'\"~^_*+#<>"
_SHORT_ADORNMENT: Final = 4
"""Minimum length of an underline that is shorter than its heading."""
_DIRECTIVE = re.compile(r"([ \t]*)\.\.[ \t]+(?:[a-z]+:)?([a-z][\w-]*)::[ \t]*(.*)")
OPTION = re.compile(r"[ \t]+:([\w-]+):[ \t]*(.*)")
_ROLE = re.compile(r":([a-z][\w+.-]{0,40})(?::[\w+.-]{1,40}){0,3}:`[~!]?([^`<]{1,300})(?:<[^`>]{0,300}>)?`")
_LINK = re.compile(r"(?<![`\w:])`([^`<]{1,300}?)(?:(?<![ \t])[ \t]*+<[^`>]{0,500}>|<[^`>]{0,500}>)?`__?(?!\w)")
_OF_WORDS = frozenset(
    {"ref", "doc", "term", "any", "numref", "abbr", "guilabel", "menuselection", "dfn", "strong", "emphasis"}
)
_OF_CODE = frozenset(
    {"code-block", "code", "sourcecode", "parsed-literal", "prompt", "highlight", "literalinclude", "math"}
)
_KEPT = re.compile(r"\0(\d+)")
_NAMES = frozenset({
    "option", "envvar", "confval", "setting", "function", "method", "class", "attribute", "data", "exception",
    "decorator", "property", "staticmethod", "classmethod", "describe", "type", "macro", "member", "directive",
    "role", "object", "command",
})  # fmt: skip
_ADMONITIONS = frozenset({
    "note", "warning", "tip", "important", "caution", "danger", "hint", "attention", "error", "seealso", "admonition",
})  # fmt: skip
_VERSIONS: Final[Mapping[str, str]] = {
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
    "versionremoved": "Removed in version",
}
_SINCE = re.compile(r"([ND])((?:ew in|eprecated since) version [^:]{1,40})\.")
_BORDER = re.compile(r"[ \t]*\+(?:[-=]+\+)+[ \t]*")
_MAX_ROWS: Final = 5000
_MAX_OUTDENTS: Final = 8
"""Maximum times that the text of a file is outdented in total: once for each directive around a line."""
_CELL = re.compile(r"([ \t]+)(\* )?- ?(.*)")
"""A cell of a list table; the star begins a row."""

_SIGNED_HEADING = re.compile(r"(={1,6}|\*{1,6})[ \t]+(\S.*)")
"""Of AsciiDoc by `=`, of Org by `*`."""
_ADOC_MARKS: Final = "=-~^+"
_ORG_TITLE = re.compile(r"#\+title:[ \t]*(\S.*)", re.IGNORECASE)
_ORG_CODE = re.compile(r"[ \t]*#\+(begin|end)_(?:src|example)\b[ \t]*(\w*).*", re.IGNORECASE)


def as_markdown(ending: str, text: str) -> str | None:
    """Return the text of a file with this extension as Markdown, None for other markups."""
    written = _CONVERTERS.get(ending)
    return "\n".join(written(text.split("\n"))) if written else None


def _convert_rst(lines: Sequence[str]) -> list[str]:
    converted = list(lines)
    for at in _code_lines(lines):
        converted[at] = f"{_indent(lines[at])}\0{at}"
    _write_headings(converted)
    _write_tables(converted)
    _write_directives(converted)
    converted = [_LINK.sub(r"\1", _ROLE.sub(_plain_role, line)) if "`" in line else line for line in converted]
    return [_KEPT.sub(lambda kept: lines[int(kept[1])].lstrip(), line) if "\0" in line else line for line in converted]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _code_lines(lines: Sequence[str]) -> Iterator[int]:
    """Yield the indexes of the lines of code, which are not converted."""
    depth: int | None = None
    parted = False
    for at, line in enumerate(lines):
        if not line.strip():
            parted = True
            continue
        inset = len(_indent(line.expandtabs()))
        if depth is not None and inset > depth and parted:
            yield at
            continue
        directive = _DIRECTIVE.fullmatch(line)
        if depth is None or inset <= depth or not OPTION.fullmatch(line):
            leads = directive[2] in _OF_CODE if directive else line.rstrip().endswith("::")
            depth, parted = (inset if leads else None), False


def _plain_role(found: re.Match[str]) -> str:
    words = found[2].strip()
    return words if found[1] in _OF_WORDS else f"`{words}`"


# headings


def _write_headings(lines: list[str]) -> None:
    """Write headings with `#`; the depth of a style is its order of first appearance."""
    styles: list[tuple[str, bool]] = []
    for at in range(len(lines) - 1):
        over = _has_overline(lines, at)
        if not over and not _has_underline(lines, at):
            continue
        style = (lines[at + 1][:1], over)
        if style not in styles:
            styles.append(style)
        lines[at] = f"{'#' * min(styles.index(style) + 1, MAX_DEPTH)} {lines[at].strip()}"
        lines[at + 1] = ""
        if over:
            lines[at - 1] = ""


def _has_overline(lines: Sequence[str], at: int) -> bool:
    """Return whether a line is a heading with an overline and an underline."""
    if not at or not lines[at].strip() or _is_adornment(lines[at]):
        return False
    above, below = lines[at - 1].rstrip(), lines[at + 1].rstrip()
    return _is_adornment(above) and above == below and len(above) >= len(lines[at].rstrip())


def _has_underline(lines: Sequence[str], at: int) -> bool:
    """Return whether a line is a heading with an underline, at the start of a paragraph."""
    title, below = lines[at].rstrip(), lines[at + 1].rstrip()
    if not title or title[0].isspace() or (at and lines[at - 1].strip()) or _is_adornment(title):
        return False
    return _is_adornment(below) and len(below) >= min(len(title), _SHORT_ADORNMENT)


def _is_adornment(line: str) -> bool:
    """Return whether a line can stand above or below a heading."""
    return _repeats_mark(line, _ADORNMENTS, 2)


def _repeats_mark(line: str, marks: str, least: int) -> bool:
    """Return whether a line is one of some marks, repeated at least so often."""
    told = line.rstrip(" \t")
    return len(told) >= least and told[0] in marks and len(set(told)) == 1


# tables


def _write_tables(lines: list[str]) -> None:
    at = 0
    while at < len(lines):
        if _BORDER.fullmatch(lines[at]):
            at = _write_grid(lines, at)
        elif _is_simple_border(lines[at]):
            at = _write_simple(lines, at)
        elif (found := _DIRECTIVE.fullmatch(lines[at])) and found[2] == "list-table":
            at = _write_list_table(lines, at, found[3])
        else:
            at += 1


def _write_grid(lines: list[str], start: int) -> int:
    """Write a table between borders of `+---+`; return the index of the line after it."""
    end = start + 1
    while end < len(lines) and lines[end].strip()[:1] in {"+", "|"}:
        end += 1
    borders = [at for at in range(start, end) if _BORDER.fullmatch(lines[at])]
    if len(borders) == 1:
        return start + 1
    edges = list(pairwise(at for at, sign in enumerate(lines[start]) if sign == "+"))
    header = next((number for number, at in enumerate(borders) if number and "=" in lines[at]), None)
    rows = [
        (
            first + 1,
            after - first - 1,
            [_join_words(line[a + 1 : b] for line in lines[first + 1 : after]) for a, b in edges],
        )
        for first, after in pairwise(borders)
    ]
    _write_rows(lines, start, borders[-1] + 1, rows, headers=header or 0)
    return end


def _is_simple_border(line: str) -> bool:
    """Return whether a line is a border of `===  ===`."""
    return set(line.strip(" \t")) == {"=", " "}


def _write_simple(lines: list[str], start: int) -> int:
    """Write a table between borders of `===  ===`; return the index of the line after it."""
    borders = [start]
    for at in range(start + 1, min(start + _MAX_ROWS, len(lines))):
        if _is_simple_border(lines[at]):
            borders.append(at)
            if len(borders) > 2 or at + 1 == len(lines) or not lines[at + 1].strip():
                break
    if len(borders) == 1:
        return start + 1
    starts = [found.start() for found in re.finditer("=+", lines[start])]
    edges = list(pairwise([*starts, None]))
    rows: list[tuple[int, int, list[str]]] = []
    headers = 0
    for at in range(start + 1, borders[-1]):
        if at in borders:
            headers = len(rows)
        elif not lines[at].strip() or set(lines[at].strip(" \t")) <= {"-", " "}:
            continue
        elif (cells := [lines[at][a:b].strip() for a, b in edges]) and (cells[0] or not rows or len(rows) == headers):
            rows.append((at, 1, cells))
        else:
            first, _, above = rows[-1]
            rows[-1] = (first, at + 1 - first, [_join_words(both) for both in zip(above, cells, strict=True)])
    _write_rows(lines, start, borders[-1] + 1, rows, headers=headers)
    return borders[-1] + 1


def _write_list_table(lines: list[str], start: int, title: str) -> int:
    """Write a table given as a list of lists; return the index of the line after it."""
    end, headers = start + 1, 0
    rows: list[tuple[int, int, list[list[str]]]] = []
    depth = 0
    while end < len(lines) and (not lines[end].strip() or lines[end][:1].isspace()):
        if option := OPTION.fullmatch(lines[end]):
            headers = int(option[2]) if option[1] == "header-rows" and option[2].isdecimal() else headers
        elif (cell := _CELL.fullmatch(lines[end])) and cell[2] and (not rows or len(cell[1]) <= depth):
            depth = len(cell[1])
            rows.append((end, 1, [[cell[3]]]))
        elif rows and lines[end].strip():
            first, _, cells = rows[-1]
            if cell and not cell[2] and len(cell[1]) == depth + 2:
                cells.append([cell[3]])
            else:
                cells[-1].append(lines[end])
            rows[-1] = (first, end + 1 - first, cells)
        end += 1
    if not rows:
        return start + 1
    last = rows[-1][0] + rows[-1][1]
    joined = [(first, many, [_join_words(cell) for cell in cells]) for first, many, cells in rows]
    _write_rows(lines, start, last, joined, headers=min(headers, 1))
    lines[start] = f"{title}:" if title else ""
    return last


def _write_rows(
    lines: list[str], start: int, end: int, rows: Sequence[tuple[int, int, list[str]]], *, headers: int
) -> None:
    """Write rows, each given with its first line and its number of lines, in place of the lines `start` to `end`.

    The column names are directly above the dashes; remaining lines within the table become rows without cells.
    """
    if not rows:
        return
    columns = max(len(cells) for _, _, cells in rows)
    begin = rows[max(headers - 1, 0)][0]
    lines[start:end] = ["" if at < begin else "|" + " |" * columns for at in range(start, end)]
    if headers:
        names = [_join_words(cells) for cells in zip(*(cells for _, _, cells in rows[:headers]), strict=False)]
        first, many, _ = rows[headers - 1]
        room = rows[headers][0] - first if len(rows) > headers else end - first
        dashes = first + many if many < room else first + 1
        lines[first:dashes] = [""] * (dashes - first)
        lines[dashes - 1] = _row(names)
        if dashes < end:
            lines[dashes] = "|" + "---|" * columns
    for first, _, cells in rows[headers:]:
        lines[first] = _row(cells)
    last = rows[-1][0] + 1
    lines[last:end] = [""] * (end - last)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _join_words(parts: Iterator[str] | Sequence[str]) -> str:
    return " ".join(" ".join(parts).split())


# directives that name or warn


def _write_directives(lines: list[str]) -> None:
    hidden = []
    left = _MAX_OUTDENTS * sum(map(len, lines))
    for at in reversed(range(len(lines))):  # inner directives first
        if left < 0:  # nested too deeply: the outer ones stay as they are
            break
        found = _DIRECTIVE.fullmatch(lines[at])
        text = _directive_text(found[2], found[3].strip()) if found else None
        if found is None or text is None:
            continue
        if text:
            lines[at] = found[1] + text
        else:
            hidden.append(at)  # blanked at the end: otherwise each search for text below would skip them again
        end = _outdent(lines, at, len(found[1].expandtabs()))
        left -= sum(map(len, lines[at:end]))
        if text and found[2] in _NAMES:
            _join_name_and_body(lines, at, end)
    for at in hidden:
        lines[at] = ""


def _directive_text(name: str, words: str) -> str | None:
    """Return the visible text of a directive, None for an unknown one."""
    if name in _NAMES:
        return f"`{words}`:" if words else ""
    if name in _ADMONITIONS:
        return words if name == "admonition" or not words else f"{_title(name)}: {words}"
    if name in _VERSIONS:
        version, _, what = words.partition(" ")
        return f"{_VERSIONS[name]} {version}{': ' + what if what else '.'}"
    return None


def _join_name_and_body(lines: list[str], at: int, end: int) -> None:
    """Move a name directly above its description, with the version that added it: then they are one passage."""
    name, lines[at] = lines[at], ""
    below = (number for number in range(at + 1, end) if lines[number].strip())
    body = next(below, at + 1)
    if body < end and (since := _SINCE.fullmatch(lines[body].strip())):
        name = f"{name.removesuffix(':')} ({since[1].lower()}{since[2]}):"
        lines[body] = ""
        body = next(below, body + 1)
    lines[body - 1] = name


def _title(name: str) -> str:
    return "See also" if name == "seealso" else name.capitalize()


def _outdent(lines: list[str], at: int, depth: int) -> int:
    """Outdent the body of a directive to its own indentation, drop its options, and return the end of the body."""
    end = body = at + 1
    while body < len(lines) and OPTION.fullmatch(lines[body]):
        lines[body] = ""
        body += 1
    far: int | None = None
    for end in range(body, len(lines)):
        line = lines[end].expandtabs()
        inset = len(line) - len(line.lstrip())
        if not line.strip():
            continue
        if inset <= depth:
            break
        far = inset if far is None else min(far, inset)
        lines[end] = line
    else:
        end = len(lines)
    if far is None:
        return body
    for each in range(body, end):
        lines[each] = lines[each][far - depth :] if lines[each].strip() else ""
    return end


# AsciiDoc and Org


def _convert_asciidoc(lines: Sequence[str]) -> Iterator[str]:
    code, below = "", False
    for line, after, before in zip(lines, [*lines[1:], ""], ["", *lines], strict=False):
        if below:
            below = False
            yield ""
        elif _repeats_mark(line, "-.", 4) and code in {"", line.rstrip()}:
            code = "" if code else line.rstrip()
            yield "```"
        elif (
            not code
            and not before.strip()
            and (depth := _ADOC_MARKS.find(after[:1] or " ") + 1)
            and _is_adoc_heading(line, after)
        ):
            below = True
            yield f"{'#' * depth} {line.strip()}"
        else:
            yield line if code else _convert_heading(line, "=")


def _convert_heading(line: str, sign: str) -> str:
    """Return a heading marked by `sign` with `#` in its place, any other line as it is."""
    found = _SIGNED_HEADING.fullmatch(line)
    return f"{'#' * len(found[1])} {found[2]}" if found and line.startswith(sign) else line


def _is_adoc_heading(title: str, below: str) -> bool:
    """Return whether a line is an AsciiDoc heading: underlined by a line of about the same length."""
    marks = below.rstrip()
    return (
        len(marks) > 3
        and not marks.strip(marks[0])
        and abs(len(marks) - len(title.rstrip())) <= 2
        and title[:1].isalnum()
    )


def looks_like_asciidoc(text: str) -> bool:
    """Return whether a text is AsciiDoc by its content: a title, and then attributes, blocks or sections of it."""
    head = text[:_SNIFFED]
    return _ADOC_TITLE.match(head) is not None and len(_ADOC_SIGN.findall(head)) > 1


_SNIFFED: Final = 8192
_ADOC_TITLE = re.compile(r"(?:\s*//.*\n)*\s*(?:= \S.*\n|(\S[^\n]{2,100})\n={3,}[ \t]*\n)")
_ADOC_SIGN = re.compile(
    r"^(?:={2,5} \S.*|:[\w-]+:(?: .*)?|"
    r"\[(?:source|NOTE|WARNING|TIP|verse|quote|horizontal|\[|cols|options).*\]|-{4,}|\|={3,}"
    r"|(?:include|image|ifdef|ifndef|endif|link)::?\S*\[.*\]|\S.*::|[A-Z]\w.*\n[-~^]{4,})$",
    re.MULTILINE,
)

_ORG_BLOCK = re.compile(r"[ \t]*#\+(begin|end)_(quote|verse|center|comment|export|note|warning|tip)\b.*", re.IGNORECASE)
_ORG_KEYWORD = re.compile(r"[ \t]*#\+[\w-]+(?:\[.*\])?:.*|[ \t]*#(?: .*)?")
_ORG_DRAWER = re.compile(r"[ \t]*:[\w-]+:[ \t]*")
_ORG_PLANNING = re.compile(r"[ \t]*(?:SCHEDULED|DEADLINE|CLOSED):[ \t]*[<\[].*")
_ORG_HEADING = re.compile(
    r"(\*{1,8})[ \t]+(?:(?:TODO|DONE|NEXT|WAITING|CANCELLED)[ \t]+)?(?:\[#[A-Z]\][ \t]*)?"
    r"(.*?)(?:[ \t]+:[\w@:]+:)?[ \t]*"
)
_ORG_LINK = re.compile(r"\[\[([^\]\[]{1,500})\](?:\[([^\]\[]{1,500})\])?\]")
_ORG_CODE_WORDS = re.compile(r"(?<![\w=~])([=~])(\S|\S[^\n]{0,200}?\S)\1(?![\w=~])")
_ORG_RULE = re.compile(r"[ \t]*\|[-+]{2,}\|?[ \t]*")
_ORG_RAISED = re.compile(r"(?<=\w)\^\{([^{}\n]{1,40})\}")
_ORG_TERM = re.compile(r"([ \t]*[-+] )(\S.*?) ::(?: (.*))?")
_ORG_FIXED = re.compile(r"[ \t]*: (.*)")


def _convert_org(lines: Sequence[str]) -> Iterator[str]:
    code = hidden = drawer = False
    rows = 0
    for line in lines:
        border = _ORG_CODE.fullmatch(line)
        block = _ORG_BLOCK.fullmatch(line)
        rows = rows + 1 if line.lstrip().startswith("|") and not code else 0
        if border and code == (border[1].lower() == "end"):
            code = not code
            yield f"```{border[2]}" if code else "```"
        elif code:
            yield line.removeprefix(",") if line.startswith((",*", ",#")) else line
        elif block:
            hidden = block[1].lower() == "begin" and block[2].lower() in {"comment", "export"}
            yield ""
        elif drawer or hidden:
            drawer = drawer and line.strip().upper() != ":END:"
            yield ""
        elif _ORG_DRAWER.fullmatch(line):
            drawer = line.strip().upper() != ":END:"
            yield ""
        elif title := _ORG_TITLE.fullmatch(line):
            yield f"# {title[1]}"
        else:
            yield _convert_org_line(line, rows)


def _convert_org_line(line: str, row: int) -> str:
    """Return a line outside code; `row`: its number in a table, from 1 on, else 0."""
    if heading := _ORG_HEADING.fullmatch(line):
        return f"{'#' * min(len(heading[1]), MAX_DEPTH)} {_convert_org_words(heading[2])}"
    if row and _ORG_RULE.fullmatch(line):
        columns = line.count("+") + 1
        return "|" + " --- |" * columns if row == 2 else ""  # a rule below the header; others divide groups of rows
    if _ORG_KEYWORD.fullmatch(line) or _ORG_PLANNING.fullmatch(line):
        return ""
    if fixed := _ORG_FIXED.fullmatch(line):
        return f"    {fixed[1]}"
    if term := _ORG_TERM.fullmatch(line):
        line = f"{term[1]}{term[2]}: {term[3] or ''}".rstrip()
    return _convert_org_words(line)


def _convert_org_words(text: str) -> str:
    text = _ORG_LINK.sub(lambda found: found[2] or found[1].removeprefix("file:"), text) if "[[" in text else text
    return _ORG_RAISED.sub(r"^\1", _ORG_CODE_WORDS.sub(r"`\2`", text))


_CONVERTERS: Final[Mapping[str, Callable[[Sequence[str]], Iterator[str] | list[str]]]] = {
    ".rst": _convert_rst,
    ".adoc": _convert_asciidoc,
    ".asciidoc": _convert_asciidoc,
    ".org": _convert_org,
}
MARKUPS: Final = frozenset(_CONVERTERS)
