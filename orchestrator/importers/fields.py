"""Field values for importers: storable text within the limits, technologies, ids and project names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from pathlib import PurePosixPath

from hardwon.text.truncation import escape_unstorable
from hardwon.validation import MAX_TEXT_BYTES

_TRUNCATED_BYTES = MAX_TEXT_BYTES - MAX_TEXT_BYTES // 16
"""Length to which a text that is too long is cut: redaction may make it longer again."""
MAX_KEY_CHARS = 200
"""Limit of project, task and run ids."""

_TECHNOLOGIES = {
    "bash": "shell", "c": "c", "cc": "c++", "clj": "clojure", "cpp": "c++", "cs": "c#", "css": "css", "cxx": "c++",
    "dart": "dart", "erl": "erlang", "ex": "elixir", "exs": "elixir", "fs": "f#", "go": "go", "gradle": "gradle",
    "groovy": "groovy",
    "h": "c", "hpp": "c++", "hs": "haskell", "htm": "html", "html": "html", "java": "java", "js": "javascript",
    "jsx": "javascript", "kt": "kotlin", "kts": "kotlin", "lua": "lua", "m": "objective-c", "md": "markdown",
    "mjs": "javascript", "cjs": "javascript", "php": "php", "pl": "perl", "pm": "perl", "ps1": "powershell",
    "py": "python", "pyi": "python", "pyx": "cython", "r": "r", "rb": "ruby", "rs": "rust", "rst": "restructuredtext",
    "scala": "scala", "scss": "css", "sh": "shell", "sql": "sql", "swift": "swift", "tf": "terraform",
    "ts": "typescript", "tsx": "typescript", "vue": "vue", "yaml": "yaml", "yml": "yaml", "zig": "zig", "bats": "shell",
}  # fmt: skip


def fit_beginning(text: str, note: str) -> str:
    """Return the text, or as many of its first lines as fit into a text field, with `note` as the last line."""
    encoded = text.encode()
    if len(encoded) <= MAX_TEXT_BYTES:
        return text
    last = f"\n[{note}]"
    beginning = encoded[: _TRUNCATED_BYTES - len(last.encode())].decode("utf-8", "ignore")
    whole_lines = beginning.rpartition("\n")[0]
    return (whole_lines if len(whole_lines) > len(beginning) // 2 else beginning) + last


def key(text: str) -> str:
    """Return an id within the limit; a long one is cut and ends in a hash of the whole."""
    text = escape_unstorable(text).strip()
    return (
        text if len(text) <= MAX_KEY_CHARS else f"{text[: MAX_KEY_CHARS - 17]}#{sha256(text.encode()).hexdigest()[:16]}"
    )


def repository_name(address: str) -> str | None:
    """Return the last part of a repository's address or path, without `.git`; None if it is empty."""
    name = address.rstrip("/").replace("\\", "/").rpartition("/")[2].rpartition(":")[2].removesuffix(".git")
    return key(name) if name.strip() else None


@lru_cache(maxsize=1024)
def technology(file: str) -> str | None:
    """Return the technology of a file by its extension: its common name if known, else the extension."""
    path = PurePosixPath(file)
    if path.name in {"Dockerfile", "Makefile"}:
        return "make" if path.name == "Makefile" else "docker"
    extension = path.suffix.removeprefix(".").lower()
    return _TECHNOLOGIES.get(extension, extension[:100]) or None


def main_technology(files: Iterable[tuple[str, int]]) -> str | None:
    """Return the technology of most files; a tie goes to the one with more changed lines, then by name."""
    count: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for file, changed in files:
        if name := technology(file):
            count[name] += 1
            lines[name] += changed
    return min(count, key=lambda name: (-count[name], -lines[name], name), default=None)
