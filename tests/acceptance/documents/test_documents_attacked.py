"""The documents of others, tried with every id and name one could have learnt: none opens or tells of anything."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, cast
from uuid import uuid4
from wsgiref.simple_server import WSGIRequestHandler, make_server

import httpx
import pytest
from dulwich import porcelain
from dulwich.client import HttpGitClient
from dulwich.errors import GitProtocolError
from dulwich.object_format import DEFAULT_OBJECT_FORMAT
from dulwich.objects import Blob
from dulwich.pack import PackChunkGenerator, pack_objects_to_data
from dulwich.repo import Repo
from dulwich.server import DictBackend
from dulwich.web import make_wsgi_chain

from hardwon.errors import InvalidInput
from hardwon.models.answers import Event, EventId
from hardwon.models.documents import Document, NewSource, Passage, SourceId
from knowledge.adapters.files.git_guards import OriginPools
from knowledge.adapters.files.git_packs import CheckedClient, PackCheck
from knowledge.documents.access import Principal
from knowledge.documents.journal import NewEscalation
from knowledge.documents.ports import Source
from knowledge.wiring.open import Knowledge
from orchestrator.http.app import make_app
from orchestrator.http.middleware.authentication import AuthConfig
from tests.conftest import Opens
from tests.support.cases import load_tables
from tests.support.documents import GUIDE, add, find, put

SECRET = b"# Vault\n\nThe zanzibar door opens with the seventh key of the porter.\n"
QUESTION = "How does the zanzibar door open?"
WHO = b"Ann <ann@example.org>"
PLACES = (("user", "ann"), ("case", "77"), ("team", "red"))


@dataclass
class House:
    """A server with what Ann has in two workspaces, and the keys of who may not see it."""

    knowledge: Knowledge
    documents: dict[str, Document]
    passages: dict[str, Passage]
    source: Source
    keys: dict[str, str]
    app: Any

    def http(self, key: str) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False, client=("192.0.2.1", 1))
        headers = {"Authorization": f"Bearer {self.keys[key]}"}
        return httpx.AsyncClient(transport=transport, base_url="http://hardwon", headers=headers)

    async def untouched(self) -> bool:
        for kb, scope_id in PLACES:
            found = await find(self.knowledge, QUESTION, kb, scope_id)
            if not found.passages or found.passages[0].passage_id != self.passages[kb].passage_id:
                return False
        return [each.source_id for each in await self.knowledge.kb.sources("global", None)] == [self.source.source_id]


@pytest.fixture
async def house(opens: Opens, tmp_path: Path) -> AsyncIterator[House]:
    async with opens(fetch=f"file://{tmp_path}") as knowledge:
        documents = {kb: await add(knowledge, "vault.md", SECRET, kb, scope_id) for kb, scope_id in PLACES}
        passages = {kb: (await find(knowledge, QUESTION, kb, scope_id)).passages[0] for kb, scope_id in PLACES}
        source = await knowledge.kb.add_source("global", None, NewSource(url=f"file://{tmp_path}"))
        made = {
            "mallory": ("mallory", ["documents"], "default"),
            "another ann": ("ann", ["documents"], "other"),
            "another admin": ("root", ["admin"], "other"),
            "admin": ("root", ["admin"], "default"),
        }
        keys = {
            who: (await knowledge.keys.create(scopes, workspace=workspace, name=name)).secret
            for who, (name, scopes, workspace) in made.items()
        }
        auth = AuthConfig(
            authenticator=knowledge.authenticator, operator_key=None, host="127.0.0.1", requests_per_second=1e6
        )
        app = make_app(knowledge, auth=auth)
        yield House(knowledge, documents, passages, source, keys, app)


def tells(answer: httpx.Response) -> bool:
    """Return whether an answer holds anything of the vault."""
    return any(word in answer.text.lower() for word in ("seventh", "porter", "vault.md"))


@pytest.mark.long
async def test_t26_every_route_refuses_the_scopes_of_others(house: House) -> None:
    ids = {kb: str(document.document_id) for kb, document in house.documents.items()}
    async with house.http("mallory") as http:
        for kb, scope_id in (*PLACES, ("user", "ANN"), ("case", "never-made")):
            at, ask = f"/api/kb/{kb}/{scope_id}", {"question": QUESTION}
            document_id = ids[kb]
            for answer in (
                await http.get(f"{at}/documents"),
                await http.post(f"{at}/documents", params={"uri": "mine.md"}, content=b"mine"),
                await http.delete(f"{at}/documents", params={"document_id": document_id}),
                await http.post(f"{at}/documents:retry"),
                await http.get(f"{at}/sources"),
                await http.post(f"{at}/sync"),
                await http.post(f"{at}/sources", json={"url": "https://git.example.org/a"}),
                await http.delete(f"{at}/sources/{house.source.source_id}"),
                await http.get(f"{at}/members"),
                await http.put(f"{at}/members/mallory"),
                await http.delete(f"{at}/members/ann"),
                await http.post(f"{at}/ask", json=ask),
                await http.get("/api/search", params={"q": QUESTION, "kb": kb, "scope": scope_id}),
                await http.post("/api/kb/query", json={"query": QUESTION, "kb": kb, "scope": scope_id}),
            ):
                assert answer.status_code == 403, (answer.request.url, answer.text)
                assert not tells(answer)
        for answer in (
            await http.delete("/api/users/ann/kb"),
            await http.post("/api/cases/77/close"),
            await http.post("/api/kb/global/-/documents", params={"uri": "mine.md"}, content=b"mine"),
            await http.get("/api/events"),
            await http.get("/api/escalations"),
            await http.get("/api/answer-metrics"),
            await http.get("/metrics"),
            await http.get("/v1/stats"),
        ):
            assert answer.status_code == 403, (answer.request.url, answer.text)
    assert await house.untouched()


@pytest.mark.long
async def test_t26_ids_of_others_open_nothing_in_a_scope_of_ones_own(house: House) -> None:
    foreign = [str(document.document_id) for document in house.documents.values()]
    async with house.http("mallory") as http:
        at = "/api/kb/user/mallory"
        await http.post(f"{at}/documents", params={"uri": "mine.md"}, content=b"# Mine\n\nA zanzibar of my own.\n")
        await http.post("/api/kb:index")
        gone = await http.delete(f"{at}/documents", params={"document_id": foreign})
        assert gone.json() == {"documents": 0}
        for where in ({}, {"kb": "user", "scope": "mallory"}):
            found = await http.get("/api/search", params={"q": QUESTION, "document_id": foreign, "k": 200, **where})
            assert found.json()["passages"] == []
        anywhere = await http.get("/api/search", params={"q": QUESTION, "k": 200})
        assert {each["partition"] for each in anywhere.json()["passages"]} == {"user_mallory_kb"}
        for answer in (
            await http.post("/api/ask", json={"question": QUESTION}),
            await http.post("/api/kb/query", json={"query": QUESTION, "kb": "user", "scope": "mallory"}),
            await http.post("/subagents/documentation-qa", json={"question": QUESTION, "session_id": "ann"}),
            await http.get(f"{at}/documents", params={"after": "", "limit": 1000}),
        ):
            assert answer.status_code == 200
            assert not tells(answer)
    assert await house.untouched()


@pytest.mark.long
async def test_t7_the_same_name_in_another_workspace_is_somebody_else(house: House) -> None:
    """An `admin` of another workspace included; naming this one is refused, and says nothing of it."""
    foreign = [str(document.document_id) for document in house.documents.values()]
    told = Event(event_id=EventId(uuid4()), name="told", happened_at=house.knowledge.stores.clock.now(), payload={})
    journal = house.knowledge.answering.journal
    await journal.record(told)
    asked = NewEscalation(question="how?", transcript=[], passage_ids=[], suggested_fix="write it down")
    waiting = await journal.escalate(asked, house.knowledge.answering.clock.now())
    for who in ("another ann", "another admin"):
        async with house.http(who) as http:
            assert (await http.get("/api/kb/user/ann/documents")).json() == []
            assert (await http.get("/api/search", params={"q": QUESTION, "k": 200})).json()["passages"] == []
            named = await http.get("/api/kb/user/ann/documents", headers={"Hardwon-Workspace": "default"})
            unknown = await http.get("/api/kb/user/ann/documents", headers={"Hardwon-Workspace": "no such"})
            assert (named.status_code, named.json()["detail"]) == (403, unknown.json()["detail"])
            gone = await http.delete("/api/kb/user/ann/documents", params={"document_id": foreign})
            assert gone.json() == {"documents": 0}
    async with house.http("another admin") as http:
        assert (await http.get("/api/kb/global/-/sources")).json() == []
        assert (await http.get("/api/events")).json() == []
        assert (await http.get("/api/escalations")).json() == []
        for answer in (
            await http.delete(f"/api/kb/global/-/sources/{house.source.source_id}"),
            await http.post(f"/api/events/{told.event_id}/review"),
            await http.post(f"/api/escalations/{waiting.escalation_id}/close"),
        ):
            assert answer.status_code == 404, answer.text
        assert (await http.delete("/api/users/ann/kb")).json() == {"documents": 0}
        assert (await http.post("/api/cases/77/close")).json() == {"documents": 0}
    assert await house.untouched()
    assert not (await journal.events())[0].reviewed


@pytest.mark.long
async def test_a_refusal_does_not_tell_whether_there_is_anything(house: House) -> None:
    async with house.http("mallory") as http:
        said = {
            scope_id: (await http.get(f"/api/kb/case/{scope_id}/documents")).json()["detail"].replace(scope_id, "X")
            for scope_id in ("77", "78")
        }
    assert said["77"] == said["78"]


@pytest.mark.long
async def test_indexing_tells_a_user_of_their_own_documents_alone(house: House) -> None:
    await put(house.knowledge, "more.md", SECRET, "user", "ann")
    async with house.http("mallory") as http:
        await http.post("/api/kb/user/mallory/documents", params={"uri": "a.md", "index": False}, content=b"# A\n\nx\n")
        report = (await http.post("/api/kb:index")).json()
    assert report == {"indexed": 1, "failed": 0, "postponed": 0, "removed": 0, "reason": None}
    documents = await house.knowledge.kb.list_documents("user", "ann")
    assert [each.waiting for each in documents] == [False, False], "the others were indexed too"


@pytest.mark.long
async def test_t26_a_scope_without_its_base_is_not_searched_as_everything(knowledge: Knowledge) -> None:
    await add(knowledge, "a.md", GUIDE, "case", "1")
    with pytest.raises(InvalidInput, match="kb: name the knowledge base of 2"):
        await knowledge.kb.search("ERR-4521", scope_id="2")


@pytest.mark.long
async def test_t26_a_name_that_reads_like_a_partition_or_a_pattern_is_only_a_name(house: House) -> None:
    bases = house.knowledge.documents.for_principal
    for name in ("user_ann_kb", "ann_kb", "%", "*", "local", "root", "case_77", "", "ann ", "../ann"):
        found = await bases(Principal(name=name)).search(QUESTION, k=50)
        assert found.passages == (), name


@pytest.mark.long
async def test_what_postgres_has_no_place_for_is_refused_or_replaced(house: House) -> None:
    """No door ends in an error of ours, and nothing that a planner tells of a question is lost for it."""
    strange = "a\0\ud800b"
    said = [{"role": "user", "content": strange}]
    step = {
        "question": QUESTION,
        "session_id": strange,
        "step_id": strange,
        "context": {"conversation_tail": said, "focus": {strange: [strange, float("nan")]}},
    }
    given = Event(event_id=EventId(uuid4()), name="a", happened_at=house.knowledge.stores.clock.now(), payload={})
    await house.knowledge.answering.journal.record(given)
    thought = {"answer_id": str(given.event_id), "up": True, "comment": strange}
    async with house.http("mallory") as http:
        for path, body in (
            ("/subagents/documentation-qa", step),
            ("/subagents/documentation-qa", {**step, "step_id": strange}),
            ("/api/kb/query", {"query": QUESTION, "conversation": said}),
            ("/api/ask", {"question": QUESTION, "conversation": said}),
            ("/api/kb/user/mallory/ask", {"question": QUESTION, "conversation": said}),
            ("/api/feedback", thought),
        ):
            answer = await http.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
            assert answer.status_code in {200, 204, 422}, (path, answer.text)
        asked = await http.get("/api/search", params={"q": "a\0b", "kb": "user", "scope": "mallory"})
        assert asked.status_code in {200, 422}
        for after in ("\0", "x" * 2000):
            assert (await http.get("/api/kb/user/mallory/documents", params={"after": after})).status_code == 422
    async with house.http("admin") as http:
        assert (await http.get("/api/events", params={"name": "\0", "session": "\0"})).json() == []
        for who in ("%00", "x" * 300, "%20"):
            assert (await http.put(f"/api/kb/case/77/members/{who}")).status_code == 422
            assert (await http.delete(f"/api/kb/case/77/members/{who}")).status_code == 422
    journal = house.knowledge.answering.journal
    told = Event(event_id=EventId(uuid4()), name="told", happened_at=house.knowledge.stores.clock.now(), payload=step)
    await journal.record(replace(told, session="s\0"))
    kept = (await journal.events(name="told", session="s\0"))[0]
    assert kept.payload["context"]["focus"] == {"a\ufffd\ufffdb": ["a\ufffd\ufffdb", None]}
    new = NewEscalation(question=QUESTION, transcript=said, passage_ids=[], suggested_fix="write it down")
    escalated = await journal.escalate(new, house.knowledge.answering.clock.now())
    assert escalated.transcript == ({"role": "user", "content": "a\ufffd\ufffdb"},)


# repositories


def commit(folder: Path, name: str, text: str) -> None:
    with Repo.init(str(folder), mkdir=True) as repo:
        (folder / name).write_text(text)
        porcelain.add(repo, [str(folder / name)])
        porcelain.commit(repo, message=b"x", author=WHO, committer=WHO)


@pytest.mark.parametrize("way", ["alternates", "gitfile", "commondir", "linked .git", "linked objects", "include"])
async def test_t15_a_repository_that_leads_out_of_its_folder_is_not_read(
    opens: Opens, tmp_path: Path, way: str
) -> None:
    """Whoever may write where repositories are fetched from reads no others with the server's rights."""
    private, allowed = tmp_path / "private", tmp_path / "allowed"
    commit(private, "secret.md", SECRET.decode())
    tip = (private / ".git/refs/heads/master").read_text()
    allowed.mkdir()
    mine = allowed / "mine"
    commit(mine, "mine.md", "# Mine\n")
    git = mine / ".git"
    match way:
        case "alternates":
            (git / "objects/info").mkdir(exist_ok=True)
            (git / "objects/info/alternates").write_text(f"{private}/.git/objects\n")
            (git / "refs/heads/master").write_text(tip)
        case "gitfile":
            git.rename(mine / "old")
            git.write_text(f"gitdir: {private}/.git\n")
        case "commondir":
            (git / "commondir").write_text(f"{private}/.git\n")
        case "linked .git":
            git.rename(mine / "old")
            git.symlink_to(private / ".git")
        case "linked objects":
            (git / "objects").rename(mine / "old")
            (git / "objects").symlink_to(private / ".git/objects")
            (git / "refs/heads/master").write_text(tip)
        case _:
            with (git / "config").open("a") as config:
                config.write(f"[include]\n\tpath = {private}/secret.md\n")
    async with opens(fetch=f"file://{allowed}") as knowledge:
        await knowledge.kb.add_source("global", None, NewSource(url=f"file://{mine}"))
        report = (await knowledge.kb.sync("global", None))[0]
        assert report.error is not None
        assert "seventh" not in report.error
        assert await knowledge.kb.list_documents("global", None) == []


STRANGE_ADDRESSES = load_tables("test_documents_attacked")["STRANGE_ADDRESSES"]


async def test_t15_addresses_that_git_would_take_for_options_commands_or_other_hosts_are_refused(opens: Opens) -> None:
    taken = []
    async with opens(fetch="https://git.example.org,file:///srv/repos") as knowledge:
        for url in STRANGE_ADDRESSES:
            try:
                await knowledge.kb.add_source("global", None, NewSource(url=url))
            except InvalidInput:
                continue
            taken.append(url)
        assert taken == []
        assert await knowledge.kb.sources("global", None) == []


async def test_a_branch_and_a_folder_are_names_and_nothing_else(opens: Opens, tmp_path: Path) -> None:
    commit(tmp_path / "mine", "mine.md", "# Mine\n")
    async with opens(fetch=f"file://{tmp_path}") as knowledge:
        for branch in ("--upload-pack=x", "../../../../etc/passwd", "HEAD:../x"):
            new = NewSource(url=f"file://{tmp_path}/mine", branch=branch)
            source = await knowledge.kb.add_source("global", None, new)
            assert "there is no branch" in str((await knowledge.kb.sync("global", None))[0].error)
            await knowledge.kb.forget_source("global", None, SourceId(source.source_id))
        for strange in (
            {"subdir": "../private"},
            {"subdir": "/etc"},
            {"subdir": "a/../../b"},
            {"subdir": "a\n"},
            {"branch": "master\n"},
            {"branch": "x" * 300},
            {"globs": ("*" * 2000,)},
        ):
            with pytest.raises(InvalidInput):
                await knowledge.kb.add_source("global", None, NewSource(url=f"file://{tmp_path}/mine", **strange))


class _Pack(BaseHTTPRequestHandler):
    """A server that sends what it likes, under the name of git."""

    kind = "application/x-git-upload-pack-result"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", self.kind)
        self.end_headers()
        with suppress(OSError):
            for _ in range(100):
                self.wfile.write(b"x" * 100_000)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def sender() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Pack) as server:
        serving = Thread(target=server.serve_forever, daemon=True)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


def test_t15_what_a_server_points_at_elsewhere_is_not_asked(sender: str) -> None:
    """A redirect, a pack or a list of objects on another host: allowed by nobody."""
    pools = OriginPools("https://git.example.org/team/a", inside=True, most_bytes=1_000_000)
    for url in (sender, "https://evil.example/a", "https://git.example.org:8443/a", "http://git.example.org/a"):
        with pytest.raises(GitProtocolError, match="another host"):
            pools.request("GET", url)
    assert HttpGitClient("https://git.example.org")._get_url("//evil.example/a").startswith("https://evil.example/")


def test_t15_a_repository_that_is_too_large_is_broken_off_while_it_comes(sender: str) -> None:
    pools = OriginPools(sender, inside=True, most_bytes=1_000_000)
    response = pools.request("GET", f"{sender}/a", preload_content=False)
    for _ in range(15):
        assert len(response.read(65_536)) == 65_536
    with pytest.raises(GitProtocolError, match="more than 1 MB"):
        response.read(65_536)
    response.close()


def test_t15_a_server_that_does_not_speak_git_is_not_read(sender: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Pack, "kind", "text/plain")
    with pytest.raises(GitProtocolError, match="smart protocol"):
        OriginPools(sender, inside=True, most_bytes=1_000_000).request("GET", sender)


def pack_of(*objects: Blob) -> bytes:
    return b"".join(
        PackChunkGenerator(
            num_records=len(objects),
            records=pack_objects_to_data([(each, None) for each in objects])[1],
            object_format=DEFAULT_OBJECT_FORMAT,
        )
    )


def fed(pack: bytes, chance: random.Random, most: int = 1_000_000) -> PackCheck:
    check = PackCheck(most)
    while pack:
        length = chance.choice((1, 2, 7, 100, 5_000))
        check.feed(pack[:length])
        pack = pack[length:]
    return check


def test_t13_a_pack_is_looked_at_in_whatever_pieces_it_comes() -> None:
    chance = random.Random(7)
    for _ in range(40):
        check = fed(pack_of(*(Blob.from_string(chance.randbytes(chance.randrange(3_000))) for _ in range(5))), chance)
        with pytest.raises(GitProtocolError, match="more than one pack"):
            check.feed(b"x")  # it knows that all of it was there


@pytest.mark.parametrize("told", ["as it is", "less", "of a delta"])
def test_t13_an_object_that_would_unpack_to_too_much_is_not_unpacked(told: str) -> None:
    """Two megabytes of nothing are two kilobytes of a pack; whoever lies of the length is caught by the length."""
    chance, zeros = random.Random(7), zlib.compress(b"\0" * 2_000_000)
    head = b"PACK" + (2).to_bytes(4) + (1).to_bytes(4)
    match told:
        case "as it is":
            pack = pack_of(Blob.from_string(b"\0" * 2_000_000))
        case "less":
            pack = head + bytes([3 << 4 | 5]) + zeros
        case _:
            delta = b"\x05" + b"\xff\xff\xff\xff\x07" + b"\x90\x05"  # of 5 bytes 2 GB
            pack = head + bytes([7 << 4 | len(delta)]) + b"a" * 20 + zlib.compress(delta)
    assert len(pack) < 5_000
    with pytest.raises(GitProtocolError, match="unpack to more than 1 MB"):
        fed(pack, chance)


def test_t13_what_is_no_pack_is_not_kept() -> None:
    well = pack_of(Blob.from_string(b"well"))
    head = b"PACK\0\0\0\2"
    for pack in (b"PICK" + b"\0" * 8, head + b"\xff" * 4, head + b"\0\0\0\1\x35broken broken", well + well):
        with pytest.raises(GitProtocolError):
            fed(pack, random.Random(7))


def test_a_repository_comes_whole_past_all_that_is_looked_at(tmp_path: Path) -> None:
    """The guards let by what git's own protocol brings, deltas included."""
    folder = tmp_path / "mine"
    text = "".join(f"line {number} of many\n" for number in range(3_000))
    commit(folder, "mine.md", text)
    with Repo(str(folder)) as repo:
        (folder / "mine.md").write_text(text.replace("line 1500", "another"))
        porcelain.add(repo, [str(folder / "mine.md")])
        tip = porcelain.commit(repo, message=b"y", author=WHO, committer=WHO)
        porcelain.gc(repo)
        app = make_wsgi_chain(DictBackend(cast("Any", {"/": repo})))
        serving = make_server("127.0.0.1", 0, app, handler_class=_Quiet)
        thread = Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{serving.server_port}"
        with Repo.init_bare(str(tmp_path / "mirror"), mkdir=True) as mirror:
            pools = OriginPools(url, inside=True, most_bytes=10_000_000)
            client = CheckedClient(url, pool_manager=pools, quiet=True)
            client.fetch("/", mirror, determine_wants=cast("Any", lambda *_, **__: [tip]))
            objects = cast("Any", mirror)
            got = objects[objects[tip].tree]
            assert objects[got[b"mine.md"][1]].data.decode() == (folder / "mine.md").read_text()
            assert len(objects[tip].parents) == 1
        serving.shutdown()
        thread.join()
        serving.server_close()


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""
