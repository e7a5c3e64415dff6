"""The address of a Postgres server, as libpq, SQLAlchemy and managed servers write it, read for our driver."""

from __future__ import annotations

import os
import shlex
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import parse_qsl, urlencode, urlsplit

from hardwon.errors import InvalidSetting

_SETTING = "HARDWON_DATABASE_URL"
_APPLICATION: Final = "hardwon"

_DRIVERS: Final = frozenset(
    [
        "host",
        "port",
        "dbname",
        "database",
        "user",
        "password",
        "passfile",
        "service",
        "krbsrvname",
        "gsslib",
        "sslmode",
        "sslcert",
        "sslkey",
        "sslrootcert",
        "sslnegotiation",
        "sslcrl",
        "sslpassword",
        "ssl_min_protocol_version",
        "ssl_max_protocol_version",
        "target_session_attrs",
    ]
)
"""Parameters that the driver takes from an address."""

_IGNORED: Final = frozenset(
    [
        "application_name",
        "fallback_application_name",
        "client_encoding",
        "channel_binding",
        "gssencmode",
        "gssdelegation",
        "keepalives",
        "keepalives_idle",
        "keepalives_interval",
        "keepalives_count",
        "tcp_user_timeout",
        "sslcompression",
        "sslsni",
        "sslcertmode",
        "requiressl",
        "sslkeylogfile",
        "load_balance_hosts",
        "min_protocol_version",
        "max_protocol_version",
        "pgbouncer",
        "supa",
        "uselibpqcompat",
        "prepared_statement_cache_size",
        "statement_cache_size",
        "connection_limit",
        "pool_timeout",
    ]
)
"""Parameters of libpq, poolers and other clients that change nothing here: hardwon has its own keepalive and pool."""

_NOT_SUPPORTED: Final = {
    "hostaddr": "write the address as the host",
    "require_auth": "limit the methods of authentication at the server",
    "requirepeer": "limit who may create the socket by the rights of its folder",
    "sslcrldir": "name one file by sslcrl",
    "replication": "leave it out",
    "schema": "write options=-csearch_path%3DNAME",
    "servicefile": "set PGSERVICEFILE",
    "scram_client_key": "give a password",
    "scram_server_key": "give a password",
}
"""Parameters that ask for something that the driver cannot do, with the way to have it."""

_SERVER_SETTINGS: Final = frozenset(
    [
        "search_path",
        "statement_timeout",
        "lock_timeout",
        "idle_in_transaction_session_timeout",
        "idle_session_timeout",
        "transaction_timeout",
        "default_transaction_read_only",
        "work_mem",
        "maintenance_work_mem",
        "temp_buffers",
        "jit",
        "max_parallel_workers_per_gather",
        "tcp_keepalives_idle",
        "tcp_keepalives_interval",
        "tcp_keepalives_count",
    ]
)
"""Settings of Postgres that an address may have, as drivers other than libpq allow."""

_SSL: Final = {"true": "require", "1": "require", "on": "require", "false": "disable", "0": "disable", "off": "disable"}
_SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_FILES: Final = frozenset({"sslrootcert", "sslcert", "sslkey", "sslcrl"})
_ROOT = "~/.postgresql/root.crt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An address of Postgres, read."""

    dsn: str
    """For the driver: it holds only parameters that the driver itself takes."""
    tls: ssl.SSLContext | None
    """Verifies the server, if the driver does not do it by the address."""
    connect_seconds: float | None
    startup: Mapping[str, str]
    """Parameters that a connection is opened with."""
    settings: Mapping[str, str]
    """Settings of `startup`, also those in its `options`, for poolers that do not take them when connecting."""
    has_several_hosts: bool


def read_address(text: str) -> Address:
    """Read an address; nothing is connected.

    Raises InvalidSetting for a parameter that is unknown or that the driver cannot honour, and for a file in it that
    does not exist.
    """
    parts = urlsplit(text.strip())
    hosts: list[str] = []
    given: dict[str, str] = {}
    for name, value in parse_qsl(parts.query):
        if name == "host":
            hosts.append(value)  # SQLAlchemy repeats it for each
        given[name] = value.strip()
    if hosts:
        given["host"] = ",".join(hosts)
    _check_names(given)
    options = given.get("options", "")
    startup = {name: value for name, value in given.items() if name in _SERVER_SETTINGS}
    settings = startup | _settings_of(options)
    driver = {name: value for name, value in given.items() if name in _DRIVERS} | _sslmode(given)
    has_several_hosts = "," in parts.netloc.rpartition("@")[2] + given.get("host", "")
    if not has_several_hosts:
        driver.pop("target_session_attrs", None)  # there is no choice; a write says that a server is read-only
    _check_files(driver)
    return Address(
        dsn=parts._replace(scheme="postgresql", query=urlencode(driver)).geturl(),
        tls=_verifying_context(driver),
        connect_seconds=_connect_seconds(given),
        startup=startup | ({"options": options} if options else {}),
        settings=settings,
        has_several_hosts=has_several_hosts,
    )


def _check_names(given: Mapping[str, str]) -> None:
    taken = _DRIVERS | _IGNORED | _SERVER_SETTINGS | {"ssl", "options", "connect_timeout"}
    for name in given:
        if name in _NOT_SUPPORTED:
            _refuse(f"has {name}, which is not supported: {_NOT_SUPPORTED[name]}")
        if name not in taken:
            near = get_close_matches(name, taken, n=1)
            hint = f"did you mean {near[0]}" if near else "write a setting of Postgres as options=-cNAME%3DVALUE"
            _refuse(f"has the parameter {name}, which no Postgres address has: {hint}")


def _refuse(reason: str) -> NoReturn:
    raise InvalidSetting(_SETTING, reason)


def _sslmode(given: Mapping[str, str]) -> dict[str, str]:
    """Return the mode of encryption, also as asyncpg and SQLAlchemy write it.

    Channel binding, which the driver lacks, is always over an encrypted connection: at least that is asked for.
    """
    mode = given.get("sslmode") or given.get("ssl", "")
    mode = _SSL.get(mode.lower(), mode)
    if given.get("requiressl") == "1" and not mode:
        mode = "require"
    if given.get("channel_binding") == "require" and mode in {"", "disable", "allow", "prefer"}:
        mode = "require"
    if mode and mode not in _SSL_MODES:
        _refuse(f"has sslmode={mode}: give one of {', '.join(_SSL_MODES)}")
    return {"sslmode": mode} if mode else {}


def _connect_seconds(given: Mapping[str, str]) -> float | None:
    asked = given.get("connect_timeout", "0")
    try:
        seconds = int(asked)
    except ValueError:
        _refuse("has a connect_timeout that is no whole number of seconds")
    return float(max(2, seconds)) if seconds > 0 else None  # libpq's own minimum


def _settings_of(options: str) -> dict[str, str]:
    """Return the settings in a command line of Postgres: `-c name=value` and `--name=value`."""
    try:
        words = shlex.split(options)
    except ValueError:
        _refuse("has options that end within a quotation")
    settings: dict[str, str] = {}
    for at, word in enumerate(words):
        text = word[2:] if word.startswith(("-c", "--")) else ""
        if word == "-c":
            text = words[at + 1] if at + 1 < len(words) else ""
        name, equals, value = text.partition("=")
        if equals:
            settings[name.replace("-", "_")] = value
    return settings


def _check_files(driver: Mapping[str, str]) -> None:
    if driver.get("sslmode") in {"disable", "allow"}:
        return
    for name, value in driver.items():
        if name in _FILES and value != "system" and not _is_file(value):
            _refuse(f"has {name}={value}, and there is no such file")


def _verifying_context(driver: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return a context that verifies a server by this machine's trusted authorities, None if its address does not ask.

    It asks by `sslrootcert=system`, which always verifies in full, and by `sslmode=verify-full` without a file of
    authorities, neither named nor in the default place of libpq. The driver handles all other cases as libpq does.
    """
    root = driver.get("sslrootcert") or os.environ.get("PGSSLROOTCERT")
    if root != "system" and (root or driver.get("sslmode") != "verify-full" or _is_file(_ROOT)):
        return None
    context = ssl.create_default_context()
    context.set_alpn_protocols(["postgresql"])
    return context


def _is_file(path: str) -> bool:
    try:
        return Path(path).expanduser().is_file()
    except (OSError, RuntimeError):  # a folder without permission; a user without a home
        return False
