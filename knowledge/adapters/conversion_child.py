"""Run by `conversion.py` in a process of its own: a file on standard input, its text as JSON on standard output.

Knows nothing of hardwon. Takes as arguments the ending of the file, and what it may use: seconds, bytes, characters.
"""

from __future__ import annotations

import ctypes
import json
import mimetypes
import resource
import sys
from typing import Any

_NETWORK_AND_USER = 0x40000000 | 0x10000000
_TYPES = {
    ".eml": "message/rfc822",
    ".msg": "application/vnd.ms-outlook",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".odp": "application/vnd.oasis.opendocument.presentation",
    ".xhtml": "text/html",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".doc": "application/msword",
    ".ppt": "application/vnd.ms-powerpoint",
    ".xls": "application/vnd.ms-excel",
    ".rtf": "application/rtf",
    ".epub": "application/epub+zip",
}


def main(ending: str, seconds: int, memory: int, characters: int) -> None:
    """Convert standard input."""
    ctypes.CDLL(None).unshare(_NETWORK_AND_USER)  # no network, where the system lets us go without it
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    resource.setrlimit(resource.RLIMIT_FSIZE, (memory, memory))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    import kreuzberg  # noqa: PLC0415 - only after the limits stand

    config = kreuzberg.ExtractionConfig(
        use_cache=False,
        output_format="markdown",
        pages=kreuzberg.PageConfig(extract_pages=True),
    )
    kind = _TYPES.get(ending) or mimetypes.guess_type(f"file{ending}")[0] or "application/octet-stream"
    result = kreuzberg.extract_bytes_sync(sys.stdin.buffer.read(), kind, config)
    pages = [_content(page) for page in result.pages or ()]
    title = (result.metadata or {}).get("title")
    told = {
        "text": result.content[: characters + 1],
        "pages": [page[: characters + 1] for page in pages],
        "title": title if isinstance(title, str) else None,
    }
    sys.stdout.write(json.dumps(told))


def _content(page: Any) -> str:
    """Return the text of a page, which is a dict or an object by the release."""
    told = page["content"] if isinstance(page, dict) else page.content
    return str(told)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
