"""The output of a program, and a change, without anything that each run and each tool adds of its own.

Six tools that run one failing test tell it in six ways: colours, the shell tool's own lines around the output, absolute
paths, durations; and its fix with six headers of a diff. Texts are kept as told; these forms are what is compared and
what a model reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import takewhile

from knowledge.text.volatile import mask_volatile

_CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]"
)
"""Terminal sequences (ECMA-48: CSI, OSC, two characters) and the other control characters."""
_WRAPPER_LINES = re.compile(
    r"^[ \t]*(?:Chunk ID: \w+|Wall time: [\d.]+ ?(?:s|seconds)|Original token count: \d+|Process exited with code -?\d+"
    r"|Process running with session ID \d+|Process Group PGID: \d+|Background PIDs: .*"
    r"|Signal: \(?(?:none|\d+|SIG\w+)\)?"
    r"|(?:Command )?(?:Error: )?exit(?:ed with)?(?: code):? ?-?\d+|<exited with exit code -?\d+>|shellId: .*"
    r"|Command exited with (?:code|status) -?\d+\.?|Error: \(none\)|Stderr: \(empty\)"
    r"|\((?:\w+ completed with )?no output\)|\(empty\)|Directory: (?:\(root\)|/.*)"
    r"|</?(?:untrusted_context|bash_metadata|tool_output|output|stdout|stderr|error|result|command-output)>"
    r"|Shell cwd was reset to .*)[ \t]*$\n?",
    re.MULTILINE | re.IGNORECASE,
)
"""Lines that the shell tools of coding agents put around an output; ours, read off their transcripts."""
_OUTPUT_LABEL = re.compile(r"^(?:Output|Stdout|Stderr):[ \t]*\n?", re.MULTILINE)
_DURATION = re.compile(
    r"(?<![\w.])(?:\d+m ?)?\d+(?:\.\d+)? ?(?:ms|s|secs?|seconds|µs|ns)\b(?! ago)(?=\s*(?:[)\]=.,;]|$))", re.MULTILINE
)
"""A duration at the end of a phrase, as runners tell it: `in 0.12s`, `(3 ms)`; not `timeout of 30 s exceeded`."""
_POSITION = re.compile(
    r"(?P<named>\", line |\bat line |\.(?:py|pyx|mjs|cjs|jsx?|tsx?|vue|svelte|go|rs|java|kts?|scala|groovy|rb|php|cs|fs"
    r"|swift|exs?|clj|dart|lua|bats|sh|cc|cpp|cxx|hpp|c|h|pl|hs|zig|sql|ya?ml|toml|json|css|scss|html)[:(])\d+(?:[:,]\d+)?(?=\b)"
)
"""A line, or line and column, behind the file that it lies in."""
_ABSOLUTE = re.compile(r"(?<![\w.:/~@-])(?:file://)?(?P<path>(?:[A-Za-z]:)?(?:[/\\][\w.@+~-]+){2,})")
_CHECKOUT_ROOTS = re.compile(
    r"(?:[A-Za-z]:)?[/\\](?:home|Users|root|work|workspaces?|builds|github[/\\]workspace|__w|a[/\\]_work|tmp|private"
    r"|var[/\\]folders|src|app|code|repo)[/\\]"
)
"""Roots of work trees: people's folders, those of CI and containers, temporary ones. Elsewhere (`/etc`, `/usr`) a path
names a thing."""
_FOREIGN = re.compile(
    r"site-packages|dist-packages|node_modules|[/\\](?:\.cargo|\.rustup|\.pyenv|\.nvm|go[/\\]pkg)[/\\]"
)
_FILE = re.compile(r"\.\w{1,8}\Z")
_MAX_PATHS = 2_000


def strip_run(text: str, *, root: str | None = None) -> str:
    """Return an output without colours, overwritten lines and a shell tool's own lines, its paths relative.

    `root`: the folder that paths are relative to; without it, the folder that all files in work trees have in common.
    An output that has nothing else is returned with its own lines.
    """
    plain = text if text.isprintable() else _CONTROL.sub("", text)
    bare = "\n".join(map(_last_written, plain.split("\n"))) if "\r" in plain else plain
    bare = _OUTPUT_LABEL.sub("", _WRAPPER_LINES.sub("", bare))
    if "/" in bare or "\\" in bare:
        bare = _relative(bare, root)
    return next(filter(str.strip, (bare, plain)), text)


def _last_written(line: str) -> str:
    """Return what of a line is left on a terminal after carriage returns: progress is overwritten."""
    return next(filter(None, reversed(line.split("\r"))), "")


def normal_run(text: str) -> str:
    """Return an output as it is compared and read by a model: as `strip_run`, without times, places in files and ids.

    Places are those of a version of the file: a line above moves them.
    """
    return _normal_run(text) if len(text) <= _MAX_CACHED_CHARS else _compute_normal_run(text)


_MAX_CACHED_CHARS = 4_096


@lru_cache(maxsize=512)
def _normal_run(text: str) -> str:
    return _compute_normal_run(text)


def _compute_normal_run(text: str) -> str:
    return mask_volatile(_POSITION.sub(r"\g<named>_", _DURATION.sub("_", strip_run(text))))


def _relative(text: str, root: str | None) -> str:
    if root is not None and len(root.strip("/\\")) > 0:
        prefix = re.escape(root.rstrip("/\\"))
        return re.sub(rf"(?:file://)?{prefix}(?:[/\\](?=[\w.@+~-])|(?![\w.@+~-]))", "", text)
    found = [each["path"] for each in _ABSOLUTE.finditer(text)][:_MAX_PATHS]
    own = {each for each in found if _CHECKOUT_ROOTS.match(each) and not _FOREIGN.search(each)}
    if not own:
        return text
    common = _common_folder(own)
    return re.sub(rf"(?<![\w.:/~@-])(?:file://)?{re.escape(common)}(?:[/\\]|(?![\w.@+~-]))", "", text)


def _common_folder(paths: Iterable[str]) -> str:
    """Return the folder that all these paths lie in, or are."""
    split = [re.split(r"([/\\])", path) for path in paths]
    folders = [parts[:-2] if _FILE.search(parts[-1]) else parts for parts in split]
    common = folders[0]
    for parts in folders[1:]:
        common = [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(common, parts, strict=False))]
    return "".join(common).rstrip("/\\")


_HUNK = re.compile(r"@@+ -\d+(?:,\d+)? (?:-\d+(?:,\d+)? )*\+\d+(?:,\d+)? @@+")
_OLD_FILE = re.compile(r"--- (?P<path>[^\t\n]+)")
_NEW_FILE = re.compile(r"\+\+\+ (?P<path>[^\t\n]+)")
_HEADER = re.compile(
    r"diff --(?:git|cc|combined) |index [0-9a-f]{4,}|Index: |={60,100}$|(?:new|deleted) file mode |old mode |new mode "
    r"|similarity index |rename (?:from|to) |copy (?:from|to) |Binary files |\\ No newline at end of file"
)
_CHANGE = re.compile(r"[+-](?![+-]{2} )")


def normal_diff(text: str) -> str:
    """Return a text whose unified diffs have no headers, places and more than a line around each change.

    A file is named once, by its path without `a/`, `b/` and what is before the work tree; text around a diff stays.
    """
    if "\n@@ -" not in f"\n{text}" and not ("--- " in text and _has_changes(text)):
        return text
    lines = text.replace("\r\n", "\n").splitlines()
    canonical = strip_run("\n".join(_canonical(lines)))
    return canonical if canonical.strip() else text


def _has_changes(text: str) -> bool:
    return re.search(r"^--- \S.*\n(?:\+\+\+ .*\n)?(?:@@.*\n)?(?:[ +-].*\n?)*?[+-]", text, re.MULTILINE) is not None


def _canonical(lines: list[str]) -> Iterator[str]:
    place, is_inside = 0, False
    while place < len(lines):
        line = lines[place]
        old = _OLD_FILE.match(line)
        if old is not None and place + 1 < len(lines):
            new = _NEW_FILE.match(lines[place + 1])
            yield _file_name(old["path"], new and new["path"])
            place += 2 if new else 1
            is_inside = True
        elif _HUNK.match(line) or (is_inside and line.startswith("@@")):
            is_inside = True
            place += 1
        elif _HEADER.match(line):
            place += 1
        elif is_inside and (not line or line[0] in " +-"):
            end = place
            while end < len(lines) and (not lines[end] or lines[end][0] in " +-") and not _starts_file(lines, end):
                end += 1
            yield from _around_changes(lines[place:end])
            place = end
        else:
            is_inside = False
            yield line
            place += 1


def _starts_file(lines: list[str], place: int) -> bool:
    return lines[place].startswith("--- ") and place + 1 < len(lines) and lines[place + 1].startswith("+++ ")


def _file_name(old: str, new: str | None) -> str:
    path = old if new is None or new.strip() == "/dev/null" else new
    path = path.strip().strip('"')
    return path[2:] if path[:2] in {"a/", "b/"} else path


def _around_changes(block: list[str]) -> Iterator[str]:
    """Yield the changed lines of a hunk and one line around them."""
    changed = {n for n, line in enumerate(block) if _CHANGE.match(line)}
    near = {n + step for n in changed for step in (-1, 0, 1)}
    yield from (line.rstrip() for n, line in enumerate(block) if n in near and (n in changed or line.strip()))
