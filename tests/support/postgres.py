"""A throwaway Postgres for a test session, and databases in it that cost little."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import asyncpg

from knowledge.adapters.postgres.engine.embedded_server import EmbeddedPostgres

UNSAFE_BUT_QUICK = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_connections": "200",
    "max_wal_size": "256MB",
}


@contextmanager
def throwaway_postgres() -> Iterator[EmbeddedPostgres]:
    """Run an empty server without fsync in a folder of its own; both are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="hardwon-pg-") as folder:
        Path(folder).chmod(0o755)  # 0700 would be closed to the server where root runs the tests
        with EmbeddedPostgres(Path(folder) / "home", settings=UNSAFE_BUT_QUICK) as server:
            yield server


POSTGRES_15 = Path("/usr/lib/postgresql/15/bin")
"""Where Debian has the oldest release that hardwon runs on."""


@contextmanager
def system_postgres(binaries: Path) -> Iterator[str]:
    """Run an empty server of the system's binaries; yield the address of its superuser."""
    user = "postgres" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="hardwon-pg-") as folder:
        if user:
            shutil.chown(folder, user)
        data = f"{folder}/data"
        made = [
            str(binaries / "initdb"),
            "-D",
            data,
            "-U",
            "owner",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ]
        subprocess.run(made, check=True, capture_output=True, user=user)
        options = ["-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"]
        with subprocess.Popen(
            [str(binaries / "postgres"), "-D", data, *options], user=user, stderr=subprocess.PIPE
        ) as server:
            assert server.stderr is not None
            while b"ready to accept" not in server.stderr.readline():
                assert server.poll() is None
            try:
                yield f"postgresql://owner@/postgres?host={folder}&port=5432"
            finally:
                server.send_signal(signal.SIGINT)
                server.communicate()


async def create_owned_database(server_dsn: str) -> str:
    """Create an empty database whose owner is no superuser; return its address for that owner."""
    dsn = await create_database(server_dsn)
    name = dsn.partition("?")[0].rpartition("/")[2]
    await _execute(server_dsn, f'create role "of_{name}" login; alter database "{name}" owner to "of_{name}"')
    return dsn.replace("//owner@", f"//of_{name}@", 1)


def dsn_of(server_dsn: str, database: str) -> str:
    """Return the address of another database of the same server."""
    return server_dsn.replace("/postgres?", f"/{database}?", 1)


def socket_of(server_dsn: str) -> Path:
    """Return the socket that a server listens on."""
    asked = parse_qs(urlsplit(server_dsn).query)
    return Path(asked["host"][0]) / f".s.PGSQL.{asked['port'][0]}"


def over_tcp(dsn: str, port: int) -> str:
    """Return the address of a database over a port of this machine, as a relay has one."""
    before, after = dsn.split("?", 1)
    options = [part for part in after.split("&") if not part.startswith(("host=", "port="))]
    return f"{before.replace('@/', f'@127.0.0.1:{port}/', 1)}?{'&'.join(options)}".rstrip("?")


async def create_database(server_dsn: str, *, template: str = "template0", name: str | None = None) -> str:
    """Create a database as a copy of another, to which nobody may be connected; return its address."""
    name = name or f"test_{uuid4().hex}"
    # copying the files takes a third of writing them all into the log, for a server that does not wait for its disk
    await _execute(server_dsn, f'create database "{name}" template "{template}" strategy file_copy')
    return dsn_of(server_dsn, name)


async def drop_database(dsn: str) -> None:
    """Drop the database of this address, whoever is still connected to it."""
    before, after = dsn.split("?", 1)
    place, _, name = before.rpartition("/")
    await _execute(f"{place}/postgres?{after}", f'drop database if exists "{name}" with (force)')


async def _execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
