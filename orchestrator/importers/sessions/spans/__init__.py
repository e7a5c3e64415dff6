"""Spans of OpenTelemetry as runs of agents: the tools that they called, and where they wait until a trace has ended."""
