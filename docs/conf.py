"""Pages of this folder, made by `make docs`: Sphinx with MyST for Markdown and Furo for the look.

Nothing in them is asked of another host: fonts are those of the reader's system, the search runs in the browser.
"""

from __future__ import annotations

import re
from pathlib import Path

_SETTINGS = Path(__file__).parents[1] / "hardwon" / "settings.py"

project = "hardwon"
author = "the hardwon authors"
release = version = re.findall(r'(?m)^VERSION = "(.+)"$', _SETTINGS.read_text("utf-8"))[0]
language = "en"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4  # links between pages name headings as they do in a checkout
suppress_warnings = ["toc.empty_glob"]  # a group of the index may name pages that are yet to come
nitpicky = True
html_theme = "furo"
html_title = f"hardwon {release}"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_last_updated_fmt = None
