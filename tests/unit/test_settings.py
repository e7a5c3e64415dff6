"""Every setting: its variable, what it takes, and the name in the sentence when it is wrong."""

from __future__ import annotations

import itertools
import re
import traceback
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from hardwon.errors import BUNDLED_MODEL, InvalidSetting
from hardwon.owner.environment import default_home
from knowledge.adapters.embedding.openai import OpenAIEmbedder
from knowledge.models import ReviewMode
from knowledge.settings import OPENAI_MODEL, KnowledgeSettings, removed_variables, unknown_variables
from knowledge.wiring.open import make_embedder
from tests.support.cases import case_by_case, over

TAKEN: dict[str, tuple[str, str, Any]] = {
    "HARDWON_HOME": ("/data/hardwon", "home", Path("/data/hardwon")),
    "HARDWON_DATABASE_URL": ("postgresql://u:p@h/d", "database_url", SecretStr("postgresql://u:p@h/d")),
    "HARDWON_PG_KEEP": ("yes", "pg_keep", True),
    "HARDWON_QDRANT_URL": ("http://qdrant:6333", "qdrant_url", "http://qdrant:6333"),
    "HARDWON_QDRANT_PREFIX": ("staging-", "qdrant_prefix", "staging-"),
    "HARDWON_QDRANT_REPLICATION": ("2", "qdrant_replication", 2),
    "HARDWON_QDRANT_SHARDS": ("3", "qdrant_shards", 3),
    "HARDWON_QDRANT_QUANTIZATION": ("int8", "qdrant_quantization", "int8"),
    "HARDWON_QDRANT_ON_DISK": ("true", "qdrant_on_disk", True),
    "HARDWON_QDRANT_API_KEY": ("k", "qdrant_api_key", SecretStr("k")),
    "HARDWON_EMBEDDING_MODEL": ("some-model", "embedding_model", "some-model"),
    "HARDWON_EMBEDDING_BASE_URL": ("http://models/v1", "embedding_base_url", "http://models/v1"),
    "HARDWON_EMBEDDING_API_KEY": ("k", "embedding_api_key", SecretStr("k")),
    "HARDWON_EMBEDDING_DIMS": ("512", "embedding_dims", 512),
    "HARDWON_EMBEDDING_REVISION": ("autumn", "embedding_revision", "autumn"),
    "HARDWON_EMBEDDING_QUERY_PREFIX": ("query: ", "embedding_query_prefix", "query: "),
    "HARDWON_EMBEDDING_DOCUMENT_PREFIX": ("passage: ", "embedding_document_prefix", "passage: "),
    "HARDWON_EMBEDDING_TIMEOUT_SECONDS": ("120", "embedding_timeout_seconds", 120.0),
    "HARDWON_CHAT_MODEL": ("some-model", "chat_model", "some-model"),
    "HARDWON_CHAT_BASE_URL": ("http://models/v1", "chat_base_url", "http://models/v1"),
    "HARDWON_CHAT_API_KEY": ("k", "chat_api_key", SecretStr("k")),
    "HARDWON_CHAT_TIMEOUT_SECONDS": ("120", "chat_timeout_seconds", 120.0),
    "HARDWON_QUERY_DEADLINE_MS": ("450", "query_deadline_ms", 450),
    "HARDWON_TASK_RELEVANCE": ("0.6", "task_relevance", 0.6),
    "HARDWON_FAILURE_RELEVANCE": ("1", "failure_relevance", 1.0),
    "HARDWON_TOKENS_PER_DAY": ("2000000", "tokens_per_day", 2_000_000),
    "HARDWON_REDACTION": ("off", "redaction", False),
    "HARDWON_REVIEW": ("everything", "review", ReviewMode.EVERYTHING),
    "HARDWON_RETENTION": ("2 years", "retention_years", 2),
    "HARDWON_CONTEXT_MAX_TOKENS": ("500", "context_max_tokens", 500),
    "HARDWON_CONTEXT_MAX_PATTERNS": ("2", "context_max_patterns", 2),
    "HARDWON_CONTEXT_MARGIN": ("0.1", "context_margin", 0.1),
    "HARDWON_HOLDOUT": ("0.1", "holdout", 0.1),
    "HARDWON_API_URL": ("https://hardwon.example.org", "api_url", "https://hardwon.example.org"),
    "HARDWON_API_KEY": ("k", "api_key", SecretStr("k")),
    "HARDWON_KEY_PEPPER": ("p", "key_pepper", SecretStr("p")),
    "HARDWON_SEAL_KEYS": ("s", "seal_keys", SecretStr("s")),
    "HARDWON_SEAL_ANEW": ("the disk broke", "seal_anew", "the disk broke"),
    "HARDWON_BACKUP_DIR": ("/mnt/backups", "backup_dir", Path("/mnt/backups")),
    "HARDWON_BACKUP_KEEP": ("30", "backup_keep", 30),
    "HARDWON_BACKUP_IDENTITY": ("/etc/hardwon/identity", "backup_identity", Path("/etc/hardwon/identity")),
    "HARDWON_KEEP_HEADS": ("/mnt/heads", "keep_heads", "/mnt/heads"),
    "HARDWON_KEY_REQUESTS_PER_SECOND": ("2.5", "key_requests_per_second", 2.5),
    "HARDWON_WEBHOOK_URL": ("https://chat.example.org/hooks/1", "webhook_url", "https://chat.example.org/hooks/1"),
    "HARDWON_WEBHOOK_SECRET": (
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "webhook_secret",
        SecretStr("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
    ),
    "HARDWON_WEBHOOK_INSIDE": ("true", "webhook_inside", True),
    "HARDWON_OPEN_QDRANT": ("true", "open_qdrant", True),
    "HARDWON_DATABASE_CONNECTIONS": ("5", "database_connections", 5),
    "HARDWON_MAX_CONCURRENT": ("2", "max_concurrent", 2),
    "HARDWON_MAX_WAITING": ("0", "max_waiting", 0),
    "HARDWON_FETCH": (
        "https://git.example.org/team, file:///srv",
        "fetch",
        "https://git.example.org/team, file:///srv",
    ),
    "HARDWON_FETCH_INSIDE": ("true", "fetch_inside", True),
    "HARDWON_CHECK_COMMANDS": ("just verify, ./ci", "check_commands", "just verify, ./ci"),
    "HARDWON_CASE_RETENTION_DAYS": ("30", "case_retention_days", 30),
    "HARDWON_SYNTHESIS_MODEL": ("some-model", "synthesis_model", "some-model"),
    "HARDWON_SYNTHESIS_BASE_URL": ("http://models/v1", "synthesis_base_url", "http://models/v1"),
    "HARDWON_SYNTHESIS_API_KEY": ("k", "synthesis_api_key", SecretStr("k")),
    "HARDWON_MAIN_MODEL": ("some-model", "main_model", "some-model"),
    "HARDWON_MAIN_BASE_URL": ("http://models/v1", "main_base_url", "http://models/v1"),
    "HARDWON_MAIN_API_KEY": ("k", "main_api_key", SecretStr("k")),
    "HARDWON_RERANKER_MODEL": ("/models/model.onnx", "reranker_model", "/models/model.onnx"),
    "HARDWON_RERANKER_BASE_URL": ("http://models/v1", "reranker_base_url", "http://models/v1"),
    "HARDWON_RERANKER_API_KEY": ("k", "reranker_api_key", SecretStr("k")),
    "HARDWON_RERANKER_JUDGES": ("true", "reranker_judges", True),
    "HARDWON_RERANKER_TIMEOUT_SECONDS": ("2", "reranker_timeout_seconds", 2.0),
    "HARDWON_KB_MAX_DOCS": ("7", "kb_max_docs", 7),
    "HARDWON_KB_MIN_RELEVANCE": ("0.2", "kb_min_relevance", 0.2),
    "HARDWON_KB_RELEVANCE": ("hybrid", "kb_relevance", "hybrid"),
    "HARDWON_KB_WEIGHTS": ('{"tag": 0.5}', "kb_weights", {"tag": 0.5}),
    "HARDWON_VERIFY_ENTAILMENT": ("false", "verify_entailment", False),
    "HARDWON_ENABLE_DOCUMENTATION_QA_SUBAGENT": ("true", "enable_documentation_qa_subagent", True),
    "HARDWON_ENABLE_DOCUMENT_SELECTION": ("false", "enable_document_selection", False),
    "HARDWON_REQUIRE_TOOL_USE": ("true", "require_tool_use", True),
    "HARDWON_MAX_DOCUMENT_LOOKUPS": ("3", "max_document_lookups", 3),
    "HARDWON_LOOKUP_MAX_CHUNKS": ("4", "lookup_max_chunks", 4),
    "HARDWON_TOP_K_RETRIEVALS": ("6", "top_k_retrievals", 6),
    "HARDWON_SIMILARITY_THRESHOLD": ("0.5", "similarity_threshold", 0.5),
    "HARDWON_FALLBACK_SIMILARITY_THRESHOLD": ("0.6", "fallback_similarity_threshold", 0.6),
}
REFUSED = [
    ("HARDWON_PG_KEEP", "2"),
    ("HARDWON_PG_KEEP", "forever"),
    ("HARDWON_DATABASE_URL", "mysql://h/d"),
    ("HARDWON_DATABASE_URL", "h/d"),
    ("HARDWON_QDRANT_URL", "qdrant:6333"),
    ("HARDWON_QDRANT_URL", "http://a:6333,b:6333"),
    ("HARDWON_QDRANT_URL", "http://a:6333, http://a:6333"),
    ("HARDWON_QDRANT_REPLICATION", "0"),
    ("HARDWON_QDRANT_SHARDS", "many"),
    ("HARDWON_QDRANT_QUANTIZATION", "int4"),
    ("HARDWON_QDRANT_PREFIX", "a/b"),
    ("HARDWON_EMBEDDING_BASE_URL", "ftp://models"),
    ("HARDWON_API_URL", "localhost"),
    ("HARDWON_WEBHOOK_URL", "chat.example.org"),
    ("HARDWON_WEBHOOK_SECRET", "hush"),
    ("HARDWON_WEBHOOK_SECRET", "whsec_aHVzaA=="),
    ("HARDWON_CHAT_BASE_URL", "models/v1"),
    ("HARDWON_CHAT_TIMEOUT_SECONDS", "0"),
    ("HARDWON_EMBEDDING_DIMS", "1"),
    ("HARDWON_EMBEDDING_DIMS", "many"),
    ("HARDWON_QUERY_DEADLINE_MS", "0"),
    ("HARDWON_QUERY_DEADLINE_MS", "300ms"),
    ("HARDWON_TASK_RELEVANCE", "1.01"),
    ("HARDWON_TASK_RELEVANCE", "nan"),
    ("HARDWON_FAILURE_RELEVANCE", "-0.1"),
    ("HARDWON_REDACTION", "some"),
    ("HARDWON_REVIEW", "some"),
    ("HARDWON_RETENTION", "0 years"),
    ("HARDWON_RETENTION", "90"),
    ("HARDWON_RETENTION", "1.5"),
    ("HARDWON_RETENTION", "365 days"),
    ("HARDWON_RETENTION", "a year"),
    ("HARDWON_CONTEXT_MAX_TOKENS", "49"),
    ("HARDWON_CONTEXT_MAX_PATTERNS", "0"),
    ("HARDWON_CONTEXT_MAX_PATTERNS", "4"),
    ("HARDWON_CONTEXT_MARGIN", "-0.1"),
    ("HARDWON_HOLDOUT", "0.6"),
    ("HARDWON_TOKENS_PER_DAY", "0"),
    ("HARDWON_TOKENS_PER_DAY", "1e6 tokens"),
    ("HARDWON_HOME", "~nobody-of-this-name/memory"),
    ("HARDWON_EMBEDDING_MODEL", "caf\udce9"),
    ("HARDWON_DATABASE_URL", "postgresql://u:caf\udce9@h/d"),
    ("HARDWON_KB_WEIGHTS", '{"tag": NaN}'),
    ("HARDWON_KB_WEIGHTS", "[" * 100_000),
    ("HARDWON_FETCH", "git.example.org"),
    ("HARDWON_FETCH", "https://git.example.org,http://git.example.org"),
    ("HARDWON_CASE_RETENTION_DAYS", "-1"),
]


def test_every_setting_has_its_variable_here() -> None:
    assert {name for _, name, _ in TAKEN.values()} == set(KnowledgeSettings.model_fields)


@pytest.mark.long
@over("variable", TAKEN)
def test_each_variable_sets_its_setting(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told, name, value = TAKEN[variable]
    assert getattr(KnowledgeSettings(), name) != value
    with monkeypatch.context() as alone:
        alone.setenv(variable, told)
        assert getattr(KnowledgeSettings(), name) == value


@pytest.mark.parametrize(("told", "meant"), [("1", True), ("true", True), ("", False), ("false", False), ("no", False)])
def test_a_switch_is_read_in_the_words_of_people(told: str, monkeypatch: pytest.MonkeyPatch, *, meant: bool) -> None:
    monkeypatch.setenv("HARDWON_PG_KEEP", told)
    assert KnowledgeSettings().pg_keep is meant


@pytest.mark.parametrize(("variable", "told"), REFUSED)
def test_a_wrong_value_is_refused_with_the_name_of_the_variable(
    variable: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, told)
    with pytest.raises(InvalidSetting, match=f"^{variable}: ") as refused:
        KnowledgeSettings()
    assert refused.value.field == variable
    assert "\n" not in str(refused.value)
    assert not re.search("Input should|unable to|String should", str(refused.value)), "the words of a library"


@case_by_case
def test_a_wrong_value_is_answered_with_what_the_setting_takes(
    variable: str, told: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, told)
    with pytest.raises(InvalidSetting) as refused:
        KnowledgeSettings()
    assert str(refused.value) == f"{variable}: {says}"


def test_the_defaults_are_those_of_the_design() -> None:
    settings = KnowledgeSettings()
    assert (settings.task_relevance, settings.failure_relevance) == (0.7, 0.75)
    assert (settings.query_deadline_ms, settings.retention_years) == (2000, 1)
    assert (settings.context_max_tokens, settings.context_max_patterns) == (2000, 3)
    assert settings.home == default_home()
    assert (settings.has_embedded_postgres, settings.has_embedded_index, settings.uses_bundled_model) == (
        True,
        True,
        True,
    )


@pytest.mark.parametrize("told", ["3 years", " 3  years "])
def test_retention_is_told_in_whole_years(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARDWON_RETENTION", told)
    assert KnowledgeSettings().retention_years == 3
    assert KnowledgeSettings(retention_years=5).retention_years == 5, "a program has the last word"


def test_home_may_be_below_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("HARDWON_HOME", "~/memory")
    assert KnowledgeSettings().home == Path("/home/ada/memory")
    monkeypatch.setenv("HARDWON_HOME", "memory")
    assert KnowledgeSettings().home == Path.cwd() / "memory"


def test_a_user_without_a_home_is_asked_for_the_data_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a container has one whose number is in no list of users; it was a traceback."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("HARDWON_HOME", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 54321)
    monkeypatch.setattr("os.getuid", lambda: 54321)
    with pytest.raises(InvalidSetting, match="HARDWON_HOME: is not set, and this user has no home directory"):
        KnowledgeSettings()


def test_the_bundled_model_is_used_until_a_key_or_an_endpoint_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert KnowledgeSettings().embedding_model == BUNDLED_MODEL
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    settings = KnowledgeSettings()
    assert settings.embedding_model == OPENAI_MODEL
    assert settings.embedding_api_key == SecretStr("sk-of-openai")
    assert not settings.uses_bundled_model

    monkeypatch.setenv("HARDWON_EMBEDDING_API_KEY", "another")
    assert KnowledgeSettings().embedding_api_key == SecretStr("another"), "ours goes before OpenAI's"
    monkeypatch.setenv("HARDWON_EMBEDDING_MODEL", BUNDLED_MODEL)
    assert KnowledgeSettings().uses_bundled_model, "a key alone does not send texts away"


def test_the_bundled_models_name_at_an_endpoint_is_the_endpoints_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARDWON_EMBEDDING_MODEL", BUNDLED_MODEL)
    monkeypatch.setenv("HARDWON_EMBEDDING_BASE_URL", "http://models/v1")
    assert not KnowledgeSettings().uses_bundled_model


def test_settings_are_frozen_and_know_no_others() -> None:
    settings = KnowledgeSettings()
    with pytest.raises(ValueError, match="frozen"):
        settings.fetch = "https://"  # type: ignore[misc]
    with pytest.raises(InvalidSetting, match="HARDWON_RETRIES: "):
        KnowledgeSettings(retries=3)


def test_no_secret_shows_in_settings_nor_in_the_error_of_a_wrong_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HARDWON_QDRANT_API_KEY", "HARDWON_EMBEDDING_API_KEY", "HARDWON_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(variable, "hush-hush")
    monkeypatch.setenv("HARDWON_DATABASE_URL", "postgresql://user:hush-hush@host/database")
    assert "hush-hush" not in f"{KnowledgeSettings()!r} {KnowledgeSettings()}"
    monkeypatch.setenv("HARDWON_DATABASE_URL", "http://user:hush-hush@host/database")
    with pytest.raises(InvalidSetting) as refused:
        KnowledgeSettings()
    assert "hush-hush" not in "".join(traceback.format_exception(refused.value))


@pytest.mark.long
@over("variable, blank", itertools.product(TAKEN, ["", " ", "\t \n"]))
def test_a_blank_variable_is_unset(variable: str, blank: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARDWON_HOLDOUT", raising=False)  # tests withhold no hint
    usual = KnowledgeSettings()
    with monkeypatch.context() as alone:
        alone.setenv(variable, blank)
        alone.setenv("OPENAI_API_KEY", blank)
        assert KnowledgeSettings() == usual
        assert KnowledgeSettings(database_url=SecretStr(blank)).has_embedded_postgres


@pytest.mark.parametrize("name", sorted(name for name in KnowledgeSettings.model_fields if name.endswith("_key")))
def test_a_key_that_was_read_from_a_file_is_taken_without_its_line_break(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = f"HARDWON_{name.upper()}"
    monkeypatch.setenv(variable, "k-1\r\n")
    assert getattr(KnowledgeSettings(), name) == SecretStr("k-1")
    monkeypatch.setenv(variable, "k-1\nk-2\n")
    with pytest.raises(InvalidSetting, match=variable) as refused:
        KnowledgeSettings()
    assert "k-1" not in str(refused.value)


@pytest.mark.parametrize("variable", [name for name in TAKEN if name.endswith(("_URL", "_KEY"))])
@pytest.mark.parametrize("around", ["{}\n", " {}", "\t{}\r\n"], ids=ascii)
def test_an_address_and_a_key_are_taken_without_what_a_secret_has_around_it(
    variable: str, around: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, name, meant = TAKEN[variable]
    monkeypatch.setenv(variable, around.format(told))
    assert getattr(KnowledgeSettings(), name) == meant
    assert getattr(KnowledgeSettings(**{name: around.format(told)}), name) == meant


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", *(name for name in TAKEN if name.endswith("_API_KEY"))])
def test_a_key_that_a_client_cannot_send_is_named(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pasted key with a Cyrillic letter in it was a trace at the first call."""
    monkeypatch.setenv(variable, "sk-п1")
    if variable == "HARDWON_API_KEY":  # ours are sent as they are
        assert KnowledgeSettings().api_key == SecretStr("sk-п1")
        return
    with pytest.raises(InvalidSetting, match=f"{variable}.*ASCII") as refused:
        KnowledgeSettings()
    assert "п1" not in "".join(traceback.format_exception(refused.value))


def test_what_looks_like_a_setting_and_is_none_is_found_with_the_nearest_name() -> None:
    known = [*TAKEN, "HARDWON_LOG_LEVEL", "HARDWON_PG_HOME", "HARDWON_TEST_QDRANT_URL", "hardwon_home", "PATH"]
    assert unknown_variables(known) == {}
    assert unknown_variables(["HARDWON_TASK_RELEVENCE", "HARDWON_XYZZY", "Hardwon_Fetch_Insid", *known]) == {
        "HARDWON_TASK_RELEVENCE": "HARDWON_TASK_RELEVANCE",
        "HARDWON_XYZZY": None,
        "Hardwon_Fetch_Insid": "HARDWON_FETCH_INSIDE",
    }


def test_a_variable_that_was_a_setting_is_told_with_what_holds_instead(capsys: pytest.CaptureFixture[str]) -> None:
    assert removed_variables(["HARDWON_HOME", "PATH", "hardwon_lease_seconds"]) == {
        "hardwon_lease_seconds": "a lease lasts 60 seconds and is extended as long as its holder lives"
    }
    assert unknown_variables(["HARDWON_LEASE_SECONDS"]) == {}


@pytest.mark.parametrize(("told", "timeout", "patience"), [(None, 20, 60), ("1", 1, 60), ("120", 120, 360)])
def test_a_slow_endpoint_may_be_given_more_time(
    monkeypatch: pytest.MonkeyPatch, told: str | None, timeout: float, patience: float
) -> None:
    monkeypatch.setenv("HARDWON_EMBEDDING_MODEL", "some-model")
    monkeypatch.setenv("HARDWON_EMBEDDING_BASE_URL", "http://127.0.0.1:9/v1")
    if told is not None:
        monkeypatch.setenv("HARDWON_EMBEDDING_TIMEOUT_SECONDS", told)
    embedder = make_embedder(KnowledgeSettings(redaction=False))
    assert isinstance(embedder, OpenAIEmbedder)
    assert (embedder._endpoint.retry.timeout_seconds, embedder._endpoint.retry.patience_seconds) == (timeout, patience)


@pytest.mark.parametrize("name", ["HARDWON_DATABASE_URL", "HARDWON_QDRANT_URL"])
@pytest.mark.parametrize("sign", ["/", "#", "?"])
def test_no_part_of_a_password_is_told_of_an_address_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, name: str, sign: str
) -> None:
    scheme = "postgresql" if name == "HARDWON_DATABASE_URL" else "http"
    monkeypatch.setenv(name, f"{scheme}://hw:TopSecret{sign}Part@127.0.0.1:5599/hw")
    with pytest.raises(InvalidSetting) as refused:
        KnowledgeSettings()
    assert "TopSecret" not in str(refused.value)
    assert "%2F" in str(refused.value)
