"""PDF, Office, HTML and mail to text, by kreuzberg in a process of its own that may not take much.

A file can be made to take all memory or time of whoever opens it. The process has a limit of each, no network where the
system allows that, none of our environment, and is killed after ten seconds at the latest.
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

from knowledge.documents.parsing import Unreadable, suffix
from knowledge.documents.ports import ConvertedDocument, Converter

SECONDS: Final = 9.0
MEMORY: Final = 2_000_000_000
CHARACTERS: Final = 10_000_000
PAGES: Final = 3000
UNPACKED: Final = 200_000_000
"""Bytes that an archive, as Office files are, may unpack to."""
_MOST_TOLD: Final = 250_000_000
"""Bytes that a process may tell: the text, and once more its pages, each character in up to twelve of JSON."""
_MOST_SAID: Final = 65_536
"""Bytes that are kept of what a process says as it fails; the last of them tell why."""
_GONE_SECONDS: Final = 1.0
"""What a process that was killed may take to be gone; a child of its own may hold its pipes open."""
_MEMBERS: Final = 10_000
_ARCHIVES: Final = frozenset({".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".epub"})
_COMPOUND: Final = b"\xd0\xcf\x11\xe0"
"""What Office files from before 2007 begin with, and newer ones that take a password."""
_AT_ONCE: Final = 2
_HEAD: Final = re.compile(r"\A---\s*\n+(?:#+ )?title:[^\n]*\n+(?:---\s*\n+)?")
"""What the library writes above the text of a page that has a title."""
_SIGN: Final = re.compile(r"\w")
_SHARE_OF_PAGES: Final = 0.95
"""Of the letters and digits of a text: its pages hold them all, but for numbers of lists and notes."""
_ERROR: Final = re.compile(r"[\w.]*(?:Error|Exception)")
_CHILD: Final = Path(__file__).with_name("conversion_child.py")
_PASSED_ON: Final = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT")


class SubprocessConverter(Converter):
    """Converts at most two files at a time."""

    def __init__(self, *, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def convert(self, uri: str, content: bytes) -> ConvertedDocument:
        if importlib.util.find_spec("kreuzberg") is None:
            raise Unreadable("its format is read with an extra: install hardwon[documents]")
        async with self._turn:
            await asyncio.to_thread(_check_archive, suffix(uri), content)
            told = await self._run(suffix(uri) or ".pdf", content)
        return await asyncio.to_thread(_joined, told)

    async def _run(self, ending: str, content: bytes) -> bytes:
        with tempfile.TemporaryDirectory(prefix="hardwon-convert-") as folder:
            environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
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
                    out, said = await _told(child, content)
            except TimeoutError:
                raise Unreadable(f"reading it took more than {self._seconds:.0f} seconds") from None
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                await _gone(child)
        if child.returncode:
            raise Unreadable(_why(child.returncode, said.decode(errors="replace")))
        return out


async def _told(child: asyncio.subprocess.Process, content: bytes) -> tuple[bytes, bytes]:
    """Give a process a file; return what it tells, and the end of what it says of errors, once it is over.

    Raises Unreadable where it tells more than it may: what reads a file may be made to write anything.
    """
    assert child.stdin is not None  # noqa: S101 - asked for
    assert child.stdout is not None  # noqa: S101
    assert child.stderr is not None  # noqa: S101
    feeding = asyncio.create_task(_fed(child.stdin, content))
    telling, saying = asyncio.create_task(_whole(child.stdout)), asyncio.create_task(_end(child.stderr))
    work = (feeding, telling, saying)
    try:
        told, said = await asyncio.gather(telling, saying)
        await child.wait()
    finally:
        for each in work:
            each.cancel()
        await asyncio.gather(*work, return_exceptions=True)
    return told, said


async def _gone(child: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process that was killed, a second at most.

    What it told is read away: asyncio tells of no end while anything is left, and whoever waited would do so for good.
    """
    left = [_end(stream) for stream in (child.stdout, child.stderr) if stream is not None]
    with suppress(TimeoutError):
        async with asyncio.timeout(_GONE_SECONDS):
            await asyncio.gather(*left)
            await child.wait()


async def _fed(stream: asyncio.StreamWriter, content: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # it has seen enough
        stream.write(content)
        await stream.drain()
    stream.close()


async def _whole(stream: asyncio.StreamReader) -> bytes:
    read = bytearray()
    while piece := await stream.read(_MOST_SAID):
        read += piece
        if len(read) > _MOST_TOLD:
            raise Unreadable("its text is longer than a document may be")
    return bytes(read)


async def _end(stream: asyncio.StreamReader) -> bytes:
    read = b""
    while piece := await stream.read(_MOST_SAID):
        read = (read + piece)[-_MOST_SAID:]
    return read


def _why(code: int, said: str) -> str:
    """Return why the process ended, in words."""
    if code in {-signal.SIGXCPU, -signal.SIGKILL}:
        return "reading it took too much time"
    if code < 0 or "MemoryError" in said or "memory allocation" in said:
        return "reading it took too much memory, or it is broken"
    last = said.strip().rsplit("\n", 1)[-1]
    told = dict.fromkeys(part for part in last.split(": ") if not _ERROR.fullmatch(part))
    return f"it cannot be read ({': '.join(told)[:200] or f'exit {code}'})"


def _check_archive(ending: str, content: bytes) -> None:
    """Raise Unreadable for what should be an archive and is none, or would unpack to too much, before it is."""
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


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")


def _signs(text: str) -> int:
    return len(_SIGN.findall(text))


def _joined(answer: bytes) -> ConvertedDocument:
    """Return the text, with where its pages begin where there are pages; cut at the caps, with a note of that.

    Pages that hold less than the text are none: of sheets and slides the library tells tables beside the pages.
    """
    told = json.loads(answer)
    text, pages, of_pages, unread = told["text"], told["pages"], told["of_pages"], told["unread"]
    notes = [f"Attachments that are not read: {', '.join(unread)[:300]}."] if unread else []
    starts: list[int] = []
    if of_pages > 1 and sum(map(_signs, pages)) >= _SHARE_OF_PAGES * _signs(text):
        at, kept = 0, []
        for page in pages[:PAGES]:
            starts.append(at)
            kept.append(_plain(page).rstrip() + "\n\n")
            at += len(kept[-1])
        text = "".join(kept)
        if of_pages > PAGES:
            notes.append(f"Only the first {PAGES} of {of_pages} pages are read.")
    text = text if starts else _HEAD.sub("", _plain(text))
    if told["pages_cut" if starts else "text_cut"] or len(text) > CHARACTERS:
        text = text[:CHARACTERS]
        notes.append(f"Only the first {CHARACTERS:,} characters are read.")
    return ConvertedDocument(text=text, title=told["title"], markdown=True, pages=tuple(starts), notes=tuple(notes))
