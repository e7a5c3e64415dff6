"""What a newcomer types: odd files, empty folders, questions too early. Each says what is wrong and what to do."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hardwon.errors import InvalidInput
from hardwon.models.documents import NewDocument
from knowledge.adapters.files.conversion import SubprocessConverter
from knowledge.documents.ingestion.service import MAX_BYTES
from knowledge.documents.parsing.decode import Unreadable
from knowledge.wiring.open import Knowledge
from orchestrator.cli.files.folders import files_at, files_of, read_contents
from orchestrator.cli.reports.answer_report import LocalAnswers, print_answer
from orchestrator.cli.reports.kb_report import FolderChanges, excerpt, print_added, print_passages
from orchestrator.client import KnowledgeClient
from tests.support.clients import client_of
from tests.support.documents import add
from tests.support.openai_server import OpenAIServer, Status
from tests.support.processes import Commands, embedding_by

POOL = "# Pool\n\nThe connection pool of the api holds forty connections.\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    (folder / "docs").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "docs/pool.md").write_text(POOL)
    (folder / "docs/odd.md").write_bytes(bytes(range(1, 256)) * 40)
    with (folder / "docs/huge.txt").open("wb") as huge:
        huge.truncate(50_000_000)
    (folder / "odd.xyz").write_text("Odd endings are read where they are named.\n")
    return folder


@pytest.fixture
def commands(database_url: str, home: Path) -> Iterator[Commands]:
    run = Commands(home, {"HARDWON_DATABASE_URL": database_url, "NO_COLOR": "1", "COLUMNS": "200"})
    with run.serving():
        yield run


@pytest.mark.long
@pytest.mark.timeout(300)
def test_what_a_newcomer_types_is_answered_in_words(commands: Commands, files: Path) -> None:
    """F7: hardwon kb."""
    early = commands.run("kb", "ask", "How many connections does the pool hold?")
    assert "No documents found" in early.stdout
    assert "hardwon kb add FILE" in early.stderr

    for paths, says in (
        (["nowhere"], "there is no file or folder nowhere"),
        ([""], "path: is empty: name a file, a folder or an address"),
        ([str(files / "empty")], "empty has no file of a supported format"),
        ([str(files / "docs"), "--title", "One"], "title: is of one file, these are 3"),
    ):
        refused = commands.run("kb", "add", *paths)
        assert refused.returncode == 1
        assert says in refused.stderr
        assert "Traceback" not in refused.stderr

    added = commands.run("kb", "add", str(files / "docs"), str(files / "odd.xyz"))
    assert added.returncode == 1
    assert "2 new or changed, 0 as before, 2 could not be read" in added.stdout
    assert "2 indexed, 0 failed" in added.stdout
    told = [line for line in added.stderr.splitlines() if "{" not in line]
    assert [line for line in told if not line.startswith("  ")] == ["Reading", "Indexing"], "a long wait is no silence"
    assert "docs/huge.txt: it has 50 MB, more than the 15 MB that a document may have" in added.stdout
    assert "docs/odd.md: not a text file, and not a supported format" in added.stdout

    answer = commands.run("kb", "ask", "How many connections does the connection pool hold?")
    assert answer.stdout.startswith("The connection pool of the api holds forty connections.")
    unknown = commands.run("kb", "ask", "Wer hat die Weltmeisterschaft gewonnen?")
    assert unknown.returncode == 0
    assert unknown.stdout.startswith('The knowledge base does not say. Nothing here says "Wer", "Weltmeisterschaft"')
    assert "hardwon kb search" in unknown.stderr


@pytest.mark.long
@pytest.mark.timeout(300)
def test_documents_whose_files_are_gone_are_named_and_deleted_where_that_is_asked_for(
    commands: Commands, files: Path
) -> None:
    """A folder that was added again kept answering from files that nobody had any more."""
    folder = files / "notes"
    (folder / "old").mkdir(parents=True)
    for name in ("stays.md", "goes.md", "old/goes.md"):
        (folder / name).write_text(f"# {name}\n\nThe note of {name}.\n")
    (files / "notes.md").write_text("A file beside the folder.\n")
    assert commands.run("kb", "add", str(folder), str(files / "notes.md")).returncode == 0
    (folder / "goes.md").unlink()
    (folder / "old/goes.md").unlink()
    kept = commands.run("kb", "add", str(folder))
    assert (kept.returncode, kept.stdout) == (0, "0 new or changed, 1 as before\n")
    assert "kept, though their files are gone: notes/goes.md, notes/old/goes.md (2 in all)" in kept.stderr
    deleted = commands.run("kb", "add", str(folder), "--delete-gone")
    assert "2 deleted, whose files are gone: notes/goes.md, notes/old/goes.md\n" in deleted.stdout
    left = json.loads(commands.run("kb", "list", "--json").stdout)["documents"]
    assert [each["uri"] for each in left] == ["notes.md", "notes/stays.md"]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_names_that_are_none_are_told_and_options_that_contradict_each_other_are_refused(
    commands: Commands, files: Path
) -> None:
    refused = commands.run("kb", "search", "pool", "--anywhere", "--case", "9")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--anywhere" in refused.stderr
    assert commands.run("kb", "add", str(files / "docs/pool.md"), str(files / "odd.xyz")).returncode == 0
    unknown = commands.run("kb", "delete", "pool.md", "nowhere.md")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "there is no nowhere.md here" in unknown.stderr
    assert commands.run("kb", "delete", "pool.md", "odd.xyz").stdout == "2 documents deleted\n"
    assert commands.run("kb", "add", str(files / "odd.xyz"), "--case", "9", "--no-wait").returncode == 0
    emptied = commands.run("kb", "delete", "--all", "--case", "9")
    assert (emptied.returncode, emptied.stdout) == (0, "1 document deleted\n")
    assert commands.run("kb", "add", str(files / "odd.xyz"), "--case", "9", "--no-wait").returncode == 0
    closed = commands.run("kb", "delete", "--all", "--case", "9", "--close")
    assert (closed.returncode, closed.stdout) == (0, "1 document deleted; case 9 is closed and takes no more\n")
    assert "is closed" in commands.run("kb", "add", str(files / "odd.xyz"), "--case", "9").stderr
    assert commands.run("kb", "delete", "odd.xyz", "--case", "8", "--close").returncode == 2


@pytest.mark.long
@pytest.mark.timeout(300)
def test_documents_wait_for_a_key_that_is_refused_to_be_mended_and_say_so(
    database_url: str, home: Path, files: Path
) -> None:
    with OpenAIServer() as server:
        commands = Commands(home, {"HARDWON_DATABASE_URL": database_url, "NO_COLOR": "1", **embedding_by(server)})
        with commands.serving():
            assert "1 indexed, 0 failed" in commands.run("kb", "add", str(files / "odd.xyz")).stdout
            server.always = Status(401)
            added = commands.run("kb", "add", str(files / "docs/pool.md"))
            assert "0 indexed, 0 failed, 1 put off" in added.stdout
            assert "HARDWON_EMBEDDING_API_KEY" in added.stdout
            listed = commands.run("kb", "list").stdout
            assert "pending  pool.md" in listed
            assert "HARDWON_EMBEDDING_API_KEY" in listed
            server.always = None
            again = commands.run("kb", "retry")
            assert (again.returncode, again.stdout) == (0, "1 document begun again: 1 indexed, 0 failed\n")


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_file_whose_name_no_document_may_have_stops_no_other(commands: Commands, files: Path) -> None:
    for name in (b"a\\b.md", b"a\nb.md", b"caf\xe9.md"):
        (Path(os.fsdecode(os.fsencode(files / "docs") + b"/" + name))).write_text(POOL)
    (files / "docs/huge.txt").unlink()
    added = commands.run("kb", "add", str(files / "docs"))
    assert added.returncode == 1
    assert "Traceback" not in added.stderr
    assert "2 new or changed, 0 as before, 3 could not be read" in added.stdout
    assert "docs/a\\b.md: name the file by a path without a leading '/', '..' or '\\'" in added.stdout
    told = json.loads(commands.run("kb", "list", "--json").stdout)["documents"]
    assert [(each["uri"], each["status"]) for each in told] == [
        ("docs/caf\ufffd.md", "indexed"),
        ("docs/odd.md", "failed"),
        ("docs/pool.md", "indexed"),
    ]
    refused = commands.run("kb", "search", os.fsdecode(b"caf\xe9"))
    assert refused.returncode == 1
    assert "q: holds a lone surrogate" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_files_that_would_get_one_name_are_refused_before_anything_is_added(files: Path) -> None:
    """The second would replace the first without a word."""
    for service in ("api", "web"):
        (files / service / "docs").mkdir(parents=True)
        (files / service / "docs/README.md").write_text(f"# {service}\n\nThe {service}.\n")
    for below in ("docs/README.md", "docs"):
        with pytest.raises(InvalidInput, match=r"api/docs/README.md and .*web/docs/README.md would both be"):
            files_at([files / "api" / below, files / "web" / below])
    same = files_at([files / "api", files / "web", files / "api", files / "web/../api"])
    assert [found.uri for found in same.taken] == ["api/docs/README.md", "web/docs/README.md"]


def test_what_is_left_out_of_a_folder_is_named_unless_it_is_added_itself(files: Path) -> None:
    for name in ("site/build/page.md", "notes.xyz", "site/README", "site/.git/config", "site/licence"):
        (files / name).parent.mkdir(parents=True, exist_ok=True)
        (files / name).write_text("The pool holds forty connections.\n")
    (files / "site/link").symlink_to(files / "docs")
    (files / "site/out.md").symlink_to("/etc/passwd")
    found = files_at([files / "site"])
    assert [each.uri for each in found.taken] == ["site/README", "site/licence"]
    assert [each.uri for each in found.left_out] == ["site/out.md", "site/build/", "site/link/"]
    named = files_at([files, files / "site/build", files / "notes.xyz"])
    assert {"build/page.md", "notes.xyz"} <= {each.uri for each in named.taken}
    assert [each.uri for each in named.left_out] == ["files/odd.xyz", "files/site/out.md", "files/site/link/"]


def test_what_is_left_out_of_folders_is_told_of_beside_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"docs/{number}.xyz" for number in range(1_200)]
    print_added([], None, left=FolderChanges(out=names), as_json=True)
    shown = capsys.readouterr()
    assert (json.loads(shown.out)["left_out"], shown.err) == (names, "")
    print_added([], None, left=FolderChanges(out=names), as_json=False)
    shown = capsys.readouterr()
    assert "left out" not in shown.out
    assert "docs/9.xyz, ... (1,200 files and folders in all)" in shown.err


CODE = """class Lease:
    async def beat(self) -> None:
        while True:
            await asyncio.sleep(1)
"""


@pytest.mark.long
async def test_what_a_document_says_to_terminals_is_not_said_to_them(
    knowledge: Knowledge, capsys: pytest.CaptureFixture[str]
) -> None:
    """An answer is read like a passage: colours, titles of windows and what clears the screen stay out."""
    await add(knowledge, "app.log", b"2025-10-19T14:00:00Z \x1b[31mERROR\x1b[0m gone\x1b]0;mine\x07\x1b[2J\n" * 3)
    print_answer(await LocalAnswers(knowledge).ask_base("global", None, "Show me all ERROR entries"), as_json=False)
    shown = capsys.readouterr()
    assert "3 ERROR entries" in shown.out
    assert not {"\x1b", "\x07", "\u202e"} & set(shown.out + shown.err)


@pytest.mark.long
async def test_code_is_shown_with_its_indentation(knowledge: Knowledge, capsys: pytest.CaptureFixture[str]) -> None:
    await add(knowledge, "leasing.py", CODE.encode())
    print_passages(await knowledge.kb.search("beat", kb="global"), as_json=False)
    assert "   async def beat(self) -> None:\n       while True:\n           await" in capsys.readouterr().out


def test_of_a_long_passage_that_is_shown_where_it_has_what_was_searched() -> None:
    """Chunks that touch come as one passage: what was found stood behind what was shown of it."""
    text = "The shed is locked.\n" * 40 + "    The garage code is 1212.\n" + "Keys hang in the hall.\n" * 40
    found = excerpt(text, "What is the code of the garage?")
    assert found.startswith("...\n    The garage code is 1212.\nKeys")
    assert found.endswith(" ...")
    assert excerpt(text, "Is the shed locked?") == f"{text[:600]} ..."
    in_a_line = excerpt("word " * 300 + "The garage code is 1212.", "garage code")
    assert in_a_line.endswith("The garage code is 1212.")
    assert excerpt("  short\n", "garage") == "short\n"


@pytest.fixture
async def client(knowledge: Knowledge) -> AsyncIterator[KnowledgeClient]:
    async with client_of(knowledge) as opened:
        yield opened


@pytest.mark.long
async def test_a_document_of_the_size_that_is_promised_goes_over_http(client: KnowledgeClient) -> None:
    """F7: what is larger than other requests may be is still a document."""
    text = ("The connection pool holds forty connections. " * 2_000).encode()
    parts = b"\n\n".join([text] * (MAX_BYTES // (len(text) + 2)))
    for size in (len(text) * 4, len(parts)):
        added = await client.kb.add("global", None, NewDocument(uri=f"{size}.txt", content=parts[:size]))
        assert (added.changed, added.document.error) == (True, None)
    over = await client.kb.add("global", None, NewDocument(uri="over.txt", content=parts + b" " * 1_000_000))
    assert "more than the 15 MB that a document may have" in (over.document.error or "")
    with pytest.raises(InvalidInput, match="has more than the 16,777,216 bytes allowed"):
        await client.kb.add("global", None, NewDocument(uri="far.txt", content=b" " * 17_000_000))


async def test_a_broken_file_is_told_of_without_the_names_of_our_libraries() -> None:
    with pytest.raises(Unreadable) as refused:
        await SubprocessConverter().convert("broken.pdf", b"%PDF-1.4 broken")
    assert "Error" not in str(refused.value)
    assert "kreuzberg" not in str(refused.value)


def test_a_folder_that_cannot_be_listed_is_told_of(files: Path) -> None:
    """Here as its path is too long; mostly as it is somebody else's."""
    names, at = ["a" * 250] * 17, os.open(files / "docs", os.O_RDONLY)
    for name in names:
        os.mkdir(name, dir_fd=at)
        at, above = os.open(name, os.O_RDONLY, dir_fd=at), at
        os.close(above)
    os.close(at)
    *found, deep = files_at([files / "docs"]).taken
    assert [each.uri for each in found] == ["docs/huge.txt", "docs/odd.md", "docs/pool.md"]
    assert deep.uri.startswith(f"docs/{names[0]}/")
    assert read_contents(deep.path) == "it cannot be read: File name too long"


def test_a_file_that_cannot_be_opened_stops_no_other(files: Path) -> None:
    (files / "docs/gone.md").symlink_to(files / "docs/pool.md")
    found = {each.uri: each.path for each in files_of(files / "docs").taken}
    assert list(found) == ["docs/gone.md", "docs/huge.txt", "docs/odd.md", "docs/pool.md"]
    (files / "docs/pool.md").unlink()
    assert read_contents(found["docs/pool.md"]) == "it cannot be read: No such file or directory"
