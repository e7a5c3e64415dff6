"""The layout of a collection on a Qdrant server: graph, shards, replicas, quantization, what lies on disk.

A graph over all points (m) carries a search under several conditions, together with ACORN; the graphs of each tenant
(payload_m) make one within a workspace fast. Without the former a filtered search starts at a point that fails the
filter, and finds nothing (docs/performance.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

from qdrant_client import models

from hardwon.errors import InvalidSetting, StoreIncompatible
from knowledge.adapters.qdrant import payloads as shape
from knowledge.models import EmbeddingSpace

GRAPH: Final = models.HnswConfigDiff(m=16, payload_m=16)
OLDEST_SERVER: Final = (1, 16)
"""The first version that knows ACORN and the metadata of a collection."""
PAGE: Final = 256
"""Points a scroll, a request to write, or a condition on ids holds at most."""
QUERY_BATCH: Final = 64
"""Vectors per nearest-neighbour request."""

_EF: Final = 160
"""Candidates of a search by graph. Recall at 10 in the worst of 8 filters among 30,000 points, over several builds:
.975 to .985 with the server's own 100, .978 to .993 with 128, .99 to .997 with 160 for a fifth more CPU than with 100.
"""

_LIMITS: Final = {
    "max_query_limit": PAGE,
    "upsert_max_batchsize": PAGE,
    "search_max_batchsize": QUERY_BATCH,
    "filter_max_conditions": 16,
    "condition_max_size": PAGE,
    "search_max_hnsw_ef": _EF,
}
"""The least limits of strict mode that the requests of this package keep to."""


class Quantization(StrEnum):
    """Compression of the vectors that a search compares; the hits are scored by the whole ones."""

    NONE = "none"
    INT8 = "int8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The layout that the settings ask for; None: the server's own default.

    `replication` None: 2 where there are two nodes or more.
    """

    replication: int | None = None
    shards: int | None = None
    quantization: Quantization = Quantization.NONE
    on_disk: bool = False

    def replicas(self, nodes: int | None) -> int | None:
        """Return the replication factor on so many nodes (None: unknown). Raises InvalidSetting beyond their number."""
        if self.replication is None:
            return None if nodes is None else min(2, nodes)
        if nodes is not None and self.replication > nodes:
            raise InvalidSetting(
                "HARDWON_QDRANT_REPLICATION",
                f"{self.replication} replicas need as many nodes, and the cluster has {nodes}",
            )
        return self.replication

    def search_params(self, *, exact: bool) -> models.SearchParams:
        """Return the parameters of a search by sense."""
        if exact:
            return models.SearchParams(exact=True)
        return models.SearchParams(
            acorn=models.AcornSearchParams(enable=True),
            hnsw_ef=_EF,
            quantization=models.QuantizationSearchParams(rescore=True, oversampling=2.0)
            if self.quantization is Quantization.INT8
            else None,
        )

    def vectors(self, space: EmbeddingSpace) -> dict[str, models.VectorParams]:
        """Return the parameters of the dense vectors of a new collection."""
        params = models.VectorParams(
            size=space.dims, distance=models.Distance.COSINE, on_disk=True if self.on_disk else None
        )
        return {shape.DENSE: params}

    def graph(self) -> models.HnswConfigDiff:
        """Return the parameters of the graphs."""
        return GRAPH.model_copy(update={"on_disk": True}) if self.on_disk else GRAPH

    def quantized(self) -> models.ScalarQuantization | None:
        """Return the quantization of a new collection, None for none."""
        if self.quantization is Quantization.NONE:
            return None
        scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
        return models.ScalarQuantization(scalar=scalar)

    def differences(self, found: models.CollectionInfo, nodes: int | None) -> list[str]:
        """Return in which points a collection is not laid out as the settings ask, in words."""
        config, params = found.config, found.config.params
        vectors = params.vectors[shape.DENSE] if isinstance(params.vectors, dict) else params.vectors
        pairs: list[tuple[str, object, object]] = [
            ("graph of all points (m)", config.hnsw_config.m, GRAPH.m),
            ("graph of each workspace (payload_m)", config.hnsw_config.payload_m, GRAPH.payload_m),
            ("replicas", params.replication_factor or 1, self.replicas(nodes)),
            ("shards", params.shard_number or 1, self.shards),
            (
                "quantization",
                "none" if config.quantization_config is None else "int8",
                self.quantization.value,
            ),
            ("vectors on disk", bool(vectors and vectors.on_disk), self.on_disk),
        ]
        return [f"{name}: {is_} instead of {asked}" for name, is_, asked in pairs if asked is not None and is_ != asked]


def has_graph(found: models.CollectionInfo) -> bool:
    """Return whether a filtered search by the graph of a collection is whole."""
    return found.config.hnsw_config.m == GRAPH.m


def check_version(version: str, address: str) -> None:
    """Raise StoreIncompatible for a server that does not know what a whole answer needs."""
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    if numbers and (int(numbers[1]), int(numbers[2])) < OLDEST_SERVER:
        oldest = ".".join(map(str, OLDEST_SERVER))
        raise StoreIncompatible(
            f"Qdrant at {address} is version {version}; hardwon needs {oldest} or later, which searches under several"
            " conditions without losing points: upgrade it, one minor version at a time"
        )


def check_collection(found: models.CollectionInfo, name: str, address: str, space: EmbeddingSpace) -> None:
    """Raise StoreIncompatible for a collection that hardwon did not make, or whose limits it cannot work within."""
    advice = "it holds nothing that Postgres lacks: delete it and run `hardwon rebuild`"
    where = f"The collection {name} at {address}"
    vectors = found.config.params.vectors
    dense = vectors.get(shape.DENSE) if isinstance(vectors, dict) else None
    if dense is None or dense.size != space.dims:
        raise StoreIncompatible(f"{where} does not hold vectors of {space.dims} dimensions; {advice}.")
    foreign = f"{where} was not made by hardwon: {{}}. Set HARDWON_QDRANT_PREFIX to a word of this store's own"
    if dense.distance != models.Distance.COSINE:
        raise StoreIncompatible(foreign.format(f"it compares vectors by {dense.distance.value}, not Cosine"))
    lexical = (found.config.params.sparse_vectors or {}).get(shape.LEXICAL)
    if lexical is None or lexical.modifier not in {None, models.Modifier.NONE}:
        raise StoreIncompatible(foreign.format(f"it has no sparse vectors {shape.LEXICAL} without a modifier"))
    if found.points_count and found.payload_schema and shape.TENANT not in found.payload_schema:
        raise StoreIncompatible(foreign.format(f"its points have no payload index {shape.TENANT}"))
    _check_limits(found.config.strict_mode_config, where)


def _check_limits(strict: models.StrictModeConfigOutput | None, where: str) -> None:
    if strict is None or not strict.enabled:
        return
    for name, least in _LIMITS.items():
        given = getattr(strict, name, None)
        if given is not None and given < least:
            raise StoreIncompatible(
                f"{where} allows {given} for {name} in strict mode, and hardwon needs {least}: raise it in the"
                " collection's strict_mode_config, or in the server's storage.collection.strict_mode"
            )
    if strict.search_allow_exact is False:
        raise StoreIncompatible(
            f"{where} forbids exact searches in strict mode, which hardwon compares its answers with: set"
            " search_allow_exact to true in its strict_mode_config"
        )


def check_cluster(members: Mapping[str, frozenset[int]]) -> None:
    """Raise InvalidSetting for addresses of different clusters; `members`: the peer ids that each address names."""
    for one, another in pairwise(members):
        if not members[one] & members[another]:
            raise InvalidSetting(
                "HARDWON_QDRANT_URL",
                f"{one} and {another} are not nodes of one cluster: give the addresses of one cluster, or a single one",
            )


def check_versions(versions: Mapping[str, str]) -> None:
    """Raise InvalidSetting for addresses whose versions differ by more than a rolling upgrade has at a time."""
    numbers = {address: tuple(map(int, re.findall(r"\d+", version)[:2])) for address, version in versions.items()}
    oldest, newest = min(numbers, key=numbers.__getitem__), max(numbers, key=numbers.__getitem__)
    if numbers[oldest][0] != numbers[newest][0] or numbers[newest][1] - numbers[oldest][1] > 1:
        raise InvalidSetting(
            "HARDWON_QDRANT_URL",
            f"{oldest} is Qdrant {versions[oldest]} and {newest} is {versions[newest]}: bring all nodes to one version",
        )
