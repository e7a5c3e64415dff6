"""The templates of the pages: escaped by default, strict about names, with the filters that they use."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from hardwon.settings import VERSION
from hardwon.text.pluralize import count_of
from orchestrator.http.middleware.page_sessions import ASSETS_PREFIX
from orchestrator.http.pages.rendering import charts
from orchestrator.http.pages.rendering.markdown import highlight_code, render_markdown
from orchestrator.http.pages.rendering.plain_text import cut_text, first_line, name_hidden, show_text
from orchestrator.http.pages.rendering.words import (
    KINDS,
    REASONS,
    WITHHELD,
    describe_age,
    describe_bytes,
    describe_day,
    describe_span,
)

_FOLDER: Final = Path(__file__).resolve().parent.parent
ASSETS: Final = {"page.css": "text/css", "page.js": "text/javascript", "mark.svg": "image/svg+xml"}


@cache
def read_asset(name: str) -> bytes:
    """Return the content of a file that pages load."""
    return (_FOLDER / "assets" / name).read_bytes()


@cache
def asset_address(name: str) -> str:
    """Return the address of a file that pages load; it changes with the content, so that browsers may keep it."""
    digest = hashlib.sha256(read_asset(name)).hexdigest()[:12]
    return f"{ASSETS_PREFIX}{digest}/{name}"


def _finalize(value: Any) -> Any:
    """Return a value as it is put into a page: hidden characters of a text are named, in attributes too."""
    return name_hidden(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _keep_typed(value: str) -> Markup:
    """Return what somebody typed, unchanged, for the field of a form."""
    return escape(value)


@cache
def environment() -> Environment:
    """Return the environment of all templates."""
    made = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
        auto_reload=False,
    )
    made.filters |= {
        "age": describe_age,
        "bytes": describe_bytes,
        "count_of": count_of,
        "cut": cut_text,
        "day": describe_day,
        "highlight": highlight_code,
        "first_line": first_line,
        "markdown": render_markdown,
        "span": describe_span,
        "text": show_text,
        "typed": _keep_typed,
    }
    made.globals |= {
        "KINDS": KINDS,
        "REASONS": REASONS,
        "WITHHELD": WITHHELD,
        "asset": asset_address,
        "draw": charts,
        "version": VERSION,
    }
    return made
