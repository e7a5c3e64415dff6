"""The API and its OpenAPI document: examples that fit it, and a short run of `python -m tests.contract_http`."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from pydantic import TypeAdapter

from hardwon import errors
from hardwon.client.transport import PROBLEM
from knowledge.wiring.open import Knowledge
from orchestrator.http.app import make_app
from orchestrator.http.middleware.problems import Problem
from orchestrator.http.openapi.document import ANSWERS, PROBLEMS, REQUESTS
from tests.contract_http import ABROAD, database, try_out


@pytest.fixture
def document(knowledge: Knowledge) -> dict[str, Any]:
    return make_app(knowledge).openapi()


COUNTS_AND_FLAGS = frozenset({
    "answer_metrics", "calibrate_documents", "close_case", "count_unusable_keys", "delete_documents", "delete_project",
    "delete_user_documents", "forget_source", "healthz", "holds_anything", "import_archive", "index_documents",
    "keep_local", "list_members", "locality", "progress", "prune", "readyz", "rebuild", "rebuild_layout", "retry_dead",
    "retry_documents", "revoke_access", "run_one_job", "verify", "workspaces",
})  # fmt: skip
"""Operations whose answer needs no example."""


def operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [told for methods in document["paths"].values() for told in methods.values()]


def test_every_operation_has_examples_of_what_it_takes_and_of_each_answer_that_needs_one(
    document: dict[str, Any],
) -> None:
    for told in operations(document):
        name = told["operationId"]
        for kind in told.get("requestBody", {}).get("content", {}).values():
            assert "example" in kind or kind["schema"].get("format") == "binary", name
        for status, response in told["responses"].items():
            for media, kind in response.get("content", {}).items():
                is_binary = kind["schema"].get("format") == "binary"
                plain = status < "3" and (is_binary or name in COUNTS_AND_FLAGS | {"export_archive"})
                assert ("example" in kind) is not plain, (name, status)
                assert media == (PROBLEM if status >= "4" else media), (name, status)
            assert "X-Request-ID" in response["headers"]
            assert ("Retry-After" in response["headers"]) is (status in {"429", "503"})
        for parameter in told.get("parameters", ()):
            assert "example" in parameter or not parameter["required"], (name, parameter["name"])
        assert ("security" in told) == bool(told["security"] or name in {"healthz", "readyz"})


@pytest.mark.long
def test_every_example_fits_the_schema_it_stands_beside(knowledge: Knowledge) -> None:
    app = make_app(knowledge)
    app.openapi()
    compared = 0
    for route in app.routes:
        if not getattr(route, "include_in_schema", False):
            continue
        name = getattr(route, "name", "")
        body = getattr(route, "body_field", None)
        if name in REQUESTS and body is not None:
            TypeAdapter(body.field_info.annotation).validate_json(json.dumps(REQUESTS[name]))
            compared += 1
        answer = getattr(route, "response_model", None)
        if name in ANSWERS and answer is not None:
            TypeAdapter(answer).validate_json(json.dumps(ANSWERS[name]))
            compared += 1
    for status, problem in PROBLEMS.items():
        told = TypeAdapter(Problem).validate_python(problem)
        assert told.status == status
        assert issubclass(getattr(errors, told.title), errors.HardwonError)
    assert compared == len(REQUESTS) + len(ANSWERS) - 3  # one is a file, and two are OTLP's own


@pytest.mark.long
@pytest.mark.timeout(200)
def test_generated_requests_meet_no_server_error_no_mismatch_and_no_open_door(postgres_dsn: str) -> None:
    """T6, T17, D46: a few requests an operation; `python -m tests.contract_http` tries a hundred a phase."""
    code, said = try_out(asyncio.run(database(postgres_dsn)), examples=2, phases="examples,fuzzing", seed=20_261)
    assert code == 0, said
    (selected,) = re.findall(r"(\d+) selected / (\d+) total", said)
    assert int(selected[1]) - int(selected[0]) == len(ABROAD), said
