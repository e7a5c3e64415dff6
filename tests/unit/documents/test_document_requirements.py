"""The table of requirements, and the requirements on how the code itself is made."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from knowledge.documents.answering import profiles
from knowledge.documents.answering.pipeline import GroundedAnswerer
from knowledge.documents.answering.profiles import KBConfig
from knowledge.documents.answering.prompts import MAX_REQUEST_TOKENS
from knowledge.documents.answering.strategies import DirectFinder, KeywordFinder, MultiQueryFinder
from knowledge.documents.models import Profile
from knowledge.settings import KnowledgeSettings
from orchestrator.qa import wrappers as tools
from orchestrator.qa.document_qa_tool import MAX_TOKENS, DocumentQATool
from orchestrator.qa.wrappers import TOOLS
from tests.requirements import IDS, apart, missing, named

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.long
def test_every_requirement_has_a_test_or_a_reason() -> None:
    assert missing(named(), apart()) == []


def test_a_requirement_that_nobody_names_is_missing() -> None:
    tests = {each: ["x"] for each in IDS if each != "A1-17"}
    assert missing(tests, {}) == ["A1-17"]
    assert missing(tests, {"A1-17": "because"}) == []


def test_a0_03_a_kind_of_base_is_a_config_with_the_interface_of_the_design() -> None:
    methods = {"get_collection_name", "format_chunk_metadata", "extract_source_name", "get_citation_format"}
    assert methods | {"format_response"} <= set(dir(KBConfig))
    for tool in TOOLS:
        config = tool.config()
        assert config.system_prompt
        assert config.cache_ttl > 0
        assert isinstance(config.requires_scope_id, bool)


def test_a0_14_x_12_x_29_the_answer_has_500_tokens_and_the_request_room_for_its_quotes() -> None:
    assert MAX_TOKENS == 500
    assert MAX_REQUEST_TOKENS == 1_500
    assert Profile(name="x", system_prompt="").temperature == 0.0
    assert "temperature" in inspect.signature(DocumentQATool.__init__).parameters


def test_f1_f3_the_systems_differ_in_their_finder_and_profile_alone() -> None:
    for finder in (DirectFinder, MultiQueryFinder, KeywordFinder):
        assert list(inspect.signature(finder.find).parameters) == ["self", "query", "scope", "profile"]
    assert list(inspect.signature(GroundedAnswerer.answer).parameters) == [
        "self",
        "request",
        "scope",
        "profile",
        "finder",
    ]


def test_a0_88_a_config_and_a_wrapper_are_small() -> None:
    for tool in TOOLS:
        assert len(inspect.getsource(tool.config).splitlines()) <= 50
        assert len(inspect.getsource(tool).splitlines()) <= 30
    assert "if kb ==" not in inspect.getsource(tools) + inspect.getsource(profiles)


def test_x_23_there_are_four_tools_not_one_merged() -> None:
    assert len(TOOLS) == 4


def test_x_24_no_document_tool_reads_the_learning_memory() -> None:
    for path in (ROOT / "knowledge" / "documents").glob("*.py"):
        assert "knowledge.memory" not in path.read_text(encoding="utf-8"), path.name


def test_a4_30_every_setting_of_answers_is_documented() -> None:
    told = (ROOT / "docs" / "asking.md").read_text(encoding="utf-8")
    names = [name for name in KnowledgeSettings.model_fields if name.startswith(("kb_", "synthesis_", "main_"))]
    names += ["max_document_lookups", "lookup_max_chunks", "require_tool_use", "fallback_similarity_threshold"]
    names += ["top_k_retrievals", "similarity_threshold", "enable_document_selection"]
    for name in names:
        assert f"HARDWON_{name.upper()}" in told, name
