#!/usr/bin/env bash
# One would guess: an address that psql takes, as managed Postgres hands it out
# (`postgresql://...?sslmode=require&channel_binding=require&connect_timeout=10&keepalives_idle=30`), works with asyncpg, or is
# refused by it.
# True: asyncpg takes the parameters that it knows (sslmode) and sends all others to the server as settings of the session,
# those of libpq too. Postgres then refuses the connection ("unrecognized configuration parameter"), PgBouncer with
# "unsupported startup parameter"; and connect_timeout is no timeout.
# Matters where one address serves several programs: translate it before it reaches the driver.
# asyncpg 0.32.0, 2026-11-27.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check asyncpg==0.32.0
"$folder/venv/bin/python" - <<'PY'
import asyncio
import struct

import asyncpg

print("asyncpg", asyncpg.__version__)
ASKED = "sslmode=disable&channel_binding=require&connect_timeout=10&keepalives_idle=30&application_name=mine"
told = {}


async def server(reader, writer):
    """Read the startup message of a client, and hang up."""
    (length,) = struct.unpack("!i", await reader.readexactly(4))
    words = (await reader.readexactly(length - 4))[4:].decode().split("\0")
    told.update(zip(words[::2], words[1::2]))
    writer.close()


async def main():
    listening = await asyncio.start_server(server, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    try:
        await asyncpg.connect(f"postgresql://u@127.0.0.1:{port}/d?{ASKED}")
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        pass
    listening.close()


asyncio.run(main())
for name, value in told.items():
    print(f"sent: {name}={value}")
assert {"channel_binding", "connect_timeout", "keepalives_idle", "application_name"} <= told.keys(), "the behaviour has changed"
assert "sslmode" not in told, "the behaviour has changed"
PY
