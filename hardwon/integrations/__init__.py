"""Integrations of agent frameworks and telemetry; each needs its own extra, such as `hardwon[langgraph]`."""
