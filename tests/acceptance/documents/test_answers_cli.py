"""Asking by command, and measuring answers: on a folder of documents and questions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import criteria
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge
from orchestrator.evaluation.answer_quality import evaluate_answers
from tests.support.embedders import HashingEmbedder


def folder_of(path: Path) -> Path:
    corpus = [
        {"id": "a", "title": "Gateway", "text": "The gateway retries a request 3 times. It logs ERR-4521 then."},
        {"id": "b", "title": "Cache", "text": "The cache keeps an entry for 60 minutes. It is cleared by hand."},
    ]
    questions = [
        {"id": "1", "text": "How often does the gateway retry a request?", "answerable": True},
        {"id": "2", "text": "Which elephants paint watercolours?", "answerable": False},
        {"id": "3", "text": "Perhaps?", "answerability": "underspecified"},
    ]
    qrels = [{"query_id": "1", "relevant_ids": ["a"]}]
    for name, rows in (("corpus", corpus), ("questions", questions), ("qrels", qrels)):
        (path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.mark.long
async def test_d3_answers_are_measured_on_both_sides_with_what_they_cite(tmp_path: Path) -> None:
    """D3, A0-87: follow-ups are measured as they stand and as they are searched for."""
    report = await evaluate_answers(folder_of(tmp_path), KnowledgeSettings(), embedder=HashingEmbedder(dims=256))
    assert (report.questions, report.answerable, report.unanswerable) == (2, 1, 1)
    assert report.false_answer_rate == 0
    assert report.recall_at_1 == 1
    assert report.extractive
    if not report.false_refusal_rate:
        assert (report.citation_precision, report.citation_recall) == (1, 1)


@pytest.mark.long
async def test_a0_81_what_the_criteria_of_questions_bring_is_measured(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, number in (("LINES", 200), ("PAGES", 12), ("EACH", 2)):
        monkeypatch.setattr(criteria, name, number)
    right, times = await criteria.measure(knowledge)
    for kind in ("time", "line", "file", "code"):
        assert right[kind, "criteria too"] == [1.0, 1.0]
    assert sum(right["line", "sense"]) < 2, "what is right is not right whatever is found"
    assert {way: len(took) for way, took in times.items()} == dict.fromkeys(criteria.WAYS, 10)
    assert criteria.rendered(right, times).count("\n") == 7
