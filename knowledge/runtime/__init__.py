"""Logging, instrumentation and cooperative scheduling."""
