"""OpenTelemetry: a span for each step, within that of the step around it, and not a word of what is stored."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from hardwon.errors import InvalidInput, InvalidSetting
from knowledge.models import Task
from knowledge.runtime.instrumentation import observe
from knowledge.wiring.open import Knowledge
from orchestrator import OrchestratorContextBuilder
from orchestrator.observability.metrics import STAGES
from orchestrator.observability.otel import _exporter_names, tracing
from orchestrator.observability.spans import Spans
from tests.support.cases import case_by_case
from tests.support.embedders import HashingEmbedder
from tests.support.entries import failure
from tests.support.openai_server import OpenAIServer
from tests.support.processes import Commands, embedding_by, entry, free_port

SITUATION = str(entry()["failure_description"])
WORDS = ("cart", "price", "zero", "KeyError", "web-shop", "backend", "nowhere")
"""Of what is stored and asked in these tests."""


@contextmanager
def spans_of() -> Iterator[InMemorySpanExporter]:
    """Export the spans of a block into memory."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with observe(Spans(provider)):
        yield exporter
    provider.shutdown()


def within(spans: tuple[ReadableSpan, ...], name: str) -> list[str]:
    """Return the names of the spans right within one, as they ended."""
    (outer,) = [span for span in spans if span.name == name]
    assert outer.context is not None
    return [span.name for span in spans if span.parent and span.parent.span_id == outer.context.span_id]


@pytest.mark.long
async def test_the_loop_is_told_in_spans_each_within_the_step_that_took_it(
    knowledge: Knowledge,
) -> None:
    with spans_of() as exported:
        await knowledge.capture.capture(failure(failure_description=SITUATION))
        await knowledge.checkpoints.process_checkpoint("web-shop", "phase_completion")
        await OrchestratorContextBuilder(knowledge).build_context_for_task(Task(description=SITUATION), "backend")
    spans = exported.get_finished_spans()
    assert within(spans, "hardwon.capture") == ["hardwon.store_entries"]
    assert within(spans, "hardwon.checkpoint") == ["hardwon.embed_batch", "hardwon.store_batch"]
    assert within(spans, "hardwon.context") == ["hardwon.query_for_task"]
    assert set(within(spans, "hardwon.query_for_task")) == {f"hardwon.{stage}" for stage in STAGES}
    (checkpoint,) = [span for span in spans if span.name == "hardwon.checkpoint"]
    assert checkpoint.attributes is not None
    assert checkpoint.attributes["hardwon.embedded"] == 1
    assert checkpoint.attributes["hardwon.checkpoint_type"] == "phase_completion"


@pytest.mark.long
async def test_no_span_holds_a_word_of_what_is_stored_or_asked_not_even_of_an_error(
    knowledge: Knowledge, embedder: HashingEmbedder
) -> None:
    with spans_of() as exported:
        await knowledge.capture.capture(failure(failure_description=SITUATION))
        await knowledge.checkpoints.process_checkpoint("web-shop", "manual")
        await knowledge.queries.query_for_failure(SITUATION, "KeyError: 'price'", "backend")
        with pytest.raises(InvalidInput):
            await knowledge.queries.query_for_task(f"{SITUATION}\0")
        embedder.unavailable = "nowhere: the price of a cart"
        await OrchestratorContextBuilder(knowledge).build_context_for_task(Task(description=SITUATION), "backend")
    spans = exported.get_finished_spans()
    told = "\n".join(span.to_json() for span in spans)
    assert [word for word in WORDS if word in told] == []
    failed = {span.name: span.status.description for span in spans if span.status.status_code is StatusCode.ERROR}
    assert failed["hardwon.query_for_task"] in {"InvalidInput", "EmbedderUnavailable"}
    assert failed["hardwon.embedding"] == "EmbedderUnavailable"


@pytest.mark.long
def test_without_being_asked_for_nothing_of_it_is_loaded() -> None:
    script = (
        "import sys, orchestrator, orchestrator.context.builder, knowledge.wiring.open;"
        "from orchestrator.observability.otel import _exporter_names, tracing;"
        "assert tracing({}).__enter__() == ();"
        "watching = ('opentelemetry', 'orchestrator.observability.spans');"
        "print([name for name in sys.modules if name.startswith(watching)])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


@case_by_case
def test_an_exporter_that_is_not_installed_is_named_with_what_to_install(told: dict[str, str], asked: str) -> None:
    with pytest.raises(InvalidSetting, match=asked), tracing(told):
        pass


@pytest.mark.parametrize(
    "told",
    [{}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "console"}],
)
def test_a_server_traces_only_where_it_is_asked_to(told: dict[str, str]) -> None:
    with tracing(told) as watchers:
        assert watchers == ()


def test_a_server_sends_to_each_exporter_of_a_list_and_to_none_twice() -> None:
    with (
        pytest.raises(InvalidSetting, match="opentelemetry-exporter-nobodys"),
        tracing({"OTEL_TRACES_EXPORTER": "console, nobodys"}),
    ):
        pass
    assert _exporter_names({"OTEL_TRACES_EXPORTER": "console,otlp, console,none,"}) == ["console", "otlp_proto_http"]


@pytest.mark.long
def test_a_variable_that_the_sdk_refuses_stops_the_start_and_is_named(home: Path, database_url: str) -> None:
    name = "OTEL_BSP_MAX_QUEUE_SIZE"
    asked = {name: "-1", "OTEL_TRACES_EXPORTER": "console", "HARDWON_DATABASE_URL": database_url}
    sentence = Commands(home).refused("serve", "--port", str(free_port()), **asked)
    assert sentence.startswith(f"{name}, OTEL_TRACES_EXPORTER: the OpenTelemetry SDK refuses one of these:"), sentence


@pytest.mark.long
def test_a_server_with_the_standard_settings_sends_the_spans_of_a_request(home: Path, database_url: str) -> None:
    with OpenAIServer() as endpoint:
        settings = {"HARDWON_DATABASE_URL": database_url, **embedding_by(endpoint), "OTEL_TRACES_EXPORTER": "console"}
        with Commands(home, settings).serving() as (running, url):
            trace = "0af7651916cd43dd8448eb211c80319c"
            asked = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
            assert httpx.post(f"{url}/v1/entries", json=entry(), headers=asked).status_code == 201
            code, out, err = running.end(signal.SIGTERM)
    assert code == 0, err
    spans = _documents(out)
    captured = next(span for span in spans if span["name"] == "hardwon.capture")
    assert captured["context"]["trace_id"] == f"0x{trace}"  # what asked and what was done are one trace
    assert captured["resource"]["attributes"]["service.name"] == "hardwon"
    assert "missing price" not in out


def _documents(text: str) -> list[dict[str, Any]]:
    """Return the JSON documents that follow one another in a text."""
    decoder, found, place = json.JSONDecoder(), [], text.find("{")
    while place >= 0:
        document, end = decoder.raw_decode(text, place)
        found.append(document)
        place = text.find("{", end)
    return found
