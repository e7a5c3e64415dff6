"""No secret is stored, logged, or reaches the embedding endpoint, whatever way a text comes in."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from hardwon.errors import InvalidInput
from knowledge import EntryType, NewEntry
from knowledge.adapters.postgres.memory_tables import metadata
from knowledge.models import AppliesWhen, CaptureOutcome
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from tests.conftest import SetClock
from tests.support.openai_server import OpenAIServer
from tests.support.secrets import Planted, planted, surviving

TOKEN = "gh" + "p_" + "Ab3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ5"
OTHER = "gh" + "p_" + "Zb3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ5"
HIDDEN = "[redacted:github-token]"


@pytest.fixture
def endpoint() -> Iterator[OpenAIServer]:
    with OpenAIServer(dims=64) as server:
        yield server


@asynccontextmanager
async def opened(
    settings: KnowledgeSettings, endpoint: OpenAIServer, clock: SetClock, *, redaction: bool = True
) -> AsyncIterator[Knowledge]:
    """Open the stores as an operator with an endpoint would."""
    remote = {
        "embedding_model": "some-model",
        "embedding_base_url": endpoint.base_url,
        "embedding_api_key": SecretStr(endpoint.key),
        "redaction": redaction,
    }
    async with open_knowledge(settings.model_copy(update=remote), clock=clock) as knowledge:
        yield knowledge


def failure(text: str, **told: object) -> NewEntry:
    given: dict[str, object] = {
        "project_id": "web-shop",
        "agent_type": "backend",
        "solution_steps": "restart it",
        "success_verified": True,
    }
    return NewEntry(entry_type=EntryType.FAILURE_SOLUTION, failure_description=text, **given | told)  # type: ignore[arg-type]


def as_entry(number: int, secret: Planted) -> NewEntry:
    """Put a text into one field after the other."""
    plain = f"step {number} fails"
    match number % 5:
        case 0:
            return failure(secret.text)
        case 1:
            return failure(plain, error_message=secret.text, task_description=secret.text)
        case 2:
            return failure(plain, solution_steps=secret.text, when_to_try=secret.text)
        case 3:
            return NewEntry(
                entry_type=EntryType.GATE_REJECTION,
                project_id="web-shop",
                gate_type="review",
                proposal=secret.text,
                human_feedback=secret.text,
                revision_approach=secret.text,
            )
        case _:
            return NewEntry(
                entry_type=EntryType.GATE_APPROVAL,
                project_id="web-shop",
                gate_type="design",
                approved_approach=secret.text,
                proposal=secret.text,
            )


async def stored(knowledge: Knowledge) -> str:
    """Return every row of every table, as text."""
    rows = []
    async with knowledge.engine.connect() as connection:
        for table in metadata.sorted_tables:
            told = await connection.execute(sa.text(f'SELECT t::text FROM "{table.name}" t'))
            rows += list(told.scalars())
    return "\n".join(rows)


@pytest.mark.long
async def test_none_of_2000_planted_secrets_is_stored_logged_or_sent_to_the_endpoint(
    settings: KnowledgeSettings, endpoint: OpenAIServer, clock: SetClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = planted(2000, seed=11)
    async with opened(settings, endpoint, clock) as knowledge:
        answers = await knowledge.capture.capture_all([as_entry(n, each) for n, each in enumerate(secrets)])
        await knowledge.checkpoints.process_checkpoint("web-shop", "manual")
        for each in secrets[::13]:
            await knowledge.queries.query_for_failure(each.text, each.text)
            await knowledge.queries.query_for_task(each.text)
        kept = await stored(knowledge)
    assert {answer.outcome for answer in answers} <= {CaptureOutcome.ACCEPTED, CaptureOutcome.DUPLICATE}
    sent = "\n".join(text for batch in endpoint.batches for text in batch)
    assert len(endpoint.batches) > 100
    assert "[redacted:jwt]" in sent
    left = {name: surviving(secrets, text) for name, text in (("kept", kept), ("sent", sent), ("told", caplog.text))}
    for there in left.values():
        assert [each for each in there if each.structured] == []
        assert len(there) <= 0.05 * len(secrets)
    assert left["sent"] == left["kept"], "what is found is found everywhere"
    assert left["told"] == []


async def test_what_one_field_gives_away_as_a_secret_is_stored_with_no_other_field_of_the_entry(
    settings: KnowledgeSettings, endpoint: OpenAIServer, clock: SetClock
) -> None:
    made = "hunter2" + "!Xy-99"
    told = failure(f"login with {made} is refused", error_message=f"password={made}", task_description=f"use {made}")
    async with opened(settings, endpoint, clock) as knowledge:
        await knowledge.capture.capture(told)
        kept = await stored(knowledge)
    assert made not in kept
    assert kept.count("[redacted:password]") >= 3


async def test_without_redaction_all_of_it_is_stored_and_sent(
    settings: KnowledgeSettings, endpoint: OpenAIServer, clock: SetClock
) -> None:
    async with opened(settings, endpoint, clock, redaction=False) as knowledge:
        await knowledge.capture.capture(failure(f"push with {TOKEN} fails"))
        await knowledge.checkpoints.process_checkpoint("web-shop", "manual")
        assert TOKEN in await stored(knowledge)
    assert TOKEN in str(endpoint.batches)


@pytest.mark.long
async def test_what_was_stored_before_goes_to_the_endpoint_redacted_all_the_same(
    settings: KnowledgeSettings, endpoint: OpenAIServer, clock: SetClock
) -> None:
    async with opened(settings, endpoint, clock, redaction=False) as knowledge:
        await knowledge.capture.capture(failure(f"push with {TOKEN} fails"))
    async with opened(settings, endpoint, clock) as knowledge:
        report = await knowledge.checkpoints.process_checkpoint("web-shop", "manual")
    assert report.embedded == 1
    assert TOKEN not in str(endpoint.batches)
    assert HIDDEN in str(endpoint.batches)


@pytest.mark.long
async def test_what_was_stored_before_goes_to_a_chat_model_redacted(
    settings: KnowledgeSettings, clock: SetClock
) -> None:
    asked: list[str] = []

    def says(*told: str) -> str:
        asked.extend(told)
        return "{}"

    with OpenAIServer(dims=64, says=says) as endpoint:
        async with opened(settings, endpoint, clock, redaction=False) as knowledge:
            for number in range(3):
                failed = failure(f"push with {TOKEN} fails", task_id=f"T-{number}")
                await knowledge.capture.capture(failed)
            await knowledge.checkpoints.process_checkpoint("web-shop", "manual")
        chat = {
            "chat_model": "some-model",
            "chat_base_url": endpoint.base_url,
            "chat_api_key": SecretStr(endpoint.key),
        }
        async with opened(settings.model_copy(update=chat), endpoint, clock) as knowledge:
            await knowledge.checkpoints.process_all(distill=True)
    assert HIDDEN in str(asked)
    assert TOKEN not in str(asked)


async def test_a_secret_in_the_expression_of_a_condition_is_refused_by_its_kind(knowledge: Knowledge) -> None:
    with pytest.raises(InvalidInput) as refused:
        await knowledge.capture.capture(failure("it broke", applies_when=AppliesWhen(error=f"bad {TOKEN}")))
    assert refused.value.field == "applies_when"
    assert refused.value.reason == "error contains what looks like a secret (github-token): remove it"
    assert "it broke" not in await stored(knowledge)


@pytest.mark.long
async def test_questions_of_every_kind_reach_the_endpoint_redacted(
    settings: KnowledgeSettings, endpoint: OpenAIServer, clock: SetClock
) -> None:
    async with opened(settings, endpoint, clock) as knowledge:
        await knowledge.capture.capture(failure("push fails"))
        await knowledge.checkpoints.process_checkpoint("web-shop", "manual")
        await knowledge.queries.query_for_task(f"push with {TOKEN}")
        await knowledge.queries.query_for_failure("push fails", f"bad {TOKEN}")
        await knowledge.queries.query_for_gate("review", f"use {TOKEN}")
        await knowledge.queries.query_for_task("word " * 1599 + TOKEN + " word" * 3999 + f" {TOKEN}")
        log = "\n".join(f"INFO page {n} of the catalogue was sent with x7Kq9vT2" for n in range(40))
        await knowledge.queries.query_for_failure("x7Kq9vT2 is refused", f"password=x7Kq9vT2\n{log}")
    assert "x7Kq9vT2" not in str(endpoint.batches), "what an error gives away is taken out of the description as well"
    assert str(endpoint.batches).count(HIDDEN) == 4
    assert TOKEN[:8] not in str(endpoint.batches), "half of it neither, where the middle of a long question is left out"


async def test_a_repeat_with_another_token_is_a_duplicate(knowledge: Knowledge) -> None:
    first = await knowledge.capture.capture(failure(f"push with {TOKEN} fails", idempotency_key="k"))
    again = await knowledge.capture.capture(failure(f"push with {OTHER} fails", idempotency_key="k"))
    assert again == first


async def test_the_resolution_of_a_failure_is_redacted_and_may_be_told_again(knowledge: Knowledge) -> None:
    entry_id = await knowledge.capture.capture(failure("push fails", solution_steps=None, success_verified=False))
    for _ in range(2):
        await knowledge.capture.resolve_failure(
            entry_id,
            solution_steps=f"git config token {TOKEN}",
            verified_by=f"GH={TOKEN} gh auth",
            when_to_try=f"{TOKEN} expired",
        )
    kept = await knowledge.capture.get(entry_id)
    assert (kept.solution_steps, kept.verified_by) == (f"git config token {HIDDEN}", f"GH={HIDDEN} gh auth")
    assert kept.when_to_try == f"{HIDDEN} expired"


async def test_the_resolution_of_a_rejection_is_redacted(knowledge: Knowledge) -> None:
    rejected = await knowledge.capture.capture_gate_rejection(
        project_id="p", gate_type="review", human_feedback=f"{TOKEN} in the code"
    )
    await knowledge.capture.resolve_gate_rejection(
        rejected, revision_approach=f"not {TOKEN}", verified_by=TOKEN, when_to_try=f"when {TOKEN}"
    )
    assert TOKEN not in await stored(knowledge)


async def test_a_text_that_redaction_makes_too_long_is_refused_by_the_name_of_its_field(knowledge: Knowledge) -> None:
    mail = "a" + "@northwind.net "
    with pytest.raises(InvalidInput, match=r"^verified_by: has \d+ characters, more than the 500 allowed$"):
        await knowledge.capture.capture(failure("it broke", verified_by=mail * 33))
    assert "it broke" not in await stored(knowledge)


async def test_ids_are_kept_as_they_are(knowledge: Knowledge) -> None:
    mail = "jane" + "@northwind.net"
    entry_id = await knowledge.capture.capture(failure("it broke", task_id=mail, run_id=mail))
    kept = await knowledge.capture.get(entry_id)
    assert (kept.task_id, kept.run_id) == (mail, mail)
