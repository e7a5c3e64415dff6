"""PgBouncer as the system has it, before a Postgres on a unix socket.

`HARDWON_TEST_PGBOUNCER` names another program than the one in the usual places.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.support.postgres import socket_of
from tests.support.processes import free_port, until

PROGRAM = os.environ.get("HARDWON_TEST_PGBOUNCER") or shutil.which(
    "pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin"
)

_CONFIGURATION = """
[databases]
* = user={user} host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listening}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 500
{more}
"""


@contextmanager
def pgbouncer(dsn: str, *, size: int = 1, mode: str = "transaction", more: str = "") -> Iterator[int]:
    """Run PgBouncer with so many connections to a server; yield its port. A client may give any user."""
    assert PROGRAM is not None
    asked, port = parse_qs(urlsplit(dsn).query), free_port()
    owner = pwd.getpwuid(socket_of(dsn).stat().st_uid).pw_name
    with tempfile.TemporaryDirectory(prefix="hardwon-pgbouncer-") as folder:
        configuration = Path(folder) / "pgbouncer.ini"
        configuration.write_text(
            _CONFIGURATION.format(
                user=urlsplit(dsn).username,
                host=asked["host"][0],
                port=asked["port"][0],
                listening=port,
                mode=mode,
                size=size,
                more=more,
            )
        )
        command = [PROGRAM, "--quiet", str(configuration)]
        if os.geteuid() == 0:  # it does not run as root, and the socket is open to its owner alone
            Path(folder).chmod(0o755)
            command[1:1] = ["--user", owner]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                until(lambda: process.poll() is not None or _listens(port), seconds=20)
                assert process.poll() is None, "PgBouncer did not start"
                yield port
            finally:
                process.kill()


def keeps_prepared_statements() -> bool:
    """Return whether it is a release that keeps prepared statements unless told otherwise (1.24 on)."""
    assert PROGRAM is not None
    told = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout
    major, minor = told.split()[1].split(".")[:2]
    return (int(major), int(minor)) >= (1, 24)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
