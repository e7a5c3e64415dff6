"""Logs, metrics, spans and progress."""
