"""What sets the four kinds of knowledge base apart."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from hardwon.errors import InvalidInput
from hardwon.models.documents import Finding, Passage
from knowledge.documents.answering.compose import compose_answer
from knowledge.documents.answering.llm_draft import Draft
from knowledge.documents.answering.profiles import (
    CaseEvidenceConfig,
    GlobalKBConfig,
    KBConfig,
    TeamKBConfig,
    UserKBConfig,
    metadata_of,
)
from knowledge.documents.answering.prompts import block, instructions, question_with_sources
from knowledge.documents.answering.rendering import NOT_IN_THE_KNOWLEDGE_BASE, render_for_base, render_strict
from knowledge.documents.models import Answer, AnswerStatus, Citation
from knowledge.documents.verification.verify import DraftClaim, Evidence, verify
from tests.support.answering import passage
from tests.support.cases import over

WHEN = datetime(2025, 10, 19, 14, 32, 15, tzinfo=UTC)
CONFIGS = [CaseEvidenceConfig(), UserKBConfig(), GlobalKBConfig(), TeamKBConfig()]


def answer_of(found: Passage, *quotes: str, missing: str = "") -> Answer:
    evidence = [Evidence(found, found.text)]
    written = [DraftClaim(text=quote, quotes=((1, quote),)) for quote in quotes]
    verified = verify(written, evidence, "What?")
    assert len(verified.claims) == len(quotes)
    draft = Draft(missing=missing)
    return compose_answer("What?", draft, verified, evidence, Finding(passages=(found,)), extractive=False, dropped=0)


@over(
    "config, scope_id, partition, ttl",
    [
        (CaseEvidenceConfig(), "42", "case_42", 3600),
        (UserKBConfig(), "ann", "user_ann_kb", 86_400),
        (GlobalKBConfig(), None, "global_kb", 604_800),
        (TeamKBConfig(), "payments", "team_payments_kb", 43_200),
    ],
)
def test_a0_30_a0_31_x_05_x_06_names_and_lifetimes(
    config: KBConfig, scope_id: str | None, partition: str, ttl: int
) -> None:
    assert config.get_collection_name(scope_id) == partition
    assert config.cache_ttl == ttl
    assert config.requires_scope_id is (scope_id is not None)
    if config.requires_scope_id:
        with pytest.raises(InvalidInput, match="needs the id"):
            config.get_collection_name(None)


def _bullets(config: KBConfig) -> list[str]:
    return [line.removeprefix("- ") for line in config.system_prompt.splitlines() if line.startswith("- ")]


def test_a0_32_a0_42_the_prompt_of_case_evidence_is_forensic() -> None:
    assert _bullets(CaseEvidenceConfig()) == [
        "Cite exact line numbers and timestamps when available",
        "Include error codes and messages verbatim",
        "Preserve chronological order for events",
        "Distinguish between ERROR, WARN, INFO severity levels",
    ]
    assert "Answer factually with forensic precision:" in CaseEvidenceConfig().system_prompt


def test_a0_32_a0_43_the_prompt_of_a_user_is_procedural() -> None:
    assert _bullets(UserKBConfig()) == [
        "Provide step-by-step instructions when procedures are described",
        "Reference the user's documented procedures by title",
        "Use the user's terminology and naming conventions",
        "Include decision points and troubleshooting flows",
    ]
    assert "Answer with procedural clarity:" in UserKBConfig().system_prompt


def test_a0_32_a0_44_the_global_prompt_is_educational() -> None:
    assert _bullets(GlobalKBConfig()) == [
        "Provide industry-standard approaches",
        "Include multiple options when applicable",
        "Reference official documentation",
        "Cover common pitfalls and gotchas",
    ]
    assert "Answer with general best practices:" in GlobalKBConfig().system_prompt


def test_a0_32_the_prompt_of_a_team_is_of_its_context_and_terminology() -> None:
    assert {"Reference team-specific procedures", "Use team terminology"} <= set(_bullets(TeamKBConfig()))


GUIDANCE = ["line numbers and timestamps", "document titles and sections", "article IDs and titles"]
GUIDANCE += ["document titles and team"]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kb)
def test_a0_08_a0_38_a0_45_a0_46_every_prompt_forbids_all_but_facts(config: KBConfig) -> None:
    told = instructions(f"{config.system_prompt}\n- {config.guidance}", max_tokens=500)
    for rule in ("Do not investigate", "do not recommend", "do not draw conclusions", "only from the sources"):
        assert rule in told
    assert f"- Cite sources accurately with {GUIDANCE[CONFIGS.index(config)]}\n" in told
    assert "Say in missing" in told
    assert config.get_citation_format()


def test_a0_35_a0_37_the_chunk_lines_of_the_design() -> None:
    log = passage("x", name="server.log", title="server.log", line_start=1045, timestamp=WHEN)
    assert CaseEvidenceConfig().format_chunk_metadata(metadata_of(log), 0.94) == (
        "Score: 0.94, Source: server.log, Line: 1045, Time: 2025-10-19T14:32:15Z"
    )
    runbook = passage("x", title="Database Timeout Runbook", category="Procedures")
    assert UserKBConfig().format_chunk_metadata(metadata_of(runbook), 0.89) == (
        "Score: 0.89, Doc: Database Timeout Runbook, Category: Procedures"
    )
    article = passage("x", title="API Timeout Troubleshooting", uri="KB-1234.md", name="KB-1234.md")
    assert GlobalKBConfig().format_chunk_metadata(metadata_of(article), 0.91) == (
        "Score: 0.91, Article: KB-1234, Title: API Timeout Troubleshooting"
    )
    shared = passage("x", partition="team_payments_kb", title="On call")
    assert (
        TeamKBConfig().format_chunk_metadata(metadata_of(shared), 0.5) == "Score: 0.50, Team: payments, Title: On call"
    )


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kb)
def test_a0_41_what_is_not_known_is_left_out(config: KBConfig) -> None:
    assert "None" not in config.format_chunk_metadata(metadata_of(passage("x", title="")), 0.5)


def test_a0_41_passages_are_shown_to_a_model_as_the_design_heads_them() -> None:
    blocks = [block(1, "Score: 0.94, Source: server.log", "one"), block(2, "", "two")]
    told = json.loads(question_with_sources("how many?", blocks))
    shown = [source["text"] for source in told["sources"]]
    assert shown == ["[Chunk 1 - Score: 0.94, Source: server.log]\none\n", "[Chunk 2]\ntwo\n"]


LOG = "2025-10-19T14:32:15Z ERROR ConnectionTimeout: Database connection failed after 30000ms"


@pytest.mark.parametrize(
    ("config", "known", "citation", "footer"),
    [
        (
            CaseEvidenceConfig(),
            {"name": "server.log", "line_start": 1045, "timestamp": WHEN},
            "server.log:1045 (14:32:15Z)",
            "Sources: server.log (1 chunk, 94% relevance)",
        ),
        (
            UserKBConfig(),
            {"title": "Database Timeout Runbook", "section": "3"},
            '"Database Timeout Runbook" section 3',
            "From your runbooks: Database Timeout Runbook (1 chunk, 94% relevance)",
        ),
        (
            GlobalKBConfig(),
            {"title": "API Performance Guide", "uri": "KB-1234.md"},
            'KB-1234 "API Performance Guide"',
            "Knowledge Base: API Performance Guide (1 chunk, 94% relevance)",
        ),
        (
            TeamKBConfig(),
            {"title": "On call", "partition": "team_pay_kb"},
            '"On call" (team pay)',
            "From your team's documents: On call (1 chunk, 94% relevance)",
        ),
    ],
    ids=lambda told: told.kb if isinstance(told, KBConfig) else "",
)
def test_a0_36_a0_39_a0_47_citations_and_footers(
    config: KBConfig, known: dict[str, Any], citation: str, footer: str
) -> None:
    found = passage(LOG, relevance=0.94, **known)
    text = render_for_base(config, answer_of(found, LOG), found.partition)
    assert text == f"{LOG} [{citation}]\n\n{footer}"


@over(
    "section, cited", [("Runbook > Step 2", '"Runbook" section Step 2'), ("Runbook", '"Runbook"'), (None, '"Runbook"')]
)
def test_a0_36_a_section_is_not_named_by_the_title_before_it(section: str | None, cited: str) -> None:
    found = passage(LOG, title="Runbook", section=section)
    assert f"[{cited}]" in render_for_base(UserKBConfig(), answer_of(found, LOG), found.partition)


@over(
    "config, word", list(zip(CONFIGS, ["this case", "Your runbooks", "The knowledge base", "The team's"], strict=True))
)
def test_a0_52_x_11_no_answer_speaks_of_its_own_base_and_names_what_is_missing(config: KBConfig, word: str) -> None:
    nothing = Answer(status=AnswerStatus.NOT_FOUND, question="?", text="", missing="the port")
    assert word in config.nothing(nothing)
    assert config.nothing(nothing).endswith("Missing: the port")
    assert config.nothing(replace(nothing, status=AnswerStatus.EMPTY_SCOPE)).startswith("No documents found.")


def test_a1_16_a1_17_not_found_is_one_sentence_and_nothing_else() -> None:
    told = render_strict(Answer(status=AnswerStatus.NOT_FOUND, question="?", text="", missing="everything"))
    assert told == NOT_IN_THE_KNOWLEDGE_BASE == "I don't have information about this in the knowledge base"


def test_a1_18_an_answer_says_according_to_what_and_ends_with_its_sources() -> None:
    found = passage("Ask the admin for a service user. It takes a day.", title="Gerrit Service User Creation")
    told = render_strict(answer_of(found, "Ask the admin for a service user.", "It takes a day."))
    assert told == (
        "According to [Gerrit Service User Creation], Ask the admin for a service user.\nIt takes a day.\n\n"
        "Sources: [Gerrit Service User Creation]"
    )


def test_citations_are_numbered_by_first_use_and_know_their_line() -> None:
    found = passage("first line\nsecond line here\nthird line here", line_start=10)
    cited: tuple[Citation, ...] = answer_of(found, "third line here", "second line here").citations
    assert [(each.number, each.line_start, each.quote) for each in cited] == [
        (1, 12, "third line here"),
        (1, 11, "second line here"),
    ]
