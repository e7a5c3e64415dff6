"""The documentation as pages: each page is reached, each link leads somewhere, and nothing is asked of another host."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_LOADED = re.compile(
    r"<(?:script|img|iframe|source|embed)\b[^>]*\bsrc=[\"'](?P<src>[^\"']+)|<link\b[^>]*\bhref=[\"'](?P<href>[^\"']+)"
)
"""What a browser loads by itself, where a link waits to be clicked."""
_STYLE_URL = re.compile(r"(?:@import\s+|url\()[\"']?(?P<url>[^\"')]+)")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built as `make docs` does."""
    command, *_ = runpy.run_path(str(ROOT / "run.py"))["COMMANDS"]["docs"][1]
    built = tmp_path_factory.mktemp("pages")
    line = [str(Path(sys.executable).parent / command[0]), *command[1:-1], str(built)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return built


@pytest.mark.long
def test_every_page_is_built_listed_and_found_by_the_search(pages: Path) -> None:
    sources = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(pages).with_suffix("") for path in pages.rglob("*.html")}
    assert sources <= built
    index = (pages / "searchindex.js").read_text(encoding="utf-8")
    for name in sources:
        assert f'"{name.as_posix()}"' in index
    assert "quarantin" in index, "words are found, not titles alone"


@pytest.mark.long
def test_no_page_asks_anything_of_another_host(pages: Path) -> None:
    asked = {
        target
        for page in pages.rglob("*.html")
        for found in _LOADED.finditer(page.read_text(encoding="utf-8"))
        if (target := found["src"] or found["href"]).startswith(("http:", "https:", "//"))
    }
    asked |= {
        found["url"]
        for sheet in pages.rglob("*.css")
        for found in _STYLE_URL.finditer(sheet.read_text(encoding="utf-8"))
        if found["url"].startswith(("http:", "https:", "//"))
    }
    assert asked == set()
