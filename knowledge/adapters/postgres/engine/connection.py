"""Connections to a Postgres server: address, trusted authorities, timeouts and keepalive."""

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

from hardwon.client.http_environment import enable_keepalive
from hardwon.errors import InvalidSetting, StorageUnavailable

CONNECT_SECONDS = 10
LOCK_SECONDS = 90.0
"""Timeout for a turn or a lock: longer than the time after which Postgres ends a hung transaction of ours."""

REFUSED = "Postgres refuses the connection: {said}; check HARDWON_DATABASE_URL"

_SERVER_SETTINGS = {"application_name": "hardwon", "timezone": "UTC"}
_LIBPQ_PARAMETERS = frozenset({"connect_timeout", "gssencmode", "keepalives", "keepalives_idle", "keepalives_interval"})
"""Parameters of libpq for timeouts, which our driver would send to Postgres as settings."""

_FILES = frozenset({"sslrootcert", "sslcert", "sslkey", "sslcrl"})
_ROOT = "~/.postgresql/root.crt"


def driver_dsn(dsn: str) -> str:
    """Return an address for the driver, which reads `sslmode` and the like, and sends the rest as settings.

    Raises InvalidSetting for a file in it that does not exist.
    """
    parts = urlsplit(dsn)
    parameters = [(name, value) for name, value in parse_qsl(parts.query) if name not in _LIBPQ_PARAMETERS]
    encrypted = dict(parameters).get("sslmode") not in {"disable", "allow"}
    for name, value in parameters:
        if encrypted and name in _FILES and value != "system" and not _is_file(value):
            raise InvalidSetting("HARDWON_DATABASE_URL", f"has {name}={value}, and there is no such file")
    return parts._replace(scheme="postgresql", query=urlencode(parameters)).geturl()


def ssl_context_for(dsn: str) -> ssl.SSLContext | None:
    """Return a context that verifies a server by this machine's trusted authorities, None if its address does not ask.

    It asks by `sslrootcert=system`, which always verifies in full, and by `sslmode=verify-full` without a file of
    authorities, neither named nor in the default place of libpq. The driver handles all other cases as libpq does.
    """
    parameters = dict(parse_qsl(urlsplit(dsn).query))
    root = parameters.get("sslrootcert") or os.environ.get("PGSSLROOTCERT")
    if root != "system" and (root or parameters.get("sslmode") != "verify-full" or _is_file(_ROOT)):
        return None
    context = ssl.create_default_context()
    context.set_alpn_protocols(["postgresql"])
    return context


_SESSION_SETTINGS = """
    SELECT set_config('lock_timeout', $1, false), set_config('default_transaction_isolation', 'read committed', false)
"""
"""Settings of a whole session: an autocommitted statement has the isolation that is default on its server."""

_ENCODINGS = frozenset({"UTF8", "UTF-8"})


def _is_file(path: str) -> bool:
    try:
        return Path(path).expanduser().is_file()
    except (OSError, RuntimeError):  # a folder without permission; a user without a home
        return False


_CLOSE_SECONDS = 1.0
"""Timeout for closing a connection, ours: it takes a millisecond, and a pool closes them one after the other."""


class _Connection(asyncpg.Connection):
    """A connection with TCP keepalive: without it, a call to a dead peer would wait forever."""

    def __init__(self, protocol: Any, transport: asyncio.Transport, *arguments: Any) -> None:
        super().__init__(protocol, transport, *arguments)
        enable_keepalive(transport.get_extra_info("socket"))

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as the driver has it
        """Close the connection; cut it if Postgres does not answer in time, lest a stopping process wait forever."""
        with suppress(TimeoutError):
            await super().close(timeout=timeout or _CLOSE_SECONDS)


async def connect(
    dsn: str, trusted: ssl.SSLContext | None, revive: Callable[[], None] | None
) -> asyncpg.Connection[asyncpg.Record]:
    """Connect to a `driver_dsn`; if the connection is refused, `revive` is called, in a thread, and it is retried.

    Raises StorageUnavailable for a parameter of the address that Postgres does not know, and for a database that is not
    encoded in UTF-8; otherwise errors of the driver.
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
        try:  # not at connection time: poolers reject settings they do not know
            await connection.fetchval(_SESSION_SETTINGS, f"{LOCK_SECONDS * 1000:.0f}ms", timeout=CONNECT_SECONDS)
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
    """Return an error message of the driver without its hints."""
    return str(cause).partition("\n")[0]
