"""The stand-in Qdrant server answers as a real one did: status, content type, shape and words of each case file.

The files are answers of a server 1.18.3 and of a cluster of three, alive, wounded and refusing.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.qdrant.limits import Access
from tests.support.qdrant.process import QdrantClusterProcess
from tests.support.qdrant.storage import Options
from tests.support.qdrant_over_edge import QdrantProcess

CASES = Path(__file__).resolve().parents[3] / "shared/cases/qdrant"
FILES = sorted(CASES.glob("*.json"))
MEGABYTE = 1024 * 1024
TOO_LARGE = 1652927
ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
COLLECTION = {
    "vectors": {"dense": {"size": 4, "distance": "Cosine"}},
    "sparse_vectors": {"lexical": {}},
    "replication_factor": 2,
    "write_consistency_factor": 1,
    "metadata": {"store": "a"},
}
QUERY = {"query": [1.0, 2.0, 3.0, 4.0], "using": "dense", "limit": 2}
HAS_W = {"filter": {"must": [{"key": "w", "match": {"value": "a"}}]}}
INDEX = {"field_name": "w", "field_schema": {"type": "keyword", "is_tenant": True}}


def points(count: int) -> dict[str, Any]:
    vectors = [{"dense": [1.0, float(i), 2.0, 3.0], "lexical": {"indices": [i], "values": [1.0]}} for i in range(count)]
    return {"points": [{"id": i, "vector": vector, "payload": {"w": "a"}} for i, vector in enumerate(vectors)]}


@dataclass(frozen=True)
class Replay:
    """How a case is asked again: the state of the server, and what the case's request line leaves out."""

    state: str = "alive"
    body: dict[str, Any] | None = None
    query: str = ""
    headers: dict[str, str] = field(default_factory=dict)


READ_ONLY = {"api-key": "reads"}
WAIT = "?wait=true"
REPLAYS = {
    "cluster": Replay(),
    "collection-cluster": Replay(),
    "create": Replay("empty", COLLECTION),
    "create-again": Replay(body=COLLECTION),
    "index": Replay(body=INDEX, query=WAIT),
    "info": Replay(),
    "key-missing": Replay("keyed"),
    "key-read-only-writes": Replay("keyed", COLLECTION, headers=READ_ONLY),
    "key-wrong": Replay("keyed", headers={"api-key": "guess"}),
    "majority-dead-cluster": Replay("majority-dead"),
    "majority-dead-create": Replay("majority-dead", COLLECTION, "?timeout=5"),
    "majority-dead-query": Replay("majority-dead", QUERY),
    "majority-dead-readyz": Replay("majority-dead"),
    "majority-dead-upsert": Replay("majority-dead", points(30), WAIT),
    "missing-collection": Replay(),
    "one-dead-cluster": Replay("one-dead"),
    "one-dead-collection-cluster": Replay("one-dead"),
    "one-dead-create": Replay("one-dead", COLLECTION),
    "one-dead-info": Replay("one-dead"),
    "one-dead-query": Replay("one-dead", QUERY),
    "one-dead-upsert": Replay("one-dead", points(30), WAIT),
    "query": Replay(body=QUERY),
    "query-missing-collection": Replay(body=QUERY),
    "query-wrong-dimension": Replay(body={**QUERY, "query": [1.0, 2.0]}),
    "query-wrong-vector-name": Replay(body={**QUERY, "using": "zz"}),
    "root": Replay(),
    "strict-limit": Replay("strict", {**QUERY, "limit": 64}),
    "strict-unindexed": Replay("strict", {**QUERY, **HAS_W}),
    "too-large": Replay("small-bodies", {"points": []}, WAIT),
    "upsert": Replay(body=points(30), query=WAIT),
    "upsert-no-wait": Replay(body=points(30), query="?wait=false"),
}


class Servers:
    """A server or cluster for each state, started when a case first asks for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._urls: dict[str, str] = {}
        self._running = contextlib.ExitStack()

    def url(self, state: str) -> str:
        """Return where the server in a state listens."""
        if state not in self._urls:
            start: Callable[[str], str] = (
                self._single if state in {"keyed", "strict", "small-bodies"} else self._cluster
            )
            self._urls[state] = start(state)
        return self._urls[state]

    def close(self) -> None:
        """End all of them."""
        self._running.close()

    def _cluster(self, state: str) -> str:
        cluster = self._running.enter_context(QdrantClusterProcess(self._folder / state))
        url = cluster.urls[0]
        if state == "empty":
            return url
        _put(f"{url}/collections/c", COLLECTION)
        _put(f"{url}/collections/c/index{WAIT}", INDEX)
        _put(f"{url}/collections/c/points{WAIT}", points(30))
        if state in {"one-dead", "majority-dead"}:
            cluster.kill(2)
            _put(f"{url}/collections/c/points{WAIT}", points(30))
        if state == "majority-dead":
            cluster.kill(1)
        return url

    def _single(self, state: str) -> str:
        access = Access(api_key="writes", read_only_key="reads") if state == "keyed" else Access()
        options = Options(access=access, max_body_bytes=MEGABYTE if state == "small-bodies" else 32 * MEGABYTE)
        server = self._running.enter_context(QdrantProcess(self._folder / state, options))
        strict = {"enabled": True, "max_query_limit": 10, "unindexed_filtering_retrieve": False}
        made = {**COLLECTION, **({"strict_mode_config": strict} if state == "strict" else {})}
        _put(f"{server.url}/collections/c", made, {"api-key": "writes"})
        return server.url


def _put(url: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
    httpx.put(url, json=body, headers=headers).raise_for_status()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers(tmp_path_factory.mktemp("servers"))
    with contextlib.closing(servers):
        yield servers


def normalize(value: Any, *, exact: bool = False) -> Any:
    """Blank out what differs from run to run: numbers but for those of a configuration, addresses, peers, moments."""
    match value:
        case dict():
            found = [
                (normalize("0" if key.isdigit() else key), normalize(one, exact=exact or key == "config"))
                for key, one in value.items()
            ]
            return sorted(found, key=repr)
        case list():
            return sorted((normalize(one, exact=exact) for one in value), key=repr)
        case str():
            return MOMENT.sub("MOMENT", ADDRESS.sub("ADDRESS", value))
        case int() | float() if not isinstance(value, bool) and not exact:
            return 0
    return value


def pad(body: dict[str, Any] | None, name: str) -> bytes | None:
    if body is None:
        return None
    text = json.dumps(body).encode()
    return text.ljust(TOO_LARGE) if name == "too-large" else text


@pytest.mark.skipif(not FILES, reason="the answers of a real server are not beside this checkout")
@pytest.mark.parametrize("name", sorted(REPLAYS))
def test_the_stand_in_answers_as_a_real_server_did(name: str, servers: Servers) -> None:
    case, replay = json.loads((CASES / f"{name}.json").read_text()), REPLAYS[name]
    verb, path = case["request"].split()
    answer = httpx.request(
        verb, f"{servers.url(replay.state)}{path}{replay.query}", content=pad(replay.body, name), headers=replay.headers
    )
    assert answer.status_code == case["status"], answer.text
    assert answer.headers.get("content-type") == case["content_type"]
    body = answer.text if isinstance(case["body"], str) else answer.json()
    assert normalize(body) == normalize(case["body"])


@pytest.mark.skipif(not FILES, reason="the answers of a real server are not beside this checkout")
def test_every_file_is_replayed() -> None:
    assert {file.stem for file in FILES} == set(REPLAYS)


@pytest.mark.long
def test_another_message_setting_or_field_is_noticed() -> None:
    answer = {"result": {"config": {"m": 16}, "peers": {"17": {"uri": "http://127.0.0.1:1/"}}}, "time": 0.5}
    same = {"result": {"config": {"m": 16}, "peers": {"18": {"uri": "http://127.0.0.1:2/"}}}, "time": 0.7}
    assert normalize(same) == normalize(answer)
    for broken in ({**answer, "time": None}, {**answer, "more": 1}, {"result": {"config": {"m": 0}}, "time": 0.5}):
        assert normalize(broken) != normalize(answer)
