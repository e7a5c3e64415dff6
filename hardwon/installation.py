"""The installation of hardwon: how an extra is added to it, from where it was got."""

from __future__ import annotations

import json
import shlex
from importlib import metadata
from typing import Any
from urllib.parse import unquote, urlsplit


def install_command(extra: str, *, more: str = "") -> str:
    """Return the command that adds an extra to this installation, and `more`, another package."""
    try:
        found = metadata.distribution("hardwon")
    except metadata.PackageNotFoundError:
        return _command("pip", f"hardwon[{extra}]", more=more)
    installer = "uv pip" if (found.read_text("INSTALLER") or "").strip() == "uv" else "pip"
    return describe_install(extra, json.loads(found.read_text("direct_url.json") or "{}"), installer, more=more)


def describe_install(extra: str, direct_url: dict[str, Any], installer: str = "pip", *, more: str = "") -> str:
    """Return the command for an installation with this `direct_url.json` (PEP 610), empty if it came from an index."""
    url = str(direct_url.get("url", ""))
    if not url:
        return _command(installer, f"hardwon[{extra}]", more=more)
    if "dir_info" in direct_url:
        folder = f"{unquote(urlsplit(url).path)}[{extra}]"
        return _command(installer, folder, more=more, editable=bool(direct_url["dir_info"].get("editable")))
    if vcs := direct_url.get("vcs_info"):
        revision = vcs.get("requested_revision") or vcs.get("commit_id")
        url = f"{vcs['vcs']}+{url}" + (f"@{revision}" if revision else "")
    if subdirectory := direct_url.get("subdirectory"):
        url = f"{url}#subdirectory={subdirectory}"
    return _command(installer, f"hardwon[{extra}] @ {url}", more=more)


def _command(installer: str, requirement: str, *, more: str, editable: bool = False) -> str:
    words = [f"{installer} install", *(["-e"] if editable else []), shlex.quote(requirement), *([more] if more else [])]
    return " ".join(words)
