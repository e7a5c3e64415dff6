"""What is quoted without a model: the sentence that answers, before rows and commands; a row that answers, readable."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.documents.extraction import extractor, question_terms, sentence_scoring
from knowledge.documents.models import Answer, AnswerStatus
from knowledge.wiring.open import Knowledge
from orchestrator.qa.wrappers import AnswerFromGlobalKB
from tests.conftest import Opens
from tests.support.cases import each_case, over, read_sample
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


async def test_the_sentence_that_answers_is_quoted_and_no_row_and_no_example_of_the_question(
    plant: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = await ask(plant, WHO)
    assert answer.claims[0].text == SENTENCE
    assert not any(WHO in claim.text for claim in answer.claims)
    assert (answer.citations[0].uri, answer.citations[0].section) == ("README.md", "Pump station")
    assert STATION.split("\n")[(answer.citations[0].line_start or 0) - 1] == SENTENCE

    monkeypatch.setattr(question_terms.Question, "shows_question", lambda *_: False)
    monkeypatch.setattr(question_terms, "HANDICAPS", dict.fromkeys(question_terms.HANDICAPS, 0.0))
    monkeypatch.setattr(extractor, "READING", 0)
    assert any(WHO in claim.text for claim in (await ask(plant, WHO)).claims)


async def test_an_answer_in_a_row_is_told_with_the_names_of_its_columns_and_quoted_as_it_stands(
    plant: Knowledge,
) -> None:
    answer = await ask(plant, "What is the default of PUMP_RATE?")
    assert [claim.text for claim in answer.claims] == [
        "variable: `PUMP_RATE`; default: 40; litres in a second, at most"
    ]
    assert [each.quote for each in answer.citations] == ["| `PUMP_RATE` | 40 | litres in a second, at most |"]


@over("said", ["What is", "What's", "What\u2019s", "Show me what is", "Please tell us what's"])
async def test_a_question_is_answered_alike_however_it_is_said(plant: Knowledge, said: str) -> None:
    """A0-21: "What's my standard rollback procedure?" is an example of the tool's own description."""
    signs = [
        (await ask(plant, f"{begun} the pressure that the controller reads at the gauge?")).metrics["sign_beyond_title"]
        for begun in (said, "What is")
    ]
    assert signs[0] == signs[1] > 0


async def test_a_sentence_in_the_last_passage_that_was_found_is_quoted(
    plant: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        text = f"# Who reads the pressure gauge {number}\n\nIt hangs in hall {number}, behind the door.\n"
        await put(plant, f"list{number}.md", text.encode())
    await plant.documents.indexing.run()
    answer = await ask(plant, WHO)
    assert "README.md" not in {each.uri for each in answer.found[:3]}
    assert answer.claims[0].text == SENTENCE
    monkeypatch.setattr(sentence_scoring, "READ_PASSAGES", 3)
    monkeypatch.setattr(extractor, "READING", 0)
    without = await AnswerFromGlobalKB(plant.answering, ADMIN).answer(None, WHO)
    assert SENTENCE not in {claim.text for claim in without.claims}


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


async def test_a_follow_up_is_not_answered_with_what_was_told_before(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        monkeypatch.setattr(extractor, "not_told_before", lambda found, *_: list(range(len(found))))
        monkeypatch.setattr(extractor, "READING", 0)
        without = await tool.answer(None, "And when does it settle payments?", conversation=said)
    assert [claim.text[:19] for claim in then.claims] == ["Fastcard settles pa"]
    assert any("02:00" in claim.text for claim in again.claims)
    assert any("02:00" in claim.text for claim in without.claims)
