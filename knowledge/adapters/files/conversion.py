"""Conversion of PDF, Office, HTML and mail to text, by `readers` and kreuzberg in a process of its own with limits.

A file can be made to take all memory or time of the process that opens it. This one has a limit of each, no network if
the system allows that, none of our environment, and is killed after ten seconds at the latest.
"""

from __future__ import annotations

import asyncio
import importlib.util
import io
import json
import os
import re
import signal
import sys
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from knowledge.documents.parsing.decode import Unreadable, suffix
from knowledge.documents.ports import ConvertedDocument, Converter

SECONDS: Final = 9.0
MEMORY: Final = 2_000_000_000
CHARACTERS: Final = 10_000_000
PAGES: Final = 3000
UNPACKED: Final = 200_000_000
"""Bytes that an archive, as Office files are, may unpack to."""
_MAX_OUTPUT: Final = 250_000_000
"""Bytes of a process's output: the text, and once more its pages, each character in up to twelve of JSON."""
_MAX_ERRORS: Final = 65_536
"""Bytes kept of a process's error output; its last line says why it failed."""
_END_SECONDS: Final = 1.0
"""Time for a killed process to end; a child of it may hold its pipes open."""
_MEMBERS: Final = 10_000
_ARCHIVES: Final = frozenset({".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".epub"})
_COMPOUND: Final = b"\xd0\xcf\x11\xe0"
"""The first bytes of Office files from before 2007, and of newer ones with a password."""
_CONCURRENCY: Final = 2
_HEAD: Final = re.compile(r"\A---\s*\n+(?:#+ )?title:[^\n]*\n+(?:---\s*\n+)?")
"""The head that the library writes above the text of a page with a title."""
_LETTER: Final = re.compile(r"\w")
_SHARE_OF_PAGES: Final = 0.95
"""Pages contain all letters and digits of a text, except numbers of lists and notes."""
_ERROR: Final = re.compile(r"[\w.]*(?:Error|Exception)")
_CHILD: Final = Path(__file__).with_name("conversion_worker.py")
_ENVIRONMENT: Final = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT")


class SubprocessConverter(Converter):
    """Converts at most two files at a time."""

    def __init__(self, *, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._turn = asyncio.Semaphore(_CONCURRENCY)

    async def convert(self, uri: str, content: bytes) -> ConvertedDocument:
        if importlib.util.find_spec("kreuzberg") is None:
            raise Unreadable("its format is read with the extra `documents`: hardwon doctor tells how to install it")
        async with self._turn:
            await asyncio.to_thread(_check_archive, suffix(uri), content)
            output = await self._run(suffix(uri) or ".pdf", content)
        return await asyncio.to_thread(_to_converted, output)

    async def _run(self, ending: str, content: bytes) -> bytes:
        with tempfile.TemporaryDirectory(prefix="hardwon-convert-") as folder:
            environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
            limits = (str(int(self._seconds)), str(MEMORY), str(CHARACTERS))
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", str(_CHILD), ending, *limits),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=folder,
                env={**environment, "HOME": folder, "TMPDIR": folder, "RAYON_NUM_THREADS": "1"},
                start_new_session=True,
            )
            try:
                async with asyncio.timeout(self._seconds):
                    out, errors = await _communicate(child, content)
            except TimeoutError:
                raise Unreadable(f"reading it took more than {self._seconds:.0f} seconds") from None
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                await _wait_for_end(child)
        if child.returncode:
            raise Unreadable(_reason(child.returncode, errors.decode(errors="replace")))
        return out


async def _communicate(child: asyncio.subprocess.Process, content: bytes) -> tuple[bytes, bytes]:
    """Send a file to a process; return its output, and the end of its error output, after it ended.

    Raises Unreadable for too much output: a file may make its reader write anything.
    """
    assert child.stdin is not None  # noqa: S101 - requested above
    assert child.stdout is not None  # noqa: S101
    assert child.stderr is not None  # noqa: S101
    feeding = asyncio.create_task(_write_all(child.stdin, content))
    telling, saying = asyncio.create_task(_read_all(child.stdout)), asyncio.create_task(_read_tail(child.stderr))
    work = (feeding, telling, saying)
    try:
        output, errors = await asyncio.gather(telling, saying)
        await child.wait()
    finally:
        for each in work:
            each.cancel()
        await asyncio.gather(*work, return_exceptions=True)
    return output, errors


async def _wait_for_end(child: asyncio.subprocess.Process) -> None:
    """Wait for the end of a killed process, a second at most.

    Its output is drained: asyncio reports no end while any is left, and the caller would wait forever.
    """
    left = [_read_tail(stream) for stream in (child.stdout, child.stderr) if stream is not None]
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            await asyncio.gather(*left)
            await child.wait()


async def _write_all(stream: asyncio.StreamWriter, content: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # it has read enough
        stream.write(content)
        await stream.drain()
    stream.close()


async def _read_all(stream: asyncio.StreamReader) -> bytes:
    content = bytearray()
    while piece := await stream.read(_MAX_ERRORS):
        content += piece
        if len(content) > _MAX_OUTPUT:
            raise Unreadable("its text is longer than a document may be")
    return bytes(content)


async def _read_tail(stream: asyncio.StreamReader) -> bytes:
    tail = b""
    while piece := await stream.read(_MAX_ERRORS):
        tail = (tail + piece)[-_MAX_ERRORS:]
    return tail


def _reason(code: int, errors: str) -> str:
    """Return the reason why the process ended."""
    if code in {-signal.SIGXCPU, -signal.SIGKILL}:
        return "reading it took too much time"
    if code < 0 or "MemoryError" in errors or "memory allocation" in errors:
        return "reading it took too much memory, or it is broken"
    last = errors.strip().rsplit("\n", 1)[-1]
    reasons = dict.fromkeys(part for part in last.split(": ") if not _ERROR.fullmatch(part))
    return f"it cannot be read ({': '.join(reasons)[:200] or f'exit {code}'})"


def _check_archive(ending: str, content: bytes) -> None:
    """Raise Unreadable if a file should be an archive and is not one, or would unpack to too much."""
    if content[:4] != b"PK\x03\x04":
        if ending in _ARCHIVES:
            why = "takes a password, or is of an older format" if content[:4] == _COMPOUND else "is something else"
            raise Unreadable(f"it {why} than its name says: save it as {ending}, without a password")
        return
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        raise Unreadable("it is a broken archive") from None
    if len(members) > _MEMBERS or sum(each.file_size for each in members) > UNPACKED:
        raise Unreadable(f"it would unpack to more than {UNPACKED // 1_000_000} MB or {_MEMBERS:,} parts")


def _normalize_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")


def _count_letters(text: str) -> int:
    return len(_LETTER.findall(text))


def _to_converted(answer: bytes) -> ConvertedDocument:
    """Return the text, with the starts of its pages if it has pages; cut at the limits, with a note.

    Pages that hold less than the text are ignored: for sheets and slides the library returns tables outside the pages.
    """
    fields = json.loads(answer)
    text, pages, page_count, unread = fields["text"], fields["pages"], fields["of_pages"], fields["unread"]
    notes = [f"Attachments that are not read: {', '.join(unread)[:300]}."] if unread else []
    notes += [note[:300] for note in fields["notes"]]
    starts: list[int] = []
    if page_count > 1 and sum(map(_count_letters, pages)) >= _SHARE_OF_PAGES * _count_letters(text):
        at, parts = 0, []
        for page in pages[:PAGES]:
            starts.append(at)
            parts.append(_normalize_newlines(page).rstrip() + "\n\n")
            at += len(parts[-1])
        text = "".join(parts)
        if page_count > PAGES:
            notes.append(f"Only the first {PAGES} of {page_count} pages are read.")
    text = text if starts else _HEAD.sub("", _normalize_newlines(text))
    if fields["pages_cut" if starts else "text_cut"] or len(text) > CHARACTERS:
        text = text[:CHARACTERS]
        notes.append(f"Only the first {CHARACTERS:,} characters are read.")
    return ConvertedDocument(text=text, title=fields["title"], markdown=True, pages=tuple(starts), notes=tuple(notes))
