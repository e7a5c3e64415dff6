#!/usr/bin/env bash
# One would guess: a payload index with `is_tenant` and graphs for each tenant (`payload_m`), without one over all points (`m=0`),
# is the layout for many tenants, and a further condition only narrows what a search of a tenant's graph returns. And where it
# is not whole, a graph over all points mends it.
# True: a search within a tenant under one more condition that few points meet loses most of the nearest ones, with the graph
# over all points as well: matching points are not linked with each other. No error, fewer or farther hits. The search is whole
# with `acorn` in its parameters, and exact below the indexing threshold, so that no small test sees it.
# qdrant-edge-py 0.9.0, x86-64, 2026-11-27.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check qdrant-edge-py==0.9.0 numpy==2.4.6
"$folder/venv/bin/python" - "$folder" <<'PY'
import sys
from importlib.metadata import version

import numpy as np
import qdrant_edge as edge

POINTS, DIMS, CENTRES, QUERIES = 12_000, 96, 600, 40
rng = np.random.default_rng(5)


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def around(number):
    return unit(centres[rng.integers(0, CENTRES, number)] + 0.5 * rng.standard_normal((number, DIMS)) / DIMS**0.5)


centres = unit(rng.standard_normal((CENTRES, DIMS)))
vectors, queries = around(POINTS), around(QUERIES)
kinds = rng.integers(0, 12, POINTS)
both = edge.Filter(must=[edge.FieldCondition(name, match=edge.MatchValue(value)) for name, value in (("tenant", "a"), ("kind", "k5"))])


def build(name, m):
    config = edge.EdgeConfig(
        vectors={"v": edge.EdgeVectorParams(size=DIMS, distance=edge.Distance.Cosine)},
        hnsw_config=edge.HnswIndexConfig(m=m, payload_m=16, ef_construct=100, full_scan_threshold=50),
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=500, default_segment_number=1),
    )
    shard = edge.EdgeShard.create(f"{sys.argv[1]}/{name}", config)
    shard.update(edge.UpdateOperation.create_field_index("tenant", edge.KeywordIndexParams(is_tenant=True)))
    shard.update(edge.UpdateOperation.create_field_index("kind", edge.KeywordIndexParams(enable_hnsw=False)))
    for start in range(0, POINTS, 500):
        shard.update(
            edge.UpdateOperation.upsert_points(
                [
                    edge.Point(at, {"v": vectors[at].tolist()}, {"tenant": "b" if at % 10 == 0 else "a", "kind": f"k{kinds[at]}"})
                    for at in range(start, start + 500)
                ]
            )
        )
    shard.optimize()
    return shard


def recall(shard, params):
    shares = []
    for query in queries:
        found, exact = (
            {
                hit.id
                for hit in shard.query(
                    edge.QueryRequest(limit=10, query=edge.Query.Nearest(query.tolist(), using="v"), filter=both, params=each)
                )
            }
            for each in (params, edge.SearchParams(exact=True))
        )
        shares.append(len(found & exact) / len(exact))
    return float(np.mean(shares))


print("qdrant-edge-py", version("qdrant-edge-py"))
acorn = edge.SearchParams(acorn=edge.AcornSearchParams(enable=True))
shards = {m: build(f"m{m}", m) for m in (0, 16)}
seen = {f"m={m}": recall(shard, edge.SearchParams()) for m, shard in shards.items()}
seen["m=16, acorn"] = recall(shards[16], acorn)
print("recall at 10 of a search under two conditions:", {name: round(share, 3) for name, share in seen.items()})
assert max(seen["m=0"], seen["m=16"]) < 0.7 and seen["m=16, acorn"] > 0.9, "the behaviour has changed"
PY
