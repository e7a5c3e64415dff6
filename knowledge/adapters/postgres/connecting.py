"""How a connection to a Postgres server is made: its address, whom it trusts, what notices that nobody is there."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import asyncpg

from knowledge.errors import InvalidSetting, StorageUnavailable
from knowledge.kept_alive import enable_keepalive

CONNECT_SECONDS = 10
TURN_SECONDS = 90.0
"""What a turn, or a lock, is waited for: longer than Postgres lets one of us that hangs hold up others."""

REFUSED = "Postgres refuses the connection: {said}; check HARDWON_DATABASE_URL"

_SERVER_SETTINGS = {"application_name": "hardwon", "timezone": "UTC"}
_OF_LIBPQ = frozenset({"connect_timeout", "gssencmode", "keepalives", "keepalives_idle", "keepalives_interval"})
"""Parameters of addresses that say how another driver waits, and that ours would send to Postgres as settings."""

_FILES = frozenset({"sslrootcert", "sslcert", "sslkey", "sslcrl"})
_ROOT = "~/.postgresql/root.crt"


def for_driver(dsn: str) -> str:
    """Return an address as the driver reads it, which knows `sslmode` and the like, and sends the rest as settings.

    Raises InvalidSetting for a file that it names and is not there.
    """
    parts = urlsplit(dsn)
    parameters = [(name, value) for name, value in parse_qsl(parts.query) if name not in _OF_LIBPQ]
    encrypted = dict(parameters).get("sslmode") not in {"disable", "allow"}
    for name, value in parameters:
        if encrypted and name in _FILES and value != "system" and not _is_file(value):
            raise InvalidSetting("HARDWON_DATABASE_URL", f"has {name}={value}, and there is no such file")
    return parts._replace(scheme="postgresql", query=urlencode(parameters)).geturl()


def trusted(dsn: str) -> ssl.SSLContext | None:
    """Return how to verify a server by the authorities that this machine trusts, where its address asks for that.

    That is `sslrootcert=system`, which always verifies in full, and `sslmode=verify-full` where nobody names
    authorities and none lie where Postgres' own clients look for them. All else the driver reads as they do.
    """
    asked = dict(parse_qsl(urlsplit(dsn).query))
    named = asked.get("sslrootcert") or os.environ.get("PGSSLROOTCERT")
    if named != "system" and (named or asked.get("sslmode") != "verify-full" or _is_file(_ROOT)):
        return None
    context = ssl.create_default_context()
    context.set_alpn_protocols(["postgresql"])
    return context


_AS_WE_COUNT_ON = """
    SELECT set_config('lock_timeout', $1, false), set_config('default_transaction_isolation', 'read committed', false)
"""
"""Of a whole session: a statement in a transaction of its own has the isolation that is usual on its server."""

_ENCODINGS = frozenset({"UTF8", "UTF-8"})


def _is_file(path: str) -> bool:
    try:
        return Path(path).expanduser().is_file()
    except (OSError, RuntimeError):  # a folder that is closed to us; a user without a home
        return False


_GOODBYE_SECONDS = 1.0
"""What closing a connection waits for Postgres, ours: it takes a millisecond, and a pool closes one after the other."""


class _Connection(asyncpg.Connection):
    """A connection whose end is noticed, though it says nothing: else whoever waits for an answer does so for good."""

    def __init__(self, protocol: Any, transport: asyncio.Transport, *given: Any) -> None:
        super().__init__(protocol, transport, *given)
        enable_keepalive(transport.get_extra_info("socket"))

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as the driver has it
        """Close it; what Postgres does not answer in time is cut, else a process that is to end would wait for good."""
        with suppress(TimeoutError):
            await super().close(timeout=timeout or _GOODBYE_SECONDS)


async def connect(
    dsn: str, trusted: ssl.SSLContext | None, revive: Callable[[], None] | None
) -> asyncpg.Connection[asyncpg.Record]:
    """Connect to an address `for_driver`; where nobody listens, `revive` is called, in a thread, and it is tried again.

    Raises StorageUnavailable for a parameter of the address that Postgres does not know, and for a database that is not
    encoded in UTF-8; else what the driver raises.
    """

    async def once() -> asyncpg.Connection[asyncpg.Record]:
        try:
            connection = await asyncpg.connect(
                dsn,
                ssl=trusted,
                timeout=CONNECT_SECONDS,
                server_settings=_SERVER_SETTINGS,
                connection_class=_Connection,
            )
        except asyncpg.UndefinedObjectError as error:  # a parameter of the address that Postgres does not know
            raise StorageUnavailable(REFUSED.format(said=first_line(error))) from error
        if (encoding := connection.get_settings().server_encoding) not in _ENCODINGS:
            connection.terminate()
            raise StorageUnavailable(
                f"the database of HARDWON_DATABASE_URL is encoded in {encoding}, which cannot hold every text: make one"
                " with ENCODING 'UTF8' TEMPLATE template0"
            )
        try:  # no setting of the connecting: poolers refuse those they do not know
            await connection.fetchval(_AS_WE_COUNT_ON, f"{TURN_SECONDS * 1000:.0f}ms", timeout=CONNECT_SECONDS)
        except BaseException:
            connection.terminate()
            raise
        return connection

    try:
        return await once()
    except (FileNotFoundError, ConnectionRefusedError):
        if revive is None:
            raise
        await asyncio.to_thread(revive)
        return await once()


def first_line(cause: BaseException) -> str:
    """Return what a driver says, without its hints."""
    return str(cause).partition("\n")[0]
