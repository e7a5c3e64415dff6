"""Every setting, read from the environment once, with the prefix HARDWON_."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

import platformdirs
from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from knowledge.errors import BUNDLED_MODEL, InvalidSetting
from knowledge.models import Review
from knowledge.wrong_settings import what_is_wrong

FOLDER_SIGNS = ("/", "~")
"""What the name of a model begins with that is a folder, where there is no endpoint."""
OPENAI_MODEL = "text-embedding-3-small"
MOST_YEARS = 100
"""How long knowledge is kept at most."""


def default_home() -> Path:
    """Return the data directory: for root /var/lib/hardwon (the server runs as another user, /root is closed to it).

    Raises InvalidSetting for a user without a home, as a container may run one.
    """
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/hardwon")
    try:
        return platformdirs.user_data_path("hardwon", appauthor=False)
    except RuntimeError:
        raise InvalidSetting(
            "HARDWON_HOME", "is not set, and this user has no home directory: name the data directory"
        ) from None


def _blank(value: object) -> bool:
    told = value.get_secret_value() if isinstance(value, SecretStr) else value
    return isinstance(told, str) and not told.strip()


def _check_port(address: str) -> str | None:
    """Return the host of an address. Raises ValueError unless it can be read and its port is one."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:  # whose own words may hold a part of a password
        raise ValueError(
            "is no address whose host and port can be read: a password has / ? # @ : % as %2F %3F %23 %40 %3A %25"
        ) from None
    if port == 0:
        raise ValueError("is no address: port 0")
    return parts.hostname


def check_http(address: str | None) -> str | None:
    """Return an address of a server on the web, where one is given. Raises ValueError unless it is one."""
    if address and not address.startswith(("http://", "https://")):
        raise ValueError("give an http:// or https:// address")
    if address and not _check_port(address):
        raise ValueError("names no host")
    return address


def _check_sent(key: str) -> None:
    """Raise ValueError unless a key can stand in a header."""
    if not key.isprintable():
        raise ValueError("holds a line break or another character that cannot be sent: is it one key?")


def _check_ascii(key: str) -> None:
    """Raise ValueError unless a key can be sent by clients that know ASCII only."""
    if not key.isascii():
        raise ValueError("holds a character beyond ASCII, which cannot be sent: is it the key?")


def _openai_key() -> str:
    """Return OpenAI's own variable, empty where it is not set. Raises InvalidSetting unless it can be sent."""
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    try:
        _check_sent(key)
        _check_ascii(key)
    except ValueError as error:
        raise InvalidSetting("OPENAI_API_KEY", str(error)) from None
    return key


class KnowledgeSettings(BaseSettings):
    """How to reach the stores, the embedder and a chat model, and the defaults of queries. Frozen.

    An invalid value raises InvalidSetting, which names the variable.
    """

    model_config = SettingsConfigDict(
        env_prefix="HARDWON_",
        frozen=True,
        extra="forbid",
        env_ignore_empty=True,
        hide_input_in_errors=True,  # a wrong address may hold a password
    )

    home: Path = Field(default_factory=default_home)
    """The data directory of the embedded stores."""
    database_url: SecretStr | None = None
    """A Postgres server; unset: the embedded one."""
    pg_keep: bool = False
    """Whether the embedded Postgres is left running when the last process leaves."""
    qdrant_url: str | None = None
    """A Qdrant server; unset: the embedded engine."""
    qdrant_api_key: SecretStr | None = None
    """The key of that server."""
    qdrant_prefix: str = Field(default="", pattern=r"^[A-Za-z0-9_-]{0,64}$")
    """Begins the names of its collections: each database that shares the server needs one of its own."""
    embedding_model: str | None = None
    """Unset: text-embedding-3-small where OPENAI_API_KEY or one of the next two is set, else the bundled model. What
    begins with / or ~ is the folder of a model."""
    embedding_base_url: str | None = None
    """An OpenAI-compatible endpoint; unset: OpenAI's."""
    embedding_api_key: SecretStr | None = None
    """Unset: OPENAI_API_KEY."""
    embedding_dims: int | None = Field(default=None, ge=2, le=65536)
    """Asks the endpoint for shorter vectors; only some models can."""
    embedding_revision: str | None = Field(default=None, max_length=100)
    """Tells two models apart that an endpoint served under one name, one after the other; any word."""
    embedding_query_prefix: str = Field(default="", max_length=200)
    """What the endpoint's model wants before what is asked for, with the blank behind it."""
    embedding_document_prefix: str = Field(default="", max_length=200)
    """What it wants before what is stored."""
    embedding_timeout_seconds: float = Field(default=20.0, ge=1, le=3600)
    """What one call of an endpoint may take, with up to 256 texts."""
    tokens_per_day: int | None = Field(default=None, ge=1, le=10**15)
    """What a workspace may send to the endpoints of models a day (UTC), in tokens; unset: any number.

    The last call may go beyond it. Then what is staged waits for the next day, and contexts are the basic ones."""
    chat_model: str | None = None
    """The model that distils patterns where a checkpoint is asked for it, and summarises long documents.

    It stands in for the two models of answers where these are unset. Unset: none does."""
    chat_base_url: str | None = None
    """An OpenAI-compatible endpoint; unset: OpenAI's."""
    chat_api_key: SecretStr | None = None
    """Unset: OPENAI_API_KEY, for OpenAI's own endpoint only."""
    chat_timeout_seconds: float = Field(default=60.0, ge=1, le=3600)
    """What one answer may take."""
    # Answers from documents:
    synthesis_model: str | None = None
    """The model that writes answers from passages; unset: that of HARDWON_CHAT_MODEL, and where there is none either,
    answers are quoted sentences."""
    synthesis_base_url: str | None = None
    """Unset: OpenAI's, or where HARDWON_SYNTHESIS_MODEL is unset too, that of HARDWON_CHAT_BASE_URL."""
    synthesis_api_key: SecretStr | None = None
    """Unset: OPENAI_API_KEY, for OpenAI's own endpoint only."""
    verify_entailment: bool = False
    """A model is asked whether each claim follows from what it quotes, beside the rules that every claim is held to."""
    main_model: str | None = None
    """The model that picks tools and documents, apart from the one that writes; unset: that of HARDWON_CHAT_MODEL."""
    main_base_url: str | None = None
    """Unset: OpenAI's, or where HARDWON_MAIN_MODEL is unset too, that of HARDWON_CHAT_BASE_URL."""
    main_api_key: SecretStr | None = None
    """Unset: OPENAI_API_KEY, for OpenAI's own endpoint only."""
    kb_max_docs: int = Field(default=30, ge=1, le=1000)
    """Documents that the strict knowledge base shows a model at most."""
    kb_min_relevance: float = Field(default=0.1, ge=0, le=100)
    """Keyword score that a document must exceed for that."""
    kb_relevance: Literal["keyword", "embedding", "hybrid"] = "keyword"
    """What the strict knowledge base ranks documents by."""
    kb_weights: Annotated[dict[str, Annotated[float, Field(allow_inf_nan=False)]], NoDecode] = {}
    """Weights of the keyword score that differ from the shipped ones, as JSON."""
    enable_documentation_qa_subagent: bool = False
    """Planners may have the documentation subagent work; AI_ENABLE_DOCUMENTATION_QA_SUBAGENT says the same."""
    enable_document_selection: bool = True
    """The model picks the documents to look into; else all are searched."""
    require_tool_use: bool = False
    """The model has to pick some: nothing is searched unasked."""
    max_document_lookups: int = Field(default=5, ge=1, le=50)
    """Lookups of one request at most."""
    lookup_max_chunks: int = Field(default=5, ge=1, le=50)
    """Passages of one lookup at most."""
    top_k_retrievals: int = Field(default=5, ge=1, le=50)
    """Passages of a plain search."""
    similarity_threshold: float = Field(default=0.7, ge=0, le=1)
    """Relevance of a passage that a lookup finds at least, unless the model asks for another."""
    fallback_similarity_threshold: float = Field(default=0.7, ge=0, le=1)
    """The same of a plain search, where nothing was looked up."""
    # The memory:
    query_deadline_ms: int = Field(default=2000, ge=1, le=600_000)
    """After which a context comes without knowledge."""
    task_relevance: float = Field(default=0.7, ge=0, le=1)
    """Relevance of a pattern that is shown for a task, or at a gate, at least."""
    failure_relevance: float = Field(default=0.75, ge=0, le=1)
    """The same for a failure."""
    redaction: bool = True
    """Secrets and personal data are taken out of texts before they are stored or sent to an endpoint."""
    review: Review = Review.SUSPICIOUS
    """What of the entries by keys that can only capture waits for a person."""
    retention_years: int = Field(default=1, ge=1, le=MOST_YEARS, alias="HARDWON_RETENTION")
    """Calendar years from embedding to expiry."""
    context_max_tokens: int = Field(default=2000, ge=50, le=1_000_000)
    """What the block of patterns in a context holds at most."""
    context_max_patterns: int = Field(default=3, ge=1, le=3)
    # How documents are fetched and kept:
    fetch: str = ""
    """Addresses that git repositories may be fetched from, with commas between; unset: fetching is off."""
    fetch_inside: bool = False
    """Whether a fetch may lead to an internal address: of this machine, its networks or its cloud."""
    case_retention_days: int = Field(default=0, ge=0, le=36_500)
    """How long the documents of a closed case stay."""
    # A server, and its callers:
    api_url: str | None = None
    """A hardwon server for the CLI and `orchestrator.connect`; unset: the stores themselves."""
    api_key: SecretStr | None = None
    """How the command line and the client show who they are; to a server, the key of its operator, who may do all."""
    key_pepper: SecretStr | None = None
    """What the hashes of keys are made with; unset: a file of the data directory, made with the first key."""
    key_requests_per_second: float = Field(default=100.0, gt=0, le=1e6)
    """What a key may ask for at length; twice as much at once."""
    open_qdrant: bool = False
    """Whether a Qdrant server beyond this machine may go without a key."""
    # How much a process takes on:
    database_connections: int = Field(default=20, ge=4, le=1000)
    """Connections to a Postgres server that a process takes at most, and keeps."""
    max_concurrent: int = Field(default=32, ge=1, le=10_000)
    """Short requests that a server works on at a time; beside them as many of long work."""
    max_waiting: int = Field(default=512, ge=0, le=100_000)
    """Requests in each of the two queues; any more are refused with 429."""

    @model_validator(mode="before")
    @classmethod
    def _blank_is_unset(cls, values: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if not _blank(value)}

    @field_validator("*", mode="before")
    @classmethod
    def _text(cls, value: Any, info: ValidationInfo) -> Any:
        """Take texts that can be sent and stored: bytes that are no UTF-8 can only stand in a path."""
        if isinstance(value, str) and info.field_name != "home":
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ValueError("is not UTF-8") from None
        return value

    @field_validator("retention_years", mode="before")
    @classmethod
    def _years(cls, value: Any) -> Any:
        """Accept `1 year` and `2 years`; a bare number may be meant as days, and would keep all for decades."""
        if isinstance(value, str):
            number, _, unit = value.strip().partition(" ")
            if unit.strip() not in {"year", "years"} or not (number.isdecimal() and 1 <= int(number) <= MOST_YEARS):
                raise ValueError(f"give whole years from 1 to {MOST_YEARS}, and say so, such as '1 year'")
            return number
        return value

    @field_validator("home")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        try:
            return value.expanduser().absolute()
        except RuntimeError:
            raise ValueError(f"begins with {value.parts[0]}, and there is no home directory of that user") from None

    @field_validator("database_url")
    @classmethod
    def _postgres(cls, value: SecretStr | None) -> SecretStr | None:
        if value and not value.get_secret_value().startswith(("postgresql://", "postgres://", "postgresql+asyncpg://")):
            raise ValueError("give a Postgres address, such as postgresql://user:password@host/database")
        return value

    @field_validator("database_url")
    @classmethod
    def _postgres_port(cls, value: SecretStr | None) -> SecretStr | None:
        if value:
            _check_port(value.get_secret_value())
        return value

    @field_validator(
        "qdrant_url", "embedding_base_url", "chat_base_url", "synthesis_base_url", "main_base_url", "api_url"
    )
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        return check_http(value)

    @field_validator(
        "qdrant_api_key", "embedding_api_key", "chat_api_key", "synthesis_api_key", "main_api_key", "api_key"
    )
    @classmethod
    def _sent(cls, value: SecretStr | None) -> SecretStr | None:
        """Take a key as a header holds it: one that was read from a file ends in a line break, which none does."""
        told = value and value.get_secret_value().strip()
        if told:
            _check_sent(told)
        return SecretStr(told) if told else value

    @field_validator("api_key")
    @classmethod
    def _in_one_piece(cls, value: SecretStr | None) -> SecretStr | None:
        """Take our own key without a blank in it, which ends a key where a server reads it."""
        if value and " " in value.get_secret_value().strip():
            raise ValueError("holds a blank: is it one key?")
        return value

    @field_validator("qdrant_api_key", "embedding_api_key", "chat_api_key", "synthesis_api_key", "main_api_key")
    @classmethod
    def _sent_to_others(cls, value: SecretStr | None) -> SecretStr | None:
        """Take a key of another program as its client sends it: in ASCII."""
        if value:
            _check_ascii(value.get_secret_value())
        return value

    @field_validator("fetch")
    @classmethod
    def _addresses(cls, value: str) -> str:
        for address in filter(None, (each.strip() for each in value.split(","))):
            if not address.startswith(("https://", "file://")):
                raise ValueError("give https:// or file:// addresses with commas between")
        return value

    @model_validator(mode="after")
    def _model(self) -> Self:
        openai_key = _openai_key()
        if self.embedding_model is None:
            remote = openai_key or self.embedding_base_url or self.embedding_api_key
            object.__setattr__(self, "embedding_model", OPENAI_MODEL if remote else BUNDLED_MODEL)
        if self.embedding_api_key is None and openai_key:
            object.__setattr__(self, "embedding_api_key", SecretStr(openai_key))
        if self.chat_api_key is None and self.chat_base_url is None and openai_key:
            object.__setattr__(self, "chat_api_key", SecretStr(openai_key))
        for role in ("synthesis", "main"):
            named = getattr(self, f"{role}_model") is not None and getattr(self, f"{role}_base_url") is None
            if named and getattr(self, f"{role}_api_key") is None and openai_key:
                object.__setattr__(self, f"{role}_api_key", SecretStr(openai_key))
        return self

    @field_validator("kb_weights", mode="before")
    @classmethod
    def _weights(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"is no JSON object of weights: {error}") from error

    @model_validator(mode="before")
    @classmethod
    def _named_by_the_design(cls, values: dict[str, Any]) -> dict[str, Any]:
        told = os.environ.get("AI_ENABLE_DOCUMENTATION_QA_SUBAGENT", "").strip()
        return {"enable_documentation_qa_subagent": told, **values} if told else values

    def __init__(self, **values: Any) -> None:
        if "retention_years" in values:
            values["HARDWON_RETENTION"] = values.pop("retention_years")
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0]) if first["loc"] else "settings"
            variable = name if name.startswith("HARDWON_") else f"HARDWON_{name.upper()}"
            raise InvalidSetting(variable, what_is_wrong(first, self._field(name))) from error

    @classmethod
    def _field(cls, name: str) -> FieldInfo | None:
        fields = cls.model_fields
        return fields.get(name) or next((each for each in fields.values() if each.alias == name), None)

    @property
    def fetch_from(self) -> tuple[str, ...]:
        """The addresses that may be fetched from."""
        return tuple(filter(None, (each.strip() for each in self.fetch.split(","))))

    @property
    def embedding_folder(self) -> Path | None:
        """The folder of a model that is run in process, None where there is none."""
        if self.embedding_base_url is None and (self.embedding_model or "").startswith(FOLDER_SIGNS):
            return Path(self.embedding_model or "")
        return None

    @property
    def local_model(self) -> bool:
        """Whether texts are embedded in process."""
        return self.bundled_model or self.embedding_folder is not None

    @property
    def bundled_model(self) -> bool:
        """Whether texts are embedded by the bundled weights, in process."""
        return self.embedding_model == BUNDLED_MODEL and self.embedding_base_url is None

    @property
    def embedded_postgres(self) -> bool:
        """Whether Postgres is started from the data directory."""
        return self.database_url is None

    @property
    def embedded_index(self) -> bool:
        """Whether the vector index lives in the data directory, which one process at a time owns."""
        return self.qdrant_url is None


_ALSO_READ = frozenset({"HARDWON_LOG_LEVEL", "HARDWON_PG_HOME", "HARDWON_POSTGRES_PASSWORD"})
"""Variables that are no settings of the stores: of the log, of the embedded Postgres, of compose.yaml."""


_REMOVED: Final[Mapping[str, str]] = {
    "HARDWON_CHECKPOINT_BATCH": "a checkpoint embeds at most 256 entries at a time",
    "HARDWON_CHECKPOINT_DEADLINE_SECONDS": "a checkpoint ends after six hours, and the next one goes on from there",
    "HARDWON_DOCUMENT_CHUNK_TOKENS": "a passage has at most 512 tokens",
    "HARDWON_DOCUMENT_LIST_MAX_TOKENS": "a model is shown about 4,000 tokens of the list of documents at a time",
    "HARDWON_DOCUMENT_VECTOR_WEIGHT": "relevance counts 0.7 in the order of passages, and words count 0.3",
    "HARDWON_KB_MAX_TOKENS": "the strict knowledge base shows a model about 24,000 tokens of documents",
    "HARDWON_LEASE_SECONDS": "a lease lasts 60 seconds and is extended as long as its holder lives",
}
"""Variables that were settings, and what holds instead (docs/adr/0028)."""


def removed_variables(names: Iterable[str]) -> dict[str, str]:
    """Return those of the names that were settings once, with what holds instead."""
    return {name: _REMOVED[name.upper()] for name in sorted(names) if name.upper() in _REMOVED}


def unknown_variables(names: Iterable[str]) -> dict[str, str | None]:
    """Return those of the names that begin with HARDWON_ and are read by nothing here, with the known name nearest."""
    fields = KnowledgeSettings.model_fields.items()
    known = {field.alias or f"HARDWON_{name.upper()}" for name, field in fields} | _ALSO_READ
    # as pydantic does, variables are read in any case
    passed_over = known | _REMOVED.keys()
    asked = (name for name in names if name.upper().startswith("HARDWON_") and name.upper() not in passed_over)
    unknown = sorted(name for name in asked if not name.upper().startswith("HARDWON_TEST_"))
    nearest = {name: difflib.get_close_matches(name.upper(), sorted(known), n=1, cutoff=0.8) for name in unknown}
    return {name: next(iter(found), None) for name, found in nearest.items()}
