"""All errors that hardwon raises on purpose.

HardwonError
├── InvalidInput                 a value from the caller is wrong; names the field
│   └── InvalidSetting           an environment variable or setting is wrong; names the variable
├── NotFound                     no such entry, pattern, context or checkpoint in this workspace
├── Conflict                     the request contradicts what is stored
│   ├── IdempotencyConflict      the same idempotency key with another body
│   ├── NotOpen                  a resolution for an entry that is not open
│   ├── LocalOnly                a text of a local-only workspace would have been sent to an endpoint
│   ├── RejectionOnRecord        a first-attempt approval where a rejection is on record
│   └── SpaceSwitched            the embedding space was switched during the operation
├── Unavailable                  a dependency does not answer; retrying later may work
│   ├── StorageUnavailable       Postgres
│   │   └── StorageBusy          Postgres answers too slowly for the load of this process
│   ├── IndexUnavailable         Qdrant, server or embedded engine
│   ├── EmbedderUnavailable      the embedding endpoint
│   ├── ChatUnavailable          the chat endpoint
│   ├── RerankerUnavailable      the model that ranks what was found; answers do without it
│   ├── SourceUnavailable        a repository that documents are fetched from
│   ├── WebhookUnavailable       the receiver of webhooks
│   ├── OwnerUnavailable         the process that owns the data directory, or the hardwon server
│   ├── Overloaded               the hardwon server is at its limit; nothing was done
│   ├── BudgetSpent              the workspace has used up its tokens of the day
│   └── TookTooLong              an operation exceeded its time limit
├── StoreAltered                rows of the store are not as hardwon stored them
├── StorageRejected              Postgres rejects the data permanently
├── EmbedderRejected             the embedding endpoint rejects all requests: a wrong key, model or setting
│   └── TextRejected             it rejects this text
├── ChatRejected                 the chat endpoint rejects all requests: a wrong key, model or setting
│   └── QuestionRejected         it rejects this question, or leaves it without an answer
├── AccessDenied                 a key is missing, wrong, or not allowed to do this
│   └── NoAccess                 the principal may not read or change these documents; a PermissionError too
├── StoreInUse                   another process owns the data directory; names it
├── StoreIncompatible            the data directory or schema is of a version that this one cannot open
└── SpaceMismatch                stored vectors come from another embedding model; names the command to run
    └── ModelReplaced            the endpoint serves another model than before under the same name
"""

from __future__ import annotations


class HardwonError(Exception):
    """Base of every error hardwon raises on purpose; its text is one sentence for a person."""


class InvalidInput(HardwonError):
    """A value from outside is wrong. `field` is the name the caller used for it."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class InvalidSetting(InvalidInput):
    """A setting is wrong. `field` is the environment variable."""


class NotFound(HardwonError):
    """Nothing with this id exists in this workspace."""


class Conflict(HardwonError):
    """The request contradicts what is stored; repeating it will not help."""


class IdempotencyConflict(Conflict):
    """The idempotency key was used before with another body."""


class NotOpen(Conflict):
    """The entry is not open, so it cannot be resolved."""


class LocalOnly(Conflict):
    """The workspace is local only, and the request would send its texts to an endpoint."""

    def __init__(self, workspace: str, what: str) -> None:
        super().__init__(
            f"workspace {workspace} is local only, and {what} would send its texts to an endpoint: use the bundled"
            " model (hardwon reembed --model all-MiniLM-L6-v2), or allow it (hardwon workspace local-only"
            f" {workspace} off)"
        )


class RejectionOnRecord(Conflict):
    """The gate approval is not a first attempt: a rejection is on record for the same project, gate and task."""


class SpaceSwitched(Conflict):
    """The embedding space was switched during the operation; what was stored until then stays."""


class Unavailable(HardwonError):
    """A dependency does not answer; retrying later may work. `retry_after_seconds`: when, where that is known."""

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class StorageUnavailable(Unavailable):
    """Postgres cannot be reached or started."""


class StorageBusy(StorageUnavailable):
    """Postgres answers too slowly for the load of this process; the operation may be half done."""


class IndexUnavailable(Unavailable):
    """The vector index (a Qdrant server or the embedded engine) does not answer or fails."""


class EmbedderUnavailable(Unavailable):
    """The embedding endpoint does not answer, or answers with something that is not embeddings."""


class ChatUnavailable(Unavailable):
    """The chat endpoint does not answer, or answers with something that is not an answer."""


class RerankerUnavailable(Unavailable):
    """The model that ranks what was found does not answer."""


class SourceUnavailable(Unavailable):
    """The repository cannot be fetched: it does not exist, denies access, or does not answer."""


class WebhookUnavailable(Unavailable):
    """The receiver of webhooks does not answer, or refuses them."""


class OwnerUnavailable(Unavailable):
    """The hardwon process that owns the stores, or the configured hardwon server, does not answer."""


class Overloaded(Unavailable):
    """The hardwon server is at its limit; nothing was done."""


class BudgetSpent(Unavailable):
    """The workspace has used up its daily quota of tokens; nothing was sent."""


class TookTooLong(Unavailable):
    """The operation exceeded its time limit; what was done by then stays done."""


class StorageRejected(HardwonError):
    """Postgres rejects the data permanently: a constraint or a trigger forbids it. Retrying does not help."""


class StoreAltered(HardwonError):
    """Rows of the store were changed, removed or put back by other means than hardwon's; names them."""


class EmbedderRejected(HardwonError):
    """The embedding endpoint rejects all requests: a wrong key, model or setting, or an exceeded quota."""


class TextRejected(EmbedderRejected):
    """The embedding endpoint rejects this text; it may accept others."""


class ChatRejected(HardwonError):
    """The chat endpoint rejects all requests: a wrong key, model or setting, or an exceeded quota."""


class QuestionRejected(ChatRejected):
    """The chat endpoint rejects this question or answers it incompletely; it may answer others."""


class AccessDenied(HardwonError):
    """The key is missing or wrong, or does not allow this operation."""


class NoAccess(AccessDenied, PermissionError):
    """The principal may not do this in the scope. Also a PermissionError, which callers of tools expect."""


class StoreInUse(HardwonError):
    """Another process owns the data directory."""


class StoreIncompatible(HardwonError):
    """The data directory or the database schema was made by a version this one cannot open."""


LOCAL_PROVIDER = "local"
"""Provider of spaces that are embedded in process."""
BUNDLED_MODEL = "all-MiniLM-L6-v2"
"""Name of that provider's bundled model; other models are named by their folders."""
ENDPOINT_PROVIDER = "openai"
"""Provider of spaces that are embedded by an OpenAI-compatible endpoint."""
UNVERSIONED = "unversioned"
"""Revision of a model where neither the endpoint nor the settings give one."""


class SpaceMismatch(HardwonError):
    """The stored vectors come from another embedding model than the configured one."""


class ModelReplaced(SpaceMismatch):
    """The endpoint serves another model than before under the same name: its test texts have other vectors.

    Over HTTP it is reported as SpaceMismatch, which every client knows.
    """


def reason_of(error: BaseException) -> str:
    """Return what may be logged of an error: its message, or only its class name where the message may quote a text.

    Messages of endpoints that reject a text may quote it, and so may errors that are not ours.
    """
    ours = isinstance(error, HardwonError) and not isinstance(error, TextRejected | QuestionRejected)
    return str(error) or type(error).__name__ if ours else type(error).__name__
