"""A Qdrant server or cluster behind the official client: what it is, who is in it, and its errors as sentences."""

from __future__ import annotations

import asyncio
import math
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic_core import to_json
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from hardwon.client.http_environment import check_http_environment
from hardwon.errors import HardwonError, IndexUnavailable
from hardwon.event_log import get_logger
from knowledge.adapters.qdrant.cluster.error_translation import (
    CLIENT_ERRORS,
    has_lost_replicas,
    is_being_made,
    status_of,
    translate,
)
from knowledge.adapters.qdrant.cluster.layout import check_cluster, check_version, check_versions
from knowledge.adapters.qdrant.cluster.members import (
    Members,
    Replicas,
    find_problems,
    read_members,
    read_replicas,
)
from knowledge.adapters.qdrant.cluster.nodes import READ_SECONDS, WRITE_SECONDS, Node, Nodes

log = get_logger(__name__)

_LIMITS: Final = httpx.Limits(max_keepalive_connections=8, keepalive_expiry=3.0)
"""The client's own default opens a connection per request to a local server; servers drop idle ones after 5 s."""
_RETRIES: Final = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Waits in seconds, until the replicas of a new collection are made."""
_DIAGNOSIS_SECONDS: Final = 1.0
_CHECK_SECONDS: Final = 0.3
"""For what the nodes say of themselves at the start: a query may wait for it."""

_T = TypeVar("_T")
Search: TypeAlias = Mapping[str, object]
"""A query of a batch, by the names of the REST interface; models of the client stand for objects."""


class ClusterSession:
    """A client of one cluster, with the nodes that it sends to. `version`: of the server, None until it is checked."""

    def __init__(self, client: AsyncQdrantClient, nodes: Nodes | None = None, api_key: str | None = None) -> None:
        self.client = client
        self.nodes = nodes
        self.address = _address(client, nodes)
        self.version: str | None = None
        self._api_key = api_key

    async def check(self) -> None:
        """Check, once, the version of the server, and that all addresses are of one cluster."""
        if self.version is not None:
            return
        version = (await self.client.info()).version
        check_version(version, self.address)
        await self._check_nodes()
        self.version = version

    async def _check_nodes(self) -> None:
        """Raise InvalidSetting for addresses of different clusters or versions; those that are silent are left out."""
        if self.nodes is None or len(self.nodes.nodes) == 1:
            return
        found = await asyncio.gather(*(self._ask_node(node) for node in self.nodes.nodes))
        answered = {node.url: each for node, each in zip(self.nodes.nodes, found, strict=True) if each is not None}
        if answered:
            check_versions({url: version for url, (version, _) in answered.items()})
            check_cluster({url: peers for url, (_, peers) in answered.items() if peers is not None})

    async def _ask_node(self, node: Node) -> tuple[str, frozenset[int] | None] | None:
        """Return the version of a node and its peers, None for what it does not tell in time."""
        client = connect([node.url], self._api_key).client
        version: str | None = None
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                version = (await client.info()).version
                status = (await client.http.distributed_api.cluster_status()).result
            return version, frozenset(read_members(status).addresses) if status else frozenset()
        except (*CLIENT_ERRORS, TimeoutError) as exc:
            log.warning("index_node_not_checked", node=node.name, reason=type(exc).__name__)
            return None if version is None else (version, None)
        finally:
            await client.close()

    async def members(self) -> Members:
        """Return the members of the cluster; unknown where the key may not ask."""
        try:
            status = (await self.client.http.distributed_api.cluster_status()).result
        except CLIENT_ERRORS as exc:
            if status_of(exc) in {403, 404}:
                return Members(known=False)
            raise
        return Members() if status is None else read_members(status)

    async def replicas(self, name: str, members: Members, total: int | None = None) -> Replicas:
        """Return the replicas of a collection with `total` points; unknown where the key may not ask."""
        try:
            info = (await self.client.http.distributed_api.collection_cluster_info(name)).result
        except CLIENT_ERRORS as exc:
            if status_of(exc) in {403, 404}:
                return Replicas()
            raise
        assert info is not None  # noqa: S101 - a response without an error has a result
        return read_replicas(info, members, total)

    def check_completed(self, result: models.UpdateResult) -> None:
        if result.status != models.UpdateStatus.COMPLETED:
            raise IndexUnavailable(
                f"Qdrant at {self.address} took a change but did not make it in time ({result.status.value}); "
                "try again."
            )

    @asynccontextmanager
    async def translate_errors(self, name: str | None = None) -> AsyncIterator[None]:
        try:
            yield
        except HardwonError:
            raise
        except CLIENT_ERRORS as exc:
            lost = await self._describe_lost(name) if name and has_lost_replicas(exc) else None
            raise translate(exc, self.address, lost=lost) from exc

    async def _describe_lost(self, name: str) -> str | None:
        """Return a sentence about the replicas that a request needed, None where nobody can tell."""
        try:
            async with asyncio.timeout(_DIAGNOSIS_SECONDS):
                members = await self.members()
                replicas = await self.replicas(name, members)
        except (*CLIENT_ERRORS, TimeoutError):
            return None
        problems = find_problems(name, members, replicas)
        return f"cannot do it: {'; '.join(problems)}; then try again." if problems else None

    async def query(self, name: str, searches: Sequence[Search]) -> list[list[tuple[str, float]]]:
        """Return the ids and scores of the points that each of a batch of searches finds, best first.

        The client's typed method copies and validates each number of each vector, and each hit: 5 of 8 ms of CPU a
        search (measured).
        """
        content = to_json({"searches": searches}, exclude_none=True)

        async def ask() -> Any:
            return await self.client.http.client.request(
                type_=Any,
                method="POST",
                url="/collections/{collection_name}/points/query/batch",
                path_params={"collection_name": name},
                headers={"Content-Type": "application/json"},
                content=content,
            )

        async with self.translate_errors(name):
            return _read_scores(await retry(ask))

    async def wait_until_consistent(self) -> None:
        """Wait until each node that came back has what it missed meanwhile."""
        if self.nodes is not None:
            await self.nodes.wait_until_consistent()

    async def aclose(self) -> None:
        """Close the client."""
        async with self.translate_errors():
            if self.nodes is not None:
                await self.nodes.aclose()
            await self.client.close()


def connect(urls: Sequence[str], api_key: str | None = None, *, timeout_seconds: float | None = None) -> ClusterSession:
    """Return a session with the cluster whose nodes are at `urls` (ports: `with_port`). Nothing is sent yet.

    `timeout_seconds`: for each response, instead of `READ_SECONDS` and `WRITE_SECONDS`.
    """
    check_http_environment()
    nodes = Nodes.of(urls, timeout_seconds)
    with warnings.catch_warnings():
        # A key over http is usual inside a compose network; a warning at each start helps nobody.
        warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
        client = AsyncQdrantClient(
            url=urlsplit(nodes.nodes[0].url)._replace(path="").geturl(),
            api_key=api_key,
            timeout=math.ceil(max(READ_SECONDS, WRITE_SECONDS)),
            check_compatibility=False,  # it prints a warning from a thread
            limits=_LIMITS,
            headers={"Accept-Encoding": "identity"},
        )
    client.http.client.add_middleware(nodes.send)
    return ClusterSession(client, nodes, api_key)


async def retry(ask: Callable[[], Awaitable[_T]]) -> _T:
    """Return what a request returns, repeated while the replicas of its collection are being made."""
    for wait in _RETRIES:
        try:
            return await ask()
        except UnexpectedResponse as exc:
            if not is_being_made(exc):
                raise
            await asyncio.sleep(wait)
    return await ask()


def _read_scores(response: Any) -> list[list[tuple[str, float]]]:
    """Read the ids and scores of a batch. Raises ValueError for what is not a response of the server."""
    try:
        return [[(str(hit["id"]), float(hit["score"])) for hit in page["points"]] for page in response["result"]]
    except (KeyError, TypeError) as error:
        raise ValueError("its response to a search has no points") from error


def _address(client: AsyncQdrantClient, nodes: Nodes | None) -> str:
    """Return the addresses of a client's server, without a password."""
    if nodes is not None:
        return ", ".join(_hide_password(node.url) for node in nodes.nodes)
    options = client.init_options
    address = options.get("url") or options.get("location") or options.get("path") or options.get("host") or "localhost"
    return _hide_password(str(address))


def _hide_password(address: str) -> str:
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
