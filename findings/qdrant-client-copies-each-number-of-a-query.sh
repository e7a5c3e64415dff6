#!/usr/bin/env bash
# One would guess: `query_batch_points` sends the vectors it is given; what a search costs is the server's time.
# True: the client deep-copies each request first, number by number, to replace what it might have to embed, even where nothing
# is to be embedded: most of the client's time for a batch of plain vectors is that copy, several times what it takes to
# write the same JSON by hand, send it and read the response.
# qdrant-client 1.20.0, pydantic 2.14, x86-64, 2026-11-27.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check qdrant-client==1.20.0
"$folder/venv/bin/python" - <<'PY'
import asyncio
import cProfile
import pstats
import random
import time
from importlib.metadata import version

from pydantic_core import from_json, to_json
from qdrant_client import AsyncQdrantClient, models

VECTORS, DIMS, ROUNDS = 16, 768, 15
BODY = to_json({"result": [{"points": []} for _ in range(VECTORS)], "status": "ok", "time": 0.0})
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY


async def answer(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length"))
            await reader.readexactly(int(length.split(b":")[1]))
            writer.write(ANSWER)
    except (asyncio.IncompleteReadError, asyncio.CancelledError):
        writer.close()


async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=2**24)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = AsyncQdrantClient(url=url, check_compatibility=False)
    vectors = [[random.random() for _ in range(DIMS)] for _ in range(VECTORS)]

    async def typed():
        requests = [models.QueryRequest(query=vector, limit=10) for vector in vectors]
        return await client.query_batch_points("c", requests=requests)

    async def by_hand():
        content = to_json({"searches": [{"query": vector, "limit": 10} for vector in vectors]})
        response = await client.http.client._async_client.post(f"{url}/collections/c/points/query/batch", content=content)
        return from_json(response.content)

    profile = cProfile.Profile()
    profile.enable()
    await typed()
    profile.disable()
    calls = {name: numbers[1] for (_, _, name), numbers in pstats.Stats(profile).stats.items()}
    seconds = {}
    for name, ask in (("typed", typed), ("by hand", by_hand)):
        await ask()
        began = time.process_time()
        for _ in range(ROUNDS):
            await ask()
        seconds[name] = (time.process_time() - began) / ROUNDS
    await client.close()
    return calls["deepcopy"], seconds


copied, seconds = asyncio.run(main())
ratio = seconds["typed"] / seconds["by hand"]
print("qdrant-client", version("qdrant-client"), "pydantic", version("pydantic"))
print(f"{copied:,} calls of deepcopy for {VECTORS} vectors of {DIMS} numbers")
print({name: f"{1000 * each:.1f} ms" for name, each in seconds.items()}, f"typed / by hand = {ratio:.1f}")
assert copied >= VECTORS * DIMS and ratio > 1.5, "the behaviour has changed"
PY
