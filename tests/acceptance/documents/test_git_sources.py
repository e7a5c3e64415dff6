"""Repositories as documents: what is fetched, what changed, and what may not be fetched at all."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread, current_thread
from typing import Any
from uuid import uuid4

import pytest
from dulwich import porcelain
from dulwich.objects import Blob, ObjectID, Tree
from dulwich.refs import Ref
from dulwich.repo import Repo

from hardwon.errors import Conflict, InvalidInput, SourceUnavailable
from hardwon.models.documents import NewSource, SourceId
from jobs.table import run_job
from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.adapters.files import git_repositories
from knowledge.adapters.files.git_repositories import GitRepositories
from knowledge.adapters.postgres.documents.sources import PostgresSources
from knowledge.documents.ingestion.url_policy import check_url, commit_of, is_inside, link_of
from knowledge.documents.ports import Repositories, Repository, Source, TreeFile
from knowledge.wiring.open import Knowledge
from orchestrator.cli.reports.answer_report import LocalAnswers
from tests.conftest import Opens
from tests.support.cases import case_by_case
from tests.support.documents import writable
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

WHO = b"Ann <ann@example.org>"
LOCALHOST = Path(__file__).parents[2] / "support" / "localhost.pem"
POOL = "# Pool\n\nThe pool has 40.\n"


class Writes:
    """A repository that commits are made in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repo = Repo.init(str(folder), mkdir=True)

    def commit(self, files: dict[str, str | None]) -> str:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                porcelain.remove(self.repo, [str(path)])
            else:
                path.write_text(text)
                porcelain.add(self.repo, [str(path)])
        return porcelain.commit(self.repo, message=b"change", author=WHO, committer=WHO).decode()


@pytest.fixture
def writes(tmp_path: Path) -> Iterator[Writes]:
    made = Writes(tmp_path / "handbook")
    yield made
    made.repo.close()


def source_of(url: str) -> Source:
    """Return a source that was never synced."""
    return Source(
        source_id=SourceId(uuid4()),
        partition="global_kb",
        url=url,
        branch=None,
        subdir="",
        globs=(),
        last_commit=None,
        last_error=None,
        synced_at=None,
    )


@pytest.mark.long
async def test_a_repository_is_synced_by_what_changed(opens: Opens, writes: Writes, tmp_path: Path) -> None:
    """A1-03, X-30, A4-23."""
    first = writes.commit(
        {"docs/pool.md": "# Pool\n\nThe pool has 40.\n", "docs/old.md": "# Old\n\nGone soon.\n", ".x.md": "x"}
    )
    async with opens(fetch=f"file://{tmp_path}") as knowledge:
        await knowledge.kb.add_source("global", None, NewSource(url=f"file://{writes.folder}", subdir="docs"))
        report = (await knowledge.kb.sync("global", None))[0]
        assert (report.commit, report.added, report.unchanged, report.error) == (first, 2, 0, None)
        await knowledge.kb.index()
        found = await knowledge.kb.search("how many has the pool?", kb="global")
        assert found.passages[0].uri == "handbook/docs/pool.md"
        assert (found.passages[0].link or "").endswith(f"@{first}")
        second = writes.commit(
            {"docs/pool.md": "# Pool\n\nThe pool has 41.\n", "docs/old.md": None, "docs/new.md": "# New\n\nx\n"}
        )
        report = (await knowledge.kb.sync("global", None))[0]
        assert (report.commit, report.added, report.deleted, report.unchanged) == (second, 2, 1, 0)
        await knowledge.kb.index()
        shown = [p.text for p in (await knowledge.kb.search("pool old new", kb="global", k=20)).passages]
        assert sorted(shown) == ["# New\n\nx", "# Pool\n\nThe pool has 41."]
        again = (await knowledge.kb.sync("global", None))[0]
        assert (again.added, again.deleted, again.unchanged) == (0, 0, 2)
        source = (await knowledge.kb.sources("global", None))[0]
        assert source.last_commit == second
        assert await knowledge.kb.forget_source("global", None, source.source_id) == 2


@pytest.mark.own_stores
@pytest.mark.long
async def test_an_answer_states_the_commit_its_quotes_were_read_at(
    opens: Opens, writes: Writes, tmp_path: Path
) -> None:
    """X-30: nothing is fetched by a question; what it quotes stands in the commit that it names."""
    first = writes.commit({"pool.md": "# Pool\n\nThe connection pool of the api holds forty connections.\n"})
    async with opens(fetch=f"file://{tmp_path}", embedder=LocalEmbedder()) as knowledge:
        await knowledge.kb.add_source("global", None, NewSource(url=f"file://{writes.folder}"))
        await knowledge.kb.sync("global", None)
        await knowledge.kb.index()
        second = writes.commit({"other.md": "# Other\n\nNothing of it.\n"})
        answers = LocalAnswers(knowledge)
        asked = "How many connections does the connection pool of the api hold?"
        for _ in range(2):
            for told in (await answers.ask_base("global", None, asked), await answers.ask(asked)):
                assert [(each["commit"], each["quote"]) for each in told["citations"]] == [
                    (first, "The connection pool of the api holds forty connections.")
                ]
            strictly = await answers.query_knowledge_base(asked)
            assert [source["commit"] for source in strictly["sources"]] == [first]
            assert (await knowledge.kb.sync("global", None))[0].commit == second, "what did not change, stays"


@pytest.mark.parametrize("url", ["https://git.example.org/acme/handbook.git", "file:///srv/handbook/"])
@pytest.mark.parametrize("commit", ["0" * 39 + "a", "0" * 63 + "b"])
def test_the_commit_of_a_link_is_the_one_it_was_made_of(url: str, commit: str) -> None:
    """X-30."""
    assert commit_of(link_of(url, commit, "docs/a b@c#d.md")) == commit
    for other in (None, "", "https://wiki.example.org/page", f"https://x.example/{commit}", url):
        assert commit_of(other) is None


async def test_a_repository_that_cannot_be_fetched_says_so_and_changes_nothing(
    opens: Opens, writes: Writes, tmp_path: Path
) -> None:
    """A1-03: a clean error."""
    writes.commit({"pool.md": "# Pool\n\nThe pool has 40.\n"})
    async with opens(fetch=f"file://{tmp_path}") as knowledge:
        await knowledge.kb.add_source("global", None, NewSource(url=f"file://{writes.folder}"))
        await knowledge.kb.sync("global", None)
        await knowledge.kb.index()
        writes.folder.rename(tmp_path / "elsewhere")
        report = (await knowledge.kb.sync("global", None))[0]
        assert report.error is not None
        assert report.error.startswith(f"file://{writes.folder} cannot be fetched")
        assert "Traceback" not in report.error
        assert (await knowledge.kb.sources("global", None))[0].last_error == report.error
        assert (await knowledge.kb.search("the pool", kb="global")).passages


async def test_links_in_a_repository_are_passed_over(opens: Opens, writes: Writes, tmp_path: Path) -> None:
    """T16."""
    (writes.folder / "secret.md").symlink_to("/etc/passwd")
    porcelain.add(writes.repo, [str(writes.folder / "secret.md")])
    writes.commit({"pool.md": "# Pool\n"})
    async with opens(fetch=f"file://{tmp_path}") as knowledge:
        await knowledge.kb.add_source("global", None, NewSource(url=f"file://{writes.folder}"))
        await knowledge.kb.sync("global", None)
        assert [each.uri for each in await knowledge.kb.list_documents("global", None)] == ["handbook/pool.md"]


class Interrupted:
    """Repositories; before a file of one is read, something else happens once."""

    def __init__(self, real: Repositories, at: int, otherwise: Callable[[], Awaitable[Any]]) -> None:
        self.real, self.at, self.otherwise = real, at, otherwise

    async def forget(self, source_id: SourceId) -> None:
        await self.real.forget(source_id)

    @asynccontextmanager
    async def fetch(self, source: Source) -> AsyncIterator[tuple[str, Repository]]:
        async with self.real.fetch(source) as (commit, repository):
            self.repository = repository
            yield commit, self

    async def files(self) -> list[TreeFile]:
        return await self.repository.files()

    async def content(self, mark: str) -> bytes:
        self.at -= 1
        if self.at == 0:
            await self.otherwise()
        return await self.repository.content(mark)


@pytest.mark.parametrize("at", [1, 2])
async def test_a_source_that_is_deleted_while_it_is_synced_leaves_nothing(
    opens: Opens, writes: Writes, tmp_path: Path, at: int
) -> None:
    """And what is synced beside it is synced."""
    writes.commit({"a.md": "# A\n\nOne.\n", "b.md": "# B\n\nTwo.\n"})
    with Repo.init(str(tmp_path / "other"), mkdir=True) as repo:
        (tmp_path / "other/c.md").write_text("# C\n\nThree.\n")
        porcelain.add(repo, [str(tmp_path / "other/c.md")])
        porcelain.commit(repo, message=b"x", author=WHO, committer=WHO)
    async with opens(fetch=f"file://{tmp_path}") as knowledge:
        scope, syncing = await writable(knowledge), knowledge.documents.syncing
        source = await syncing.add(NewSource(url=f"file://{writes.folder}"), scope)
        await syncing.add(NewSource(url=f"file://{tmp_path}/other"), scope)
        interrupted = Interrupted(syncing.repositories, at, lambda: syncing.forget(scope, source.source_id))
        gone, other = await replace(syncing, repositories=interrupted).sync(scope)
        assert gone.error == f"the source {source.source_id} was deleted: nothing more is taken from it"
        assert (other.added, other.error) == (1, None)
        assert [each.uri for each in await knowledge.kb.list_documents("global", None)] == ["other/c.md"]
        assert not list(knowledge.settings.home.rglob(f"{source.source_id}*"))


async def test_a_source_that_is_synced_while_it_is_deleted_leaves_nothing(
    opens: Opens, writes: Writes, tmp_path: Path
) -> None:
    writes.commit({"a.md": "# A\n\nOne.\n", "b.md": "# B\n\nTwo.\n"})
    async with opens(fetch=f"file://{tmp_path}") as knowledge:
        scope, syncing = await writable(knowledge), knowledge.documents.syncing
        source = await syncing.add(NewSource(url=f"file://{writes.folder}"), scope)

        class Late(PostgresSources):
            """Deletes once a job has synced."""

            async def delete(self, partition: str, source_id: SourceId) -> int:
                await syncing.sync(scope)
                return await super().delete(partition, source_id)

        late = Late(knowledge.engine, knowledge.workspace)
        assert await replace(syncing, store=late).forget(scope, source.source_id) == 2
        assert await knowledge.kb.list_documents("global", None) == []


async def test_what_was_deleted_with_a_user_is_not_fetched_again(opens: Opens, writes: Writes, tmp_path: Path) -> None:
    """The copy of the repository goes, too."""
    writes.commit({"a.md": "# A\n\nOne of Ann's.\n"})
    async with opens(fetch=f"file://{tmp_path}") as knowledge:
        source = await knowledge.kb.add_source("user", "ann", NewSource(url=f"file://{writes.folder}"))
        assert await run_job(knowledge, "sync", once_per_slot=False) == 1
        assert list(knowledge.settings.home.rglob(f"{source.source_id}*"))
        assert await knowledge.kb.delete_user("ann") == 1
        assert not list(knowledge.settings.home.rglob(f"{source.source_id}*"))
        assert await knowledge.kb.sources("user", "ann") == []
        assert await run_job(knowledge, "sync", once_per_slot=False) == 0
        assert await knowledge.kb.list_documents("user", "ann") == []


async def test_a_closed_case_keeps_no_copy_of_a_repository_and_takes_none(
    opens: Opens, writes: Writes, home: Path, tmp_path: Path
) -> None:
    """A0-33, T25: what was fetched for a case goes with it, at once or when its retention is over."""
    writes.commit({"pool.md": "# Pool\n\nThe pool has 40.\n"})
    new = NewSource(url=f"file://{writes.folder}")
    async with opens(fetch=f"file://{tmp_path}") as knowledge:
        for case in ("7", "8"):
            await knowledge.kb.add_source("case", case, new)
            await knowledge.kb.sync("case", case)
        assert len(list((home / "git").iterdir())) == 2
        assert await knowledge.kb.close_case("7") == 1
        (other,) = await knowledge.kb.sources("case", "8")
        assert [copy.name for copy in (home / "git").iterdir()] == [str(other.source_id)]
        with pytest.raises(Conflict, match="case_7 is closed"):
            await knowledge.kb.add_source("case", "7", new)
        await knowledge.documents.library.documents.close("case_8", keep_for=timedelta(microseconds=1))
        assert await run_job(knowledge, "sweep_cases", once_per_slot=False) == 1
        assert list((home / "git").iterdir()) == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"subdir": "dosc"}, "subdir: no file below dosc/ is of a kind that hardwon reads"),
        ({"subdir": "docs", "globs": ("*.rst",)}, "subdir: no file below docs/ matches *.rst"),
    ],
)
async def test_a_source_that_nothing_is_taken_from_says_so(
    opens: Opens, writes: Writes, tmp_path: Path, wrong: dict[str, Any], says: str
) -> None:
    writes.commit({"docs/pool.md": "# Pool\n\nThe pool has 40.\n"})
    async with opens(fetch=f"file://{tmp_path}") as knowledge:
        source = await knowledge.kb.add_source("global", None, NewSource(url=f"file://{writes.folder}", **wrong))
        (report,) = await knowledge.kb.sync("global", None)
        assert (report.error or "").startswith(says)
        assert f"hardwon kb delete --source {source.source_id}" in (report.error or "")
        assert [each.last_error for each in await knowledge.kb.sources("global", None)] == [report.error]


def folders_in_folders(repo: Repo) -> ObjectID:
    """Return a tree of ten objects that is ten thousand million folders deep down."""
    tree = Tree()
    for _ in range(10):
        repo.object_store.add_object(tree)
        outer = Tree()
        for number in range(10):
            outer.add(f"d{number}".encode(), 0o040000, tree.id)
        tree = outer
    repo.object_store.add_object(tree)
    return tree.id


@pytest.mark.long
async def test_t15_a_repository_that_is_none_to_read_stops_no_other(
    opens: Opens, writes: Writes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tag of a file, and a tree that never ends where it is walked."""
    monkeypatch.setattr(git_repositories, "_MAX_ENTRIES", 20_000)  # the shipped limit takes ten seconds to reach
    writes.commit({"a.md": POOL})
    bad = Writes(tmp_path / "bad")
    bad.commit({"a.md": POOL})
    repo = bad.repo
    blob = Blob.from_string(b"no commit")
    repo.object_store.add_object(blob)
    porcelain.tag_create(repo, "file", author=WHO, message=b"a file", annotated=True, objectish=blob.id)
    repo.refs[Ref(b"refs/heads/deep")] = repo.get_worktree().commit(
        b"deep", committer=WHO, author=WHO, tree=folders_in_folders(repo), ref=None
    )
    monkeypatch.setattr(git_repositories, "_MAX_PATH_BYTES", 1_000_000)
    bottom = Tree()
    repo.object_store.add_object(bottom)
    inner = bottom.id
    for _ in range(100):
        tree = Tree()
        tree.add(b"n" * 250, 0o040000, inner)
        repo.object_store.add_object(tree)
        inner = tree.id
    repo.refs[Ref(b"refs/heads/long")] = repo.get_worktree().commit(
        b"long", committer=WHO, author=WHO, tree=inner, ref=None
    )
    async with opens(fetch=f"file://{tmp_path}") as knowledge:
        await knowledge.kb.add_source("global", None, NewSource(url=f"file://{writes.folder}"))
        for branch, says in (
            ("long", "holds paths of more than 1,000,000 bytes together"),
            ("file", "its branch or tag is not a commit"),
            ("deep", "holds more than 20,000 files and folders"),
        ):
            await knowledge.kb.add_source("global", None, NewSource(url=f"file://{bad.folder}", branch=branch))
            reports = await knowledge.kb.sync("global", None)
            assert [(each.error or "").rsplit(": ")[-1] for each in reports] == [says, ""]
        assert [each.uri for each in await knowledge.kb.list_documents("global", None)] == ["handbook/a.md"]
    repo.close()


class _Unauthorised(BaseHTTPRequestHandler):
    """What a forge answers of a repository that is not there, or not for everybody."""

    def do_GET(self) -> None:
        """Ask for a password."""
        self.send_response(401)
        self.send_header("WWW-Authenticate", "Basic realm=git")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def set_git(writes: Writes, section: str, name: str, value: str) -> None:
    config = writes.repo.get_config()
    config.set((section,), name, value)
    config.write_to_path()


def of_another_format(writes: Writes) -> None:
    set_git(writes, "core", "repositoryformatversion", "1")
    set_git(writes, "extensions", "ofTomorrow", "true")


def with_a_torn_pack(writes: Writes) -> None:
    porcelain.gc(writes.repo, prune=True, grace_period=None)
    (pack,) = (writes.folder / ".git/objects/pack").glob("*.pack")
    pack.chmod(0o600)
    told = pack.read_bytes()
    pack.write_bytes(told[:12] + bytes(reversed(told[12:40])) + told[40:])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (of_another_format, "its format is not supported (ofTomorrow)"),
        (with_a_torn_pack, "a file of it is not whole"),
    ],
)
async def test_a_repository_that_git_cannot_read_stops_no_other(
    opens: Opens, writes: Writes, tmp_path: Path, spoil: Callable[[Writes], None], says: str
) -> None:
    writes.commit({"a.md": POOL})
    bad = Writes(tmp_path / "bad")
    bad.commit({"a.md": POOL})
    spoil(bad)
    bad.repo.close()
    async with opens(fetch=f"file://{tmp_path}") as knowledge:
        for each in (bad, writes):
            await knowledge.kb.add_source("global", None, NewSource(url=f"file://{each.folder}"))
        reports = await knowledge.kb.sync("global", None)
        assert [each.error for each in reports] == [f"file://{bad.folder} cannot be fetched: {says}", None]


def certified() -> ssl.SSLContext:
    """Return what serves with the certificate of a server on this machine, which nobody else trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(LOCALHOST)
    return context


@pytest.fixture
def forge(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve nothing but refusals over https; give the address."""
    monkeypatch.setenv("SSL_CERT_FILE", str(LOCALHOST))
    context = certified()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Unauthorised) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        serving = Thread(target=server.serve_forever, daemon=True)
        serving.start()
        yield f"https://localhost:{server.server_port}"
        server.shutdown()
        serving.join()


async def test_a_repository_that_a_forge_asks_a_password_for_is_told_so_and_stops_no_other(
    opens: Opens, writes: Writes, tmp_path: Path, forge: str
) -> None:
    """Forges answer so of a name that is mistyped, too."""
    writes.commit({"a.md": POOL})
    async with opens(fetch=f"{forge}/,file://{tmp_path}", fetch_inside=True) as knowledge:
        for url in (f"file://{writes.folder}", f"{forge}/team/mistyped"):
            await knowledge.kb.add_source("global", None, NewSource(url=url))
        fetched, refused = await knowledge.kb.sync("global", None)
        assert (fetched.error, fetched.added) == (None, 1)
        assert refused.error == (
            f"{forge}/team/mistyped cannot be fetched: it asks for a password: it does not exist, or is private; "
            "passwords are not sent"
        )


async def test_a_tag_with_a_note_is_cited_as_the_commit_it_is_of(opens: Opens, writes: Writes, tmp_path: Path) -> None:
    """No page of a forge shows a file at a tag's own name."""
    commit = writes.commit({"a.md": POOL, "a\nb.md": POOL})
    porcelain.tag_create(writes.repo, "v1", author=WHO, message=b"one", annotated=True)
    async with opens(fetch=f"file://{tmp_path}") as knowledge:
        await knowledge.kb.add_source("global", None, NewSource(url=f"file://{writes.folder}", branch="v1"))
        (report,) = await knowledge.kb.sync("global", None)
        assert (report.commit, report.added, report.unreadable, report.unchanged) == (commit, 1, 1, 0)
        (again,) = await knowledge.kb.sync("global", None)
        assert (again.commit, again.added, again.unreadable, again.unchanged) == (commit, 0, 1, 1)
        moved = writes.commit({"a.md": POOL + "More.\n"})
        porcelain.tag_delete(writes.repo, b"v1")
        porcelain.tag_create(writes.repo, "v1", author=WHO, message=b"two", annotated=True)
        (later,) = await knowledge.kb.sync("global", None)
        assert (later.error, later.commit, later.added) == (None, moved, 1)


async def test_a_repository_without_its_history_is_synced_as_any(opens: Opens, writes: Writes, tmp_path: Path) -> None:
    """As `git clone --depth 1` leaves it, where programs build."""
    for number in range(3):
        writes.commit({"a.md": f"{POOL}{number}\n"})
    shallow = tmp_path / "shallow"
    porcelain.clone(str(writes.folder), str(shallow), depth=1).close()
    assert (shallow / ".git/shallow").exists()
    async with opens(fetch=f"file://{tmp_path}") as knowledge:
        await knowledge.kb.add_source("global", None, NewSource(url=f"file://{shallow}"))
        (report,) = await knowledge.kb.sync("global", None)
        assert (report.error, report.added) == (None, 1)
        with Repo(str(shallow)) as repo:
            porcelain.pull(repo, str(writes.folder))
            (shallow / "b.md").write_text(POOL)
            porcelain.add(repo, [str(shallow / "b.md")])
            porcelain.commit(repo, message=b"more", author=WHO, committer=WHO)
        (report,) = await knowledge.kb.sync("global", None)
        assert (report.error, report.added, report.unchanged) == (None, 1, 1)


async def test_a_file_that_is_no_document_says_why(opens: Opens, writes: Writes, tmp_path: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
    writes.commit({"a.md": pointer, "b.pdf": pointer, "c.md": "# Large\n\n" + "words " * 2_600_000})
    async with opens(fetch=f"file://{tmp_path}") as knowledge:
        await knowledge.kb.add_source("global", None, NewSource(url=f"file://{writes.folder}"))
        (report,) = await knowledge.kb.sync("global", None)
        assert (report.added, report.unreadable) == (3, 3)
        lfs = "it is a Git LFS pointer: the file itself is stored elsewhere, and is not fetched"
        assert [each.error for each in await knowledge.kb.list_documents("global", None)] == [
            lfs,
            lfs,
            "it has 15 MB, more than the 15 MB that a document may have",
        ]


async def test_a_file_of_two_sources_is_new_once(opens: Opens, writes: Writes, tmp_path: Path) -> None:
    writes.commit({"docs/pool.md": "# Pool\n\nThe pool has 40.\n"})
    async with opens(fetch=f"file://{tmp_path}") as knowledge:
        for subdir in ("", "docs"):
            await knowledge.kb.add_source("global", None, NewSource(url=f"file://{writes.folder}", subdir=subdir))
        reports = await knowledge.kb.sync("global", None)
        assert sorted((each.added, each.unchanged) for each in reports) == [(0, 1), (1, 0)]
        for report in await knowledge.kb.sync("global", None):
            assert (report.added, report.unchanged, report.deleted) == (0, 1, 0)


async def test_two_repositories_of_one_name_share_no_document(opens: Opens, tmp_path: Path) -> None:
    """Whoever was there first keeps its uris, also when the other one is gone."""
    (tmp_path / "acme").mkdir()
    (tmp_path / "zeta").mkdir()
    acme, zeta = Writes(tmp_path / "acme/handbook"), Writes(tmp_path / "zeta/handbook")
    acme.commit({"README.md": "# Acme\n\nThe backup runs at midnight.\n"})
    zeta.commit({"README.md": "# Zeta\n\nTulips are planted in autumn.\n"})
    async with opens(fetch=f"file://{tmp_path}") as knowledge:
        first = await knowledge.kb.add_source("global", None, NewSource(url=f"file://{zeta.folder}"))
        await knowledge.kb.sync("global", None)
        await knowledge.kb.add_source("global", None, NewSource(url=f"file://{acme.folder}"))
        for added in ([1, 0], [0, 0]):
            assert [report.added for report in await knowledge.kb.sync("global", None)] == added
            documents = await knowledge.kb.list_documents("global", None)
            assert [(each.uri, each.title, each.version) for each in documents] == [
                ("acme/handbook/README.md", "Acme", 1),
                ("handbook/README.md", "Zeta", 1),
            ]
        await knowledge.kb.forget_source("global", None, first.source_id)
        assert [report.added for report in await knowledge.kb.sync("global", None)] == [0]
        assert [each.uri for each in await knowledge.kb.list_documents("global", None)] == ["acme/handbook/README.md"]
    acme.repo.close()
    zeta.repo.close()


async def test_a_copy_of_a_repository_that_goes_while_it_is_read_is_a_source_that_is_away(
    writes: Writes, tmp_path: Path
) -> None:
    writes.commit({"a.md": "# A\n"})
    source = source_of(f"file://{writes.folder}")
    async with GitRepositories(tmp_path / "copies").fetch(source) as (_, repository):
        with pytest.raises(SourceUnavailable, match="the next sync"):
            await repository.content("0" * 40)


async def test_a_repository_is_read_beside_what_else_goes_on(
    writes: Writes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of 200 MB takes seconds to unpack, in which nobody was answered."""
    writes.commit({"a.md": "# A\n", "long.md": "a line of many\n" * 100_000})
    read_in: list[Thread] = []
    read = Repo.__getitem__

    def noted(repo: Repo, name: Any) -> Any:
        read_in.append(current_thread())
        return read(repo, name)

    async with GitRepositories(tmp_path / "copies").fetch(source_of(f"file://{writes.folder}")) as (_, repository):
        monkeypatch.setattr(Repo, "__getitem__", noted)
        files = {file.path: file.mark for file in await repository.files()}
        told = await asyncio.gather(*(repository.content(mark) for mark in files.values()))
    assert sorted(map(len, told)) == [4, 1_500_000]
    assert len(read_in) >= 3
    assert current_thread() not in read_in


async def test_a_fetch_that_nobody_waits_for_any_more_is_over_before_the_next_one_begins(
    writes: Writes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread cannot be stopped: both wrote the same mirror."""
    writes.commit({"a.md": "# A\n"})
    begun, go, order = Event(), Event(), []
    fetch = GitRepositories._fetch

    def slowly(self: GitRepositories, source: Source) -> Any:
        begun.set()
        go.wait(10)
        order.append("fetched")
        return fetch(self, source)

    monkeypatch.setattr(GitRepositories, "_fetch", slowly)
    copies, source = GitRepositories(tmp_path / "copies"), source_of(f"file://{writes.folder}")

    async def read() -> int:
        async with copies.fetch(source) as (_, repository):
            order.append("read")
            return len(await repository.files())

    first = asyncio.create_task(read())
    await asyncio.to_thread(begun.wait, 10)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    begun.clear()
    second = asyncio.create_task(read())
    await asyncio.sleep(0.1)
    assert not begun.is_set()
    go.set()
    assert await second == 1
    assert order == ["fetched", "fetched", "read"]


def half_made(copy: Path) -> None:
    (copy / "HEAD").unlink()


def cut_short(copy: Path) -> None:
    for pack in (copy / "objects/pack").glob("*.pack"):
        pack.chmod(0o600)
        pack.write_bytes(pack.read_bytes()[:40])


@pytest.mark.parametrize("damaged", [half_made, cut_short])
async def test_a_copy_of_a_repository_that_is_not_whole_is_fetched_anew(
    opens: Opens, writes: Writes, home: Path, tmp_path: Path, damaged: Callable[[Path], None]
) -> None:
    """As a kill, a power cut or a full disk leaves it."""
    writes.commit({"pool.md": "# Pool\n\nThe pool has 40.\n"})
    async with opens(fetch=f"file://{tmp_path}") as knowledge:
        source = await knowledge.kb.add_source("global", None, NewSource(url=f"file://{writes.folder}"))
        await knowledge.kb.sync("global", None)
        damaged(home / "git" / str(source.source_id))
        (report,) = await knowledge.kb.sync("global", None)
        assert report.error in {None, "its local copy is gone: the next sync fetches it again"}
        (report,) = await knowledge.kb.sync("global", None)
        assert (report.error, report.unchanged) == (None, 1)


async def test_nothing_is_fetched_unless_the_settings_say_from_where(knowledge: Knowledge) -> None:
    """T15: off by default."""
    for url in ("https://github.com/a/b", "file:///etc"):
        with pytest.raises(InvalidInput, match="fetching is off"):
            await knowledge.kb.add_source("global", None, NewSource(url=url))


@case_by_case
def test_an_address_that_is_not_allowed_is_refused(url: str) -> None:
    """T15."""
    with pytest.raises(InvalidInput):
        check_url(url, ("https://git.example.org/team", "file:///srv/repos"))


def test_an_address_that_is_allowed_passes() -> None:
    """T15."""
    allowed = ("https://git.example.org/team", "file:///srv/repos")
    for url in ("https://git.example.org/team/a", "https://GIT.example.org/team/a.git", "file:///srv/repos/a"):
        assert check_url(url, allowed) == url


INSIDE = (
    "127.0.0.1 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 0.0.0.0 100.64.0.1 ::1 fe80::1 fd00::1 ::ffff:127.0.0.1"
    " 64:ff9b::7f00:1 2002:7f00:1:: 224.0.0.1 255.255.255.255 ::"
    " ::127.0.0.1 ::8.8.8.8 fec0::1 64:ff9b:1::7f00:1 64:ff9b:1::808:808 5f00::1 3fff::1 2606:4700::5efe:7f00:1"
    " 2606:4700::200:5efe:a00:1"
)


@pytest.mark.parametrize("address", INSIDE.split())
def test_internal_addresses_are_known_in_every_form(address: str) -> None:
    """T15."""
    assert is_inside([address])
    assert not is_inside(["140.82.112.3", "2606:4700::1111", "64:ff9b::8c52:7003", "::ffff:140.82.112.3"])


async def test_a_connection_that_leads_inside_is_closed_before_anything_is_sent(tmp_path: Path) -> None:
    """T15: whatever the name meant when it was looked up."""
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(100))
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    source = source_of(f"https://localhost:{port}/a")
    with pytest.raises(SourceUnavailable, match="internal addresses are not fetched"):
        async with GitRepositories(tmp_path).fetch(source):
            pass
    await asyncio.sleep(0.05)
    server.close()
    assert [told for told in heard if told] == []
