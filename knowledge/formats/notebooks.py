"""Read notebooks of Jupyter cell by cell, as Markdown: texts, code, and what it printed. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_MAX_OUTPUT: Final = 20_000
"""Characters of one output: it may print a whole data set."""


def read_notebook(text: str) -> str | None:
    """Return a notebook as Markdown, None for JSON of another kind."""
    try:
        book = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(book, dict) or "nbformat" not in book:
        return None
    cells = book.get("cells")
    if cells is None:  # before version 4
        sheets = [sheet for sheet in book.get("worksheets") or () if isinstance(sheet, dict)]
        cells = [cell for sheet in sheets for cell in sheet.get("cells") or ()]
    metadata = book.get("metadata")
    spec = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    language = str(spec.get("language") or "") if isinstance(spec, dict) else ""
    parts = [part for cell in cells if isinstance(cell, dict) for part in _cell(cell, language)]
    return "\n\n".join(part.strip("\n") for part in parts if part.strip())


def _cell(cell: dict[str, Any], language: str) -> Iterator[str]:
    source = _joined(cell.get("source", cell.get("input")))
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    hidden = set(tags) if isinstance(tags, list) and all(isinstance(each, str) for each in tags) else set()
    if cell.get("cell_type") == "heading":
        level = cell.get("level")
        yield f"{'#' * (level if isinstance(level, int) and 0 < level < 7 else 1)} {source}"
        return
    if cell.get("cell_type") != "code":
        yield source
        return
    if source.strip() and not hidden & {"hide-input", "remove-input", "hide-cell", "remove-cell"}:
        yield _fence(source, language if language.isalnum() else "")
    if not hidden & {"hide-output", "remove-output", "hide-cell", "remove-cell"}:
        for output in cell.get("outputs") or ():
            if isinstance(output, dict) and (shown := _output(output)).strip():
                yield shown


def _output(output: dict[str, Any]) -> str:
    """Return what an output shows: text, or the traceback of an error."""
    kind = output.get("output_type")
    if kind in {"error", "pyerr"}:
        return _fence(_ANSI.sub("", "\n".join(map(str, output.get("traceback") or [output.get("evalue")]))))
    data = output.get("data")
    data = data if isinstance(data, dict) else {"text/plain": output.get("text")}
    if markdown := _joined(data.get("text/markdown")):
        return markdown[:_MAX_OUTPUT]
    text = _ANSI.sub("", _joined(data.get("text/plain")))
    return _fence(text[:_MAX_OUTPUT]) if text.strip() else ""


def _fence(text: str, language: str = "") -> str:
    signs = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{signs}{language}\n{text.strip(chr(10))}\n{signs}"


def _joined(source: object) -> str:
    if isinstance(source, list):
        return "".join(each for each in source if isinstance(each, str))
    return source if isinstance(source, str) else ""
