"""Addresses of Postgres as libpq, SQLAlchemy and managed servers write them."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from hardwon.errors import InvalidSetting
from knowledge.adapters.postgres.engine.address import read_address
from knowledge.settings import KnowledgeSettings

LIBPQ = "keepalives=1&keepalives_idle=30&keepalives_interval=10&keepalives_count=3&tcp_user_timeout=1&sslsni=1"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+asyncpg"])
@pytest.mark.parametrize(
    ("asked", "driver"),
    [
        ("", ""),
        ("sslmode=require&channel_binding=require", "?sslmode=require"),
        ("channel_binding=require", "?sslmode=require"),
        ("channel_binding=prefer&gssencmode=disable", ""),
        ("ssl=require", "?sslmode=require"),
        ("ssl=true", "?sslmode=require"),
        ("ssl=0", "?sslmode=disable"),
        ("sslmode=verify-ca&ssl=true", "?sslmode=verify-ca"),
        (LIBPQ, ""),
        ("application_name=app&fallback_application_name=x&client_encoding=auto", ""),
        ("target_session_attrs=read-write", ""),
        ("pgbouncer=true&prepared_statement_cache_size=0&statement_cache_size=0&supa=base-pooler.x", ""),
        ("sslmode=&connect_timeout=", ""),
    ],
)
def test_what_a_libpq_address_has_is_taken_or_left_out_and_never_sent_as_a_setting(
    scheme: str, asked: str, driver: str
) -> None:
    address = read_address(f"{scheme}://u:p%40@host:5432/db?{asked}")
    assert address.dsn == f"postgresql://u:p%40@host:5432/db{driver}"
    assert address.startup == {}
    assert address.connect_seconds is None


@pytest.mark.parametrize(
    ("asked", "settings"),
    [
        ("-c search_path=ours", {"search_path": "ours"}),
        ("-csearch_path=ours --statement-timeout=5s", {"search_path": "ours", "statement_timeout": "5s"}),
        ("-c 'search_path=a, b'", {"search_path": "a, b"}),
        ("endpoint=ep-1", {}),
        ("--cluster=one-2", {"cluster": "one-2"}),
    ],
)
def test_options_are_sent_as_they_are_and_read_for_poolers_that_refuse_them(
    asked: str, settings: dict[str, str]
) -> None:
    address = read_address(f"postgresql://h/d?options={asked.replace(' ', '%20').replace('=', '%3D')}")
    assert address.startup == {"options": asked}
    assert address.settings == settings


@pytest.mark.parametrize(("asked", "seconds"), [("1", 2.0), ("7", 7.0), ("0", None), ("-1", None)])
def test_the_time_to_connect_is_that_of_the_address(asked: str, seconds: float | None) -> None:
    assert read_address(f"postgresql://h/d?connect_timeout={asked}").connect_seconds == seconds


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("nosuch=thing", "has the parameter nosuch"),
        ("sslmod=require", "did you mean sslmode"),
        ("keepalive_idle=3", "did you mean keepalives_idle"),
        ("role=other", "options=-cNAME%3DVALUE"),
        ("sslmode=often", "sslmode=often: give one of disable"),
        ("require_auth=scram-sha-256", "has require_auth, which is not supported"),
        ("hostaddr=10.0.0.1", "write the address as the host"),
        ("schema=ours", "options=-csearch_path%3DNAME"),
        ("connect_timeout=soon", "connect_timeout"),
        ("options=-c%20'a", "quotation"),
        ("sslrootcert=/no/where", "there is no such file"),
    ],
)
def test_a_parameter_that_nobody_knows_or_can_honour_is_refused_by_name(asked: str, told: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        read_address(f"postgresql://u:sesame@h/d?{asked}")
    assert str(refused.value).startswith("HARDWON_DATABASE_URL: ")
    assert told in str(refused.value)
    assert "sesame" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "dsn"),
    [
        ("postgres://u@h1:5432,h2:5433/d", "postgresql://u@h1:5432,h2:5433/d"),
        ("postgresql://u@/d?host=h1:5432&host=h2:5433", "postgresql://u@/d?host=h1%3A5432%2Ch2%3A5433"),
        (
            "postgresql://u@h1,h2/d?target_session_attrs=read-write",
            "postgresql://u@h1,h2/d?target_session_attrs=read-write",
        ),
        ("\n postgresql://u@h/d \r\n", "postgresql://u@h/d"),
    ],
)
def test_several_hosts_and_blanks_around_an_address_are_read(text: str, dsn: str) -> None:
    assert read_address(text).dsn == dsn
    settings = KnowledgeSettings(database_url=SecretStr(text))
    assert settings.database_url is not None
    assert settings.database_url.get_secret_value() == text.strip()


@pytest.mark.parametrize("text", ["postgresql://u@h1:5432,h2:0/d", "postgresql://u@h1:x,h2/d", " mysql://h/d "])
def test_each_of_several_hosts_is_checked(text: str) -> None:
    with pytest.raises(InvalidSetting, match="HARDWON_DATABASE_URL"):
        KnowledgeSettings(database_url=SecretStr(text))
