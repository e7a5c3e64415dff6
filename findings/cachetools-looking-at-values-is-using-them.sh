#!/usr/bin/env bash
# One would guess: reading the values of an LRU cache for a metric or a debug page leaves its order alone.
# True: `LRUCache.values()` and `items()` get each value by its key, in the order of insertion, and each counts as a use:
# afterwards the least recently used entry is the one that was inserted first, however lately it was used, and it is the
# next to be evicted. A metric that counts open circuit breakers or sizes every few seconds turns the cache into a FIFO.
# `Cache.__getitem__` reads without a use. cachetools 8.0.2, 2026-11-27.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check cachetools==8.0.2
"$folder/venv/bin/python" - <<'PY'
import cachetools
from cachetools import Cache, LRUCache


def evicted(look) -> str:
    cache = LRUCache(3)
    for key in ("hot", "warm", "cold"):
        cache[key] = key
    for _ in range(100):
        cache["hot"]
    look(cache)
    before = set(cache)
    cache["new"] = "new"
    return (before - set(cache)).pop()


print("cachetools", cachetools.__version__)
seen = {
    "nothing looked at": evicted(lambda cache: None),
    "values() looked at": evicted(lambda cache: list(cache.values())),
    "items() looked at": evicted(lambda cache: dict(cache.items())),
    "Cache.__getitem__ of each key": evicted(lambda cache: [Cache.__getitem__(cache, key) for key in cache]),
}
for case, key in seen.items():
    print(f"{case}: evicts {key!r}")
assert list(seen.values()) == ["warm", "hot", "hot", "warm"], "the behaviour has changed"
PY
