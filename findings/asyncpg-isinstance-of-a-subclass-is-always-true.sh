#!/usr/bin/env bash
# One would guess: with `class Pooled(asyncpg.Connection)` and `connection_class=` for some connections alone,
# `isinstance(connection, Pooled)` tells which connections are of that class.
# True: it is True for every connection of asyncpg, of whichever class. The metaclass of Connection answers `isinstance` for
# its subclasses as it does for Connection itself (so that a pool's proxy counts as one). `issubclass(type(connection),
# Pooled)`, or a look into the `__mro__`, tells them apart.
# Matters where a class marks how a connection has to be used: code for one kind ran on all of them.
# asyncpg 0.32.0, 2026-11-27.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check asyncpg==0.32.0
"$folder/venv/bin/python" - <<'PY'
import asyncpg

print("asyncpg", asyncpg.__version__)


class Pooled(asyncpg.Connection):
    """One kind of connection."""


class Direct(asyncpg.Connection):
    """Another kind, which is not a subclass of the first."""

    def __del__(self):
        """Leave out the driver's own: this object was never connected."""


connection = object.__new__(Direct)
seen = {
    "isinstance(Direct, Pooled)": isinstance(connection, Pooled),
    "issubclass(type(Direct), Pooled)": issubclass(type(connection), Pooled),
    "Pooled in __mro__": Pooled in type(connection).__mro__,
}
for case, value in seen.items():
    print(f"{case}: {value}")
assert list(seen.values()) == [True, False, False], "the behaviour has changed"
PY
