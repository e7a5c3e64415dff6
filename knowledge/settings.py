"""Settings, read once from environment variables with the prefix HARDWON_."""

from __future__ import annotations

import base64
import difflib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, get_args

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from hardwon.errors import BUNDLED_MODEL, InvalidSetting
from hardwon.owner.environment import default_home
from hardwon.settings import check_http, check_port
from knowledge.models import ReviewMode

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

_OF_NUMBERS = ("int_", "float_", "finite_", "greater_than", "less_than")


def describe_error(error: ErrorDetails, field: FieldInfo | None) -> str:
    """Return what a setting takes, or the error's own message where that says more."""
    kind = error["type"]
    if kind.startswith(_OF_NUMBERS) and field is not None:
        inside = error["loc"][1:]
        return f"give a number for {inside[0]!r}" if inside else f"give {_numbers(field)}"
    if kind.startswith("bool_"):
        return "give true (on) or false (off)"
    if kind in {"literal_error", "enum"}:
        return f"give {error['ctx']['expected']}"
    if kind == "string_pattern_mismatch":
        return f"give what matches {error['ctx']['pattern']}"
    return error["msg"].removeprefix("Value error, ")


def _numbers(field: FieldInfo) -> str:
    kind = "a whole number" if int in (field.annotation, *get_args(field.annotation)) else "a number"
    lowest, above, highest = (_bound(field, name) for name in ("ge", "gt", "le"))
    if lowest is None:
        return f"{kind} above {above:.15g}, {highest:.15g} at most"
    return f"{kind} from {lowest:.15g} to {highest:.15g}"


def _bound(field: FieldInfo, name: str) -> Any:
    return next((getattr(each, name) for each in field.metadata if hasattr(each, name)), None)


FOLDER_SIGNS = ("/", "~")
"""Prefixes of a model name that is a folder, if there is no endpoint."""
OPENAI_MODEL = "text-embedding-3-small"
MAX_YEARS = 100
"""Longest retention of knowledge."""


def _blank(value: object) -> bool:
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    return isinstance(text, str) and not text.strip()


_FROM_SECRETS = re.compile(r"(_url|_key|_secret)$")
"""Settings that are read from secrets and files, which end in a line break."""


def _strip(name: str, value: Any) -> Any:
    if not _FROM_SECRETS.search(name.lower()):
        return value
    if isinstance(value, SecretStr):
        return SecretStr(value.get_secret_value().strip())
    return value.strip() if isinstance(value, str) else value


def _check_sendable(key: str) -> None:
    """Raise ValueError unless a key can be sent in a header."""
    if not key.isprintable():
        raise ValueError("contains a line break or another character that cannot be sent: is it a single key?")


def _check_ascii(key: str) -> None:
    """Raise ValueError unless a key can be sent by clients that only support ASCII."""
    if not key.isascii():
        raise ValueError("contains a non-ASCII character, which cannot be sent: is it the key?")


def decode_webhook_secret(secret: str) -> bytes:
    """Return the bytes of a secret in the form of Standard Webhooks. Raises ValueError."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not (secret.startswith("whsec_") and 24 <= len(key) <= 64):
        raise ValueError("give whsec_ and 24 to 64 bytes in base64, as of `openssl rand -base64 32`")
    return key


def _openai_key() -> str:
    """Return OPENAI_API_KEY, empty if it is not set. Raises InvalidSetting if it cannot be sent."""
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    try:
        _check_sendable(key)
        _check_ascii(key)
    except ValueError as error:
        raise InvalidSetting("OPENAI_API_KEY", str(error)) from None
    return key


def _to_text(name: str, value: Any) -> str:
    """Return a value as its variable has it."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return json.dumps(value)
    return f"{value} years" if name == "retention_years" else str(value)


class KnowledgeSettings(BaseSettings):
    """All settings: stores, models, queries, documents and the server. Immutable.

    An invalid value raises InvalidSetting, which names the variable.
    """

    model_config = SettingsConfigDict(
        env_prefix="HARDWON_",
        frozen=True,
        extra="forbid",
        env_ignore_empty=True,
        hide_input_in_errors=True,  # a wrong address may contain a password
    )

    home: Path = Field(default_factory=default_home)
    """The data directory of the embedded stores."""
    database_url: SecretStr | None = None
    """A Postgres server; unset: the embedded one."""
    pg_keep: bool = False
    """Leave the embedded Postgres running when the last process ends."""
    qdrant_url: str | None = None
    """A Qdrant server, or several nodes of one cluster with commas between; unset: the embedded engine."""
    qdrant_api_key: SecretStr | None = None
    """The key of that server."""
    qdrant_replication: int | None = Field(default=None, ge=1, le=100)
    """Replicas of each shard; unset: 2 where the cluster has two nodes or more. For new collections, like the next
    three: `hardwon rebuild --layout` gives them to those that exist."""
    qdrant_shards: int | None = Field(default=None, ge=1, le=1000)
    """Shards of a collection; unset: as many as the cluster has nodes."""
    qdrant_quantization: Literal["none", "int8"] = "none"
    """int8: search among vectors of a quarter of the size, held in memory; hits are scored by the whole ones."""
    qdrant_on_disk: bool = False
    """Leave vectors and graphs on disk, for collections larger than memory."""
    qdrant_prefix: str = Field(default="", pattern=r"^[A-Za-z0-9_-]{0,64}$")
    """Prefix of its collections; each database that shares the server needs its own."""
    embedding_model: str | None = None
    """Unset: text-embedding-3-small if OPENAI_API_KEY or one of the next two is set, else the bundled model. A
    name that begins with / or ~ is the folder of a model."""
    embedding_base_url: str | None = None
    """An OpenAI-compatible endpoint; unset: OpenAI's."""
    embedding_api_key: SecretStr | None = None
    """Unset: OPENAI_API_KEY."""
    embedding_dims: int | None = Field(default=None, ge=2, le=65536)
    """Request shorter vectors from the endpoint; only some models support it."""
    embedding_revision: str | None = Field(default=None, max_length=100)
    """Distinguishes two models that an endpoint served under the same name; any word."""
    embedding_query_prefix: str = Field(default="", max_length=200)
    """Prefix that the endpoint's model needs before queries, including the space at its end."""
    embedding_document_prefix: str = Field(default="", max_length=200)
    """Prefix that it needs before stored texts."""
    embedding_timeout_seconds: float = Field(default=20.0, ge=1, le=3600)
    """Timeout of one call of the endpoint, with up to 256 texts."""
    tokens_per_day: int | None = Field(default=None, ge=1, le=10**15)
    """Tokens that a workspace may send to model endpoints per day (UTC); unset: no limit.

    The last call may exceed it. After that, staged entries wait for the next day, and contexts are the basic ones."""
    chat_model: str | None = None
    """The model that distils patterns if a checkpoint requests it, and summarises long documents; unset: none.

    Also the default of the two models for answers."""
    chat_base_url: str | None = None
    """An OpenAI-compatible endpoint; unset: OpenAI's."""
    chat_api_key: SecretStr | None = None
    """Unset: OPENAI_API_KEY, for OpenAI's own endpoint only."""
    chat_timeout_seconds: float = Field(default=60.0, ge=1, le=3600)
    """Timeout of one answer."""
    # Answers from documents:
    synthesis_model: str | None = None
    """The model that writes answers from passages; unset: HARDWON_CHAT_MODEL, and without that one, too, answers
    consist of quoted sentences."""
    synthesis_base_url: str | None = None
    """Unset: OpenAI's, or where HARDWON_SYNTHESIS_MODEL is unset too, that of HARDWON_CHAT_BASE_URL."""
    synthesis_api_key: SecretStr | None = None
    """Unset: OPENAI_API_KEY, for OpenAI's own endpoint only."""
    verify_entailment: bool = True
    """Ask the model that writes whether each claim in other words than its quotes follows from them, in addition to the
    rule-based verification."""
    reranker_model: str | None = None
    """A cross-encoder that ranks what was found, or a model of natural language inference that judges whether claims
    follow: an ONNX file with its tokenizer.json beside it, or with HARDWON_RERANKER_BASE_URL the name of a model there;
    unset: none."""
    reranker_base_url: str | None = None
    """An endpoint with a /rerank route, as Cohere, Jina, vLLM and Text Embeddings Inference have it."""
    reranker_api_key: SecretStr | None = None
    reranker_judges: bool = False
    """The endpoint's model is one of natural language inference: it judges claims, and ranks nothing."""
    reranker_timeout_seconds: float = Field(default=5.0, ge=0.1, le=600)
    """After this an answer does without it, and says so."""
    main_model: str | None = None
    """The model that picks tools and documents, as opposed to writing answers; unset: HARDWON_CHAT_MODEL."""
    main_base_url: str | None = None
    """Unset: OpenAI's, or where HARDWON_MAIN_MODEL is unset too, that of HARDWON_CHAT_BASE_URL."""
    main_api_key: SecretStr | None = None
    """Unset: OPENAI_API_KEY, for OpenAI's own endpoint only."""
    kb_max_docs: int = Field(default=30, ge=1, le=1000)
    """Documents that the strict knowledge base shows a model, at most."""
    kb_min_relevance: float = Field(default=0.1, ge=0, le=100)
    """Keyword score that a document must exceed for that."""
    kb_relevance: Literal["keyword", "embedding", "hybrid"] = "keyword"
    """The score that the strict knowledge base ranks documents by."""
    kb_weights: Annotated[dict[str, Annotated[float, Field(allow_inf_nan=False)]], NoDecode] = {}
    """Weights of the keyword score that differ from the shipped ones, as JSON."""
    enable_documentation_qa_subagent: bool = False
    """Let planners use the documentation subagent; AI_ENABLE_DOCUMENTATION_QA_SUBAGENT is an alias."""
    enable_document_selection: bool = True
    """Let the model select the documents to search; else all are searched."""
    require_tool_use: bool = False
    """The model must select documents; there is no search without its request."""
    max_document_lookups: int = Field(default=5, ge=1, le=50)
    """Lookups per request, at most."""
    lookup_max_chunks: int = Field(default=5, ge=1, le=50)
    """Passages per lookup, at most."""
    top_k_retrievals: int = Field(default=5, ge=1, le=50)
    """Passages of a plain search."""
    similarity_threshold: float = Field(default=0.7, ge=0, le=1)
    """Minimum relevance of a passage found by a lookup, unless the model requests another."""
    fallback_similarity_threshold: float = Field(default=0.7, ge=0, le=1)
    """The same for a plain search, without any lookup."""
    # The memory:
    query_deadline_ms: int = Field(default=2000, ge=1, le=600_000)
    """Deadline after which a context is returned without patterns."""
    task_relevance: float = Field(default=0.7, ge=0, le=1)
    """Minimum relevance of a pattern that is shown for a task or at a gate."""
    failure_relevance: float = Field(default=0.75, ge=0, le=1)
    """The same for a failure."""
    redaction: bool = True
    """Remove secrets and personal data from texts before they are stored or sent to an endpoint."""
    review: ReviewMode = ReviewMode.SUSPICIOUS
    """The entries by agents' keys that wait for a person's review."""
    retention_years: int = Field(default=1, ge=1, le=MAX_YEARS, alias="HARDWON_RETENTION")
    """Calendar years from embedding to expiry."""
    context_max_tokens: int = Field(default=2000, ge=50, le=1_000_000)
    """Tokens of the patterns in a context, at most."""
    context_max_patterns: int = Field(default=3, ge=1, le=3)
    context_margin: float = Field(default=0.08, ge=0, le=1)
    """Lead in probability that a hint must have over the agent alone."""
    holdout: float = Field(default=0.02, ge=0, le=0.5)
    """Share of tasks that get no hint, so that the lift is known; 0 turns it off."""
    check_commands: str = ""
    """Commands that check something, to `hardwon learn sessions`, besides those it knows; with commas between."""
    # How documents are fetched and kept:
    fetch: str = ""
    """Addresses that git repositories may be fetched from, with commas between; unset: fetching is off."""
    fetch_inside: bool = False
    """Allow fetches from internal addresses: of this machine, its networks or its cloud."""
    case_retention_days: int = Field(default=0, ge=0, le=36_500)
    """Days after which the documents of a closed case are deleted."""
    # A server, and its callers:
    api_url: str | None = None
    """A hardwon server for the CLI and `orchestrator.connect`; unset: the stores themselves."""
    api_key: SecretStr | None = None
    """The key that the CLI and the client send; for a server, the operator's key, which may do everything."""
    key_pepper: SecretStr | None = None
    """Secret that key hashes are made with; unset: a file in the data directory, created with the first key."""
    key_requests_per_second: float = Field(default=100.0, gt=0, le=1e6)
    """Sustained request rate of a key; bursts may have twice as many."""
    seal_keys: SecretStr | None = None
    """Secrets that entries are vouched for by, the newest first, with commas between; unset: a file in the data
    directory. Several servers on one Postgres need the same."""
    seal_anew: str | None = Field(default=None, max_length=500)
    """The reason to vouch for all that is stored now by a new key, at a start that would be refused for a lost one."""
    keep_heads: str | None = None
    """A file, or an address that takes POST: where heads over all that is vouched for are kept, at each checkpoint."""
    backup_dir: Path | None = None
    """A folder that gets a backup each day; unset: none is made."""
    backup_keep: int = Field(default=7, ge=1, le=10_000)
    """Backups kept in a folder: older ones are removed once a later one has passed its trial."""
    backup_identity: Path | None = None
    """A file of `age-keygen`: backups are encrypted for its identities, and opened with them."""
    open_qdrant: bool = False
    """Allow a Qdrant server on another machine without a key."""
    # Word by webhook:
    webhook_url: str | None = None
    """Address that is told what waits for a person, sinks or is dead; unset: nothing is told."""
    webhook_secret: SecretStr | None = None
    """Secret that messages are signed with: `whsec_` and 24 to 64 bytes in base64. Nothing is sent without it."""
    webhook_inside: bool = False
    """Allow an internal address: of this machine, its networks or its cloud."""
    # How much a process takes on:
    database_connections: int = Field(default=20, ge=4, le=1000)
    """Size of a process's pool of connections to a Postgres server."""
    max_concurrent: int = Field(default=32, ge=1, le=10_000)
    """Concurrent short requests of a server; the same number again of long ones."""
    max_waiting: int = Field(default=512, ge=0, le=100_000)
    """Requests in each of the two queues; further ones are refused with 429."""

    @model_validator(mode="before")
    @classmethod
    def _blank_is_unset(cls, values: dict[str, Any]) -> dict[str, Any]:
        return {name: _strip(name, value) for name, value in values.items() if not _blank(value)}

    @field_validator("*", mode="before")
    @classmethod
    def _text(cls, value: Any, info: ValidationInfo) -> Any:
        """Accept only UTF-8; other bytes are only valid in a path."""
        if isinstance(value, str) and info.field_name != "home":
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ValueError("is not UTF-8") from None
        return value

    @field_validator("retention_years", mode="before")
    @classmethod
    def _years(cls, value: Any) -> Any:
        """Accept `1 year` and `2 years`; a bare number may be meant as days, and would keep data for decades."""
        if isinstance(value, str):
            number, _, unit = value.strip().partition(" ")
            if unit.strip() not in {"year", "years"} or not (number.isdecimal() and 1 <= int(number) <= MAX_YEARS):
                raise ValueError(f"give whole years from 1 to {MAX_YEARS} with the unit, such as '1 year'")
            return number
        return value

    @field_validator("home")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        try:
            return value.expanduser().absolute()
        except RuntimeError:
            raise ValueError(f"begins with {value.parts[0]}, and that user has no home directory") from None

    @field_validator("qdrant_url")
    @classmethod
    def _qdrant_nodes(cls, value: str | None) -> str | None:
        addresses = _split_addresses(value)
        for address in addresses:
            check_http(address)
        if len(set(addresses)) < len(addresses):
            raise ValueError("names the same address twice")
        return ",".join(addresses) or None

    @field_validator("database_url")
    @classmethod
    def _postgres(cls, value: SecretStr | None) -> SecretStr | None:
        """Strip an address, since one read from a file ends in a line break, and check each of its hosts."""
        address = value and value.get_secret_value().strip()
        if not address:
            return value
        if not address.startswith(("postgresql://", "postgres://", "postgresql+asyncpg://")):
            raise ValueError("give a Postgres address, such as postgresql://user:password@host/database")
        before, at, place = address.partition("://")[2].rpartition("@")
        hosts, slash, path = place.partition("/")
        for host in hosts.split(","):
            check_port(f"postgresql://{before}{at}{host}{slash}{path}")
        return SecretStr(address)

    @field_validator(
        "embedding_base_url",
        "chat_base_url",
        "synthesis_base_url",
        "main_base_url",
        "reranker_base_url",
        "api_url",
        "webhook_url",
    )
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        return check_http(value)

    @field_validator(
        "qdrant_api_key",
        "embedding_api_key",
        "chat_api_key",
        "synthesis_api_key",
        "main_api_key",
        "reranker_api_key",
        "api_key",
    )
    @classmethod
    def _sendable_key(cls, value: SecretStr | None) -> SecretStr | None:
        """Check that a key can be sent in a header."""
        if value:
            _check_sendable(value.get_secret_value())
        return value

    @field_validator("api_key")
    @classmethod
    def _in_one_piece(cls, value: SecretStr | None) -> SecretStr | None:
        """Reject a space in our own key, where a server would stop reading it."""
        if value and " " in value.get_secret_value():
            raise ValueError("contains a space: is it a single key?")
        return value

    @field_validator(
        "qdrant_api_key",
        "embedding_api_key",
        "chat_api_key",
        "synthesis_api_key",
        "main_api_key",
        "reranker_api_key",
    )
    @classmethod
    def _ascii_key(cls, value: SecretStr | None) -> SecretStr | None:
        """Check that the key of another service is ASCII, as its client sends it."""
        if value:
            _check_ascii(value.get_secret_value())
        return value

    @field_validator("webhook_secret")
    @classmethod
    def _signing_secret(cls, value: SecretStr | None) -> SecretStr | None:
        """Check that a secret is one of Standard Webhooks."""
        if value:
            decode_webhook_secret(value.get_secret_value())
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
            raise ValueError(f"is not a JSON object of weights: {error}") from error

    @model_validator(mode="before")
    @classmethod
    def _apply_alias(cls, values: dict[str, Any]) -> dict[str, Any]:
        flag = os.environ.get("AI_ENABLE_DOCUMENTATION_QA_SUBAGENT", "").strip()
        return {"enable_documentation_qa_subagent": flag, **values} if flag else values

    def __init__(self, **values: Any) -> None:
        if "retention_years" in values:
            values["HARDWON_RETENTION"] = values.pop("retention_years")
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0]) if first["loc"] else "settings"
            variable = name if name.startswith("HARDWON_") else f"HARDWON_{name.upper()}"
            raise InvalidSetting(variable, describe_error(first, self._field(name))) from error

    @classmethod
    def _field(cls, name: str) -> FieldInfo | None:
        fields = cls.model_fields
        return fields.get(name) or next((each for each in fields.values() if each.alias == name), None)

    def to_environment(self) -> dict[str, str]:
        """Return the variables that give these settings, for a process of their own: also those that are unset here."""
        unset = {name: "" for name in os.environ if name.startswith("HARDWON_") and name not in _ALSO_READ}
        return unset | {
            type(self).model_fields[name].alias or f"HARDWON_{name.upper()}": _to_text(name, getattr(self, name))
            for name in self.model_fields_set
            if getattr(self, name) is not None
        }

    @property
    def fetch_from(self) -> tuple[str, ...]:
        """The addresses that may be fetched from."""
        return tuple(filter(None, (each.strip() for each in self.fetch.split(","))))

    @property
    def embedding_folder(self) -> Path | None:
        """The folder of a model that runs in this process, None without one."""
        if self.embedding_base_url is None and (self.embedding_model or "").startswith(FOLDER_SIGNS):
            return Path(self.embedding_model or "")
        return None

    @property
    def uses_local_model(self) -> bool:
        """True if texts are embedded in this process."""
        return self.uses_bundled_model or self.embedding_folder is not None

    @property
    def uses_bundled_model(self) -> bool:
        """True if texts are embedded by the bundled model in this process."""
        return self.embedding_model == BUNDLED_MODEL and self.embedding_base_url is None

    @property
    def has_embedded_postgres(self) -> bool:
        """True if Postgres is started from the data directory."""
        return self.database_url is None

    @property
    def qdrant_urls(self) -> tuple[str, ...]:
        """The addresses of the Qdrant server's nodes, none with the embedded engine."""
        return _split_addresses(self.qdrant_url)

    @property
    def has_embedded_index(self) -> bool:
        """True if the vector index is in the data directory, which one process at a time owns."""
        return self.qdrant_url is None


def _split_addresses(value: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in (value or "").split(","))))


_ALSO_READ = frozenset({"HARDWON_LOG_LEVEL", "HARDWON_PG_HOME", "HARDWON_POSTGRES_PASSWORD"})
"""Further variables: of the log, of the embedded Postgres, of compose.yaml."""


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
    """Return the unknown variables with the prefix HARDWON_, each with the most similar known one, if any."""
    fields = KnowledgeSettings.model_fields.items()
    known = {field.alias or f"HARDWON_{name.upper()}" for name, field in fields} | _ALSO_READ
    # as pydantic does, variables are read in any case
    ignored = known | _REMOVED.keys()
    candidates = (name for name in names if name.upper().startswith("HARDWON_") and name.upper() not in ignored)
    unknown = sorted(name for name in candidates if not name.upper().startswith("HARDWON_TEST_"))
    nearest = {name: difflib.get_close_matches(name.upper(), sorted(known), n=1, cutoff=0.8) for name in unknown}
    return {name: next(iter(found), None) for name, found in nearest.items()}
