"""What is quoted without a model: the block that answers, whole and readable, and nothing where a word is missing."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.documents.models import Answer, AnswerStatus
from knowledge.wiring.open import Knowledge
from orchestrator.cli.reports.answer_report import LocalAnswers
from orchestrator.qa.wrappers import AnswerFromGlobalKB
from tests.conftest import Opens
from tests.support.cases import each_case, load_tables, over, read_sample
from tests.support.documents import ADMIN, put

STATION = read_sample("documents_quoted_station.txt")
GAUGES = """# Gauges

| gauge | shows | read by |
| --- | --- | --- |
| pressure gauge | 4 bar at most, else the valve closes | hand |
| level gauge | 2 m at least, else it opens | hand |
"""
SENTENCE = "Only the controller reads the pressure gauge; operators never do."
WHO = "Who reads the pressure gauge?"


@pytest.fixture
async def plant(opens: Opens) -> AsyncIterator[Knowledge]:
    async with opens(embedder=LocalEmbedder()) as opened:
        await put(opened, "README.md", STATION.encode())
        await put(opened, "gauges.md", GAUGES.encode())
        await opened.documents.indexing.run()
        yield opened


async def ask(knowledge: Knowledge, question: str) -> Answer:
    answer = await AnswerFromGlobalKB(knowledge.answering, ADMIN).answer(None, question)
    assert answer.status is AnswerStatus.ANSWERED, answer
    return answer


@pytest.mark.long
async def test_the_sentence_that_answers_is_quoted_with_its_place(plant: Knowledge) -> None:
    answer = await ask(plant, "Do operators read the pressure gauge?")
    assert answer.claims[0].text == SENTENCE
    assert (answer.citations[0].uri, answer.citations[0].section) == ("README.md", "Pump station")
    assert STATION.split("\n")[(answer.citations[0].line_start or 0) - 1] == SENTENCE


@pytest.mark.long
async def test_an_answer_in_a_row_is_told_with_the_names_of_its_columns_and_quoted_as_it_stands(
    plant: Knowledge,
) -> None:
    answer = await ask(plant, "What is the default of PUMP_RATE?")
    assert [claim.text for claim in answer.claims] == [
        "variable: `PUMP_RATE`; default: 40; litres in a second, at most"
    ]
    assert [each.quote for each in answer.citations] == ["| `PUMP_RATE` | 40 | litres in a second, at most |"]


@pytest.mark.long
async def test_an_example_of_the_question_is_no_answer(plant: Knowledge) -> None:
    answer = await ask(plant, WHO)
    assert not any(WHO in claim.text for claim in answer.claims)


@pytest.mark.long
async def test_the_sentence_that_matched_is_marked_in_its_block(plant: Knowledge) -> None:
    answer = await ask(plant, "Is it run day and night?")
    [citation] = answer.citations
    assert citation.marked is not None
    assert citation.quote[slice(*citation.marked)] == "This is how it is run, day and night."
    assert citation.quote.startswith("It moves the water of two villages.")


@pytest.mark.long
async def test_a_word_that_nothing_found_holds_is_named_and_the_nearest_block_is_offered(plant: Knowledge) -> None:
    answer = await AnswerFromGlobalKB(plant.answering, ADMIN).answer(None, "Who reads the pressure gauge in Oslo?")
    assert (answer.status, answer.lacking) == (AnswerStatus.NOT_FOUND, ("Oslo",))
    assert answer.nearest is not None
    assert "pressure gauge" in answer.nearest.quote
    assert not answer.citations
    assert 'Nothing here says "Oslo".' in answer.text


@pytest.mark.long
async def test_every_door_answers_and_refuses_alike(plant: Knowledge) -> None:
    """The fallback of document selection had a threshold of its own, which was measured for other vectors."""
    doors = LocalAnswers(plant)
    for question in (WHO, "What is the default of PUMP_RATE?", "Who reads the pressure gauge in Oslo?"):
        asked = await doors.ask_base("global", None, question)
        selected = await doors.ask(question)
        assert asked["status"] == selected["status"]
        assert asked["missing_words"] == selected["missing_words"]
        assert [each["quote"] for each in asked["citations"]] == [each["quote"] for each in selected["citations"]]


SMALL = ("api.md", "parcels.md", "pool.md", "restart.md")


@pytest.mark.long
async def test_small_documents_are_answered_with_whole_blocks_and_near_misses_are_declined(opens: Opens) -> None:
    async with opens(embedder=LocalEmbedder()) as opened:
        for name in SMALL:
            await put(opened, name, read_sample(f"documents_quoted_{name.removesuffix('.md')}.txt").encode())
        await opened.documents.indexing.run()
        tool = AnswerFromGlobalKB(opened.answering, ADMIN)
        wrong = []
        for question, told in load_tables("test_documents_quoted")["SMALL"]:
            answer = await tool.answer(None, question)
            said = "\n".join(claim.text for claim in answer.claims)
            if (answer.status is AnswerStatus.ANSWERED) != (told is not None) or (told or "") not in said:
                wrong.append((question, said, answer.lacking))
    assert not wrong


RELEASES = read_sample("documents_quoted_releases.txt")
SETTINGS = b"# The pump\nPUMP_TIMEOUT_MS=8000\nPUMP_RETRIES=5\nWELL_DEPTH_M=42\nWELL_KEEPER=ann\n"
QUEUES = """queues:
  - name: mails
    workers: 4
  - name: invoices
    workers: 2
"""
MANUAL = "# Osprey {version}\n\nThe default of `threads` is {threads}.\n"
FEES = "# Mooring fees {year}\n\nThe mooring fee of a barge is {fee} euros a night.\n"


@pytest.fixture
async def harbour(opens: Opens) -> AsyncIterator[Knowledge]:
    async with opens(embedder=LocalEmbedder()) as opened:
        await put(opened, "CHANGELOG.md", RELEASES.encode())
        await put(opened, "pump.env", SETTINGS)
        await put(opened, "queues.yaml", QUEUES.encode())
        for version, threads in (("3.8", 4), ("4.2", 16)):
            await put(opened, f"osprey-{version}.md", MANUAL.format(version=version, threads=threads).encode())
        for year, fee in ((2023, 12), (2025, 17)):
            await put(opened, f"fees-{year}.md", FEES.format(year=year, fee=fee).encode())
        await opened.documents.indexing.run()
        yield opened


@pytest.mark.long
@each_case
async def test_only_the_setting_version_or_year_that_is_asked_for_is_quoted(
    harbour: Knowledge, question: str, told: str, other: str
) -> None:
    """A setting was dropped as one word; a heading above the nearest one, or a bare year, told nothing apart."""
    answer = await ask(harbour, question)
    text = "\n".join(claim.text for claim in answer.claims)
    assert told in text
    assert other not in text


@pytest.mark.long
@over("question", ["Which glibc does the pump need in 3.9.0?", "What was the mooring fee of a barge in 2024?"])
async def test_another_version_or_year_than_is_there_is_not_answered_from_those_that_are(
    harbour: Knowledge, question: str
) -> None:
    answer = await AnswerFromGlobalKB(harbour.answering, ADMIN).answer(None, question)
    assert answer.status is AnswerStatus.NOT_FOUND


CARDS = """# Fastcard

The sandbox of Fastcard is reset every Sunday at 02:00 UTC.

Fastcard settles payments two days after they were made.
"""


@pytest.mark.long
async def test_a_follow_up_is_not_answered_with_what_was_told_before(opens: Opens) -> None:
    """It is searched below the question before it, whose answer was nearest to both."""
    asked = "Fastcard: When is its sandbox reset?"
    async with opens(embedder=LocalEmbedder()) as opened:
        await put(opened, "fastcard.md", CARDS.encode())
        await opened.documents.indexing.run()
        tool = AnswerFromGlobalKB(opened.answering, ADMIN)
        first = await tool.answer(None, asked)
        said = [{"role": "user", "content": asked}, {"role": "assistant", "content": first.text}]
        then = await tool.answer(None, "And when does it settle payments?", conversation=said)
        again = await tool.answer(None, "And when is its sandbox reset?", conversation=said)
    assert [claim.text[:19] for claim in then.claims] == ["Fastcard settles pa"]
    assert any("02:00" in claim.text for claim in again.claims)


async def test_what_is_told_before_a_question_is_no_condition_of_its_answer(opens: Opens) -> None:
    asked = "We moved to a new box at Hetzner on Monday. When is the sandbox of Fastcard reset?"
    async with opens(embedder=LocalEmbedder()) as opened:
        await put(opened, "fastcard.md", CARDS.encode())
        await opened.documents.indexing.run()
        answer = await AnswerFromGlobalKB(opened.answering, ADMIN).answer(None, asked)
    assert any("Sunday" in claim.text for claim in answer.claims)
