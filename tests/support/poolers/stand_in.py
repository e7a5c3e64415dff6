"""A pooler in transaction mode, as PgBouncer is from 1.21 on: prepared statements are kept, under names of its own.

with PoolerStandIn(dsn, size=1) as pooler:
    asyncpg.connect(f"postgresql://anyone@127.0.0.1:{pooler.port}/database")

It speaks the wire protocol of Postgres in a thread with a loop of its own. A client has a server from its first message
on until the server says that no transaction is open.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

from tests.support.postgres import socket_of

_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102
_TAKEN = {"user", "database", "client_encoding", "datestyle", "timezone", "standard_conforming_strings"}
_TAKEN |= {"application_name"}
_LEAVES = (b"X", b"")
_OWN = True
"""Mark of an answer that belongs to a message of the pooler's own, and that no client is told."""


def _message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _error(code: str, text: str) -> bytes:
    fields = {"S": "FATAL", "V": "FATAL", "C": code, "M": text}
    return _message(b"E", b"".join(f"{name}{value}\0".encode() for name, value in fields.items()) + b"\0")


async def _read(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    return head[:1], await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)


@dataclass(eq=False)
class _Server:
    """A session of Postgres."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    greeting: bytes
    key: bytes
    prepared: set[str] = field(default_factory=set)
    answers: deque[tuple[str, bool]] = field(default_factory=deque)
    """Statements under way: the name of each, and whether its answer is the pooler's own."""


class PoolerStandIn:
    """A pooler with so many servers. `keeps`: prepared statements are kept; `forwards_key`: as no real one does."""

    def __init__(self, dsn: str, *, size: int = 1, keeps: bool = True, forwards_key: bool = False) -> None:
        self._socket = str(socket_of(dsn))
        self._user = urlsplit(dsn).username or ""
        self._size = size
        self._keeps = keeps
        self._forwards_key = forwards_key
        self._idle: dict[str, asyncio.LifoQueue[_Server]] = {}
        self._names: dict[bytes, str] = {}
        self._keys = itertools.count(1)
        self.serving: dict[bytes, _Server] = {}
        """The server that a client has, by the key that it cancels with."""
        self._open: set[asyncio.StreamWriter] = set()
        self.handed_over = 0
        """Number of transactions that a client was given a server for."""
        self.port = 0

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        self._server.close()
        for writer in self._open:
            writer.transport.abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _servers(self, database: str) -> asyncio.LifoQueue[_Server]:
        if database not in self._idle:
            self._idle[database] = asyncio.LifoQueue()
            for _ in range(self._size):
                self._idle[database].put_nowait(await self._connect(database))
        return self._idle[database]

    async def _connect(self, database: str) -> _Server:
        reader, writer = await asyncio.open_unix_connection(self._socket)
        self._open.add(writer)
        asked = f"user\0{self._user}\0database\0{database}\0\0".encode()
        writer.write(struct.pack("!ii", len(asked) + 8, 196608) + asked)
        greeting, key, kind = b"", b"", b""
        while kind != b"Z":
            kind, body = await _read(reader)
            if kind == b"K":
                key = body
            elif kind in b"RSE":
                greeting += _message(kind, body)
        return _Server(reader, writer, greeting, key)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._greet(reader, writer)
        finally:
            self._open.discard(writer)
            writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            length, code = struct.unpack("!ii", await reader.readexactly(8))
            body = await reader.readexactly(length - 8)
            if code not in {_SSL, _GSS}:
                break
            writer.write(b"N")
        if code == _CANCEL:
            await self._cancel(body)
            return
        words = body.decode().split("\0")
        asked = dict(zip(words[::2], words[1::2], strict=False))
        if unknown := [name for name in asked if name and name.lower() not in _TAKEN]:
            writer.write(_error("08P01", f"unsupported startup parameter: {unknown[0]}"))
            return
        servers = await self._servers(asked.get("database", asked["user"]))
        server = await servers.get()
        servers.put_nowait(server)
        key = server.key if self._forwards_key else struct.pack("!ii", -next(self._keys), 1)
        writer.write(server.greeting + _message(b"K", key) + _message(b"Z", b"I"))
        await _Client(self, reader, writer, servers, key).serve()

    async def _cancel(self, key: bytes) -> None:
        if server := self.serving.get(key):
            reader, writer = await asyncio.open_unix_connection(self._socket)
            writer.write(struct.pack("!ii", 8 + len(server.key), _CANCEL) + server.key)
            await reader.read()
            writer.close()

    def name(self, statement: bytes) -> str:
        """Return the pooler's own name of a statement."""
        return self._names.setdefault(statement, f"POOLER_{len(self._names)}")

    @property
    def keeps(self) -> bool:
        """Whether prepared statements are kept."""
        return self._keeps


class _Client:
    """One client; it has a server while a transaction lasts."""

    def __init__(
        self,
        pooler: PoolerStandIn,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        servers: asyncio.LifoQueue[_Server],
        key: bytes,
    ) -> None:
        self._pooler = pooler
        self._reader = reader
        self._writer = writer
        self._servers = servers
        self._key = key
        self._statements: dict[bytes, bytes] = {}
        self._received: asyncio.Queue[tuple[bytes, bytes]] = asyncio.Queue()
        self._awaited = 0
        self._gone = False

    async def serve(self) -> None:
        """Serve it until it leaves."""
        receiving = asyncio.create_task(self._receive())
        try:
            while (first := await self._received.get()) != _LEAVES:
                server = await self._servers.get()
                self._pooler.handed_over += 1
                self._pooler.serving[self._key] = server
                try:
                    await self._transaction(server, first)
                finally:
                    self._pooler.serving.pop(self._key, None)
                    self._servers.put_nowait(server)
        finally:
            receiving.cancel()

    async def _receive(self) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                self._received.put_nowait(await _read(self._reader))
        self._received.put_nowait(_LEAVES)

    async def _transaction(self, server: _Server, first: tuple[bytes, bytes]) -> None:
        """Pass on messages both ways until no transaction is open."""
        self._awaited = 0
        sending = asyncio.create_task(self._send(server, first))
        answering = asyncio.create_task(self._answer(server))
        await asyncio.wait({sending, answering}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():  # it left in the middle: roll back
            self._awaited += 2
            self._gone = True
            server.writer.write(_message(b"S") + _message(b"Q", b"ROLLBACK\0"))
        await answering
        sending.cancel()

    async def _send(self, server: _Server, first: tuple[bytes, bytes]) -> None:
        message = first
        while message != _LEAVES:
            kind, body = message
            self._awaited += kind in {b"S", b"Q"}
            server.writer.write(self._outgoing(server, kind, body))
            await server.writer.drain()
            message = await self._received.get()

    def _outgoing(self, server: _Server, kind: bytes, body: bytes) -> bytes:
        """Return a client's message as the server gets it, after what it needs."""
        if not self._pooler.keeps or kind not in b"PBDC":
            return _message(kind, body)
        match kind:
            case b"P":
                name, rest = body.split(b"\0", 1)
                self._statements[name] = rest
                ours = self._pooler.name(rest) if name else ""
                ours = "" if ours in server.prepared else ours  # once more, under no name: the answer is the same
                server.prepared.add(ours)
                server.answers.append((ours, not _OWN))
                return _message(b"P", ours.encode() + b"\0" + rest)
            case b"B":
                portal, name, rest = body.split(b"\0", 2)
                before, there = self._prepare(server, name)
                return before + _message(b"B", portal + b"\0" + there + b"\0" + rest)
            case b"D" if body[:1] == b"S":
                before, there = self._prepare(server, body[1:-1])
                return before + _message(b"D", b"S" + there + b"\0")
            case b"C" if body[:1] == b"S":
                self._statements.pop(body[1:-1], None)
                return _message(b"C", b"S\0")
            case _:
                return _message(kind, body)

    def _prepare(self, server: _Server, name: bytes) -> tuple[bytes, bytes]:
        """Return the message that prepares a statement on a server that has it not yet, and its name there."""
        if not name or name not in self._statements:
            return b"", name
        statement = self._statements[name]
        ours = self._pooler.name(statement)
        if ours in server.prepared:
            return b"", ours.encode()
        server.prepared.add(ours)
        server.answers.append((ours, _OWN))
        return _message(b"P", ours.encode() + b"\0" + statement), ours.encode()

    async def _answer(self, server: _Server) -> None:
        """Pass on what a server answers until it is ready for another client."""
        while True:
            kind, body = await _read(server.reader)
            if kind == b"1" and server.answers and server.answers.popleft()[1] is _OWN:
                continue
            if kind == b"Z":
                server.prepared -= {name for name, _ in server.answers}  # those that an error came before
                server.answers.clear()
                self._awaited -= 1
            if not self._gone:
                self._writer.write(_message(kind, body))
                await self._writer.drain()
            if kind == b"Z" and body == b"I" and not self._awaited:
                return
