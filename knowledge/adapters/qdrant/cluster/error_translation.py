"""Errors of a Qdrant server and its client as sentences: what is wrong where, and what to do. Never a server's JSON."""

from __future__ import annotations

import json
import re
from typing import Final

import httpx
from grpc import RpcError  # type: ignore[import-untyped]
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from hardwon.errors import HardwonError, IndexUnavailable, StoreIncompatible

CLIENT_ERRORS: Final = (
    ApiException,
    QdrantException,
    httpx.HTTPError,
    httpx.InvalidURL,
    RpcError,
    OSError,
    # Raised by the client's own checks.
    ValueError,
    KeyError,
    RuntimeError,
    AssertionError,
)

_BEING_MADE: Final = re.compile(r"\b0 of 0 read operations failed|Collection `[^`]*` (?:is|was) being created")
_TOO_LARGE: Final = re.compile(r"payload \((\d+) bytes\) is larger than allowed \(limit: (\d+) bytes\)")
_OVER_LIMIT: Final = re.compile(r'Limit exceeded (\d+) > (\d+) for "([^"]+)"')
_NO_INDEX: Final = re.compile(r'Index required but not found for "([^"]+)"')
_LOST_SHARDS: Final = re.compile(r"operations failed|shards failed to apply|No active replicas|service is currently")
_CONSENSUS: Final = re.compile(r"(?i)consensus")
_SHAPE: Final = re.compile(r"Vector dimension error|Not existing vector name|Vector with name")
_CAUSE: Final = re.compile(r"^(?:Service internal error|Wrong input|Bad request|Not found|Forbidden): ")
_MB: Final = 1_048_576


def status_of(exc: Exception) -> int | None:
    """Return the HTTP status of a response, or the one that corresponds to a gRPC code."""
    if isinstance(exc, UnexpectedResponse):
        return exc.status_code
    code = getattr(exc, "code", None)
    if isinstance(exc, RpcError) and callable(code):
        return {"UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "NOT_FOUND": 404}.get(code().name)
    return None


def is_being_made(exc: Exception) -> bool:
    """Return whether a request failed because the replicas of a collection are being made: a repeat helps."""
    return status_of(exc) in {404, 500} and bool(_BEING_MADE.search(message_of(exc)))


def has_lost_replicas(exc: Exception) -> bool:
    """Return whether a request failed because replicas do not answer."""
    return (status_of(exc) or 0) >= 500 and bool(_LOST_SHARDS.search(message_of(exc)))


def message_of(exc: Exception) -> str:
    """Return what the server said, without JSON around it, on one line."""
    text = str(exc)
    if isinstance(exc, UnexpectedResponse):
        text = exc.content.decode(errors="replace")
        try:
            told = json.loads(text)
            text = str(told["status"]["error"])
        except (ValueError, KeyError, TypeError):
            pass
    return " ".join(text.split())


def translate(exc: Exception, address: str, *, lost: str | None = None) -> HardwonError:
    """Return the error of hardwon for one of the client; `lost`: a sentence about replicas that do not answer."""
    status, said, qdrant = status_of(exc), message_of(exc), f"Qdrant at {address}"
    if status is not None and status < 500 and (refused := _refused(said, qdrant)):
        return refused
    match status:
        case None if isinstance(exc, ResourceExhaustedResponse):
            problem = f"asks to wait {exc.retry_after_s} s."
        case None:
            problem = f"{_unreachable(exc)}."
        case 401:
            problem = "refuses the key (401): set HARDWON_QDRANT_API_KEY to one that it knows."
        case 403:
            problem = _forbidden(said)
        case 404:
            problem = "lacks the collection; run `hardwon rebuild`."
        case _ if status >= 500:
            problem = lost or _failed(said, status)
        case _:
            problem = f"answered {status}: {_first_cause(said)}."
    return IndexUnavailable(f"{qdrant} {problem}")


def _forbidden(said: str) -> str:
    if "Global" in said or "Manage" in said:
        return (
            "does not let this key create or change collections (403): it may only read, or only use some. Set"
            " HARDWON_QDRANT_API_KEY to the server's own key for the first checkpoint and for `hardwon rebuild`; after"
            " that one that may read and write hardwon's collections is enough."
        )
    return "refuses the key (403): set HARDWON_QDRANT_API_KEY to one that may write; this one may only read."


def _refused(said: str, qdrant: str) -> HardwonError | None:
    """Return the error for a request that this server never accepts, None for any other."""
    if found := _TOO_LARGE.search(said):
        needed, allowed = (int(number) / _MB for number in found.groups())
        return StoreIncompatible(
            f"{qdrant} accepts requests of up to {allowed:.3g} MB, and a batch of points took {needed:.3g}: set its"
            " service.max_request_size_mb (QDRANT__SERVICE__MAX_REQUEST_SIZE_MB) to 32, as it is by default"
        )
    if found := _OVER_LIMIT.search(said):
        return StoreIncompatible(
            f"{qdrant} allows {found[2]} for {found[3]} in strict mode, and hardwon asked for {found[1]}: raise it in"
            " the collection's strict_mode_config, or turn strict mode off"
        )
    if found := _NO_INDEX.search(said):
        return StoreIncompatible(
            f"{qdrant} lacks the payload index {found[1]}, which its strict mode requires: run `hardwon rebuild`"
        )
    if _SHAPE.search(said):
        return StoreIncompatible(
            f"{qdrant} has a collection of our name with other vectors ({_first_cause(said)}): delete it and run"
            " `hardwon rebuild`, or set HARDWON_QDRANT_PREFIX"
        )
    return None


def _failed(said: str, status: int) -> str:
    if _CONSENSUS.search(said):
        return (
            f"could not agree on a change with the other nodes of its cluster ({status}): most of them must be alive."
            " `hardwon doctor` says which are not; start them, then try again."
        )
    if _LOST_SHARDS.search(said):
        return (
            f"cannot reach a live replica of every shard ({status}): a node is down. `hardwon doctor` says which;"
            " start it, then try again."
        )
    return f"answered {status}: {_first_cause(said) or 'no reason given'}."


def _first_cause(said: str) -> str:
    """Return the first clause of a server's message, without the names of its inner errors."""
    text = said
    while (bare := _CAUSE.sub("", text)) != text:
        text = bare
    return re.split(r"(?:, source:|\. Help:|; source)", text)[0][:160].rstrip(" .")


def _unreachable(exc: Exception) -> str:
    source = exc.source if isinstance(exc, ResponseHandlingException) else exc
    if isinstance(source, httpx.TimeoutException):
        return "did not answer in time"
    if isinstance(source, httpx.HTTPError | OSError):
        problem = " ".join(str(source).split())[:200] or type(source).__name__
        return f"cannot be reached ({problem}): start it, or set HARDWON_QDRANT_URL"
    return f"refused to work: {' '.join(str(source).split())[:200].rstrip('.') or type(source).__name__}"
