"""The collections of a store on a Qdrant server: creation, checks, layout and health."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse

from hardwon.errors import StoreIncompatible
from hardwon.event_log import get_logger
from hardwon.models.maintenance import IndexHealth
from knowledge.adapters.qdrant import payloads as shape
from knowledge.adapters.qdrant.cluster.layout import GRAPH, Layout, check_collection, has_graph
from knowledge.adapters.qdrant.cluster.members import advise, describe_collection, find_problems
from knowledge.adapters.qdrant.cluster.session import ClusterSession, retry
from knowledge.adapters.qdrant.payloads import Ownership
from knowledge.models import EmbeddingSpace

log = get_logger(__name__)

_STORE: Final = "hardwon_store"
"""The metadata key of a collection with the identifier of its store."""
_GRAPH_CHANGED: Final = "hardwon_graph_changed"
"""The metadata key with the time at which the graph of a collection was changed, which the server then rebuilds."""
_GRAPH_STARTS: Final = timedelta(seconds=15)
"""Time within which a server begins to rebuild a graph; until then it calls the collection green."""
_LOOK_AGAIN_SECONDS: Final = 5.0

IndexParams: TypeAlias = models.KeywordIndexParams | models.DatetimeIndexParams | models.IntegerIndexParams


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A collection as last inspected, at `looked_at`. `by_graph`: a search by its graph is whole."""

    by_graph: bool
    looked_at: float


class Collections:
    """The collections of one store, one per embedding space and layout.

    Each method raises StoreIncompatible for a collection of another store: two would delete each other's points.
    """

    def __init__(self, session: ClusterSession, ownership: Ownership, layout: Layout) -> None:
        self._session = session
        self._client = session.client
        self._ownership = ownership
        self._layout = layout
        self._alias = ownership.prefix + shape.ALIAS
        self._known: dict[str, _Known] = {}

    def name(self, space: EmbeddingSpace) -> str:
        """Return the name of a space's collection."""
        return self._ownership.prefix + shape.collection_name(space)

    async def find(self, space: EmbeddingSpace) -> str:
        """Return the name of a space's collection; inspect it, once, if it exists."""
        name = self.name(space)
        if name not in self._known:
            async with self._session.translate_errors(name):
                await self._session.check()
                if await self._client.collection_exists(name):
                    found = await retry(lambda: self._client.get_collection(name))
                    check_collection(found, name, self._session.address, space)
                    await self._check_owner(name, found)
                    self._note(name, found)
        return name

    async def make(self, space: EmbeddingSpace, indexes: Mapping[str, IndexParams], *, in_use: bool) -> None:
        """Create the collection of a space with its payload indexes, as far as absent; check one that is there."""
        name = self.name(space)
        async with self._session.translate_errors(name):
            await self._session.check()
            await retry(lambda: self._create_if_absent(name, space))
            found = await retry(lambda: self._client.get_collection(name))
            check_collection(found, name, self._session.address, space)
            await self._check_owner(name, found)
            await self._build_graph(name, found)
            await self._create_indexes(name, found, indexes)
            if in_use:
                await self._set_alias(name)

    async def exists(self, name: str) -> bool:
        """Return whether there is a collection of this name."""
        async with self._session.translate_errors(name):
            return await self._client.collection_exists(name)

    async def drop(self, name: str) -> None:
        """Delete a collection, if there is one."""
        async with self._session.translate_errors(name):
            if await self._client.collection_exists(name):
                await self._client.delete_collection(name)
            self._known.pop(name, None)

    async def params(self, name: str) -> models.SearchParams:
        """Return the parameters of a search by sense: exact until the graph of a collection is built."""
        known = self._known.get(name)
        if (
            known is not None
            and not known.by_graph
            and asyncio.get_running_loop().time() - known.looked_at > _LOOK_AGAIN_SECONDS
        ):
            async with self._session.translate_errors(name):
                known = self._note(name, await self._client.get_collection(name))
        return self.params_of(exact=known is not None and not known.by_graph)

    def params_of(self, *, exact: bool) -> models.SearchParams:
        """Return the parameters of a search by sense."""
        return self._layout.search_params(exact=exact)

    async def layout_differences(self, space: EmbeddingSpace) -> list[str]:
        name = self.name(space)
        async with self._session.translate_errors(name):
            await self._session.check()
            if not await self._client.collection_exists(name):
                return []
            found = await self._client.get_collection(name)
            return self._layout.differences(found, (await self._session.members()).nodes_or_none)

    async def is_built(self, space: EmbeddingSpace) -> bool:
        name = self.name(space)
        async with self._session.translate_errors(name):
            if not await self._client.collection_exists(name):
                return True
            return (await self._client.get_collection(name)).status == models.CollectionStatus.GREEN

    async def health(self, space: EmbeddingSpace) -> IndexHealth:
        name = self.name(space)
        async with self._session.translate_errors(name):
            await self._session.check()
            members = await self._session.members()
            if not await self._client.collection_exists(name):
                return IndexHealth(version=self._session.version, nodes=members.nodes_or_none)
            found = await self._client.get_collection(name)
            differs = self._layout.differences(found, members.nodes_or_none)
            replicas = await self._session.replicas(name, members, found.points_count)
        state = describe_collection(name, found, replicas, differs)
        down = tuple(node.name for node in self._session.nodes.nodes if not node.up) if self._session.nodes else ()
        problems = [f"the node {address} does not answer: start it" for address in (*members.dead_addresses, *down)]
        return IndexHealth(
            version=self._session.version,
            nodes=members.nodes_or_none,
            dead_nodes=(*members.dead_addresses, *down),
            collections=(state,),
            problems=(*problems, *find_problems(name, members, replicas)),
            advice=tuple(advise(members, state)),
        )

    def _note(self, name: str, found: models.CollectionInfo) -> _Known:
        self._known[name] = known = _Known(
            by_graph=_is_whole(found, datetime.now(UTC)), looked_at=asyncio.get_running_loop().time()
        )
        return known

    async def _create_indexes(
        self, name: str, found: models.CollectionInfo, indexes: Mapping[str, IndexParams]
    ) -> None:
        """Create the payload indexes that a collection lacks."""
        for field, schema in indexes.items():
            if field not in found.payload_schema:
                self._session.check_completed(await self._create_index(name, field, schema))

    async def _create_index(self, name: str, field: str, schema: IndexParams) -> models.UpdateResult:
        return await retry(lambda: self._client.create_payload_index(name, field, schema, wait=True))

    async def _check_owner(self, name: str, found: models.CollectionInfo) -> None:
        """Raise StoreIncompatible for a collection of another store; claim one without an owner."""
        await self._refuse_alias(name)
        ours = self._ownership.store
        if ours is None:
            return
        metadata = found.config.metadata or {}
        if metadata.get(_STORE, ours) != ours:
            raise StoreIncompatible(
                f"The collection {name} at {self._session.address} is another database's, and two that share one"
                " delete each other's points: set HARDWON_QDRANT_PREFIX to a word of this one's own. If the database"
                " moved here and the one before is gone, delete that collection and hardwon's other one there"
                " (hardwon_... and hardwon_documents_...), and run `hardwon rebuild`."
            )
        if _STORE not in metadata:
            await self._change(name, metadata={**metadata, _STORE: ours})

    async def _refuse_alias(self, name: str) -> None:
        """Raise StoreIncompatible where our name is an alias: what is written would go to the collection behind it."""
        try:
            behind = {alias.alias_name: alias.collection_name for alias in (await self._client.get_aliases()).aliases}
        except UnexpectedResponse as exc:
            if exc.status_code != 403:
                raise
            return
        if name in behind:
            raise StoreIncompatible(
                f"{name} at {self._session.address} is an alias of {behind[name]}, which is not hardwon's: remove"
                " the alias, or set HARDWON_QDRANT_PREFIX to a word of this store's own"
            )

    async def _create_if_absent(self, name: str, space: EmbeddingSpace) -> None:
        if await self._client.collection_exists(name):
            return
        members = await self._session.members()
        replicas = self._layout.replicas(members.nodes_or_none)
        try:
            await self._client.create_collection(
                name,
                vectors_config=self._layout.vectors(space),
                # No idf modifier: the query's weights carry the idf, the score must be the plain dot product.
                sparse_vectors_config={shape.LEXICAL: models.SparseVectorParams()},
                hnsw_config=self._layout.graph(),
                shard_number=self._layout.shards,
                replication_factor=replicas,
                # With more, every write fails while a replica is down, and the replica keeps what it lacks for good.
                write_consistency_factor=None if replicas is None else 1,
                quantization_config=self._layout.quantized(),
                metadata=None if self._ownership.store is None else {_STORE: self._ownership.store},
            )
        except (UnexpectedResponse, ValueError):
            # Another process was faster, and each server version reports that in its own words.
            if not await self._client.collection_exists(name):
                raise

    async def _build_graph(self, name: str, found: models.CollectionInfo) -> None:
        """Give a collection of an earlier version the graph that it lacks; it is searched exactly until it has it."""
        metadata = dict(found.config.metadata or {})
        if not has_graph(found):
            metadata[_GRAPH_CHANGED] = datetime.now(UTC).isoformat()
            await self._change(name, metadata=metadata, graph=GRAPH)
            found = await self._client.get_collection(name)
        self._note(name, found)

    async def _change(
        self, name: str, *, metadata: dict[str, object], graph: models.HnswConfigDiff | None = None
    ) -> None:
        """Change a collection; leave it as it is where the key is limited to its points."""
        try:
            await self._client.update_collection(name, hnsw_config=graph, metadata=metadata)
        except UnexpectedResponse as exc:
            if exc.status_code != 403:
                raise
            log.warning("index_collection_not_changed", collection=name, reason="the key may not")
        else:
            log.info("index_collection_changed", collection=name)

    async def _set_alias(self, name: str) -> None:
        """Point the alias at a collection, for people who look; a key limited to collections may not, and need not."""
        try:
            known = {alias.alias_name: alias.collection_name for alias in (await self._client.get_aliases()).aliases}
            if known.get(self._alias) == name:
                return
            create = models.CreateAliasOperation(
                create_alias=models.CreateAlias(collection_name=name, alias_name=self._alias)
            )
            delete = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=self._alias))
            # One request, so that there is no moment without the alias.
            await self._client.update_collection_aliases([delete, create] if self._alias in known else [create])
        except UnexpectedResponse as exc:
            if exc.status_code != 403:
                raise
            log.info("index_alias_not_set", alias=self._alias)


def _is_whole(found: models.CollectionInfo, now: datetime) -> bool:
    """Return whether a search by the graph of a collection finds everything: a changed one is rebuilt first."""
    changed = (found.config.metadata or {}).get(_GRAPH_CHANGED)
    if not has_graph(found):
        return False
    if not isinstance(changed, str):
        return True
    is_begun = now - datetime.fromisoformat(changed) > _GRAPH_STARTS
    return is_begun and found.status == models.CollectionStatus.GREEN
