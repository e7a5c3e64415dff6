"""Whether `hardwon serve` tells of its work in traces: the standard OTEL_* variables say so, and where to."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.metadata import entry_points

from knowledge.errors import InvalidSetting
from knowledge.steps import SpanObserver

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


@contextmanager
def tracing(environment: Mapping[str, str]) -> Iterator[tuple[SpanObserver, ...]]:
    """Give the watchers that make spans of steps, none unless the OTEL_* variables ask for them.

    At the end what was not sent yet is sent. Raises InvalidSetting, naming what to install, where something lacks, and
    the variables where the SDK refuses what they hold.
    """
    exporters = _asked_for(environment)
    if not exporters:
        yield ()
        return
    try:
        with _refused(environment):  # some are read as it loads
            sdk = importlib.import_module("opentelemetry.sdk.trace")
            export = importlib.import_module("opentelemetry.sdk.trace.export")
            resources = importlib.import_module("opentelemetry.sdk.resources")
    except ImportError as error:
        raise InvalidSetting(
            "OTEL_TRACES_EXPORTER",
            "asks for traces: pip install 'hardwon[otel]' opentelemetry-exporter-otlp-proto-http",
        ) from error
    from opentelemetry import trace  # noqa: PLC0415 - loaded where traces are asked for

    from orchestrator.traces import Spans  # noqa: PLC0415

    named = {} if environment.get("OTEL_SERVICE_NAME") else {"service.name": "hardwon"}
    with ExitStack() as sending:
        with _refused(environment):
            provider = sdk.TracerProvider(resource=resources.Resource.create(named))
            sending.callback(provider.shutdown)
            for exporter in exporters:
                provider.add_span_processor(export.BatchSpanProcessor(_exporter(exporter)))
        trace.set_tracer_provider(provider)
        yield (Spans(provider),)


def _asked_for(environment: Mapping[str, str]) -> list[str]:
    """Return the names of the exporters that the variables ask for."""

    def told(*names: str) -> str:
        return next((value for name in names if (value := environment.get(name, "").strip().lower())), "")

    if told("OTEL_SDK_DISABLED") == "true":
        return []
    named = told("OTEL_TRACES_EXPORTER") or ("otlp" if told(*_ENDPOINTS) else "none")
    asked = dict.fromkeys(each.strip() for each in named.split(","))
    otlp = "otlp_proto_grpc" if told(*_PROTOCOLS) == "grpc" else "otlp_proto_http"
    return [otlp if each == "otlp" else each for each in asked if each not in {"", "none"}]


@contextmanager
def _refused(environment: Mapping[str, str]) -> Iterator[None]:
    """Name the variables among which one is that the SDK refuses, as it names only its own parameter."""
    try:
        yield
    except InvalidSetting:
        raise
    except ValueError as error:
        told = sorted(name for name in environment if name.startswith("OTEL_"))
        raise InvalidSetting(", ".join(told), f"one of these the OpenTelemetry SDK refuses: {error}") from error


def _exporter(name: str) -> object:
    found = entry_points(group="opentelemetry_traces_exporter", name=name)
    try:
        return next(iter(found)).load()()
    except (StopIteration, ImportError) as error:
        package = f"opentelemetry-exporter-{name.replace('_', '-')}"
        raise InvalidSetting(
            "OTEL_TRACES_EXPORTER", f"asks for the exporter {name!r}, which is not here: pip install {package}"
        ) from error
