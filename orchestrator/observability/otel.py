"""Tracing of `hardwon serve`, switched on by the standard OTEL_* variables."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.metadata import entry_points

from hardwon.errors import InvalidSetting
from hardwon.installation import install_command
from knowledge.runtime.instrumentation import SpanObserver

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


@contextmanager
def tracing(environment: Mapping[str, str]) -> Iterator[tuple[SpanObserver, ...]]:
    """Yield the observers that make spans of steps; none unless the OTEL_* variables ask for traces.

    At the end the spans that are left are sent. Raises InvalidSetting, which names the package to install if one is
    missing, or the variables if the SDK refuses their values.
    """
    exporters = _exporter_names(environment)
    if not exporters:
        yield ()
        return
    try:
        with _translate_sdk_errors(environment):  # some variables are read at import
            sdk = importlib.import_module("opentelemetry.sdk.trace")
            export = importlib.import_module("opentelemetry.sdk.trace.export")
            resources = importlib.import_module("opentelemetry.sdk.resources")
    except ImportError as error:
        raise InvalidSetting(
            "OTEL_TRACES_EXPORTER",
            "asks for traces, which takes an extra: "
            f"{install_command('otel', more='opentelemetry-exporter-otlp-proto-http')}",
        ) from error
    from opentelemetry import trace  # noqa: PLC0415 - an optional dependency

    from orchestrator.observability.spans import Spans  # noqa: PLC0415

    attributes = {} if environment.get("OTEL_SERVICE_NAME") else {"service.name": "hardwon"}
    with ExitStack() as stack:
        with _translate_sdk_errors(environment):
            provider = sdk.TracerProvider(resource=resources.Resource.create(attributes))
            stack.callback(provider.shutdown)
            for exporter in exporters:
                provider.add_span_processor(export.BatchSpanProcessor(_make_exporter(exporter)))
        trace.set_tracer_provider(provider)
        yield (Spans(provider),)


def _exporter_names(environment: Mapping[str, str]) -> list[str]:
    """Return the names of the exporters that the variables ask for."""

    def value_of(*names: str) -> str:
        return next((value for name in names if (value := environment.get(name, "").strip().lower())), "")

    if value_of("OTEL_SDK_DISABLED") == "true":
        return []
    exporters = value_of("OTEL_TRACES_EXPORTER") or ("otlp" if value_of(*_ENDPOINTS) else "none")
    names = dict.fromkeys(each.strip() for each in exporters.split(","))
    otlp = "otlp_proto_grpc" if value_of(*_PROTOCOLS) == "grpc" else "otlp_proto_http"
    return [otlp if each == "otlp" else each for each in names if each not in {"", "none"}]


@contextmanager
def _translate_sdk_errors(environment: Mapping[str, str]) -> Iterator[None]:
    """Raise InvalidSetting with the names of all OTEL_* variables: the SDK's error names only its own parameter."""
    try:
        yield
    except InvalidSetting:
        raise
    except ValueError as error:
        names = sorted(name for name in environment if name.startswith("OTEL_"))
        raise InvalidSetting(", ".join(names), f"the OpenTelemetry SDK refuses one of these: {error}") from error


def _make_exporter(name: str) -> object:
    candidates = entry_points(group="opentelemetry_traces_exporter", name=name)
    try:
        return next(iter(candidates)).load()()
    except (StopIteration, ImportError) as error:
        package = f"opentelemetry-exporter-{name.replace('_', '-')}"
        raise InvalidSetting(
            "OTEL_TRACES_EXPORTER", f"names the exporter {name!r}, which is not installed: pip install {package}"
        ) from error
