"""What people get wrong: each is told in one sentence that names it and says what to do, and nothing is half stored."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest
from pydantic import SecretStr

from hardwon.errors import (
    EmbedderRejected,
    EmbedderUnavailable,
    HardwonError,
    IndexUnavailable,
    InvalidInput,
    InvalidSetting,
    StorageUnavailable,
    StoreIncompatible,
)
from knowledge import Task
from knowledge.models import Context, ContextId, PatternId
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from orchestrator import OrchestratorContextBuilder, connect
from orchestrator.connection import AnyKnowledge
from orchestrator.observability.logging import configure_logs
from tests.conftest import Opens
from tests.support.cases import case_by_case
from tests.support.entries import failure, pattern
from tests.support.folders import end_owner
from tests.support.openai_server import OpenAIServer, Status
from tests.support.processes import Commands, embedding_by, free_port


async def fail(knowledge: AnyKnowledge, description: str = "it broke") -> None:
    await knowledge.capture.capture(failure(project_id="p", failure_description=description))


async def refusal(settings: KnowledgeSettings) -> HardwonError:
    """Return the error that opening stores raises."""
    with pytest.raises(HardwonError) as refused:
        async with connect(settings):
            pass
    said = str(refused.value)
    assert len(said.splitlines()) == 1
    assert "Traceback" not in said
    return refused.value


def at_postgres(home: Path, address: str) -> KnowledgeSettings:
    return KnowledgeSettings(home=home, database_url=SecretStr(address))


@case_by_case
async def test_an_invalid_setting_is_named_before_anything_is_opened(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv("HARDWON_HOME", str(home))
    monkeypatch.setenv(f"HARDWON_{variable}", value)
    with pytest.raises(InvalidSetting) as refused:
        async with connect():
            pass
    assert refused.value.field == f"HARDWON_{variable}"
    assert len(str(refused.value).splitlines()) == 1
    assert "sesame" not in str(refused.value)
    assert os.listdir(home) == []  # noqa: PTH208 - of a path this is no wait


def test_a_command_names_an_invalid_setting(home: Path) -> None:
    for variable, value in (("HARDWON_RETENTION", "1 fortnight"), ("HARDWON_LOG_LEVEL", "loud")):
        assert Commands(home).refused("stats", **{variable: value}).startswith(f"{variable}: ")


@pytest.mark.long
async def test_a_postgres_that_cannot_be_used_is_told_with_the_setting_and_what_is_wrong(
    home: Path, postgres_dsn: str
) -> None:
    for address, named in (
        (f"postgresql://u:sesame@127.0.0.1:{free_port()}/db", "127.0.0.1"),
        ("postgresql://u:sesame@no.such.host.invalid/db", "Name or service not known"),
        (postgres_dsn.replace("/postgres?", "/atlantis?"), "atlantis"),
        (postgres_dsn.replace("hardwon@", "poseidon@"), "poseidon"),
    ):
        refused = await refusal(at_postgres(home, address))
        assert isinstance(refused, StorageUnavailable)
        assert named in str(refused)
        assert "HARDWON_DATABASE_URL" in str(refused)
        assert "sesame" not in str(refused)


async def test_something_else_than_postgres_is_told_with_the_setting(home: Path) -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        refused = await refusal(at_postgres(home, f"postgresql://u@127.0.0.1:{port}/db"))
    assert isinstance(refused, StorageUnavailable)
    assert "HARDWON_DATABASE_URL" in str(refused)


@pytest.mark.parametrize("where", ["file", "file/below", "/proc/hardwon", "a" * 300])
async def test_a_data_directory_that_cannot_be_one_is_named(home: Path, where: str) -> None:
    (home / "file").write_text("mine")
    place = home / where
    refused = await refusal(KnowledgeSettings(home=place))
    assert isinstance(refused, StorageUnavailable)
    assert str(place) in str(refused)
    assert "HARDWON_HOME" in str(refused)
    with pytest.raises(StorageUnavailable):
        async with open_knowledge(KnowledgeSettings(home=place)):
            pass
    assert (home / "file").read_text() == "mine"


@pytest.fixture
def endpoint() -> Iterator[OpenAIServer]:
    with OpenAIServer(dims=64) as server:
        yield server


def embedded_by(settings: KnowledgeSettings, server: OpenAIServer, **changed: object) -> KnowledgeSettings:
    told = {name.removeprefix("HARDWON_").lower(): value for name, value in embedding_by(server).items()}
    told["embedding_api_key"] = SecretStr(told["embedding_api_key"])  # type: ignore[assignment]
    return settings.model_copy(update=told | changed)


async def counts(knowledge: AnyKnowledge) -> tuple[dict[str, int], int]:
    stats = await knowledge.stats()
    return dict(stats.entries), stats.patterns


@pytest.mark.long
@pytest.mark.parametrize(
    ("wrong", "kind", "says"),
    [
        ({"embedding_api_key": SecretStr("open-barley")}, EmbedderRejected, "HARDWON_EMBEDDING_API_KEY"),
        ({"embedding_base_url": "http://127.0.0.1:1/v1"}, EmbedderUnavailable, "HARDWON_EMBEDDING_BASE_URL"),
    ],
)
async def test_capture_goes_on_without_an_embedder_and_nothing_is_half_stored(
    settings: KnowledgeSettings, endpoint: OpenAIServer, wrong: dict[str, object], kind: type[HardwonError], says: str
) -> None:
    """G9 for the embedder: what is refused stays staged, and is embedded once the endpoint takes it."""
    async with connect(embedded_by(settings, endpoint, **wrong)) as knowledge:
        await fail(knowledge)
        with pytest.raises(kind, match=says) as refused:
            await knowledge.checkpoints.process_all()
        assert "barley" not in str(refused.value)
        assert await counts(knowledge) == ({"staged": 1}, 0)
    async with connect(embedded_by(settings, endpoint)) as knowledge:
        assert (await knowledge.checkpoints.process_all()).embedded == 1
        assert await counts(knowledge) == ({"embedded": 1}, 1)
    async with connect(embedded_by(settings, endpoint, **wrong)) as knowledge:
        with pytest.raises(kind, match=says):
            await knowledge.queries.query_for_failure("it broke")


@pytest.mark.long
async def test_an_endpoint_that_refuses_everything_kills_no_entry(
    settings: KnowledgeSettings, endpoint: OpenAIServer
) -> None:
    """G5: the wrong port, or a server that lost its model; the entries wait until it takes texts again."""
    async with connect(embedded_by(settings, endpoint)) as knowledge:
        for number in range(20):
            await fail(knowledge, f"it broke in case {number}")
        endpoint.always = Status(400, "The plain HTTP request was sent to HTTPS port")
        with pytest.raises(EmbedderRejected, match=r"refuses any text.*HARDWON_EMBEDDING_BASE_URL"):
            await knowledge.checkpoints.process_all()
        assert await counts(knowledge) == ({"staged": 20}, 0)
        endpoint.always = None
        assert (await knowledge.checkpoints.process_all()).embedded == 20


@pytest.mark.long
@pytest.mark.parametrize("odd", ["\0", "\ud800"], ids=ascii)
async def test_a_text_that_is_refused_in_words_that_postgres_cannot_hold_is_dead_alone(
    settings: KnowledgeSettings, endpoint: OpenAIServer, odd: str
) -> None:
    """G7: who refused it decides what the reason says."""
    async with connect(embedded_by(settings, endpoint)) as knowledge:
        await fail(knowledge, "POISON")
        await fail(knowledge, "it broke")
        endpoint.poison = "POISON"
        endpoint.refusal_of_poison = f"flagged{odd}by a filter"
        report = await knowledge.checkpoints.process_all()
        assert (report.embedded, report.dead) == (1, 1)
        (dead,) = await knowledge.upkeep.dead()
        assert dead.reason.endswith("flagged by a filter.")


@pytest.mark.long
async def test_a_task_that_the_endpoint_refuses_keeps_no_other_from_its_context(
    settings: KnowledgeSettings, endpoint: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """G11: the text of one task is flagged. Three of them rested every context, and the log said what they were."""
    configure_logs()
    endpoint.poison = "POISON"
    endpoint.refusal_of_poison = "not allowed: POISON of the harbour"
    async with connect(embedded_by(settings, endpoint, query_deadline_ms=10_000)) as knowledge:
        await fail(knowledge, "it broke")
        await knowledge.checkpoints.process_all()
        builder = OrchestratorContextBuilder(knowledge)
        for number in range(5):
            refused = await builder.build_context_for_task(Task(description=f"POISON {number}"), "coder")
            assert "refuses this text" in (refused.degraded or "")
        assert (await builder.build_context_for_task(Task(description="it broke"), "coder")).degraded is None
    assert "harbour" not in capsys.readouterr().err


@pytest.mark.long
async def test_capture_goes_on_without_qdrant_and_nothing_is_half_stored(
    settings: KnowledgeSettings, endpoint: OpenAIServer
) -> None:
    """G9, G10."""
    away = embedded_by(settings, endpoint, qdrant_url=f"http://127.0.0.1:{free_port()}")
    async with connect(away) as knowledge:
        await fail(knowledge)
        for work in (knowledge.checkpoints.process_all, knowledge.pruning.prune):
            with pytest.raises(IndexUnavailable, match="HARDWON_QDRANT_URL"):
                await work()
        await fail(knowledge, "it broke again")
        stats = await knowledge.stats()
        assert (dict(stats.entries), stats.points) == ({"staged": 2}, None)
    with pytest.raises(InvalidSetting, match="HARDWON_QDRANT_URL: is not set here"):
        async with connect(embedded_by(settings, endpoint)):
            pass
    end_owner(settings.home)
    async with connect(embedded_by(settings, endpoint)) as knowledge:
        assert (await knowledge.checkpoints.process_all()).embedded == 2
        assert (await knowledge.stats()).points == 2


@pytest.mark.long
async def test_a_schema_of_a_later_hardwon_is_refused_and_left_as_it_is(home: Path, database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("update alembic_version set version_num = '9999'")
        refused = await refusal(at_postgres(home, database_url))
        assert isinstance(refused, StoreIncompatible)
        assert "later hardwon" in str(refused)
        assert await connection.fetchval("select version_num from alembic_version") == "9999"
    finally:
        await connection.close()


@pytest.mark.long
def test_a_variable_that_is_no_setting_is_told_once_and_stops_nothing(home: Path) -> None:
    typed = {"HARDWON_TASK_RELEVENCE": "0.9", "HARDWON_XYZZY": "1", "HARDWON_EMBEDDING_MODEL": " "}
    commands = Commands(home, typed)
    for done in (commands.run("migrate", "--json"), commands.jobs("prune")):
        assert done.returncode == 0
        assert done.stderr.splitlines() == [
            "warning: HARDWON_TASK_RELEVENCE is not a setting of hardwon: did you mean HARDWON_TASK_RELEVANCE?",
            "warning: HARDWON_XYZZY is not a setting of hardwon: the documentation lists them all",
        ]


@pytest.mark.long
async def test_ids_that_are_too_long_for_one_key_are_refused_by_name_and_keep_no_other_out(opens: Opens) -> None:
    """Beyond the BMP a character has four bytes: Postgres refused the row, and the batch with it."""
    characters = random.Random(1)  # that Postgres can make no shorter

    def id_of(length: int) -> str:
        return "".join(chr(characters.randrange(0x20000, 0x2A000)) for _ in range(length))

    project_id, task_id, run_id = id_of(200), id_of(200), id_of(161)
    async with opens(workspace=id_of(90)) as knowledge:
        told = failure(project_id=project_id, task_id=task_id, run_id=run_id)
        with pytest.raises(InvalidInput, match=r"has 800 bytes, and workspace.* have 2,604 together, more than"):
            await knowledge.capture.capture(told)
        batch = [told, replace(told, run_id=run_id[1:]), failure(project_id=project_id)]
        answers = await knowledge.capture.capture_all(batch)
        assert [answer.outcome for answer in answers] == ["refused", "accepted", "accepted"]
        assert answers[0].field == "project_id"
        pattern_id = await found_after_a_checkpoint(knowledge)
        context = Context(context_id=ContextId(uuid4()), text="[...]", patterns=(pattern(pattern_id=pattern_id),))
        await knowledge.contexts.record(context, Task(description="Fix", project_id=project_id), "backend")
        tell = knowledge.outcomes.record_outcome
        with pytest.raises(InvalidInput, match="has 800 bytes"):
            await tell(context.context_id, pattern_id, worked=True, task_id=task_id, run_id=run_id)
        await tell(context.context_id, pattern_id, worked=True, task_id=task_id, run_id=run_id[1:])


async def found_after_a_checkpoint(knowledge: Knowledge) -> PatternId:
    await knowledge.checkpoints.process_all()
    (found,) = await knowledge.queries.query_for_failure("It broke", min_relevance=0)
    return found.pattern_id
