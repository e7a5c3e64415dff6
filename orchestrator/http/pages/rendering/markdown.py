"""Markdown of stored texts as HTML: no raw HTML, no images, no styles; code is highlighted by classes."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from functools import cache
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from orchestrator.http.pages.rendering.plain_text import MAX_SHOWN_CHARS, name_hidden, show_text

_HEADINGS_ABOVE: Final = 2
"""Headings of a stored text begin below the page's own two."""
MAX_NESTING: Final = 20
"""Deepest quotes and lists that are read as such, ours: deeper ones are made to slow a parser down."""
_MAX_HIGHLIGHTED: Final = 1_500
_MAX_HIGHLIGHTED_LINE: Final = 200
"""Longest code, and longest line of it, that are highlighted in one text, ours: the rules of languages backtrack and
hold up the server. With both limits the worst text of those tried took 0.5 s; 19,000 characters of one kind took more
than 20 s as C, Java, Perl or TypeScript, and 2,000 as AutoHotkey (Pygments, 2026-11-28)."""
_LANGUAGES: Final = frozenset(
    """Python|Python console session|Python Traceback|JavaScript|TypeScript|HTML|CSS|SCSS|JSON|YAML|TOML|INI|Bash
    Bash Session|SQL|Go|Rust|Java|C|C++|C#|Kotlin|PHP|Ruby|Docker|Diff|Makefile|XML|PowerShell|Groovy|Swift|Terraform
    Nginx configuration file""".replace("\n    ", "|").split("|")
)
"""Languages that are highlighted: those whose rules were tried with texts made to slow them down."""
_LINKS: Final = ("http://", "https://")


def render_markdown(text: str) -> Markup:
    """Return a stored text as HTML; one too long to be prose is shown as it is."""
    if len(text) > 2 * MAX_SHOWN_CHARS or max(map(len, text.splitlines()), default=0) > MAX_SHOWN_CHARS:
        return Markup('<pre class="plain">{}</pre>').format(show_text(text))
    return Markup(_parser().render(name_hidden(text)))  # noqa: S704 - raw HTML is off, so all text is escaped


def highlight_code(code: str, language: str) -> Markup:
    """Return code as HTML with classes for its parts; as plain text where it is long, or the language unknown."""
    longest = max(map(len, code.split("\n")))
    if not language or len(code) > _MAX_HIGHLIGHTED or longest > _MAX_HIGHLIGHTED_LINE:
        return escape(code)
    try:
        lexer = get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return escape(code)
    if lexer.name not in _LANGUAGES:
        return escape(code)
    return Markup(highlight(code, lexer, HtmlFormatter(nowrap=True)))  # noqa: S704 - Pygments escapes


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": MAX_NESTING}).enable(
        ["table", "strikethrough"]
    )
    parser.disable("image")
    parser.validateLink = lambda url: url.lower().startswith(_LINKS)  # type: ignore[method-assign] # its own way
    parser.core.ruler.push("hardwon", lambda state: _adjust(state.tokens))
    parser.add_render_rule("fence", _render_code)
    parser.add_render_rule("code_block", _render_code)
    return parser


def _adjust(tokens: Sequence[Token]) -> None:
    """Move headings below those of the page, without a gap, and let links tell nobody where they were followed from."""
    levels: list[int] = []  # of the headings that the present one stands below, and its own
    for token in tokens:
        if token.type == "heading_open":
            level = int(token.tag[1])
            levels = [*(above for above in levels if above < level), level]
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(6, _HEADINGS_ABOVE + len(levels))}"
        for child in token.children or ():
            child.content = name_hidden(child.content)  # again, since a character may be written as an entity
            child.attrs = {
                name: name_hidden(value) if isinstance(value, str) else value for name, value in child.attrs.items()
            }
            if child.type == "link_open":
                child.attrSet("rel", "nofollow noopener noreferrer")


def _render_code(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    """Return a block of code as HTML, which can be scrolled by keyboard."""
    del renderer, options
    token = tokens[index]
    env["highlighted"] = env.get("highlighted", 0) + len(token.content)  # many short ones take as long as a long one
    language = name_hidden(token.info or "").strip().split(" ")[0].lower()
    is_highlighted = env["highlighted"] <= _MAX_HIGHLIGHTED
    shown = highlight_code(token.content, language if is_highlighted else "")
    attributes: MutableMapping[str, Any] = {"label": language or "text"}
    return str(
        Markup('<div class="source"><pre tabindex="0" role="group" aria-label="Code, {label}">').format(**attributes)
        + shown
        + Markup("</pre></div>\n")
    )
