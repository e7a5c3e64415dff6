"""Everything hardwon raises on purpose.

HardwonError
├── InvalidInput                 the caller's text, name or number is wrong; names the field
│   └── InvalidSetting           an environment variable or setting is wrong; names the variable
├── NotFound                     no such entry, pattern, context or checkpoint in this workspace
├── Conflict                     the request contradicts what is stored
│   ├── IdempotencyConflict      the same idempotency key with another body
│   ├── NotOpen                  a resolution for an entry that is not open
│   ├── LocalOnly                a text of a workspace that is local only would have gone to an endpoint
│   ├── RejectionOnRecord        a first-attempt approval where a rejection is on record
│   └── SpaceSwitched            another embedding space came into use in the middle of something
├── Unavailable                  a part we depend on does not answer; the same call may work later
│   ├── StorageUnavailable       Postgres
│   │   └── StorageBusy          Postgres answers, but not in time for all that this process asks of it
│   ├── IndexUnavailable         Qdrant, server or embedded engine
│   ├── EmbedderUnavailable      the embedding endpoint
│   ├── ChatUnavailable          the chat endpoint
│   ├── SourceUnavailable        a repository that documents are fetched from
│   ├── OwnerUnavailable         the process that owns the data directory, or the hardwon server
│   ├── Overloaded               the hardwon server has as much to do as it can hold; nothing was done
│   ├── BudgetSpent              the workspace has sent to endpoints what it may a day
│   └── TookTooLong              a piece of work did not end in its time; others may in theirs
├── StorageRejected              Postgres refuses to store this, whenever it is asked
├── EmbedderRejected             the embedding endpoint refuses for good: a wrong key, model or setting
│   └── TextRejected             it refuses this very text
├── ChatRejected                 the chat endpoint refuses for good: a wrong key, model or setting
│   └── QuestionRejected         it refuses this very question, or leaves it without an answer
├── AccessDenied                 a key is missing, wrong, or not allowed to do this
│   └── NoAccess                 the principal may not read or change these documents; a PermissionError too
├── StoreInUse                   another process owns the data directory; names it
├── StoreIncompatible            the data directory or schema was made by something we cannot open
└── SpaceMismatch                stored vectors come from another embedding model; names the command to run
    └── ModelReplaced            the endpoint answers with another model than before, under the same name
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
    """A workspace is local only, and what was asked would send its texts to an endpoint."""

    def __init__(self, workspace: str, what: str) -> None:
        super().__init__(
            f"workspace {workspace} is local only, and {what} would send its texts to an endpoint: use the bundled"
            " model (hardwon reembed --model all-MiniLM-L6-v2), or allow it (hardwon workspace local-only"
            f" {workspace} off)"
        )


class RejectionOnRecord(Conflict):
    """A gate approval is not a first attempt: a rejection is on record for the same project, gate and task."""


class SpaceSwitched(Conflict):
    """Another embedding space came into use in the middle of something: what was noted down stays so."""


class Unavailable(HardwonError):
    """Something hardwon depends on does not answer; the same call may work later, and when, where that is known."""

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class StorageUnavailable(Unavailable):
    """Postgres cannot be reached or started."""


class StorageBusy(StorageUnavailable):
    """Postgres answers, but not in time for all that this process asks of it; what was asked may be half done."""


class IndexUnavailable(Unavailable):
    """The vector index, a Qdrant server or the embedded engine, does not answer or refuses to work."""


class EmbedderUnavailable(Unavailable):
    """The embedding endpoint does not answer, or answers with something that is not embeddings."""


class ChatUnavailable(Unavailable):
    """The chat endpoint does not answer, or answers with something that is no answer."""


class SourceUnavailable(Unavailable):
    """A repository cannot be fetched: it is not there, refuses us, or does not answer."""


class OwnerUnavailable(Unavailable):
    """The hardwon process that owns the stores, or the configured hardwon server, does not answer."""


class Overloaded(Unavailable):
    """A hardwon server has as much to do as it can hold; nothing of this was done."""


class BudgetSpent(Unavailable):
    """A workspace has spent the tokens that it may send to endpoints a day; nothing of this was sent."""


class TookTooLong(Unavailable):
    """A piece of work did not end in the time it had: what was done by then stays done. Others may end in theirs."""


class StorageRejected(HardwonError):
    """Postgres does not take what was worked out, and will not the next time: a constraint or a trigger forbids it."""


class EmbedderRejected(HardwonError):
    """The embedding endpoint refuses for good, whatever the text: a wrong key, model or setting, a spent quota."""


class TextRejected(EmbedderRejected):
    """The embedding endpoint refuses this very text; another one it may take."""


class ChatRejected(HardwonError):
    """The chat endpoint refuses for good, whatever it is asked: a wrong key, model or setting, a spent quota."""


class QuestionRejected(ChatRejected):
    """The chat endpoint refuses this very question, or gives it no whole answer; another one it may take."""


class AccessDenied(HardwonError):
    """A key is missing or wrong, or does not allow this operation."""


class NoAccess(AccessDenied, PermissionError):
    """A principal may not do this in a scope. Also a PermissionError, as the callers of tools expect one."""


class StoreInUse(HardwonError):
    """Another process owns the data directory."""


class StoreIncompatible(HardwonError):
    """The data directory or the database schema was made by a version this one cannot open."""


LOCAL_PROVIDER = "local"
"""The provider of spaces that are embedded in process."""
BUNDLED_MODEL = "all-MiniLM-L6-v2"
"""What the bundled model of that provider is called; others are called as their folders."""
ENDPOINT_PROVIDER = "openai"
"""The provider of spaces that are embedded by an endpoint that speaks OpenAI's protocol."""
UNVERSIONED = "unversioned"
"""The revision of a model whose endpoint tells none, and of which nobody said one."""


class SpaceMismatch(HardwonError):
    """The stored vectors come from another embedding model than the configured one."""


class ModelReplaced(SpaceMismatch):
    """An endpoint embeds the texts it was known by otherwise than before: another model goes by the same name.

    Over HTTP it is told as a SpaceMismatch, which every client knows.
    """


def reason_of(error: BaseException) -> str:
    """Return what a log may hold of an error: its sentence, or its name where that may quote a text.

    An endpoint that refuses a text tells why in its own words, and so does what is not ours.
    """
    ours = isinstance(error, HardwonError) and not isinstance(error, TextRejected | QuestionRejected)
    return str(error) or type(error).__name__ if ours else type(error).__name__
