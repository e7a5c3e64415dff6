"""Shared parts of commands: sessions, options, terminal, signals."""
